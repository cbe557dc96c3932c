//! An application of one task over `broker-mem`, stepped on one thread with a manual clock, whose parts are timed apart.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Admin, Broker, NewTopic, Outgoing, Producer, ProducerOptions, Sent, TopicId};
use millpond_broker_mem::{EmbeddedBroker, ManualClock};
use millpond_runtime::{Counter, Guarantee, Instance, InstanceSpec, MetricsRegistry, Ports, Settings};
use millpond_topology::Topology;

use crate::cpu::{process_time, thread_time};
use crate::engine::EngineKind;

/// Records between two commits.
const INTERVAL: u64 = 10_000;
/// Steps that no interval needs: the job hangs.
const TOO_MANY: usize = 1_000_000;

/// How much of the state the overlays may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizing {
    /// All of it.
    Large,
    /// Next to nothing: 256 KiB, some 3,000 keys.
    Tiny,
    /// All of it, with caching off: every update is logged and forwarded with its record.
    Uncached,
}

impl Sizing {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Large => "large",
            Self::Tiny => "tiny",
            Self::Uncached => "uncached",
        }
    }
}

/// What a job is made for.
#[derive(Clone, Copy, Debug)]
pub struct JobSettings {
    /// Where its state lies.
    pub engine: EngineKind,
    /// How much of it the overlays hold.
    pub sizing: Sizing,
    /// What commits promise.
    pub guarantee: Guarantee,
    /// How many keys there are; each record has one of them, all alike.
    pub keys: u64,
}

/// CPU time of some records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// How many records.
    pub records: u64,
    /// From the poll until what the records have caused is with the producer, or pending in an overlay.
    pub record: Duration,
    /// The commits: drain, flush, offsets, apply.
    pub commit: Duration,
    /// What other threads of the process used meanwhile: flushes and compactions of an engine.
    pub background: Duration,
}

impl Cost {
    /// Nanoseconds per record of one of the times.
    pub fn per_record(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.records.max(1) as f64
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.record += other.record;
        self.commit += other.commit;
        self.background += other.background;
    }
}

/// A running job. It reads the topic `in`: keys of 8 bytes, values of 8 bytes, one partition.
pub struct Job {
    clock: ManualClock,
    admin: Box<dyn Admin>,
    producer: Box<dyn Producer>,
    input: TopicId,
    instance: Instance,
    metrics: Arc<MetricsRegistry>,
    /// Topics that are emptied after each commit, so that memory does not grow with the records.
    topics: Vec<String>,
    keys: u64,
    random: fastrand::Rng,
    sent: u64,
    /// Keeps the directory of a persistent engine until the job is gone.
    _dir: tempfile::TempDir,
}

impl Job {
    /// Starts it and waits until its task runs. `topics` are all that it writes to; one of them may be a changelog, whose
    /// `cleanup.policy` must have `delete` then.
    pub fn start(topology: Topology, settings: JobSettings, outputs: &[&str], topics: &[&str]) -> Self {
        let clock = ManualClock::new();
        let broker = EmbeddedBroker::with_clock(clock.clone());
        let mut admin = broker.admin().expect("the embedded broker has an admin client");
        let configs = [("retention.ms", "-1")];
        for name in outputs.iter().chain(&["in"]) {
            let topic = NewTopic { name, partitions: 1, replication: None, configs: &configs };
            admin.create_topics(&[topic]).expect("the broker answers").remove(0).expect("the topic is new");
        }
        let mut producer = broker.producer(&ProducerOptions::default()).expect("the embedded broker has producers");
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let metrics = Arc::new(MetricsRegistry::default());
        let spec = InstanceSpec {
            settings: runtime_settings(settings, dir.path()),
            topology,
            broker: Arc::new(broker),
            engines: vec![settings.engine.open()],
            ports: Ports { clock: Arc::new(clock.clone()), metrics: metrics.clone(), ..Ports::default() },
        };
        let mut job = Self {
            clock,
            admin,
            input: producer.topic("in"),
            producer,
            instance: Instance::new(spec).expect("the job's settings are right"),
            metrics,
            topics: topics.iter().chain(&["in"]).map(|t| (*t).to_owned()).collect(),
            keys: settings.keys,
            random: fastrand::Rng::with_seed(7),
            sent: 0,
            _dir: dir,
        };
        job.become_running();
        job
    }

    fn become_running(&mut self) {
        for _ in 0..TOO_MANY {
            self.instance.step_member().expect("the member joins");
            self.instance.step_worker(0).expect("the worker takes its task over");
            if self.instance.is_running() && !self.instance.tasks().is_empty() {
                return;
            }
            self.clock.advance(Duration::from_millis(10));
        }
        panic!("the job does not start");
    }

    /// Processes one record for each key, in random order.
    pub fn warm_up(&mut self) {
        let mut keys: Vec<u64> = (0..self.keys).collect();
        self.random.shuffle(&mut keys);
        for part in keys.chunks(INTERVAL as usize) {
            self.interval(part.iter().copied());
        }
    }

    /// Processes at least so many records with random keys, in whole commit intervals.
    pub fn run(&mut self, records: u64) -> Cost {
        let mut cost = Cost::default();
        let (thread, process) = (thread_time(), process_time());
        while cost.records < records {
            let (mut random, keys) = (self.random.fork(), self.keys);
            cost += self.interval((0..INTERVAL).map(|_| random.u64(0..keys)));
        }
        cost.background = (process_time() - process).saturating_sub(thread_time() - thread);
        cost
    }

    fn interval(&mut self, keys: impl Iterator<Item = u64>) -> Cost {
        self.instance.step_member().expect("the member beats");
        let before = self.sent;
        keys.for_each(|key| self.send(key));
        self.producer.flush(Duration::ZERO).expect("the broker takes the input");
        let started = thread_time();
        self.step_until_idle();
        let processed = thread_time();
        self.instance.request_commit();
        self.step_until_idle();
        let committed = thread_time();
        assert!(!self.instance.has_uncommitted(), "the interval is committed");
        assert_eq!(self.metrics.total(Counter::ProcessTotal), self.sent, "every record is processed, once");
        self.tidy();
        Cost {
            records: self.sent - before,
            record: processed - started,
            commit: committed - processed,
            background: Duration::ZERO,
        }
    }

    fn send(&mut self, key: u64) {
        let (key, value) = (key.to_be_bytes(), self.sent.to_be_bytes());
        let record = Outgoing {
            topic: self.input,
            partition: 0,
            timestamp: self.sent as i64,
            key: Some(&key),
            value: Some(&value),
            headers: &[],
            tag: 0,
        };
        assert_eq!(self.producer.send(&record).expect("the record is small"), Sent::Queued);
        self.sent += 1;
    }

    fn step_until_idle(&mut self) {
        for _ in 0..TOO_MANY {
            if !self.instance.step_worker(0).expect("nothing goes wrong") {
                return;
            }
        }
        panic!("the job does not come to rest");
    }

    /// Deletes what was read and written.
    fn tidy(&mut self) {
        let all: Vec<(&str, i32, i64)> = self.topics.iter().map(|topic| (topic.as_str(), 0, -1)).collect();
        for deleted in self.admin.delete_records(&all).expect("the broker answers") {
            deleted.expect("its cleanup policy allows it");
        }
        self.clock.advance(Duration::from_millis(10));
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("instance", &self.instance).field("sent", &self.sent).finish_non_exhaustive()
    }
}

fn runtime_settings(settings: JobSettings, dir: &std::path::Path) -> Settings {
    const MIB: u64 = 1 << 20;
    Settings {
        guarantee: settings.guarantee,
        state_dir: matches!(settings.engine, EngineKind::Rocks | EngineKind::Custom).then(|| dir.to_owned()),
        memory_budget: Some(1_024 * MIB),
        cache_max: Some(match settings.sizing {
            Sizing::Large => 512 * MIB,
            Sizing::Tiny => MIB / 4,
            Sizing::Uncached => 512 * MIB,
        }),
        uncommitted_max: Some(128 * MIB),
        // Commits come when the job asks for them: its clock moves by milliseconds between two of them.
        commit_interval: Some(Duration::from_secs(5)),
        ..Settings::new("bench")
    }
}
