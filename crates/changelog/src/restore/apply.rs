//! From polled batches to a shard: bounded batches with their positions, past the overlay. Nothing is allocated per record, but
//! for versioned stores and suppression buffers.

use std::ops::Range;

use millpond_broker_api::{Batch, Records, Source};
use millpond_store_api::{self as store, Chunk, Shard, Write};

use super::clear::clear;
use super::rows::{Restored, Scratch};
use super::select::{Selection, Span};
use super::staged::Staging;
use super::{Part, Restore};
use crate::ShardMetadata;

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
    /// Records in them, deletes included, and what has expired since.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records without a key, skipped.
    pub null_keys: u64,
    /// Records that are [not the store's](crate::Changelog::accepts), left out.
    pub refused: u64,
    /// Records at or past the restore's end, left alone.
    pub past_end: u64,
}

/// Writes restored records to shards. One per restore thread: it keeps its buffers.
#[derive(Debug, Default)]
pub struct Applier {
    limits: ApplyLimits,
    runs: Vec<Run>,
    spans: Vec<Span>,
    staging: Staging,
    chunk: Chunk,
    scratch: Scratch,
    blob: Vec<u8>,
}

/// Records of one source that stand together in a polled batch.
#[derive(Clone, Debug)]
struct Run {
    source: Source,
    records: Range<usize>,
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
            clear(shard, part.changelog.rows, &self.blob, &mut self.chunk, self.limits.records.max(1))?;
        }
        restore.parts.iter_mut().for_each(|part| part.prepared = true);
        Ok(())
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
    /// [`Retry`](store::ErrorKind::Retry), the same call goes on from there; else close the shard, reopen it, plan anew. A
    /// record that is none of its store's is [`Invalid`](store::ErrorKind::Invalid), with topic, partition and offset: no row
    /// is guessed from it.
    pub fn apply(
        &mut self,
        restore: &mut Restore,
        shard: &mut dyn Shard,
        metadata: &mut ShardMetadata,
    ) -> store::Result<Applied> {
        let mut applied = Applied::default();
        let mut at = Place::default();
        while at.run < self.applier.runs.len() {
            let next = self.select(restore, shard, at, &mut applied);
            let written = next.and_then(|next| self.write(restore, shard, metadata, &mut applied).map(|()| next));
            if written.is_err() {
                self.put_back(restore);
            }
            at = written?;
        }
        Ok(applied)
    }

    /// Chooses what goes into the next batch, from a place on; answers with the place to go on from.
    fn select(
        &mut self,
        restore: &mut Restore,
        shard: &dyn Shard,
        from: Place,
        applied: &mut Applied,
    ) -> store::Result<Place> {
        let Applier { limits, runs, spans, staging, .. } = &mut *self.applier;
        spans.clear();
        let mut selection = Selection::new(self.records, shard, staging, *limits);
        for (i, run) in runs.iter().enumerate().skip(from.run) {
            let Some(n) = restore.part_index(run.source) else { continue };
            let Some(part) = restore.parts.get_mut(n).filter(|part| part.prepared && !part.is_done()) else { continue };
            let first = if i == from.run { from.record.max(run.records.start) } else { run.records.start };
            let span = spans.push_mut(Span::new(n, first));
            let stop = selection.take(span, part, first..run.records.end)?;
            if stop < run.records.end {
                applied.past_end += selection.past_end;
                return Ok(Place { run: i, record: stop });
            }
        }
        applied.past_end += selection.past_end;
        Ok(Place { run: runs.len(), record: 0 })
    }

    /// Writes the chosen records, and moves the positions if the shard took them.
    fn write(
        &mut self,
        restore: &mut Restore,
        shard: &mut dyn Shard,
        metadata: &mut ShardMetadata,
        applied: &mut Applied,
    ) -> store::Result<()> {
        let Applier { spans, staging, scratch, blob, .. } = &mut *self.applier;
        let touched = || spans.iter().filter(|span| !span.records.is_empty());
        if touched().next().is_some() {
            for part in touched().filter_map(|span| restore.parts.get(span.part)) {
                part.tell(metadata, part.pending, part.pending_observed);
            }
            metadata.encode(blob);
            let staged: Vec<Write<'_>> = staging.writes().collect();
            let mut writes = Restored::new(self.records, &restore.parts, spans, &staged, scratch);
            if let Err(error) = shard.apply(&mut writes, blob) {
                for part in spans.iter().filter_map(|span| restore.parts.get(span.part)) {
                    metadata.forget_stream_time(&part.changelog.store);
                    part.tell(metadata, part.position, part.observed);
                }
                return Err(error);
            }
            applied.batches += 1;
        }
        for span in &*spans {
            let Some(part) = restore.parts.get_mut(span.part) else { continue };
            (part.position, part.observed) = (part.pending, part.pending_observed);
            part.records += span.applied;
            part.bytes += span.bytes;
            part.null_keys += span.null_keys;
            part.refused += span.refused;
            applied.records += span.applied;
            applied.bytes += span.bytes;
            applied.null_keys += span.null_keys;
            applied.refused += span.refused;
        }
        Ok(())
    }

    /// Forgets what was chosen and not written.
    fn put_back(&mut self, restore: &mut Restore) {
        for span in &self.applier.spans {
            if let Some(part) = restore.parts.get_mut(span.part) {
                (part.pending, part.pending_observed) = (part.position, part.observed);
            }
        }
    }
}

/// Where in a polled batch the next batch for the shard begins.
#[derive(Clone, Copy, Default)]
struct Place {
    run: usize,
    record: usize,
}
