//! The hot path: a record through filter, group_by_key, count, the store and its changelog, on the in-process broker.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use millpond_bench::{Cost, EngineKind, Job, JobSettings, Sizing};
use millpond_runtime::Guarantee;
use millpond_topology::{Consumed, I64, Materialized, Topology, U64};

const MANY: u64 = 1_000_000;
const FEW: u64 = 10_000;

/// A part of a record's cost, and how it is called.
type Part = (&'static str, fn(&Cost) -> Duration);

const PARTS: [Part; 2] = [("record", |cost| cost.record), ("commit", |cost| cost.commit)];

fn topology(sizing: Sizing) -> Topology {
    let mut builder = Topology::builder();
    let counts = Materialized::named("counts").key(U64);
    // Compacted and deleted, so that the bench may delete what it has read.
    let counts = counts.logging([("cleanup.policy", "compact,delete"), ("retention.ms", "-1")]);
    let counts = if sizing == Sizing::Uncached { counts.caching_disabled() } else { counts };
    let stream = builder.stream("in", Consumed::with(U64, I64));
    let _ = stream.filter(|_, value: &i64| *value >= 0).group_by_key().count(counts);
    builder.build().expect("the topology is right")
}

fn job(settings: JobSettings) -> Job {
    let mut job = Job::start(topology(settings.sizing), settings, &[], &["bench-counts-changelog"]);
    job.warm_up();
    job
}

/// All that is compared: each engine with each size of overlay and each guarantee; fewer keys and no caching where the
/// engine does not matter.
fn cases() -> Vec<JobSettings> {
    use EngineKind::{Mem, Null, Rocks};
    use Guarantee::{AtLeastOnce, ExactlyOnce};
    let mut cases = Vec::new();
    for engine in [Null, Mem, Rocks] {
        for sizing in [Sizing::Large, Sizing::Tiny] {
            for guarantee in [AtLeastOnce, ExactlyOnce] {
                cases.push(JobSettings { engine, sizing, guarantee, keys: MANY });
            }
        }
    }
    for (engine, sizing, keys) in [
        (Null, Sizing::Uncached, MANY),
        (Null, Sizing::Large, FEW),
        (Null, Sizing::Uncached, FEW),
        (Mem, Sizing::Large, FEW),
    ] {
        cases.push(JobSettings { engine, sizing, guarantee: AtLeastOnce, keys });
    }
    cases
}

fn name(case: &JobSettings) -> String {
    let guarantee = match case.guarantee {
        Guarantee::AtLeastOnce => "at-least-once",
        Guarantee::ExactlyOnce => "exactly-once",
    };
    format!("{}/{}/{}-keys/{guarantee}", case.engine.name(), case.sizing.name(), case.keys)
}

fn hot_path(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hot_path");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(1));
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1_500));
    for case in cases() {
        // Started by the first part that is measured, shared by both, gone before the next case begins.
        let mut running = None;
        let mut total = Cost::default();
        for (part, of) in PARTS {
            group.bench_function(BenchmarkId::new(part, name(&case)), |bencher| {
                let job = running.get_or_insert_with(|| job(case));
                bencher.iter_custom(|records| {
                    let cost = job.run(records);
                    total += cost;
                    of(&cost).mul_f64(records as f64 / cost.records as f64)
                });
            });
        }
        if running.is_some() {
            report(&name(&case), &total);
        }
    }
    group.finish();
}

/// One line with all parts, in nanoseconds of CPU per record.
fn report(name: &str, cost: &Cost) {
    let [record, commit, background] = [cost.record, cost.commit, cost.background].map(|time| cost.per_record(time));
    println!(
        "CPU ns per record: {name}: record {record:.0} + commit {commit:.0} = {:.0}, other threads {background:.0} \
         ({} records)\n",
        record + commit,
        cost.records,
    );
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
