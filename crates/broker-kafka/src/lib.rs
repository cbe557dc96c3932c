//! Apache Kafka behind the log seam of Millpond.
//!
//! Records travel through librdkafka; group membership, committed offsets and administration speak the wire protocol
//! themselves, since no client library lets an assignor of one's own in.
//!
//! | you want | look at |
//! |---|---|
//! | a cluster | [`KafkaBroker`] |
//! | its address, security, client settings | [`KafkaSettings`] |
//! | to name a cluster among the settings of an application | [`Kafka`] |

mod admin;
mod assignment;
mod broker;
mod complaints;
mod connector;
mod consumer;
mod coordinators;
mod deadline;
mod error;
mod ffi;
mod link;
mod live;
mod memory;
mod names;
mod offsets;
mod partitions;
mod producer;
mod reports;
mod security;
mod settings;
mod wire;

pub use broker::KafkaBroker;
pub use connector::Kafka;
pub use settings::KafkaSettings;
