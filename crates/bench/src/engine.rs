//! The engines that the benches compare, one of which does nothing.

use std::sync::Arc;

use millpond_example_custom_engine::CustomEngine;
use millpond_store_api::{
    Capabilities, Cursor, Direction, Empty, Engine, Flush, Range, Read, Result, Shard, ShardReader, ShardSpec, SpaceId,
    Writes,
};
use millpond_store_mem::MemEngine;
use millpond_store_rocks::{RocksEngine, RocksSettings};

/// Where a job's state lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// A shard that answers at once and keeps nothing: what is left is the library's own cost.
    Null,
    /// Ordered maps in memory.
    Mem,
    /// RocksDB.
    Rocks,
    /// The example of an engine by somebody else: redb.
    Custom,
}

impl EngineKind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Mem => "mem",
            Self::Rocks => "rocks",
            Self::Custom => "custom",
        }
    }

    pub(crate) fn open(self) -> Arc<dyn Engine> {
        match self {
            Self::Null => Arc::new(Null),
            Self::Mem => Arc::new(MemEngine::default()),
            Self::Rocks => {
                let settings = RocksSettings { shards: 1, ..RocksSettings::default() };
                Arc::new(RocksEngine::new(settings).expect("the default settings are sensible"))
            }
            Self::Custom => Arc::new(CustomEngine::default()),
        }
    }
}

/// The engine that does nothing, and its shards: no key has a value, and a batch is walked through once, as every engine
/// has to.
#[derive(Clone, Copy, Debug)]
pub struct Null;

impl Engine for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn persistent(&self) -> bool {
        false
    }

    fn open(&self, _: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        Ok(Box::new(Self))
    }
}

impl Read for Null {
    fn get(&self, _: SpaceId, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn scan(&self, _: SpaceId, _: Range<'_>, _: Direction) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Empty))
    }
}

impl Shard for Null {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn apply(&mut self, writes: &mut dyn Writes, _: &[u8]) -> Result<()> {
        while writes.next().is_some() {}
        Ok(())
    }

    fn committed(&self) -> Option<&[u8]> {
        None
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        Ok(None)
    }

    fn flush(&mut self, _: Flush) -> Result<()> {
        Ok(())
    }

    fn drop_below(&mut self, _: SpaceId, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        Arc::new(Self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl ShardReader for Null {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        Ok(None)
    }
}
