//! What the runtime needs of the world: time, randomness, threads, metrics, who decides about records that fail and, for the
//! simulator, points of failure.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

pub use millpond_broker_api::{Clock, SystemClock};
use millpond_changelog::{Decided, ShardMetadata};

use crate::handler::ErrorHandler;
use crate::metrics::{Metrics, NoMetrics};
use crate::task::TaskId;

/// Where random numbers come from; they name processes, nothing secret.
pub trait Random: Send + Sync {
    /// A number that no other process draws.
    fn draw(&self) -> u128;
}

/// Randomness of the operating system, through the standard library's hash seeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn draw(&self) -> u128 {
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        half() << 64 | half()
    }
}

/// Starts threads.
pub trait Spawner: Send + Sync {
    /// Runs `body` on a thread of its own.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;
}

/// Threads of the standard library.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSpawner;

impl Spawner for SystemSpawner {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name(name.to_owned()).spawn(body)
    }
}

macro_rules! fail_points {
    ($($(#[doc = $doc:literal])* $variant:ident => $name:literal),* $(,)?) => {
        /// A moment in commit, takeover, restore or hand-over at which a simulated process may die.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum FailPoint { $($(#[doc = $doc])* $variant),* }

        impl FailPoint {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name, such as `commit.flushed`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

fail_points! {
    /// A commit begins.
    CommitStarted => "commit.started",
    /// The overlays are drained; what came out is with the producer.
    CommitDrained => "commit.drained",
    /// The producer is flushed.
    CommitFlushed => "commit.flushed",
    /// The transaction is committed (exactly-once); no shard knows.
    CommitLogged => "commit.logged",
    /// One shard has its batch; other tasks' shards may not.
    CommitAppliedOne => "commit.applied-one",
    /// All shards have their batches.
    CommitApplied => "commit.applied",
    /// The input offsets are committed (at-least-once).
    CommitOffsets => "commit.offsets",
    /// A shard was asked to flush.
    ShardFlushed => "shard.flushed",
    /// A task exists; its shard is not open.
    TakeoverCreated => "takeover.created",
    /// Its shard is open.
    TakeoverOpened => "takeover.opened",
    /// Its committed offsets are known.
    TakeoverOffsets => "takeover.offsets",
    /// The ends of its changelogs are known.
    TakeoverEnds => "takeover.ends",
    /// A batch of a changelog is in the shard.
    RestoreApplied => "restore.applied",
    /// The changelogs are restored; the task is about to run.
    RestoreDone => "restore.done",
    /// A rollback has aborted the transaction; the tasks are not rebuilt.
    RollbackAborted => "rollback.aborted",
    /// An unknown outcome was resolved by InitProducerId; the tasks are not rebuilt.
    OutcomeResolved => "outcome.resolved",
    /// A task that is given away is closed.
    TaskClosed => "task.closed",
}

/// Decides, at every [`FailPoint`], whether the process dies there. Production never dies.
pub trait FailPoints: Send + Sync {
    /// True: stop dead.
    fn dies(&self, at: FailPoint) -> bool;

    /// Whether this fault is planted; asked only with the feature `planted-bugs`.
    fn planted(&self, bug: Bug) -> bool {
        let _ = bug;
        false
    }
}

/// Never dies.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFailPoints;

impl FailPoints for NoFailPoints {
    fn dies(&self, _: FailPoint) -> bool {
        false
    }
}

/// Faults that the simulator must find: each is a real mistake that a change could make. Only with the feature
/// `planted-bugs`, and there only where [`FailPoints::planted`] says so.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bug {
    /// A shard gets its batch before the log has it.
    ApplyBeforeCommit,
    /// The committed offset is one too far.
    OffsetOffByOne,
    /// Commits are not fenced by the generation.
    NoFence,
    /// A restore ends at the last record it saw, not at the log's end.
    RestoreEndsAtLastRecord,
    /// What a record has done stays when it fails.
    FailedRecordKept,
    /// After a restore the stores do not have their times.
    TimesNotRestored,
    /// After a restart the nodes do not have their times.
    NodeTimesNotRestored,
    /// Expired rows go by the time of the store that is furthest.
    DroppedByLatestStore,
}

/// Hears what happens to tasks: Kafka Streams' `StateRestoreListener`, and more. Called by workers, so it must be quick.
pub trait Observer: Send + Sync {
    /// It was decided how a changelog partition is restored.
    fn restore_planned(&self, task: TaskId, decided: &Decided<'_>) {
        let _ = (task, decided);
    }

    /// A batch of changelog records is in a shard.
    fn restored(&self, task: TaskId, records: u64) {
        let _ = (task, records);
    }

    /// A shard of a task has the batch of a commit: what it stands for now, until a kill.
    fn applied(&self, task: TaskId, metadata: &ShardMetadata) {
        let _ = (task, metadata);
    }

    /// A shard of a task begins to make durable what it has.
    fn flushing(&self, task: TaskId) {
        let _ = task;
    }

    /// What a shard of a task stands for after a kill has moved on.
    fn durable(&self, task: TaskId, metadata: &ShardMetadata) {
        let _ = (task, metadata);
    }

    /// A task runs.
    fn running(&self, task: TaskId) {
        let _ = task;
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoObserver;

impl Observer for NoObserver {}

/// All ports of an application.
#[derive(Clone)]
pub struct Ports {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Threads.
    pub spawner: Arc<dyn Spawner>,
    /// Where metrics go.
    pub metrics: Arc<dyn Metrics>,
    /// Points of failure.
    pub fail_points: Arc<dyn FailPoints>,
    /// Who hears of restores.
    pub observer: Arc<dyn Observer>,
    /// Who decides about records that fail; `None`: the settings do.
    pub error_handler: Option<Arc<dyn ErrorHandler>>,
}

impl Default for Ports {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            spawner: Arc::new(SystemSpawner),
            metrics: Arc::new(NoMetrics),
            fail_points: Arc::new(NoFailPoints),
            observer: Arc::new(NoObserver),
            error_handler: None,
        }
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports").finish_non_exhaustive()
    }
}
