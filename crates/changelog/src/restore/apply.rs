//! From polled batches to a shard: bounded batches with their positions, past the overlay, nothing allocated per record.

use std::ops::Range;

use millpond_broker_api::{Batch, Records, Source};
use millpond_store_api::{self as store, Chunk, Direction, Range as Keys, Shard, SpaceId, Write, Writes};

use super::{Part, Restore};
use crate::{RowScratch, ShardMetadata, ValueFormat};

/// How much goes to a shard at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyLimits {
    /// Records, at least 1.
    pub records: usize,
    /// Bytes of keys and values; a record that is larger goes alone.
    pub bytes: usize,
}

/// Small against a write buffer of 1–4 MiB, large against what a batch costs.
impl Default for ApplyLimits {
    fn default() -> Self {
        Self { records: 4096, bytes: 512 << 10 }
    }
}

/// What became of the records of a polled batch.
#[must_use]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Batches that were written to the shard.
    pub batches: u64,
    /// Records in them, deletes included.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records without a key, skipped.
    pub null_keys: u64,
    /// Records at or past the restore's end, left alone.
    pub past_end: u64,
}

/// Writes restored records to shards. One per restore thread: it keeps its buffers.
#[derive(Debug, Default)]
pub struct Applier {
    limits: ApplyLimits,
    runs: Vec<Run>,
    spans: Vec<Span>,
    chunk: Chunk,
    scratch: RowScratch,
    blob: Vec<u8>,
}

/// Records of one source that stand together in a polled batch.
#[derive(Clone, Debug)]
struct Run {
    source: Source,
    records: Range<usize>,
}

/// The part of a run that goes to the shard in one batch.
#[derive(Clone, Debug)]
struct Span {
    part: usize,
    space: SpaceId,
    format: ValueFormat,
    records: Range<usize>,
    applied: u64,
    bytes: u64,
    null_keys: u64,
    latest: i64,
}

/// A polled batch, sorted out once for all the shards that it is for.
pub struct PolledBatch<'a> {
    applier: &'a mut Applier,
    records: &'a dyn Records,
}

impl std::fmt::Debug for PolledBatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolledBatch").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

impl Applier {
    /// An applier with its limits.
    pub fn new(limits: ApplyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Does what the plan asks of the shard before the first record: stores that begin anew are cleared, and from the first
    /// deletion on the shard has no position for them, so that a crash in between begins anew, too.
    pub fn prepare(
        &mut self,
        restore: &mut Restore,
        shard: &mut dyn Shard,
        metadata: &mut ShardMetadata,
    ) -> store::Result<()> {
        if restore.has_arrived() {
            return Ok(());
        }
        metadata.restoring = true;
        if metadata.written_ms == 0 {
            metadata.written_ms = restore.now_ms;
        }
        let to_clear = || restore.parts.iter().filter(|part| !part.prepared);
        for Part { changelog, .. } in to_clear() {
            metadata.forget_changelog(&changelog.topic, changelog.partition);
            metadata.forget_stream_time(&changelog.store);
        }
        metadata.encode(&mut self.blob);
        for part in to_clear() {
            if let Some(space) = part.changelog.rows.own_space() {
                self.clear(shard, space)?;
            }
        }
        restore.parts.iter_mut().for_each(|part| part.prepared = true);
        Ok(())
    }

    /// Deletes all rows of a space, a chunk at a time. A space without rows is not written to.
    fn clear(&mut self, shard: &mut dyn Shard, space: SpaceId) -> store::Result<()> {
        loop {
            let limit = self.limits.records.max(1);
            let more = self.chunk.fill(&mut *shard.scan(space, Keys::ALL, Direction::Forward)?, limit)?;
            if !self.chunk.is_empty() {
                shard.apply(&mut Deletes { space, rows: &self.chunk, at: 0 }, &self.blob)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Takes a polled batch, to be applied to one shard after the other.
    pub fn batch<'a>(&'a mut self, batch: &Batch<'a>) -> PolledBatch<'a> {
        let records = batch.records;
        self.runs.clear();
        for i in 0..records.len() {
            let Some(record) = records.get(i) else { continue };
            match self.runs.last_mut() {
                Some(run) if run.source == record.source && run.records.end == i => run.records.end = i + 1,
                _ => self.runs.push(Run { source: record.source, records: i..i + 1 }),
            }
        }
        PolledBatch { applier: self, records }
    }

    /// Writes the last positions once the restore [has arrived](Restore::has_arrived), so that the shard stands at the end
    /// even where the log ends with markers, and says that it is complete. Does nothing before. A shard that lacked nothing
    /// is not written to.
    pub fn finish(
        &mut self,
        restore: &mut Restore,
        shard: &mut dyn Shard,
        metadata: &mut ShardMetadata,
    ) -> store::Result<()> {
        if restore.finished || !restore.has_arrived() {
            return Ok(());
        }
        let mut lacked = metadata.restoring;
        for Part { changelog, log, position, .. } in &restore.parts {
            let before = metadata.changelog(&changelog.topic, changelog.partition).map(|local| local.next);
            lacked |= before != Some(*position);
            metadata.set_changelog(&changelog.topic, log.topic_id, changelog.partition, *position);
        }
        if lacked {
            metadata.restoring = false;
            metadata.written_ms = restore.now_ms;
            metadata.encode(&mut self.blob);
            let written = shard.apply(&mut store::List::new(&[]), &self.blob);
            metadata.restoring = written.is_err();
            written?;
        }
        restore.finished = true;
        Ok(())
    }
}

impl PolledBatch<'_> {
    /// Applies the records of a restore's sources to its shard, in bounded batches, each with the positions it leads to.
    ///
    /// After an error the restore and `metadata` stand at the last batch that the shard took. If the error is
    /// [`Retry`](store::ErrorKind::Retry), the same call goes on from there; else close the shard, reopen it, plan anew.
    pub fn apply(
        &mut self,
        restore: &mut Restore,
        shard: &mut dyn Shard,
        metadata: &mut ShardMetadata,
    ) -> store::Result<Applied> {
        let mut applied = Applied::default();
        let mut at = Place::default();
        while at.run < self.applier.runs.len() {
            at = self.select(restore, at, &mut applied);
            self.write(restore, shard, metadata, &mut applied)?;
        }
        Ok(applied)
    }

    /// Chooses what goes into the next batch, from a place on; answers with the place to go on from.
    fn select(&mut self, restore: &mut Restore, from: Place, applied: &mut Applied) -> Place {
        let Applier { limits, runs, spans, .. } = &mut *self.applier;
        spans.clear();
        let mut room = Room { records: limits.records, bytes: limits.bytes, empty: true };
        for (i, run) in runs.iter().enumerate().skip(from.run) {
            let Some(n) = restore.part_index(run.source) else { continue };
            let Some(part) = restore.parts.get_mut(n).filter(|part| part.prepared && !part.is_done()) else { continue };
            let first = if i == from.run { from.record.max(run.records.start) } else { run.records.start };
            let mut span = Span::new(n, part, first);
            let stop = span.select(part, self.records, first..run.records.end, &mut room, applied);
            spans.push(span);
            if stop < run.records.end {
                return Place { run: i, record: stop };
            }
        }
        Place { run: runs.len(), record: 0 }
    }

    /// Writes the chosen records, and moves the positions if the shard took them.
    fn write(
        &mut self,
        restore: &mut Restore,
        shard: &mut dyn Shard,
        metadata: &mut ShardMetadata,
        applied: &mut Applied,
    ) -> store::Result<()> {
        let Applier { spans, scratch, blob, .. } = &mut *self.applier;
        let touched = || spans.iter().filter(|span| !span.records.is_empty());
        if touched().next().is_some() {
            for span in touched() {
                let Some(Part { changelog, log, pending, .. }) = restore.parts.get(span.part) else { continue };
                metadata.set_changelog(&changelog.topic, log.topic_id, changelog.partition, *pending);
                if span.applied > 0 {
                    metadata.observe(&changelog.store, span.latest);
                }
            }
            metadata.encode(blob);
            let mut writes = Restored { records: self.records, spans, span: 0, at: None, scratch };
            if let Err(error) = shard.apply(&mut writes, blob) {
                self.put_back(restore, metadata);
                return Err(error);
            }
            applied.batches += 1;
        }
        for span in &*spans {
            let Some(part) = restore.parts.get_mut(span.part) else { continue };
            part.position = part.pending;
            part.records += span.applied;
            part.bytes += span.bytes;
            part.null_keys += span.null_keys;
            applied.records += span.applied;
            applied.bytes += span.bytes;
            applied.null_keys += span.null_keys;
        }
        Ok(())
    }

    /// Takes the positions back that the shard did not take.
    fn put_back(&mut self, restore: &mut Restore, metadata: &mut ShardMetadata) {
        for span in &self.applier.spans {
            let Some(part) = restore.parts.get_mut(span.part) else { continue };
            part.pending = part.position;
            let Part { changelog, log, position, .. } = part;
            metadata.set_changelog(&changelog.topic, log.topic_id, changelog.partition, *position);
        }
    }
}

/// Where in a polled batch the next batch for the shard begins.
#[derive(Clone, Copy, Default)]
struct Place {
    run: usize,
    record: usize,
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
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

impl Span {
    fn new(n: usize, part: &Part, first: usize) -> Self {
        Self {
            part: n,
            space: part.changelog.rows.own_space().unwrap_or(SpaceId(0)),
            format: part.changelog.format,
            records: first..first,
            applied: 0,
            bytes: 0,
            null_keys: 0,
            latest: i64::MIN,
        }
    }

    /// Chooses from one run what comes at or after the part's position and before its end, as far as there is room.
    /// Answers with the record to go on with.
    fn select(
        &mut self,
        part: &mut Part,
        records: &dyn Records,
        run: Range<usize>,
        room: &mut Room,
        applied: &mut Applied,
    ) -> usize {
        for i in run.clone() {
            let Some(record) = records.get(i) else { continue };
            if record.offset < part.pending {
                // The shard took it before an error later in the batch made the caller come again.
                self.records = i + 1..i + 1;
                continue;
            }
            if record.offset >= part.log.until {
                part.pending = part.log.until;
                applied.past_end += (run.end - i) as u64;
                break;
            }
            let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
            if !room.take(bytes) {
                return i;
            }
            self.records.end = i + 1;
            part.pending = record.offset + 1;
            if record.key.is_some() {
                self.applied += 1;
                self.bytes += bytes as u64;
                self.latest = self.latest.max(record.timestamp);
            } else {
                self.null_keys += 1;
            }
        }
        run.end
    }
}

/// The chosen records, as writes: values change their form in one buffer.
struct Restored<'a> {
    records: &'a dyn Records,
    spans: &'a [Span],
    span: usize,
    /// The next record of the current span; `None`: its first.
    at: Option<usize>,
    scratch: &'a mut RowScratch,
}

impl Writes for Restored<'_> {
    fn rewind(&mut self) {
        self.span = 0;
        self.at = None;
    }

    fn next(&mut self) -> Option<Write<'_>> {
        loop {
            let span = self.spans.get(self.span)?;
            let at = self.at.unwrap_or(span.records.start);
            if at >= span.records.end {
                self.span += 1;
                self.at = None;
                continue;
            }
            self.at = Some(at + 1);
            let Some(record) = self.records.get(at) else { continue };
            let Some(key) = record.key else { continue };
            let value = span.format.to_store(record.value, record.timestamp, record.headers.iter(), self.scratch);
            return Some(Write { space: span.space, key, value });
        }
    }
}

/// Deletes of all rows of a chunk.
struct Deletes<'a> {
    space: SpaceId,
    rows: &'a Chunk,
    at: usize,
}

impl Writes for Deletes<'_> {
    fn rewind(&mut self) {
        self.at = 0;
    }

    fn next(&mut self) -> Option<Write<'_>> {
        let row = self.rows.get(self.at)?;
        self.at += 1;
        Some(Write { space: self.space, key: row.key, value: None })
    }
}
