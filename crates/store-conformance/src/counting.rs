//! A space that counts how often a cursor is placed: once when it is opened, once for each seek.

use std::cell::Cell;

use millpond_store_api::{Cursor, Direction, Range, Result, Row, Space, SpaceMut};

/// Counts over another space.
pub(crate) struct Counting<'a> {
    space: &'a mut dyn SpaceMut,
    placed: &'a Cell<usize>,
}

impl<'a> Counting<'a> {
    pub(crate) fn new(space: &'a mut dyn SpaceMut, placed: &'a Cell<usize>) -> Self {
        Self { space, placed }
    }
}

impl Space for Counting<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.space.get(key)
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.placed.set(self.placed.get() + 1);
        Ok(Box::new(CountingCursor { cursor: self.space.scan(range, direction)?, placed: self.placed }))
    }

    fn touch(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.space.touch(keys)
    }

    fn approximate_num_entries(&self) -> Result<u64> {
        self.space.approximate_num_entries()
    }
}

impl SpaceMut for Counting<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.space.put(key, value)
    }
}

struct CountingCursor<'a> {
    cursor: Box<dyn Cursor + 'a>,
    placed: &'a Cell<usize>,
}

impl Cursor for CountingCursor<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        self.cursor.next()
    }

    fn row(&self) -> Option<Row<'_>> {
        self.cursor.row()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.placed.set(self.placed.get() + 1);
        self.cursor.seek(key)
    }
}
