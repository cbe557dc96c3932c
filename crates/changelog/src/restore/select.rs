//! Which records of a polled batch go to the shard in one batch, and what they lead to.

use std::ops::Range;

use millpond_broker_api::{Record, Records};
use millpond_store_api::{self as store, KeyBuffer, Read, Versioned};

use super::staged::Staging;
use super::{ApplyLimits, Part};
use crate::{RowLayout, buffer};

/// The part of a run of records that goes to the shard in one batch.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) part: usize,
    pub(super) records: Range<usize>,
    pub(super) applied: u64,
    pub(super) bytes: u64,
    pub(super) null_keys: u64,
    pub(super) refused: u64,
}

impl Span {
    pub(super) fn new(part: usize, first: usize) -> Self {
        Self { part, records: first..first, applied: 0, bytes: 0, null_keys: 0, refused: 0 }
    }
}

/// Chooses the records of one batch for a shard.
pub(super) struct Selection<'a> {
    records: &'a dyn Records,
    shard: &'a dyn Read,
    staging: &'a mut Staging,
    room: Room,
    /// Records at or past the restore's end.
    pub(super) past_end: u64,
}

impl<'a> Selection<'a> {
    pub(super) fn new(
        records: &'a dyn Records,
        shard: &'a dyn Read,
        staging: &'a mut Staging,
        limits: ApplyLimits,
    ) -> Self {
        staging.clear();
        let room = Room { records: limits.records, bytes: limits.bytes, empty: true };
        Self { records, shard, staging, room, past_end: 0 }
    }

    /// Chooses from one run what comes at or after the part's position and before its end, as far as there is room.
    /// Answers with the record to go on with.
    ///
    /// # Errors
    ///
    /// [`Invalid`](store::ErrorKind::Invalid), with topic and offset, for a record that is none of the store's; the shard's,
    /// where rows have to be read.
    pub(super) fn take(&mut self, span: &mut Span, part: &mut Part, run: Range<usize>) -> store::Result<usize> {
        for i in run.clone() {
            let Some(record) = self.records.get(i) else { continue };
            if record.offset < part.pending {
                // The shard took it before an error later in the batch made the caller come again.
                span.records = i + 1..i + 1;
                continue;
            }
            if record.offset >= part.log.until {
                part.pending = part.log.until;
                self.past_end += (run.end - i) as u64;
                break;
            }
            if is_refused(part, &record) {
                if !span.records.is_empty() {
                    // A span has no holes: this batch ends here.
                    return Ok(i);
                }
                span.records = i + 1..i + 1;
                span.refused += 1;
                part.pending = record.offset + 1;
                continue;
            }
            let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
            if !self.room.take(bytes) {
                return Ok(i);
            }
            if let Some(key) = record.key {
                self.read(part, key, &record)?;
                span.applied += 1;
                span.bytes += bytes as u64;
            } else {
                span.null_keys += 1;
            }
            span.records.end = i + 1;
            part.pending = record.offset + 1;
        }
        Ok(run.end)
    }

    /// Observes a record's time, and stages its rows if they depend on others.
    fn read(&mut self, part: &mut Part, key: &[u8], record: &Record<'_>) -> store::Result<()> {
        let Part { changelog, pending_observed: observed, .. } = part;
        let refused = |error: store::Error| {
            error.with("topic", &changelog.topic).with("partition", changelog.partition).with("offset", record.offset)
        };
        let expiring = changelog.rows.key_of_log(key).map_err(refused)?;
        if let RowLayout::Buffer { space } = changelog.rows {
            let mut rows = self.staging.space(self.shard, space);
            let place = (&*changelog.topic, changelog.partition);
            buffer::restore(&mut KeyBuffer::new(&mut rows), key, record, place).map_err(refused)?;
            self.room.spend(rows.written);
        }
        if let RowLayout::Versioned { space, windowed, store, history } = changelog.rows {
            let (mut latest, mut earlier) = self.staging.spaces(self.shard, space, windowed);
            let now = observed.unwrap_or(i64::MIN);
            let mut view = Versioned::new(&mut latest, &mut earlier, store, history, now);
            view.put(key, record.value, record.timestamp)?;
            // Values that were the latest ones so far are written, too, however small the record is.
            self.room.spend(latest.written + earlier.written);
        }
        let time = match changelog.rows {
            // A deletion is marked with the time of who asked for it, which may be the wall clock's. Only a put is observed.
            RowLayout::Ttl { .. } if record.value.is_none() => None,
            // The records have no time: Kafka Streams gives them none.
            RowLayout::Buffer { .. } => None,
            _ => Some(expiring.map_or(record.timestamp, |key| key.suffix.time())),
        };
        *observed = (*observed).max(time);
        Ok(())
    }
}

/// Whether it is a record with a key that is not the store's.
fn is_refused(part: &Part, record: &Record<'_>) -> bool {
    let Some((accepts, key)) = part.changelog.accepts.as_ref().zip(record.key) else { return false };
    !accepts.is(key, record.value, record.timestamp)
}

/// What still fits into a batch.
struct Room {
    records: usize,
    bytes: usize,
    empty: bool,
}

impl Room {
    /// Takes room for one record, if there is some; the first one always fits.
    fn take(&mut self, bytes: usize) -> bool {
        if !self.empty && (self.records == 0 || self.bytes < bytes) {
            return false;
        }
        self.empty = false;
        self.records = self.records.saturating_sub(1);
        self.spend(bytes);
        true
    }

    /// Takes room that is needed in any case.
    fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
