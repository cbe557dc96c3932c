//! The versioned key-value store (KIP-889): each key's versions, for as long as the history retention.

use super::expiring::{Expiring, Keys, Span, Store};
use crate::schema::{Buckets, Suffix, SuffixKind};
use crate::{Direction, Range, Result, Space, SpaceMut, TimestampedKeyValue, TimestampedRow, ValueAndTimestamp};

/// A version of a key, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VersionedRecord<'a> {
    /// The value's bytes.
    pub value: &'a [u8],
    /// From when on it is valid, in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// Until when it is valid, that time excluded: the time of the next version. `None` for the latest.
    pub valid_to: Option<i64>,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for VersionedRecord<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VersionedRecord")
            .field("len", &self.value.len())
            .field("timestamp", &self.timestamp)
            .field("valid_to", &self.valid_to)
            .finish()
    }
}

/// Where a version has been put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionPut {
    /// It is the latest.
    Latest,
    /// There are later ones: it is valid until this time, that time excluded.
    ValidTo(i64),
    /// It is older than the history, and nothing has been written; the caller counts a dropped record.
    TooOld,
}

/// A store of bytes with all versions of a key, over two spaces. Cheap to make: one per access.
///
/// # Time
///
/// A version is a value, or none (a tombstone), from its own time on until the time of the key's next version. The store has
/// *observed* the greatest time that was put; with *oldest* = observed − history retention,
///
/// * a version before *oldest* is not put (the grace period is the history retention, as in Kafka Streams);
/// * what was valid at or after *oldest* can be asked for; before it, only the latest version answers;
/// * the latest version never expires.
///
/// The caller keeps the observed time from one access to the next, with the offsets that it stands for.
///
/// # Layout
///
/// ```text
/// first space    key                                                 → i64 time (big endian) ‖ value    the latest
/// windowed space bucket ‖ store ‖ esc(key) ‖ valid to ‖ valid from   → value                            an earlier one
///                bucket ‖ store ‖ esc(key) ‖ t ‖ t                   → empty                            a tombstone at t
/// ```
///
/// A tombstone's row says that a version begins at *t*; where no other row covers a time there is no value. It may stay when a
/// value has taken its time, which makes nothing of this wrong. Rows expire by *valid to*. A put writes the new rows before it
/// deletes the old ones, so one that was cut short may be repeated and ends as if nothing had happened.
pub struct Versioned<'a, S: ?Sized> {
    latest: &'a mut S,
    history: Expiring<'a, S>,
    retention: i64,
    /// Of a version that was found in the history.
    value: Vec<u8>,
}

impl<S: ?Sized> std::fmt::Debug for Versioned<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Versioned").field("observed", &self.history.now()).finish_non_exhaustive()
    }
}

impl<S: ?Sized> Versioned<'_, S> {
    /// Lends the view a buffer for rows, so that a put of a latest version allocates nothing. What is in it is lost.
    #[must_use]
    pub fn with_buffer(mut self, buffer: Vec<u8>) -> Self {
        *self.history.buffer() = buffer;
        self
    }

    /// Ends the view, and gives the buffer back.
    pub fn into_buffer(mut self) -> Vec<u8> {
        std::mem::take(self.history.buffer())
    }

    /// The greatest time that was ever put.
    pub fn observed(&self) -> i64 {
        self.history.now()
    }

    /// The earliest time that a put is taken for, and that can be asked for.
    fn oldest(&self) -> i64 {
        self.observed().saturating_sub(self.retention)
    }
}

impl<'a, S: Space + ?Sized> Versioned<'a, S> {
    /// A view over a space that holds nothing but the latest versions, and over the windowed space, where the store has this
    /// number.
    ///
    /// The history retention is in milliseconds, 0 at least, and stays the same for the life of the store's files: rows are
    /// found by it. `now` is the greatest time that was put so far, [`i64::MIN`] for none.
    pub fn new(latest: &'a mut S, history: &'a mut S, store: u16, retention: i64, now: i64) -> Self {
        let buckets = Buckets::new(retention);
        let history = Expiring::new(history, Store { number: store, kind: SuffixKind::Times, buckets }, now);
        Self { latest, history, retention: buckets.retention(), value: Vec::new() }
    }

    /// The latest version of a key; `None` if that is a tombstone.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<VersionedRecord<'_>>> {
        let found = self.latest.get(key)?.map(ValueAndTimestamp::decode).transpose()?;
        Ok(found.map(latest_record))
    }

    /// The version of a key that was valid at a time. The latest one answers for any time from its own on, whatever the
    /// history retention.
    pub fn get_as_of(&mut self, key: &[u8], as_of: i64) -> Result<Option<VersionedRecord<'_>>> {
        let oldest = self.oldest();
        let latest = self.latest.get(key)?.map(ValueAndTimestamp::decode).transpose()?;
        if let Some(latest) = latest.filter(|latest| latest.timestamp <= as_of) {
            return Ok(Some(latest_record(latest)));
        }
        if as_of < oldest {
            return Ok(None);
        }
        match version_after(&self.history, key, as_of, &mut self.value)? {
            Some((valid_to, timestamp)) if timestamp <= as_of => {
                Ok(Some(VersionedRecord { value: &self.value, timestamp, valid_to: Some(valid_to) }))
            }
            _ => Ok(None),
        }
    }

    /// Calls `each` for every version of a key that was valid at some time of `from..=to`, in the order of their times, until
    /// it answers false. Of times that [`Versioned::get_as_of`] does not answer for there is nothing, as there.
    pub fn versions(
        &mut self,
        key: &[u8],
        from: i64,
        to: i64,
        direction: Direction,
        each: &mut dyn FnMut(VersionedRecord<'_>) -> Result<bool>,
    ) -> Result<()> {
        let from_alive = from.max(self.oldest());
        let latest = self.latest.get(key)?.map(ValueAndTimestamp::decode).transpose()?;
        let latest = latest.filter(|latest| from <= to && latest.timestamp <= to).map(latest_record);
        if let (Direction::Reverse, Some(latest)) = (direction, latest)
            && !each(latest)?
        {
            return Ok(());
        }
        let more = old_versions(&self.history, key, from_alive, to, direction, each)?;
        if let (Direction::Forward, Some(latest), true) = (direction, latest, more) {
            each(latest)?;
        }
        Ok(())
    }

    /// Calls `each` for the latest version of every key of a range, in the order of the keys, until it answers false.
    pub fn for_each_latest(
        &mut self,
        range: Range<'_>,
        direction: Direction,
        each: &mut dyn FnMut(TimestampedRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        TimestampedKeyValue::new(self.latest).for_each(range, direction, each)
    }
}

fn latest_record(latest: ValueAndTimestamp<'_>) -> VersionedRecord<'_> {
    VersionedRecord { value: latest.value, timestamp: latest.timestamp, valid_to: None }
}

/// The first row of the history that ends after a time: where it ends and begins, its value in `value`.
fn version_after<S: Space + ?Sized>(
    history: &Expiring<'_, S>,
    key: &[u8],
    time: i64,
    value: &mut Vec<u8>,
) -> Result<Option<(i64, i64)>> {
    let Some(from) = time.checked_add(1) else { return Ok(None) };
    let span = Span { keys: Keys::One(key), from, to: i64::MAX, second_to: i64::MAX };
    let mut rows = history.scan(span, Direction::Forward, None)?;
    let Some((row, bytes)) = rows.next()? else { return Ok(None) };
    value.clear();
    value.extend_from_slice(bytes);
    Ok(Some((row.suffix.time(), row.suffix.second())))
}

/// Goes over the values of the history that were valid at some time of `from..=to`; answers whether to go on.
fn old_versions<S: Space + ?Sized>(
    history: &Expiring<'_, S>,
    key: &[u8],
    from: i64,
    to: i64,
    direction: Direction,
    each: &mut dyn FnMut(VersionedRecord<'_>) -> Result<bool>,
) -> Result<bool> {
    let Some(ends_from) = from.checked_add(1).filter(|_| from <= to) else { return Ok(true) };
    let span = Span { keys: Keys::One(key), from: ends_from, to: i64::MAX, second_to: i64::MAX };
    let mut rows = history.scan(span, direction, None)?;
    while let Some((row, value)) = rows.next()? {
        let (valid_to, timestamp) = (row.suffix.time(), row.suffix.second());
        if timestamp > to && direction == Direction::Forward {
            // Later rows begin later still.
            break;
        }
        let is_tombstone = valid_to == timestamp;
        if timestamp <= to && !is_tombstone && !each(VersionedRecord { value, timestamp, valid_to: Some(valid_to) })? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<S: SpaceMut + ?Sized> Versioned<'_, S> {
    /// Puts a version of a key, or with `None` a tombstone; one of the same time is replaced. Versions may come in any order.
    pub fn put(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> Result<VersionPut> {
        if timestamp < self.oldest() {
            return Ok(VersionPut::TooOld);
        }
        self.history.observe(timestamp);
        let latest = self.latest.get(key)?.map(ValueAndTimestamp::decode).transpose()?;
        let latest_time = latest.map(|latest| latest.timestamp);
        match latest {
            Some(latest) if latest.timestamp < timestamp => {
                self.history.put(key, Suffix::Times(timestamp, latest.timestamp), Some(latest.value))?;
                self.put_latest(key, value, timestamp)
            }
            Some(latest) if latest.timestamp == timestamp => self.put_latest(key, value, timestamp),
            _ => self.put_before(key, value, timestamp, latest_time),
        }
    }

    /// Puts a tombstone; answers what was valid at its time, which is nothing if it is too old to be put.
    pub fn delete(&mut self, key: &[u8], timestamp: i64) -> Result<Option<VersionedRecord<'_>>> {
        let mut value = Vec::new();
        let found = self.get_as_of(key, timestamp)?.map(|found| {
            value.extend_from_slice(found.value);
            (found.timestamp, found.valid_to)
        });
        let put = self.put(key, None, timestamp)?;
        self.value = value;
        Ok(found.filter(|_| put != VersionPut::TooOld).map(|(timestamp, valid_to)| VersionedRecord {
            value: &self.value,
            timestamp,
            valid_to,
        }))
    }

    fn put_latest(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> Result<VersionPut> {
        match value {
            Some(value) => {
                let row = self.history.buffer();
                row.clear();
                ValueAndTimestamp { timestamp, value }.encode(row);
                self.latest.put(key, Some(row))?;
            }
            None => {
                self.put_tombstone(key, timestamp)?;
                self.latest.put(key, None)?;
            }
        }
        Ok(VersionPut::Latest)
    }

    /// Puts a version before the latest one, or where the latest is a tombstone or none.
    fn put_before(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: i64,
        latest: Option<i64>,
    ) -> Result<VersionPut> {
        let next = version_after(&self.history, key, timestamp, &mut self.value)?;
        let valid_to = match next {
            // The next version is one of the history.
            Some((_, from)) if from > timestamp => from,
            // This version takes the second part of another one, or all of it.
            Some((to, _)) => to,
            None => match latest {
                Some(latest) => latest,
                None => return self.put_latest(key, value, timestamp),
            },
        };
        match value {
            Some(value) => drop(self.history.put(key, Suffix::Times(valid_to, timestamp), Some(value))?),
            None => self.put_tombstone(key, timestamp)?,
        }
        match next {
            Some((to, from)) if from < timestamp => {
                self.history.put(key, Suffix::Times(timestamp, from), Some(&self.value))?;
                self.history.put(key, Suffix::Times(to, from), None)?;
            }
            Some((to, from)) if from == timestamp && value.is_none() => {
                self.history.put(key, Suffix::Times(to, from), None)?;
            }
            _ => {}
        }
        Ok(VersionPut::ValidTo(valid_to))
    }

    fn put_tombstone(&mut self, key: &[u8], timestamp: i64) -> Result<()> {
        self.history.put(key, Suffix::Times(timestamp, timestamp), Some(&[])).map(drop)
    }
}
