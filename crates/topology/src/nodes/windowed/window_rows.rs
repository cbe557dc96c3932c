//! The rows of time windows and sliding windows: one for each key and start.

use std::sync::Arc;

use millpond_store_api as store;
use store::schema::{ExpiringKey, SuffixKind};
use store::{Direction, Window};

use super::{Finals, FirstEnd, FoldRef, Updates, WindowFormat, WindowedAggregation, forward, write_key};
use crate::dsl::{Closing, Shape, WindowSpec};
use crate::error::Result;
use crate::node::{BuildCx, TaskCx};
use crate::port::{Drained, Expiry, LayerSpace, StoreIndex};
use crate::record::{Change, Record};
use crate::serde::{Coder, Windowed};
use crate::store::expiring;

pub(crate) struct WindowRows<K, A, F> {
    format: WindowFormat<K, A>,
    pub(super) store: StoreIndex,
    pub(super) shape: Shape,
    closing: Closing,
    pub(super) fold: Arc<F>,
    /// The source key's bytes are what the key's serde would write.
    reuse: bool,
    /// Updates are forwarded when they are drained, not when they are made.
    cached: bool,
    pub(super) wants_old: bool,
    first_end: FirstEnd,
    /// The bytes of the key at hand: what is forwarded meanwhile may use the task's buffers.
    pub(super) key: Vec<u8>,
    value: Vec<u8>,
    row: Vec<u8>,
    /// Rows that were read at once.
    pub(super) found: Found,
}

/// Rows of one key, read into a buffer.
#[derive(Default)]
pub(super) struct Found {
    pub(super) rows: Vec<FoundRow>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy)]
pub(super) struct FoundRow {
    pub(super) start: i64,
    pub(super) time: i64,
    at: (usize, usize),
}

impl<K: Clone + 'static, A: 'static, F> WindowRows<K, A, F> {
    /// See [`WindowedAggregation::drained`].
    pub(crate) fn drained_row(&self, entry: &Drained<'_>) -> Result<Option<Record<Windowed<K>, Change<A>>>> {
        if entry.new.is_none() && entry.old.is_none() {
            return Ok(None);
        }
        let mut buffer = Vec::new();
        let row = ExpiringKey::decode(SuffixKind::Time, entry.key, &mut buffer)?;
        let start = row.suffix.time();
        let key = Windowed { key: self.format.key.decode(row.key)?, start, end: self.end(start) };
        let read = |bytes: &[u8]| {
            let (time, bytes) = self.format.split_window(bytes)?;
            Result::Ok((self.coder().decode(bytes)?, time))
        };
        let (new, timestamp) = match entry.new.map(read).transpose()? {
            Some((value, time)) => (Some(value), time),
            None => (self.coder().null(), entry.timestamp),
        };
        let old = entry.old.filter(|_| self.wants_old).map(read).transpose()?.map(|(value, _)| value);
        let headers = self.format.window_headers(entry.new)?;
        Ok(Some(Record { key, value: Change { new, old }, timestamp, headers }))
    }

    pub(crate) fn build(
        b: &mut BuildCx<'_>,
        store: usize,
        format: WindowFormat<K, A>,
        spec: &WindowSpec,
        fold: Arc<F>,
    ) -> Self {
        let store = StoreIndex(crate::topology::index(store));
        Self {
            reuse: format.key.identity().is_same(b.origin),
            cached: b.port.cached(store),
            wants_old: b.wants_old,
            format,
            store,
            shape: spec.shape,
            closing: spec.closing,
            fold,
            first_end: FirstEnd::UNKNOWN,
            key: Vec::new(),
            value: Vec::new(),
            row: Vec::new(),
            found: Found::default(),
        }
    }

    pub(super) fn coder(&self) -> &Coder<A> {
        &self.format.value
    }

    pub(super) fn end(&self, start: i64) -> i64 {
        start.saturating_add(self.shape.length())
    }

    pub(super) fn is_closed(&self, start: i64, close: i64) -> bool {
        self.closing.is_closed(self.end(start), close)
    }

    /// Puts the bytes of a record's key into the buffer.
    fn write_key(&mut self, cx: &TaskCx<'_>, key: &K) -> Result {
        write_key(cx, self.reuse, &self.format.key, key, &mut self.key)
    }

    /// The value of the key in the buffer at this start, and its time; the old value once more if it goes along with changes.
    pub(super) fn get(&mut self, cx: &mut TaskCx<'_>, start: i64) -> Result<Option<(A, Option<A>, i64)>> {
        let mut access = cx.port.store(self.store)?;
        let (mut space, expiry) = expiring(&mut access)?;
        let mut window = window_of(&mut space, expiry).with_buffer(std::mem::take(&mut self.row));
        let coder = &self.format.value;
        let row = match window.get(&self.key, start)? {
            Some(bytes) => {
                let (time, bytes) = self.format.split_window(bytes)?;
                let old = if self.wants_old && !self.cached { Some(coder.decode(bytes)?) } else { None };
                Some((coder.decode(bytes)?, old, time))
            }
            None => None,
        };
        self.row = window.into_buffer();
        Ok(row)
    }

    /// Sets the value of the key in the buffer at this start and forwards the change, unless that is for later or for nobody.
    /// False if it has expired.
    pub(super) fn put<V>(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        record: &Record<K, V>,
        start: i64,
        (new, old, time): (A, Option<A>, i64),
    ) -> Result<bool> {
        self.value.clear();
        let some = self.format.write_window(&record.headers, time, &new, &mut self.value)?;
        let mut access = cx.port.store(self.store)?;
        let (mut space, expiry) = expiring(&mut access)?;
        // The change is logged with the row's own time, as Kafka Streams does for timestamped stores.
        space.timestamp = time;
        let mut window = window_of(&mut space, expiry).with_buffer(std::mem::take(&mut self.row));
        let put = window.put(&self.key, start, some.then_some(self.value.as_slice()))?;
        *expiry.observed = window.observed();
        self.row = window.into_buffer();
        if !put {
            return Ok(false);
        }
        let end = self.end(start);
        self.first_end.put(end);
        if let Some(to) = to.filter(|_| !self.cached) {
            forward(to, cx, record, (start, end), Change { new: Some(new), old }, time)?;
        }
        Ok(true)
    }

    /// Reads the rows of the key in the buffer that begin in a range of times.
    pub(super) fn find(&mut self, cx: &mut TaskCx<'_>, from: i64, to: i64, direction: Direction) -> Result {
        let Found { rows, bytes } = &mut self.found;
        rows.clear();
        bytes.clear();
        let mut access = cx.port.store(self.store)?;
        let (mut space, expiry) = expiring(&mut access)?;
        let window = window_of(&mut space, expiry);
        let mut scan = window.fetch(&self.key, from, to, direction)?;
        while let Some(row) = scan.next()? {
            let (time, value) = self.format.split_window(row.value)?;
            let begin = bytes.len();
            bytes.extend_from_slice(value);
            rows.push(FoundRow { start: row.start, time, at: (begin, bytes.len()) });
        }
        Ok(())
    }

    /// The value of a row that was found.
    pub(super) fn value_of(&self, row: FoundRow) -> Result<A> {
        self.coder().decode(self.found.bytes.get(row.at.0..row.at.1).unwrap_or_default())
    }

    /// As [`WindowRows::value_of`], if changes have old values.
    pub(super) fn old_of(&self, row: FoundRow) -> Result<Option<A>> {
        if self.wants_old && !self.cached { self.value_of(row).map(Some) } else { Ok(None) }
    }
}

impl<K, V, A, F> WindowedAggregation<K, V, A> for WindowRows<K, A, F>
where
    K: Clone + 'static,
    V: 'static,
    A: 'static,
    F: FoldRef<K, V, A>,
{
    fn key(&self) -> &Coder<K> {
        &self.format.key
    }

    fn take(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        record: &Record<K, V>,
        close: i64,
    ) -> Result<bool> {
        self.write_key(cx, &record.key)?;
        match self.shape {
            Shape::Time { size, advance } => self.take_time(cx, to, record, (size, advance), close),
            Shape::Sliding { difference } => self.take_sliding(cx, to, record, difference, close),
            Shape::Session { .. } => Ok(false),
        }
    }

    fn may_close(&self, close: i64) -> bool {
        self.closing.is_closed(self.first_end.0, close)
    }

    fn closed(&mut self, cx: &mut TaskCx<'_>, released: Option<i64>, close: i64) -> Result<Finals> {
        let mut closed = Finals::default();
        let length = self.shape.length();
        // What was told of ended before: with an exclusive end at `released` at the latest.
        let from = released.map_or(i64::MIN, |released| released.saturating_sub(length));
        let (ahead, mut first) = self.horizon(close);
        let to = close.saturating_add(ahead).saturating_sub(length);
        let mut access = cx.port.store(self.store)?;
        let (mut space, expiry) = expiring(&mut access)?;
        let window = window_of(&mut space, expiry);
        let mut scan = window.fetch_all(from, to, Direction::Forward)?;
        while let Some(row) = scan.next()? {
            let (start, end) = (row.start, row.start.saturating_add(length));
            if released.is_some_and(|released| self.closing.is_closed(end, released)) {
                continue;
            }
            if !self.closing.is_closed(end, close) {
                first = first.min(end);
                continue;
            }
            let (timestamp, value) = self.format.split_window(row.value)?;
            closed.push(row.key, (start, end), timestamp, value);
        }
        closed.sort();
        self.first_end = FirstEnd(first);
        Ok(closed)
    }

    fn read(&self, key: &[u8], value: &[u8]) -> Result<(K, A)> {
        Ok((self.format.key.decode(key)?, self.format.value.decode(value)?))
    }

    fn add_window((start, _): (i64, i64), key: &mut Vec<u8>) {
        key.extend_from_slice(&start.to_be_bytes());
    }

    fn drained(&self, entry: &Drained<'_>) -> Result<Option<Record<Windowed<K>, Change<A>>>> {
        self.drained_row(entry)
    }
}

impl<K, A, F> WindowRows<K, A, F> {
    /// How far behind the close (milliseconds) a look for closed windows goes, and a lower bound of the ends of all windows
    /// that it does not see. Time windows end at whole advances: between two of them nothing closes. Sliding windows end at
    /// any time: a look that goes a bit farther saves those of the next milliseconds.
    fn horizon(&self, close: i64) -> (i64, i64) {
        match self.shape {
            Shape::Time { size, advance } => {
                let last = close.saturating_sub(size).div_euclid(advance);
                (0, last.saturating_add(1).max(0).saturating_mul(advance).saturating_add(size))
            }
            other => {
                let ahead = (other.length() / 8).max(1);
                (ahead, close.saturating_add(ahead))
            }
        }
    }
}

/// The store as its own node sees it.
fn window_of<'s, 'a>(space: &'s mut LayerSpace<'a>, expiry: &Expiry<'_>) -> Window<'s, LayerSpace<'a>> {
    Window::new(space, expiry.store, expiry.retention, false, *expiry.observed).keeping(expiry.kept)
}
