//! The case list that every Millpond storage engine must pass.
//!
//! # How to run it against your engine
//!
//! Make this crate a dev-dependency and write one file, `tests/conformance.rs`. The macro stamps one `#[test]` per case;
//! its second argument is an expression that makes a [`Harness`], evaluated once for each test. A closure that makes an
//! engine is one.
//!
//! ```
//! # use millpond_store_mem::{MemEngine, SimulatedDisk};
//! // An engine that keeps everything in memory.
//! mod memory {
//!     # use super::*;
//!     millpond_store_conformance::conformance!(volatile, MemEngine::default);
//! }
//!
//! // An engine whose shards live in a directory: a case makes a temporary one, hands it over, and reopens it.
//! mod disk {
//!     # use super::*;
//!     millpond_store_conformance::conformance!(persistent, {
//!         let disk = SimulatedDisk::default();
//!         move || MemEngine::with_simulated_disk(&disk)
//!     });
//! }
//! # fn main() {}
//! ```
//!
//! Which word comes first decides which cases there are; nothing is skipped at run time:
//!
//! | word | cases | your engine |
//! |---|---|---|
//! | `volatile` | all but [`durable`] and [`unlogged`] | [`Engine::persistent`] is false, it opens without a directory |
//! | `persistent` | all but [`volatile`] | [`Engine::persistent`] is true, it opens in a directory that exists |
//!
//! [`Harness::engine`] is called at the start of a case, and again wherever a case restarts the process: what the first
//! engine left in a directory must be found by the second. Cases run in parallel, each with its own harness.
//! Run them in debug and in release: an overflow may hide in one of them.
//!
//! # The rules
//!
//! Each case is a public function whose documentation is the rule it checks. A shard's rules are in [`shard`], [`cursor`],
//! [`keys`], [`count`], [`reader`], [`durable`], [`unlogged`], [`volatile`], [`capability`], [`expiry`] and [`model`]; a failing
//! model case prints its seed.
//! Abilities that an engine declares are tested to work, those it does not declare to be refused.
//!
//! # That the suite can fail
//!
//! [`faults`] has ten engines that are wrong in one way each, and says which cases notice.
//!
//! # Random histories
//!
//! [`history`] drives stores of all kinds in one shard, with failing records, aborts, crashes and restarts, beside plain models.
//! It needs what lies between stores and shard, so `millpond-testkit` runs it (feature `store-conformance`).
//!
//! # Cases of a store kind
//!
//! [`key_value`], [`timestamped`], [`headers`], [`ttl`], [`versioned`], [`window`], [`session`], [`list_value`],
//! [`arrival_buffer`] and [`key_buffer`] test the kinds. They run on your engine as a part of [`conformance!`], and on
//! whatever else implements [`SpaceMut`](millpond_store_api::SpaceMut) by [`kind_conformance!`], which takes an expression
//! that makes a [`Subject`].
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the library is a test: a panic is how it reports, and where"
)]

pub mod arrival_buffer;
pub mod capability;
mod case;
pub mod count;
mod counting;
pub mod cursor;
pub mod durable;
mod expiring;
pub mod expiry;
pub mod faults;
mod harness;
pub mod headers;
pub mod history;
pub mod key_buffer;
pub mod key_value;
pub mod keys;
mod kind;
pub mod list_value;
mod macros;
pub mod model;
pub mod reader;
pub mod session;
pub mod shard;
pub mod timestamped;
mod tools;
pub mod ttl;
mod twin;
pub mod unlogged;
pub mod versioned;
pub mod volatile;
pub mod window;

pub use case::{CASES, Case, KIND_CASES, KindCase, Needs};
pub use harness::{A, B, Harness, Rig};
pub use kind::{Subject, run_kind, through_shard};

#[cfg(doc)]
use millpond_store_api::Engine;
