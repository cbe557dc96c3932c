//! What store kinds stand on: one ordered map of bytes, wherever it lives.

use crate::shard::count;
use crate::{Cursor, Direction, Empty, List, Range, Read, Result, Shard, SpaceId, Write};

/// An ordered map of bytes that can be read: a space of a shard or of a reader, or the runtime's overlay over one.
pub trait Space {
    /// The value of a key. By `&mut`: it may fill a cache, and lends the bytes from there.
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>>;

    /// A walk; an [empty](Range::is_empty) range is a walk over nothing. By `&self`: a walk fills no cache.
    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>>;

    /// A hint that these keys will be read soon.
    fn touch(&mut self, keys: &[&[u8]]) -> Result<()>;

    /// About how many rows there are, as [`Read::approximate_num_entries`] means it.
    ///
    /// The default counts row by row, which is exact and takes as long as a walk over all of them.
    fn approximate_num_entries(&self) -> Result<u64> {
        count(&mut *self.scan(Range::ALL, Direction::Forward)?)
    }
}

/// A [`Space`] that can be written.
pub trait SpaceMut: Space {
    /// Sets or, with `None`, deletes a key. Visible to reads of the same space at once.
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()>;
}

/// A space of a shard or reader, for reading.
pub struct ShardSpace<'a> {
    read: &'a dyn Read,
    space: SpaceId,
    value: Vec<u8>,
}

impl<'a> ShardSpace<'a> {
    /// A view of one space.
    pub fn new(read: &'a dyn Read, space: SpaceId) -> Self {
        Self { read, space, value: Vec::new() }
    }
}

impl std::fmt::Debug for ShardSpace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardSpace").field("space", &self.space).finish_non_exhaustive()
    }
}

impl Space for ShardSpace<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        copy_value(self.read, self.space, key, &mut self.value)
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        if range.is_empty() { Ok(Box::new(Empty)) } else { self.read.scan(self.space, range, direction) }
    }

    fn touch(&mut self, _: &[&[u8]]) -> Result<()> {
        Ok(())
    }

    fn approximate_num_entries(&self) -> Result<u64> {
        self.read.approximate_num_entries(self.space)
    }
}

/// A space of a shard that is written at once, a batch per write with the metadata kept: for tools and conformance tests.
/// The library itself writes to a shard only at a commit.
pub struct DirectSpace<'a> {
    shard: &'a mut dyn Shard,
    space: SpaceId,
    value: Vec<u8>,
}

impl<'a> DirectSpace<'a> {
    /// Takes the shard for as long as the view lives.
    pub fn new(shard: &'a mut dyn Shard, space: SpaceId) -> Self {
        Self { shard, space, value: Vec::new() }
    }
}

impl std::fmt::Debug for DirectSpace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectSpace").field("space", &self.space).finish_non_exhaustive()
    }
}

impl Space for DirectSpace<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        copy_value(&*self.shard, self.space, key, &mut self.value)
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        if range.is_empty() { Ok(Box::new(Empty)) } else { self.shard.scan(self.space, range, direction) }
    }

    fn touch(&mut self, _: &[&[u8]]) -> Result<()> {
        Ok(())
    }

    fn approximate_num_entries(&self) -> Result<u64> {
        self.shard.approximate_num_entries(self.space)
    }
}

impl SpaceMut for DirectSpace<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let metadata = self.shard.committed().unwrap_or_default().to_vec();
        self.shard.apply(&mut List::new(&[Write { space: self.space, key, value }]), &metadata)
    }
}

/// A get into a buffer: the one copy that a visitor's value needs to be lent onwards.
fn copy_value<'b, R: Read + ?Sized>(
    read: &R,
    space: SpaceId,
    key: &[u8],
    value: &'b mut Vec<u8>,
) -> Result<Option<&'b [u8]>> {
    let found = read.get(space, key, &mut |bytes| {
        value.clear();
        value.extend_from_slice(bytes);
    })?;
    Ok(found.then_some(value.as_slice()))
}
