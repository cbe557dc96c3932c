//! Bringing a shard to the end of its changelogs: a state machine without I/O, and the applier that writes to the shard.
//!
//! One [`Restore`] per shard, from taking a task over until its state is complete:
//!
//! 1. ask the broker for the [`LogRange`] of every changelog partition, then [`Restore::plan`];
//! 2. [`Applier::prepare`] clears the stores that begin anew (alone: [`clear_store`]);
//! 3. give [`Restore::changes`] to a consumer that reads committed records only, and poll; per poll [`Applier::batch`] applies
//!    the records, then [`Restore::reached`] takes the consumer's position of each source in [`Restore::reading`];
//! 4. when the machine [has arrived](Restore::has_arrived), [`Applier::finish`] writes the last positions.
//!
//! A source that stands still with [`OutOfRange`](millpond_broker_api::ErrorKind::OutOfRange) is asked about anew and
//! [planned again](Restore::replan).

mod accepts;
mod apply;
mod clear;
mod merged;
mod plan;
mod progress;
mod rows;
mod select;
mod staged;

use millpond_broker_api::{Change, Offset, Source};

pub use accepts::Accepts;
pub use apply::{Applied, Applier, ApplyLimits, PolledBatch};
pub use clear::clear_store;
pub use plan::{Changelog, Decision, LogRange, RebuildReason, decide};
pub use progress::{RestoreProgress, Waiting};

use crate::ShardMetadata;

/// Where a restore stands. It goes forward only, but for a part that is [planned again](Restore::replan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RestorePhase {
    /// Decided; nothing is done yet.
    Planned,
    /// The shard is ready for records, and follows the log.
    Fetching,
    /// The shard holds everything, and says so in its metadata.
    CaughtUp,
}

/// What was decided about a changelog partition.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The partition, and the store that it is for.
    pub changelog: &'a Changelog,
    /// What is done with it.
    pub decision: Decision,
    /// Where reading ends: the log's end, or a cut's.
    pub until: Offset,
}

/// The restore of one shard. Pure: it is told what happened, and answers what it knows and wants.
#[derive(Debug)]
pub struct Restore {
    /// By source.
    parts: Vec<Part>,
    /// Wall-clock milliseconds when it was planned.
    now_ms: i64,
    finished: bool,
}

/// The restore of one changelog partition.
#[derive(Debug)]
struct Part {
    changelog: Changelog,
    log: LogRange,
    decision: Decision,
    /// The shard is ready for its records.
    prepared: bool,
    /// All below is in the shard, or is nothing that counts. Never above `log.until`, but where the shard began there.
    position: Offset,
    /// As `position`, once the batch that is being written is in the shard.
    pending: Offset,
    /// The greatest time that the store has observed, in milliseconds; `None` for none.
    observed: Option<i64>,
    /// As `observed`, once the batch that is being written is in the shard.
    pending_observed: Option<i64>,
    /// The last stable offset, as told.
    stable_end: Offset,
    records: u64,
    bytes: u64,
    null_keys: u64,
    refused: u64,
    /// The first reason to build it anew.
    rebuilt: Option<RebuildReason>,
    rebuilds: u32,
}

impl Part {
    fn is_done(&self) -> bool {
        self.position >= self.log.until
    }

    /// All below `offset` has been delivered. What lies past the end is not ours to count.
    fn advance(&mut self, offset: Offset) {
        self.position = self.position.max(offset.min(self.log.until));
        self.pending = self.position;
    }

    /// Writes down what the store stands for.
    fn tell(&self, metadata: &mut ShardMetadata, position: Offset, observed: Option<i64>) {
        let Changelog { topic, partition, store, .. } = &self.changelog;
        metadata.set_changelog(topic, self.log.topic_id, *partition, position);
        if let Some(time) = observed {
            metadata.observe(store, time);
        }
    }

    fn decide(&mut self, decision: Decision) {
        self.decision = decision;
        self.prepared = !decision.clears();
        self.position = decision.from();
        self.pending = self.position;
        if decision.clears() {
            self.observed = None;
        }
        self.pending_observed = self.observed;
        self.stable_end = Offset::MAX;
        if let Decision::Rebuild { why, .. } = decision {
            self.rebuilt.get_or_insert(why);
            self.rebuilds += 1;
        }
    }
}

impl Restore {
    /// Decides about every changelog partition of a shard. `metadata`: what the shard's rows stand for (the default for a
    /// new shard). `now_ms`: the wall clock, in milliseconds since 1970.
    pub fn plan(
        metadata: &ShardMetadata,
        changelogs: impl IntoIterator<Item = (Changelog, LogRange)>,
        now_ms: i64,
    ) -> Self {
        let age_ms = (metadata.written_ms > 0).then(|| now_ms.saturating_sub(metadata.written_ms));
        let mut parts: Vec<_> = changelogs
            .into_iter()
            .map(|(changelog, log)| {
                let local = metadata.changelog(&changelog.topic, changelog.partition);
                let decision = decide(local, &log, age_ms);
                let observed = metadata.stream_time(&changelog.store);
                let mut part = Part {
                    changelog,
                    log,
                    decision,
                    prepared: false,
                    position: 0,
                    pending: 0,
                    observed,
                    pending_observed: observed,
                    stable_end: Offset::MAX,
                    records: 0,
                    bytes: 0,
                    null_keys: 0,
                    refused: 0,
                    rebuilt: None,
                    rebuilds: 0,
                };
                part.decide(decision);
                part
            })
            .collect();
        parts.sort_by_key(|part| part.changelog.source);
        Self { parts, now_ms, finished: false }
    }

    /// Where the restore stands.
    pub fn phase(&self) -> RestorePhase {
        if self.finished {
            RestorePhase::CaughtUp
        } else if self.parts.iter().all(|part| part.prepared) {
            RestorePhase::Fetching
        } else {
            RestorePhase::Planned
        }
    }

    /// What was decided, for each changelog partition.
    pub fn decisions(&self) -> impl Iterator<Item = Decided<'_>> {
        self.parts.iter().map(|part| Decided {
            changelog: &part.changelog,
            decision: part.decision,
            until: part.log.until,
        })
    }

    /// What a consumer has to be told, to read what is still missing.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.parts.iter().filter(|part| !part.is_done()).map(|part| Change::Add {
            source: part.changelog.source,
            topic: &part.changelog.topic,
            partition: part.changelog.partition,
            from: part.position,
        })
    }

    /// The sources that have not reached their end.
    pub fn reading(&self) -> impl Iterator<Item = Source> {
        self.parts.iter().filter(|part| !part.is_done()).map(|part| part.changelog.source)
    }

    /// Tells the consumer's position of a source, after all records that were polled were applied. This, not the last
    /// record, is what reaches the end: transaction markers, aborted records and compacted ones are never seen.
    ///
    /// True if the source has reached its end by it: remove it from the consumer.
    pub fn reached(&mut self, source: Source, position: Offset) -> bool {
        let Some(part) = self.part_mut(source).filter(|part| part.prepared && !part.is_done()) else { return false };
        part.advance(position);
        part.is_done()
    }

    /// Tells the last stable offset of a source that stands still
    /// ([`Consumer::known_end`](millpond_broker_api::Consumer::known_end) of a consumer that reads committed records), so
    /// that its progress shows whether an open transaction is what it waits for.
    pub fn stable_end(&mut self, source: Source, offset: Offset) {
        if let Some(part) = self.part_mut(source) {
            part.stable_end = offset;
        }
    }

    /// Decides anew about a source that the broker calls out of range: its position against the log as it is now. `None`
    /// if it is no source of this restore.
    ///
    /// Then [`Applier::prepare`], and give the consumer the [changes](Restore::changes) again. How often that happened is in
    /// the [progress](RestoreProgress::rebuilds): give up with its reason when it happens again and again.
    pub fn replan(&mut self, source: Source, mut log: LogRange) -> Option<Decision> {
        let part = self.part_mut(source)?;
        if part.changelog.accepts.is_some() {
            // Others write to it: what has come since is not restored.
            log.until = part.log.until.clamp(log.start, log.end);
        }
        let local = part.prepared.then_some(crate::ChangelogPosition {
            topic: &part.changelog.topic,
            topic_id: part.log.topic_id,
            partition: part.changelog.partition,
            next: part.position,
        });
        let decision = decide(local, &log, None);
        part.log = log;
        part.decide(decision);
        self.finished = false;
        Some(decision)
    }

    /// True if every position has reached its end; [`Applier::finish`] is what is left to do.
    pub fn has_arrived(&self) -> bool {
        self.parts.iter().all(|part| part.prepared && part.is_done())
    }

    fn part_mut(&mut self, source: Source) -> Option<&mut Part> {
        let i = self.part_index(source)?;
        self.parts.get_mut(i)
    }

    fn part_index(&self, source: Source) -> Option<usize> {
        self.parts.binary_search_by_key(&source, |part| part.changelog.source).ok()
    }
}
