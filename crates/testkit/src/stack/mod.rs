//! The full stack over a storage engine: the runtime's overlays, as a task has them, over a shard of the engine (feature
//! `store-conformance`).
//!
//! The cases of `millpond-store-conformance` say that an engine keeps its contract. These say that a task's state on the engine
//! is right, whatever the size of the record cache: all cases of the store kinds through the overlay, and cases of a whole task.
//!
//! ```
//! # use millpond_store_mem::{MemEngine, SimulatedDisk};
//! mod overlay {
//!     # use super::*;
//!     millpond_testkit::stack_conformance!({
//!         let disk = SimulatedDisk::default();
//!         move || MemEngine::with_simulated_disk(&disk)
//!     });
//! }
//! # fn main() {}
//! ```
//!
//! [`check_histories`] runs random histories of all kinds in one shard, with crashes, beside plain models.

mod overlaid;
pub mod task;

use std::ops::Range;

use millpond_store_conformance::history::{Stack, check};
use millpond_store_conformance::{Harness, Subject};

pub use overlaid::Overlaid;

/// The macros of [`stack_conformance!`](crate::stack_conformance) find it here.
#[doc(hidden)]
pub use millpond_store_conformance as store_conformance;

/// How much of the record cache there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordCache {
    /// None: `statestore.cache.max.bytes` is 0. Writes are logged at once, and nothing that was read is kept.
    Off,
    /// None for writes, which are logged at once, as for a store whose caching is disabled beside others whose is not: what
    /// was read or written is kept.
    Reads,
    /// A few rows: what is beyond them is logged early, oldest first, and forgotten once it is in the shard.
    Tiny,
    /// More than there are rows: writes wait for the commit.
    Large,
}

impl RecordCache {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::Reads, Self::Tiny, Self::Large];
}

/// What a kind's cases run on: an empty store over an empty shard of the harness's engine.
pub fn subject(harness: impl Harness + 'static, cache: RecordCache) -> impl Subject {
    Overlaid::new(Box::new(harness), cache, 1)
}

/// Runs the random histories of some seeds over an engine, or the one that `MILLPOND_SEED` names.
///
/// # Panics
///
/// With the first history that fails: its seed, the difference, and as few operations as lead to one.
#[track_caller]
pub fn check_histories<H: Harness + 'static>(harness: impl Fn() -> H, cache: RecordCache, seeds: Range<u64>) {
    check(&|stores| -> Box<dyn Stack> { Box::new(Overlaid::new(Box::new(harness()), cache, stores)) }, seeds);
}

/// Stamps one `#[test]` per case of the full stack for an engine: `stack_conformance!(harness)`, where the expression makes a
/// [`Harness`], and is evaluated several times per test. See the [module](mod@crate::stack).
#[macro_export]
macro_rules! stack_conformance {
    ($harness:expr $(,)?) => {
        fn __harness() -> impl $crate::stack::store_conformance::Harness {
            $harness
        }

        mod off {
            $crate::stack::store_conformance::kind_conformance!($crate::stack::subject(
                super::__harness(),
                $crate::stack::RecordCache::Off
            ));
        }

        mod tiny {
            $crate::stack::store_conformance::kind_conformance!($crate::stack::subject(
                super::__harness(),
                $crate::stack::RecordCache::Tiny
            ));
        }

        mod large {
            $crate::stack::store_conformance::kind_conformance!($crate::stack::subject(
                super::__harness(),
                $crate::stack::RecordCache::Large
            ));
        }

        mod task {
            #[test]
            fn b040_what_another_owner_wrote_meanwhile_is_seen() {
                $crate::stack::task::b040_what_another_owner_wrote_meanwhile_is_seen(&super::__harness());
            }
        }
    };
}
