//! Who is flushed when, and that memory stays within its share.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millpond_store_api::{Engine, List, Shard, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_rocks::{Ports, RocksEngine, RocksSettings, SystemPorts};

const KV: SpaceId = SpaceId(1);

/// A clock that tests drive, and whether the thread has ended.
#[derive(Default)]
struct TestPorts {
    millis: AtomicU64,
    ended: Arc<AtomicBool>,
}

impl Ports for TestPorts {
    fn spawn(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let ended = Arc::clone(&self.ended);
        SystemPorts::new().spawn(
            name,
            Box::new(move || {
                run();
                ended.store(true, Ordering::SeqCst);
            }),
        )
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::SeqCst))
    }
}

fn engine(settings: RocksSettings) -> (RocksEngine, Arc<TestPorts>) {
    let ports = Arc::new(TestPorts::default());
    (RocksEngine::with_ports(settings, Arc::clone(&ports) as Arc<dyn Ports>).unwrap(), ports)
}

fn small() -> RocksSettings {
    RocksSettings { memory_bytes: Some(8 << 20), shards: 4, ..RocksSettings::default() }
}

fn open(engine: &RocksEngine, root: &Path, name: &str) -> Box<dyn Shard> {
    let dir = root.join(name);
    std::fs::create_dir(&dir).unwrap();
    let spaces = [SpaceSpec { id: KV, name: "kv".to_owned(), expires: false }];
    engine.open(&ShardSpec { dir: Some(&dir), spaces: &spaces, unlogged: false }).unwrap()
}

/// Applies about so many bytes, in rows of 1 KiB that do not compress.
fn fill(shard: &mut dyn Shard, random: &mut fastrand::Rng, bytes: usize) {
    let rows: Vec<_> = (0..bytes >> 10).map(|_| (random.u64(..).to_be_bytes(), [random.u8(..); 1000])).collect();
    let writes: Vec<_> = rows.iter().map(|(key, value)| Write { space: KV, key, value: Some(value) }).collect();
    shard.apply(&mut List::new(&writes), b"filled").unwrap();
}

#[track_caller]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let clock = SystemPorts::new();
    while !done() {
        assert!(clock.monotonic() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

fn is_durable(shard: &mut dyn Shard) -> bool {
    let durable = shard.durable().unwrap().map(<[u8]>::to_vec);
    durable.as_deref() == shard.committed()
}

#[test]
fn under_pressure_the_largest_shard_is_flushed() {
    let temp = tempfile::tempdir().unwrap();
    let (engine, _) = engine(small());
    let mut random = fastrand::Rng::with_seed(1);
    let mut shards = ["a", "b", "c", "d"].map(|name| open(&engine, temp.path(), name));
    // Together they pass three quarters of the share (1.3 MiB); none fills its own memtable (1 MiB).
    for (shard, kib) in shards.iter_mut().zip([250, 700, 240, 230]) {
        fill(&mut **shard, &mut random, kib << 10);
    }
    assert_eq!(engine.usage().waits, 0);
    fill(&mut *shards[0], &mut random, 10 << 10);
    wait_until("a flush", || engine.usage().flushes == 1);
    let durable = shards.each_mut().map(|shard| is_durable(&mut **shard));
    assert_eq!(durable, [false, true, false, false]);
}

#[test]
fn a_shard_is_flushed_when_its_interval_has_passed() {
    let temp = tempfile::tempdir().unwrap();
    let (engine, ports) = engine(small());
    let mut random = fastrand::Rng::with_seed(2);
    let mut early = open(&engine, temp.path(), "early");
    let mut late = open(&engine, temp.path(), "late");
    fill(&mut *early, &mut random, 10 << 10);
    ports.millis.store(20_000, Ordering::SeqCst);
    fill(&mut *late, &mut random, 10 << 10);
    assert!(!is_durable(&mut *early), "no interval is jittered below four fifths of 30 s");
    ports.millis.store(30_000, Ordering::SeqCst);
    wait_until("the interval flush", || engine.usage().flushes == 1);
    assert!(is_durable(&mut *early));
    assert!(!is_durable(&mut *late));
}

#[test]
fn a_shard_that_holds_its_flush_bytes_is_flushed() {
    let temp = tempfile::tempdir().unwrap();
    let (engine, _) = engine(RocksSettings { flush_bytes: 200 << 10, ..small() });
    let mut random = fastrand::Rng::with_seed(3);
    let mut some = open(&engine, temp.path(), "some");
    let mut full = open(&engine, temp.path(), "full");
    fill(&mut *some, &mut random, 50 << 10);
    fill(&mut *full, &mut random, 300 << 10);
    wait_until("the flush of a full shard", || is_durable(&mut *full));
    assert!(!is_durable(&mut *some));
}

#[test]
fn a_writer_that_waits_for_memory_is_seen() {
    let temp = tempfile::tempdir().unwrap();
    let engine = RocksEngine::new(small()).unwrap();
    let mut shard = open(&engine, temp.path(), "a");
    let mut random = fastrand::Rng::with_seed(4);
    assert_eq!(engine.memory().stalled, Duration::ZERO);
    // Each batch is more than the share, so the next one waits, unless the flusher was quicker.
    wait_until("a wait", || {
        fill(&mut *shard, &mut random, 2 << 20);
        engine.usage().waits > 0
    });
    let memory = engine.memory();
    assert!(memory.longest_stall > Duration::ZERO && memory.stalled >= memory.longest_stall, "{memory:?}");
    assert_eq!(engine.usage().longest_wait, memory.longest_stall);
}

#[test]
fn the_thread_ends_with_the_last_shard() {
    let temp = tempfile::tempdir().unwrap();
    let (engine, ports) = engine(small());
    let shard = open(&engine, temp.path(), "a");
    drop(engine);
    assert!(!ports.ended.load(Ordering::SeqCst), "a shard still needs it");
    shard.close().unwrap();
    wait_until("the thread's end", || ports.ended.load(Ordering::SeqCst));
}

#[test]
fn a_host_without_threads_is_told() {
    struct NoThreads;
    impl Ports for NoThreads {
        fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<()> {
            Err(io::ErrorKind::WouldBlock.into())
        }

        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
    }
    let error = RocksEngine::with_ports(small(), Arc::new(NoThreads)).unwrap_err();
    assert_eq!(error.kind(), millpond_store_api::ErrorKind::Retry);
}

/// Writes `total` bytes over 64 shards from two threads, and looks at the accounts before every batch.
fn sixty_four_shards(memory: u64, total: usize) -> RocksEngine {
    let temp = tempfile::tempdir().unwrap();
    let settings = RocksSettings { memory_bytes: Some(memory), ..RocksSettings::default() };
    let engine = RocksEngine::new(settings).unwrap();
    let mut shards: Vec<_> = (0..64).map(|i| open(&engine, temp.path(), &i.to_string())).collect();
    let batch = 32 << 10;
    std::thread::scope(|scope| {
        for (writer, shards) in shards.chunks_mut(32).enumerate() {
            let engine = &engine;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(writer as u64);
                for _ in 0..total / 2 / batch {
                    let usage = engine.usage();
                    // Each writer may go once above the share; RocksDB rounds up to its blocks.
                    let most = usage.memtable_share_bytes + usage.memtable_share_bytes / 4;
                    assert!(usage.memtable_bytes <= most, "{} of {most} bytes in memtables", usage.memtable_bytes);
                    let cache = memory / 100 * 70;
                    assert!(
                        usage.cache_bytes <= cache + cache / 10,
                        "{} of {cache} bytes in the cache",
                        usage.cache_bytes
                    );
                    let i = random.usize(..shards.len());
                    fill(&mut *shards[i], &mut random, batch);
                }
            });
        }
    });
    assert_eq!(engine.usage().shards.len(), 64);
    for shard in shards {
        shard.close().unwrap();
    }
    assert_eq!(engine.usage().shards, []);
    engine
}

#[test]
fn sixty_four_shards_stay_within_300_mib() {
    let engine = sixty_four_shards(300 << 20, 100 << 20);
    assert!(engine.usage().flushes > 0, "{:?}", engine.usage());
}

#[test]
fn sixty_four_shards_stay_within_40_mib() {
    let engine = sixty_four_shards(40 << 20, 60 << 20);
    assert!(engine.usage().flushes > 20, "{:?}", engine.usage());
}

#[test]
fn the_library_decides_unless_the_user_has() {
    let (told, _) = engine(RocksSettings { memory_bytes: None, ..small() });
    let (own, _) = engine(small());
    for engine in [&told, &own] {
        engine.set_memory(100 << 20);
    }
    let share = |engine: &RocksEngine| engine.usage().memtable_share_bytes;
    assert_eq!((share(&told), share(&own)), ((100 << 20) / 100 * 21, (8 << 20) / 100 * 21));
}

#[test]
fn a_budget_that_shrinks_is_kept_to_while_shards_are_open() {
    let temp = tempfile::tempdir().unwrap();
    let (engine, _) = engine(RocksSettings { memory_bytes: None, ..small() });
    engine.set_memory(64 << 20);
    let mut random = fastrand::Rng::with_seed(9);
    let mut shards: Vec<_> = (0..4).map(|i| open(&engine, temp.path(), &i.to_string())).collect();
    shards.iter_mut().for_each(|shard| fill(&mut **shard, &mut random, 2 << 20));
    let before = engine.memory();
    assert!(before.write_buffers > 8 << 20, "they fit into what there was: {before:?}");
    engine.set_memory(8 << 20);
    // No write is needed for it.
    wait_until("the memtables are flushed", || engine.memory().write_buffers <= engine.usage().memtable_share_bytes);
    assert!(engine.usage().flushes > 0);
    let most = 8 << 20;
    assert!(engine.memory().total() <= most, "{:?}", engine.memory());
    for shard in shards {
        shard.close().unwrap();
    }
}
