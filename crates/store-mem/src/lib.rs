//! Millpond's ordered in-memory storage engine.
//!
//! Good for state that fits in memory and may be read again from its changelog after a restart, for tests and for demos.
//! Each space is an ordered tree whose keys and values of up to 22 bytes lie in its nodes.
//!
//! Limits: nothing is durable, a reopened shard is empty, and a batch keeps readers on other threads waiting while it is
//! applied. A reader's scan copies chunks of at most 1,024 rows, each of one moment
//! ([`Isolation::Chunk`](millpond_store_api::Isolation::Chunk)), so that no query keeps the writer waiting for long.
//!
//! ```
//! use millpond_store_api::{Engine, List, ShardSpec, SpaceId, SpaceSpec, Write};
//! use millpond_store_mem::MemEngine;
//!
//! let counts = SpaceId(1);
//! let spaces = [SpaceSpec { id: counts, name: "counts".into(), expires: false }];
//! let mut shard = MemEngine::default().open(&ShardSpec { dir: None, spaces: &spaces, unlogged: false })?;
//! let batch = [Write { space: counts, key: b"duck", value: Some(b"3") }];
//! shard.apply(&mut List::new(&batch), b"offset 42")?;
//! assert_eq!(shard.committed(), Some(&b"offset 42"[..]));
//! assert!(shard.get(counts, b"duck", &mut |value| assert_eq!(value, b"3"))?);
//! # Ok::<(), millpond_store_api::Error>(())
//! ```
//!
//! # Simulated durability
//!
//! With a [`SimulatedDisk`] the same engine is persistent as far as a test can tell: a flush saves an image, a shard that
//! is dropped without `close` falls back to it, a directory is locked while it is open, and operations fail on demand. An
//! [unlogged](millpond_store_api::ShardSpec::unlogged) shard is at its last batch instead.
//!
//! ```
//! # use millpond_store_api::{Engine, Flush, List, ShardSpec};
//! use millpond_store_mem::{MemEngine, SimulatedDisk};
//!
//! let disk = SimulatedDisk::default();
//! let spec = ShardSpec { dir: Some("task-0_0".as_ref()), spaces: &[], unlogged: false };
//! let mut shard = MemEngine::with_simulated_disk(&disk).open(&spec)?;
//! shard.apply(&mut List::new(&[]), b"1")?;
//! shard.flush(Flush::Wait)?;
//! shard.apply(&mut List::new(&[]), b"2")?;
//! drop(shard); // The process is killed.
//! assert_eq!(MemEngine::with_simulated_disk(&disk).open(&spec)?.committed(), Some(&b"1"[..]));
//! # Ok::<(), millpond_store_api::Error>(())
//! ```

mod cursor;
mod disk;
mod engine;
mod map;
mod reader;
mod shard;
mod shared;
mod small;

pub use disk::{DiskOp, SimulatedDisk};
pub use engine::MemEngine;

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<MemEngine>();
    shared::<SimulatedDisk>();
};
