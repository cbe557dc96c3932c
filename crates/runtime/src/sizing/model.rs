//! What a row costs where it lies: the formats' own bytes, and what was measured.
//!
//! The numbers that no format gives are from `crates/bench/tests/sizing.rs`, which measures them anew and compares.

/// RocksDB, per row, beside key and value: sequence number and type, lengths, the row's part of restart points, of the index
/// and of the filter, less what neighbours' keys have in common.
const ROCKS_ROW: f64 = 13.0;
/// The number of the store in front of a plain key.
const PLAIN_PREFIX: f64 = 2.0;
/// In front of and behind the key of a row that expires: bucket, store, end of the key, start of the window.
const EXPIRING_KEY: f64 = 4.0 + 2.0 + 2.0 + 8.0;
/// What updates leave in upper levels until they are compacted: an eighth on top of what is alive, with ten times more in each
/// level.
pub(super) const LEVELS: f64 = 1.125;
/// Of RocksDB's files, what stays in memory to find a row: the filter, 10 bits per key, and the index, a key and a handle per
/// block of 4 KiB.
const FILTER: f64 = 1.25;
const BLOCK: f64 = 4096.0;
const HANDLE: f64 = 12.0;
/// A shard's fixed part in memory, and on disk: manifest, options, log of events.
pub(super) const SHARD_MEMORY: f64 = 256.0 * 1024.0;
pub(super) const SHARD_DISK: f64 = 128.0 * 1024.0;

/// An overlay's slot with its places in the table and in a list.
const SLOT: f64 = 64.0 + 12.0;
/// The memory engine's row in a tree whose nodes are two thirds full.
const TREE_ROW: f64 = 72.0;
/// Keys and values up to this length lie in the slot, or in the row, itself.
const INLINE: f64 = 22.0;
/// What the allocator keeps beside a block.
const ALLOCATED: f64 = 16.0;

/// A batch of records (format 2), and how many are in one: a commit writes them together.
const BATCH: f64 = 61.0;
const IN_BATCH: f64 = 100.0;
/// A record's length, attributes, distances of time and offset, lengths of key and value, number of headers: variable lengths,
/// as they are in such a batch.
const RECORD: f64 = 9.0;
/// Behind the key of a window's record: its start and a number.
const WINDOW_KEY: f64 = 8.0 + 4.0;

/// The bytes of a row as its serdes and kind write it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) key: f64,
    /// With the timestamp, where the kind keeps one.
    pub(super) value: f64,
    pub(super) windowed: bool,
    /// What compression leaves of a byte.
    pub(super) compression: f64,
}

/// What the kind keeps in front of a value.
pub(super) const TIMESTAMP: f64 = 8.0;

impl Row {
    /// In RocksDB's files, once all is compacted.
    pub(super) fn file(self) -> f64 {
        (self.local_key() + self.value) * self.compression + ROCKS_ROW
    }

    /// Of that, what has to be in memory for a read to cost one block.
    pub(super) fn lookup(self) -> f64 {
        FILTER + (self.local_key() + HANDLE) * (self.file() / (BLOCK * self.compression)).min(1.0)
    }

    /// In an overlay.
    pub(super) fn cached(self) -> f64 {
        SLOT + outside(self.overlay_key()) + outside(self.value)
    }

    /// In the memory engine.
    pub(super) fn in_memory(self) -> f64 {
        TREE_ROW + outside(self.overlay_key()) + outside(self.value)
    }

    /// In a changelog, without compression by the producer.
    pub(super) fn logged(self) -> f64 {
        let windows = if self.windowed { WINDOW_KEY } else { 0.0 };
        BATCH / IN_BATCH + RECORD + self.key + windows + self.value
    }

    fn local_key(self) -> f64 {
        if self.windowed { self.overlay_key() } else { PLAIN_PREFIX + self.key }
    }

    /// As spaces have it: the store's number is RocksDB's affair.
    fn overlay_key(self) -> f64 {
        if self.windowed { EXPIRING_KEY + self.key } else { self.key }
    }
}

/// What lies in a block of its own.
fn outside(bytes: f64) -> f64 {
    if bytes <= INLINE { 0.0 } else { bytes + ALLOCATED }
}
