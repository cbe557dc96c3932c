//! What users see of a restore.

use millpond_broker_api::{Offset, Source};

use super::{Part, RebuildReason, Restore};

/// The restore of one store, in numbers. Offsets are next offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreProgress<'a> {
    /// The store.
    pub store: &'a str,
    /// Its changelog.
    pub topic: &'a str,
    /// The changelog's partition.
    pub partition: i32,
    /// The number of the partition in the restore consumer.
    pub source: Source,
    /// Where reading began.
    pub from: Offset,
    /// All below is in the store.
    pub at: Offset,
    /// Where reading ends.
    pub until: Offset,
    /// Records applied since the restore was planned, deletes included.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records without a key, which no store writes; they were skipped.
    pub null_keys: u64,
    /// Records that are [not the store's](crate::Changelog::accepts), left out.
    pub refused: u64,
    /// Why the store was built anew, if it was.
    pub rebuilt: Option<RebuildReason>,
    /// How often it was.
    pub rebuilds: u32,
    /// What it waits for, other than its own records.
    pub waiting: Option<Waiting>,
}

impl RestoreProgress<'_> {
    /// How many offsets are left; more than the records that are left where the log has holes.
    pub fn remaining(&self) -> u64 {
        u64::try_from(self.until.saturating_sub(self.at)).unwrap_or(0)
    }
}

/// What a restore waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A transaction that is not over holds back all records from this offset on. It ends by its producer, or by its
    /// time-out (`transaction.timeout.ms`).
    OpenTransaction {
        /// The last stable offset.
        at: Offset,
    },
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OpenTransaction { at } => write!(f, "an open transaction holds the changelog back at=`{at}`"),
        }
    }
}

impl Restore {
    /// The progress of every store, by source.
    pub fn progress(&self) -> impl Iterator<Item = RestoreProgress<'_>> {
        self.parts.iter().map(Part::progress)
    }
}

impl Part {
    fn progress(&self) -> RestoreProgress<'_> {
        let held_back = !self.is_done() && self.position >= self.stable_end;
        RestoreProgress {
            store: &self.changelog.store,
            topic: &self.changelog.topic,
            partition: self.changelog.partition,
            source: self.changelog.source,
            from: self.decision.from(),
            at: self.position,
            until: self.log.until.max(self.decision.from()),
            records: self.records,
            bytes: self.bytes,
            null_keys: self.null_keys,
            refused: self.refused,
            rebuilt: self.rebuilt,
            rebuilds: self.rebuilds,
            waiting: held_back.then_some(Waiting::OpenTransaction { at: self.stable_end }),
        }
    }
}
