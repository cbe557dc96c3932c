//! A seeded simulator: instances of an application over `broker-mem`, on one thread and a manual clock, with crashes at every
//! step, lost and late replies, paused processes and full disks; at the end the books are checked.
//!
//! Everything follows from the seed: a seed that fails once fails always, and becomes a test.
//!
//! ```
//! let report = millpond_testkit::sim::run(1, None).expect("the invariants hold");
//! assert!(report.records >= 2_000);
//! ```

mod checks;
mod faults;
mod finals;
mod fold;
mod job;
mod kinds;
mod probe;
mod unfenced;
mod world;

use std::collections::BTreeMap;
use std::fmt;

use millpond_runtime::{FailPoint, Guarantee};

/// A fault planted in the code, which the simulator has to find. All but [`Planted::UnstableOffsetsIgnored`] need
/// the feature `planted-bugs` of `millpond-runtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A shard gets its batch before the log has it.
    ApplyBeforeCommit,
    /// The committed offset is one too far.
    OffsetOffByOne,
    /// Commits are not fenced by the generation.
    NoFence,
    /// Offsets that an open transaction may still change are taken as they are.
    UnstableOffsetsIgnored,
    /// A restore ends at the last record it saw, not at the log's end.
    RestoreEndsAtLastRecord,
    /// What a record has done stays when it fails.
    FailedRecordKept,
    /// After a restore the stores do not have their times.
    TimesNotRestored,
    /// Expired rows go by the time of the store that is furthest.
    DroppedByLatestStore,
    /// After a restart the nodes do not have their times.
    NodeTimesNotRestored,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ApplyBeforeCommit,
        Self::OffsetOffByOne,
        Self::NoFence,
        Self::UnstableOffsetsIgnored,
        Self::RestoreEndsAtLastRecord,
        Self::FailedRecordKept,
        Self::TimesNotRestored,
        Self::DroppedByLatestStore,
        Self::NodeTimesNotRestored,
    ];
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The guarantee that the seed chose.
    pub guarantee: Guarantee,
    /// Input records.
    pub records: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// How often the code passed each fail point.
    pub passed: BTreeMap<FailPoint, u64>,
    /// How often a process died at each fail point.
    pub died: BTreeMap<FailPoint, u64>,
    /// Restores that began at a durable position, each checked against what the shard had at the crash.
    pub resumed: u64,
    /// Final results that there had to be at the end, each found.
    pub told: u64,
    /// Rows in changelogs that had expired at the end, those of stores with a time to live by their tombstones.
    pub expired: u64,
}

/// What a run has found wrong.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
    /// The last things that happened.
    pub history: Vec<String>,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        self.history.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

impl std::error::Error for Failure {}

/// Runs one seed.
///
/// # Errors
///
/// The first invariant that does not hold, an error that ends an instance, or no end in sight.
pub fn run(seed: u64, planted: Option<Planted>) -> Result<Report, Failure> {
    let mut world = world::World::new(seed, planted);
    match world.run() {
        Ok(()) => Ok(world.report()),
        Err(what) => Err(Failure { seed, what, history: world.history() }),
    }
}
