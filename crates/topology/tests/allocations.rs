//! Nothing is allocated per record between a source and a sink, for keys and values that need no memory of their own.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as expected")]

use std::collections::HashMap;

use millpond_store_api as store;
use millpond_topology::*;
use store::{Chunk, Cursor, Direction, Range, Read, SpaceId};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// A store that overwrites in place, as the overlay does for keys it has seen.
#[derive(Default)]
struct Flat(HashMap<[u8; 8], [u8; 16]>);

impl Layer for Flat {
    fn get<'a>(&'a mut self, _: &dyn Read, key: &[u8]) -> store::Result<Option<&'a [u8]>> {
        Ok(self.0.get::<[u8; 8]>(key.try_into().unwrap()).map(<[u8; 16]>::as_slice))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>, _: i64) -> store::Result<()> {
        self.0.insert(key.try_into().unwrap(), value.unwrap().try_into().unwrap());
        Ok(())
    }

    fn scan<'a>(&'a self, _: &'a dyn Read, _: Range<'_>, _: Direction) -> store::Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(store::Empty))
    }

    fn touch(&mut self, _: &dyn Read, _: &[&[u8]]) -> store::Result<()> {
        Ok(())
    }

    fn written(&self, _: Range<'_>, _: Direction, _: &mut Chunk) {}

    fn peek(&self, _: &[u8]) -> Option<Option<&[u8]>> {
        None
    }

    fn space(&self) -> SpaceId {
        SpaceId(0)
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

/// Counts what is sent.
#[derive(Default)]
struct Counter {
    store: Flat,
    sent: usize,
}

impl Port for Counter {
    fn store(&mut self, _: StoreIndex) -> Result<StoreAccess<'_>> {
        Ok(StoreAccess { layer: &mut self.store, base: &Nothing, timestamp: 0, expiry: None })
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

    fn partitions(&self, _: SinkIndex) -> i32 {
        1
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

    fn dropped(&mut self, _: Dropped) {}
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

#[test]
fn no_allocation_per_record() {
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
    let profiler = dhat::Profiler::builder().testing().build();
    let before = dhat::HeapStats::get().total_blocks;
    run(&mut port);
    let allocated = dhat::HeapStats::get().total_blocks - before;
    drop(profiler);
    assert_eq!((allocated, port.sent), (0, 6000));
}
