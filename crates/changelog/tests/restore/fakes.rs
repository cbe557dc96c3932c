//! A shard and a log that hold just what a restore needs of them.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api as broker;
use millpond_broker_api::{Batch, Change, Consumer, Header, Headers, Offset, Record, Records, Source};
use millpond_changelog::{LogRange, ShardMetadata};
use millpond_store_api::{
    Capabilities, Cursor, Direction, Error, ErrorKind, Flush, Range, Read, Result, Row, Shard, ShardReader, SpaceId,
    Writes,
};

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A shard in a map, every batch of which is durable.
#[derive(Clone, Default)]
pub(crate) struct FakeShard {
    pub(crate) spaces: BTreeMap<u16, Rows>,
    pub(crate) metadata: Option<Vec<u8>>,
    /// How many writes each batch had.
    pub(crate) batches: Vec<usize>,
    /// What the next batches answer instead of being applied; `None`: they are applied.
    pub(crate) answers: VecDeque<Option<ErrorKind>>,
}

impl FakeShard {
    /// A shard whose first batches are answered like this.
    pub(crate) fn answering(answers: impl IntoIterator<Item = Option<ErrorKind>>) -> Self {
        Self { answers: answers.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn metadata(&self) -> ShardMetadata {
        self.metadata.as_deref().map(|bytes| ShardMetadata::decode(bytes).unwrap()).unwrap_or_default()
    }

    pub(crate) fn rows(&self, space: SpaceId) -> Rows {
        self.spaces.get(&space.0).cloned().unwrap_or_default()
    }

    pub(crate) fn put(&mut self, space: SpaceId, key: &[u8], value: &[u8]) {
        self.spaces.entry(space.0).or_default().insert(key.to_vec(), value.to_vec());
    }

    pub(crate) fn set_metadata(&mut self, metadata: &ShardMetadata) {
        metadata.encode(self.metadata.get_or_insert_default());
    }
}

impl Read for FakeShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let rows = self.spaces.get(&space.0);
        Ok(rows.and_then(|rows| rows.get(key)).map(|value| found(value)).is_some())
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        assert!(!range.is_empty(), "nobody asks an engine for an empty range");
        let rows = self.spaces.get(&space.0).into_iter();
        let rows = rows.flat_map(|rows| rows.range::<[u8], _>((range.lower, range.upper)));
        let mut rows: Vec<_> = rows.map(|(key, value)| Row { key, value }).collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        Ok(Box::new(FakeCursor { rows, direction, next: 0, lent: 0 }))
    }
}

struct FakeCursor<'a> {
    rows: Vec<Row<'a>>,
    direction: Direction,
    next: usize,
    /// Behind the row that was lent last: where no seek goes back from.
    lent: usize,
}

impl Cursor for FakeCursor<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        self.next += 1;
        self.lent = self.next;
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.rows.get(self.next.checked_sub(1)?).copied()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let direction = self.direction;
        let before = |row: &Row<'_>| match direction {
            Direction::Forward => row.key < key,
            Direction::Reverse => row.key > key,
        };
        self.next = self.lent.max(self.rows.partition_point(before));
        Ok(())
    }
}

impl Shard for FakeShard {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        if let Some(Some(kind)) = self.answers.pop_front() {
            return Err(Error::new(kind, "apply batch"));
        }
        // An engine may go through a batch more than once.
        let (mut first, mut second) = (0, 0);
        while writes.next().is_some() {
            first += 1;
        }
        writes.rewind();
        while let Some(write) = writes.next() {
            second += 1;
            let rows = self.spaces.entry(write.space.0).or_default();
            match write.value {
                Some(value) => drop(rows.insert(write.key.to_vec(), value.to_vec())),
                None => drop(rows.remove(write.key)),
            }
        }
        assert_eq!(first, second, "a batch is the same after rewind");
        self.batches.push(second);
        self.metadata = Some(metadata.to_vec());
        Ok(())
    }

    fn committed(&self) -> Option<&[u8]> {
        self.metadata.as_deref()
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.metadata.as_deref())
    }

    fn flush(&mut self, _: Flush) -> Result<()> {
        Ok(())
    }

    fn drop_below(&mut self, _: SpaceId, _: &[u8]) -> Result<()> {
        panic!("a restore drops nothing");
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        panic!("a restore reads through no reader");
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self, to: &Path) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "checkpoint").with("to", to.display()))
    }
}

/// A record of a log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: Offset,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A partition: visible records, and offsets between and behind them that hold nothing visible (markers, aborted and
/// compacted records).
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) topic_id: u128,
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    /// Records at or behind it are of an open transaction. `None`: there is none.
    pub(crate) open_from: Option<Offset>,
    pub(crate) entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn starting_at(start: Offset) -> Self {
        Self { topic_id: 1, start, end: start, ..Self::default() }
    }

    /// `n` records of different keys, then nothing.
    pub(crate) fn of(start: Offset, n: i64) -> Self {
        let mut log = Self::starting_at(start);
        for i in start..start + n {
            log.put(&i.to_string(), "v");
        }
        log
    }

    pub(crate) fn push(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, timestamp: i64) -> &mut Self {
        let (key, value) = (key.map(<[u8]>::to_vec), value.map(<[u8]>::to_vec));
        self.entries.push(Entry { offset: self.end, timestamp, key, value, headers: Vec::new() });
        self.end += 1;
        self
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) -> &mut Self {
        self.push(Some(key.as_bytes()), Some(value.as_bytes()), self.end)
    }

    pub(crate) fn delete(&mut self, key: &str) -> &mut Self {
        self.push(Some(key.as_bytes()), None, self.end)
    }

    /// Offsets that nobody sees.
    pub(crate) fn hole(&mut self, n: Offset) -> &mut Self {
        self.end += n;
        self
    }

    pub(crate) fn trim(&mut self, start: Offset) {
        self.start = start;
        self.entries.retain(|entry| entry.offset >= start);
    }

    pub(crate) fn range(&self) -> LogRange {
        LogRange::whole(self.topic_id, self.start, self.end)
    }

    pub(crate) fn stable_end(&self) -> Offset {
        self.open_from.unwrap_or(self.end)
    }

    /// The state that the log stands for, with values as a plain store holds them.
    pub(crate) fn fold(&self) -> Rows {
        let mut rows = Rows::new();
        for Entry { key, value, .. } in &self.entries {
            match (key, value) {
                (Some(key), Some(value)) => drop(rows.insert(key.clone(), value.clone())),
                (Some(key), None) => drop(rows.remove(key)),
                (None, _) => {}
            }
        }
        rows
    }
}

/// A read-committed consumer of some logs.
#[derive(Default)]
pub(crate) struct FakeConsumer {
    pub(crate) logs: BTreeMap<(String, i32), Log>,
    /// The most records that a poll lends.
    pub(crate) max: usize,
    pub(crate) polls: usize,
    /// Topic, partition, position and whether it stands still.
    assigned: BTreeMap<Source, (String, i32, Offset, bool)>,
    lent: Lent,
    faults: Vec<(Source, broker::Error)>,
}

#[derive(Default)]
struct Lent(Vec<(Source, Entry)>);

impl Records for Lent {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, i: usize) -> Option<Record<'_>> {
        let (source, entry) = self.0.get(i)?;
        Some(Record {
            source: *source,
            leader_epoch: -1,
            offset: entry.offset,
            timestamp: entry.timestamp,
            key: entry.key.as_deref(),
            value: entry.value.as_deref(),
            headers: Headers::new(self, i),
        })
    }

    fn header(&self, i: usize, n: usize) -> Option<Header<'_>> {
        let (name, value) = self.0.get(i)?.1.headers.get(n)?;
        Some(Header { name, value: value.as_deref() })
    }
}

impl FakeConsumer {
    pub(crate) fn new(max: usize, logs: &[(&str, &Log)]) -> Self {
        let logs = logs.iter().map(|(topic, log)| ((topic.to_string(), 0), (*log).clone())).collect();
        Self { max, logs, ..Self::default() }
    }

    pub(crate) fn log(&mut self, topic: &str) -> &mut Log {
        self.logs.get_mut(&(topic.to_owned(), 0)).unwrap()
    }

    fn fill(&mut self, source: Source) {
        let (topic, partition, position, stands) = self.assigned.get_mut(&source).unwrap();
        let log = &self.logs[&(topic.clone(), *partition)];
        if *stands {
            return;
        }
        if *position < log.start || *position > log.end {
            *stands = true;
            self.faults.push((source, broker::Error::new(broker::ErrorKind::OutOfRange, "fetch")));
            return;
        }
        for entry in &log.entries {
            if entry.offset < *position || entry.offset >= log.stable_end() {
                continue;
            }
            if self.lent.0.len() >= self.max {
                return;
            }
            self.lent.0.push((source, entry.clone()));
            *position = entry.offset + 1;
        }
        *position = log.stable_end().max(*position);
    }
}

impl Consumer for FakeConsumer {
    fn assign(&mut self, changes: &[Change<'_>]) -> broker::Result<()> {
        for change in changes {
            match *change {
                Change::Add { source, topic, partition, from } => {
                    self.assigned.insert(source, (topic.to_owned(), partition, from, false));
                }
                Change::Remove(source) => drop(self.assigned.remove(&source)),
                _ => panic!("a restore adds and removes"),
            }
        }
        Ok(())
    }

    fn poll(&mut self, _: Duration) -> broker::Result<Batch<'_>> {
        self.polls += 1;
        self.lent.0.clear();
        self.faults.clear();
        let sources: Vec<_> = self.assigned.keys().copied().collect();
        sources.into_iter().for_each(|source| self.fill(source));
        Ok(Batch { records: &self.lent, faults: &self.faults })
    }

    fn position(&self, source: Source) -> Option<Offset> {
        self.assigned.get(&source).map(|(_, _, position, _)| *position)
    }

    fn known_end(&self, source: Source) -> Option<Offset> {
        let (topic, partition, ..) = self.assigned.get(&source)?;
        Some(self.logs[&(topic.clone(), *partition)].stable_end())
    }

    fn waker(&self) -> Waker {
        Waker::noop().clone()
    }
}
