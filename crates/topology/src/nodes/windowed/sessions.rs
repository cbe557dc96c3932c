//! Sessions: one row for each key, start and end.

use std::sync::Arc;

use millpond_store_api as store;
use store::schema::{ExpiringKey, SuffixKind};
use store::{Direction, Keys, Session, Sessions};

use super::{Finals, FirstEnd, Merge, Updates, WindowFormat, WindowedAggregation, forward, write_key};
use crate::dsl::{Closing, Shape, WindowSpec};
use crate::error::Result;
use crate::node::{BuildCx, TaskCx};
use crate::port::{Drained, Expiry, LayerSpace, StoreIndex};
use crate::record::{Change, Record};
use crate::serde::{Coder, Windowed};
use crate::store::expiring;

pub(crate) struct SessionRows<K, A, F> {
    format: WindowFormat<K, A>,
    store: StoreIndex,
    gap: i64,
    closing: Closing,
    fold: Arc<F>,
    /// The source key's bytes are what the key's serde would write.
    reuse: bool,
    /// Updates are forwarded when they are drained, not when they are made.
    cached: bool,
    wants_old: bool,
    /// Somebody forwards what is closed as final.
    tells_finals: bool,
    first_end: FirstEnd,
    /// The bytes of the key at hand: what is forwarded meanwhile may use the task's buffers.
    key: Vec<u8>,
    value: Vec<u8>,
    row: Vec<u8>,
    /// The sessions that a record touches, and the bytes of their values.
    found: Vec<Found>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Found {
    start: i64,
    end: i64,
    value: (usize, usize),
}

impl<K: Clone + 'static, A: 'static, F> SessionRows<K, A, F> {
    /// See [`WindowedAggregation::drained`].
    pub(crate) fn drained_row(&self, entry: &Drained<'_>) -> Result<Option<Record<Windowed<K>, Change<A>>>> {
        if entry.new.is_none() && entry.old.is_none() {
            return Ok(None);
        }
        let mut buffer = Vec::new();
        let row = ExpiringKey::decode(SuffixKind::Times, entry.key, &mut buffer)?;
        let (start, end) = (row.suffix.second(), row.suffix.time());
        let key = Windowed { key: self.format.key.decode(row.key)?, start, end };
        let read = |bytes: &[u8]| self.format.value.decode(self.format.split_session(bytes)?);
        let (new, old) =
            (entry.new.map(read).transpose()?, entry.old.filter(|_| self.wants_old).map(read).transpose()?);
        let headers = self.format.session_headers(entry.new)?;
        Ok(Some(Record { key, value: Change { new, old }, timestamp: end, headers }))
    }

    pub(crate) fn build(
        b: &mut BuildCx<'_>,
        store: usize,
        format: WindowFormat<K, A>,
        spec: &WindowSpec,
        fold: Arc<F>,
    ) -> Self {
        let store = StoreIndex(crate::topology::index(store));
        let gap = match spec.shape {
            Shape::Session { gap } => gap,
            other => other.length(),
        };
        Self {
            reuse: format.key.identity().is_same(b.origin),
            cached: b.port.cached(store),
            wants_old: b.wants_old,
            tells_finals: b.tells_finals,
            format,
            store,
            gap,
            closing: spec.closing,
            fold,
            first_end: FirstEnd::UNKNOWN,
            key: Vec::new(),
            value: Vec::new(),
            row: Vec::new(),
            found: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Puts the bytes of a record's key into the buffer.
    fn write_key(&mut self, cx: &TaskCx<'_>, key: &K) -> Result {
        write_key(cx, self.reuse, &self.format.key, key, &mut self.key)
    }

    /// Reads the sessions of the key in the buffer that a record of this time belongs to.
    fn find(&mut self, cx: &mut TaskCx<'_>, time: i64) -> Result {
        self.found.clear();
        self.bytes.clear();
        let mut access = cx.port.store(self.store)?;
        let (mut space, expiry) = expiring(&mut access)?;
        let session = session_of(&mut space, expiry);
        let (from, to) = (time.saturating_sub(self.gap), time.saturating_add(self.gap));
        let mut scan = session.find(&self.key, from, to, Direction::Forward)?;
        while let Some(row) = scan.next()? {
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(self.format.split_session(row.value)?);
            self.found.push(Found { start: row.start, end: row.end, value: (begin, self.bytes.len()) });
        }
        Ok(())
    }

    fn value_of(&self, found: Found) -> Result<A> {
        self.format.value.decode(self.bytes.get(found.value.0..found.value.1).unwrap_or_default())
    }

    /// As [`SessionRows::value_of`], if changes have old values.
    fn old_of(&self, found: Found) -> Result<Option<A>> {
        if self.wants_old && !self.cached { self.value_of(found).map(Some) } else { Ok(None) }
    }

    /// Sets or deletes a session of the key in the buffer; false if it has expired. Changes are logged with the time of the
    /// record at hand, as Kafka Streams does for sessions.
    fn write<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        (start, end): (i64, i64),
        value: Option<&A>,
        record: &Record<K, V>,
    ) -> Result<bool> {
        self.value.clear();
        let some = match value {
            Some(value) => self.format.write_session(&record.headers, value, &mut self.value)?,
            None => false,
        };
        let mut access = cx.port.store(self.store)?;
        let (mut space, expiry) = expiring(&mut access)?;
        space.timestamp = record.timestamp;
        let mut session = session_of(&mut space, expiry).with_buffer(std::mem::take(&mut self.row));
        let put = session.put(&self.key, start, end, some.then_some(self.value.as_slice()))?;
        *expiry.observed = session.observed();
        self.row = session.into_buffer();
        Ok(put)
    }

    /// Deletes the sessions that were found, and tells of each.
    fn swallow<V>(&mut self, cx: &mut TaskCx<'_>, mut to: Option<&mut Updates<K, A>>, record: &Record<K, V>) -> Result {
        for at in 0..self.found.len() {
            let Some(session) = self.found.get(at).copied() else { break };
            let bounds = (session.start, session.end);
            self.write(cx, bounds, None, record)?;
            if let Some(to) = to.as_deref_mut().filter(|_| !self.cached) {
                let old = self.old_of(session)?;
                forward(to, cx, record, bounds, Change { new: None, old }, session.end)?;
            }
        }
        Ok(())
    }
}

impl<K, V, A, F> WindowedAggregation<K, V, A> for SessionRows<K, A, F>
where
    K: Clone + 'static,
    V: 'static,
    A: 'static,
    F: Merge<K, V, A>,
{
    fn key(&self) -> &Coder<K> {
        &self.format.key
    }

    fn take(
        &mut self,
        cx: &mut TaskCx<'_>,
        mut to: Option<&mut Updates<K, A>>,
        record: &Record<K, V>,
        close: i64,
    ) -> Result<bool> {
        self.write_key(cx, &record.key)?;
        self.find(cx, record.timestamp)?;
        if self.tells_finals || to.is_none() {
            // What is closed may have been told of. It is final, and belongs to nothing any more.
            self.found.retain(|session| !self.closing.is_closed(session.end, close));
        }
        let (mut start, mut end) = (record.timestamp, record.timestamp);
        for session in &self.found {
            (start, end) = (start.min(session.start), end.max(session.end));
        }
        if self.closing.is_closed(end, close) {
            return Ok(false);
        }
        let mut so_far = None;
        for session in &self.found {
            so_far = Some(self.fold.merge(&record.key, so_far, self.value_of(*session)?)?);
        }
        let new = self.fold.fold(so_far, &record.key, &record.value)?;
        // One that begins and ends with this very time is the same session afterwards.
        let same = self.found.first().copied().filter(|_| start == end);
        if same.is_none() {
            self.swallow(cx, to.as_deref_mut(), record)?;
        }
        if !self.write(cx, (start, end), Some(&new), record)? {
            return Ok(false);
        }
        self.first_end.put(end);
        if let Some(to) = to.filter(|_| !self.cached) {
            let old = same.map(|session| self.old_of(session)).transpose()?.flatten();
            forward(to, cx, record, (start, end), Change { new: Some(new), old }, end)?;
        }
        Ok(true)
    }

    fn may_close(&self, close: i64) -> bool {
        self.closing.is_closed(self.first_end.0, close)
    }

    fn closed(&mut self, cx: &mut TaskCx<'_>, released: Option<i64>, close: i64) -> Result<Finals> {
        let mut closed = Finals::default();
        // A bit farther than needed, to save the looks of the next milliseconds.
        let ahead = close.saturating_add((self.closing.delay / 8).max(1));
        let mut first = ahead;
        let mut access = cx.port.store(self.store)?;
        let (mut space, expiry) = expiring(&mut access)?;
        let session = session_of(&mut space, expiry);
        // What was told of ended before what was released.
        let (earliest_end, latest_end) = (released.unwrap_or(i64::MIN), ahead);
        let sessions = Sessions { keys: Keys::ALL, earliest_end, latest_end, latest_start: i64::MAX };
        let mut scan = session.scan(sessions, Direction::Forward)?;
        while let Some(row) = scan.next()? {
            if self.closing.is_closed(row.end, close) {
                closed.push(row.key, (row.start, row.end), row.end, self.format.split_session(row.value)?);
            } else {
                first = first.min(row.end);
            }
        }
        closed.sort();
        self.first_end = FirstEnd(first);
        Ok(closed)
    }

    fn read(&self, key: &[u8], value: &[u8]) -> Result<(K, A)> {
        Ok((self.format.key.decode(key)?, self.format.value.decode(value)?))
    }

    fn add_window((start, end): (i64, i64), key: &mut Vec<u8>) {
        key.extend_from_slice(&end.to_be_bytes());
        key.extend_from_slice(&start.to_be_bytes());
    }

    fn drained(&self, entry: &Drained<'_>) -> Result<Option<Record<Windowed<K>, Change<A>>>> {
        self.drained_row(entry)
    }
}

/// The store as its own node sees it.
fn session_of<'s, 'a>(space: &'s mut LayerSpace<'a>, expiry: &Expiry<'_>) -> Session<'s, LayerSpace<'a>> {
    Session::new(space, expiry.store, expiry.retention, *expiry.observed).keeping(expiry.kept)
}
