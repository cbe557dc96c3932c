//! What a graph sees of its task: implements the port of `topology`.

use millpond_topology::{
    Dropped, HeldBack, NodeIndex, Out, Port, RecordMetadata, Result, Schedule, SinkIndex, StoreAccess, StoreIndex,
    TimerId,
};

use crate::exec::{Outbox, Routes};
use crate::state::DrainedEntry;
use crate::task::punctuate::Timers;
use crate::task::stores::{Moment, TaskStores};
use crate::task::{Drops, NodeTimes, foreign_store};

/// Where the record at hand comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordInfo<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// A task for the time of one record, punctuation, drained entry or row that is let through.
pub(crate) struct TaskPort<'a> {
    pub(crate) stores: &'a mut TaskStores,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) timers: &'a mut Timers,
    pub(crate) routes: &'a Routes,
    pub(crate) record: Option<RecordInfo<'a>>,
    pub(crate) timestamp: i64,
    pub(crate) stream_time: i64,
    pub(crate) wall: i64,
    pub(crate) commit_requested: &'a mut bool,
    pub(crate) drops: &'a mut Drops,
    pub(crate) times: &'a mut NodeTimes,
    /// The row that is let through.
    pub(crate) held: &'a mut DrainedEntry,
    pub(crate) idle_since: Option<i64>,
}

impl Port for TaskPort<'_> {
    fn store(&mut self, store: StoreIndex) -> Result<StoreAccess<'_>> {
        let at = Moment { timestamp: self.timestamp, stream_time: self.stream_time };
        self.stores.access(store, at).ok_or_else(|| foreign_store(store))
    }

    fn stores(&mut self, which: [Option<StoreIndex>; 4]) -> Result<[Option<StoreAccess<'_>>; 4]> {
        let at = Moment { timestamp: self.timestamp, stream_time: self.stream_time };
        self.stores.access_many(which, at)
    }

    fn cached(&self, store: StoreIndex) -> bool {
        self.stores.is_cached(store)
    }

    fn send(&mut self, out: &Out<'_>) -> Result<()> {
        self.outbox.push(out)
    }

    fn partitions(&mut self, sink: SinkIndex, topic: Option<&str>) -> Result<i32> {
        match topic {
            Some(topic) => self.outbox.met.find(topic).map(|met| met.partitions),
            None => Ok(self.routes.sinks.get(sink.0 as usize).and_then(Option::as_ref).map_or(1, |r| r.partitions)),
        }
    }

    fn metadata(&self) -> Option<RecordMetadata<'_>> {
        self.record.map(|r| RecordMetadata { topic: r.topic, partition: r.partition, offset: r.offset })
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
        self.timers.schedule(node, slot, schedule, self.wall)
    }

    fn cancel(&mut self, timer: TimerId) {
        self.timers.cancel(timer);
    }

    fn request_commit(&mut self) {
        *self.commit_requested = true;
    }

    fn dropped(&mut self, node: NodeIndex, why: Dropped) {
        self.drops.count(node, why);
    }

    fn advance(&mut self, node: NodeIndex, time: i64) -> i64 {
        self.times.advance(node, time)
    }

    fn node_time(&self, node: NodeIndex) -> Option<i64> {
        self.times.get(node)
    }

    fn lets_through(&mut self, row: &HeldBack<'_>) {
        self.held.hold(row);
        self.timestamp = row.timestamp;
    }

    fn released(&self, store: StoreIndex) -> Option<i64> {
        self.stores.released(store)
    }

    fn release(&mut self, store: StoreIndex, close: i64) {
        self.stores.release(store, close);
    }

    fn idle_since(&self) -> Option<i64> {
        self.idle_since
    }
}
