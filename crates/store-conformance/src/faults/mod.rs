//! Engines that are wrong: ten named faults, each of which breaks one rule of any engine that it is put around.
//!
//! A suite that cannot fail is worthless. [`noticed_by`] says which cases fail on an engine with a fault; `cargo xtask
//! conformance --faults` shows it for all of them. None needed a case of its own: each is noticed by cases that were there
//! before it, and [`Fault::cases`] names those that must notice.
//!
//! ```
//! use millpond_store_conformance::faults::{Fault, noticed_by};
//! use millpond_store_mem::{MemEngine, SimulatedDisk};
//!
//! let disk = SimulatedDisk::default();
//! let noticed = noticed_by(&move || MemEngine::with_simulated_disk(&disk), Fault::EmptyValueDeletes);
//! assert!(noticed.iter().any(|case| case.name == "an_empty_value_is_not_absent"));
//! ```

mod cursor;
mod engine;

use std::panic::{AssertUnwindSafe, catch_unwind};

use millpond_store_api::Engine;

pub use engine::Faulty;

use crate::{CASES, Case, Harness, Needs};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The last write of each batch is lost.
    LastWriteDropped,
    /// Deletes are not applied.
    DeletesForgotten,
    /// The first row after a seek is left out.
    RowSkippedAfterSeek,
    /// A reverse walk leaves out the row at an included lower bound.
    ReverseIsNotTheMirror,
    /// `multi_get` of several keys never finds the last of them.
    MultiGetMissesAKey,
    /// `durable` answers the last batch, flushed or not.
    DurableTooEarly,
    /// A batch is stored with the metadata of the one before, and the right one is kept in memory.
    MetadataApart,
    /// Readers see the rows of a batch that was refused.
    ReaderSeesRefusedBatch,
    /// `drop_below` takes the row at its bound along.
    DropBelowOneTooMany,
    /// A put of an empty value deletes.
    EmptyValueDeletes,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::LastWriteDropped,
        Self::DeletesForgotten,
        Self::RowSkippedAfterSeek,
        Self::ReverseIsNotTheMirror,
        Self::MultiGetMissesAKey,
        Self::DurableTooEarly,
        Self::MetadataApart,
        Self::ReaderSeesRefusedBatch,
        Self::DropBelowOneTooMany,
        Self::EmptyValueDeletes,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LastWriteDropped => "last-write-dropped",
            Self::DeletesForgotten => "deletes-forgotten",
            Self::RowSkippedAfterSeek => "row-skipped-after-seek",
            Self::ReverseIsNotTheMirror => "reverse-is-not-the-mirror",
            Self::MultiGetMissesAKey => "multi-get-misses-a-key",
            Self::DurableTooEarly => "durable-too-early",
            Self::MetadataApart => "metadata-apart",
            Self::ReaderSeesRefusedBatch => "reader-sees-refused-batch",
            Self::DropBelowOneTooMany => "drop-below-one-too-many",
            Self::EmptyValueDeletes => "empty-value-deletes",
        }
    }

    /// The cases that must notice it, as `area::name`: those whose rule it breaks. Others may notice it as well.
    pub const fn cases(self) -> &'static [&'static str] {
        match self {
            Self::LastWriteDropped => &["shard::a_batch_is_visible_with_its_metadata", "model::short_keys"],
            Self::DeletesForgotten => {
                &["shard::deleting_everything_leaves_an_empty_space", "cursor::a_walk_over_a_run_of_deleted_rows"]
            }
            Self::RowSkippedAfterSeek => &["cursor::seek_before_the_first_next", "cursor::every_seek_from_every_row"],
            Self::ReverseIsNotTheMirror => {
                &["cursor::every_kind_of_bounds", "cursor::reverse_is_the_mirror_of_forward"]
            }
            Self::MultiGetMissesAKey => &["shard::multi_get_calls_once_per_key_that_is_there"],
            Self::DurableTooEarly => &["durable::durable_is_no_promise_too_early"],
            Self::MetadataApart => &["durable::a_crash_leaves_a_batch_border", "durable::close_then_reopen"],
            Self::ReaderSeesRefusedBatch => &["reader::a_reader_does_not_see_a_refused_batch"],
            Self::DropBelowOneTooMany => &["shard::drop_below_keeps_what_is_not_below"],
            Self::EmptyValueDeletes => &["shard::an_empty_value_is_not_absent"],
        }
    }
}

/// The engines of a harness with a fault.
struct Broken<'a> {
    harness: &'a dyn Harness,
    fault: Fault,
}

impl Harness for Broken<'_> {
    fn engine(&self) -> Box<dyn Engine> {
        Box::new(Faulty::new(self.harness.engine(), self.fault))
    }
}

/// The cases that fail on the harness's engine once it has a fault, out of those that are for such an engine.
///
/// A fault that shows only after a crash needs an engine that forgets what was not flushed when its shard is dropped. The
/// panic of each case that fails is reported by the panic hook as ever.
pub fn noticed_by(harness: &dyn Harness, fault: Fault) -> Vec<&'static Case> {
    let other = if harness.engine().persistent() { Needs::Volatile } else { Needs::Persistent };
    let broken = Broken { harness, fault };
    let fails = |case: &&Case| catch_unwind(AssertUnwindSafe(|| (case.run)(&broken))).is_err();
    CASES.iter().filter(|case| case.needs != other).filter(fails).collect()
}
