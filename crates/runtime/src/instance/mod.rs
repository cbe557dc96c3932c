//! An instance: one group member and its workers, as parts that threads run or a simulator steps.

mod closing;
mod engines;
mod memory;
mod shared;

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_store_api::Engine;
use millpond_topology::{StoreAccess, Topology};

use crate::error::{Error, Result};
use crate::group::{GroupMember, WorkerHandle};
use crate::ports::Ports;
use crate::settings::Settings;
use crate::state::MemorySettings;
use crate::task::TaskId;
use crate::task::stores::Moment;
use crate::topics;
use crate::worker::{Ends, Pulse, ToMember, Worker};

pub(crate) use self::closing::Closing;
pub(crate) use self::shared::Shared;

/// What an instance is made of.
#[derive(Clone)]
pub struct InstanceSpec {
    /// The settings, checked by [`Instance::new`].
    pub settings: Settings,
    /// The topology.
    pub topology: Topology,
    /// The cluster.
    pub broker: Arc<dyn Broker>,
    /// The engines by name; stores without an engine of their own use the first.
    pub engines: Vec<Arc<dyn Engine>>,
    /// Time, randomness, threads, metrics.
    pub ports: Ports,
}

impl std::fmt::Debug for InstanceSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstanceSpec").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A running application's parts in this process. [`App`](crate::App) runs each on a thread; a simulator steps them.
///
/// Dropping it without [`Instance::request_stop`] and stepping it to its end is a crash: nothing is flushed, nobody leaves.
pub struct Instance {
    shared: Arc<Shared>,
    member: GroupMember,
    workers: Vec<Worker>,
    to_member: Sender<ToMember>,
}

impl Instance {
    /// Checks settings and topology, makes internal topics, opens the state directory. Processes nothing yet.
    pub fn new(spec: InstanceSpec) -> Result<Self> {
        let shared = Arc::new(Shared::new(spec)?);
        topics::dry_run(&shared)?;
        shared.fence_former_workers()?;
        let link = shared.broker.group_link(&shared.group).map_err(|e| Error::broker("reach the group", e))?;
        let (to_member, member_inbox) = channel();
        let mut workers = Vec::new();
        let mut handles = Vec::new();
        for number in 0..shared.settings.workers {
            let (inbox, worker_inbox) = channel();
            let pulse = Arc::new(Pulse::default());
            let ends = Ends {
                inbox: worker_inbox,
                member_inbox: to_member.clone(),
                member_waker: link.waker(),
                pulse: Arc::clone(&pulse),
            };
            let worker = Worker::new(number, &shared, ends)?;
            handles.push(WorkerHandle { inbox, waker: worker.waker(), pulse });
            workers.push(worker);
        }
        let member = GroupMember::new(&shared, link, member_inbox, handles);
        Ok(Self { shared, member, workers, to_member })
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// One step of the group member. Answers whether there was anything to do; an error ends the instance.
    pub fn step_member(&mut self) -> Result<bool> {
        self.member.step(Duration::ZERO)
    }

    /// One step of a worker. Answers whether there was anything to do; an error ends the instance.
    pub fn step_worker(&mut self, worker: usize) -> Result<bool> {
        self.workers.get_mut(worker).map_or(Ok(false), |w| w.step(Duration::ZERO))
    }

    /// Asks for a clean stop: commit, close, leave. Step on until [`Instance::is_stopped`].
    pub fn request_stop(&self) {
        // The member lives as long as this.
        let _ = self.to_member.send(ToMember::Stop);
    }

    /// Whether a clean stop is complete.
    pub fn is_stopped(&self) -> bool {
        self.member.is_gone() && self.workers.iter().all(Worker::is_stopped)
    }

    /// Has a task take no more than so many records in one step of its worker, for tests that want to see each by itself.
    pub fn limit_turns(&mut self, records: usize) {
        self.workers.iter_mut().for_each(|w| w.turn = records.max(1));
    }

    /// Asks all workers for a commit.
    pub fn request_commit(&mut self) {
        self.workers.iter_mut().for_each(|w| w.commit_asked = true);
    }

    /// Whether the member is in a stable generation and all tasks of its workers run.
    pub fn is_running(&self) -> bool {
        self.member.is_stable()
            && self.workers.iter().all(|w| w.member.is_some() && w.tasks.iter().all(|t| t.is_running()))
    }

    /// Whether anything was processed that is not committed.
    pub fn has_uncommitted(&self) -> bool {
        self.workers.iter().any(|w| w.has_uncommitted())
    }

    /// Changes the memory budget while all is running: overlays, input queues and engines follow within a moment; the
    /// clients of the broker keep what they were made with. What is `None` is as it would be by default, whatever the settings
    /// said at the start. Caching that was off stays off.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for numbers that do not fit together; nothing has changed then.
    pub fn set_memory(&self, settings: &MemorySettings) -> Result {
        self.shared.memory.set(settings)
    }

    /// All tasks of the instance, with the worker that has them and their state.
    pub fn tasks(&self) -> Vec<(TaskId, usize, crate::TaskState)> {
        let of = |w: &Worker| w.tasks.iter().map(|t| (t.id, w.number, t.state())).collect::<Vec<_>>();
        self.workers.iter().flat_map(of).collect()
    }

    /// Reads a store of a task as its worker sees it now, uncommitted writes included: calls `read` with what a processor's
    /// access is made of. `None` if the task does not run here. For tests; queries of running applications come through
    /// readers.
    pub fn with_store<T>(
        &mut self,
        task: TaskId,
        store: &str,
        read: impl FnOnce(&mut StoreAccess<'_>) -> T,
    ) -> Option<T> {
        let index = self.shared.topology.store_index(store)?;
        let found = self.workers.iter_mut().flat_map(|w| &mut w.tasks).find(|t| t.id == task && t.is_running())?;
        let at = Moment { timestamp: 0, stream_time: found.stream_time };
        let mut access = found.stores.as_mut()?.access(index, at)?;
        Some(read(&mut access))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The parts, for threads.
    pub(crate) fn into_parts(self) -> (GroupMember, Vec<Worker>, Sender<ToMember>, Waker) {
        let waker = self.member.waker();
        (self.member, self.workers, self.to_member, waker)
    }
}

impl std::fmt::Debug for Instance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("member", &self.member).field("workers", &self.workers).finish_non_exhaustive()
    }
}
