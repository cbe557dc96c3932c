//! A shard without rows, for a graph that is built only to see whether it can be.

use std::sync::Arc;

use millpond_store_api::{
    Capabilities, Cursor, Direction, Empty, Flush, Range, Read, Result, Shard, ShardReader, SpaceId, Writes,
};

/// Holds nothing, keeps nothing.
pub(crate) struct Nothing;

impl Read for Nothing {
    fn get(&self, _: SpaceId, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn scan(&self, _: SpaceId, _: Range<'_>, _: Direction) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Empty))
    }
}

impl Shard for Nothing {
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn apply(&mut self, _: &mut dyn Writes, _: &[u8]) -> Result<()> {
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

impl ShardReader for Nothing {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        Ok(None)
    }
}
