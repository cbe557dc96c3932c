//! A session store for one access: typed, over the task's bytes.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use millpond_store_api as store;
use store::{Direction, Session};

use crate::error::{Error, ErrorKind, Result};
use crate::serde::Windowed;
use crate::store::expiry::{expiring, observed};
use crate::store::kind::Opened;
use crate::store::window::times;
use crate::store::windowed::{Layout, Span, SpanKeys, WindowedRows};
use crate::store::{Mode, Serdes, StoreView, Values, Writable};

/// Reads and writes, or [reads only](crate::ReadOnly), a session store: a value for each key and session. A session is a [`Windowed`] key whose end, the time of
/// its last record, belongs to it.
///
/// # Time
///
/// All times are event times in milliseconds since 1970 (UTC). The store has *observed* the greatest end that was put or
/// removed, or a later time if its task has seen one. A session is there exactly while `end > observed − retention`, to the
/// millisecond and on every engine. What has expired is not put: then [`SessionView::put`] answers false, and a dropped
/// record is counted.
///
/// # Order
///
/// Sessions come in the order of their keys' bytes, those of one key in the order of their ends, then of their starts. The
/// `backward` scans are the exact mirror. What happens to a scan under which the store is written is told by [`WindowedRows`].
///
/// ```
/// use std::time::Duration;
/// use millpond_topology::*;
///
/// const GAP: i64 = 30 * 60_000;
///
/// /// Counts the clicks of each visit: clicks that are half an hour apart at most.
/// struct Visits(StoreRef<Session<String, i64>>);
///
/// impl Processor for Visits {
///     type In = Record<String, String>;
///     type Out = Record<Windowed<String>, i64>;
///
///     fn process(&mut self, cx: &mut Context<'_, Self>, click: Self::In) -> Result {
///         let Record { key, timestamp, .. } = click;
///         let mut visit = Windowed { key, start: timestamp, end: timestamp };
///         let mut clicks = 1;
///         let mut near = cx.store(&self.0)?.find_sessions(&visit.key, timestamp - GAP, timestamp + GAP)?;
///         while let Some((session, count)) = near.next(cx)? {
///             (visit.start, visit.end) = (visit.start.min(session.start), visit.end.max(session.end));
///             clicks += count;
///             cx.store(&self.0)?.remove(&session)?;
///         }
///         if cx.store(&self.0)?.put(&visit, &clicks)? {
///             cx.forward(Record::new(visit, clicks, timestamp))?;
///         }
///         Ok(())
///     }
/// }
///
/// let mut builder = Topology::builder();
/// let visits = builder.add_store(StoreSpec::session("visits", Duration::from_secs(86_400), Utf8, I64));
/// builder
///     .stream("clicks", Consumed::with(Utf8, Utf8))
///     .process(&visits, |_, visits| Ok(Visits(visits)))
///     .to("visits", Produced::with(SessionWindowed(Utf8), I64));
/// # builder.build().unwrap();
/// ```
pub struct SessionView<'a, K, C, M = Writable> {
    inner: StoreView<'a, K, C>,
    mode: PhantomData<M>,
}

impl<K, C, M> std::fmt::Debug for SessionView<'_, K, C, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionView").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

impl<'a, K: 'static, C: Values, M: Mode> SessionView<'a, K, C, M> {
    pub(crate) fn new(opened: Opened<'a>, serdes: &'a Serdes<K, C>) -> Self {
        Self { inner: StoreView::new(opened, serdes), mode: PhantomData }
    }

    /// The value of exactly this session.
    pub fn fetch_session(&mut self, key: &K, start: i64, end: i64) -> Result<Option<C::Value>> {
        self.inner.write_key(key)?;
        let StoreView { access, bytes, row, serdes, .. } = &mut self.inner;
        let (mut space, expiry) = expiring(access)?;
        let mut session = Session::new(&mut space, expiry.store, expiry.retention, *expiry.observed)
            .with_buffer(std::mem::take(*row));
        let found = session.fetch_session(bytes, start, end)?;
        let value = found.map(|value| serdes.values().decode(value)).transpose()?;
        **row = session.into_buffer();
        Ok(value)
    }

    /// All sessions of a key.
    pub fn fetch(&mut self, key: &K) -> Result<WindowedRows<K, C>> {
        self.find_sessions(key, i64::MIN, i64::MAX)
    }

    /// As [`SessionView::fetch`], the last first.
    pub fn backward_fetch(&mut self, key: &K) -> Result<WindowedRows<K, C>> {
        self.backward_find_sessions(key, i64::MIN, i64::MAX)
    }

    /// All sessions between two keys.
    ///
    /// An error if the key's serde does not sort as the keys do, as for [`StoreView::range`].
    pub fn fetch_range(&mut self, keys: impl RangeBounds<K>) -> Result<WindowedRows<K, C>> {
        self.find_sessions_range(keys, i64::MIN, i64::MAX)
    }

    /// As [`SessionView::fetch_range`], the last first.
    pub fn backward_fetch_range(&mut self, keys: impl RangeBounds<K>) -> Result<WindowedRows<K, C>> {
        self.backward_find_sessions_range(keys, i64::MIN, i64::MAX)
    }

    /// The sessions of a key that end at or after `earliest_end` and start at or before `latest_start`: those that overlap
    /// with the time between. With a gap on either side of a record's time they are those that the record belongs to.
    pub fn find_sessions(&mut self, key: &K, earliest_end: i64, latest_start: i64) -> Result<WindowedRows<K, C>> {
        self.one(key, earliest_end, latest_start, Direction::Forward)
    }

    /// As [`SessionView::find_sessions`], the last first.
    pub fn backward_find_sessions(
        &mut self,
        key: &K,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<WindowedRows<K, C>> {
        self.one(key, earliest_end, latest_start, Direction::Reverse)
    }

    /// As [`SessionView::find_sessions`], between two keys; an error as for [`SessionView::fetch_range`].
    pub fn find_sessions_range(
        &mut self,
        keys: impl RangeBounds<K>,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<WindowedRows<K, C>> {
        let keys = SpanKeys::Between(self.inner.serdes.bounds(&keys)?);
        self.scan(keys, (earliest_end, i64::MAX), latest_start, Direction::Forward)
    }

    /// As [`SessionView::find_sessions_range`], the last first.
    pub fn backward_find_sessions_range(
        &mut self,
        keys: impl RangeBounds<K>,
        earliest_end: i64,
        latest_start: i64,
    ) -> Result<WindowedRows<K, C>> {
        let keys = SpanKeys::Between(self.inner.serdes.bounds(&keys)?);
        self.scan(keys, (earliest_end, i64::MAX), latest_start, Direction::Reverse)
    }

    /// The sessions of all keys that end in a range of times: what to look at once a time has passed.
    pub fn fetch_all(&mut self, ends: impl RangeBounds<i64>) -> Result<WindowedRows<K, C>> {
        self.scan(SpanKeys::ALL, times(&ends), i64::MAX, Direction::Forward)
    }

    /// As [`SessionView::fetch_all`], the last first.
    pub fn backward_fetch_all(&mut self, ends: impl RangeBounds<i64>) -> Result<WindowedRows<K, C>> {
        self.scan(SpanKeys::ALL, times(&ends), i64::MAX, Direction::Reverse)
    }

    /// All sessions.
    pub fn all(&mut self) -> Result<WindowedRows<K, C>> {
        self.fetch_all(..)
    }

    /// All sessions, the last first.
    pub fn backward_all(&mut self) -> Result<WindowedRows<K, C>> {
        self.backward_fetch_all(..)
    }

    /// What the store has observed (milliseconds since 1970): a session is there while its end is greater than this minus the
    /// retention. -1 before the first record.
    pub fn observed(&self) -> i64 {
        observed(&self.inner.access)
    }

    fn one(&mut self, key: &K, earliest_end: i64, latest_start: i64, d: Direction) -> Result<WindowedRows<K, C>> {
        self.inner.write_key(key)?;
        let keys = SpanKeys::One(self.inner.bytes.clone());
        self.scan(keys, (earliest_end, i64::MAX), latest_start, d)
    }

    fn scan(
        &mut self,
        keys: SpanKeys,
        (from, to): (i64, i64),
        latest_start: i64,
        direction: Direction,
    ) -> Result<WindowedRows<K, C>> {
        self.inner.windowed_rows(Span { layout: Layout::Sessions, keys, from, to, latest_start, direction })
    }
}

impl<K: 'static, C: Values> SessionView<'_, K, C> {
    /// Sets the value of a session. A value that stands for null removes it. Answers false if it has expired: then nothing is
    /// written.
    ///
    /// An error if the session begins before 1970 or ends before it begins: its key in the changelog could not be read back.
    pub fn put(&mut self, session: &Windowed<K>, value: &C::Value) -> Result<bool> {
        self.write(session, Some(value))
    }

    /// Removes a session; reads nothing. Answers false if it has expired. An error as for [`SessionView::put`].
    pub fn remove(&mut self, session: &Windowed<K>) -> Result<bool> {
        self.write(session, None)
    }

    fn write(&mut self, session: &Windowed<K>, value: Option<&C::Value>) -> Result<bool> {
        let Windowed { key, start, end } = session;
        if *start < 0 || end < start {
            return Err(no_session(*start, *end));
        }
        self.inner.write_expiring(key, value, |space, expiry, buffer, key, value| {
            let mut session = Session::new(space, expiry.store, expiry.retention, *expiry.observed)
                .with_buffer(std::mem::take(buffer));
            let put = session.put(key, *start, *end, value)?;
            *expiry.observed = session.observed();
            *buffer = session.into_buffer();
            Ok(put)
        })
    }
}

#[cold]
fn no_session(start: i64, end: i64) -> Error {
    Error::new(ErrorKind::Serialization, "put a session")
        .with("cause", "it begins before 1970, or ends before it begins")
        .with("start", start)
        .with("end", end)
}
