//! Input queues are bounded by bytes, out of the memory budget: whatever the records' sizes, and without losing any.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::membership::Link;
use millpond_broker_api::{
    self as broker, Admin, AdminOptions, Batch, Broker, Change, Consumer, ConsumerOptions, ConsumerRole, GroupOffsets,
    NewTopic, Offset, Outgoing, Producer, ProducerOptions, Sent, Source,
};
use millpond_broker_mem::{Dumped, EmbeddedBroker, ManualClock, Options};
use millpond_runtime::{Clock, Guarantee, Instance, InstanceSpec, MetricsRegistry, Ports, Settings};
use millpond_topology::{ByteArray, Consumed, Produced, Topology};

const PARTITIONS: i32 = 4;
/// Two topics of them.
const QUEUES: usize = 8;
/// What all queues may hold with a budget of 8 MiB.
const MAY_HOLD: usize = 512 << 10;
const POLL_BYTES: usize = 40_000;
const SECOND: Duration = Duration::from_secs(1);

/// What the consumers of a process were asked for, and gave.
#[derive(Default)]
struct Seen {
    pauses: AtomicUsize,
    lent: AtomicUsize,
    /// What a consumer, a consumer of changelogs and a producer may take, in bytes.
    clients: [AtomicU64; 3],
}

/// The embedded broker, seen through.
struct Watched(EmbeddedBroker, Arc<Seen>);

#[deny(clippy::missing_trait_methods)]
impl Broker for Watched {
    fn name(&self) -> String {
        self.0.name()
    }
    fn consumer(&self, options: &ConsumerOptions) -> broker::Result<Box<dyn Consumer>> {
        let [main, restore, _] = &self.1.clients;
        let of_role = if options.role == ConsumerRole::Restore { restore } else { main };
        of_role.store(options.memory.unwrap(), Relaxed);
        Ok(Box::new(WatchedConsumer(self.0.consumer(options)?, Arc::clone(&self.1))))
    }
    fn producer(&self, options: &ProducerOptions<'_>) -> broker::Result<Box<dyn Producer>> {
        self.1.clients[2].store(options.memory.unwrap(), Relaxed);
        self.0.producer(options)
    }
    fn offsets(&self) -> broker::Result<Box<dyn GroupOffsets>> {
        self.0.offsets()
    }
    fn admin(&self) -> broker::Result<Box<dyn Admin>> {
        self.0.admin()
    }

    fn admin_with(&self, options: &AdminOptions) -> broker::Result<Box<dyn Admin>> {
        self.0.admin_with(options)
    }
    fn group_link(&self, group: &str) -> broker::Result<Box<dyn Link>> {
        self.0.group_link(group)
    }
}

struct WatchedConsumer(Box<dyn Consumer>, Arc<Seen>);

#[deny(clippy::missing_trait_methods)]
impl Consumer for WatchedConsumer {
    fn assign(&mut self, changes: &[Change<'_>]) -> broker::Result<()> {
        self.1.pauses.fetch_add(changes.iter().filter(|c| matches!(c, Change::Pause(_))).count(), Relaxed);
        self.0.assign(changes)
    }
    fn poll(&mut self, max_wait: Duration) -> broker::Result<Batch<'_>> {
        let batch = self.0.poll(max_wait)?;
        self.1.lent.fetch_add(batch.len(), Relaxed);
        Ok(batch)
    }
    fn position(&self, source: Source) -> Option<Offset> {
        self.0.position(source)
    }
    fn known_end(&self, source: Source) -> Option<Offset> {
        self.0.known_end(source)
    }
    fn waker(&self) -> Waker {
        self.0.waker()
    }
}

/// A key whose records a sink sends to this partition.
fn key(partition: i32) -> [u8; 4] {
    let keys = (0..u32::MAX).map(u32::to_be_bytes);
    keys.into_iter().find(|key| millpond_changelog::partition_for_key(key, PARTITIONS) == partition).unwrap()
}

/// A process that copies `a` and `b` to `out`, in the order of event times.
struct World {
    clock: ManualClock,
    broker: EmbeddedBroker,
    metrics: Arc<MetricsRegistry>,
    seen: Arc<Seen>,
    instance: Instance,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        let broker = EmbeddedBroker::with_options(Options {
            clock: Some(clock.clone()),
            max_poll_bytes: POLL_BYTES,
            buffer_bytes: 1 << 30,
            ..Options::default()
        });
        let topic =
            |name| NewTopic { name, partitions: PARTITIONS, replication: None, configs: &[("retention.ms", "-1")] };
        for made in broker.admin().unwrap().create_topics(&[topic("a"), topic("b"), topic("out")]).unwrap() {
            made.unwrap();
        }
        let mut topology = Topology::builder();
        let b = topology.stream::<Vec<u8>, Vec<u8>>("b", Consumed::with(ByteArray, ByteArray));
        let merged = topology.stream::<Vec<u8>, Vec<u8>>("a", Consumed::with(ByteArray, ByteArray)).merge(b);
        merged.to("out", Produced::with(ByteArray, ByteArray));
        let (metrics, seen) = (Arc::<MetricsRegistry>::default(), Arc::<Seen>::default());
        let settings = Settings {
            guarantee: Guarantee::AtLeastOnce,
            memory_budget: Some(8 << 20),
            max_task_idle: SECOND * 3600,
            commit_interval: Some(SECOND),
            ..Settings::new("app")
        };
        let instance = Instance::new(InstanceSpec {
            settings,
            topology: topology.build().unwrap(),
            broker: Arc::new(Watched(broker.clone(), Arc::clone(&seen))),
            engines: Vec::new(),
            ports: Ports { clock: Arc::new(clock.clone()), metrics: metrics.clone(), ..Ports::default() },
        });
        let mut world = Self { clock, broker, metrics, seen, instance: instance.unwrap() };
        world.run(SECOND);
        assert!(world.instance.is_running());
        world
    }

    /// Sends records of a size to each partition; their times and values count from `first`.
    fn send(&self, topic: &str, first: i64, records: i64, size: usize) {
        let mut producer = self.broker.producer(&ProducerOptions::default()).unwrap();
        let topic = producer.topic(topic);
        for n in first..first + records {
            let mut value = n.to_be_bytes().to_vec();
            value.resize(size, 0);
            for partition in 0..PARTITIONS {
                let (key, value) = (key(partition), Some(&value[..]));
                let record = Outgoing { topic, partition, timestamp: n, key: Some(&key), value, headers: &[], tag: 0 };
                assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
            }
        }
        assert_eq!(producer.flush(Duration::ZERO).unwrap().outstanding, 0);
    }

    /// Steps for some simulated time; answers the most that the queues held between two steps.
    fn run(&mut self, time: Duration) -> usize {
        let (until, mut most) = (self.clock.now() + time, 0);
        while self.clock.now() < until {
            self.instance.step_member().unwrap();
            self.instance.step_worker(0).unwrap();
            self.clock.advance(Duration::from_millis(5));
            most = most.max(self.held());
        }
        most
    }

    fn held(&self) -> usize {
        let all = self.metrics.snapshot();
        all.iter().filter(|(name, ..)| *name == "input-buffer-bytes-total").map(|(.., bytes)| *bytes as usize).sum()
    }

    /// The numbers of the records in each partition of `out` are these, in order.
    #[track_caller]
    fn assert_out(&self, expected: std::ops::Range<i64>) {
        for partition in 0..PARTITIONS {
            let entries = self.broker.dump("out", partition).unwrap().into_iter();
            let values = entries.filter_map(|(_, entry)| if let Dumped::Record(r) = entry { r.value } else { None });
            let numbers: Vec<i64> = values.map(|value| i64::from_be_bytes(*value.first_chunk().unwrap())).collect();
            let right = numbers.iter().copied().eq(expected.clone());
            assert!(right, "{} of {expected:?} in partition {partition}: {:?}", numbers.len(), numbers.last());
        }
    }
}

#[test]
fn queues_that_cannot_be_worked_off_keep_to_their_bytes_and_lose_nothing() {
    let mut world = World::new();
    world.send("a", 0, 300, 10_000);
    let most = world.run(SECOND * 5);
    // Every task waits for its other input.
    world.assert_out(0..0);
    assert!(most <= MAY_HOLD + POLL_BYTES, "{most} bytes in queues that may hold {MAY_HOLD}, and a batch");
    // The inputs that are empty have their parts too.
    assert!(most > MAY_HOLD / QUEUES * PARTITIONS as usize, "and their parts are used: {most}");

    world.send("b", 300, 300, 10_000);
    let most = world.run(SECOND * 20);
    assert!(most <= MAY_HOLD + POLL_BYTES, "{most}");
    world.send("a", 600, 1, 10);
    world.run(SECOND * 5);
    world.assert_out(0..600);
}

#[test]
fn all_clients_of_a_process_share_what_the_tasks_queues_leave() {
    let world = World::new();
    let clients = world.seen.clients.each_ref().map(|bytes| bytes.load(Relaxed) as usize);
    // The rest is for the batch that a restore has in its hands.
    assert_eq!(clients, [4, 3, 8].map(|sixteenths| MAY_HOLD / 16 * sixteenths));
}

#[test]
fn a_record_that_is_more_than_its_queue_may_hold_passes() {
    let mut world = World::new();
    let (records, size) = (20, 900_000);
    world.send("a", 0, records, size);
    let most = world.run(SECOND * 5);
    assert!(size > MAY_HOLD && most >= size * PARTITIONS as usize, "{most}");
    assert!(most <= (size + 1_000) * PARTITIONS as usize, "no queue takes a second one: {most}");
    world.send("b", records, 1, size);
    world.run(SECOND * 20);
    world.assert_out(0..records);
}

#[test]
fn what_is_worked_off_is_neither_paused_nor_fetched_again() {
    let mut world = World::new();
    // So that no task waits for its other input.
    world.send("b", 100_000, 1, 10);
    world.send("a", 0, 2_000, 10_000);
    let most = world.run(SECOND * 30);
    assert!(most <= MAY_HOLD + POLL_BYTES, "{most}");
    world.assert_out(0..2_000);
    assert_eq!(world.seen.pauses.load(Relaxed), 0);
    assert_eq!(world.seen.lent.load(Relaxed), 2_001 * PARTITIONS as usize);
}
