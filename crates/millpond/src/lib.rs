//! Stateful stream processing on Apache Kafka, centred on its state stores.
//!
//! A topology says what happens to records; an [`App`] runs it on a broker, with the state of its stores in
//! an engine. The default features are pure Rust: an embedded broker and a memory engine, enough to learn, to test and to
//! run small jobs. Features switch on what links C.
//!
//! # A first job
//!
//! Departures are counted per carrier. Everything runs in this process:
//!
//! ```
//! use std::time::Duration;
//!
//! use millpond::broker::{Broker, Change, Isolation, NewTopic, Outgoing, ProducerOptions, Source};
//! use millpond::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! // A broker with two topics, and three records in one of them.
//! let broker = EmbeddedBroker::new();
//! let topic = |name| NewTopic { name, partitions: 2, replication: None, configs: &[] };
//! for made in broker.admin()?.create_topics(&[topic("departures"), topic("per-carrier")])? {
//!     made?;
//! }
//! let mut producer = broker.producer(&ProducerOptions::default())?;
//! let departures = producer.topic("departures");
//! for (flight, carrier) in [("UA1545", "UA"), ("B6725", "B6"), ("UA1714", "UA")] {
//!     let _queued = producer.send(&Outgoing {
//!         topic: departures,
//!         partition: 0,
//!         timestamp: 1_357_034_400_000,
//!         key: Some(flight.as_bytes()),
//!         value: Some(carrier.as_bytes()),
//!         headers: &[],
//!         tag: 0,
//!     })?;
//! }
//! producer.flush(Duration::from_secs(1))?;
//!
//! // The topology: group by carrier, count into a store, send every new count on.
//! let mut topology = Topology::builder();
//! topology
//!     .stream("departures", Consumed::with(Utf8, Utf8))
//!     .group_by(|_flight, carrier: &String| carrier.clone(), Grouped::named("by-carrier").key(Utf8))
//!     .count(Materialized::named("departures-per-carrier").key(Utf8))
//!     .to_stream()
//!     .to("per-carrier", Produced::with(Utf8, I64));
//!
//! // The application: exactly-once, its state in memory.
//! let app = App::builder("departures")
//!     .broker(broker.clone())
//!     .engine(Memory::default())
//!     .guarantee(Guarantee::ExactlyOnce)
//!     .start(topology.build()?)?;
//!
//! // Read what comes out, committed records only, until both carriers have their count.
//! let mut consumer = broker.consumer(&Isolation::ReadCommitted.into())?;
//! for partition in 0..2 {
//!     let source = Source(partition as u32);
//!     consumer.assign(&[Change::Add { source, topic: "per-carrier", partition, from: 0 }])?;
//! }
//! let mut counts = std::collections::BTreeMap::new();
//! while counts.get("UA") != Some(&2) || counts.get("B6") != Some(&1) {
//!     for record in consumer.poll(Duration::from_millis(100))?.iter() {
//!         let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
//!         counts.insert(String::from_utf8(key.to_vec())?, i64::from_be_bytes(value.try_into()?));
//!     }
//! }
//!
//! // A clean end: it commits, closes its stores and leaves the group.
//! app.shutdown()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to go on
//!
//! | you want | look at |
//! |---|---|
//! | small programs to copy, each with its test | `examples/basics` |
//! | operators and the Processor API | [`topology`] |
//! | stores for processors: their kinds, what each is for and costs | `docs/stores.md`; [`topology::StoreSpec`] declares them, views such as [`topology::WindowView`] read and write them |
//! | what becomes of records that fail: handlers, retries, dead letters | `docs/errors.md`; [`runtime::ErrorHandler`] |
//! | settings, state and progress of an application | [`runtime`] |
//! | an engine of your own | [`store`] |
//! | a broker of your own | [`broker`] |
//! | changelog names and formats | [`changelog`] |
//! | tests of a topology in milliseconds | the crate `millpond-testkit` |
//!
//! # Features
//!
//! | feature | what it switches on |
//! |---|---|
//! | `kafka` | Kafka clusters (librdkafka and OpenSSL, C) |
//! | `rocks` | persistent stores in RocksDB (C++, needs libclang to build) |

pub mod prelude;

/// The log seam: records, consumers, producers, admin, group membership.
pub mod broker {
    #[doc(inline)]
    pub use millpond_broker_api::*;
    #[cfg(feature = "kafka")]
    #[doc(inline)]
    pub use millpond_broker_kafka::{Kafka, KafkaBroker, KafkaSettings};
    #[doc(inline)]
    pub use millpond_broker_mem::{EmbeddedBroker, ManualClock};
}

/// Compacted topics: names, configs, encoding, restore.
pub mod changelog {
    #[doc(inline)]
    pub use millpond_changelog::*;
}

/// Applications: builder, settings, tasks, metrics.
pub mod runtime {
    #[doc(inline)]
    pub use millpond_runtime::*;
}

/// The storage seam, and the engines.
pub mod store {
    #[doc(inline)]
    pub use millpond_store_api::*;
    #[doc(inline)]
    pub use millpond_store_mem as mem;
    #[cfg(feature = "rocks")]
    #[doc(inline)]
    pub use millpond_store_rocks as rocks;
}

/// The graph, the DSL, the Processor API and serdes.
pub mod topology {
    #[doc(inline)]
    pub use millpond_topology::*;
}

#[doc(inline)]
pub use millpond_runtime::{App, Error, Result};

/// The programs of the README compile, and run where they can.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// So do those of the pages on what a topology is made of, and how it is tested.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/dsl.md")]
#[doc = include_str!("../../../docs/processor-api.md")]
#[doc = include_str!("../../../docs/stores.md")]
#[doc = include_str!("../../../docs/testing.md")]
mod pages {}

/// Those of the page on errors.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/errors.md")]
mod errors {}

/// And those of the page on Kafka.
#[cfg(all(doctest, feature = "kafka"))]
#[doc = include_str!("../../../docs/running-on-kafka.md")]
mod running_on_kafka {}
