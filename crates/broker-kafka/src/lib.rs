//! Apache Kafka behind the log seam of Millpond.
//!
//! Records travel through librdkafka; group membership, committed offsets and administration speak the wire protocol
//! themselves, since no client library lets an assignor of one's own in.
//!
//! | you want | look at |
//! |---|---|
//! | a cluster | [`KafkaBroker`] |
//! | its address, security, client settings | [`KafkaSettings`] |

mod admin;
mod broker;
mod error;
mod link;
mod names;
mod offsets;
mod partitions;
mod security;
mod settings;
mod wire;

pub use broker::KafkaBroker;
pub use settings::KafkaSettings;
