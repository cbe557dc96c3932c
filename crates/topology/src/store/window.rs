//! A window store for one access: typed, over the task's bytes.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use millpond_store_api as store;
use store::{Direction, Window};

use crate::error::{Error, ErrorKind, Result};
use crate::store::expiry::{expiring, observed};
use crate::store::kind::Opened;
use crate::store::windowed::{Layout, Span, SpanKeys, WindowedRows};
use crate::store::{Mode, Serdes, StoreView, Values, Writable};

/// Reads and writes, or [reads only](crate::ReadOnly), a window store: a value for each key and window start.
///
/// # Time
///
/// All times are event times in milliseconds since 1970 (UTC). The store has *observed* the greatest start that was put into
/// it, or a later time if its task has seen one. A row is there exactly while `start > observed − retention`, to the
/// millisecond and on every engine. What has expired is not put: then [`WindowView::put`] answers false, and a dropped record
/// is counted.
///
/// # Order
///
/// Rows come in the order of their keys' bytes, those of one key in the order of their starts, duplicates as they were put.
/// The `backward` scans are the exact mirror. What happens to a scan under which the store is written is told by
/// [`WindowedRows`].
///
/// # Duplicates
///
/// A store that [retains duplicates](crate::StoreSpec::retain_duplicates) keeps every value that is put for a key and start.
/// [`WindowView::get`] gives the one that was put last; deleting does nothing.
///
/// ```
/// use std::time::Duration;
/// use millpond_topology::*;
///
/// /// Counts in windows of a minute, and tells how many there were in the last five.
/// struct Count(StoreRef<TimestampedWindow<String, i64>>);
///
/// impl Processor for Count {
///     type In = Record<String, String>;
///     type Out = Record<String, i64>;
///
///     fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
///         let start = record.timestamp - record.timestamp % 60_000;
///         let mut counts = cx.store(&self.0)?;
///         let value = counts.get(&record.key, start)?.map_or(0, |count| count.value) + 1;
///         counts.put(&record.key, start, &ValueAndTimestamp { value, timestamp: record.timestamp })?;
///
///         let mut rows = counts.fetch(&record.key, start - 240_000..=start)?;
///         let mut sum = 0;
///         while let Some((_, count)) = rows.next(cx)? {
///             sum += count.value;
///         }
///         cx.forward(record.with_value(sum))
///     }
/// }
///
/// let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
/// let mut builder = Topology::builder();
/// let counts = builder.add_store(StoreSpec::timestamped_window("counts", hour, minute, Utf8, I64));
/// builder
///     .stream("clicks", Consumed::with(Utf8, Utf8))
///     .process(&counts, |_, counts| Ok(Count(counts)))
///     .to("last-five-minutes", Produced::with(Utf8, I64));
/// # builder.build().unwrap();
/// ```
pub struct WindowView<'a, K, C, M = Writable> {
    inner: StoreView<'a, K, C>,
    windows: Windows,
    mode: PhantomData<M>,
}

/// What the views of a window store have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// In milliseconds.
    pub(crate) size: i64,
    pub(crate) duplicates: bool,
}

/// The serdes of a window store, and what else its views need.
pub struct WindowSerdes<K, C> {
    pub(crate) serdes: Serdes<K, C>,
    pub(crate) windows: Windows,
}

impl<K, C> Clone for WindowSerdes<K, C> {
    fn clone(&self) -> Self {
        Self { serdes: self.serdes.clone(), windows: self.windows }
    }
}

impl<K, C> std::fmt::Debug for WindowSerdes<K, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowSerdes").field("windows", &self.windows).finish_non_exhaustive()
    }
}

impl<K, C, M> std::fmt::Debug for WindowView<'_, K, C, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowView").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

impl<'a, K: 'static, C: Values, M: Mode> WindowView<'a, K, C, M> {
    pub(crate) fn new(opened: Opened<'a>, serdes: &'a WindowSerdes<K, C>) -> Self {
        Self { inner: StoreView::new(opened, &serdes.serdes), windows: serdes.windows, mode: PhantomData }
    }

    /// The value of a key in the window that begins at `start`; of duplicates the one that was put last.
    pub fn get(&mut self, key: &K, start: i64) -> Result<Option<C::Value>> {
        self.inner.write_key(key)?;
        let StoreView { access, bytes, row, serdes, .. } = &mut self.inner;
        let (mut space, expiry) = expiring(access)?;
        let (store, retention, now) = (expiry.store, expiry.retention, *expiry.observed);
        let mut window =
            Window::new(&mut space, store, retention, self.windows.duplicates, now).with_buffer(std::mem::take(*row));
        let value = window.get(bytes, start)?.map(|value| serdes.values().decode(value)).transpose()?;
        **row = window.into_buffer();
        Ok(value)
    }

    /// The rows of a key whose windows begin in a range of times, the earliest first.
    pub fn fetch(&mut self, key: &K, starts: impl RangeBounds<i64>) -> Result<WindowedRows<K, C>> {
        self.one(key, &starts, Direction::Forward)
    }

    /// As [`WindowView::fetch`], the latest first.
    pub fn backward_fetch(&mut self, key: &K, starts: impl RangeBounds<i64>) -> Result<WindowedRows<K, C>> {
        self.one(key, &starts, Direction::Reverse)
    }

    /// The rows between two keys whose windows begin in a range of times.
    ///
    /// An error if the key's serde does not sort as the keys do, as for [`StoreView::range`].
    pub fn fetch_range(
        &mut self,
        keys: impl RangeBounds<K>,
        starts: impl RangeBounds<i64>,
    ) -> Result<WindowedRows<K, C>> {
        self.between(&keys, &starts, Direction::Forward)
    }

    /// As [`WindowView::fetch_range`], the last first.
    pub fn backward_fetch_range(
        &mut self,
        keys: impl RangeBounds<K>,
        starts: impl RangeBounds<i64>,
    ) -> Result<WindowedRows<K, C>> {
        self.between(&keys, &starts, Direction::Reverse)
    }

    /// The rows of all keys whose windows begin in a range of times.
    pub fn fetch_all(&mut self, starts: impl RangeBounds<i64>) -> Result<WindowedRows<K, C>> {
        self.between(&.., &starts, Direction::Forward)
    }

    /// As [`WindowView::fetch_all`], the last first.
    pub fn backward_fetch_all(&mut self, starts: impl RangeBounds<i64>) -> Result<WindowedRows<K, C>> {
        self.between(&.., &starts, Direction::Reverse)
    }

    /// All rows.
    pub fn all(&mut self) -> Result<WindowedRows<K, C>> {
        self.fetch_all(..)
    }

    /// All rows, the last first.
    pub fn backward_all(&mut self) -> Result<WindowedRows<K, C>> {
        self.backward_fetch_all(..)
    }

    /// What the store has observed (milliseconds since 1970): a row is there while its start is greater than this minus the
    /// retention. -1 before the first record.
    pub fn observed(&self) -> i64 {
        observed(&self.inner.access)
    }

    fn one(&mut self, key: &K, starts: &impl RangeBounds<i64>, direction: Direction) -> Result<WindowedRows<K, C>> {
        self.inner.write_key(key)?;
        let keys = SpanKeys::One(self.inner.bytes.clone());
        self.scan(keys, starts, direction)
    }

    fn between(
        &mut self,
        keys: &impl RangeBounds<K>,
        starts: &impl RangeBounds<i64>,
        direction: Direction,
    ) -> Result<WindowedRows<K, C>> {
        let keys = SpanKeys::Between(self.inner.serdes.bounds(keys)?);
        self.scan(keys, starts, direction)
    }

    fn scan(
        &mut self,
        keys: SpanKeys,
        starts: &impl RangeBounds<i64>,
        direction: Direction,
    ) -> Result<WindowedRows<K, C>> {
        let (from, to) = times(starts);
        let Windows { size, duplicates } = self.windows;
        let layout = Layout::Windows { size, duplicates };
        self.inner.windowed_rows(Span { layout, keys, from, to, latest_start: i64::MAX, direction })
    }
}

impl<K: 'static, C: Values> WindowView<'_, K, C> {
    /// Sets the value of a key in the window that begins at `start`, or adds one where the store retains duplicates. A value
    /// that stands for null deletes, as [`WindowView::delete`]. Answers false if the row has expired: then nothing is written.
    ///
    /// An error if the window begins before 1970, as in Kafka Streams.
    pub fn put(&mut self, key: &K, start: i64, value: &C::Value) -> Result<bool> {
        self.write(key, start, Some(value))
    }

    /// Deletes the value of a key in the window that begins at `start`; reads nothing. Answers false if it has expired.
    pub fn delete(&mut self, key: &K, start: i64) -> Result<bool> {
        self.write(key, start, None)
    }

    fn write(&mut self, key: &K, start: i64, value: Option<&C::Value>) -> Result<bool> {
        if start < 0 {
            return Err(before_1970(start));
        }
        let windows = self.windows;
        self.inner.write_expiring(key, value, |space, expiry, buffer, key, value| {
            let mut window = Window::new(space, expiry.store, expiry.retention, windows.duplicates, *expiry.observed)
                .numbered_after(*expiry.numbered)
                .with_buffer(std::mem::take(buffer));
            let put = window.put(key, start, value)?;
            *expiry.observed = window.observed();
            *expiry.numbered = window.numbered();
            *buffer = window.into_buffer();
            Ok(put)
        })
    }
}

/// A range of times with both ends included; inverted if it is empty.
pub(super) fn times(range: &impl RangeBounds<i64>) -> (i64, i64) {
    let from = match range.start_bound() {
        Bound::Included(from) => Some(*from),
        Bound::Excluded(from) => from.checked_add(1),
        Bound::Unbounded => Some(i64::MIN),
    };
    let to = match range.end_bound() {
        Bound::Included(to) => Some(*to),
        Bound::Excluded(to) => to.checked_sub(1),
        Bound::Unbounded => Some(i64::MAX),
    };
    from.zip(to).unwrap_or((i64::MAX, i64::MIN))
}

#[cold]
fn before_1970(start: i64) -> Error {
    Error::new(ErrorKind::Serialization, "put into a window")
        .with("cause", "it begins before 1970")
        .with("start", start)
}
