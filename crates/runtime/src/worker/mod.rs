//! A worker: owns tasks, and moves them on step by step: messages, takeover, poll, process, punctuate, commit.

mod event;
mod step;
mod tasks;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::{
    Admin, AdminOptions, Consumer, ConsumerOptions, ConsumerRole, GroupOffsets, Isolation, Member, Source,
};
use millpond_changelog::{Applier, ApplyLimits, Restore};

use crate::app::TaskProgress;
use crate::error::{Error, Result};
use crate::instance::Shared;
use crate::output::Collector;
use crate::settings::Guarantee;
use crate::state::ClientMemory;
use crate::task::rollback::Recovery;
use crate::task::{Task, TaskId};

pub(crate) use event::{ToMember, ToWorker};

/// What others may know of a worker, and ask of it, without a message.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// When it made its last step, in milliseconds of the clock's monotonic time.
    last_step: AtomicU64,
    /// It has a generation, and all its tasks run.
    running: AtomicBool,
    commit_asked: AtomicBool,
    /// Others may have the worker's tasks. A flag, not a message: it counts before anything that waits in the inbox.
    given_away: AtomicBool,
    tasks: Mutex<Vec<TaskProgress>>,
    waker: OnceLock<Waker>,
}

impl Pulse {
    pub(crate) fn beat(&self, now: Duration) {
        self.last_step.store(now.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.last_step.load(Ordering::Relaxed)))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    pub(crate) fn tasks(&self) -> Vec<TaskProgress> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn give_away(&self) {
        self.given_away.store(true, Ordering::Release);
    }

    pub(crate) fn is_given_away(&self) -> bool {
        self.given_away.load(Ordering::Acquire)
    }

    pub(crate) fn ask_commit(&self) {
        self.commit_asked.store(true, Ordering::Relaxed);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// One worker. `Send`: a thread owns it, or a simulator steps it.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: Receiver<ToWorker>,
    member_inbox: Sender<ToMember>,
    member_waker: Waker,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) consumer: Box<dyn Consumer>,
    pub(crate) restore_consumer: Box<dyn Consumer>,
    pub(crate) applier: Applier,
    pub(crate) collector: Collector,
    pub(crate) offsets: Box<dyn GroupOffsets>,
    pub(crate) admin: Box<dyn Admin>,
    /// The generation it has acknowledged: what it commits with. `None`: it owns nothing.
    pub(crate) member: Option<Member>,
    /// Since when a rebalance is announced, and the worker has committed: commits wait for the new generation.
    pub(crate) holding_since: Option<Duration>,
    /// What has to be done before anything else, if something went wrong.
    pub(crate) recovery: Option<Recovery>,
    /// In order of their ids.
    pub(crate) tasks: Vec<Task>,
    /// Where a source's records go: the task's place and the input's.
    pub(crate) routes: BTreeMap<Source, (usize, usize)>,
    /// Where a changelog's records go: the task's place and the shard's.
    pub(crate) restores: BTreeMap<Source, (usize, usize)>,
    pub(crate) last_source: u32,
    pub(crate) commit_asked: bool,
    /// Records of one task in a row, before another task has its turn.
    pub(crate) turn: usize,
    /// The task that has the first turn of the next round.
    first_turn: usize,
    /// Records that were processed since the last commit.
    pub(crate) interval: usize,
    /// The last step has processed something, so there may be more to process without waiting.
    made_progress: bool,
    /// The task that was worked on last: an error of a store is its.
    pub(crate) at_work: Option<TaskId>,
    pub(crate) last_commit: Duration,
    pub(crate) last_purge: Duration,
    /// When idle changelogs were last moved on to their ends.
    pub(crate) last_advance: Duration,
    pub(crate) stopped: bool,
    /// When the pulse was told of the tasks last.
    last_told: Option<Duration>,
}

/// The ends of a worker that its instance keeps.
pub(crate) struct Ends {
    pub(crate) inbox: Receiver<ToWorker>,
    pub(crate) member_inbox: Sender<ToMember>,
    pub(crate) member_waker: Waker,
    pub(crate) pulse: Arc<Pulse>,
}

/// Records of one task in a row, before another task has its turn.
const TURN: usize = 256;

/// How long a worker repeats a question that has no answer now: its other tasks wait too, and it comes back.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);

/// How much of a changelog goes to a shard at once: what suits a write buffer, or less where memory is scarce.
fn restore_limits(memory: ClientMemory) -> ApplyLimits {
    let usual = ApplyLimits::default();
    let bytes = usize::try_from(memory.restore_batch).map_or(usual.bytes, |most| usual.bytes.min(most));
    ApplyLimits { bytes, ..usual }
}

impl Worker {
    pub(crate) fn new(number: usize, shared: &Arc<Shared>, ends: Ends) -> Result<Self> {
        let made = |e| Error::broker("make a worker's clients", e);
        let broker = &shared.broker;
        let exactly_once = shared.settings.guarantee == Guarantee::ExactlyOnce;
        let isolation = if exactly_once { Isolation::ReadCommitted } else { Isolation::ReadUncommitted };
        let collector = shared.collector(number)?;
        let now = shared.ports.clock.now();
        ends.pulse.beat(now);
        let clients = shared.memory.clients;
        let reading = ConsumerOptions { isolation, role: ConsumerRole::Main, memory: Some(clients.consumer) };
        let restoring = ConsumerOptions {
            isolation: Isolation::ReadCommitted,
            role: ConsumerRole::Restore,
            memory: Some(clients.restore_consumer),
        };
        let admin = broker.admin_with(&AdminOptions { patience: Some(PATIENCE) }).map_err(made)?;
        let consumer = broker.consumer(&reading).map_err(made)?;
        // Set once, here: nobody else has the pulse's other end yet.
        let _ = ends.pulse.waker.set(consumer.waker());
        Ok(Self {
            number,
            shared: Arc::clone(shared),
            inbox: ends.inbox,
            member_inbox: ends.member_inbox,
            member_waker: ends.member_waker,
            pulse: ends.pulse,
            consumer,
            restore_consumer: broker.consumer(&restoring).map_err(made)?,
            applier: Applier::new(restore_limits(clients)),
            collector,
            offsets: broker.offsets().map_err(made)?,
            admin,
            member: None,
            holding_since: None,
            // The transactions of a former self are ended before anything is read (D6).
            recovery: exactly_once.then(Recovery::init),
            tasks: Vec::new(),
            routes: BTreeMap::new(),
            restores: BTreeMap::new(),
            last_source: 0,
            commit_asked: false,
            turn: TURN,
            first_turn: 0,
            interval: 0,
            made_progress: false,
            at_work: None,
            last_commit: now,
            last_purge: now,
            last_advance: now,
            stopped: false,
            last_told: None,
        })
    }

    /// Ends a wait of the worker from another thread.
    pub(crate) fn waker(&self) -> Waker {
        self.consumer.waker()
    }

    pub(crate) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// Tells the pulse how far the tasks are: at once when all run or none does any more, else ten times a second.
    pub(crate) fn tell_pulse(&mut self) {
        let now = self.shared.ports.clock.now();
        let running = self.member.is_some() && self.tasks.iter().all(Task::is_running);
        let news = self.pulse.running.swap(running, Ordering::Relaxed) != running;
        if !news && self.last_told.is_some_and(|told| now.saturating_sub(told) < Duration::from_millis(100)) {
            return;
        }
        self.last_told = Some(now);
        let progress = |t: &Task| TaskProgress {
            id: t.id,
            worker: self.number,
            state: t.state(),
            restore_remaining: t.takeover.restores.iter().flat_map(Restore::progress).map(|p| p.remaining()).sum(),
            waiting: t.takeover.waiting.clone(),
        };
        let tasks = self.tasks.iter().map(progress).collect();
        *self.pulse.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }

    /// Whether it has closed everything and will do nothing more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn exactly_once(&self) -> bool {
        self.shared.settings.guarantee == Guarantee::ExactlyOnce
    }

    pub(crate) fn tell(&self, message: ToMember) {
        // Nobody listens any more when the instance is being dropped.
        if self.member_inbox.send(message).is_ok() {
            self.member_waker.wake_by_ref();
        }
    }

    pub(crate) fn task(&mut self, id: TaskId) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|t| t.id == id)
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("number", &self.number).field("tasks", &self.tasks).finish_non_exhaustive()
    }
}
