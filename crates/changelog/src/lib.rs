//! Compacted topics of Millpond: names, configs, encoding, restore.
//!
//! Invariant: replaying a changelog from its start gives the store. Nothing here decides who owns a partition, knows a
//! clock or starts a thread.
//!
//! | you want | look at |
//! |---|---|
//! | an internal topic's name and configs | [`changelog_topic`], [`repartition_topic`], [`InternalTopic`] |
//! | the partition of a key | [`partition_for_key`] |
//! | a row as a changelog record, and back | [`ValueFormat`], [`RowLayout`]; keys of windows: [`WindowKey`], [`SessionKey`]; records of what is suppressed: [`BufferRecord`] |
//! | what is committed beside an input offset | [`CommitMetadata`] |
//! | the header on records between sub-topologies | [`Cut`], [`CutClass`] |
//! | how far a store has read its inputs, for readers elsewhere | [`Position`] |
//! | what a shard keeps beside its rows | [`ShardMetadata`] |
//! | to create and check internal topics | [`ensure_topics`] |
//! | to bring a shard to its changelogs' ends | [`Restore`], [`Applier`] |
//! | to delete the rows of one store | [`clear_store`] |

mod buffer;
mod change;
mod commit_metadata;
mod create;
mod cut;
mod encode;
mod error;
mod layout;
mod partition;
mod position;
mod restore;
mod shard_metadata;
mod topic;
mod windowed_key;
mod wire;

pub use buffer::BufferRecord;
pub use change::{Change, Logged};
pub use commit_metadata::CommitMetadata;
pub use create::{EnsuredTopics, MissingTopics, ensure_topics};
pub use cut::{CUT_HEADER, Cut, CutBytes, CutClass, CutKind, UnknownCut};
pub use encode::{RowScratch, ValueFormat};
pub use error::{Error, ErrorKind, Result};
pub use layout::RowLayout;
pub use partition::{murmur2, partition_for_key};
pub use position::Position;
pub use restore::{
    Accepts, Applied, Applier, ApplyLimits, Changelog, Decided, Decision, LogRange, PolledBatch, RebuildReason,
    Restore, RestorePhase, RestoreProgress, Waiting, clear_store, decide,
};
pub use shard_metadata::{ChangelogPosition, ShardMetadata};
pub use topic::{InternalTopic, TopicDefaults, TopicDifference, TopicKind, changelog_topic, repartition_topic};
pub use windowed_key::{KeyOrder, SessionKey, WindowKey};

const _: () = {
    const fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<Applier>();
    send_and_sync::<Restore>();
    send_and_sync::<ShardMetadata>();
};
