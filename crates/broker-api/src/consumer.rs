//! Reading: manual assignment, batches lent by the client.

use std::task::Waker;
use std::time::Duration;

use crate::{Error, Offset, Record, Records, Result};

/// The caller's own number for a partition, given when it is assigned and found on its records: its queue index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Source(pub u32);

/// A change of a consumer's assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Read a partition from an offset on. A `source` that is assigned already is replaced.
    Add {
        /// The number that its records will carry.
        source: Source,
        /// The topic.
        topic: &'a str,
        /// The partition of the topic.
        partition: i32,
        /// The first offset of interest.
        from: Offset,
    },
    /// Stop reading it; nothing of it is delivered any more.
    Remove(Source),
    /// Go on from another offset.
    Seek(Source, Offset),
    /// Deliver nothing until [`Change::Resume`]. Drops what was fetched ahead: not for flapping.
    Pause(Source),
    /// Deliver again, from where it was paused.
    Resume(Source),
}

/// What a poll lends: records in log order per partition, and the partitions that stand still.
pub struct Batch<'a> {
    /// The records.
    pub records: &'a dyn Records,
    /// Partitions that deliver nothing until they are moved or removed, each reported once. Look here first.
    pub faults: &'a [(Source, Error)],
}

impl<'a> Batch<'a> {
    /// All records, in order.
    pub fn iter(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let records = self.records;
        (0..records.len()).filter_map(move |i| records.get(i))
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there is no record.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("records", &self.len()).field("faults", &self.faults).finish()
    }
}

/// A reader of partitions that the caller assigns; it belongs to no group and commits nothing.
///
/// # Contract
///
/// * Transaction markers are never lent; under [`Isolation::ReadCommitted`](crate::Isolation::ReadCommitted) neither are
///   aborted records nor records at or past the last stable offset.
/// * A partition whose offset is out of range becomes a fault; there is no automatic reset.
///
/// # Threading
///
/// `Send`, not `Sync`: made on one thread, used on another. [`Consumer::waker`] is for all threads.
pub trait Consumer: Send {
    /// Applies changes in order; partitions that are not named go on undisturbed.
    fn assign(&mut self, changes: &[Change<'_>]) -> Result<()>;

    /// Lends what is there at once; else waits for something, for the waker, or for `max_wait`. An empty batch is no error.
    fn poll(&mut self, max_wait: Duration) -> Result<Batch<'_>>;

    /// The next offset to be lent, past markers and aborted records as far as polled; never below the assigned offset.
    /// `None` if the source is not assigned.
    fn position(&self, source: Source) -> Option<Offset>;

    /// The end of the partition (as far as this consumer may read) that the last fetch spoke of, as Kafka's `currentLag`
    /// (KIP-695): with [`Consumer::position`] it tells whether there is more to fetch. `None` before the first fetch since
    /// the source was assigned or moved.
    fn known_end(&self, source: Source) -> Option<Offset>;

    /// Ends a running or the next [`Consumer::poll`] from another thread.
    fn waker(&self) -> Waker;
}
