//! Real Kafka brokers for tests and benches: fetched from Maven Central, started, killed, stopped.
//!
//! Java 17 and Maven are all it takes: no Docker, no root. The jars and the certificates are made once, in the cache
//! (`$XDG_CACHE_HOME/millpond` or `~/.cache/millpond`).
//!
//! | you want | look at |
//! |---|---|
//! | a broker that the developer or `cargo xtask test` has started | [`TestKafka::find`] |
//! | a broker of your own, to kill, freeze and start again | [`Kafka::up`], [`own_broker_possible`] |
//! | test binaries that say what they need | `harness` (feature `harness`) |
//! | a broker that outlives the process | [`Background`] |
//! | the same broker in a container | [`Container`] |
//! | to run one of Kafka's tools | [`Jars::tool`] |
//!
//! # The broker
//!
//! One node of Kafka 4.4 in KRaft mode, broker and controller in one, with these listeners:
//!
//! * PLAINTEXT ([`Kafka::bootstrap`]): whoever connects may do everything.
//! * SASL_SSL ([`Kafka::secure`]): PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. [`ADMIN`] may do everything, [`LIMITED`] can
//!   log in and may do nothing until it is given ACLs.
//! * CONTROLLER: the node's own.
//!
//! Topics are not created by themselves. Rebalances start at once; retention, compaction and timed out transactions are
//! looked at every second or less, so that a test sees them happen.

mod background;
mod broker;
mod cache;
mod clock;
mod config;
mod container;
mod env;
mod error;
#[cfg(feature = "harness")]
pub mod harness;
mod jars;
mod java;
mod keeper;
mod options;
mod ready;
mod secure;
mod site;

pub use background::{Background, Running};
pub use broker::Kafka;
pub use cache::cache;
pub use container::Container;
pub use env::{
    ADDRESS_VARIABLE, CA_VARIABLE, Found, OWN_VARIABLE, SECURE_VARIABLE, TestKafka, UNTRUSTED_CA_VARIABLE, is_ci,
    own_broker_possible,
};
pub use error::{Error, ErrorKind, Result};
pub use jars::{Jars, VERSION};
pub use options::KafkaOptions;
pub use ready::wait_until_ready;
pub use secure::{ADMIN, LIMITED, Secure, User};

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Kafka>();
    shared::<Background>();
    shared::<TestKafka>();
    shared::<Error>();
};
