//! A complete storage engine over the embedded database redb: the one to copy for an engine of your own.
//!
//! `docs/custom-engines.md` walks from an empty crate to a passing suite; this crate is what stands at its end. It is
//! persistent, and passes every case of `millpond-store-conformance`.
//!
//! | what | where |
//! |---|---|
//! | what opens shards, and the settings | [`CustomEngine`], [`CustomSettings`] |
//! | a shard's directory: its marker, and what is foreign in it | `src/directory.rs` |
//! | the single writer: batches, flushes, the end | `src/shard.rs` |
//! | the state at one moment, which all reads go to | `src/snapshot.rs` |
//! | walks | `src/cursor.rs` |
//! | redb's errors as the seam's | `src/error.rs` |
//! | a wrapper around any engine | [`Counted`] |
//!
//! ```
//! use millpond_example_custom_engine::CustomEngine;
//! use millpond_store_api::{Engine, Flush, List, ShardSpec, SpaceId, SpaceSpec, Write};
//!
//! let dir = tempfile::tempdir()?;
//! let counts = SpaceId(1);
//! let spaces = [SpaceSpec { id: counts, name: "counts".into(), expires: false }];
//! let spec = ShardSpec { dir: Some(dir.path()), spaces: &spaces, unlogged: false };
//! let mut shard = CustomEngine::default().open(&spec)?;
//! let batch = [Write { space: counts, key: b"duck", value: Some(b"3") }];
//! shard.apply(&mut List::new(&batch), b"offset 42")?;
//! shard.flush(Flush::Wait)?;
//! assert_eq!(shard.durable()?, Some(&b"offset 42"[..]));
//! assert!(shard.get(counts, b"duck", &mut |value| assert_eq!(value, b"3"))?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How the contract is met
//!
//! | the contract | redb |
//! |---|---|
//! | a batch and its metadata are one | one write transaction, with the metadata in a table of its own |
//! | durable by a flush, not by a batch | commits with `Durability::None`; a flush is an empty one with `Durability::Immediate` |
//! | a crash leaves the border of a batch | redb comes back at its last immediate commit |
//! | an unlogged shard loses no batch | every commit is immediate |
//! | readers while the writer goes on | read transactions: a reader's walk is of the moment it began |
//! | damaged files are an error | the checksums of all pages are checked at each opening |
//!
//! # Why redb
//!
//! Two databases in Rust alone were measured with one throw-away program: a million rows of 116 bytes in random order, in
//! batches of 10,000 with their metadata, a flush after every tenth, on a slow and shared machine with two cores. What counts is
//! how they differ.
//!
//! | | redb 4.6 | fjall 3.1 |
//! |---|---|---|
//! | a key of 64 KiB, which the contract asks for | works | panics: 65,535 bytes at most |
//! | packages that come with it | 2 | 41 |
//! | threads per shard | 0 | 2 |
//! | peak of memory, with a cache of 64 MiB | 142 MiB | 270 MiB |
//! | rows written per second | 91,000 | 299,000 |
//! | a batch of 10 rows | 154 µs | 66 µs |
//! | a batch that is made durable | 1.2 ms | 0.1 ms |
//! | `get` | 3.7 µs | 6.3 µs |
//! | rows of a walk per second, forward and reverse | 3.1 M, 5.6 M | 2.2 M, 2.1 M |
//! | on disk | 378 MiB | 171 MiB |
//! | opening, after a clean end and after a kill | 2 ms, 346 ms | 332 ms, 386 ms |
//! | closing | 69 ms | 344 ms |
//!
//! fjall writes three times as fast, as a log-structured tree does beside one that copies pages. redb was taken because it
//! meets the contract as it is, the whole of it: keys of any size, a batch that is durable when asked and not before, a cache
//! whose size is the truth, no threads, one file. With fjall keys longer than 65,535 bytes would need a
//! second layout. Whoever writes far more than they read, and has short keys, should take the other.
//!
//! # Limits
//!
//! * Opening reads the whole file, to check it: 354 ms instead of 2 ms for the rows above. Damage that comes while the shard is
//!   open is not looked for.
//! * A flush happens on the thread that asks for it, also one that is only started.
//! * The file does not shrink; it has about three times the rows' bytes. A reader's walk that is not ended keeps the pages of
//!   its moment.
//! * No checkpoints.

mod counted;
mod cursor;
mod directory;
mod engine;
mod error;
mod reader;
mod shard;
mod shared;
mod snapshot;

pub use counted::{Counted, Counts};
pub use engine::{CustomEngine, CustomSettings};

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<CustomEngine>();
    shared::<Counted<CustomEngine>>();
};

/// The walk-through is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/custom-engines.md")]
mod walk_through {}
