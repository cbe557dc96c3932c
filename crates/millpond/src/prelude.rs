//! What most programs need: `use millpond::prelude::*;`.

#[cfg(feature = "kafka")]
pub use millpond_broker_kafka::{Kafka, KafkaBroker, KafkaSettings};
pub use millpond_broker_mem::EmbeddedBroker;
pub use millpond_runtime::{App, AppState, ErrorPolicy, Guarantee, Settings, Shutdown};
pub use millpond_store_mem::MemEngine as Memory;
#[cfg(feature = "rocks")]
pub use millpond_store_rocks::{RocksEngine as Rocks, RocksSettings};
pub use millpond_topology::{
    AggregationWithHeaders, Consumed, Context, F64, FixedKeyRecord, Grouped, I32, I64, Init, Json, KeyValue, List,
    ListValue, Materialized, Nullable, Processor, Produced, ReadOnly, Record, Repartitioned, Schedule, Session,
    SessionWindowed, SessionWithHeaders, StoreRef, StoreSpec, TimeWindowed, TimestampedKeyValue,
    TimestampedKeyValueWithHeaders, TimestampedWindow, TimestampedWindowWithHeaders, Topology, TtlKeyValue, Utf8,
    ValueAndTimestamp, ValueTimestampHeaders, VersionPut, Versioned, Window, Windowed,
};
