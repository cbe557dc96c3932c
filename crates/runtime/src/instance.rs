//! An instance: one group member and its workers, as parts that threads run or a simulator steps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_store_api::Engine;
use millpond_topology::Topology;

use crate::error::{Error, ErrorKind, Result};
use crate::group::{GroupMember, WorkerHandle};
use crate::output::Collector;
use crate::plan::{Plan, StorePlan};
use crate::ports::{Bug, FailPoint, Ports};
use crate::settings::{Guarantee, Settings};
use crate::state::{self, Budget, MemoryBudget, MemorySettings, StateDir, StateErrorKind, available_memory};
use crate::task::TaskId;
use crate::task::locks::{TaskHold, TaskLocks};
use crate::task::stores::ShardPlace;
use crate::topics;
use crate::worker::{Ends, Pulse, ToMember, Worker};

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

/// What the member and all workers of an instance share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) topology: Topology,
    pub(crate) plan: Arc<Plan>,
    pub(crate) broker: Arc<dyn Broker>,
    engines: Vec<Arc<dyn Engine>>,
    pub(crate) ports: Ports,
    state_dir: Option<StateDir>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) caching: bool,
    pub(crate) commit_interval: Duration,
    pub(crate) locks: TaskLocks,
    /// Until when nobody else can have been given this instance's work, in microseconds of the clock's monotonic time.
    exclusive_until: AtomicU64,
    /// The application's id.
    pub(crate) group: Arc<str>,
    pub(crate) process_id: u128,
    /// With a state directory: a restarted process takes its own place.
    pub(crate) instance_id: Option<Arc<str>>,
}

impl Shared {
    fn new(spec: InstanceSpec) -> Result<Self> {
        let InstanceSpec { settings, topology, broker, engines, ports } = spec;
        settings.validate()?;
        let plan = topics::resolve(&topology, &settings, &*broker)?;
        check_engines(&plan, &engines, &settings)?;
        let memory = memory(&settings)?;
        let mut draw = || ports.random.draw();
        let state_dir = match &settings.state_dir {
            Some(root) => Some(StateDir::open(root, &settings.application_id, &mut draw)?),
            None => None,
        };
        let process_id = state_dir.as_ref().map_or_else(draw, StateDir::process_id);
        let instance_id = state_dir.as_ref().map(|_| Arc::from(format!("{process_id:032x}")));
        Ok(Self {
            group: settings.application_id.as_str().into(),
            plan: Arc::new(plan),
            budget: Arc::new(memory.overlays()),
            caching: memory.cache > 0,
            commit_interval: settings.effective_commit_interval(),
            locks: TaskLocks::default(),
            exclusive_until: AtomicU64::new(0),
            settings,
            topology,
            broker,
            engines,
            ports,
            state_dir,
            process_id,
            instance_id,
        })
    }

    /// A fail point: in the simulator a process may die here.
    #[inline]
    pub(crate) fn pass(&self, at: FailPoint) -> Result {
        if self.ports.fail_points.dies(at) {
            return Err(Error::new(ErrorKind::Crashed, "go on").with("fail point", at.name()));
        }
        Ok(())
    }

    /// The member says until when its work is its own.
    pub(crate) fn set_exclusive(&self, until: Option<Duration>) {
        let micros = until.map_or(0, |t| u64::try_from(t.as_micros()).unwrap_or(u64::MAX));
        self.exclusive_until.store(micros, Ordering::Relaxed);
    }

    /// Whether the work is still this instance's for sure. Under at-least-once nothing but this keeps a process that was
    /// frozen from writing over what its successor has written.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.ports.clock.now().as_micros() < u128::from(self.exclusive_until.load(Ordering::Relaxed))
    }

    /// Whether a fault is planted; never without the feature `planted-bugs`.
    #[inline]
    pub(crate) fn planted(&self, bug: Bug) -> bool {
        cfg!(feature = "planted-bugs") && self.ports.fail_points.planted(bug)
    }

    /// The producer of a worker. Its transactional id outlives the process: the next one fences this.
    pub(crate) fn collector(&self, worker: usize) -> Result<Collector> {
        let id = self.transactional_id(worker);
        let id = (self.settings.guarantee == Guarantee::ExactlyOnce).then_some(id.as_str());
        let producer =
            self.broker.producer(id).map_err(|e| Error::broker("make a producer", e).with("worker", worker))?;
        Ok(Collector::new(producer, self.settings.request_timeout))
    }

    fn transactional_id(&self, worker: usize) -> String {
        format!("{}-{:032x}-{worker}", self.settings.application_id, self.process_id)
    }

    /// Ends the transactions of workers that an earlier start of this process had, and this one has not (D6).
    fn fence_former_workers(&self) -> Result {
        let Some(dir) = &self.state_dir else { return Ok(()) };
        let former = dir.note_workers(self.settings.workers as u32)? as usize;
        if self.settings.guarantee == Guarantee::ExactlyOnce {
            for worker in self.settings.workers..former {
                self.collector(worker)?.init()?;
            }
        }
        Ok(())
    }

    /// Tasks whose state lies in this instance's directory. Only the assignor asks, so what cannot be read is not there.
    pub(crate) fn local_tasks(&self) -> Vec<TaskId> {
        let tasks = self.state_dir.as_ref().and_then(|dir| dir.tasks().ok()).unwrap_or_default();
        let known = |t: &TaskId| self.plan.sub(*t).is_some_and(|s| !s.stores.is_empty());
        tasks.into_iter().map(|t| t.task).filter(known).collect()
    }

    /// The right to open a task's shards; `None` while another worker of this instance has it.
    pub(crate) fn hold(&self, task: TaskId) -> Result<Option<TaskHold>> {
        let Some(lock) = self.locks.try_lock(task) else { return Ok(None) };
        let dir = self.state_dir.as_ref().map(|dir| dir.lock(task)).transpose()?;
        Ok(Some(TaskHold::new(lock, dir)))
    }

    /// Which shards a task has, and where. `anew`: what lies there is damaged, it is set aside.
    pub(crate) fn shard_places(
        &self,
        hold: Option<&TaskHold>,
        stores: &[StorePlan],
        anew: bool,
    ) -> Result<Vec<ShardPlace>> {
        let held = hold.and_then(|h| h.dir.as_ref());
        let mut by_engine: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, store) in stores.iter().enumerate() {
            by_engine.entry(engine_of(&self.engines, store)?).or_default().push(place);
        }
        let mut places = Vec::new();
        for (engine, stores) in by_engine {
            let Some(engine) = self.engines.get(engine).cloned() else { continue };
            let dir = match held {
                Some(dir) if engine.persistent() && anew => Some(dir.replace(engine.name())?),
                Some(dir) if engine.persistent() => Some(shard_dir(dir, engine.name())?),
                _ => None,
            };
            places.push(ShardPlace { engine, dir, stores });
        }
        Ok(places)
    }
}

/// A shard's directory. If nothing says which one it was, it begins anew: the changelog has everything.
fn shard_dir(dir: &state::TaskLock, engine: &str) -> Result<PathBuf> {
    match dir.shard_dir(engine) {
        Err(e) if e.kind() == StateErrorKind::Damaged => {
            tracing::error!(task = %dir.task(), "sets a damaged task directory aside: {e}");
            Ok(dir.replace(engine)?)
        }
        found => Ok(found?),
    }
}

fn engine_of(engines: &[Arc<dyn Engine>], store: &StorePlan) -> Result<usize> {
    let Some(name) = &store.engine else { return Ok(0) };
    engines.iter().position(|e| e.name() == name).ok_or_else(|| {
        let known: Vec<&str> = engines.iter().map(|e| e.name()).collect();
        Error::new(ErrorKind::Config, "choose a store's engine")
            .with("store", &store.name)
            .with("unknown engine", name)
            .with("engines", known.join(", "))
            .remedy("give the application that engine, or name one that it has")
    })
}

fn check_engines(plan: &Plan, engines: &[Arc<dyn Engine>], settings: &Settings) -> Result {
    let stores: Vec<&StorePlan> = plan.subs.iter().flat_map(|s| &s.stores).collect();
    if engines.is_empty() && !stores.is_empty() {
        return Err(Error::new(ErrorKind::Config, "choose a store's engine").remedy("give the application an engine"));
    }
    let mut used = BTreeSet::new();
    for store in stores {
        used.insert(engine_of(engines, store)?);
    }
    for engine in used.into_iter().filter_map(|i| engines.get(i)) {
        if engine.persistent() && settings.state_dir.is_none() {
            return Err(Error::new(ErrorKind::Config, "choose a store's engine")
                .with("engine", engine.name())
                .with("missing key", "state.dir")
                .remedy("set `state.dir`: the engine keeps its files there"));
        }
    }
    Ok(())
}

fn memory(settings: &Settings) -> Result<MemoryBudget> {
    let signed = |n: Option<u64>| n.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let memory = MemorySettings {
        budget: signed(settings.memory_budget),
        cache_max: signed(settings.cache_max),
        uncommitted_max: signed(settings.uncommitted_max),
    };
    let available = available_memory(&|path| std::fs::read_to_string(path));
    MemoryBudget::plan(&memory, available).map_err(|e| Error::new(ErrorKind::Config, "plan memory").caused_by(e))
}

/// How much of the memory budget engines may use, in bytes: for those who make them.
pub fn engine_memory(settings: &Settings) -> Result<u64> {
    memory(settings).map(|m| m.block_cache + m.write_buffers)
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

    /// All tasks of the instance, with the worker that has them and their state.
    pub fn tasks(&self) -> Vec<(TaskId, usize, crate::TaskState)> {
        let of = |w: &Worker| w.tasks.iter().map(|t| (t.id, w.number, t.state())).collect::<Vec<_>>();
        self.workers.iter().flat_map(of).collect()
    }

    /// Reads a store of a task as its worker sees it now, uncommitted writes included: calls `read` with its space. `None`
    /// if the task does not run here. For tests; queries of running applications come through readers.
    pub fn with_store<T>(
        &mut self,
        task: TaskId,
        store: &str,
        read: impl FnOnce(&mut dyn millpond_store_api::Space) -> T,
    ) -> Option<T> {
        let index = self.shared.topology.store_index(store)?;
        let found = self.workers.iter_mut().flat_map(|w| &mut w.tasks).find(|t| t.id == task && t.is_running())?;
        let (layer, base) = found.stores.as_mut()?.get_mut(index)?;
        Some(read(&mut millpond_topology::StoreAccess { layer, base, timestamp: 0 }))
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
