//! The storage seam of Millpond: what an engine promises, and the store kinds that stand on it.
//!
//! | you want to | look at |
//! |---|---|
//! | write an engine | [`Engine`] and [`Shard`]; run `millpond-store-conformance` against it |
//! | read or write a store | the kinds: [`KeyValue`], [`TimestampedKeyValue`] |
//! | write a kind | [`Space`] and [`SpaceMut`] |
//! | wrap an engine (encryption, throttling) | [`Shard`], [`ShardReader`], [`Writes`]; [`Poison`] is an example |
//!
//! This crate knows no Kafka, no serde and no async. All its traits are synchronous and object safe.

mod batch;
mod capability;
mod chunk;
mod cursor;
mod engine;
mod error;
mod kind;
mod poison;
mod range;
mod shard;
mod space;

pub use batch::{List, Write, Writes};
pub use capability::{Capabilities, Isolation};
pub use chunk::Chunk;
pub use cursor::{Cursor, Direction, Empty, Row};
pub use engine::{Engine, EngineMemory, ShardSpec, SpaceId, SpaceSpec};
pub use error::{Error, ErrorKind, Result};
pub use kind::{KeyValue, KeyValueRow, TimestampedKeyValue, TimestampedRow, ValueAndTimestamp};
pub use poison::Poison;
pub use range::{Prefix, Range};
pub use shard::{Flush, Read, Shard, ShardReader};
pub use space::{DirectSpace, ShardSpace, Space, SpaceMut};
