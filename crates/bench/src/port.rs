//! A port that keeps nothing: what is left is the graph's own cost.

use millpond_topology::{
    Dropped, Error, ErrorKind, HeldBack, NodeIndex, Out, Port, RecordMetadata, Result, Schedule, SinkIndex,
    StoreAccess, StoreIndex, TimerId,
};

/// A task without stores, timers and outputs. It counts what is sent, so that nothing can be left out.
#[derive(Debug, Default)]
pub struct NullPort {
    /// Records that sinks have handed over.
    pub sent: u64,
    /// Bytes of their keys and values.
    pub bytes: usize,
}

fn none(what: &'static str) -> Error {
    Error::new(ErrorKind::Topology, what).with("cause", "this port has none")
}

impl Port for NullPort {
    fn store(&mut self, _: StoreIndex) -> Result<StoreAccess<'_>> {
        Err(none("open a store"))
    }

    fn stores(&mut self, _: [Option<StoreIndex>; 4]) -> Result<[Option<StoreAccess<'_>>; 4]> {
        Err(none("open stores"))
    }

    fn cached(&self, _: StoreIndex) -> bool {
        false
    }

    fn send(&mut self, out: &Out<'_>) -> Result<()> {
        self.sent += 1;
        self.bytes += out.key.map_or(0, <[u8]>::len) + out.value.map_or(0, <[u8]>::len);
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
