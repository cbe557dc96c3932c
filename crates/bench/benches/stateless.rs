//! What a stateless operator costs: chains of one and of ten, through the graph alone and through a running task.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use millpond_bench::{EngineKind, Job, JobSettings, NullPort, Sizing, thread_time};
use millpond_runtime::Guarantee;
use millpond_topology::{Consumed, Headers, I64, Produced, Raw, SourceIndex, Topology, U64};

const CHAINS: [u32; 2] = [1, 10];

/// `hops` operators between a source and a sink.
fn chain(hops: u32) -> Topology {
    let mut builder = Topology::builder();
    let mut stream = builder.stream("in", Consumed::with(U64, I64));
    for hop in 0..hops {
        stream = stream.map_values(move |value: i64| value ^ i64::from(hop));
    }
    stream.to("out", Produced::with(U64, I64));
    builder.build().expect("the topology is right")
}

/// The graph alone: decode, operators, encode, and a port that drops everything.
fn through_graph(hops: u32, records: u64) -> Duration {
    let topology = chain(hops);
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

fn running(hops: u32) -> Job {
    let settings = JobSettings {
        engine: EngineKind::Null,
        sizing: Sizing::Large,
        guarantee: Guarantee::AtLeastOnce,
        keys: 10_000,
    };
    let mut job = Job::start(chain(hops), settings, &["out"], &["out"]);
    job.warm_up();
    job
}

fn stateless(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("stateless");
    group.sample_size(20).sampling_mode(SamplingMode::Flat);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    // The least of all samples of a chain: what disturbs a measurement only ever adds to it.
    let mut least = [[f64::MAX; 2]; 2];
    let [in_graph, in_task] = &mut least;
    for (hops, least) in CHAINS.into_iter().zip(in_graph) {
        group.bench_function(BenchmarkId::new("graph", hops), |bencher| {
            bencher.iter_custom(|records| {
                let took = through_graph(hops, records);
                *least = least.min(per_record(took, records));
                took
            });
        });
    }
    for (hops, least) in CHAINS.into_iter().zip(in_task) {
        let mut job = None;
        group.bench_function(BenchmarkId::new("task", hops), |bencher| {
            let job = job.get_or_insert_with(|| running(hops));
            bencher.iter_custom(|records| {
                let cost = job.run(records);
                *least = least.min(cost.per_record(cost.record));
                cost.record.mul_f64(records as f64 / cost.records as f64)
            });
        });
    }
    group.finish();
    for (name, [one, ten]) in ["graph", "task"].into_iter().zip(least) {
        if one < f64::MAX && ten < f64::MAX {
            println!(
                "CPU ns per record, {name}: {one:.1} with 1 hop, {ten:.1} with 10, so {:.1} per hop",
                (ten - one) / 9.0
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
