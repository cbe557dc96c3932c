//! Reads of a shard: the writer's, and those of other threads.

use std::sync::Arc;

use millpond_store_api::{Cursor, Direction, Range, Read, Result, ShardReader, SpaceId};

use crate::cursor::MemCursor;
use crate::shared::Shared;

/// A view for other threads.
pub(crate) struct MemReader(pub(crate) Arc<Shared>);

/// A walk over a space, for writer and readers alike.
pub(crate) fn scan<'a>(
    shared: &'a Shared,
    space: SpaceId,
    range: Range<'_>,
    direction: Direction,
) -> Result<Box<dyn Cursor + 'a>> {
    let position = shared.now("scan space")?.image().position(space, "scan space")?;
    Ok(Box::new(MemCursor::new(shared, position, range, direction)))
}

/// How many rows a space has, exactly: the tree keeps count.
pub(crate) fn count(shared: &Shared, space: SpaceId) -> Result<u64> {
    Ok(shared.now("count rows")?.image().map(space, "count rows")?.rows().len() as u64)
}

impl Read for MemReader {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // Copied, so that the caller's work keeps no writer waiting, and may read again without a deadlock.
        let value = self.0.now("get")?.image().map(space, "get")?.get(key).cloned();
        Ok(value.map(|value| found(value.as_slice())).is_some())
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        scan(&self.0, space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        count(&self.0, space)
    }
}

impl ShardReader for MemReader {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        Ok(self.0.now("ask for the committed position")?.image().metadata.clone())
    }
}
