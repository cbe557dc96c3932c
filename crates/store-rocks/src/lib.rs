//! Millpond's RocksDB storage engine: state larger than memory, on local disk, within one memory budget.
//!
//! * **A shard is one database** with two column families, whatever the number of stores: one for all plain spaces (the
//!   space's number in front of each key, the metadata beside them) and one for the expiring space that windowed stores
//!   share, keyed by expiry, so that expired rows go file by file.
//! * **No write-ahead log**: the changelog is one. What is durable is what the last flush wrote, always all spaces and the
//!   metadata together. Only an [unlogged](millpond_store_api::ShardSpec::unlogged) shard has one; it is synced by a flush, so
//!   a killed process loses nothing, a power cut the tail.
//! * **One budget**: [`RocksSettings::memory_bytes`] holds the block cache and all memtables of the process; a thread of the
//!   engine flushes the shard with the most unflushed bytes when they come near their share.
//! * **Options of RocksDB** that are a matter of speed and space are set for all shards or one, apart for each family:
//!   [`RocksConfigSetter`].
//!
//! Limits: one expiring space per shard; a directory is open in one process at a time; `malloc_trim` is called once a second
//! under glibc.
//!
//! ```
//! use millpond_store_api::{DirectSpace, Engine, Flush, ShardSpec, Space, SpaceId, SpaceMut, SpaceSpec};
//! use millpond_store_rocks::{RocksEngine, RocksSettings};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temp = tempfile::tempdir()?;
//! # let dir = temp.path();
//! let engine = RocksEngine::new(RocksSettings { memory_bytes: Some(64 << 20), ..RocksSettings::default() })?;
//! let spaces = [SpaceSpec { id: SpaceId(1), name: "counts".to_owned(), expires: false }];
//! let mut shard = engine.open(&ShardSpec { dir: Some(dir), spaces: &spaces, unlogged: false })?;
//!
//! let mut counts = DirectSpace::new(&mut *shard, SpaceId(1));
//! counts.put(b"heron", Some(b"3"))?;
//! assert_eq!(counts.get(b"heron")?, Some(&b"3"[..]));
//!
//! shard.flush(Flush::Wait)?;
//! shard.close()?;
//! # Ok(())
//! # }
//! ```

mod apply;
mod count;
mod cursor;
mod database;
mod directory;
mod engine;
mod error;
mod expiry;
mod ffi;
mod flusher;
mod gate;
mod handle;
mod layout;
mod metrics;
mod options;
mod ports;
mod reader;
mod setter;
mod shard;

pub use engine::RocksEngine;
pub use metrics::{ShardUsage, Usage};
pub use options::RocksSettings;
pub use ports::{Ports, SystemPorts};
pub use setter::{Compression, FamilyOptions, RocksConfigSetter};

const _: () = {
    const fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<RocksEngine>();
    send_and_sync::<reader::RocksReader>();
    const fn send<T: Send>() {}
    send::<shard::RocksShard>();
};
