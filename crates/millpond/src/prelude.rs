//! What most programs need: `use millpond::prelude::*;`.

#[cfg(feature = "kafka")]
pub use millpond_broker_kafka::{Kafka, KafkaBroker, KafkaSettings};
pub use millpond_broker_mem::EmbeddedBroker;
pub use millpond_runtime::{
    App, AppState, ErrorAnswer, ErrorHandler, ErrorPolicy, ErrorStage, Failed, Guarantee, Settings, Shutdown,
};
pub use millpond_store_mem::MemEngine as Memory;
#[cfg(feature = "rocks")]
pub use millpond_store_rocks::{RocksEngine as Rocks, RocksSettings};

// Topologies, and processors in them.
pub use millpond_topology::{
    BufferConfig, Builder, Child, Consumed, Context, Deletes, EmitStrategy, FixedKeyRecord, Grouped, Headers, Init,
    Materialized, OffsetReset, Optimization, Processor, Produced, Record, RecordContext, Repartitioned, RowContext,
    Schedule, SessionWindows, SlidingWindows, StoreFormat, Stream, Suppressed, Table, TimeWindows, Timer, Topology,
    Upserts, ValueTransformer,
};

// Stores of processors: how they are declared, their kinds, and what their rows are.
pub use millpond_topology::{
    AggregationWithHeaders, KeyValue, ListValue, ReadOnly, Session, SessionWithHeaders, StoreHandle, StoreRef,
    StoreSpec, TimestampedKeyValue, TimestampedKeyValueWithHeaders, TimestampedWindow, TimestampedWindowWithHeaders,
    TtlKeyValue, ValueAndTimestamp, ValueTimestampHeaders, VersionPut, Versioned, VersionedRecord, Window, Windowed,
};

#[cfg(feature = "postcard")]
pub use millpond_topology::Postcard;
#[cfg(feature = "prost")]
pub use millpond_topology::Protobuf;

// Serdes, and what makes one.
pub use millpond_topology::{
    Bool, ByteArray, F32, F64, I16, I32, I64, Json, List, Nullable, Serde, SessionWindowed, TimeWindowed, U64, Utf8,
    UuidText, Void,
};

/// What a processor answers: `Result` or `Result<T>`. With a second parameter it is the standard library's, so that the name
/// serves for all else as well.
pub type Result<T = (), E = millpond_topology::Error> = std::result::Result<T, E>;
