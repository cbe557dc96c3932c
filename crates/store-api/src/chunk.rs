//! Rows copied out of a cursor, a chunk at a time: what lets a caller write between two rows of a walk.

use crate::{Cursor, Result, Row};

/// A few rows in one buffer, read again row by row.
#[derive(Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    /// Where each row's key and value end.
    ends: Vec<(usize, usize)>,
}

impl Chunk {
    /// Forgets the rows, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Copies a row behind the others.
    pub fn push(&mut self, row: Row<'_>) {
        self.bytes.extend_from_slice(row.key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(row.value);
        self.ends.push((key_end, self.bytes.len()));
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The row with number `i`, counted from 0.
    pub fn get(&self, i: usize) -> Option<Row<'_>> {
        let &(key_end, end) = self.ends.get(i)?;
        let start = match i.checked_sub(1) {
            Some(before) => self.ends.get(before)?.1,
            None => 0,
        };
        Some(Row { key: self.bytes.get(start..key_end)?, value: self.bytes.get(key_end..end)? })
    }

    /// The last row.
    pub fn last(&self) -> Option<Row<'_>> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Replaces the rows by up to `limit` of the cursor's; false if the cursor has ended before the limit.
    pub fn fill(&mut self, cursor: &mut dyn Cursor, limit: usize) -> Result<bool> {
        self.clear();
        while self.len() < limit {
            match cursor.next()? {
                Some(row) => self.push(row),
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunk").field("rows", &self.len()).field("bytes", &self.bytes.len()).finish()
    }
}
