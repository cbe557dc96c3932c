//! What each store kind costs on each engine, straight on a shard and through the overlay, call by call.

use std::hint::black_box;
use std::ops::Bound::{Included, Unbounded};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use fastrand::Rng;
use millpond_bench::{Access, BenchStore, EngineKind, thread_time};
use millpond_store_api::schema::Buckets;
use millpond_store_api::{
    ArrivalBuffer, Cursor, Direction, Header, Headers, KeyBuffer, KeyValue, ListValue, OldestFirst, Result, Session,
    SpaceMut, TimestampedKeyValue, TimestampedKeyValueWithHeaders, TtlKeyValue, ValueAndTimestamp,
    ValueTimestampHeaders, Versioned, Window,
};

/// Keys of each store: their rows fit into every cache, so that what is measured is the work and not the disk.
const KEYS: u64 = 20_000;
/// Windows, sessions, versions or list values of each key: one for each hour.
const HISTORY: i64 = 8;
const HOUR: i64 = 3_600_000;
/// How long windows, sessions, versions and rows live; an expiry bucket is an eighth of it, so each hour has its own.
const RETENTION: i64 = 8 * HOUR;
/// The number of the store in the space of what expires.
const NUMBER: u16 = 1;
const VALUE: [u8; 16] = [7; 16];

type Ttl<'a> = TtlKeyValue<'a, dyn SpaceMut + 'a>;
type Versions<'a> = Versioned<'a, dyn SpaceMut + 'a>;

/// A store with the state that its calls need.
struct Bench {
    store: BenchStore,
    random: Rng,
    /// The store's observed time.
    now: i64,
    /// Calls so far.
    calls: u64,
}

impl Bench {
    fn key(&mut self) -> [u8; 8] {
        self.random.u64(..KEYS).to_be_bytes()
    }

    /// Calls the store that is in the space of plain rows.
    fn plain<T>(&mut self, body: impl FnOnce(&mut dyn SpaceMut) -> Result<T>) -> T {
        self.store.with(|plain, _| body(plain)).expect("nothing fails here")
    }

    /// Calls the store that is in the space of what expires.
    fn expiring<T>(&mut self, body: impl FnOnce(&mut dyn SpaceMut) -> Result<T>) -> T {
        self.store.with(|_, expiring| body(expiring)).expect("nothing fails here")
    }

    /// Calls the store that is in both.
    fn both<T>(&mut self, body: impl FnOnce(&mut dyn SpaceMut, &mut dyn SpaceMut) -> Result<T>) -> T {
        self.store.with(|plain, expiring| body(plain, expiring)).expect("nothing fails here")
    }
}

/// Puts what a key has at a time into the space of plain rows, or that of rows that expire, or both.
type Load = fn(&mut dyn SpaceMut, &mut dyn SpaceMut, [u8; 8], i64) -> Result<()>;

/// A call of a kind and what it is called.
type Verb = (&'static str, fn(&mut Bench));

struct Kind {
    name: &'static str,
    /// Puts what a key has in an hour.
    load: Load,
    /// Of so many hours.
    hours: i64,
    verbs: &'static [Verb],
}

const KINDS: &[Kind] = &[
    Kind {
        name: "key-value",
        load: load_key_value,
        hours: 1,
        verbs: &[("get", get), ("put", put), ("range of 100", range)],
    },
    Kind {
        name: "timestamped",
        load: load_timestamped,
        hours: 1,
        verbs: &[("get", get_timestamped), ("put", put_timestamped)],
    },
    Kind { name: "with headers", load: load_headers, hours: 1, verbs: &[("get", get_headers), ("put", put_headers)] },
    Kind {
        name: "time to live",
        load: load_ttl,
        hours: 1,
        verbs: &[("get", get_ttl), ("put", put_ttl), ("put, and what expires", expire)],
    },
    Kind {
        name: "versioned",
        load: load_versioned,
        hours: HISTORY,
        verbs: &[("get", latest), ("get as of", as_of), ("8 versions", versions), ("put", put_version)],
    },
    Kind {
        name: "window",
        load: load_window,
        hours: HISTORY,
        verbs: &[
            ("get", get_window),
            ("fetch 1 of 8", fetch_last),
            ("fetch 8 in 8 buckets", fetch),
            ("fetch 100 keys", fetch_range),
            ("put", put_window),
        ],
    },
    Kind {
        name: "session",
        load: load_session,
        hours: HISTORY,
        verbs: &[("find 1 of 8", find_last), ("find 8 in 8 buckets", find), ("merge", merge)],
    },
    Kind { name: "list", load: load_list, hours: HISTORY, verbs: &[("get 8", get_list), ("append", append)] },
    Kind { name: "buffer by arrival", load: load_arrivals, hours: 1, verbs: &[("put and evict", by_arrival)] },
    Kind { name: "buffer by key", load: load_keys, hours: 1, verbs: &[("put and take", by_key)] },
];

// ---- key-value and what stands on it ----

fn load_key_value(plain: &mut dyn SpaceMut, _: &mut dyn SpaceMut, key: [u8; 8], _: i64) -> Result<()> {
    KeyValue::new(plain).put(&key, &VALUE)
}

fn get(bench: &mut Bench) {
    let key = bench.key();
    bench.plain(|space| KeyValue::new(space).get(&key).map(|value| assert!(black_box(value).is_some())));
}

fn put(bench: &mut Bench) {
    let key = bench.key();
    bench.plain(|space| KeyValue::new(space).put(&key, &VALUE));
}

fn range(bench: &mut Bench) {
    let key = bench.random.u64(..KEYS - 100).to_be_bytes();
    bench.plain(|space| {
        let store = KeyValue::new(space);
        let mut rows: Box<dyn Cursor + '_> = store.range(Included(&key), Unbounded, Direction::Forward)?;
        for _ in 0..100 {
            assert!(black_box(rows.next()?).is_some());
        }
        Ok(())
    });
}

fn load_timestamped(plain: &mut dyn SpaceMut, _: &mut dyn SpaceMut, key: [u8; 8], timestamp: i64) -> Result<()> {
    TimestampedKeyValue::new(plain).put(&key, ValueAndTimestamp { timestamp, value: &VALUE })
}

fn get_timestamped(bench: &mut Bench) {
    let key = bench.key();
    bench.plain(|space| TimestampedKeyValue::new(space).get(&key).map(|value| assert!(black_box(value).is_some())));
}

fn put_timestamped(bench: &mut Bench) {
    let key = bench.key();
    bench.plain(|space| TimestampedKeyValue::new(space).put(&key, ValueAndTimestamp { timestamp: 2, value: &VALUE }));
}

fn load_headers(plain: &mut dyn SpaceMut, _: &mut dyn SpaceMut, key: [u8; 8], timestamp: i64) -> Result<()> {
    let mut headers = Vec::new();
    Headers::encode(&[Header { key: "source", value: Some(b"gauge") }], &mut headers)?;
    let value = ValueTimestampHeaders { headers: Headers::from_bytes(&headers), timestamp, value: &VALUE };
    TimestampedKeyValueWithHeaders::new(plain).put(&key, value)
}

fn get_headers(bench: &mut Bench) {
    let key = bench.key();
    bench.plain(|space| {
        let mut store = TimestampedKeyValueWithHeaders::new(space);
        store.get(&key).map(|found| assert_eq!(found.map(|value| value.headers.iter().count()), Some(1)))
    });
}

fn put_headers(bench: &mut Bench) {
    let key = bench.key();
    bench.both(|plain, expiring| load_headers(plain, expiring, key, 2));
}

// ---- time to live ----

fn load_ttl(plain: &mut dyn SpaceMut, expiring: &mut dyn SpaceMut, key: [u8; 8], timestamp: i64) -> Result<()> {
    let value = ValueAndTimestamp { timestamp, value: &VALUE };
    Ttl::new(plain, expiring, NUMBER, RETENTION, timestamp).put(&key, value).map(drop)
}

fn get_ttl(bench: &mut Bench) {
    let (key, now) = (bench.key(), bench.now);
    bench.both(|rows, index| {
        let mut store = Ttl::new(rows, index, NUMBER, RETENTION, now);
        store.get(&key).map(|value| assert!(black_box(value).is_none_or(|value| value.timestamp <= now)))
    });
}

fn put_ttl(bench: &mut Bench) {
    let (key, now) = (bench.key(), bench.now);
    bench.both(|rows, index| load_ttl(rows, index, key, now));
}

/// Time goes on so that as many rows expire as are put; they are deleted when their bucket has passed, as a task does it.
fn expire(bench: &mut Bench) {
    let before = bench.now;
    bench.now += RETENTION / KEYS as i64;
    bench.calls += 1;
    let (key, now) = ((bench.calls % KEYS).to_be_bytes(), bench.now);
    bench.both(|rows, index| load_ttl(rows, index, key, now));
    if now / HOUR > before / HOUR {
        while bench.both(|rows, index| Ttl::new(rows, index, NUMBER, RETENTION, now).expire(1_000)).more {}
        bench.store.drop_below(&Buckets::dead_below(now));
    }
}

// ---- versions ----

fn load_versioned(plain: &mut dyn SpaceMut, expiring: &mut dyn SpaceMut, key: [u8; 8], timestamp: i64) -> Result<()> {
    Versions::new(plain, expiring, NUMBER, RETENTION, timestamp).put(&key, Some(&VALUE), timestamp).map(drop)
}

fn latest(bench: &mut Bench) {
    let (key, now) = (bench.key(), bench.now);
    bench.both(|plain, expiring| {
        let mut store = Versions::new(plain, expiring, NUMBER, RETENTION, now);
        store.get(&key).map(|found| assert!(black_box(found).is_some()))
    });
}

fn as_of(bench: &mut Bench) {
    let (key, now) = (bench.key(), bench.now);
    bench.both(|plain, expiring| {
        let mut store = Versions::new(plain, expiring, NUMBER, RETENTION, now);
        store.get_as_of(&key, now - 3 * HOUR).map(|found| assert!(black_box(found).is_some()))
    });
}

fn versions(bench: &mut Bench) {
    let (key, now) = (bench.key(), bench.now);
    let found = bench.both(|plain, expiring| {
        let mut found = 0;
        let mut store = Versions::new(plain, expiring, NUMBER, RETENTION, now);
        store.versions(&key, 0, now, Direction::Forward, &mut |version| {
            found += black_box(version).value.len().min(1);
            Ok(found < HISTORY as usize)
        })?;
        Ok(found)
    });
    assert_eq!(found, HISTORY as usize);
}

fn put_version(bench: &mut Bench) {
    bench.now += 1;
    let (key, now) = (bench.key(), bench.now);
    bench.both(|plain, expiring| load_versioned(plain, expiring, key, now));
}

// ---- windows and sessions ----

fn window(space: &mut dyn SpaceMut, now: i64) -> Window<'_, dyn SpaceMut + '_> {
    Window::new(space, NUMBER, RETENTION, false, now)
}

fn load_window(_: &mut dyn SpaceMut, expiring: &mut dyn SpaceMut, key: [u8; 8], start: i64) -> Result<()> {
    window(expiring, start).put(&key, start, Some(&VALUE)).map(drop)
}

fn get_window(bench: &mut Bench) {
    let (key, now) = (bench.key(), bench.now);
    bench.expiring(|space| window(space, now).get(&key, now).map(|value| assert!(black_box(value).is_some())));
}

/// Fetches the windows of a key that begin in a time, which are so many.
fn fetch_since(bench: &mut Bench, from: i64, rows: usize) {
    let (key, now) = (bench.key(), bench.now);
    let found = bench.expiring(|space| {
        let store = window(space, now);
        let mut rows = store.fetch(&key, from, now, Direction::Forward)?;
        let mut found = 0;
        while black_box(rows.next()?).is_some() {
            found += 1;
        }
        Ok(found)
    });
    assert_eq!(found, rows);
}

fn fetch_last(bench: &mut Bench) {
    fetch_since(bench, bench.now - HOUR / 2, 1);
}

fn fetch(bench: &mut Bench) {
    fetch_since(bench, 0, HISTORY as usize);
}

fn fetch_range(bench: &mut Bench) {
    let (first, now) = (bench.random.u64(..KEYS - 100), bench.now);
    let found = bench.expiring(|space| {
        let store = window(space, now);
        let (lower, upper) = (first.to_be_bytes(), (first + 99).to_be_bytes());
        let mut rows =
            store.fetch_range(Included(&lower), Included(&upper), now - HOUR / 2, now, Direction::Forward)?;
        let mut found = 0;
        while black_box(rows.next()?).is_some() {
            found += 1;
        }
        Ok(found)
    });
    assert_eq!(found, 100);
}

fn put_window(bench: &mut Bench) {
    let (key, now) = (bench.key(), bench.now);
    bench.both(|plain, expiring| load_window(plain, expiring, key, now));
}

fn session(space: &mut dyn SpaceMut, now: i64) -> Session<'_, dyn SpaceMut + '_> {
    Session::new(space, NUMBER, RETENTION, now)
}

fn load_session(_: &mut dyn SpaceMut, expiring: &mut dyn SpaceMut, key: [u8; 8], time: i64) -> Result<()> {
    session(expiring, time).put(&key, time - 1, time, Some(&VALUE)).map(drop)
}

/// Finds the sessions of a key that end in a time, which are so many.
fn find_since(bench: &mut Bench, from: i64, rows: usize) {
    let (key, now) = (bench.key(), bench.now);
    let found = bench.expiring(|space| {
        let store = session(space, now);
        let mut rows = store.find(&key, from, now, Direction::Forward)?;
        let mut found = 0;
        while black_box(rows.next()?).is_some() {
            found += 1;
        }
        Ok(found)
    });
    assert_eq!(found, rows);
}

fn find_last(bench: &mut Bench) {
    find_since(bench, bench.now - HOUR / 2, 1);
}

fn find(bench: &mut Bench) {
    find_since(bench, 0, HISTORY as usize);
}

/// What a record does to its session: finds it, removes it, puts a longer one.
fn merge(bench: &mut Bench) {
    bench.now += 1;
    let (key, now) = (bench.key(), bench.now);
    bench.expiring(|space| {
        let mut store = session(space, now);
        let mut rows = store.find(&key, now - HOUR / 2, now, Direction::Forward)?;
        let (start, end) = rows.next()?.map(|row| (row.start, row.end)).expect("each key has one");
        drop(rows);
        store.remove(&key, start, end)?;
        store.put(&key, start, now, Some(&VALUE))
    });
}

// ---- lists and buffers ----

fn load_list(plain: &mut dyn SpaceMut, _: &mut dyn SpaceMut, key: [u8; 8], _: i64) -> Result<()> {
    ListValue::new(plain).append(&key, &VALUE)
}

fn get_list(bench: &mut Bench) {
    let key = bench.key();
    let found = bench.plain(|space| Ok(ListValue::new(space).get(&key)?.map(Iterator::count)));
    assert_eq!(found, Some(HISTORY as usize));
}

/// A list begins anew when it is as long as those that were loaded.
fn append(bench: &mut Bench) {
    let calls = bench.calls;
    bench.calls += 1;
    let key = (calls / HISTORY as u64 % KEYS).to_be_bytes();
    bench.plain(|space| {
        let mut store = ListValue::new(space);
        if calls.is_multiple_of(HISTORY as u64) {
            store.delete(&key)?;
        }
        store.append(&key, &VALUE)
    });
}

/// When a key came into a buffer: each at another time.
fn came(key: [u8; 8], time: i64) -> i64 {
    time - (KEYS - u64::from_be_bytes(key)) as i64
}

fn load_arrivals(plain: &mut dyn SpaceMut, _: &mut dyn SpaceMut, key: [u8; 8], time: i64) -> Result<()> {
    ArrivalBuffer::new(plain).put(came(key, time), &key, &VALUE)
}

/// A row comes in, the oldest goes out.
fn by_arrival(bench: &mut Bench) {
    bench.now += 1;
    let (key, now) = (bench.key(), bench.now);
    bench.plain(|space| {
        let mut buffer = ArrivalBuffer::new(space);
        buffer.put(now, &key, &VALUE)?;
        buffer.evict(&mut |_, held| held.rows > KEYS, &mut |row| {
            black_box(row);
            Ok(())
        })
    });
}

fn load_keys(plain: &mut dyn SpaceMut, _: &mut dyn SpaceMut, key: [u8; 8], time: i64) -> Result<()> {
    KeyBuffer::new(plain).put(came(key, time), &key, &VALUE).map(drop)
}

/// A key comes in, or changes; the oldest goes out where there are too many.
fn by_key(bench: &mut Bench) {
    bench.now += 1;
    let (key, now) = (bench.random.u64(..2 * KEYS).to_be_bytes(), bench.now);
    bench.plain(|space| {
        let mut buffer = KeyBuffer::new(space);
        buffer.put(now, &key, &VALUE)?;
        let mut walk = OldestFirst::default();
        buffer.take_oldest(&mut walk, &mut |_, held| held.rows > KEYS, &mut |row| {
            black_box(row);
            Ok(())
        })
    });
}

// ---- the bench ----

/// A store with its rows, none of them in an overlay.
fn loaded(kind: &Kind, engine: EngineKind, access: Access) -> Bench {
    let mut store = BenchStore::open(engine, access);
    for hour in 1..=kind.hours {
        for key in 0..KEYS {
            let load = |plain: &mut dyn SpaceMut, expiring: &mut dyn SpaceMut| {
                (kind.load)(plain, expiring, key.to_be_bytes(), hour * HOUR)
            };
            store.load(load).expect("nothing fails here");
        }
    }
    store.settle();
    Bench { store, random: Rng::with_seed(1), now: kind.hours * HOUR, calls: 0 }
}

const ENGINES: [EngineKind; 3] = [EngineKind::Mem, EngineKind::Rocks, EngineKind::Custom];
const ACCESSES: [Access; 2] = [Access::Shard, Access::Overlay];

fn kinds(criterion: &mut Criterion) {
    let mut table = Table::default();
    for kind in KINDS {
        let mut group = criterion.benchmark_group(kind.name);
        group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(1));
        group.warm_up_time(Duration::from_millis(50)).measurement_time(Duration::from_millis(200));
        for (engine, access) in ENGINES.iter().flat_map(|engine| ACCESSES.map(|access| (*engine, access))) {
            // Loaded by the first call that is measured, shared by all, gone before the next engine begins.
            let mut running = None;
            for (verb, call) in kind.verbs {
                let name = format!("{}/{}", engine.name(), access.name());
                let mut total = (Duration::ZERO, 0);
                group.bench_function(BenchmarkId::new(*verb, &name), |bencher| {
                    let bench = running.get_or_insert_with(|| loaded(kind, engine, access));
                    bencher.iter_custom(|calls| {
                        let started = thread_time();
                        (0..calls).for_each(|_| call(bench));
                        let took = thread_time() - started;
                        total = (total.0 + took, total.1 + calls);
                        took
                    });
                });
                table.add(kind.name, verb, total);
            }
        }
        group.finish();
    }
    table.print();
}

/// Nanoseconds of CPU per call: a line for each verb, a column for each engine and way.
#[derive(Default)]
struct Table {
    lines: Vec<(String, Vec<String>)>,
}

impl Table {
    fn add(&mut self, kind: &str, verb: &str, (took, calls): (Duration, u64)) {
        let line = format!("{kind} | {verb}");
        let cell = if calls == 0 { "–".to_owned() } else { format!("{:.0}", took.as_nanos() as f64 / calls as f64) };
        match self.lines.iter_mut().find(|(name, _)| *name == line) {
            Some((_, cells)) => cells.push(cell),
            None => self.lines.push((line, vec![cell])),
        }
    }

    fn print(&self) {
        println!("CPU ns per call, the calling thread's:\n");
        let columns =
            ENGINES.iter().flat_map(|engine| ACCESSES.map(|way| format!("{}, {}", engine.name(), way.name())));
        println!("| kind | call | {} |", columns.collect::<Vec<_>>().join(" | "));
        println!("|---|---|{}", "---|".repeat(ENGINES.len() * ACCESSES.len()));
        for (line, cells) in &self.lines {
            println!("| {line} | {} |", cells.join(" | "));
        }
    }
}

criterion_group!(benches, kinds);
criterion_main!(benches);
