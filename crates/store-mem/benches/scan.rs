//! Walks over a shard, beside the standard library's own over the same rows: what the seam costs.
#![expect(clippy::unwrap_used, reason = "a panic is how a bench reports")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use millpond_store_api::{Cursor, Direction, Engine, List, Range, Read, Shard, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_mem::MemEngine;
use rustix::time::{ClockId, clock_gettime};

const ROWS: u64 = 500_000;
const SPACE: SpaceId = SpaceId(1);

/// Bytes of a row's key and value.
const SHAPES: [(usize, usize); 2] = [(8, 8), (16, 100)];

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// CPU time of this thread: what other programs on the machine do costs the caches only.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// The rows, put in random order into both, so that neither has its nodes in a row in memory.
fn fill((key_len, value_len): (usize, usize)) -> (Box<dyn Shard>, Map) {
    let spaces = [SpaceSpec { id: SPACE, name: "rows".to_owned(), expires: false }];
    let mut shard = MemEngine::default().open(&ShardSpec { dir: None, spaces: &spaces, unlogged: false }).unwrap();
    let mut map = Map::new();
    let mut random = fastrand::Rng::with_seed(1);
    let mut numbers: Vec<u64> = (0..ROWS).collect();
    random.shuffle(&mut numbers);
    for numbers in numbers.chunks(10_000) {
        let row = |n: &u64| {
            let mut key = vec![0; key_len - 8];
            key.extend_from_slice(&n.to_be_bytes());
            (key, std::iter::repeat_with(|| random.u8(..)).take(value_len).collect::<Vec<_>>())
        };
        let rows: Vec<_> = numbers.iter().map(row).collect();
        let writes: Vec<_> = rows.iter().map(|(k, v)| Write { space: SPACE, key: k, value: Some(v) }).collect();
        shard.apply(&mut List::new(&writes), b"").unwrap();
        map.extend(rows);
    }
    (shard, map)
}

/// Walks the map through; answers how many bytes it met.
fn walk_raw(map: &Map, direction: Direction) -> usize {
    let add =
        |sum: usize, (key, value): (&Vec<u8>, &Vec<u8>)| sum + black_box(&key[..]).len() + black_box(&value[..]).len();
    match direction {
        Direction::Forward => map.iter().fold(0, add),
        Direction::Reverse => map.iter().rev().fold(0, add),
    }
}

/// Walks ours through; answers how many bytes it met.
fn walk(read: &dyn Read, direction: Direction) -> usize {
    let mut rows: Box<dyn Cursor + '_> = read.scan(SPACE, Range::ALL, direction).unwrap();
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = rows.next().unwrap() {
        count += 1;
        bytes += black_box(row.key).len() + black_box(row.value).len();
    }
    assert_eq!(count, ROWS);
    bytes
}

fn scan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan/mem");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(ROWS));
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for shape in SHAPES {
        let (shard, map) = fill(shape);
        let reader = shard.reader();
        let walks: [(&str, &dyn Read, Direction); 3] = [
            ("forward", &*shard, Direction::Forward),
            ("backward", &*shard, Direction::Reverse),
            ("reader", &*reader, Direction::Forward),
        ];
        for (name, read, direction) in walks {
            let name = format!("{}+{} bytes/{name}", shape.0, shape.1);
            let (mut ours, mut raws, mut walked) = (Duration::ZERO, Duration::ZERO, 0);
            group.bench_function(BenchmarkId::from_parameter(&name), |bencher| {
                bencher.iter_custom(|walks| {
                    let before = ours;
                    for _ in 0..walks {
                        // In turns, so that both meet the same disturbances.
                        let start = now();
                        let expected = black_box(walk_raw(&map, direction));
                        let middle = now();
                        assert_eq!(black_box(walk(read, direction)), expected);
                        (raws, ours, walked) = (raws + (middle - start), ours + (now() - middle), walked + 1);
                    }
                    ours - before
                });
            });
            if walked > 0 {
                report(&name, walked * ROWS, ours, raws);
            }
        }
    }
    group.finish();
}

/// One line: both rates in rows per second of CPU, and their ratio.
fn report(name: &str, rows: u64, ours: Duration, raw: Duration) {
    let rate = |time: Duration| rows as f64 / time.as_secs_f64() / 1e6;
    let (ours, raw) = (rate(ours), rate(raw));
    println!("M rows/CPU-s: mem/{name}: {ours:.2}, raw BTreeMap {raw:.2}, ratio {:.2}\n", ours / raw);
}

criterion_group!(benches, scan);
criterion_main!(benches);
