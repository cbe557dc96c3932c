//! A cursor that may be wrong.

use std::ops::Bound;

use millpond_store_api::{Cursor, Direction, Range, Result, Row};

use super::Fault;

/// Passes rows on, but for one.
pub(super) struct FaultyCursor<'a> {
    inner: Box<dyn Cursor + 'a>,
    skips_after_seek: bool,
    /// The key of a row that is never lent.
    hidden: Option<Vec<u8>>,
    /// The next row is to be left out.
    skip: bool,
}

impl<'a> FaultyCursor<'a> {
    pub(super) fn new(inner: Box<dyn Cursor + 'a>, fault: Fault, range: Range<'_>, direction: Direction) -> Self {
        let hidden = match (fault, direction, range.lower) {
            (Fault::ReverseIsNotTheMirror, Direction::Reverse, Bound::Included(key)) => Some(key.to_vec()),
            _ => None,
        };
        Self { inner, skips_after_seek: fault == Fault::RowSkippedAfterSeek, hidden, skip: false }
    }
}

impl Cursor for FaultyCursor<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        if std::mem::take(&mut self.skip) {
            self.inner.next()?;
        }
        let is_hidden = self.inner.next()?.is_some_and(|row| self.hidden.as_deref() == Some(row.key));
        if is_hidden { self.inner.next() } else { Ok(self.inner.row()) }
    }

    fn row(&self) -> Option<Row<'_>> {
        self.inner.row()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.skip = self.skips_after_seek;
        self.inner.seek(key)
    }
}
