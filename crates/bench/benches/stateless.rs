//! What stateless operators cost: chains of none, of one and of ten alike, and of ten different ones, through the graph alone and
//! through a running task. A record through ten is to take at most 150 ns of CPU more than through none.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use millpond_bench::{EngineKind, Job, JobSettings, NullPort, Sizing, thread_time};
use millpond_runtime::Guarantee;
use millpond_topology::{Consumed, Headers, I64, Produced, Raw, SourceIndex, Stream, Topology, U64};

/// What stands between a source and a sink.
#[derive(Clone, Copy)]
enum Chain {
    /// So many operators that change values.
    Alike(u32),
    /// Ten operators, each another one.
    Mixed,
}

impl Chain {
    const ALL: [Self; 4] = [Self::Alike(0), Self::Alike(1), Self::Alike(10), Self::Mixed];

    fn name(self) -> String {
        match self {
            Self::Alike(hops) => hops.to_string(),
            Self::Mixed => "10 mixed".to_owned(),
        }
    }

    fn topology(self) -> Topology {
        let mut builder = Topology::builder();
        let stream = builder.stream("in", Consumed::with(U64, I64));
        let stream = match self {
            Self::Alike(hops) => (0..hops).fold(stream, |stream, hop| stream.map_values(move |v| v ^ i64::from(hop))),
            Self::Mixed => mixed(stream),
        };
        stream.to("out", Produced::with(U64, I64));
        builder.build().expect("the topology is right")
    }
}

/// Every record goes through ten operators: eight in a row, a branch and a merge.
fn mixed(stream: Stream<u64, i64>) -> Stream<u64, i64> {
    let stream = stream
        .filter(|_, value| black_box(*value) >= 0)
        .filter_not(|_, value| black_box(*value) < 0)
        .map_values(|value| value ^ 1)
        .map_values_with_key(|key, value| value ^ (*key & 1) as i64)
        .peek(|_, value| _ = black_box(*value))
        .flat_map_values(|value| [value])
        .map(|key, value| (key, value ^ 2))
        .select_key(|key, _| *key);
    let mut split = stream.split();
    let even = split.branch(|_, value| value % 2 == 0);
    split.rest().merge(even)
}

/// The graph alone: decode, operators, encode, and a port that drops everything.
fn through_graph(chain: Chain, records: u64) -> Duration {
    let topology = chain.topology();
    let mut port = NullPort::default();
    let mut graph = topology.task(0, &mut port).expect("the graph can be built");
    let (key, headers) = (7_u64.to_be_bytes(), Headers::new());
    let started = thread_time();
    for n in 0..records {
        let value = n.to_be_bytes();
        let raw = Raw { key: Some(&key), value: Some(&value), timestamp: n as i64, headers: &headers };
        graph.receive(&mut port, SourceIndex(0), black_box(&raw)).expect("nothing can fail here");
    }
    let took = thread_time() - started;
    assert_eq!((port.sent, port.bytes as u64), (records, 16 * records));
    took
}

fn running(chain: Chain) -> Job {
    let settings = JobSettings {
        engine: EngineKind::Null,
        sizing: Sizing::Large,
        guarantee: Guarantee::AtLeastOnce,
        keys: 10_000,
    };
    let mut job = Job::start(chain.topology(), settings, &["out"], &["out"]);
    job.warm_up();
    job
}

fn stateless(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stateless");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    // The least of all samples of a chain: what disturbs a measurement only ever adds to it.
    let mut least = [[f64::MAX; Chain::ALL.len()]; 2];
    let [in_graph, in_task] = &mut least;
    for (chain, least) in Chain::ALL.into_iter().zip(in_graph) {
        group.bench_function(BenchmarkId::new("graph", chain.name()), |bencher| {
            bencher.iter_custom(|records| {
                let took = through_graph(chain, records);
                *least = least.min(per_record(took, records));
                took
            });
        });
    }
    for (chain, least) in Chain::ALL.into_iter().zip(in_task) {
        let mut job = None;
        group.bench_function(BenchmarkId::new("task", chain.name()), |bencher| {
            let job = job.get_or_insert_with(|| running(chain));
            bencher.iter_custom(|records| {
                let cost = job.run(records);
                *least = least.min(cost.per_record(cost.record));
                cost.record.mul_f64(records as f64 / cost.records as f64)
            });
        });
    }
    group.finish();
    for (name, least) in ["graph", "task"].into_iter().zip(least) {
        let [none, one, ten, mixed] = least;
        if least.iter().all(|cost| *cost < f64::MAX) {
            println!(
                "CPU ns per record, {name}: {none:.1} through none, {:.1} more through one, {:.1} more through ten alike, {:.1} \
                 more through ten different ones",
                one - none,
                ten - none,
                mixed - none
            );
        }
    }
}

/// Few records tell more of the clock than of the graph.
fn per_record(took: Duration, records: u64) -> f64 {
    if records < 1_000 { f64::MAX } else { took.as_nanos() as f64 / records as f64 }
}

criterion_group!(benches, stateless);
criterion_main!(benches);
