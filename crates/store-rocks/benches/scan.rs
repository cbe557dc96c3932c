//! Walks over a shard, beside RocksDB's own iterator over the same files: what the seam costs.
#![expect(clippy::unwrap_used, reason = "a panic is how a bench reports")]

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use millpond_store_api::{Cursor, Direction, Engine, List, Range, Read, Shard, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_rocks::{RocksEngine, RocksSettings};
use rocksdb::{BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, Options};
use rustix::time::{ClockId, clock_gettime};

const ROWS: u64 = 500_000;
const SPACE: SpaceId = SpaceId(1);
/// What stands in front of the space's keys in the files.
const PREFIX: [u8; 2] = [0, 1];

/// Bytes of a row's key and value.
const SHAPES: [(usize, usize); 2] = [(8, 8), (16, 100)];

/// CPU time of this thread: what other programs on the machine do costs the caches only.
fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

fn open(engine: &RocksEngine, dir: &Path) -> Box<dyn Shard> {
    let spaces = [SpaceSpec { id: SPACE, name: "rows".to_owned(), expires: false }];
    engine.open(&ShardSpec { dir: Some(dir), spaces: &spaces, unlogged: false }).unwrap()
}

/// Writes the rows, then has them compacted, so that both walk over the same few files, whatever happens in the background.
fn fill(engine: &RocksEngine, dir: &Path, (key_len, value_len): (usize, usize)) {
    let mut shard = open(engine, dir);
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
    }
    shard.close().unwrap();
    let (db, _) = raw(dir, false);
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
}

/// The shard's database without the engine, with the same room for blocks.
fn raw(dir: &Path, read_only: bool) -> (DB, Cache) {
    let (mut options, mut tables) = (Options::default(), BlockBasedOptions::default());
    let cache = Cache::new_hyper_clock_cache(256 << 20, 0);
    tables.set_block_cache(&cache);
    options.set_block_based_table_factory(&tables);
    options.set_compression_type(DBCompressionType::Lz4);
    let families = ["default", "windowed"].map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
    let path = dir.join("db");
    let db = if read_only {
        DB::open_cf_descriptors_read_only(&options, path, families, false)
    } else {
        DB::open_cf_descriptors(&options, path, families)
    };
    (db.unwrap(), cache)
}

/// Walks the raw iterator through; answers how many bytes it met.
fn walk_raw(db: &DB, direction: Direction) -> usize {
    let mut rows = db.raw_iterator();
    match direction {
        Direction::Forward => rows.seek(PREFIX),
        Direction::Reverse => rows.seek_to_last(),
    }
    let (mut count, mut bytes) = (0, 0);
    while let Some((key, value)) = rows.item() {
        if !key.starts_with(&PREFIX) {
            break;
        }
        count += 1;
        bytes += key.len() - PREFIX.len() + value.len();
        match direction {
            Direction::Forward => rows.next(),
            Direction::Reverse => rows.prev(),
        }
    }
    assert_eq!(count, ROWS);
    bytes
}

/// Walks ours through; answers how many bytes it met.
fn walk(read: &dyn Read, direction: Direction) -> usize {
    let mut rows: Box<dyn Cursor + '_> = read.scan(SPACE, Range::ALL, direction).unwrap();
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = rows.next().unwrap() {
        count += 1;
        bytes += row.key.len() + row.value.len();
    }
    assert_eq!(count, ROWS);
    bytes
}

fn scan(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan/rocks");
    group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(ROWS));
    group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(3));
    for shape in SHAPES {
        let temp = tempfile::tempdir().unwrap();
        let settings = RocksSettings { memory_bytes: Some(512 << 20), shards: 1, ..RocksSettings::default() };
        let engine = RocksEngine::new(settings).unwrap();
        fill(&engine, temp.path(), shape);
        let shard = open(&engine, temp.path());
        let (db, _cache) = raw(temp.path(), true);
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
                        let expected = black_box(walk_raw(&db, direction));
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
    println!("M rows/CPU-s: rocks/{name}: {ours:.2}, raw iterator {raw:.2}, ratio {:.2}\n", ours / raw);
}

criterion_group!(benches, scan);
criterion_main!(benches);
