//! Apache Kafka behind the log seam of Millpond.
//!
//! Records travel through librdkafka; group membership, committed offsets and administration speak the wire protocol
//! themselves, since no client library lets an assignor of one's own in.
//!
//! | you want | look at |
//! |---|---|
//! | a cluster | [`KafkaBroker`] |
//! | its address, security, client settings | [`KafkaSettings`] |

mod broker;
#[cfg_attr(not(test), expect(dead_code, reason = "the clients are still to come"))]
mod error;
mod names;
#[cfg_attr(not(test), expect(dead_code, reason = "the clients are still to come"))]
mod security;
#[cfg_attr(not(test), expect(dead_code, reason = "the clients are still to come"))]
mod settings;
#[cfg_attr(not(test), expect(dead_code, reason = "the clients are still to come"))]
mod wire;

pub use broker::KafkaBroker;
pub use settings::KafkaSettings;
