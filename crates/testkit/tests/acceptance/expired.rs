//! Rows that have expired are gone from the disk with the first commit after the one by which they have is durable, and stay
//! gone.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_runtime::Guarantee;
use millpond_store_api::schema::{Buckets, ExpiringKey};
use millpond_store_api::{
    self as store, Capabilities, Cursor, Direction, Engine, EngineMemory, Flush, Range, Read, Shard, ShardReader,
    ShardSpec, SpaceId, Writes,
};
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_testkit::Driver;
use millpond_topology::{
    Consumed, I64, Produced, Session, StoreSpec, TtlKeyValue, Utf8, ValueAndTimestamp, Versioned, Windowed,
};

use crate::support::{BOTH, builder, closure, pipe};

/// The space that stores whose rows expire share.
const WINDOWED: SpaceId = SpaceId(u16::MAX);
const MINUTE: i64 = 60_000;

/// What has become of the shards of an engine.
#[derive(Default)]
struct Watched {
    /// Of the shard that was opened last.
    reader: Option<Arc<dyn ShardReader>>,
    /// Reads of the space that expires.
    reads: usize,
    drops: usize,
}

#[derive(Clone)]
struct Watching {
    inner: SimulatedDisk,
    watched: Arc<Mutex<Watched>>,
}

struct WatchedShard {
    inner: Box<dyn Shard>,
    watched: Arc<Mutex<Watched>>,
}

impl Watching {
    fn new() -> Self {
        Self { inner: SimulatedDisk::default(), watched: Arc::default() }
    }

    /// Keys that lie in a space of the shard.
    fn keys(&self, space: SpaceId) -> Vec<Vec<u8>> {
        let reader = self.watched.lock().unwrap().reader.clone().unwrap();
        let mut rows = reader.scan(space, Range::ALL, Direction::Forward).unwrap();
        let mut keys = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            keys.push(row.key.to_vec());
        }
        keys
    }

    /// Rows of the windowed space; none may have expired by a time.
    #[track_caller]
    fn alive(&self, now: i64) -> usize {
        let keys = self.keys(WINDOWED);
        let first = keys.first().map(|key| ExpiringKey::bucket_of(key).unwrap().to_be_bytes());
        assert!(first.is_none_or(|first| first >= Buckets::dead_below(now)), "{first:?} is left at {now}");
        keys.len()
    }

    fn reads(&self) -> usize {
        self.watched.lock().unwrap().reads
    }

    fn drops(&self) -> usize {
        self.watched.lock().unwrap().drops
    }
}

#[deny(clippy::missing_trait_methods)]
impl Engine for Watching {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn persistent(&self) -> bool {
        true
    }

    fn open(&self, spec: &ShardSpec<'_>) -> store::Result<Box<dyn Shard>> {
        let inner = MemEngine::with_simulated_disk(&self.inner).open(spec)?;
        self.watched.lock().unwrap().reader = Some(inner.reader());
        Ok(Box::new(WatchedShard { inner, watched: self.watched.clone() }))
    }

    fn set_memory(&self, _: u64) {}

    fn memory(&self) -> EngineMemory {
        EngineMemory::default()
    }
}

impl WatchedShard {
    fn read(&self, space: SpaceId) {
        self.watched.lock().unwrap().reads += usize::from(space == WINDOWED);
    }
}

impl Read for WatchedShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> store::Result<bool> {
        self.read(space);
        self.inner.get(space, key, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> store::Result<Box<dyn Cursor + '_>> {
        self.read(space);
        self.inner.scan(space, range, direction)
    }
}

impl Shard for WatchedShard {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> store::Result<()> {
        self.inner.apply(writes, metadata)
    }

    fn committed(&self) -> Option<&[u8]> {
        self.inner.committed()
    }

    fn durable(&mut self) -> store::Result<Option<&[u8]>> {
        self.inner.durable()
    }

    fn flush(&mut self, how: Flush) -> store::Result<()> {
        self.inner.flush(how)
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> store::Result<()> {
        self.watched.lock().unwrap().drops += 1;
        self.inner.drop_below(space, key)
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        self.inner.reader()
    }

    fn close(self: Box<Self>) -> store::Result<()> {
        self.inner.close()
    }

    fn destroy(self: Box<Self>) -> store::Result<()> {
        self.inner.destroy()
    }
}

fn minutes(minutes: i64) -> Duration {
    Duration::from_millis((minutes * MINUTE).unsigned_abs())
}

const WAYS: [fn(&Driver) -> millpond_runtime::Result; 3] =
    [Driver::restart, Driver::crash, Driver::restart_without_state];

#[test]
fn an_expired_bucket_is_dropped_when_that_is_durable_without_being_read() {
    for (guarantee, caching) in BOTH.into_iter().flat_map(|g| [(g, 0), (g, 1 << 20)]) {
        let engine = Watching::new();
        let driver = builder(|b| {
            let window = StoreSpec::window("w", minutes(16), minutes(1), Utf8, I64).caching_enabled();
            let idle = StoreSpec::<Session<String, i64>>::session("idle", minutes(8), Utf8, I64);
            let (window, idle) = (b.add_store(window), b.add_store(idle));
            let body = closure(|(window, idle): &(_, _), cx, record| {
                let millpond_topology::Record { key, value, timestamp, .. } = record;
                if value == 0 {
                    // The only record of this store, whose time goes on with its task's.
                    let session = Windowed { key: key.clone(), start: timestamp, end: timestamp };
                    cx.store::<Session<String, i64>>(idle)?.put(&session, &0)?;
                }
                cx.store::<millpond_topology::Window<String, i64>>(window)?.put(&key, timestamp, &value).map(drop)
            });
            b.stream("in", Consumed::with(Utf8, I64))
                .process((&window, &idle), body)
                .to("out", Produced::with(Utf8, I64));
        });
        let driver = driver.guarantee(guarantee).caching(caching).engine(engine.clone());
        // What a commit has applied is durable by the next one.
        let driver = driver.setting("state.flush.interval.ms", "0").manual_commit().build().unwrap();
        // Stores that begin are cleared, which takes a look.
        let opened = engine.reads();
        for minute in 0..100 {
            pipe(&driver, &[("a", minute, minute * MINUTE), ("b", minute, minute * MINUTE + 1)]);
            driver.commit().unwrap();
            let most = 2 * 19 + 2 + usize::from(minute < 11);
            assert!(engine.alive((minute - 1) * MINUTE + 1) <= most, "{guarantee:?} {caching} {minute}");
        }
        assert_eq!((engine.reads(), engine.drops()), (opened, 100), "once a minute");
        for way in WAYS {
            way(&driver).unwrap();
            // What a restore brings back goes as well.
            for _ in 0..2 {
                pipe(&driver, &[("a", 1, 99 * MINUTE + 2)]);
                driver.commit().unwrap();
            }
            engine.alive(99 * MINUTE + 2);
        }
    }
}

#[test]
fn b105_deleted_rows_and_their_index_are_gone_from_the_disk() {
    for (guarantee, caching) in BOTH.into_iter().flat_map(|g| [(g, 0), (g, 1 << 20)]) {
        let engine = Watching::new();
        let driver = builder(|b| {
            let rows = StoreSpec::<TtlKeyValue<String, i64>>::ttl_key_value("t", minutes(16), Utf8, I64);
            let versions = StoreSpec::<Versioned<String, i64>>::versioned("v", minutes(2), Utf8, I64);
            let (rows, versions) = (b.add_store(rows.caching_enabled()), b.add_store(versions));
            let body = closure(|(rows, versions): &(_, _), cx, record| {
                let millpond_topology::Record { key, value, timestamp, .. } = record;
                cx.store::<Versioned<String, i64>>(versions)?.put(&"one".to_owned(), Some(&value), timestamp)?;
                if value == 0 {
                    return Ok(());
                }
                cx.store::<TtlKeyValue<String, i64>>(rows)?.put(&key, &ValueAndTimestamp { value, timestamp })
            });
            b.stream("in", Consumed::with(Utf8, I64))
                .process((&rows, &versions), body)
                .to("out", Produced::with(Utf8, I64));
        });
        let driver = driver.guarantee(guarantee).caching(caching).engine(engine.clone()).manual_commit();
        let driver = driver.setting("state.flush.interval.ms", "0").build().unwrap();
        for n in 1..=1500 {
            pipe(&driver, &[(&format!("k{n}"), n, n)]);
        }
        driver.commit().unwrap();
        // Numbers follow the order of the stores in the topology.
        let rows = || engine.keys(SpaceId(0)).len();
        assert_eq!((rows(), engine.keys(SpaceId(1)).len()), (1500, 1));
        // The bucket has passed: a tombstone each, in two goes.
        pipe(&driver, &[("time", 0, 20 * MINUTE)]);
        driver.run().unwrap();
        assert_eq!(rows(), 1500, "before the commit");
        driver.commit().unwrap();
        assert_eq!(rows(), 0);
        pipe(&driver, &[("time", 0, 20 * MINUTE)]);
        driver.commit().unwrap();
        assert_eq!(engine.alive(20 * MINUTE), 1, "the version before the last one");
        let tombstones = || driver.records("test-t-changelog").iter().filter(|r| r.value.is_none()).count();
        assert_eq!(tombstones(), 1500);
        for way in WAYS {
            way(&driver).unwrap();
            for _ in 0..2 {
                pipe(&driver, &[("time", 0, 20 * MINUTE + 1)]);
                driver.run().unwrap();
                driver.commit().unwrap();
            }
            assert_eq!((rows(), tombstones()), (0, 1500), "{guarantee:?} {caching}");
            engine.alive(20 * MINUTE + 1);
        }
    }
}

#[test]
fn rows_that_expired_while_a_task_was_away_are_deleted_once_it_is_back() {
    let engine = Watching::new();
    let driver = builder(|b| {
        let rows = StoreSpec::<TtlKeyValue<String, i64>>::ttl_key_value("t", minutes(16), Utf8, I64);
        let rows = b.add_store(rows);
        let body = closure(|rows, cx, record| {
            let millpond_topology::Record { key, value, timestamp, .. } = record;
            if value == 0 {
                return Ok(());
            }
            cx.store::<TtlKeyValue<String, i64>>(rows)?.put(&key, &ValueAndTimestamp { value, timestamp })
        });
        b.stream("in", Consumed::with(Utf8, I64)).process(&rows, body).to("out", Produced::with(Utf8, I64));
    });
    let driver = driver.guarantee(Guarantee::ExactlyOnce).engine(engine.clone()).build().unwrap();
    pipe(&driver, &[("old", 1, 1), ("new", 2, 10 * MINUTE)]);
    // Another owner has taken the task on by an hour, and was killed before it deleted anything.
    driver.stop().unwrap();
    driver.input("t-changelog", Utf8, I64).send("later", 3, 60 * MINUTE).unwrap();
    driver.restart().unwrap();
    driver.run().unwrap();
    driver.commit().unwrap();
    let rows = driver.store("t", Utf8, I64);
    assert_eq!(rows.all(), [("later".to_owned(), 3)]);
    assert_eq!((engine.keys(SpaceId(0)).len(), engine.alive(60 * MINUTE)), (1, 1));
    assert_eq!(rows.changelog(), rows.all());
}
