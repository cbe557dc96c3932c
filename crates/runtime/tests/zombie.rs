//! A process that was frozen past its session and wakes up with its worker first: what it does changes nothing that its
//! successor can see.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Broker, NewTopic, Outgoing, ProducerOptions};
use millpond_broker_mem::{EmbeddedBroker, ManualClock, OpKind, Verdict};
use millpond_runtime::{Guarantee, Instance, InstanceSpec, Ports, Settings, TaskId};
use millpond_store_api::Space as _;
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_topology::{
    self as topology, Consumed, Context, I64, KeyValue, Processor, Produced, Record, Schedule, StoreRef, StoreSpec,
    Topology, Utf8,
};

/// Counts per key; a wall-clock punctuation writes although nothing comes in.
struct Counter {
    store: StoreRef<KeyValue<String, i64>>,
}

impl Processor for Counter {
    type In = Record<String, String>;
    type Out = Record<String, String>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> topology::Result {
        cx.store(&self.store)?.update(&record.key, |n| Some(n.unwrap_or(0) + 1))?;
        Ok(())
    }
}

fn topology() -> Topology {
    let mut builder = Topology::builder();
    let store = builder.add_store(StoreSpec::key_value("counts", Utf8, I64));
    builder
        .stream("in", Consumed::with(Utf8, Utf8))
        .process(&store, |init, store| {
            let every = Schedule::wall_clock_ms(1_000);
            init.schedule(every, |counter: &mut Counter, cx: &mut Context<'_, Counter>, _| {
                cx.store(&counter.store)?.update(&"ticks".to_owned(), |n| Some(n.unwrap_or(0) + 1))?;
                Ok(())
            })?;
            Ok(Counter { store })
        })
        .to("out", Produced::with(Utf8, Utf8));
    builder.build().unwrap()
}

struct World {
    clock: ManualClock,
    broker: EmbeddedBroker,
    guarantee: Guarantee,
}

impl World {
    fn start(&self, dir: &std::path::Path, disk: &SimulatedDisk) -> Instance {
        let settings = Settings {
            guarantee: self.guarantee,
            commit_interval: Some(Duration::from_millis(100)),
            session_timeout: Duration::from_secs(6),
            heartbeat_interval: Some(Duration::from_millis(100)),
            state_dir: Some(dir.to_owned()),
            ..Settings::new("app")
        };
        Instance::new(InstanceSpec {
            settings,
            topology: topology(),
            broker: Arc::new(self.broker.clone()),
            engines: vec![Arc::new(MemEngine::with_simulated_disk(disk))],
            ports: Ports { clock: Arc::new(self.clock.clone()), ..Ports::default() },
        })
        .unwrap()
    }

    fn step(&self, instance: &mut Instance, seconds: u64) {
        for _ in 0..seconds * 100 {
            instance.step_member().unwrap();
            instance.step_worker(0).unwrap();
            self.clock.advance(Duration::from_millis(10));
        }
    }

    fn send(&self, records: usize) {
        let mut producer = self.broker.producer(&ProducerOptions::default()).unwrap();
        let topic = producer.topic("in");
        let timestamp = millpond_runtime::Clock::wall_ms(&self.clock);
        for _ in 0..records {
            let (key, value) = (Some(&b"k"[..]), Some(&b"v"[..]));
            let record = Outgoing { topic, partition: 0, timestamp, key, value, headers: &[], tag: 0 };
            assert_eq!(producer.send(&record).unwrap(), millpond_broker_api::Sent::Queued);
        }
        assert_eq!(producer.flush(Duration::ZERO).unwrap().outstanding, 0);
    }
}

#[test]
fn b116_a_frozen_process_that_only_punctuates_commits_nothing() {
    for guarantee in [Guarantee::ExactlyOnce, Guarantee::AtLeastOnce] {
        let clock = ManualClock::new();
        let world = World { broker: EmbeddedBroker::with_clock(clock.clone()), clock, guarantee };
        let topic = |name| NewTopic { name, partitions: 1, replication: None, configs: &[] };
        for made in world.broker.admin().unwrap().create_topics(&[topic("in"), topic("out")]).unwrap() {
            made.unwrap();
        }
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let disks = [SimulatedDisk::default(), SimulatedDisk::default()];
        let mut a = world.start(dirs[0].path(), &disks[0]);
        world.step(&mut a, 3);
        world.send(10);
        world.step(&mut a, 1);
        // It freezes; another takes over and counts ten more.
        let mut b = world.start(dirs[1].path(), &disks[1]);
        world.step(&mut b, 20);
        assert!(b.is_running() && b.tasks().len() == 1, "{:?}", b.tasks());
        world.send(10);
        world.step(&mut b, 1);
        // It wakes up: its worker makes steps before its member, punctuations are due, and there is nothing to read.
        for _ in 0..3 {
            world.broker.plan(OpKind::Fetch, Verdict::DropRequest);
            a.step_worker(0).unwrap();
            world.clock.advance(Duration::from_millis(150));
        }
        // The successor leaves, and it takes over again.
        world.step(&mut a, 1);
        b.request_stop();
        world.step(&mut b, 1);
        drop(b);
        world.step(&mut a, 20);
        world.send(1);
        world.step(&mut a, 1);
        let task = TaskId { sub_topology: 0, partition: 0 };
        let count = a.with_store(task, "counts", |access| {
            let mut space = access.space();
            space.get(b"k").unwrap().map(|v| i64::from_be_bytes(v.try_into().unwrap()))
        });
        assert_eq!(count, Some(Some(21)), "{guarantee:?}");
    }
}
