//! The graph, the Processor API and the DSL of Millpond; no I/O, no threads.
//!
//! | you want to | look at |
//! |---|---|
//! | define a program | [`Topology::builder`], [`Builder`]; streams and tables: [`Stream`], [`Table`] |
//! | write user code with state | [`Processor`], [`Context`]; stores: [`StoreSpec`], [`StoreHandle`], [`StoreRef`] |
//! | read and write stores | [`StoreView`], [`WindowView`], [`SessionView`], [`VersionedView`]; their scans: [`Rows`], [`WindowedRows`] |
//! | turn values into bytes | [`Serde`]; [`Utf8`], [`I64`], [`Json`], `Postcard` and `Protobuf` (features `postcard`, `prost`), [`Nullable`], [`List`], [`TimeWindowed`] |
//! | run a topology | [`Topology::task`] makes a [`TaskGraph`]; it talks to a [`Port`] |
//! | see it as text, as a chart, as JSON | [`Topology::describe`] |
//! | know what topics it needs | [`Topology::internal_topics`], [`Topology::partitions`] |
//!
//! A topology is data until [`Topology::task`] makes an instance of one of its sub-topologies: a tree of typed nodes that a
//! record goes through by value, one virtual call per edge. All state lies behind the [`Port`].

mod builder;
mod context;
mod describe;
mod dsl;
mod error;
mod freeze;
mod graph;
mod headers;
mod millis;
mod murmur3;
mod names;
mod node;
mod nodes;
mod optimize;
mod partitions;
mod port;
mod problem;
mod processor;
mod put_log;
mod record;
mod round;
mod serde;
mod store;
mod task;
mod topology;
mod transform;
mod wiring;

pub use builder::Builder;
pub use context::{Child, Context, Init};
pub use describe::{Description, NodeDescription, NodeRole, SubTopologyDescription};
pub use dsl::{
    BufferConfig, CogroupedStream, Consumed, Deletes, Eager, EmitStrategy, Grouped, GroupedStream, GroupedTable,
    Materialized, Produced, Repartitioned, SessionWindowedCogroup, SessionWindowedStream, SessionWindows,
    SlidingWindows, Split, Stream, Strict, Suppressed, Table, TableKind, TimeWindows, Until, UntilTimeLimit,
    UntilWindowCloses, Upserts, WindowedCogroup, WindowedStream, Windowing,
};
pub use error::{Error, ErrorKind, Result};
pub use headers::{Header, Headers};
pub use millpond_store_api::VersionPut;
pub use murmur3::murmur3_128;
pub use optimize::{Optimization, ReusedTopic};
pub use partitions::Partitions;
pub use port::{
    Drained, Dropped, Expiry, Layer, LayerSpace, NodeIndex, Out, Port, PunctuationType, Raw, RecordMetadata, Schedule,
    SinkIndex, SourceIndex, StoreAccess, StoreIndex, TimerId,
};
pub use problem::{BuildError, Problem, ProblemKind};
pub use processor::{Processor, Timer};
pub use put_log::{LoggedPut, PutLog};
pub use record::{Change, FixedKeyRecord, Record, RecordContext};
pub use round::{HeldBack, Round};
#[cfg(feature = "postcard")]
pub use serde::Postcard;
#[cfg(feature = "prost")]
pub use serde::Protobuf;
pub use serde::{
    Bool, ByteArray, ChangeSerde, F32, F64, I16, I32, I64, Json, List, LossyUtf8, Nullable, Serde, SerdeId,
    SessionWindowed, TimeWindowed, U64, Utf8, UuidText, Void, Windowed,
};
pub use store::{
    AggregateWithHeaders, AggregationWithHeaders, Expiring, KeyValue, ListValue, Listed, Logging, Mode, Plain,
    ReadOnly, Readable, Retention, Rows, Session, SessionView, SessionWithHeaders, Stamped, StampedWithHeaders,
    StoreDef, StoreFormat, StoreHandle, StoreKind, StoreRef, StoreSet, StoreSpec, StoreType, StoreView,
    TimestampedKeyValue, TimestampedKeyValueWithHeaders, TimestampedWindow, TimestampedWindowWithHeaders, TtlKeyValue,
    ValueAndTimestamp, ValueTimestampHeaders, Values, Versioned, VersionedRecord, VersionedView, ViewSet, Window,
    WindowView, WindowedRows, Writable,
};
pub use task::TaskGraph;
pub use topology::{
    InternalTopic, InternalTopicKind, OffsetReset, SinkDef, SinkTopic, SourceDef, SubTopology, Topic, Topology,
};
pub use transform::{RowContext, ValueTransformer};
