//! An in-process broker: the embedded default of Millpond and its test double.
//!
//! It answers as Kafka 4.4 does: transactions with markers that take an offset, last stable offsets, fenced producers,
//! consumer groups of the classic protocol with static members, fenced offset commits, compaction and retention. It
//! speaks no wire protocol, and nothing outlives the process.
//!
//! | you want | look at |
//! |---|---|
//! | a broker | [`EmbeddedBroker`], [`Options`] |
//! | to move time in a test | [`ManualClock`] |
//! | faults | [`Faults`], [`Verdict`], [`EmbeddedBroker::plan`] |
//!
//! # What is different from a cluster
//!
//! * Records that were sent are written at 64 KiB, or when the producer is flushed or committed, not after a while:
//!   `flush` with no time to wait writes them.
//! * Compaction and retention run when they are asked for ([`EmbeddedBroker::compact`], [`EmbeddedBroker::expire`]), and on
//!   all records, not on full segments. So memory grows until somebody asks, or deletes records or topics.
//! * Time is the broker's [`Clock`](millpond_broker_api::Clock): with a [`ManualClock`] nothing ever waits.

mod admin;
mod broker;
mod buffer;
mod clock;
mod committed;
mod compaction;
mod consumer;
mod faults;
mod groups;
mod inspect;
mod link;
mod log;
mod offsets;
mod producer;
mod rebalance;
mod retention;
mod segment;
mod state;
mod topics;
mod transactions;

pub use broker::{EmbeddedBroker, Options};
pub use clock::ManualClock;
pub use faults::{Faults, Op, OpKind, Verdict};
pub use inspect::{Dumped, DumpedRecord, GroupPhase, GroupState, TransactionState, Visibility};

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<EmbeddedBroker>();
    shared::<ManualClock>();
};
