//! Readers: the committed state for other threads.

use std::sync::Arc;

use millpond_store_api::{Cursor, Direction, Range, Read, Result, ShardReader, SpaceId};

use crate::shared::Shared;

/// Reads the newest snapshot; each walk stays at the one it began with.
pub(crate) struct CustomReader(pub(crate) Arc<Shared>);

impl Read for CustomReader {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.0.now("get")?.get(space, key, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.0.now("get")?.multi_get(space, keys, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.0.now("scan")?.scan(space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.0.now("count rows")?.count(space)
    }
}

impl ShardReader for CustomReader {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        Ok(self.0.now("read metadata")?.metadata().cloned())
    }
}
