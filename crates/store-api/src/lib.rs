//! The storage seam of Millpond: what an engine promises, and the store kinds that stand on it.
//!
//! | you want to | look at |
//! |---|---|
//! | write an engine | [`Engine`] and [`Shard`]; run `millpond-store-conformance` against it; `docs/custom-engines.md` is a walk-through |
//! | read or write a store | the kinds: [`KeyValue`], [`TimestampedKeyValue`], [`TimestampedKeyValueWithHeaders`], [`TtlKeyValue`], [`Versioned`], [`Window`], [`Session`], [`ListValue`], [`ArrivalBuffer`], [`KeyBuffer`] |
//! | write a kind | [`Space`] and [`SpaceMut`]; keys of what expires: [`schema`] |
//! | wrap an engine (encryption, throttling) | [`Shard`], [`ShardReader`], [`Writes`]; `examples/custom-engine/src/counted.rs` is an example |
//!
//! This crate knows no Kafka, no serde and no async. All its traits are synchronous and object safe.

mod batch;
mod capability;
mod chunk;
mod cursor;
mod engine;
mod error;
mod kind;
mod merged;
mod poison;
mod range;
pub mod schema;
mod shard;
mod space;
mod varint;

pub use batch::{List, Write, Writes};
pub use capability::{Capabilities, Isolation};
pub use chunk::Chunk;
pub use cursor::{Cursor, Direction, Empty, Row};
pub use engine::{Engine, EngineMemory, ShardSpec, SpaceId, SpaceSpec};
pub use error::{Error, ErrorKind, Result};
pub use kind::{
    AggregationWithHeaders, ArrivalBuffer, BufferScratch, BufferTotals, BufferValue, Buffered, ContextHeaders, Expired,
    Header, HeaderIter, Headers, HeadersRow, KeyBuffer, KeyValue, KeyValueRow, Keys, ListValue, ListValues, MakeValue,
    OldestFirst, Session, SessionRow, SessionScan, Sessions, TimestampedKeyValue, TimestampedKeyValueWithHeaders,
    TimestampedRow, TtlKeyValue, UpdateContext, ValueAndTimestamp, ValueTimestampHeaders, VersionPut, Versioned,
    VersionedRecord, Window, WindowRow, WindowScan,
};
pub use merged::{Above, Merged, RowAbove};
pub use poison::Poison;
pub use range::{Prefix, Range};
pub use shard::{Flush, Read, Shard, ShardReader};
pub use space::{DirectSpace, ShardSpace, Space, SpaceMut};
pub use varint::{put_varint, take_varint};
