//! Nothing is allocated per record between a source and a sink, and by reads and writes of single rows of stores, for keys and
//! values that need no memory of their own.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as expected")]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use millpond_store_api as store;
use millpond_topology::*;
use store::{Chunk, Cursor, Direction, Range, Read, Row, SpaceId};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// A store that overwrites in place, as the overlay does for keys it has seen.
#[derive(Default)]
struct Flat(BTreeMap<Vec<u8>, Vec<u8>>);

impl Layer for Flat {
    fn get<'a>(&'a mut self, _: &dyn Read, key: &[u8]) -> store::Result<Option<&'a [u8]>> {
        Ok(self.0.get(key).map(Vec::as_slice))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>, _: i64) -> store::Result<()> {
        let value = value.unwrap();
        match self.0.get_mut(key) {
            Some(old) => {
                old.clear();
                old.extend_from_slice(value);
            }
            None => drop(self.0.insert(key.to_vec(), value.to_vec())),
        }
        Ok(())
    }

    fn scan<'a>(&'a self, _: &'a dyn Read, range: Range<'_>, _: Direction) -> store::Result<Box<dyn Cursor + 'a>> {
        let rows = self.0.range::<[u8], _>((range.lower, range.upper));
        Ok(Box::new(Ascending { rows, row: None }))
    }

    fn touch(&mut self, _: &dyn Read, _: &[&[u8]]) -> store::Result<()> {
        Ok(())
    }

    fn written(&self, _: Range<'_>, _: Direction, _: &mut Chunk) {}

    fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.0.get(key).map(|value| Some(value.as_slice()))
    }

    fn space(&self) -> SpaceId {
        SpaceId(0)
    }
}

struct Ascending<'a> {
    rows: std::collections::btree_map::Range<'a, Vec<u8>, Vec<u8>>,
    row: Option<Row<'a>>,
}

impl Cursor for Ascending<'_> {
    fn next(&mut self) -> store::Result<Option<Row<'_>>> {
        self.row = self.rows.next().map(|(key, value)| Row { key, value });
        Ok(self.row)
    }

    fn row(&self) -> Option<Row<'_>> {
        self.row
    }

    fn seek(&mut self, key: &[u8]) -> store::Result<()> {
        while self.rows.clone().next().is_some_and(|(row, _)| row.as_slice() < key) {
            self.rows.next();
        }
        Ok(())
    }
}

/// Nothing was committed.
struct Nothing;

impl Read for Nothing {
    fn get(&self, _: SpaceId, _: &[u8], _: &mut dyn FnMut(&[u8])) -> store::Result<bool> {
        Ok(false)
    }

    fn scan(&self, _: SpaceId, _: Range<'_>, _: Direction) -> store::Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(store::Empty))
    }
}

/// Counts what is sent. All stores have one layer, or two, and all time in the world.
#[derive(Default)]
struct Counter {
    store: Flat,
    windowed: Flat,
    observed: i64,
    refused: u64,
    numbered: u32,
    sent: usize,
}

impl Port for Counter {
    fn store(&mut self, _: StoreIndex) -> Result<StoreAccess<'_>> {
        let expiry = Expiry {
            kept: i64::MIN,
            store: 7,
            retention: 1_000_000,
            observed: &mut self.observed,
            refused: &mut self.refused,
            numbered: &mut self.numbered,
            windowed: Some(&mut self.windowed),
            puts: None,
        };
        Ok(StoreAccess { layer: &mut self.store, base: &Nothing, timestamp: 0, expiry: Some(expiry) })
    }

    fn stores(&mut self, _: [Option<StoreIndex>; 4]) -> Result<[Option<StoreAccess<'_>>; 4]> {
        Err(Error::other("one store only"))
    }

    fn cached(&self, _: StoreIndex) -> bool {
        false
    }

    fn send(&mut self, _: &Out<'_>) -> Result {
        self.sent += 1;
        Ok(())
    }

    fn partitions(&mut self, _: SinkIndex, _: Option<&str>) -> Result<i32> {
        Ok(1)
    }

    fn metadata(&self) -> Option<RecordMetadata<'_>> {
        None
    }

    fn timestamp(&self) -> i64 {
        0
    }

    fn stream_time(&self) -> i64 {
        0
    }

    fn wall_time(&self) -> i64 {
        0
    }

    fn schedule(&mut self, _: NodeIndex, _: u32, _: Schedule) -> TimerId {
        TimerId(0)
    }

    fn cancel(&mut self, _: TimerId) {}

    fn request_commit(&mut self) {}

    fn dropped(&mut self, _: NodeIndex, _: Dropped) {}

    fn advance(&mut self, _: NodeIndex, time: i64) -> i64 {
        time
    }

    fn node_time(&self, _: NodeIndex) -> Option<i64> {
        None
    }

    fn lets_through(&mut self, _: &HeldBack<'_>) {}

    fn released(&self, _: StoreIndex) -> Option<i64> {
        None
    }

    fn release(&mut self, _: StoreIndex, _: i64) {}

    fn idle_since(&self) -> Option<i64> {
        None
    }
}

/// Puts the value into a store and hands the record on.
struct Remember(StoreRef<TimestampedKeyValue<i64, i64>>);

impl Processor for Remember {
    type In = Record<i64, i64>;
    type Out = Record<i64, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        let mut store = cx.store(&self.0)?;
        store.get(&r.key)?;
        store.put(&r.key, &ValueAndTimestamp { value: r.value, timestamp: r.timestamp })?;
        cx.forward(r)
    }
}

/// A chain with everything that a record commonly meets: operators, a merge, fan-out, an aggregation, a filter that needs
/// old values, a re-keying, a processor with a store and sinks that reuse the key's bytes and that do not.
fn topology() -> Topology {
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(I64, I64)).filter(|_, v| *v >= 0).map_values(|v| v + 1);
    let merged = stream.clone().merge(stream.clone().peek(|_, _| ()));
    merged
        .group_by_key()
        .count(Materialized::named("counts"))
        .filter(|_, n| *n >= 0)
        .to_stream()
        .to("counts", Produced::with(I64, Nullable(I64)));
    let memory = b.timestamped_key_value_store("memory", I64, I64);
    stream
        .select_key(|k, v| k + v)
        .process(&memory, |_, memory| Ok(Remember(memory)))
        .to("remembered", Produced::with(I64, I64));
    b.build().unwrap()
}

/// One profiler at a time.
static PROFILED: Mutex<()> = Mutex::new(());

/// How often it is counted what something allocates.
const TIMES: usize = 5;

/// How many blocks `run` allocates: the least that was counted, since the test harness has threads of its own, whose blocks are
/// counted with it.
fn blocks(mut run: impl FnMut()) -> u64 {
    let counted = (0..TIMES).map(|_| {
        let profiler = dhat::Profiler::builder().testing().build();
        let before = dhat::HeapStats::get().total_blocks;
        run();
        let allocated = dhat::HeapStats::get().total_blocks - before;
        drop(profiler);
        allocated
    });
    counted.min().unwrap()
}

#[test]
fn no_allocation_per_record() {
    let _alone = PROFILED.lock();
    let mut port = Counter::default();
    let mut graph = topology().task(0, &mut port).unwrap();
    let headers = Headers::new();
    let mut run = |port: &mut Counter| {
        for n in 0..1000_i64 {
            let (key, value) = ((n % 10).to_be_bytes(), (n % 7).to_be_bytes());
            let raw = Raw { key: Some(&key), value: Some(&value), timestamp: n, headers: &headers };
            graph.receive(port, SourceIndex(0), &raw).unwrap();
        }
    };
    run(&mut port);
    assert_eq!(port.sent, 3000);
    let allocated = blocks(|| run(&mut port));
    assert_eq!((allocated, port.sent), (0, 3000 * (1 + TIMES)));
}

/// Hands records on.
struct Handed;

impl Processor for Handed {
    type In = Record<i64, i64>;
    type Out = Record<i64, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        cx.forward(r)
    }
}

/// As [`Handed`], with the key it had.
struct Kept;

impl Processor for Kept {
    type In = FixedKeyRecord<i64, i64>;
    type Out = FixedKeyRecord<i64, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        cx.forward(r)
    }
}

/// All stateless operators, each of which takes every record.
fn stateless() -> Topology {
    let mut b = Topology::builder();
    let stream = b.stream("in", Consumed::with(I64, I64));
    stream.clone().foreach(|_, _| ());
    let stream = stream
        .filter(|_, v| *v >= 0)
        .filter_not(|_, v| *v < 0)
        .try_filter(|_, v| Ok(*v >= 0))
        .map(|k, v| (k, v + 1))
        .try_map(|k, v| Ok((k, v + 1)))
        .map_values(|v| v + 1)
        .map_values_with_key(|k, v| v + k)
        .try_map_values(|v| Ok(v + 1))
        .flat_map(|k, v| [(k, v)])
        .flat_map_values(|v| [v])
        .flat_map_values_with_key(|_, v| [v])
        .select_key(|k, _| k + 1)
        .peek(|_, _| ())
        .try_peek(|_, _| Ok(()))
        .process((), |_, ()| Ok(Handed))
        .process_values((), |_, ()| Ok(Kept));
    let mut split = stream.split();
    let even = split.branch(|_, v| v % 2 == 0);
    let merged = split.rest().merge(even);
    merged.clone().to_topic_of(|_, v, _| if v % 2 == 0 { "even" } else { "odd" }, Produced::with(I64, I64));
    merged.to("out", Produced::with(I64, I64).partitioner(|_, _, _| Some(0)));
    b.build().unwrap()
}

#[test]
fn no_stateless_operator_allocates() {
    let _alone = PROFILED.lock();
    let mut port = Counter::default();
    let mut graph = stateless().task(0, &mut port).unwrap();
    let headers: Headers = [Header { name: "trace".into(), value: None }].into_iter().collect();
    let mut run = |port: &mut Counter| {
        for n in 0..1000_i64 {
            let bytes = n.to_be_bytes();
            let raw = Raw { key: Some(&bytes), value: Some(&bytes), timestamp: n, headers: &headers };
            graph.receive(port, SourceIndex(0), &raw).unwrap();
        }
    };
    run(&mut port);
    let allocated = blocks(|| run(&mut port));
    assert_eq!((allocated, port.sent), (0, 2000 * (1 + TIMES)));
}

/// What is done to a store for each record.
struct Use<T: StoreKind>(StoreRef<T>, fn(&StoreRef<T>, &mut Context<'_, Use<T>>, i64) -> Result);

impl<T: StoreKind> Processor for Use<T> {
    type In = Record<i64, i64>;
    type Out = Record<i64, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        (self.1)(&self.0, cx, r.key)
    }
}

/// How much is allocated for each record, over records whose keys have been seen.
fn allocated<T: StoreKind>(spec: StoreSpec<T>, each: fn(&StoreRef<T>, &mut Context<'_, Use<T>>, i64) -> Result) -> f64 {
    const RECORDS: u32 = 100;
    let _alone = PROFILED.lock();
    let mut b = Topology::builder();
    let store = b.add_store(spec);
    let _ = b.stream("in", Consumed::with(I64, I64)).process(&store, move |_, store| Ok(Use(store, each)));
    let mut port = Counter::default();
    let mut graph = b.build().unwrap().task(0, &mut port).unwrap();
    let headers = Headers::new();
    let mut run = || {
        for n in 0..i64::from(RECORDS) {
            let (key, value) = ((n % 10).to_be_bytes(), n.to_be_bytes());
            let raw = Raw { key: Some(&key), value: Some(&value), timestamp: n, headers: &headers };
            graph.receive(&mut port, SourceIndex(0), &raw).unwrap();
        }
    };
    run();
    let allocated = blocks(run);
    f64::from(u32::try_from(allocated).unwrap()) / f64::from(RECORDS)
}

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn rows_of_stores_that_expire_are_read_and_written_without_allocation() {
    let window = allocated(StoreSpec::window("s", HOUR, HOUR, I64, I64), |store, cx, key| {
        let mut view = cx.store(store)?;
        assert!(view.put(&key, 5, &1)?);
        assert_eq!(view.get(&key, 5)?, Some(1));
        Ok(())
    });
    let session = allocated(StoreSpec::session("s", HOUR, I64, I64), |store, cx, key| {
        let mut view = cx.store(store)?;
        assert!(view.put(&Windowed { key, start: 3, end: 5 }, &1)?);
        assert_eq!(view.fetch_session(&key, 3, 5)?, Some(1));
        Ok(())
    });
    let ttl = allocated(StoreSpec::ttl_key_value("s", HOUR, I64, I64), |store, cx, key| {
        let mut view = cx.store(store)?;
        view.put(&key, &ValueAndTimestamp { value: 1, timestamp: 5 })?;
        assert!(view.get(&key)?.is_some());
        Ok(())
    });
    let versioned = allocated(StoreSpec::versioned("s", HOUR, I64, I64), |store, cx, key| {
        let mut view = cx.store(store)?;
        assert_eq!(view.put(&key, Some(&1), 5)?, VersionPut::Latest);
        assert!(view.get(&key)?.is_some() && view.get_as_of(&key, 7)?.is_some());
        Ok(())
    });
    let with_headers = StoreSpec::timestamped_key_value_with_headers("s", I64, I64);
    let without_any = allocated(with_headers, |store, cx, key| {
        let mut view = cx.store(store)?;
        view.put(&key, &ValueTimestampHeaders { value: 1, timestamp: 5, headers: Headers::new() })?;
        assert!(view.get(&key)?.is_some());
        Ok(())
    });
    assert_eq!([window, session, ttl, versioned, without_any], [0.0; 5]);
}

/// A fetch owns what it was asked for, its cursor and a chunk of rows; not more for more rows, up to the first chunk.
#[test]
fn a_fetch_allocates_a_few_times_whatever_it_finds() {
    let one = allocated(StoreSpec::window("s", HOUR, HOUR, I64, I64), |store, cx, key| {
        cx.store(store)?.put(&key, 5, &1)?;
        let mut rows = cx.store(store)?.fetch(&key, 0..=10)?;
        while rows.next(cx)?.is_some() {}
        Ok(())
    });
    assert!(one <= 10.0, "{one}");
}
