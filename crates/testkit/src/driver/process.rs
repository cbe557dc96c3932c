//! The simulated process: an instance over its broker, stepped until it rests; stopped, killed and started again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millpond_broker_api::{Broker, Clock, Header, NewTopic, Outgoing, Producer, ProducerOptions, Sent, TopicId};
use millpond_broker_mem::{EmbeddedBroker, ManualClock, Options};
use millpond_changelog::partition_for_key;
use millpond_runtime::{
    Error, ErrorHandler, ErrorKind, Instance, InstanceSpec, MemorySettings, MetricsRegistry, Ports, Random, Result,
    Settings, TaskId, TaskState,
};
use millpond_store_api::Engine;
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_topology::{StoreAccess, StoreDef, Topology};
use tempfile::TempDir;

use super::builder::no_state_dir;
use super::output::Reader;
use super::record::RawRecord;
use super::{client_error, partitions};

/// So many steps of all parts in a row without anything to do mean that there is nothing to do. A partition that was
/// assigned needs one poll to be known, another to be found empty.
const QUIET: usize = 3;
/// More steps than any test needs: a topology that feeds itself would go on for ever.
const LIMIT: usize = 1_000_000;
/// The pieces of time that the driver lets pass while the runtime waits for time to pass.
const TICK: Duration = Duration::from_millis(10);
/// How many of them it waits for a start or a recovery.
const TICKS: usize = 6_000;

/// When a driver commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    AfterEachPipe,
    AfterEachRecord,
    Manual,
}

/// What stays the same from one start to the next.
pub(super) struct Plan {
    pub(super) topology: Topology,
    pub(super) settings: Settings,
    pub(super) engines: Vec<Arc<dyn Engine>>,
    pub(super) error_handler: Option<Arc<dyn ErrorHandler>>,
    pub(super) commit: Commit,
}

/// Numbers in a row: processes of one driver differ, runs do not.
#[derive(Default)]
struct Counting(AtomicU64);

impl Random for Counting {
    fn draw(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1
    }
}

/// A directory that is deleted with the driver. The default engine keeps only names there, so it may be in memory where the
/// system has such a place: the synced writes of a start would take most of a test's time.
fn temporary_dir(only_names: bool) -> std::io::Result<TempDir> {
    let in_memory = Path::new("/dev/shm");
    match only_names.then(|| tempfile::tempdir_in(in_memory)) {
        Some(Ok(dir)) => Ok(dir),
        _ => tempfile::tempdir(),
    }
}

/// A process and its surroundings.
pub(super) struct Process {
    plan: Plan,
    pub(super) broker: EmbeddedBroker,
    pub(super) clock: ManualClock,
    pub(super) disk: SimulatedDisk,
    metrics: Arc<MetricsRegistry>,
    random: Arc<Counting>,
    /// The test's own producer.
    producer: Box<dyn Producer>,
    topics: BTreeMap<String, (TopicId, i32)>,
    running: Option<Instance>,
    /// Why it does not run any more.
    failed: Option<Error>,
    /// Deleted with the driver.
    _temporary: Option<TempDir>,
}

impl Process {
    pub(super) fn new(mut plan: Plan, clock: ManualClock, options: Options) -> Result<Self> {
        let broker = EmbeddedBroker::with_options(options);
        let temporary = match plan.settings.state_dir {
            Some(_) => None,
            None => Some(temporary_dir(plan.engines.is_empty()).map_err(no_state_dir)?),
        };
        if let Some(dir) = &temporary {
            plan.settings.state_dir = Some(dir.path().to_owned());
        }
        Ok(Self {
            producer: broker
                .producer(&ProducerOptions::default())
                .map_err(client_error("make the driver's producer"))?,
            plan,
            broker,
            clock,
            disk: SimulatedDisk::default(),
            metrics: Arc::default(),
            random: Arc::default(),
            topics: BTreeMap::new(),
            running: None,
            failed: None,
            _temporary: temporary,
        })
    }

    /// Source and sink topics that are the user's, and those for dead letters.
    pub(super) fn external_topics(&self) -> Vec<String> {
        let topology = &self.plan.topology;
        let sources = topology.sources().iter().flat_map(|s| &s.topics);
        let all = sources.chain(topology.sinks().iter().filter_map(|s| s.topic.fixed())).filter(|t| !t.internal);
        let named = self.plan.error_handler.iter().flat_map(|h| h.dead_letter_topics());
        let dead_letters = self.plan.settings.dead_letter_topic.clone().into_iter().chain(named);
        let all: BTreeSet<String> = all.map(|t| t.name.clone()).chain(dead_letters).collect();
        all.into_iter().collect()
    }

    /// The topics that the topology names, internal ones by their whole names.
    fn all_topics(&self) -> Vec<String> {
        let internal = self.plan.topology.internal_topics();
        let mut all = self.external_topics();
        all.extend(internal.iter().map(|t| t.topic.full_name(&self.plan.settings.application_id)));
        all
    }

    /// Refuses topics that nothing reads or writes, which a misspelt name would be. A sink that chooses the topic of each record
    /// may write to any.
    pub(super) fn check_topics(&self, named: &[(String, i32)]) -> Result {
        if self.plan.topology.sinks().iter().any(|s| s.topic.fixed().is_none()) {
            return Ok(());
        }
        let all = self.all_topics();
        match named.iter().find(|(name, _)| !all.contains(name)) {
            Some((name, _)) => Err(Error::new(ErrorKind::Config, "make the driver's topics")
                .with("unknown topic", name)
                .with("topics of the topology", all.join(", "))
                .remedy("name one of these, or leave it out")),
            None => Ok(()),
        }
    }

    pub(super) fn create_topics(&mut self, topics: &[(String, i32)]) -> Result {
        let mut admin = self.broker.admin().map_err(client_error("make an admin client"))?;
        // Events are as old as a test wants them to be.
        let configs = [("retention.ms", "-1")];
        for (name, partitions) in topics {
            let topic = NewTopic { name, partitions: *partitions, replication: None, configs: &configs };
            let made =
                admin.create_topics(&[topic]).and_then(|made| made.into_iter().collect::<std::result::Result<(), _>>());
            made.map_err(|e| client_error("create a topic")(e).with("topic", name).with("partitions", partitions))?;
        }
        Ok(())
    }

    /// The name of a topic on the broker.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub(super) fn known_topic(&self, name: &str) -> String {
        let internal = format!("{}-{name}", self.plan.settings.application_id);
        let known = |name: &str| matches!(partitions(&self.broker, name), Ok(Some(_)));
        if known(name) {
            return name.to_owned();
        }
        if known(&internal) {
            return internal;
        }
        panic!("there is no topic `{name}`; the topology's are {}", self.all_topics().join(", "));
    }

    /// # Panics
    ///
    /// If the topic has no such partition.
    #[track_caller]
    pub(super) fn known_partition(&self, topic: &str, partition: i32) {
        let count = partitions(&self.broker, topic).ok().flatten().unwrap_or(0);
        assert!(
            (0..count).contains(&partition),
            "the topic `{topic}` has no partition {partition}; it has {count}, which `DriverBuilder::topic` decides"
        );
    }

    /// The definition of a store.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub(super) fn known_store(&self, name: &str) -> StoreDef {
        let stores = self.plan.topology.stores();
        match stores.iter().find(|s| s.name == name) {
            Some(def) => def.clone(),
            None => {
                let all: Vec<&str> = stores.iter().map(|s| s.name.as_str()).collect();
                let all = if all.is_empty() { "has no stores".to_owned() } else { format!("has {}", all.join(", ")) };
                panic!("there is no store `{name}`; the topology {all}");
            }
        }
    }

    /// Starts an instance and steps it until all its tasks run.
    pub(super) fn start(&mut self) -> Result {
        (self.running, self.failed) = (None, None);
        let mut engines = self.plan.engines.clone();
        if engines.is_empty() {
            engines.push(Arc::new(MemEngine::with_simulated_disk(&self.disk)));
        }
        let spec = InstanceSpec {
            settings: self.plan.settings.clone(),
            topology: self.plan.topology.clone(),
            broker: Arc::new(self.broker.clone()),
            engines,
            ports: Ports {
                clock: Arc::new(self.clock.clone()),
                random: self.random.clone(),
                metrics: self.metrics.clone(),
                error_handler: self.plan.error_handler.clone(),
                ..Ports::default()
            },
        };
        let mut instance = Instance::new(spec)?;
        if self.plan.commit == Commit::AfterEachRecord {
            instance.limit_turns(1);
        }
        self.running = Some(instance);
        self.settle()
    }

    fn instance(&mut self) -> Result<&mut Instance> {
        match (&mut self.running, &self.failed) {
            (Some(instance), _) => Ok(instance),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err(Error::new(ErrorKind::Config, "step the application")
                .with("reason", "it is stopped")
                .remedy("call `restart` first")),
        }
    }

    /// One step of every part; an error ends the process, as it ends an application.
    fn step(&mut self) -> Result<bool> {
        let each_record = self.plan.commit == Commit::AfterEachRecord;
        let instance = self.instance()?;
        let mut step = || {
            let mut busy = instance.step_member()?;
            for worker in 0..instance.workers() {
                if each_record {
                    instance.request_commit();
                }
                busy |= instance.step_worker(worker)?;
            }
            Ok(busy)
        };
        step().inspect_err(|e: &Error| {
            self.running = None;
            self.failed = Some(e.clone());
        })
    }

    /// Steps until there is nothing to do and all tasks run. If they do not, it is time that they wait for.
    pub(super) fn run(&mut self) -> Result {
        let (mut quiet, mut ticks) = (0, 0);
        for _ in 0..LIMIT {
            quiet = if self.step()? { 0 } else { quiet + 1 };
            if quiet < QUIET {
                continue;
            }
            let instance = self.instance()?;
            if instance.is_running() || instance.is_stopped() {
                return Ok(());
            }
            if ticks == TICKS {
                let tasks = format!("{:?}", instance.tasks());
                return Err(self.stuck("wait for all tasks to run").with("tasks", tasks));
            }
            self.clock.advance(TICK);
            ticks += 1;
        }
        Err(self.stuck("wait for the topology to come to rest").with("steps", LIMIT))
    }

    #[cold]
    fn stuck(&self, op: &'static str) -> Error {
        Error::new(ErrorKind::Fatal, op)
            .with("application.id", &self.plan.settings.application_id)
            .remedy("does the topology feed itself, or is a fault still planned?")
    }

    pub(super) fn commit(&mut self) -> Result {
        self.run()?;
        for _ in 0..LIMIT {
            let instance = self.instance()?;
            if !instance.has_uncommitted() {
                return Ok(());
            }
            instance.request_commit();
            self.run()?;
        }
        Err(self.stuck("wait for everything to be committed"))
    }

    pub(super) fn settle(&mut self) -> Result {
        match self.plan.commit {
            Commit::AfterEachPipe | Commit::AfterEachRecord => self.commit(),
            Commit::Manual => self.run(),
        }
    }

    pub(super) fn advance(&mut self, by: Duration) -> Result {
        self.settle()?;
        self.clock.advance(by);
        self.settle()
    }

    pub(super) fn set_memory(&mut self, settings: &MemorySettings) -> Result {
        self.instance()?.set_memory(settings)
    }

    pub(super) fn stop(&mut self) -> Result {
        if self.running.is_some() {
            self.instance()?.request_stop();
            self.run()?;
        }
        (self.running, self.failed) = (None, None);
        Ok(())
    }

    pub(super) fn restart(&mut self) -> Result {
        self.stop()?;
        self.start()
    }

    pub(super) fn crash(&mut self) -> Result {
        self.running = None;
        self.start()
    }

    pub(super) fn restart_without_state(&mut self) -> Result {
        self.stop()?;
        self.disk.wipe();
        self.wipe_tasks()?;
        self.start()
    }

    /// Deletes the directories of all tasks. The process's identity stays: it is the same machine.
    fn wipe_tasks(&self) -> Result {
        let Some(root) = &self.plan.settings.state_dir else { return Ok(()) };
        let application: PathBuf = root.join(&self.plan.settings.application_id);
        let wipe = || {
            for entry in std::fs::read_dir(&application)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    std::fs::remove_dir_all(entry.path())?;
                }
            }
            Ok(())
        };
        wipe().map_err(|e: std::io::Error| {
            Error::new(ErrorKind::StateDir, "delete local state").with("path", application.display()).caused_by(e)
        })
    }

    #[track_caller]
    pub(super) fn send(&mut self, topic: &str, partition: Option<i32>, record: &RawRecord) -> Result {
        let name = self.known_topic(topic);
        let (id, count) = self.route(&name)?;
        let partition = match (partition, &record.key) {
            (Some(partition), _) => {
                self.known_partition(&name, partition);
                partition
            }
            (None, Some(key)) => partition_for_key(key, count),
            (None, None) => 0,
        };
        let headers: Vec<Header<'_>> =
            record.headers.iter().map(|h| Header { name: &h.name, value: h.value.as_deref() }).collect();
        let outgoing = Outgoing {
            topic: id,
            partition,
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
            tag: 0,
        };
        let failed = |e| client_error("pipe a record")(e).with("topic", &name).with("partition", partition);
        while self.producer.send(&outgoing).map_err(failed)? == Sent::Full {
            self.producer.flush(Duration::ZERO).map_err(failed)?;
        }
        let flushed = self.producer.flush(Duration::ZERO).map_err(failed)?;
        flushed.failed.first().map_or(Ok(()), |f| Err(failed(f.error.clone())))
    }

    fn route(&mut self, name: &str) -> Result<(TopicId, i32)> {
        if let Some(known) = self.topics.get(name) {
            return Ok(*known);
        }
        let count = partitions(&self.broker, name)?.unwrap_or(1);
        let route = (self.producer.topic(name), count);
        self.topics.insert(name.to_owned(), route);
        Ok(route)
    }

    #[track_caller]
    pub(super) fn records(&self, topic: &str) -> Vec<RawRecord> {
        let mut reader = Reader::new(&self.broker, topic);
        std::iter::from_fn(|| reader.next()).collect()
    }

    pub(super) fn tasks(&self) -> Vec<(TaskId, TaskState)> {
        let tasks = self.running.iter().flat_map(Instance::tasks);
        tasks.map(|(id, _, state)| (id, state)).collect()
    }

    pub(super) fn metrics(&self) -> Arc<MetricsRegistry> {
        Arc::clone(&self.metrics)
    }

    pub(super) fn committed(&self, topic: &str, partition: i32) -> Option<i64> {
        let group = self.broker.group(&self.plan.settings.application_id)?;
        let found = group.offsets.iter().find(|(t, p, _)| t == topic && *p == partition);
        found.map(|(_, _, committed)| committed.next)
    }

    /// The name of a store's changelog on the broker; `None` if it has none.
    pub(super) fn changelog(&self, store: &str) -> Option<String> {
        let name = millpond_changelog::changelog_topic(&self.plan.settings.application_id, store);
        matches!(partitions(&self.broker, &name), Ok(Some(_))).then_some(name)
    }

    /// Lets `read` see the store in each task that has it, in the order of partitions.
    pub(super) fn with_store(&mut self, def: &StoreDef, read: &mut dyn FnMut(i32, &mut StoreAccess<'_>)) {
        let tasks: Vec<TaskId> =
            self.tasks().into_iter().map(|(id, _)| id).filter(|id| id.sub_topology == def.sub).collect();
        let Some(instance) = &mut self.running else { return };
        for task in tasks {
            instance.with_store(task, &def.name, |access| read(task.partition, access));
        }
    }

    /// How many milliseconds the wall clock shows.
    pub(super) fn wall_ms(&self) -> i64 {
        self.clock.wall_ms()
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("tasks", &self.tasks()).field("failed", &self.failed).finish_non_exhaustive()
    }
}
