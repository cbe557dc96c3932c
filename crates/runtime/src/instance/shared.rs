//! What the parts of an instance share: settings, plan, clients, ports, state directory.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millpond_broker_api::{Broker, ProducerOptions};
use millpond_store_api::Engine;
use millpond_topology::Topology;

use super::engines::engines_in_use;
use super::memory::Memory;
use super::{Closing, InstanceSpec};
use crate::error::{Error, ErrorKind, Result};
use crate::handler::Handlers;
use crate::output::Collector;
use crate::plan::Plan;
use crate::ports::{Bug, FailPoint, Ports};
use crate::settings::{Guarantee, Settings};
use crate::state::StateDir;
use crate::task::TaskId;
use crate::task::locks::{TaskHold, TaskLocks};
use crate::topics::{self, MetTopics};

/// What the member and all workers of an instance share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) topology: Topology,
    pub(crate) plan: Arc<Plan>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(super) engines: Vec<Arc<dyn Engine>>,
    pub(crate) ports: Ports,
    /// Who decides about records that fail.
    pub(crate) handlers: Arc<Handlers>,
    state_dir: Option<StateDir>,
    pub(crate) memory: Memory,
    /// Topics that sinks have chosen.
    pub(crate) met: Arc<MetTopics>,
    pub(crate) commit_interval: Duration,
    pub(crate) locks: TaskLocks,
    /// The changelogs of which it was said that they do not keep what is written.
    told_not_kept: Mutex<BTreeSet<String>>,
    /// How long is left when the instance is being closed.
    pub(crate) closing: Arc<Closing>,
    /// The group's coordinator has not answered for a while.
    pub(crate) disconnected: AtomicBool,
    /// Until when nobody else can have been given this instance's work, in microseconds of the clock's monotonic time.
    exclusive_until: AtomicU64,
    /// The application's id.
    pub(crate) group: Arc<str>,
    pub(crate) process_id: u128,
    /// With a state directory: a restarted process takes its own place.
    pub(crate) instance_id: Option<Arc<str>>,
}

impl Shared {
    pub(super) fn new(spec: InstanceSpec) -> Result<Self> {
        let InstanceSpec { settings, topology, broker, engines, ports } = spec;
        settings.validate()?;
        let handlers = Handlers::new(&settings, &ports)?;
        let plan = topics::resolve(&topology, &settings, handlers.topics(), &*broker)?;
        let memory = Memory::new(&settings, engines_in_use(&plan, &engines, &settings)?)?;
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
            memory,
            met: Arc::new(MetTopics::new(Arc::clone(&broker))),
            commit_interval: settings.effective_commit_interval(),
            locks: TaskLocks::default(),
            told_not_kept: Mutex::default(),
            closing: Arc::new(Closing::new(ports.clock.clone(), settings.request_timeout)),
            disconnected: AtomicBool::new(false),
            exclusive_until: AtomicU64::new(0),
            settings,
            topology,
            broker,
            engines,
            ports,
            handlers: Arc::new(handlers),
            state_dir,
            process_id,
            instance_id,
        })
    }

    /// Whether nobody has asked this of a changelog before.
    pub(crate) fn is_first_not_kept(&self, topic: &str) -> bool {
        self.told_not_kept.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned())
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
        let options = ProducerOptions {
            transactional_id: (self.settings.guarantee == Guarantee::ExactlyOnce).then_some(id.as_str()),
            transaction_timeout: self.settings.transaction_timeout,
            memory: Some(self.memory.clients.producer),
        };
        let producer =
            self.broker.producer(&options).map_err(|e| Error::broker("make a producer", e).with("worker", worker))?;
        let guarantee = self.settings.guarantee;
        Ok(Collector::new(producer, &self.closing, &self.handlers, &self.plan.dead_letters, guarantee))
    }

    fn transactional_id(&self, worker: usize) -> String {
        format!("{}-{:032x}-{worker}", self.settings.application_id, self.process_id)
    }

    /// Ends the transactions of workers that an earlier start of this process had, and this one has not (D6).
    pub(super) fn fence_former_workers(&self) -> Result {
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
}
