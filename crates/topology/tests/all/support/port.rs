//! A port over maps: what a task needs, and a record of all that the graph asked of it.

use std::collections::{BTreeMap, BTreeSet};

use millpond_store_api as store;
use millpond_topology::{
    Dropped, Expiry, Header, Headers, HeldBack, Layer, NodeIndex, Out, Port, PunctuationType, PutLog, RecordMetadata,
    Result, Retention, Schedule, SinkIndex, StoreAccess, StoreIndex, StoreType, TimerId, Topology,
};
use store::{Chunk, Cursor, Direction, Range, Read, Row, SpaceId};

type Bytes = Vec<u8>;

/// A record that a sink handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) sink: SinkIndex,
    pub(crate) partition: Option<i32>,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Vec<Header>,
}

/// A timer that is running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) id: TimerId,
    pub(crate) node: NodeIndex,
    pub(crate) slot: u32,
    pub(crate) schedule: Schedule,
    pub(crate) next: i64,
}

/// A change of a store, as a changelog would see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) store: StoreIndex,
    pub(crate) key: Bytes,
    pub(crate) value: Option<Bytes>,
    pub(crate) timestamp: i64,
}

/// A cached entry on its way out: key, new value, value forwarded last, time.
pub(crate) type Entry = (Bytes, Option<Bytes>, Option<Bytes>, i64);

#[derive(Default)]
pub(crate) struct MockPort {
    stores: Vec<MockStore>,
    base: Base,
    pub(crate) cached: BTreeSet<StoreIndex>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) timers: Vec<Running>,
    pub(crate) cancelled: Vec<TimerId>,
    pub(crate) commits: usize,
    pub(crate) timestamp: i64,
    pub(crate) stream_time: i64,
    pub(crate) wall: i64,
    pub(crate) metadata: Option<(String, i32, i64)>,
    pub(crate) partitions: i32,
    pub(crate) released: BTreeMap<StoreIndex, i64>,
    node_times: BTreeMap<NodeIndex, i64>,
    pub(crate) idle_since: Option<i64>,
    next_timer: u64,
}

struct MockStore {
    number: u16,
    /// How far behind what is released its time is; `None`: it goes by stream time.
    hold: Option<i64>,
    retention: Option<Retention>,
    layer: MockLayer,
    /// Of a store with rows in its own and in the windowed space.
    windowed: Option<MockLayer>,
    observed: i64,
    refused: u64,
    numbered: u32,
    puts: PutLog,
}

/// What was committed, by space.
#[derive(Default)]
struct Base(BTreeMap<SpaceId, BTreeMap<Bytes, Bytes>>);

/// The space that all stores share whose rows expire.
const WINDOWED: u16 = u16::MAX;

/// What was written since.
#[derive(Default)]
struct MockLayer {
    space: u16,
    rows: BTreeMap<Bytes, Option<Bytes>>,
    log: Vec<(Bytes, Option<Bytes>, i64)>,
    /// In the order of first writes, with the value before.
    pending: Vec<(Bytes, Option<Bytes>)>,
    lent: Bytes,
}

impl MockPort {
    pub(crate) fn new(topology: &Topology) -> Self {
        let stores = topology.stores().iter().enumerate().map(|(i, def)| {
            let number = u16::try_from(i).unwrap();
            let layer = |space| MockLayer { space, ..MockLayer::default() };
            let both = matches!(def.kind, StoreType::TtlKeyValue | StoreType::VersionedKeyValue);
            MockStore {
                number,
                hold: def.hold,
                retention: def.retention,
                layer: layer(if def.kind.is_windowed() { WINDOWED } else { number }),
                windowed: both.then(|| layer(WINDOWED)),
                observed: i64::MIN,
                refused: 0,
                numbered: 0,
                puts: PutLog::default(),
            }
        });
        Self { stores: stores.collect(), stream_time: -1, partitions: 1, ..Self::default() }
    }

    /// All rows of a key-value store as they are now.
    pub(crate) fn rows(&self, at: StoreIndex) -> BTreeMap<Bytes, Bytes> {
        let layer = &self.stores[at.0 as usize].layer;
        let mut rows = self.base.0.get(&layer.space()).cloned().unwrap_or_default();
        for (key, value) in &layer.rows {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        rows
    }

    /// Sets a committed row.
    pub(crate) fn seed(&mut self, at: StoreIndex, key: &[u8], value: &[u8]) {
        let space = self.stores[at.0 as usize].layer.space();
        self.base.0.entry(space).or_default().insert(key.to_vec(), value.to_vec());
    }

    /// Makes all that was written part of what is committed.
    pub(crate) fn commit(&mut self) {
        for store in &mut self.stores {
            for layer in [Some(&mut store.layer), store.windowed.as_mut()].into_iter().flatten() {
                let space = self.base.0.entry(SpaceId(layer.space)).or_default();
                for (key, value) in std::mem::take(&mut layer.rows) {
                    match value {
                        Some(value) => drop(space.insert(key, value)),
                        None => drop(space.remove(&key)),
                    }
                }
            }
        }
    }

    /// How many puts of a store were refused because they had expired.
    pub(crate) fn refused(&self, at: StoreIndex) -> u64 {
        self.stores[at.0 as usize].refused
    }

    /// The puts of a versioned store: key, value, time.
    pub(crate) fn puts(&self, at: StoreIndex) -> Vec<(Bytes, Option<Bytes>, i64)> {
        let puts = self.stores[at.0 as usize].puts.iter();
        puts.map(|put| (put.key.to_vec(), put.value.map(<[u8]>::to_vec), put.timestamp)).collect()
    }

    /// All changes so far, in order per store.
    pub(crate) fn logged(&self) -> Vec<Logged> {
        let stores = self.stores.iter().enumerate();
        stores
            .flat_map(|(i, s)| {
                let store = StoreIndex(u32::try_from(i).unwrap());
                let log = s.layer.log.iter().cloned();
                log.map(move |(key, value, timestamp)| Logged { store, key, value, timestamp })
            })
            .collect()
    }

    /// Takes the pending entries of a cached store.
    pub(crate) fn drain(&mut self, at: StoreIndex) -> Vec<Entry> {
        let rows = self.rows(at);
        let layer = &mut self.stores[at.0 as usize].layer;
        let time = |key: &Bytes| layer.log.iter().rev().find(|(k, ..)| k == key).map_or(-1, |(.., t)| *t);
        let entry = |(key, old): (Bytes, Option<Bytes>)| (key.clone(), rows.get(&key).cloned(), old, time(&key));
        std::mem::take(&mut layer.pending).into_iter().map(entry).collect()
    }

    pub(crate) fn take_sent(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }
}

impl Port for MockPort {
    fn store(&mut self, at: StoreIndex) -> Result<StoreAccess<'_>> {
        let timestamp = self.timestamp;
        let released = self.released.get(&at).copied();
        Ok(self.stores[at.0 as usize].open(&self.base, timestamp, self.stream_time, released))
    }

    fn stores(&mut self, which: [Option<StoreIndex>; 4]) -> Result<[Option<StoreAccess<'_>>; 4]> {
        let timestamp = self.timestamp;
        let mut found = [None, None, None, None];
        let wanted: Vec<_> = which.iter().flatten().collect();
        let different: BTreeSet<_> = wanted.iter().collect();
        if different.len() != wanted.len() {
            return Err(millpond_topology::Error::other("the same store twice"));
        }
        for (i, store) in self.stores.iter_mut().enumerate() {
            if let Some(place) = which.iter().position(|w| w.is_some_and(|w| w.0 as usize == i)) {
                let released = self.released.get(&StoreIndex(i as u32)).copied();
                found[place] = Some(store.open(&self.base, timestamp, self.stream_time, released));
            }
        }
        Ok(found)
    }

    fn cached(&self, at: StoreIndex) -> bool {
        self.cached.contains(&at)
    }

    fn send(&mut self, out: &Out<'_>) -> Result<()> {
        self.sent.push(Sent {
            sink: out.sink,
            partition: out.partition,
            timestamp: out.timestamp,
            key: out.key.map(<[u8]>::to_vec),
            value: out.value.map(<[u8]>::to_vec),
            headers: out.headers.iter().cloned().collect(),
        });
        Ok(())
    }

    fn partitions(&mut self, _: SinkIndex, _: Option<&str>) -> Result<i32> {
        Ok(self.partitions)
    }

    fn metadata(&self) -> Option<RecordMetadata<'_>> {
        let (topic, partition, offset) = self.metadata.as_ref()?;
        Some(RecordMetadata { topic, partition: *partition, offset: *offset })
    }

    fn timestamp(&self) -> i64 {
        self.timestamp
    }

    fn stream_time(&self) -> i64 {
        self.stream_time
    }

    fn wall_time(&self) -> i64 {
        self.wall
    }

    fn schedule(&mut self, node: NodeIndex, slot: u32, schedule: Schedule) -> TimerId {
        self.next_timer += 1;
        let id = TimerId(self.next_timer);
        let next = schedule.start_ms.unwrap_or(match schedule.by {
            PunctuationType::StreamTime => 0,
            PunctuationType::WallClockTime => self.wall + schedule.every_ms,
        });
        self.timers.push(Running { id, node, slot, schedule, next });
        id
    }

    fn cancel(&mut self, timer: TimerId) {
        self.timers.retain(|t| t.id != timer);
        self.cancelled.push(timer);
    }

    fn request_commit(&mut self) {
        self.commits += 1;
    }

    fn dropped(&mut self, _: NodeIndex, why: Dropped) {
        self.dropped.push(why);
    }

    fn advance(&mut self, node: NodeIndex, time: i64) -> i64 {
        let at = self.node_times.entry(node).or_insert(time);
        *at = time.max(*at);
        *at
    }

    fn node_time(&self, node: NodeIndex) -> Option<i64> {
        self.node_times.get(&node).copied()
    }

    fn lets_through(&mut self, row: &HeldBack<'_>) {
        self.timestamp = row.timestamp;
    }

    fn released(&self, at: StoreIndex) -> Option<i64> {
        self.released.get(&at).copied()
    }

    fn release(&mut self, at: StoreIndex, close: i64) {
        let released = self.released.entry(at).or_insert(close);
        *released = close.max(*released);
    }

    fn idle_since(&self) -> Option<i64> {
        self.idle_since
    }
}

impl MockStore {
    fn open<'a>(
        &'a mut self,
        base: &'a Base,
        timestamp: i64,
        stream_time: i64,
        released: Option<i64>,
    ) -> StoreAccess<'a> {
        let expiry = self.retention.map(|retention| {
            // A task that has seen nothing tells nothing.
            match self.hold {
                Some(hold) => self.observed = released.map_or(i64::MIN, |close| close + hold),
                None if stream_time >= 0 && !retention.by_puts => self.observed = self.observed.max(stream_time),
                None => {}
            }
            Expiry {
                store: self.number,
                retention: retention.gone_after(),
                observed: &mut self.observed,
                kept: i64::MIN,
                refused: &mut self.refused,
                numbered: &mut self.numbered,
                windowed: self.windowed.as_mut().map(|layer| layer as &mut dyn Layer),
                puts: Some(&mut self.puts),
            }
        });
        StoreAccess { layer: &mut self.layer, base, timestamp, expiry }
    }
}

impl Read for Base {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> store::Result<bool> {
        Ok(self.0.get(&space).and_then(|rows| rows.get(key)).inspect(|value| found(value)).is_some())
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> store::Result<Box<dyn Cursor + '_>> {
        assert!(!range.is_empty(), "an engine is never handed an empty range");
        let rows = self.0.get(&space).into_iter().flatten();
        Ok(Box::new(List::new(rows.map(|(key, value)| (key.clone(), value.clone())), range, direction)))
    }
}

struct List {
    rows: Vec<(Bytes, Bytes)>,
    direction: Direction,
    next: usize,
}

impl List {
    fn new(rows: impl Iterator<Item = (Bytes, Bytes)>, range: Range<'_>, direction: Direction) -> Self {
        let mut rows: Vec<_> = rows.filter(|(key, _)| range.contains(key)).collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        Self { rows, direction, next: 0 }
    }
}

impl Cursor for List {
    fn next(&mut self) -> store::Result<Option<Row<'_>>> {
        self.next += 1;
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.rows.get(self.next.checked_sub(1)?).map(|(key, value)| Row { key, value })
    }

    fn seek(&mut self, key: &[u8]) -> store::Result<()> {
        let before = |row: &[u8]| if self.direction == Direction::Forward { row < key } else { row > key };
        self.next += self.rows[self.next.min(self.rows.len())..].iter().take_while(|(row, _)| before(row)).count();
        Ok(())
    }
}

impl Layer for MockLayer {
    fn get<'a>(&'a mut self, base: &dyn Read, key: &[u8]) -> store::Result<Option<&'a [u8]>> {
        if let Some(value) = self.rows.get(key) {
            return Ok(value.as_deref());
        }
        let lent = &mut self.lent;
        let found = base.get(SpaceId(self.space), key, &mut |value| {
            lent.clear();
            lent.extend_from_slice(value);
        })?;
        Ok(found.then_some(self.lent.as_slice()))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> store::Result<()> {
        if !self.pending.iter().any(|(k, _)| k == key) {
            let old = self.rows.get(key).cloned().flatten();
            self.pending.push((key.to_vec(), old));
        }
        self.log.push((key.to_vec(), value.map(<[u8]>::to_vec), timestamp));
        self.rows.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }

    fn scan<'a>(
        &'a self,
        base: &'a dyn Read,
        range: Range<'_>,
        direction: Direction,
    ) -> store::Result<Box<dyn Cursor + 'a>> {
        let mut merged: BTreeMap<Bytes, Bytes> = BTreeMap::new();
        let mut cursor = base.scan(SpaceId(self.space), range, direction)?;
        while let Some(row) = cursor.next()? {
            merged.insert(row.key.to_vec(), row.value.to_vec());
        }
        for (key, value) in self.rows.iter().filter(|(key, _)| range.contains(key)) {
            match value {
                Some(value) => drop(merged.insert(key.clone(), value.clone())),
                None => drop(merged.remove(key)),
            }
        }
        Ok(Box::new(List::new(merged.into_iter(), range, direction)))
    }

    fn touch(&mut self, _: &dyn Read, _: &[&[u8]]) -> store::Result<()> {
        Ok(())
    }

    fn written(&self, range: Range<'_>, direction: Direction, keys: &mut Chunk) {
        let mut rows: Vec<_> = self.rows.keys().filter(|k| range.contains(k)).collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        rows.into_iter().for_each(|key| keys.push(Row { key, value: &[] }));
    }

    fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.rows.get(key).map(Option::as_deref)
    }

    fn space(&self) -> SpaceId {
        SpaceId(self.space)
    }
}

/// Headers that stay alive as long as a raw record needs them.
pub(crate) const NO_HEADERS: &Headers = &Headers::new();
