//! What a rebalance stops, and what it does not: tasks that do not move go on while others join.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond::broker::Broker;
use millpond::broker::membership::{Incoming, Link, Reply, Request, code, protocol::Subscription};
use millpond::prelude::*;
use millpond::runtime::{Counter, Gauge, Metrics, Ports, Scope, TaskId};
use millpond_example_flights::data::{Data, Input};
use millpond_example_flights::load::{Replayed, create_topics, replay};
use millpond_example_flights::options::ReplayOptions;
use millpond_example_flights::ports::Stop;
use millpond_example_flights::topology::{APPLICATION, topology};

use crate::world::{World, wait_for};

/// How long the pending join is.
const PENDING: Duration = Duration::from_secs(4);

/// After so many commits they take what they take: a broker that has just started needs several times as long for each.
const WARM: u64 = 150;

/// When each task has processed something, and how often it was committed.
#[derive(Default)]
struct Heartbeats {
    processed: Mutex<BTreeMap<TaskId, Vec<Instant>>>,
    commits: AtomicU64,
}

impl Metrics for Heartbeats {
    fn add(&self, counter: Counter, scope: Scope, by: u64) {
        match (counter, scope) {
            (Counter::ProcessTotal, Scope::Task(task)) => {
                self.processed.lock().unwrap().entry(task).or_default().push(Instant::now());
            }
            (Counter::CommitTotal, _) => drop(self.commits.fetch_add(by, Ordering::Relaxed)),
            _ => {}
        }
    }

    fn set(&self, _: Gauge, _: Scope, _: u64) {}
}

impl Heartbeats {
    /// The longest time without a processed record, by task, within a time.
    fn gaps(&self, from: Instant, to: Instant) -> BTreeMap<TaskId, Duration> {
        let gap = |times: &Vec<Instant>| {
            let within = times.iter().copied().filter(|at| (from..=to).contains(at));
            let all: Vec<Instant> = std::iter::once(from).chain(within).chain([to]).collect();
            all.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
        };
        self.processed.lock().unwrap().iter().map(|(task, times)| (*task, gap(times))).collect()
    }
}

/// A member that joins and then does as it likes: no library would.
struct Stranger {
    link: Box<dyn Link>,
    member_id: Arc<str>,
    generation: i32,
}

impl Stranger {
    fn ask(&mut self, request: &Request) -> Reply {
        self.link.send(request);
        wait_for("an answer", || match self.link.receive(Duration::from_millis(100)) {
            Some(Incoming::Reply(reply)) => Some(reply),
            Some(Incoming::Disconnected) => panic!("disconnected"),
            None => None,
        })
    }

    fn join_request(&self) -> Request {
        let metadata = Subscription { topics: vec!["flights".into()], ..Subscription::default() };
        Request::Join {
            member_id: self.member_id.clone(),
            instance_id: None,
            session_timeout: Duration::from_secs(30),
            rebalance_timeout: PENDING,
            protocol: "millpond-1".into(),
            metadata: metadata.encode(),
        }
    }

    fn new(world: &World) -> Self {
        let link = world.client().group_link(APPLICATION).unwrap();
        let mut stranger = Self { link, member_id: "".into(), generation: -1 };
        assert_eq!(stranger.ask(&Request::FindCoordinator), Reply::Coordinator { code: code::NONE });
        let Reply::Join { code, member_id, .. } = stranger.ask(&stranger.join_request()) else { panic!("no join") };
        assert_eq!(code, code::MEMBER_ID_REQUIRED);
        stranger.member_id = member_id;
        stranger
    }

    /// Takes part in a generation, and is given nothing: its user data is none of ours.
    fn join(&mut self) {
        let Reply::Join { code, generation, .. } = self.ask(&self.join_request()) else { panic!("no join") };
        assert_eq!(code, code::NONE);
        self.generation = generation;
        let (member_id, generation) = (self.member_id.clone(), self.generation);
        let Reply::Sync { code, .. } =
            self.ask(&Request::Sync { generation, member_id, instance_id: None, assignments: Vec::new() })
        else {
            panic!("no sync")
        };
        assert_eq!(code, code::NONE);
    }

    fn heartbeat(&mut self) -> i16 {
        let (member_id, generation) = (self.member_id.clone(), self.generation);
        match self.ask(&Request::Heartbeat { generation, member_id, instance_id: None }) {
            Reply::Heartbeat { code } => code,
            other => panic!("{other:?}"),
        }
    }
}

/// A replay until it is dropped, by a plain producer: `load` writes in transactions, whose ends would be gaps in the input.
struct Replay {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Replay {
    fn start(world: &World) -> Self {
        let (broker, ports) = (world.client(), millpond_example_flights::ports::Ports::default());
        create_topics(&broker).unwrap();
        let stop = ports.stop.clone();
        let options =
            ReplayOptions { data: Data::Path(world.flights.file.clone()), repeat: 3, rate: Some(world.flights.rate) };
        let thread = std::thread::spawn(move || {
            let input = Input::find(&options.data).unwrap();
            let ended = replay(&broker, &input, &options, &ports, &Replayed::default());
            assert!(ended.is_err(), "the input ended before the test");
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the replay failed, see above");
    }
}

fn instance(world: &World, name: &str, metrics: Arc<Heartbeats>) -> App {
    App::builder(APPLICATION)
        .broker(world.client())
        .engine(Memory::default())
        .guarantee(Guarantee::ExactlyOnce)
        .threads(2)
        .state_dir(world.dir.path().join(name))
        .ports(Ports { metrics, ..Ports::default() })
        .start(topology(Duration::from_secs(600)).unwrap())
        .unwrap()
}

fn await_running(app: &App, tasks: usize) {
    wait_for("the tasks to run", || {
        (app.state() == AppState::Running && app.progress().tasks.len() == tasks).then_some(())
    });
}

fn tasks(app: &App) -> Vec<TaskId> {
    app.progress().tasks.into_iter().map(|task| task.id).collect()
}

pub(crate) fn tasks_that_stay_do_not_wait_for_a_join() {
    let world = World::new();
    let replay = Replay::start(&world);
    let heartbeats = Arc::new(Heartbeats::default());
    let a = instance(&world, "a", Arc::clone(&heartbeats));
    await_running(&a, 10);
    wait_for("a warm broker", || (heartbeats.commits.load(Ordering::Relaxed) >= WARM).then_some(()));

    // A second instance joins: half of the tasks go to it.
    let joined = Instant::now();
    let b = instance(&world, "b", Arc::default());
    wait_for("the second instance to have tasks", || (!b.progress().tasks.is_empty()).then_some(()));
    await_running(&b, 5);
    await_running(&a, 5);
    // Those that had something to do.
    let gaps = heartbeats.gaps(joined, Instant::now());
    let stayed: Vec<TaskId> = tasks(&a).into_iter().filter(|task| gaps.contains_key(task)).collect();
    assert!(stayed.iter().any(|task| task.sub_topology == 0), "{stayed:?}");
    for task in &stayed {
        eprintln!("a second instance joined: task {task} stayed, longest gap {:?}", gaps[task]);
    }

    // A member that does not answer to a rebalance keeps the others' joins waiting until its timeout is over.
    let mut stranger = Stranger::new(&world);
    stranger.join();
    await_running(&a, 5);
    let mut newcomer = Stranger::new(&world);
    newcomer.link.send(&newcomer.join_request());
    wait_for("the rebalance", || (stranger.heartbeat() == code::REBALANCE_IN_PROGRESS).then_some(()));
    let (from, mut to) = (Instant::now(), Instant::now());
    while stranger.heartbeat() == code::REBALANCE_IN_PROGRESS {
        to = Instant::now();
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(to - from > PENDING / 2, "the join was pending for {:?} only", to - from);
    let gaps = heartbeats.gaps(from, to);
    for task in &stayed {
        eprintln!("a join pending for {:?}: task {task}, longest gap {:?}", to - from, gaps[task]);
        // The tasks behind a repartition topic have nothing to do meanwhile: what they read is not committed yet.
        let has_input = [0, 2].contains(&task.sub_topology);
        assert!(!has_input || gaps[task] < PENDING / 2, "task {task} waited {:?} for the join", gaps[task]);
    }
    drop((stranger, newcomer));
    b.shutdown().unwrap();
    a.shutdown().unwrap();
    drop(replay);
}
