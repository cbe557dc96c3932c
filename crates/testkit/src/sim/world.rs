//! The simulated world: a broker, a few machines with a process each, a clock, and the order in which they move.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use millpond_broker_api::{Broker, Clock, NewTopic, Outgoing, Producer, ProducerOptions};
use millpond_broker_mem::{EmbeddedBroker, ManualClock, Op, Options, Verdict};
use millpond_changelog::{ShardMetadata, changelog_topic};
use millpond_runtime::{ErrorKind, ErrorPolicy, Guarantee, Instance, InstanceSpec, Ports, Random, Settings};
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_topology::Topology;
use tempfile::TempDir;

use super::faults::{self, Fault, Weather};
use super::finals::{self, Minutes};
use super::job::{self, Model};
use super::kinds::{self, Came};
use super::probe::Probe;
use super::unfenced::Unstable;
use super::{Planted, Report};

pub(super) const APP: &str = "sim";
/// Workers of a process at most.
const WORKERS: usize = 3;
/// Steps in which faults strike and records arrive.
const STEPS: u64 = 12_000;
/// Steps after that, in which everything has to come to rest.
const PATIENCE: u64 = 60_000;
const HISTORY: usize = 60;

/// A machine: a disk, a directory, and a process on it, or none.
pub(super) struct Machine {
    pub(super) disk: SimulatedDisk,
    pub(super) dir: TempDir,
    pub(super) probe: Probe,
    pub(super) process: Option<Instance>,
    /// Down or frozen until then.
    away_until: Duration,
    disk_slow_until: Duration,
    /// Workers that make no step until then.
    stuck_until: [Duration; WORKERS],
    /// How many workers its process has.
    workers: usize,
    /// What each shard directory held durably when the process died, until it is opened again.
    pub(super) durable: BTreeMap<PathBuf, ShardMetadata>,
}

pub(super) struct World {
    seed: u64,
    rng: Rng,
    planted: Option<Planted>,
    weather: Weather,
    pub(super) clock: ManualClock,
    pub(super) broker: EmbeddedBroker,
    pub(super) topology: Topology,
    pub(super) settings: Settings,
    pub(super) machines: Vec<Machine>,
    producer: Box<dyn Producer>,
    pub(super) model: Model,
    /// By partition: what the stores whose rows expire have to know.
    pub(super) came: Vec<Came>,
    /// By partition: what final results are of.
    pub(super) minutes: Vec<Minutes>,
    records: u64,
    target: u64,
    faults: VecDeque<(u64, Fault)>,
    struck: u64,
    pub(super) resumed: u64,
    pub(super) expired: u64,
    pub(super) told: u64,
    look_again_at: Duration,
    /// The largest committed offset seen of each partition.
    pub(super) committed: BTreeMap<(String, i32), i64>,
    history: VecDeque<String>,
}

/// Process ids that follow from the seed.
struct SeededRandom(std::sync::Mutex<Rng>);

impl Random for SeededRandom {
    fn draw(&self) -> u128 {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).u128(..)
    }
}

type Outcome<T = ()> = Result<T, String>;

impl World {
    pub(super) fn new(seed: u64, planted: Option<Planted>) -> Self {
        let mut rng = Rng::with_seed(seed);
        let weather = if seed.is_multiple_of(2) { Weather::Fair } else { Weather::Rough };
        let clock = ManualClock::new();
        let options = Options {
            clock: Some(clock.clone()),
            min_session_timeout: Duration::from_millis(100),
            request_timeout: Duration::from_millis(300),
            marker_lag: Duration::from_millis(rng.u64(0..20)),
            max_poll_records: rng.usize(5..200),
            ..Options::default()
        };
        let broker = EmbeddedBroker::with_options(options);
        let configs = [("retention.ms", "-1")];
        let topic = |name, partitions| NewTopic { name, partitions, replication: None, configs: &configs };
        let mut admin = broker.admin().expect("the embedded broker has an admin");
        let input = |name| topic(name, job::PARTITIONS);
        let topics = [input(job::INPUT), input(job::SECOND_INPUT), topic(job::OUTPUT, 2), input(finals::FINALS)];
        admin.create_topics(&topics).expect("the topics are new");
        let settings = settings(&mut rng, weather);
        let topology = job::topology(&mut rng);
        let machines = if weather == Weather::Fair { 2 } else { 3 };
        let machines = (0..machines).map(|_| Machine::new(planted)).collect();
        let faults = faults::draw(&mut rng, weather, STEPS).into();
        let producer = broker.producer(&ProducerOptions::default()).expect("the embedded broker has producers");
        Self {
            seed,
            target: rng.u64(2_000..2_600),
            rng,
            planted,
            weather,
            clock,
            broker,
            topology,
            settings,
            machines,
            producer,
            model: Model::default(),
            came: (0..job::PARTITIONS).map(|_| Came::default()).collect(),
            minutes: (0..job::PARTITIONS).map(|_| Minutes::default()).collect(),
            records: 0,
            faults,
            struck: 0,
            resumed: 0,
            expired: 0,
            told: 0,
            look_again_at: Duration::ZERO,
            committed: BTreeMap::new(),
            history: VecDeque::new(),
        }
    }

    pub(super) fn exactly_once(&self) -> bool {
        self.settings.guarantee == Guarantee::ExactlyOnce
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        let line = format!("{:>9.3} s  {}", self.clock.now().as_secs_f64(), what());
        self.history.push_back(line);
    }

    pub(super) fn history(&self) -> Vec<String> {
        self.history.iter().cloned().collect()
    }

    pub(super) fn report(&self) -> Report {
        let sum = |of: fn(&Probe) -> BTreeMap<millpond_runtime::FailPoint, u64>| {
            let mut all = BTreeMap::new();
            for (point, n) in self.machines.iter().flat_map(|m| of(&m.probe)) {
                *all.entry(point).or_insert(0) += n;
            }
            all
        };
        Report {
            seed: self.seed,
            guarantee: self.settings.guarantee,
            records: self.records,
            faults: self.struck,
            passed: sum(Probe::passed),
            died: sum(Probe::died),
            resumed: self.resumed,
            expired: self.expired,
            told: self.told,
        }
    }

    pub(super) fn run(&mut self) -> Outcome {
        for step in 0..STEPS {
            self.strike(step)?;
            self.move_on()?;
            let due = self.target * (step + 1) / STEPS;
            while self.records < due.min(self.target) {
                self.produce();
            }
        }
        self.calm();
        let mut patience = PATIENCE;
        while !self.is_at_rest()? {
            patience = patience.checked_sub(1).ok_or_else(|| self.stuck())?;
            self.move_on()?;
        }
        self.check_stores()?;
        self.check_kept()?;
        self.stop_all()?;
        self.check_finals()?;
        self.check_books()
    }

    /// One part of one machine makes a step, or time passes.
    fn move_on(&mut self) -> Outcome {
        if self.rng.u8(0..5) == 0 {
            let by = Duration::from_micros(self.rng.u64(100..20_000));
            self.clock.advance(by);
            self.check_committed()?;
            return Ok(());
        }
        let at = self.rng.usize(0..self.machines.len());
        let now = self.clock.now();
        let Some(machine) = self.machines.get_mut(at) else { return Ok(()) };
        if machine.away_until > now {
            return Ok(());
        }
        machine.disk.hold_flushes(machine.disk_slow_until > now);
        if machine.process.is_none() {
            return self.start(at);
        }
        let part = self.rng.usize(0..=machine.workers);
        let stuck = part.checked_sub(1).and_then(|worker| machine.stuck_until.get(worker)).is_some_and(|t| *t > now);
        if stuck { Ok(()) } else { self.step(at, part) }
    }

    fn step(&mut self, at: usize, part: usize) -> Outcome {
        let Some(machine) = self.machines.get_mut(at) else { return Ok(()) };
        let Some(process) = machine.process.as_mut() else { return Ok(()) };
        let stepped = match part {
            0 => process.step_member(),
            n => process.step_worker(n - 1),
        };
        // What it planned before it died is measured by what it found when it began.
        self.check_restores(at)?;
        match stepped {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::Crashed => {
                self.note(|| format!("process {at} dies: {e}"));
                self.kill(at)
            }
            Err(e) => Err(format!("process {at} has failed: {}", e.chain())),
        }
    }

    /// Drops the process as it is, and notes what its shards hold durably.
    fn kill(&mut self, at: usize) -> Outcome {
        let pause = Duration::from_millis(self.rng.u64(1..1_500));
        let until = self.clock.now() + pause;
        let Some(machine) = self.machines.get_mut(at) else { return Ok(()) };
        machine.process = None;
        machine.away_until = until;
        machine.durable = machine.durable_now()?;
        Ok(())
    }

    fn start(&mut self, at: usize) -> Outcome {
        let seed = self.rng.u64(..);
        let workers = if self.weather == Weather::Fair { 2 } else { self.rng.usize(1..=WORKERS) };
        let Some(machine) = self.machines.get_mut(at) else { return Ok(()) };
        let broker: Arc<dyn Broker> = match self.planted {
            Some(Planted::UnstableOffsetsIgnored) => Arc::new(Unstable(self.broker.clone())),
            _ => Arc::new(self.broker.clone()),
        };
        let spec = InstanceSpec {
            settings: Settings { state_dir: Some(machine.dir.path().to_owned()), workers, ..self.settings.clone() },
            topology: self.topology.clone(),
            broker,
            engines: vec![Arc::new(MemEngine::with_simulated_disk(&machine.disk))],
            ports: Ports {
                clock: Arc::new(self.clock.clone()),
                random: Arc::new(SeededRandom(Rng::with_seed(seed).into())),
                fail_points: Arc::new(machine.probe.clone()),
                observer: Arc::new(machine.probe.clone()),
                ..Ports::default()
            },
        };
        match Instance::new(spec) {
            Ok(process) => {
                (machine.process, machine.workers) = (Some(process), workers);
                machine.stuck_until = [Duration::ZERO; WORKERS];
            }
            // A broker that does not answer at the start is an error that a supervisor answers with another start.
            Err(e) if is_of_the_broker(&e) => machine.away_until = self.clock.now() + Duration::from_millis(100),
            Err(e) => return Err(format!("process {at} does not start: {}", e.chain())),
        }
        self.note(|| format!("process {at} starts with {workers} workers"));
        Ok(())
    }

    /// The faults that are due.
    fn strike(&mut self, step: u64) -> Outcome {
        while self.faults.front().is_some_and(|(at, _)| *at <= step) {
            let Some((_, fault)) = self.faults.pop_front() else { return Ok(()) };
            let at = self.rng.usize(0..self.machines.len());
            self.note(|| {
                if fault.is_of_a_process() { format!("{fault:?} at process {at}") } else { format!("{fault:?}") }
            });
            self.struck += 1;
            self.inflict(fault, at)?;
        }
        Ok(())
    }

    fn inflict(&mut self, fault: Fault, at: usize) -> Outcome {
        let now = self.clock.now();
        let Some(machine) = self.machines.get_mut(at) else { return Ok(()) };
        match fault {
            Fault::Kill if machine.process.is_some() => return self.kill(at),
            Fault::Kill => {}
            Fault::KillAt(point) => machine.probe.arm(point),
            Fault::Pause(time) => machine.away_until = machine.away_until.max(now + time),
            Fault::StopAndStart => {
                if let Some(process) = &machine.process {
                    process.request_stop();
                }
                return self.stop(at);
            }
            Fault::Broker(op, verdict) => self.broker.plan(op, verdict),
            Fault::Disk(op, kind) => machine.disk.fail_next(op, kind),
            Fault::DiskBurst(op, kind, n) => (0..n).for_each(|_| machine.disk.fail_next(op, kind)),
            Fault::SlowDisk(time) => machine.disk_slow_until = now + time,
            Fault::Stuck(worker, time) => {
                if let Some(until) = machine.stuck_until.get_mut(worker) {
                    *until = now + time;
                }
            }
            Fault::CommitNow => machine.process.iter_mut().for_each(Instance::request_commit),
            Fault::Compact => {
                for store in [job::LEDGER, job::COUNTS].into_iter().chain(kinds::COMPACTED) {
                    let topic = changelog_topic(APP, store);
                    self.broker.compact(&topic).map_err(|e| format!("compact {topic}: {e}"))?;
                }
            }
            Fault::Disconnect => self.broker.disconnect(APP),
            Fault::Storm(time, percent) => self.storm(now + time, percent),
        }
        Ok(())
    }

    /// Until then so many of a hundred requests go wrong.
    fn storm(&mut self, until: Duration, percent: u8) {
        let (clock, mut rng) = (self.clock.clone(), Rng::with_seed(self.rng.u64(..)));
        self.broker.set_faults(move |op: Op<'_>| {
            if clock.now() > until || rng.u8(0..100) >= percent {
                return Verdict::Pass;
            }
            faults::verdict(&mut rng, op.kind())
        });
    }

    /// Steps until a clean stop is over; a process may die on the way.
    fn stop(&mut self, at: usize) -> Outcome {
        let mut patience = PATIENCE;
        while self.machines.get(at).is_some_and(|m| m.process.as_ref().is_some_and(|p| !p.is_stopped())) {
            patience = patience.checked_sub(1).ok_or_else(|| format!("process {at} does not stop"))?;
            let workers = self.machines.get(at).map_or(0, |m| m.workers);
            let part = self.rng.usize(0..=workers);
            self.step(at, part)?;
            self.clock.advance(Duration::from_millis(1));
        }
        if let Some(machine) = self.machines.get_mut(at) {
            machine.process = None;
            machine.durable = machine.durable_now()?;
        }
        self.note(|| format!("process {at} has stopped"));
        Ok(())
    }

    fn stop_all(&mut self) -> Outcome {
        for at in 0..self.machines.len() {
            if let Some(process) = self.machines.get(at).and_then(|m| m.process.as_ref()) {
                process.request_stop();
            }
            self.stop(at)?;
        }
        Ok(())
    }

    /// No more faults.
    fn calm(&mut self) {
        self.broker.clear_faults();
        for machine in &mut self.machines {
            machine.probe.disarm();
            machine.disk_slow_until = Duration::ZERO;
            machine.stuck_until = [Duration::ZERO; WORKERS];
            machine.disk.hold_flushes(false);
        }
        self.note(|| "no more faults".to_owned());
    }

    fn produce(&mut self) {
        let second = self.rng.u8(0..3) == 0;
        let (topic, stem) = if second { (job::SECOND_INPUT, "j") } else { (job::INPUT, "k") };
        let key = format!("{stem}{}", self.rng.u8(0..40));
        let value = match self.rng.u8(0..72) {
            0..6 => job::DELETE.to_owned(),
            6 => kinds::FAIL.to_owned(),
            _ => format!("v{}", self.rng.u8(0..15)),
        };
        let timestamp = self.event_time();
        let partition = millpond_changelog::partition_for_key(key.as_bytes(), job::PARTITIONS);
        let record = Outgoing {
            topic: self.producer.topic(topic),
            partition,
            timestamp,
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[],
            tag: 0,
        };
        // Faults of the broker may hit it, and are not of interest here: it repeats what had no answer.
        while !matches!(self.producer.send(&record), Ok(millpond_broker_api::Sent::Queued)) {}
        while self.producer.flush(Duration::ZERO).is_ok_and(|f| f.outstanding > 0) {}
        self.records += 1;
        if value != kinds::FAIL {
            self.model.record(&key, &value);
            if let Some(came) = self.came.get_mut(partition as usize) {
                came.record(&key, &value, timestamp);
            }
            if let Some(minutes) = self.minutes.get_mut(partition as usize) {
                minutes.record(&key, timestamp);
            }
        }
    }

    /// Time goes by a minute in a second, so that rows expire while a run lasts. Records are late, and now and then one is far
    /// ahead of all others.
    fn event_time(&mut self) -> i64 {
        let start = self.clock.wall_ms() - self.clock.now().as_millis() as i64;
        let now = start + self.clock.now().as_millis() as i64 * 60;
        match self.rng.u16(0..1000) {
            0 => now + self.rng.i64(60_000..360_000),
            1..50 => now - self.rng.i64(0..360_000),
            _ => now - self.rng.i64(0..60_000),
        }
        .max(start)
    }

    /// Everything that came in is processed and committed, nobody is frozen, and each task runs once.
    fn is_at_rest(&mut self) -> Outcome<bool> {
        let now = self.clock.now();
        let awake = |m: &Machine| m.away_until <= now && m.process.as_ref().is_some_and(Instance::is_running);
        if !self.machines.iter().all(awake) {
            return Ok(false);
        }
        let processes = self.machines.iter().filter_map(|m| m.process.as_ref());
        let mut tasks: Vec<_> = processes.flat_map(Instance::tasks).map(|(id, ..)| id).collect();
        let running = tasks.len();
        tasks.sort_unstable();
        tasks.dedup();
        let all_run = tasks.len() == running && running == 3 * job::PARTITIONS as usize;
        if !all_run || !self.is_all_committed()? || now < self.look_again_at {
            return Ok(false);
        }
        // It takes a look at all that is there.
        self.look_again_at = now + Duration::from_secs(1);
        Ok(self.are_finals_told()? && self.is_tidy()?)
    }

    fn stuck(&self) -> String {
        let mut text = "does not come to rest:".to_owned();
        for (at, machine) in self.machines.iter().enumerate() {
            let tasks = machine.process.as_ref().map(Instance::tasks);
            text.push_str(&format!(" process {at}: {tasks:?};"));
        }
        text.push_str(&format!(" group: {:?}", self.broker.group(APP).map(|g| (g.phase, g.generation, g.members))));
        text
    }
}

fn is_of_the_broker(error: &millpond_runtime::Error) -> bool {
    let text = error.chain();
    error.kind() == ErrorKind::Broker
        || text.contains("try again")
        || text.contains("retriable")
        || text.contains("transaction must be aborted")
}

fn settings(rng: &mut Rng, weather: Weather) -> Settings {
    let rough = weather == Weather::Rough;
    let guarantee = if rng.u8(0..3) == 0 { Guarantee::AtLeastOnce } else { Guarantee::ExactlyOnce };
    Settings {
        guarantee,
        commit_interval: Some(Duration::from_millis(rng.u64(20..200))),
        cache_max: Some(if rng.bool() { 0 } else { 1 << rng.u32(8..20) }),
        uncommitted_max: Some(1 << rng.u32(9..20)),
        memory_budget: Some(16 << 20),
        flush_interval: Duration::from_millis(rng.u64(100..1_000)),
        session_timeout: Duration::from_secs(1),
        heartbeat_interval: Some(Duration::from_millis(100)),
        rebalance_timeout: Duration::from_millis(800),
        max_poll_interval: Duration::from_millis(if rough { rng.u64(600..6_000) } else { 60_000 }),
        max_task_idle: Duration::from_millis(if rough { rng.u64(0..100) } else { 0 }),
        transaction_timeout: Duration::from_secs(2),
        purge_interval: Duration::from_millis(rng.u64(0..500)),
        buffered_records: rng.usize(10..300),
        request_timeout: Duration::from_millis(200),
        // A record that fails is part of the game.
        on_processing_error: ErrorPolicy::Continue,
        ..Settings::new(APP)
    }
}

impl Machine {
    fn new(planted: Option<Planted>) -> Self {
        // In memory where there is such a directory: durability is simulated by the engine, not by these files.
        let memory = std::path::Path::new("/dev/shm");
        let dir = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Self {
            disk: SimulatedDisk::default(),
            dir: dir.expect("a directory for temporary files"),
            probe: Probe::new(planted),
            process: None,
            away_until: Duration::ZERO,
            disk_slow_until: Duration::ZERO,
            stuck_until: [Duration::ZERO; WORKERS],
            workers: 0,
            durable: BTreeMap::new(),
        }
    }
}
