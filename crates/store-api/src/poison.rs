//! The library's own wrapper around every shard: after a failed write no further write is let through.

use std::path::Path;
use std::sync::Arc;

use crate::{
    Capabilities, Cursor, Direction, Error, ErrorKind, Flush, Range, Read, Result, Shard, ShardReader, SpaceId, Writes,
};

/// A shard that refuses every write after a failed one, as [`ErrorKind::Poisoned`].
///
/// What a failed write or flush left behind is unknown, so the only ways on are [`Shard::close`] and [`Shard::destroy`].
/// Reads go on; an answer of [`ErrorKind::Unsupported`] or [`ErrorKind::Retry`] (nothing was written) poisons nothing.
pub struct Poison {
    inner: Box<dyn Shard>,
    poisoned: bool,
}

impl Poison {
    /// Wraps a shard.
    pub fn new(inner: Box<dyn Shard>) -> Self {
        Self { inner, poisoned: false }
    }

    fn guard<'a, T>(&'a mut self, op: &'static str, write: impl FnOnce(&'a mut dyn Shard) -> Result<T>) -> Result<T> {
        if self.poisoned {
            return Err(Error::new(ErrorKind::Poisoned, op));
        }
        let poisoned = &mut self.poisoned;
        write(&mut *self.inner)
            .inspect_err(|e| *poisoned = !matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::Retry))
    }
}

impl std::fmt::Debug for Poison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poison").field("poisoned", &self.poisoned).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Read for Poison {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(space, key, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.inner.multi_get(space, keys, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.inner.scan(space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.inner.approximate_num_entries(space)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Shard for Poison {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        self.guard("apply batch", |shard| shard.apply(writes, metadata))
    }

    fn committed(&self) -> Option<&[u8]> {
        self.inner.committed()
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        self.guard("ask for the durable position", |shard| shard.durable())
    }

    fn flush(&mut self, how: Flush) -> Result<()> {
        self.guard("flush shard", |shard| shard.flush(how))
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        self.guard("drop expired rows", |shard| shard.drop_below(space, key))
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        self.inner.reader()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        self.inner.destroy()
    }

    fn checkpoint(&mut self, to: &Path) -> Result<()> {
        self.guard("checkpoint", |shard| shard.checkpoint(to))
    }
}
