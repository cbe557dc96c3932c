//! The timestamped key-value store whose rows have a time to live.

use std::ops::Bound;

use crate::schema::{Buckets, ExpiringKey};
use crate::{Chunk, Direction, Range, Result, Space, SpaceMut, TimestampedKeyValue, TimestampedRow, ValueAndTimestamp};

/// A timestamped key-value store of bytes whose rows live for a while, over two spaces. Cheap to make: one per access.
///
/// # Time
///
/// The store has *observed* the greatest time that was put, or a later one if the caller says so. A row with time *t* is there
/// exactly while *t > observed − time to live*: reads keep to that to the millisecond, whatever still lies on disk. What has
/// expired already is not put, as in window stores. The caller keeps the observed time from one access to the next, with the
/// offsets that it stands for.
///
/// # How expired rows are found
///
/// ```text
/// first space    key                     → i64 time (big endian) ‖ value
/// windowed space bucket ‖ store ‖ key    → empty                            the index: in which bucket a row may expire
/// ```
///
/// A put writes the index row of its [bucket](Buckets) and reads nothing: to move the former one would take a read for each
/// put, and a delete wherever the bucket has changed. So an index row may be stale, and [`TtlKeyValue::expire`] looks at the
/// row before it deletes it. A key has one index row at most in each of the [`Buckets::MAX_ALIVE`] buckets, however often it is
/// put. A row is deleted when its bucket has passed: up to an eighth of its time to live after it has expired, a minute at
/// least.
///
/// The index is not logged. Whoever writes rows past the view, such as a restore, writes [`TtlKeyValue::index_key`] with each.
/// [`Shard::drop_below`](crate::Shard::drop_below) must not go beyond what was observed when `expire` last answered that
/// nothing more was due, or rows would stay for ever.
pub struct TtlKeyValue<'a, S: ?Sized> {
    rows: &'a mut S,
    index: &'a mut S,
    store: u16,
    buckets: Buckets,
    now: i64,
    scratch: Vec<u8>,
}

/// What a call of [`TtlKeyValue::expire`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// So many rows were deleted.
    pub deleted: usize,
    /// So many index rows were stale: their rows are gone, or were put again since.
    pub stale: usize,
    /// The limit was reached: there may be more to do.
    pub more: bool,
}

impl<S: ?Sized> std::fmt::Debug for TtlKeyValue<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TtlKeyValue").field("observed", &self.now).finish_non_exhaustive()
    }
}

impl<S: ?Sized> TtlKeyValue<'_, S> {
    /// Lends the view a buffer for rows, so that writes allocate nothing. What is in it is lost.
    #[must_use]
    pub fn with_buffer(mut self, buffer: Vec<u8>) -> Self {
        self.scratch = buffer;
        self
    }

    /// Ends the view, and gives the buffer back.
    pub fn into_buffer(self) -> Vec<u8> {
        self.scratch
    }

    /// The greatest time that was ever put, or what the view was made with.
    pub fn observed(&self) -> i64 {
        self.now
    }

    fn is_alive(&self, timestamp: i64) -> bool {
        self.buckets.earliest_alive(self.now).is_some_and(|earliest| earliest <= timestamp)
    }

    /// Replaces `out` by the index row's key of a row.
    pub fn index_key(store: u16, time_to_live: i64, key: &[u8], timestamp: i64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&ExpiringKey::head(Buckets::new(time_to_live).of(timestamp), store));
        out.extend_from_slice(key);
    }
}

impl<'a, S: Space + ?Sized> TtlKeyValue<'a, S> {
    /// A view over a space that holds nothing but the rows, and over the windowed space, where the store has this number.
    ///
    /// The time to live is in milliseconds. It may be changed: reads keep to the new one at once, while rows that were put
    /// before are deleted when the former one has passed as well. `now` is the greatest time that was observed, [`i64::MIN`] for none.
    pub fn new(rows: &'a mut S, index: &'a mut S, store: u16, time_to_live: i64, now: i64) -> Self {
        Self { rows, index, store, buckets: Buckets::new(time_to_live), now, scratch: Vec::new() }
    }

    /// The value of a key, with its time.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<ValueAndTimestamp<'_>>> {
        let earliest = self.buckets.earliest_alive(self.now);
        let found = self.rows.get(key)?.map(ValueAndTimestamp::decode).transpose()?;
        Ok(found.filter(|value| earliest.is_some_and(|earliest| earliest <= value.timestamp)))
    }

    /// Calls `each` for every row of a range, in order, until it answers false.
    pub fn for_each(
        &mut self,
        range: Range<'_>,
        direction: Direction,
        each: &mut dyn FnMut(TimestampedRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        let earliest = self.buckets.earliest_alive(self.now);
        TimestampedKeyValue::new(self.rows).for_each(range, direction, &mut |row| {
            if earliest.is_some_and(|earliest| earliest <= row.value.timestamp) { each(row) } else { Ok(true) }
        })
    }

    /// About how many rows there are, those that have expired and are not deleted yet included. See
    /// [`Read::approximate_num_entries`](crate::Read::approximate_num_entries).
    pub fn approximate_num_entries(&self) -> Result<u64> {
        self.rows.approximate_num_entries()
    }

    /// The store's index rows behind a place whose buckets have passed, `limit` of them at most. One seek at most for each
    /// bucket that has rows of whatever store.
    fn due(&self, behind: &[u8], limit: usize) -> Result<Chunk> {
        let mut due = Chunk::default();
        let end = Buckets::dead_below(self.now);
        let range = Range::new(Bound::Excluded(behind), Bound::Excluded(&end));
        if range.is_empty() {
            return Ok(due);
        }
        let mut cursor = self.index.scan(range, Direction::Forward)?;
        while due.len() < limit {
            let Some(row) = cursor.next()? else { break };
            let (_, owner) = ExpiringKey::bucket_and_store_of(row.key)?;
            if owner == self.store {
                due.push(row);
            } else if !ExpiringKey::seek_store(&mut *cursor, self.store)? {
                break;
            }
        }
        Ok(due)
    }
}

impl<S: SpaceMut + ?Sized> TtlKeyValue<'_, S> {
    /// Sets a key; reads nothing. Answers false if the value has expired: then nothing is written, and the caller counts a
    /// dropped record.
    pub fn put(&mut self, key: &[u8], value: ValueAndTimestamp<'_>) -> Result<bool> {
        self.now = self.now.max(value.timestamp);
        if !self.is_alive(value.timestamp) {
            return Ok(false);
        }
        self.scratch.clear();
        value.encode(&mut self.scratch);
        self.rows.put(key, Some(&self.scratch))?;
        Self::index_key(self.store, self.buckets.retention(), key, value.timestamp, &mut self.scratch);
        self.index.put(&self.scratch, Some(&[]))?;
        Ok(true)
    }

    /// Sets a key that has no value, or one that has expired; answers whether it did. A value that has expired is not put.
    pub fn put_if_absent(&mut self, key: &[u8], value: ValueAndTimestamp<'_>) -> Result<bool> {
        self.now = self.now.max(value.timestamp);
        let absent = self.get(key)?.is_none();
        Ok(absent && self.put(key, value)?)
    }

    /// Deletes a key; reads nothing.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.rows.put(key, None)
    }

    /// Deletes rows that have expired, by `limit` index rows at most: as writes of the spaces, so that they become tombstones
    /// in the changelog and are undone with the interval that they belong to. The index rows go with them.
    pub fn expire(&mut self, limit: usize) -> Result<Expired> {
        self.expire_behind(&mut Vec::new(), limit)
    }

    /// As [`TtlKeyValue::expire`], behind the place at which the last call has stopped, so that what it has deleted is not
    /// walked over again. The place is empty before the first call, and whenever what was deleted may be there again: after
    /// an interval was given up, or a restore.
    pub fn expire_behind(&mut self, place: &mut Vec<u8>, limit: usize) -> Result<Expired> {
        let due = self.due(place, limit)?;
        let mut done = Expired { more: due.len() == limit, ..Expired::default() };
        for i in 0..due.len() {
            let Some(entry) = due.get(i) else { break };
            let key = entry.key.get(ExpiringKey::HEAD..).unwrap_or_default();
            let row = self.rows.get(key)?.map(ValueAndTimestamp::decode).transpose()?;
            match row.map(|row| row.timestamp) {
                Some(timestamp) if self.is_alive(timestamp) => {
                    // It is there unless the time to live has become longer since.
                    Self::index_key(self.store, self.buckets.retention(), key, timestamp, &mut self.scratch);
                    self.index.put(&self.scratch, Some(&[]))?;
                    done.stale += 1;
                }
                Some(_) => {
                    self.rows.put(key, None)?;
                    done.deleted += 1;
                }
                None => done.stale += 1,
            }
            self.index.put(entry.key, None)?;
        }
        if let Some(last) = due.last() {
            place.clear();
            place.extend_from_slice(last.key);
        }
        Ok(done)
    }
}
