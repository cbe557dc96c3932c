//! One instance of an application that counts, over the embedded broker and a clock that stands still between steps.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Broker, Clock, NewTopic, Outgoing, Producer, ProducerOptions, Sent};
use millpond_broker_mem::{Dumped, EmbeddedBroker, ManualClock, Visibility};
use millpond_runtime::{
    Counter, Guarantee, Instance, InstanceSpec, MetricsRegistry, Ports, Random, Result, Settings, TaskId,
};
use millpond_store_api::Space as _;
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_topology::{Consumed, I64, Materialized, Produced, Topology, Utf8};
use tempfile::TempDir;

pub(crate) const PARTITIONS: i32 = 2;
/// The transactional id of the only worker.
pub(crate) const TRANSACTIONAL_ID: &str = "app-00000000000000000000000000000007-0";

const TICK: Duration = Duration::from_millis(10);

/// Process ids are drawn from here, so that a test can name a transactional id.
struct Seven;

impl Random for Seven {
    fn draw(&self) -> u128 {
        7
    }
}

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) broker: EmbeddedBroker,
    pub(crate) settings: Settings,
    pub(crate) topology: Topology,
    pub(crate) dir: TempDir,
    pub(crate) disk: SimulatedDisk,
    pub(crate) metrics: Arc<MetricsRegistry>,
    pub(crate) instance: Option<Instance>,
    producer: Box<dyn Producer>,
    /// How many records were sent to each input partition; all of a partition have one key.
    sent: BTreeMap<i32, i64>,
}

/// Counts the records of `in` per key, each count at once to `out`.
fn counting() -> Topology {
    let mut builder = Topology::builder();
    builder
        .stream("in", Consumed::with(Utf8, Utf8))
        .group_by_key()
        .count(Materialized::named("counts").key(Utf8))
        .to_stream()
        .to("out", Produced::with(Utf8, I64));
    builder.build().unwrap()
}

fn key(partition: i32) -> String {
    format!("p{partition}")
}

impl World {
    pub(crate) fn new(guarantee: Guarantee) -> Self {
        Self::with_topology(guarantee, counting())
    }

    pub(crate) fn with_topology(guarantee: Guarantee, topology: Topology) -> Self {
        let clock = ManualClock::new();
        let broker = EmbeddedBroker::with_clock(clock.clone());
        let topic =
            |name| NewTopic { name, partitions: PARTITIONS, replication: None, configs: &[("retention.ms", "-1")] };
        for made in broker.admin().unwrap().create_topics(&[topic("in"), topic("out")]).unwrap() {
            made.unwrap();
        }
        let dir = TempDir::new().unwrap();
        let settings = Settings {
            guarantee,
            commit_interval: Some(Duration::from_millis(100)),
            cache_max: Some(0),
            state_dir: Some(dir.path().to_owned()),
            ..Settings::new("app")
        };
        let producer = broker.producer(&ProducerOptions::default()).unwrap();
        let (disk, metrics) = (SimulatedDisk::default(), Arc::default());
        Self { clock, broker, settings, topology, dir, disk, metrics, instance: None, producer, sent: BTreeMap::new() }
    }

    /// An exactly-once world whose instance runs and has counted a few records.
    pub(crate) fn running() -> Self {
        let mut world = Self::new(Guarantee::ExactlyOnce);
        world.start();
        world.send(0, 20);
        world.send(1, 20);
        world.run(Duration::from_secs(2));
        world.assert_exactly_once("before anything has failed");
        world
    }

    pub(crate) fn start(&mut self) {
        self.instance = None;
        self.metrics = Arc::default();
        self.instance = Some(Instance::new(self.spec()).unwrap());
    }

    pub(crate) fn spec(&self) -> InstanceSpec {
        InstanceSpec {
            settings: self.settings.clone(),
            topology: self.topology.clone(),
            broker: Arc::new(self.broker.clone()),
            engines: vec![Arc::new(MemEngine::with_simulated_disk(&self.disk))],
            ports: Ports {
                clock: Arc::new(self.clock.clone()),
                random: Arc::new(Seven),
                metrics: self.metrics.clone(),
                ..Ports::default()
            },
        }
    }

    pub(crate) fn instance(&mut self) -> &mut Instance {
        self.instance.as_mut().unwrap()
    }

    /// Writes records of the partition's key to `in`.
    pub(crate) fn send(&mut self, partition: i32, records: i64) {
        let topic = self.producer.topic("in");
        let first = self.sent_to(partition);
        for n in first..first + records {
            let (key, value, timestamp) = (key(partition), n.to_string(), self.clock.wall_ms());
            let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
            let record = Outgoing { topic, partition, timestamp, key, value, headers: &[], tag: 0 };
            assert_eq!(self.producer.send(&record).unwrap(), Sent::Queued);
        }
        assert_eq!(self.producer.flush(Duration::ZERO).unwrap().outstanding, 0);
        *self.sent.entry(partition).or_default() += records;
    }

    fn sent_to(&self, partition: i32) -> i64 {
        self.sent.get(&partition).copied().unwrap_or(0)
    }

    /// Every part makes a step; time stands still.
    pub(crate) fn try_step(&mut self) -> Result<()> {
        let instance = self.instance();
        instance.step_member()?;
        instance.step_worker(0).map(drop)
    }

    /// Steps for some simulated time. An error would end the process: there must be none.
    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            self.try_step().unwrap();
            self.clock.advance(TICK);
        }
    }

    /// Steps without a moment's passing, until nothing more happens.
    fn settle(&mut self) {
        (0..20).for_each(|_| self.try_step().unwrap());
    }

    /// Processes what was sent, and does not commit it: the interval has only begun, with a commit.
    pub(crate) fn process(&mut self) {
        self.settle();
        assert!(self.instance().has_uncommitted(), "nothing was processed, or it was committed");
    }

    /// Sends and processes records, and leaves them uncommitted.
    pub(crate) fn process_without_commit(&mut self, partition: i32, records: i64) {
        self.send(partition, 1);
        self.instance().request_commit();
        self.settle();
        self.send(partition, records - 1);
        self.process();
    }

    /// Only the member makes steps, so that the process stays in the group while its worker stands still.
    pub(crate) fn stall_worker(&mut self, time: Duration) {
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            self.instance().step_member().unwrap();
            self.clock.advance(TICK);
        }
    }

    pub(crate) fn stop(&mut self) {
        self.instance().request_stop();
        self.run(Duration::from_secs(1));
        assert!(self.instance().is_stopped());
        self.instance = None;
    }

    /// What readers of committed records find in a topic: the values of each key, in order.
    pub(crate) fn committed(&self, topic: &str) -> BTreeMap<String, Vec<Vec<u8>>> {
        let mut values: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for partition in 0..PARTITIONS {
            for (_, entry) in self.broker.dump(topic, partition).unwrap() {
                let Dumped::Record(record) = entry else { continue };
                if matches!(record.visibility, Visibility::Plain | Visibility::Committed) {
                    let key = String::from_utf8(record.key.unwrap()).unwrap();
                    values.entry(key).or_default().push(record.value.unwrap());
                }
            }
        }
        values
    }

    /// The counts of a partition's key that readers of `out` find, in order.
    pub(crate) fn counts(&self, partition: i32) -> Vec<i64> {
        let values = self.committed("out").remove(&key(partition)).unwrap_or_default();
        values.into_iter().map(|v| i64::from_be_bytes(v.try_into().unwrap())).collect()
    }

    /// What the group has committed for an input partition.
    pub(crate) fn committed_offset(&self, partition: i32) -> Option<i64> {
        let group = self.broker.group("app")?;
        group.offsets.into_iter().find(|(t, p, _)| t == "in" && *p == partition).map(|(.., committed)| committed.next)
    }

    /// The count of a partition's key in the store.
    pub(crate) fn stored(&mut self, partition: i32) -> Option<i64> {
        let task = TaskId { sub_topology: 0, partition };
        let read = self.instance().with_store(task, "counts", |access| {
            access.space().get(key(partition).as_bytes()).unwrap().map(<[u8]>::to_vec)
        });
        // A timestamp comes before the value.
        read.flatten().map(|value| i64::from_be_bytes(*value.last_chunk().unwrap()))
    }

    /// Every record of the input counts once: in what readers find, in the store, in its changelog and in the offsets.
    #[track_caller]
    pub(crate) fn assert_exactly_once(&mut self, what: &str) {
        for partition in 0..PARTITIONS {
            let sent = self.sent_to(partition);
            let once: Vec<i64> = (1..=sent).collect();
            assert_eq!(self.counts(partition), once, "{what}: outputs of partition {partition}");
            assert_eq!(self.stored(partition), (sent > 0).then_some(sent), "{what}: store of partition {partition}");
            assert_eq!(self.committed_offset(partition).unwrap_or(0), sent, "{what}: offset of partition {partition}");
        }
        let logged: usize = self.committed("app-counts-changelog").values().map(Vec::len).sum();
        assert_eq!(logged as i64, self.sent.values().sum::<i64>(), "{what}: changes that restores read");
    }

    pub(crate) fn count_of(&self, counter: Counter) -> u64 {
        self.metrics.total(counter)
    }

    /// The directory of the application.
    pub(crate) fn app_dir(&self) -> PathBuf {
        self.dir.path().join("app")
    }
}
