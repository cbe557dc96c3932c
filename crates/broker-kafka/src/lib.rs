//! Apache Kafka behind the log seam of Millpond.
//!
//! Records travel through librdkafka; group membership, committed offsets and administration speak the wire protocol
//! themselves, since no client library lets an assignor of one's own in.
//!
//! | you want | look at |
//! |---|---|
//! | a cluster | [`KafkaBroker`] |
//! | its address, security, client settings | [`KafkaSettings`] |

mod assignment;
mod broker;
mod complaints;
#[expect(dead_code, reason = "the cluster does not hand its clients out yet")]
mod consumer;
mod deadline;
mod error;
mod ffi;
mod live;
#[cfg_attr(not(test), expect(dead_code, reason = "the cluster does not hand its clients out yet"))]
mod producer;
mod reports;
mod settings;

pub use broker::KafkaBroker;
pub use settings::KafkaSettings;
