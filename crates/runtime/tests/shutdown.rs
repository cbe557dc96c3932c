//! Closing an application while something else happens (B123): in time, saying whether it was clean, and leaving no thread.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond_broker_api::membership::Request;
use millpond_broker_api::{Broker, NewTopic, Outgoing, ProducerOptions, Sent};
use millpond_broker_mem::{Dumped, EmbeddedBroker, Op, Options, TransactionState, Verdict, Visibility};
use millpond_runtime::{
    App, AppState, Counter, Guarantee, MetricsRegistry, Ports, Settings, Shutdown, Spawner, SystemSpawner, TaskState,
};
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_topology::{Consumed, I64, Materialized, Produced, Topology, Utf8};
use tempfile::TempDir;

const PARTITIONS: i32 = 2;
const BOTH: [Guarantee; 2] = [Guarantee::ExactlyOnce, Guarantee::AtLeastOnce];
const SECOND: Duration = Duration::from_secs(1);

/// Threads of the system, counted while they live.
struct Counting(Arc<AtomicUsize>);

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Spawner for Counting {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let alive = Alive(self.0.clone());
        SystemSpawner.spawn(
            name,
            Box::new(move || {
                let _alive = alive;
                body();
            }),
        )
    }
}

/// A user's function that takes as long as the test likes.
#[derive(Clone, Default)]
struct Gate {
    closed: Arc<Mutex<()>>,
    entered: Arc<AtomicBool>,
}

impl Gate {
    fn pass(&self) {
        self.entered.store(true, Ordering::SeqCst);
        drop(self.closed.lock().unwrap());
    }
}

/// A machine on which an application can run.
struct Machine {
    dir: TempDir,
    disk: SimulatedDisk,
    threads: Arc<AtomicUsize>,
    metrics: Arc<MetricsRegistry>,
    gate: Gate,
}

struct World {
    broker: EmbeddedBroker,
    settings: Settings,
    sent: BTreeMap<String, i64>,
}

impl World {
    fn new(guarantee: Guarantee) -> Self {
        let broker = EmbeddedBroker::with_options(Options { request_timeout: SECOND, ..Options::default() });
        let topic =
            |name| NewTopic { name, partitions: PARTITIONS, replication: None, configs: &[("retention.ms", "-1")] };
        for made in broker.admin().unwrap().create_topics(&[topic("in"), topic("out")]).unwrap() {
            made.unwrap();
        }
        let settings = Settings {
            guarantee,
            // It commits when it is asked to, and at its end.
            commit_interval: Some(9 * SECOND),
            cache_max: Some(0),
            heartbeat_interval: Some(Duration::from_millis(20)),
            ..Settings::new("app")
        };
        Self { broker, settings, sent: BTreeMap::new() }
    }

    fn topology(gate: &Gate) -> Topology {
        let gate = gate.clone();
        let mut builder = Topology::builder();
        builder
            .stream("in", Consumed::with(Utf8, Utf8))
            .peek(move |_, _| gate.pass())
            .group_by_key()
            .count(Materialized::named("counts").key(Utf8))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
        builder.build().unwrap()
    }

    fn start(&self, machine: &mut Machine) -> App {
        machine.metrics = Arc::default();
        App::builder("app")
            .settings(Settings { state_dir: Some(machine.dir.path().to_owned()), ..self.settings.clone() })
            .broker(self.broker.clone())
            .engine(MemEngine::with_simulated_disk(&machine.disk))
            .ports(Ports {
                spawner: Arc::new(Counting(machine.threads.clone())),
                metrics: machine.metrics.clone(),
                ..Ports::default()
            })
            .start(Self::topology(&machine.gate))
            .unwrap()
    }

    fn run(&self, machine: &mut Machine) -> App {
        let app = self.start(machine);
        until("it runs", || app.state() == AppState::Running && app.progress().tasks.len() == PARTITIONS as usize);
        app
    }

    fn send(&mut self, records: usize) {
        let mut producer = self.broker.producer(&ProducerOptions::default()).unwrap();
        let topic = producer.topic("in");
        for n in 0..records {
            let partition = n as i32 % PARTITIONS;
            let key = format!("p{partition}");
            let (bytes, value) = (Some(key.as_bytes()), Some(&b"v"[..]));
            let record = Outgoing { topic, partition, timestamp: 0, key: bytes, value, headers: &[], tag: 0 };
            assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
            *self.sent.entry(key).or_default() += 1;
        }
        assert_eq!(producer.flush(SECOND).unwrap().outstanding, 0);
    }

    /// Sends records and waits until they are processed; they are not committed.
    fn process(&mut self, machine: &Machine, records: usize) {
        let before = machine.metrics.total(Counter::ProcessTotal);
        self.send(records);
        until("all are processed", || machine.metrics.total(Counter::ProcessTotal) == before + records as u64);
    }

    fn down(&self) {
        self.broker.set_faults(|_: Op<'_>| Verdict::DropRequest);
    }

    fn committed(&self) -> i64 {
        let offsets = self.broker.group("app").map(|g| g.offsets).unwrap_or_default();
        offsets.into_iter().filter(|(topic, ..)| topic == "in").map(|(.., committed)| committed.next).sum()
    }

    fn total(&self) -> i64 {
        self.sent.values().sum()
    }

    /// The counts that readers find, of each key in order.
    fn counts(&self) -> BTreeMap<String, Vec<i64>> {
        let mut counts: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for partition in 0..PARTITIONS {
            for (_, entry) in self.broker.dump("out", partition).unwrap() {
                let Dumped::Record(record) = entry else { continue };
                if matches!(record.visibility, Visibility::Plain | Visibility::Committed) {
                    let key = String::from_utf8(record.key.unwrap()).unwrap();
                    counts.entry(key).or_default().push(i64::from_be_bytes(record.value.unwrap().try_into().unwrap()));
                }
            }
        }
        counts
    }

    /// Whoever starts next finishes what was left, and each record has counted once (under at-least-once: at least).
    #[track_caller]
    fn is_whole_after(&self, mut machine: Machine) {
        until("no thread is left", || machine.threads.load(Ordering::SeqCst) == 0);
        let app = self.run(&mut machine);
        until("all is processed", || {
            app.request_commit();
            self.committed() == self.total()
        });
        assert_eq!(app.shutdown_within(5 * SECOND).unwrap(), Shutdown::Clean);
        let once = self.sent.iter().map(|(key, n)| (key.clone(), (1..=*n).collect::<Vec<_>>()));
        match self.settings.guarantee {
            Guarantee::ExactlyOnce => assert_eq!(self.counts(), once.collect()),
            Guarantee::AtLeastOnce => {
                let counts = self.counts();
                assert!(
                    once.clone().all(|(key, all)| counts.get(&key).is_some_and(|c| c.starts_with(&all))),
                    "{counts:?}"
                );
            }
        }
    }
}

impl Machine {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let (disk, threads, metrics, gate) = Default::default();
        Self { dir, disk, threads, metrics, gate }
    }
}

/// Waits for what is bound to come.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "it waits for threads of the library, on the system's clock")]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < 60 * SECOND, "still not: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Closes, in time: what is added is for a machine that is busy.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "the time that a close takes is what is tested")]
fn close(app: &App, time: Duration) -> Shutdown {
    let start = Instant::now();
    let closed = app.shutdown_within(time).unwrap();
    assert!(start.elapsed() < time + SECOND, "a close took {:?} of {time:?}", start.elapsed());
    closed
}

/// How many threads are left just then depends on how busy the machine is; that none stays is waited for.
fn is_given_up(closed: Shutdown) -> bool {
    matches!(closed, Shutdown::GivenUp { .. })
}

#[test]
fn b123_with_a_transaction_open() {
    for guarantee in BOTH {
        let mut world = World::new(guarantee);
        let mut machine = Machine::new();
        for round in 0..50 {
            let app = world.run(&mut machine);
            world.process(&machine, 10);
            assert_eq!(world.committed(), round * 10, "they are not committed");
            assert_eq!(close(&app, 5 * SECOND), Shutdown::Clean, "{guarantee:?}");
            assert_eq!(world.committed(), world.total(), "{guarantee:?}");
            assert!(world.broker.group("app").unwrap().members.is_empty(), "it has left");
            until("no thread is left", || machine.threads.load(Ordering::SeqCst) == 0);
            assert_eq!(machine.metrics.total(Counter::RestoreTotal), 0, "what was durable is all there is");
        }
        world.is_whole_after(machine);
    }
}

#[test]
fn b123_during_a_rebalance() {
    for guarantee in BOTH {
        let mut world = World::new(guarantee);
        for round in 0..10 {
            let (mut a, mut b) = (Machine::new(), Machine::new());
            let (first, second) = (world.run(&mut a), world.start(&mut b));
            world.send(10);
            until("a moment has passed", {
                let mut left = round * 4;
                move || {
                    left -= 1;
                    left <= 0
                }
            });
            assert_eq!(close(&first, 5 * SECOND), Shutdown::Clean, "{guarantee:?}");
            assert_eq!(close(&second, 5 * SECOND), Shutdown::Clean, "{guarantee:?}");
            until("no thread is left", || a.threads.load(Ordering::SeqCst) + b.threads.load(Ordering::SeqCst) == 0);
        }
        world.is_whole_after(Machine::new());
    }
}

/// A rebalance that does not end, since another member of the group does not answer.
#[test]
fn b123_during_a_rebalance_that_another_member_holds_up() {
    for guarantee in BOTH {
        let mut world = World::new(guarantee);
        let mut machine = Machine::new();
        let app = world.run(&mut machine);
        world.process(&machine, 10);
        let mut members: Vec<_> = (0..2).map(|_| world.broker.group_link("app").unwrap()).collect();
        let generation = |world: &World| world.broker.group("app").unwrap().generation;
        let (before, joins) = (generation(&world), Arc::new(AtomicBool::new(false)));
        for (number, member) in members.iter_mut().enumerate() {
            member.send(&Request::Join {
                member_id: "".into(),
                instance_id: Some(format!("silent-{number}").into()),
                session_timeout: 60 * SECOND,
                rebalance_timeout: 60 * SECOND,
                protocol: "millpond-1".into(),
                metadata: Vec::new(),
            });
            // The first joins, and then says nothing while the second wants to join.
            until("it is in the group", || number == 1 || generation(&world) > before);
            if number == 0 {
                let joins = joins.clone();
                world.broker.set_faults(move |op: Op<'_>| {
                    joins.fetch_or(
                        matches!(op, Op::Group { link: 0, request: Request::Join { .. }, .. }),
                        Ordering::SeqCst,
                    );
                    Verdict::Pass
                });
            }
        }
        until("it waits for the answer to its join", || joins.load(Ordering::SeqCst));
        assert!(is_given_up(close(&app, 2 * SECOND)), "{guarantee:?}: it could not leave");
        assert_eq!(world.committed(), world.total(), "{guarantee:?}: but it has committed");
        until("no thread is left", || machine.threads.load(Ordering::SeqCst) == 0);
    }
}

#[test]
fn b123_while_restoring() {
    for guarantee in BOTH {
        let mut world = World::new(guarantee);
        let mut machine = Machine::new();
        let app = world.run(&mut machine);
        world.process(&machine, 1_000);
        assert_eq!(close(&app, 5 * SECOND), Shutdown::Clean);
        drop(app);
        // All local state is lost, and the log comes slowly: the second consumer of a worker reads changelogs.
        let mut machine = Machine::new();
        world.broker.set_faults(|op: Op<'_>| match op {
            Op::Fetch { consumer } if consumer % 2 == 1 => Verdict::DropRequest,
            _ => Verdict::Pass,
        });
        let app = world.start(&mut machine);
        until("it restores", || {
            let tasks = app.progress().tasks;
            tasks.len() == 2 && tasks.iter().all(|t| t.state == TaskState::Restoring)
        });
        assert_eq!(close(&app, 5 * SECOND), Shutdown::Clean, "{guarantee:?}");
        drop(app);
        world.broker.clear_faults();
        world.send(10);
        world.is_whole_after(machine);
    }
}

#[test]
fn b123_while_the_broker_is_down() {
    for guarantee in BOTH {
        let mut world = World::new(guarantee);
        let mut machine = Machine::new();
        let app = world.run(&mut machine);
        world.process(&machine, 10);
        world.down();
        assert!(is_given_up(close(&app, 2 * SECOND)), "{guarantee:?}: nothing could be committed");
        until("no thread is left", || machine.threads.load(Ordering::SeqCst) == 0);
        drop(app);
        world.broker.clear_faults();
        world.is_whole_after(machine);
    }
}

/// A call to the broker that began before the close is not cut short, and the close does not wait for it.
#[test]
fn b123_while_a_commit_waits_for_a_broker_that_is_down() {
    for guarantee in BOTH {
        let mut world = World::new(guarantee);
        world.settings.request_timeout = 3 * SECOND;
        let mut machine = Machine::new();
        let app = world.run(&mut machine);
        world.process(&machine, 10);
        let commits = Arc::new(AtomicBool::new(false));
        let begun = commits.clone();
        world.broker.set_faults(move |op: Op<'_>| {
            let ends = matches!(op, Op::TxnOffsetCommit { .. } | Op::OffsetCommit { .. });
            begun.fetch_or(ends, Ordering::SeqCst);
            Verdict::DropRequest
        });
        // What was processed is with the broker already, so the offsets are the first to wait.
        app.request_commit();
        until("a commit waits", || commits.load(Ordering::SeqCst));
        let closed = close(&app, SECOND);
        assert!(matches!(closed, Shutdown::GivenUp { threads_left: 1.. }), "{guarantee:?}: {closed:?}");
        until("the call is over", || machine.threads.load(Ordering::SeqCst) == 0);
        assert_eq!(close(&app, SECOND), Shutdown::GivenUp { threads_left: 0 }, "{guarantee:?}: called again");
        drop(app);
        world.broker.clear_faults();
        world.is_whole_after(machine);
    }
}

/// The function does not return. Others get the work, and what it does when it returns after all counts nowhere.
#[test]
fn b123_inside_a_users_function() {
    for guarantee in BOTH {
        let mut world = World::new(guarantee);
        // The transaction that is left open ends by its timeout.
        (world.settings.rebalance_timeout, world.settings.transaction_timeout) = (SECOND, 3 * SECOND);
        world.settings.commit_interval = Some(2 * SECOND);
        let (mut a, mut b) = (Machine::new(), Machine::new());
        let app = world.run(&mut a);
        world.process(&a, 10);
        let gate = a.gate.clone();
        let hold = gate.closed.lock().unwrap();
        gate.entered.store(false, Ordering::SeqCst);
        world.send(10);
        until("the function is entered", || gate.entered.load(Ordering::SeqCst));
        let closed = close(&app, SECOND);
        assert!(matches!(closed, Shutdown::GivenUp { threads_left: 1.. }), "{guarantee:?}: {closed:?}");
        assert!(world.broker.group("app").unwrap().members.is_empty(), "{guarantee:?}: it has left");
        drop(app);

        let other = world.run(&mut b);
        until("the other has done all of it", || {
            other.request_commit();
            world.committed() == world.total()
        });
        let (counts, committed) = (world.counts(), world.committed());
        drop(hold);
        until("no thread is left", || a.threads.load(Ordering::SeqCst) == 0);
        assert_eq!((world.counts(), world.committed()), (counts, committed), "{guarantee:?}: nothing came later");
        assert_eq!(close(&other, 5 * SECOND), Shutdown::Clean);
        drop(other);
        world.is_whole_after(b);
    }
}

#[test]
fn b123_a_second_close_is_a_no_op() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    let mut machine = Machine::new();
    let app = world.run(&mut machine);
    world.process(&machine, 10);
    std::thread::scope(|threads| {
        let closing: Vec<_> = (0..4).map(|_| threads.spawn(|| close(&app, 5 * SECOND))).collect();
        app.stop();
        assert!(closing.into_iter().all(|thread| thread.join().unwrap() == Shutdown::Clean));
    });
    assert_eq!(close(&app, Duration::ZERO), Shutdown::Clean);
    assert_eq!(world.committed(), 10);
    app.stop();
    app.shutdown().unwrap();
    assert_eq!(world.broker.transaction(&transactional_id(&machine)), Some(TransactionState::Idle));
    world.is_whole_after(machine);
}

fn transactional_id(machine: &Machine) -> String {
    let process = std::fs::read_to_string(machine.dir.path().join("app/process-id")).unwrap();
    format!("app-{}-0", process.trim_end())
}

/// A drop never waits, whatever the broker and the functions do; the threads end by themselves.
#[test]
#[expect(clippy::disallowed_methods, reason = "the time that a drop takes is what is tested")]
fn b123_dropped_without_a_close() {
    for down in [false, true] {
        let mut world = World::new(Guarantee::ExactlyOnce);
        world.settings.request_timeout = SECOND;
        let mut machine = Machine::new();
        let app = world.run(&mut machine);
        world.process(&machine, 10);
        if down {
            world.down();
        }
        let start = Instant::now();
        drop(app);
        assert!(start.elapsed() < SECOND / 2, "a drop took {:?}", start.elapsed());
        until("the threads end", || machine.threads.load(Ordering::SeqCst) == 0);
        assert_eq!(world.committed(), if down { 0 } else { 10 });
        world.broker.clear_faults();
        world.is_whole_after(machine);
    }
}
