//! What the engine uses, in numbers.

use std::path::PathBuf;
use std::time::Duration;

/// What all shards of an engine take of the machine, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that the block cache accounts for, memtables included.
    pub cache_bytes: u64,
    /// Of those, bytes that cannot be dropped now: memtables, and blocks that look-ups and cursors hold.
    pub pinned_bytes: u64,
    /// Bytes that memtables take.
    pub memtable_bytes: u64,
    /// The memtables' share of the budget: writers wait above it.
    pub memtable_share_bytes: u64,
    /// Flushes by the flusher since the engine was made; RocksDB's own, of a full memtable, are not counted.
    pub flushes: u64,
    /// How often a batch had to wait for the flusher.
    pub waits: u64,
    /// The longest of these waits.
    pub longest_wait: Duration,
    /// The open shards.
    pub shards: Vec<ShardUsage>,
}

/// What one shard takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardUsage {
    /// Its directory.
    pub dir: PathBuf,
    /// Bytes in memtables that no flush has written yet.
    pub unflushed_bytes: u64,
    /// Bytes in tables on disk.
    pub file_bytes: u64,
}
