//! Committed offsets of a group, fenced by its generations.

use std::sync::Arc;
use std::time::Duration;

use crate::{CommitOutcome, Offset, Result};

/// Who commits: refused if the group knows a newer generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The group's id.
    pub group: Arc<str>,
    /// The id that the coordinator gave to this member.
    pub member_id: Arc<str>,
    /// The static member id (`group.instance.id`, KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// The generation that the committed work was done in. Never -1: brokers accept that unfenced.
    pub generation: i32,
}

/// An offset to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOffset<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The offset of the next record to be processed.
    pub next: Offset,
    /// The leader epoch of the last processed record; -1 if unknown.
    pub leader_epoch: i32,
    /// A short text that is kept beside the offset.
    pub metadata: &'a str,
}

/// An offset as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The offset of the next record to be processed.
    pub next: Offset,
    /// The leader epoch that was committed with it; -1 if unknown.
    pub leader_epoch: i32,
    /// The text that was committed with it.
    pub metadata: String,
}

/// The answer of [`GroupOffsets::fetch_stable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stable {
    /// In the order of the question; `None`: nothing was committed.
    Offsets(Vec<Option<Committed>>),
    /// A transaction that is not over holds an offset of this partition (UNSTABLE_OFFSET_COMMIT, KIP-447): ask again.
    Unstable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
}

/// Reads and writes a group's offsets outside of transactions. `Send`, not `Sync`.
pub trait GroupOffsets: Send {
    /// Commits offsets at once, fenced by generation, member id and static id: all of them, or none. While the group waits
    /// for its leader's assignment the answer is [`CommitOutcome::Aborted`] with [`Retriable`](crate::ErrorKind::Retriable)
    /// (Kafka's REBALANCE_IN_PROGRESS). A generation, id or group that is not known is [`CommitOutcome::Fenced`] with
    /// [`MembershipLost`](crate::ErrorKind::MembershipLost).
    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome;

    /// Reads offsets, refusing those that an open transaction may still change (`require_stable`).
    fn fetch_stable(&mut self, group: &str, of: &[(&str, i32)], max_wait: Duration) -> Result<Stable>;
}
