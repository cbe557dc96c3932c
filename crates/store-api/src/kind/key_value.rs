//! The plain key-value store.

use std::ops::Bound;

use crate::{Cursor, Direction, Prefix, Range, Result, Row, Space, SpaceMut};

/// A row of a plain key-value store is a row of its space.
pub type KeyValueRow<'a> = Row<'a>;

/// A key-value store of bytes over a space, in the order of the keys' bytes. Cheap to make: one per access.
pub struct KeyValue<'a, S: ?Sized> {
    space: &'a mut S,
}

impl<S: ?Sized> std::fmt::Debug for KeyValue<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyValue").finish_non_exhaustive()
    }
}

impl<'a, S: Space + ?Sized> KeyValue<'a, S> {
    /// A view over `space`.
    pub fn new(space: &'a mut S) -> Self {
        Self { space }
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.space.get(key)
    }

    /// The rows between two bounds.
    pub fn range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Box<dyn Cursor + '_>> {
        self.space.scan(Range::new(lower, upper), direction)
    }

    /// All rows.
    pub fn all(&self, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.space.scan(Range::ALL, direction)
    }

    /// The rows whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: &[u8], direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.space.scan(Prefix::new(prefix).range(), direction)
    }

    /// About how many rows there are: what the shard says, by estimate, and what was written since. See
    /// [`Read::approximate_num_entries`](crate::Read::approximate_num_entries).
    pub fn approximate_num_entries(&self) -> Result<u64> {
        self.space.approximate_num_entries()
    }
}

impl<S: SpaceMut + ?Sized> KeyValue<'_, S> {
    /// Sets a key; reads nothing.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.space.put(key, Some(value))
    }

    /// Sets or, with `None`, deletes keys, in this order: a later row of a key wins. Reads nothing.
    pub fn put_all<'r>(&mut self, rows: impl IntoIterator<Item = (&'r [u8], Option<&'r [u8]>)>) -> Result<()> {
        rows.into_iter().try_for_each(|(key, value)| self.space.put(key, value))
    }

    /// Deletes a key; reads nothing.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.space.put(key, None)
    }

    /// Sets a key that has no value; answers whether it did.
    pub fn put_if_absent(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let absent = self.space.get(key)?.is_none();
        if absent {
            self.space.put(key, Some(value))?;
        }
        Ok(absent)
    }
}
