//! What a task offers to the nodes of its graph: stores, outputs, timers and the record at hand. `runtime` implements it.

use millpond_store_api as store;
use store::{Chunk, Cursor, Direction, Empty, Range, Read, Space, SpaceMut};

use crate::error::Result;
use crate::headers::Headers;
use crate::put_log::PutLog;
use crate::round::HeldBack;

/// A store, by its place in [`Topology::stores`](crate::Topology::stores).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreIndex(pub u32);

/// A source, by its place in [`Topology::sources`](crate::Topology::sources).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceIndex(pub u32);

/// A sink, by its place in [`Topology::sinks`](crate::Topology::sinks).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SinkIndex(pub u32);

/// A node, by its place in the graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

/// A timer of a task, as [`Port::schedule`] numbers it; never used twice in a task's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TimerId(pub u64);

/// Which clock a punctuation follows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PunctuationType {
    /// The task's stream time: moves with records only.
    StreamTime,
    /// The wall clock: moves by itself.
    WallClockTime,
}

/// How often a punctuation runs, and by which clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// Milliseconds between two calls; at least 1. Missed calls collapse into one.
    pub every_ms: i64,
    /// The clock.
    pub by: PunctuationType,
    /// Calls are due at this time (milliseconds since 1970), and at whole intervals from it. `None`: by stream time at 0, by the
    /// wall clock one interval after the timer was started.
    pub start_ms: Option<i64>,
}

impl Schedule {
    /// Every so many milliseconds of the task's stream time.
    pub const fn stream_time_ms(every_ms: i64) -> Self {
        Self { every_ms, by: PunctuationType::StreamTime, start_ms: None }
    }

    /// Every so many milliseconds of the wall clock.
    pub const fn wall_clock_ms(every_ms: i64) -> Self {
        Self { every_ms, by: PunctuationType::WallClockTime, start_ms: None }
    }

    /// Due for the first time at `start_ms` (milliseconds since 1970), then at whole intervals from it (KIP-1146). If that has
    /// passed already, the first call is due when the clock moves on: by the wall clock a millisecond later.
    #[must_use]
    pub const fn starting_at(self, start_ms: i64) -> Self {
        Self { start_ms: Some(start_ms), ..self }
    }
}

/// The writable layer of a store over its shard: what the runtime's overlay is to the graph. `base` is the shard (or
/// whatever lies beneath), `self` what was written since the last commit.
pub trait Layer: Send {
    /// The current value; fills a cache slot and lends from it.
    fn get<'a>(&'a mut self, base: &dyn Read, key: &[u8]) -> store::Result<Option<&'a [u8]>>;

    /// Sets or deletes a key. `timestamp` is the event time of the update (milliseconds), for the changelog.
    fn put(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> store::Result<()>;

    /// A merged walk over the layer and its base; the range is not empty.
    fn scan<'a>(
        &'a self,
        base: &'a dyn Read,
        range: Range<'_>,
        direction: Direction,
    ) -> store::Result<Box<dyn Cursor + 'a>>;

    /// Fills cache slots for keys that will be read soon.
    fn touch(&mut self, base: &dyn Read, keys: &[&[u8]]) -> store::Result<()>;

    /// About how many keys have a value: those of the base by its own estimate, with what the layer changes about them.
    ///
    /// The default counts by a walk, which is exact and takes as long as one.
    fn approximate_num_entries(&self, base: &dyn Read) -> store::Result<u64> {
        let mut rows = self.scan(base, Range::ALL, Direction::Forward)?;
        let mut counted = 0;
        while rows.next()?.is_some() {
            counted += 1;
        }
        Ok(counted)
    }

    /// The keys in range that the layer itself holds uncommitted writes for, in order (values are left empty).
    fn written(&self, range: Range<'_>, direction: Direction, keys: &mut Chunk);

    /// What the layer alone knows of a key: `None`, nothing; `Some(None)`, that it has no value.
    fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>>;

    /// The number of the space in the shard that `base` is asked for.
    fn space(&self) -> store::SpaceId;
}

/// A store of the task, for one access: the layer exclusively, what lies beneath it shared with the task's other stores.
pub struct StoreAccess<'a> {
    /// What was written since the last commit.
    pub layer: &'a mut dyn Layer,
    /// The shard.
    pub base: &'a dyn Read,
    /// The event time that writes are marked with (milliseconds).
    pub timestamp: i64,
    /// What a store whose rows expire has beside; `None` for all others.
    pub expiry: Option<Expiry<'a>>,
}

/// What a store whose rows expire has beside its layer, for one access.
pub struct Expiry<'a> {
    /// The number that its rows carry in the windowed space.
    pub store: u16,
    /// Retention, history retention or time to live, in milliseconds.
    pub retention: i64,
    /// The greatest event time (milliseconds) that the store or its task has seen: what a view's `now` is. A view that puts
    /// raises it.
    pub observed: &'a mut i64,
    /// Rows from this time on are kept for the node that owns the store, although they may have expired for all others.
    pub kept: i64,
    /// How many puts were refused because they had expired; a view that is refused one raises it.
    pub refused: &'a mut u64,
    /// The number of the last put of a window store that retains duplicates, since its task has begun or gone back; 0 for none. A
    /// view that puts moves it on.
    pub numbered: &'a mut u32,
    /// The layer over the windowed space of a store that has rows in both (time to live, versions). Window and session
    /// stores have rows in that space only: there it is the layer itself, and this is `None`.
    pub windowed: Option<&'a mut dyn Layer>,
    /// Takes the puts of a versioned store with a changelog, whose rows are not the records of its log.
    pub puts: Option<&'a mut PutLog>,
}

impl std::fmt::Debug for StoreAccess<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreAccess").field("space", &self.layer.space()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Expiry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expiry").field("store", &self.store).field("observed", &self.observed).finish_non_exhaustive()
    }
}

impl StoreAccess<'_> {
    /// The store's space.
    #[inline]
    pub fn space(&mut self) -> LayerSpace<'_> {
        LayerSpace { layer: &mut *self.layer, base: self.base, timestamp: self.timestamp }
    }
}

/// A layer over what lies beneath it, as one space.
pub struct LayerSpace<'a> {
    /// What was written since the last commit.
    pub layer: &'a mut dyn Layer,
    /// The shard.
    pub base: &'a dyn Read,
    /// The event time that writes are marked with (milliseconds).
    pub timestamp: i64,
}

impl std::fmt::Debug for LayerSpace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerSpace").field("space", &self.layer.space()).finish_non_exhaustive()
    }
}

impl Space for LayerSpace<'_> {
    fn get(&mut self, key: &[u8]) -> store::Result<Option<&[u8]>> {
        self.layer.get(self.base, key)
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> store::Result<Box<dyn Cursor + '_>> {
        if range.is_empty() { Ok(Box::new(Empty)) } else { self.layer.scan(self.base, range, direction) }
    }

    fn touch(&mut self, keys: &[&[u8]]) -> store::Result<()> {
        self.layer.touch(self.base, keys)
    }

    fn approximate_num_entries(&self) -> store::Result<u64> {
        self.layer.approximate_num_entries(self.base)
    }
}

impl SpaceMut for LayerSpace<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> store::Result<()> {
        self.layer.put(key, value, self.timestamp)
    }
}

/// A record as a source gets it: bytes, lent.
#[derive(Clone, Copy)]
pub struct Raw<'a> {
    /// The key's bytes.
    pub key: Option<&'a [u8]>,
    /// The value's bytes.
    pub value: Option<&'a [u8]>,
    /// Event time in milliseconds since 1970, after the timestamp extractor.
    pub timestamp: i64,
    /// The headers, without the library's own.
    pub headers: &'a Headers,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Raw<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raw")
            .field("key_len", &self.key.map(<[u8]>::len))
            .field("value_len", &self.value.map(<[u8]>::len))
            .field("timestamp", &self.timestamp)
            .finish_non_exhaustive()
    }
}

/// A record that a sink hands over; the port copies it.
#[derive(Clone, Copy)]
pub struct Out<'a> {
    /// The sink.
    pub sink: SinkIndex,
    /// The topic's name, if the sink [chooses](crate::SinkTopic::Chosen) it for each record.
    pub topic: Option<&'a str>,
    /// The partition; `None`: by the default partitioner (murmur2 of [`Out::partitioned_by`]).
    pub partition: Option<i32>,
    /// The part of the key's bytes that the default partitioner goes by; `None`: all of them.
    pub partitioned_by: Option<&'a [u8]>,
    /// Event time in milliseconds since 1970.
    pub timestamp: i64,
    /// The key's bytes.
    pub key: Option<&'a [u8]>,
    /// The value's bytes.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: &'a Headers,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out")
            .field("sink", &self.sink)
            .field("key_len", &self.key.map(<[u8]>::len))
            .field("value_len", &self.value.map(<[u8]>::len))
            .finish_non_exhaustive()
    }
}

/// Where the record that is being processed comes from. A punctuation has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordMetadata<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// The record's own offset.
    pub offset: i64,
}

/// Why a record was dropped on purpose; counted as `dropped-records`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dropped {
    /// The key is null where a key is needed.
    NullKey,
    /// The value is null and the serde is a plain one.
    NullValue,
    /// The timestamp extractor gave a negative time.
    NegativeTimestamp,
    /// It came too late: the window or session that it belongs to has closed.
    Late,
}

impl Dropped {
    /// The reason's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NullKey => "null-key",
            Self::NullValue => "null-value",
            Self::NegativeTimestamp => "negative-timestamp",
            Self::Late => "late",
        }
    }
}

/// An entry of a cached store on its way out of the overlay.
#[derive(Clone, Copy)]
pub struct Drained<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// The value as it is now.
    pub new: Option<&'a [u8]>,
    /// The value that was forwarded last.
    pub old: Option<&'a [u8]>,
    /// The event time of the last write (milliseconds).
    pub timestamp: i64,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Drained<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drained")
            .field("key_len", &self.key.len())
            .field("new_len", &self.new.map(<[u8]>::len))
            .field("old_len", &self.old.map(<[u8]>::len))
            .finish_non_exhaustive()
    }
}

/// A task, as its graph sees it. One thread at a time.
///
/// What goes through the port during one record, punctuation, drained entry or row that is let through becomes part of the
/// task only when that has returned without error (the runtime keeps former values and outputs until then).
pub trait Port {
    /// Access to a store. An index that is not of this task is an error.
    fn store(&mut self, store: StoreIndex) -> Result<StoreAccess<'_>>;

    /// Access to up to four different stores at once, in the order asked for; the same one twice is an error.
    fn stores(&mut self, which: [Option<StoreIndex>; 4]) -> Result<[Option<StoreAccess<'_>>; 4]>;

    /// Whether writes of a store are held back, forwarded and logged later, by
    /// [`TaskGraph::drained`](crate::TaskGraph::drained). The same answer for the life of a graph instance.
    fn cached(&self, store: StoreIndex) -> bool;

    /// Takes a record that leaves the task. A topic that was chosen and is not there is an error of the record.
    fn send(&mut self, out: &Out<'_>) -> Result<()>;

    /// How many partitions the topic of a sink has, for partitioners; `topic` is as in [`Out::topic`].
    fn partitions(&mut self, sink: SinkIndex, topic: Option<&str>) -> Result<i32>;

    /// Where the record at hand comes from.
    fn metadata(&self) -> Option<RecordMetadata<'_>>;

    /// The event time of the record or row at hand, or the time a punctuation was called with (milliseconds).
    fn timestamp(&self) -> i64;

    /// The largest event time that the task has seen; -1 before the first record.
    fn stream_time(&self) -> i64;

    /// The wall clock (milliseconds since 1970).
    fn wall_time(&self) -> i64;

    /// Starts a timer of a node; `slot` tells the node's timers apart.
    fn schedule(&mut self, node: NodeIndex, slot: u32, schedule: Schedule) -> TimerId;

    /// Ends a timer. One that has ended is ignored.
    fn cancel(&mut self, timer: TimerId);

    /// Asks for a commit as soon as the record at hand is done.
    fn request_commit(&mut self);

    /// Counts a record that a node has dropped on purpose.
    fn dropped(&mut self, node: NodeIndex, why: Dropped);

    /// The time of a node (milliseconds since 1970) is at least this; answers what it is. Committed with the input offsets.
    fn advance(&mut self, node: NodeIndex, time: i64) -> i64;

    /// The time of a node: the greatest that it was [advanced](Port::advance) to; `None` if it never was.
    fn node_time(&self, node: NodeIndex) -> Option<i64>;

    /// The window close (milliseconds since 1970) up to which the final results of a store have been forwarded, or the rows of a
    /// suppression have become due; `None` if none were yet. Committed with the input offsets.
    fn released(&self, store: StoreIndex) -> Option<i64>;

    /// The final results of all windows that close up to `close` have been forwarded; of a suppression all up to there are due,
    /// and those that are still to be let through are in its buffer. Never goes back. The rows of a store that
    /// [holds](crate::StoreDef::hold) them may expire now.
    fn release(&mut self, store: StoreIndex, close: i64);

    /// What is forwarded next is this row, which the node has held back: its time is that of the call, and who is told of a
    /// failure is told its key, value and headers.
    fn lets_through(&mut self, row: &HeldBack<'_>);

    /// Since when (wall clock, milliseconds since 1970) the task has had nothing to read: all its inputs are at their ends and
    /// nothing waits. `None` while there is something.
    fn idle_since(&self) -> Option<i64>;
}
