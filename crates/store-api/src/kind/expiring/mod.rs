//! What windows and sessions have in common: rows of the windowed space that are alive for a while.

mod bounds;
mod merge;
mod scan;
mod walk;

use std::ops::Bound;

use self::bounds::Bounds;
use self::merge::MergeWalk;
use self::scan::tail;
pub(super) use self::scan::{Scan, Span};
use self::walk::{KeyWalk, Walk};
use crate::schema::{Buckets, ExpiringKey, Suffix, SuffixKind};
use crate::{Direction, Error, ErrorKind, Range, Result, Space, SpaceMut};

pub use self::bounds::Keys;

/// The rows of one store in a space that it shares, as they are at one time.
pub(super) struct Expiring<'a, S: ?Sized> {
    space: &'a mut S,
    store: Store,
    now: i64,
    /// Rows from this time on are there, whatever has expired.
    kept: i64,
    scratch: Vec<u8>,
}

/// What is the same for all rows of a store.
#[derive(Clone, Copy)]
pub(super) struct Store {
    pub(super) number: u16,
    pub(super) kind: SuffixKind,
    pub(super) buckets: Buckets,
}

impl<S: ?Sized> Expiring<'_, S> {
    /// The greatest time that was observed.
    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// The times of the rows that are there; empty as a range if there can be none.
    fn alive(&self) -> (i64, i64) {
        // Where the retention is so short that nothing lives, an inverted range says it.
        let earliest = self.store.buckets.earliest_alive(self.now);
        earliest.map_or((i64::MAX, i64::MIN), |earliest| (earliest.min(self.kept), self.now))
    }

    /// Rows from this time on are there as well.
    pub(super) fn keep(&mut self, earliest: i64) {
        self.kept = earliest;
    }

    fn is_alive(&self, time: i64) -> bool {
        let (earliest, latest) = self.alive();
        earliest <= time && time <= latest
    }

    /// The buffer that keys are encoded in, for whoever needs one between two accesses.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.scratch
    }

    /// Fills the scratch buffer with the bytes of a row's key.
    fn encode(&mut self, key: &[u8], suffix: Suffix) {
        let bucket = self.store.buckets.of(suffix.time());
        self.scratch.clear();
        ExpiringKey { bucket, store: self.store.number, key, suffix }.encode(&mut self.scratch);
    }
}

impl<'a, S: Space + ?Sized> Expiring<'a, S> {
    pub(super) fn new(space: &'a mut S, store: Store, now: i64) -> Self {
        Self { space, store, now, kept: i64::MAX, scratch: Vec::new() }
    }

    /// The value of exactly one row.
    pub(super) fn get(&mut self, key: &[u8], suffix: Suffix) -> Result<Option<&[u8]>> {
        if !self.is_alive(suffix.time()) {
            return Ok(None);
        }
        self.encode(key, suffix);
        self.space.get(&self.scratch)
    }

    /// The value of the last row that has this key and time.
    pub(super) fn last(&mut self, key: &[u8], time: i64) -> Result<Option<&[u8]>> {
        let mut value = std::mem::take(&mut self.scratch);
        let found = self.with_last(key, time, |_, row| {
            value.clear();
            value.extend_from_slice(row);
        });
        self.scratch = value;
        Ok(found?.map(|()| self.scratch.as_slice()))
    }

    /// Hands the last row that has this key and time to a function.
    fn with_last<T>(&self, key: &[u8], time: i64, read: impl FnOnce(Suffix, &[u8]) -> T) -> Result<Option<T>> {
        let span = Span { keys: Keys::One(key), from: time, to: time, second_to: i64::MAX };
        let mut rows = self.scan(span, Direction::Reverse, None)?;
        Ok(rows.next()?.map(|(key, value)| read(key.suffix, value)))
    }

    /// The rows of a span that are alive, in order of key and suffix; behind a place that an earlier scan of the span gave.
    pub(super) fn scan(&self, span: Span<'_>, direction: Direction, place: Option<&[u8]>) -> Result<Scan<'_>> {
        let (earliest, latest) = self.alive();
        let span = Span { from: span.from.max(earliest), to: span.to.min(latest), ..span };
        let walk = match span.keys {
            _ if span.from > span.to => Walk::Empty,
            Keys::One(key) => self.walk_key(key, &span, direction, place)?,
            Keys::Between(..) | Keys::Prefix(_) => self.walk_range(&span, direction, place)?,
        };
        Ok(Scan::new(walk, self.store.kind, &span))
    }

    /// One cursor over all buckets.
    fn walk_key(&self, key: &[u8], span: &Span<'_>, direction: Direction, place: Option<&[u8]>) -> Result<Walk<'_>> {
        let mut bounds = Bounds::of_key(self.store, key, span.from, span.to);
        if let Some(place) = place {
            let suffix = Suffix::decode(self.store.kind, tail(place, self.store.kind.len()))?;
            bounds = bounds.behind(self.store, self.store.buckets.of(suffix.time()), place, direction);
        }
        let cursor = self.space.scan(bounds.range(), direction)?;
        Ok(Walk::Key(KeyWalk::new(cursor, self.store, key, (span.from, span.to), direction)))
    }

    /// A cursor for each bucket.
    fn walk_range(&self, span: &Span<'_>, direction: Direction, place: Option<&[u8]>) -> Result<Walk<'_>> {
        let buckets = self.store.buckets;
        let mut cursors = Vec::with_capacity(Buckets::MAX_ALIVE);
        let (mut bucket, last) = (buckets.of(span.from), buckets.of(span.to));
        // An owner that keeps what has expired may look far back: then buckets without a row are many.
        let is_wide = self.kept < i64::MAX;
        loop {
            if is_wide {
                match self.bucket_from(bucket)? {
                    Some(found) if found <= last => bucket = found,
                    _ => return Ok(Walk::Merge(MergeWalk::new(cursors, direction))),
                }
            }
            let mut bounds = Bounds::of_bucket(self.store, bucket, span.keys);
            if let Some(place) = place {
                bounds = bounds.behind(self.store, bucket, place, direction);
            }
            cursors.push(self.space.scan(bounds.range(), direction)?);
            match bucket.checked_add(1) {
                Some(minute) if bucket < last => bucket = buckets.at_or_after(minute),
                _ => return Ok(Walk::Merge(MergeWalk::new(cursors, direction))),
            }
        }
    }
}

impl<S: Space + ?Sized> Expiring<'_, S> {
    /// The first bucket from this one on that may have rows; none if there are no more.
    fn bucket_from(&self, bucket: u32) -> Result<Option<u32>> {
        let lower = bucket.to_be_bytes();
        let mut rows = self.space.scan(Range::new(Bound::Included(&lower), Bound::Unbounded), Direction::Forward)?;
        let found =
            rows.next()?.and_then(|row| row.key.split_first_chunk().map(|(found, _)| u32::from_be_bytes(*found)));
        // That of another store may lie between two of this one's.
        Ok(found.map(|found| self.store.buckets.at_or_after(found.max(bucket))))
    }
}

impl<S: SpaceMut + ?Sized> Expiring<'_, S> {
    /// Observes a time; answers whether a row with it is alive.
    pub(super) fn observe(&mut self, time: i64) -> bool {
        self.now = self.now.max(time);
        self.is_alive(time)
    }

    /// Sets or deletes exactly one row; false if it has expired, and nothing is written.
    pub(super) fn put(&mut self, key: &[u8], suffix: Suffix, value: Option<&[u8]>) -> Result<bool> {
        let alive = self.observe(suffix.time());
        if alive {
            self.encode(key, suffix);
            self.space.put(&self.scratch, value)?;
        }
        Ok(alive)
    }

    /// Adds a row with this number behind those that have the same key and time; with the number behind theirs if that is
    /// greater. False if it has expired, and nothing is written.
    pub(super) fn push(&mut self, key: &[u8], time: i64, number: u32, value: &[u8]) -> Result<bool> {
        if !self.observe(time) {
            return Ok(false);
        }
        let last = self.with_last(key, time, |suffix, _| match suffix {
            Suffix::Sequence(_, sequence) => sequence,
            Suffix::Time(_) | Suffix::Times(..) => 0,
        })?;
        let sequence = match last {
            None => number,
            Some(last) if last < LAST_SEQUENCE => number.max(last + 1),
            Some(_) => self.free_sequence(key, time, number)?,
        };
        self.put(key, Suffix::Sequence(time, sequence), Some(value))
    }

    /// A number that no row of this key and time has. Numbers come to their end and begin anew, so the last one may be taken
    /// and nearly all others free.
    fn free_sequence(&mut self, key: &[u8], time: i64, from: u32) -> Result<u32> {
        for passed in 0..=LAST_SEQUENCE {
            let sequence = from.wrapping_add(passed) & LAST_SEQUENCE;
            if self.get(key, Suffix::Sequence(time, sequence))?.is_none() {
                return Ok(sequence);
            }
        }
        Err(Error::new(ErrorKind::Invalid, "put a duplicate")
            .with("reason", "as many rows of one key and window start as can be told apart are there"))
    }
}

/// The number of the put after the one with this number.
pub(super) fn next_sequence(number: u32) -> u32 {
    number.wrapping_add(1) & LAST_SEQUENCE
}

/// The greatest number of a duplicate, as in Kafka Streams: it is an `int32` in the changelog, and never negative.
const LAST_SEQUENCE: u32 = i32::MAX.unsigned_abs();
