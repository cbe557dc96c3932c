//! Several instances in one group (D6): who runs what, stuck workers, zombies, hand-over, identity.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Broker, NewTopic, Outgoing, ProducerOptions, Sent};
use millpond_broker_mem::{Dumped, EmbeddedBroker, ManualClock, OpKind, Verdict, Visibility};
use millpond_runtime::{Counter, Guarantee, Instance, InstanceSpec, MetricsRegistry, Ports, Settings, TaskId};
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_topology::{Consumed, I64, Materialized, Produced, Topology, Utf8};
use tempfile::TempDir;

const PARTITIONS: i32 = 4;

struct World {
    clock: ManualClock,
    broker: EmbeddedBroker,
    guarantee: Guarantee,
    sent: BTreeMap<String, i64>,
}

struct Node {
    dir: TempDir,
    disk: SimulatedDisk,
    process: Option<Instance>,
    workers: usize,
    /// Workers that make no steps.
    stuck: BTreeSet<usize>,
}

impl World {
    fn new(guarantee: Guarantee) -> Self {
        let clock = ManualClock::new();
        let broker = EmbeddedBroker::with_clock(clock.clone());
        let topic = |name| NewTopic { name, partitions: PARTITIONS, replication: None, configs: &[] };
        for made in broker.admin().unwrap().create_topics(&[topic("in"), topic("out")]).unwrap() {
            made.unwrap();
        }
        Self { clock, broker, guarantee, sent: BTreeMap::new() }
    }

    fn topology() -> Topology {
        let mut builder = Topology::builder();
        builder
            .stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .count(Materialized::named("counts").key(Utf8))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
        builder.build().unwrap()
    }

    fn start(&self, node: &mut Node) -> Arc<MetricsRegistry> {
        let metrics = Arc::new(MetricsRegistry::default());
        let settings = Settings {
            guarantee: self.guarantee,
            workers: node.workers,
            state_dir: Some(node.dir.path().to_owned()),
            commit_interval: Some(Duration::from_millis(100)),
            session_timeout: Duration::from_secs(10),
            max_poll_interval: Duration::from_secs(3),
            ..Settings::new("app")
        };
        let spec = InstanceSpec {
            settings,
            topology: Self::topology(),
            broker: Arc::new(self.broker.clone()),
            engines: vec![Arc::new(MemEngine::with_simulated_disk(&node.disk))],
            ports: Ports { clock: Arc::new(self.clock.clone()), metrics: metrics.clone(), ..Ports::default() },
        };
        node.process = Some(Instance::new(spec).unwrap());
        metrics
    }

    fn produce(&mut self, records: usize) {
        let mut producer = self.broker.producer(&ProducerOptions::default()).unwrap();
        let topic = producer.topic("in");
        for n in 0..records {
            let key = format!("k{}", n % 37);
            let partition = millpond_changelog::partition_for_key(key.as_bytes(), PARTITIONS);
            let timestamp = millpond_runtime::Clock::wall_ms(&self.clock);
            let (key_bytes, value) = (Some(key.as_bytes()), Some(&b"x"[..]));
            let record = Outgoing { topic, partition, timestamp, key: key_bytes, value, headers: &[], tag: 0 };
            assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
            *self.sent.entry(key).or_default() += 1;
        }
        assert_eq!(producer.flush(Duration::ZERO).unwrap().outstanding, 0);
    }

    /// Steps everything that is not stuck, for some simulated time.
    fn run(&self, nodes: &mut [&mut Node], time: Duration) {
        let until = millpond_runtime::Clock::now(&self.clock) + time;
        while millpond_runtime::Clock::now(&self.clock) < until {
            for node in nodes.iter_mut() {
                let Some(process) = node.process.as_mut() else { continue };
                process.step_member().unwrap();
                for worker in (0..node.workers).filter(|w| !node.stuck.contains(w)) {
                    process.step_worker(worker).unwrap();
                }
            }
            self.clock.advance(Duration::from_millis(5));
        }
    }

    /// The last committed value of each key in the output.
    fn totals(&self) -> BTreeMap<String, i64> {
        let mut totals = BTreeMap::new();
        for partition in 0..PARTITIONS {
            for (_, entry) in self.broker.dump("out", partition).unwrap() {
                let Dumped::Record(record) = entry else { continue };
                if matches!(record.visibility, Visibility::Plain | Visibility::Committed) {
                    let key = String::from_utf8(record.key.unwrap()).unwrap();
                    totals.insert(key, i64::from_be_bytes(record.value.unwrap().try_into().unwrap()));
                }
            }
        }
        totals
    }
}

impl Node {
    fn new(workers: usize) -> Self {
        let dir = TempDir::new().unwrap();
        Self { dir, disk: SimulatedDisk::default(), process: None, workers, stuck: BTreeSet::new() }
    }

    fn tasks(&self) -> BTreeSet<TaskId> {
        self.process.as_ref().map(Instance::tasks).unwrap_or_default().into_iter().map(|(id, ..)| id).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn tasks_are_shared_by_two_instances_and_come_back_when_one_leaves() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let (mut a, mut b) = (Node::new(2), Node::new(2));
    world.start(&mut a);
    world.produce(500);
    world.run(&mut [&mut a], 2 * SECOND);
    assert_eq!(a.tasks().len(), 4);
    world.start(&mut b);
    world.produce(500);
    world.run(&mut [&mut a, &mut b], 5 * SECOND);
    assert_eq!((a.tasks().len(), b.tasks().len()), (2, 2));
    assert!(a.tasks().is_disjoint(&b.tasks()));
    assert_eq!(world.totals(), world.sent);
    // A clean stop leaves at once: long before any session is over.
    b.process.as_ref().unwrap().request_stop();
    world.produce(500);
    world.run(&mut [&mut a, &mut b], 3 * SECOND);
    assert!(b.process.as_ref().unwrap().is_stopped());
    assert_eq!(a.tasks().len(), 4);
    assert_eq!(world.totals(), world.sent);
}

#[test]
fn b116_a_stuck_worker_loses_its_tasks_and_what_it_commits_is_refused() {
    for guarantee in [Guarantee::ExactlyOnce, Guarantee::AtLeastOnce] {
        let mut world = World::new(guarantee);
        let (mut a, mut b) = (Node::new(2), Node::new(1));
        world.start(&mut a);
        world.start(&mut b);
        world.produce(300);
        world.run(&mut [&mut a, &mut b], 8 * SECOND);
        let process = a.process.as_ref().unwrap();
        let frozen: BTreeSet<TaskId> = process.tasks().iter().filter(|(_, w, _)| *w == 1).map(|(id, ..)| *id).collect();
        assert!(!frozen.is_empty(), "worker 1 has a task");
        a.stuck.insert(1);
        world.produce(300);
        world.run(&mut [&mut a, &mut b], 10 * SECOND);
        assert!(frozen.is_subset(&b.tasks()), "{guarantee:?}: {frozen:?} went to {:?}", b.tasks());
        assert_eq!(world.totals(), world.sent, "nothing waits for the stuck worker");
        a.stuck.clear();
        world.produce(300);
        world.run(&mut [&mut a, &mut b], 10 * SECOND);
        assert!(a.tasks().is_disjoint(&b.tasks()));
        assert_eq!(a.tasks().len() + b.tasks().len(), 4);
        assert_eq!(world.totals(), world.sent, "{guarantee:?}");
    }
}

#[test]
fn b109_a_killed_process_takes_its_own_place_at_once_and_restores_the_difference_only() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let (mut a, mut b) = (Node::new(2), Node::new(2));
    world.start(&mut a);
    world.start(&mut b);
    world.produce(400);
    world.run(&mut [&mut a, &mut b], 8 * SECOND);
    let had = b.tasks();
    let generation = world.broker.group("app").unwrap().generation;
    b.process = None;
    world.produce(400);
    world.run(&mut [&mut a], SECOND / 2);
    world.start(&mut b);
    world.run(&mut [&mut a, &mut b], 2 * SECOND);
    assert_eq!(b.tasks(), had, "its own tasks");
    assert_eq!(world.broker.group("app").unwrap().generation, generation, "and nobody else noticed");
    assert_eq!(world.totals(), world.sent);
}

#[test]
fn b117_a_second_instance_on_the_same_state_directory_is_refused_by_name() {
    let world = World::new(Guarantee::AtLeastOnce);
    let mut a = Node::new(1);
    world.start(&mut a);
    let settings = Settings { state_dir: Some(a.dir.path().to_owned()), ..Settings::new("app") };
    let spec = InstanceSpec {
        settings,
        topology: World::topology(),
        broker: Arc::new(world.broker.clone()),
        engines: vec![Arc::new(MemEngine::default())],
        ports: Ports { clock: Arc::new(world.clock.clone()), ..Ports::default() },
    };
    let text = Instance::new(spec).unwrap_err().chain();
    assert!(text.contains(&a.dir.path().display().to_string()), "{text}");
}

#[test]
fn fewer_workers_after_a_restart_leave_no_transaction_open() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let mut a = Node::new(3);
    world.start(&mut a);
    world.produce(200);
    // Stopped dead with three transactions open.
    world.run(&mut [&mut a], SECOND / 4);
    world.produce(200);
    world.run(&mut [&mut a], Duration::from_millis(30));
    a.process = None;
    a.workers = 1;
    world.start(&mut a);
    world.run(&mut [&mut a], 2 * SECOND);
    assert_eq!(world.totals(), world.sent, "long before the transactions' timeout of 10 s");
}

const DAY: Duration = Duration::from_secs(86_400);

/// Stops in good order, lets `away` go by, starts again; answers how many changelog records were read for it.
fn restored_after(world: &World, node: &mut Node, away: Duration) -> u64 {
    node.process.as_ref().unwrap().request_stop();
    world.run(&mut [node], SECOND);
    assert!(node.process.as_ref().unwrap().is_stopped());
    node.process = None;
    world.clock.advance(away);
    let metrics = world.start(node);
    world.run(&mut [node], 5 * SECOND);
    assert!(node.process.as_ref().unwrap().is_running());
    metrics.total(Counter::RestoreTotal)
}

#[test]
fn a_shard_that_was_away_longer_than_tombstones_are_kept_is_built_anew() {
    for (away, whole) in [(DAY / 2, false), (2 * DAY, true)] {
        let mut world = World::new(Guarantee::ExactlyOnce);
        let (mut a, mut b) = (Node::new(1), Node::new(1));
        world.start(&mut a);
        world.produce(300);
        world.run(&mut [&mut a], 2 * SECOND);
        a.process.as_ref().unwrap().request_stop();
        world.run(&mut [&mut a], SECOND);
        a.process = None;
        // Meanwhile another instance goes on, and one key changes.
        world.start(&mut b);
        world.produce(1);
        world.run(&mut [&mut b], 5 * SECOND);
        b.process.as_ref().unwrap().request_stop();
        world.run(&mut [&mut b], SECOND);
        world.clock.advance(away);
        let metrics = world.start(&mut a);
        world.run(&mut [&mut a], 5 * SECOND);
        let read = metrics.total(Counter::RestoreTotal);
        // Deletes that have left the log by now would be missed: every key is read again.
        assert_eq!(read >= 37, whole, "{read} records were read after {away:?}");
        world.produce(300);
        world.run(&mut [&mut a], 2 * SECOND);
        assert_eq!(world.totals(), world.sent);
    }
}

#[test]
fn b144_a_shard_that_runs_without_work_does_not_grow_old() {
    let mut world = World::new(Guarantee::AtLeastOnce);
    let mut a = Node::new(1);
    world.start(&mut a);
    world.produce(300);
    world.run(&mut [&mut a], 2 * SECOND);
    for _ in 0..40 {
        world.clock.advance(DAY / 20);
        world.run(&mut [&mut a], SECOND);
    }
    assert_eq!(restored_after(&world, &mut a, DAY / 2), 0, "two days of silence are no absence");
}

#[test]
fn b122_a_changelog_that_was_deleted_is_named_and_local_state_is_kept() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let mut a = Node::new(1);
    world.start(&mut a);
    world.produce(300);
    world.run(&mut [&mut a], 2 * SECOND);
    a.process.as_ref().unwrap().request_stop();
    world.run(&mut [&mut a], SECOND);
    a.process = None;
    let shards = a.disk.directories();
    world.broker.admin().unwrap().delete_topics(&["app-counts-changelog"]).unwrap().remove(0).unwrap();
    for attempt in 0..2 {
        world.start(&mut a);
        let process = a.process.as_mut().unwrap();
        let failed = (0..2_000).find_map(|_| {
            process.step_member().unwrap();
            world.clock.advance(Duration::from_millis(5));
            process.step_worker(0).err()
        });
        let text = failed.expect("it stops").chain();
        for part in ["app-counts-changelog", "counts", "local state was kept"] {
            assert!(text.contains(part), "attempt {attempt}: {text}");
        }
        a.process = None;
    }
    assert_eq!(a.disk.directories(), shards);
}

#[test]
fn b116_a_frozen_process_without_work_does_not_move_its_shards_past_its_successors_writes() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let (mut a, mut b) = (Node::new(1), Node::new(1));
    world.start(&mut a);
    world.produce(300);
    world.run(&mut [&mut a], 2 * SECOND);
    // It freezes for more than a minute, with nothing left to commit; another takes over and goes on.
    world.start(&mut b);
    world.run(&mut [&mut b], 30 * SECOND);
    assert_eq!(b.tasks().len(), 4);
    world.produce(300);
    world.run(&mut [&mut b], 40 * SECOND);
    // Its worker wakes up before its member, and finds nothing to read.
    for _ in 0..2 {
        world.broker.plan(OpKind::Fetch, Verdict::DropRequest);
        a.process.as_mut().unwrap().step_worker(0).unwrap();
    }
    world.run(&mut [&mut a], SECOND);
    b.process.as_ref().unwrap().request_stop();
    world.run(&mut [&mut a, &mut b], 20 * SECOND);
    b.process = None;
    assert_eq!(a.tasks().len(), 4);
    world.produce(300);
    world.run(&mut [&mut a], 2 * SECOND);
    assert_eq!(world.totals(), world.sent);
}
