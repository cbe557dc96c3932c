//! Counts what a running job allocates from the poll to the producer: nothing per record, for keys seen before, keys and
//! values of up to 22 bytes.
//!
//! What remains is counted by step, which processes 256 records: the in-process broker makes a segment (three blocks) of
//! what was sent to each partition, and a worker lists the partitions that it pauses and resumes.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Broker, NewTopic, Outgoing, Producer, ProducerOptions, Sent};
use millpond_broker_mem::{EmbeddedBroker, ManualClock};
use millpond_runtime::{Counter, Guarantee, Instance, InstanceSpec, MetricsRegistry, Ports, Settings};
use millpond_store_mem::MemEngine;
use millpond_topology::{Consumed, Materialized, Produced, Result, Serde, SerdeId, Topology};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const KEYS: u32 = 1_000;

/// Bytes of one length, which need no allocation to be decoded; what strings would cost is the user's choice.
#[derive(Clone, Copy)]
struct Fixed;

impl<const N: usize> Serde<[u8; N]> for Fixed {
    fn encode(&self, value: &[u8; N], out: &mut Vec<u8>) -> Result {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<[u8; N]> {
        Ok(bytes.try_into()?)
    }

    fn identity(&self) -> SerdeId {
        SerdeId::of::<Self>()
    }
}

/// Keys of 22 bytes; rows of 22 bytes too, 8 of them the time. With an output, each update goes to a topic besides.
fn topology(caching: bool, output: bool) -> Topology {
    let mut builder = Topology::builder();
    let rows = Materialized::<[u8; 22], [u8; 14]>::named("rows").serdes(Fixed, Fixed);
    let rows = if caching { rows } else { rows.caching_disabled() };
    let table = builder
        .stream("in", Consumed::<[u8; 22], [u8; 14]>::with(Fixed, Fixed))
        .filter(|_, value| value[0] == b'v')
        .map_values(|value| value)
        .group_by_key()
        .aggregate(|| [0; 14], |_, _, value: &[u8; 14]| *value, rows);
    if output {
        table.to_stream().to("out", Produced::with(Fixed, Fixed));
    } else {
        drop(table);
    }
    builder.build().unwrap()
}

struct Job {
    producer: Box<dyn Producer>,
    instance: Instance,
    metrics: Arc<MetricsRegistry>,
    sent: u32,
}

impl Job {
    fn start(topology: Topology, guarantee: Guarantee) -> Self {
        let clock = ManualClock::new();
        let broker = EmbeddedBroker::with_clock(clock.clone());
        let configs = [("retention.ms", "-1")];
        let topic = |name| NewTopic { name, partitions: 1, replication: None, configs: &configs };
        for made in broker.admin().unwrap().create_topics(&[topic("in"), topic("out")]).unwrap() {
            made.unwrap();
        }
        let producer = broker.producer(&ProducerOptions::default()).unwrap();
        let metrics = Arc::new(MetricsRegistry::default());
        let spec = InstanceSpec {
            settings: Settings {
                guarantee,
                // Commits come when they are asked for.
                commit_interval: Some(Duration::from_secs(5)),
                memory_budget: Some(64 << 20),
                ..Settings::new("app")
            },
            topology,
            broker: Arc::new(broker),
            engines: vec![Arc::new(MemEngine::default())],
            ports: Ports { clock: Arc::new(clock.clone()), metrics: metrics.clone(), ..Ports::default() },
        };
        let mut job = Self { producer, instance: Instance::new(spec).unwrap(), metrics, sent: 0 };
        for _ in 0..1_000 {
            job.instance.step_member().unwrap();
            job.instance.step_worker(0).unwrap();
            clock.advance(Duration::from_millis(10));
        }
        assert!(job.instance.is_running() && !job.instance.tasks().is_empty());
        job
    }

    fn send(&mut self, records: u32) {
        let topic = self.producer.topic("in");
        for _ in 0..records {
            let (mut key, value) = ([b'k'; 22], [b'v'; 14]);
            key[..4].copy_from_slice(&(self.sent.wrapping_mul(7_919) % KEYS).to_be_bytes());
            let (timestamp, key, value) = (i64::from(self.sent), Some(&key[..]), Some(&value[..]));
            let record = Outgoing { topic, partition: 0, timestamp, key, value, headers: &[], tag: 0 };
            assert_eq!(self.producer.send(&record).unwrap(), Sent::Queued);
            self.sent += 1;
        }
        let flushed = self.producer.flush(Duration::ZERO).unwrap();
        assert_eq!(flushed.outstanding, 0);
    }

    /// Processes all that was sent; answers in how many steps, and how many blocks that allocated.
    fn process(&mut self) -> (u64, u64) {
        let before = dhat::HeapStats::get().total_blocks;
        let mut steps = 1;
        while self.instance.step_worker(0).unwrap() {
            steps += 1;
        }
        let blocks = dhat::HeapStats::get().total_blocks - before;
        assert_eq!(self.metrics.total(Counter::ProcessTotal), u64::from(self.sent));
        (steps, blocks)
    }

    /// Commits; answers how many blocks that allocated.
    fn commit(&mut self) -> u64 {
        let before = dhat::HeapStats::get().total_blocks;
        self.instance.request_commit();
        while self.instance.step_worker(0).unwrap() {}
        assert!(!self.instance.has_uncommitted());
        dhat::HeapStats::get().total_blocks - before
    }

    /// A commit interval.
    fn interval(&mut self, records: u32) -> Interval {
        self.send(records);
        let (steps, processing) = self.process();
        Interval { steps, processing, commit: self.commit() }
    }
}

/// Steps of a commit interval, and the blocks that were allocated in it.
#[derive(Clone, Copy, Debug)]
struct Interval {
    steps: u64,
    processing: u64,
    commit: u64,
}

#[test]
fn nothing_is_allocated_per_record() {
    const N: u32 = 20_000;
    // Two partitions are written to at most.
    const PER_STEP: u64 = 8;
    const PER_COMMIT: u64 = 64;
    let _profiler = dhat::Profiler::builder().testing().build();
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        for (caching, output) in [(true, false), (true, true), (false, false), (false, true)] {
            let mut job = Job::start(topology(caching, output), guarantee);
            // Keys are seen for the first time, lists and buffers find their size.
            job.interval(2 * N);
            job.interval(2 * N);
            let (once, twice) = (job.interval(N), job.interval(2 * N));
            let case = format!("{guarantee:?}, caching {caching}, output {output}: {once:?}, {twice:?}");
            let more = twice.processing - once.processing;
            assert!(twice.steps < u64::from(2 * N) / 200, "a step takes many records: {case}");
            assert!(more <= PER_STEP * (twice.steps - once.steps), "more records need no more blocks: {case}");
            assert!(once.commit.max(twice.commit) <= PER_COMMIT, "nor does their commit: {case}");
            println!("{case}");
        }
    }
}
