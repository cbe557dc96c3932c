//! The log seam of Millpond: records, a consumer by manual assignment, a transactional producer, admin, and group membership.
//!
//! Everything is synchronous, batch-shaped and borrowed both ways; no type of any Kafka client is in it, and nothing calls
//! back. `millpond-broker-mem` implements it in process, another crate over real Kafka.
//!
//! | you want | look at |
//! |---|---|
//! | all clients of one cluster | [`Broker`] |
//! | to read | [`Consumer`], [`Record`] |
//! | to write, in transactions | [`Producer`], [`CommitOutcome`] |
//! | committed offsets | [`GroupOffsets`] |
//! | topics | [`Admin`] |
//! | to be a member of a group | [`membership`] |
//! | to prove a broker (feature `conformance`) | `conformance` |
//!
//! All offsets are *next* offsets: the position after the last record that counts.

mod admin;
mod broker;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod consumer;
mod error;
pub mod membership;
mod offsets;
mod producer;
mod record;

pub use admin::{Admin, At, NewTopic, TopicInfo};
pub use broker::{AdminOptions, Broker, Connector, ConsumerOptions, ConsumerRole, Isolation, ProducerOptions};
pub use clock::{Clock, SystemClock};
pub use consumer::{Batch, Change, Consumer, Source};
pub use error::{Error, ErrorKind, Result};
pub use offsets::{Committed, GroupOffset, GroupOffsets, Member, Stable};
pub use producer::{CommitOutcome, Delivered, Failure, Flushed, Outgoing, Producer, Sent, TopicId};
pub use record::{Header, Headers, NoHeaders, Offset, Record, Records};

const _: () = {
    const fn send<T: ?Sized + Send>() {}
    const fn sync<T: ?Sized + Sync>() {}
    send::<Box<dyn Consumer>>();
    send::<Box<dyn Producer>>();
    send::<Box<dyn GroupOffsets>>();
    send::<Box<dyn Admin>>();
    send::<Box<dyn membership::Link>>();
    send::<std::sync::Arc<dyn Broker>>();
    sync::<std::sync::Arc<dyn Broker>>();
    sync::<std::sync::Arc<dyn Clock>>();
    send::<SystemClock>();
    sync::<SystemClock>();
    send::<membership::Machine>();
    send::<Error>();
    sync::<Error>();
    assert!(size_of::<Result<()>>() == size_of::<usize>(), "an error travels in a register");
};
