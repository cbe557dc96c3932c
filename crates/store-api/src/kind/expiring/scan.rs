//! A scan of a window or session store: what is asked for, and the rows that are.

use super::Keys;
use super::walk::Walk;
use crate::schema::{ExpiringKey, SuffixKind};
use crate::{Result, Row};

/// What a scan is asked for.
#[derive(Clone, Copy)]
pub(in crate::kind) struct Span<'a> {
    pub(in crate::kind) keys: Keys<'a>,
    /// The times by which rows expire, both included.
    pub(in crate::kind) from: i64,
    pub(in crate::kind) to: i64,
    /// The greatest second time, of rows that have two.
    pub(in crate::kind) second_to: i64,
}

/// Lends the rows of a span in order.
pub(in crate::kind) struct Scan<'a> {
    walk: Walk<'a>,
    kind: SuffixKind,
    from: i64,
    to: i64,
    second_to: i64,
    key: Vec<u8>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(walk: Walk<'a>, kind: SuffixKind, span: &Span<'_>) -> Self {
        Self { walk, kind, from: span.from, to: span.to, second_to: span.second_to, key: Vec::new() }
    }

    /// The next row, its key decoded; after the end `None` again and again.
    pub(in crate::kind) fn next(&mut self) -> Result<Option<(ExpiringKey<'_>, &[u8])>> {
        // A row that is lent cannot be returned from within the loop that looks for it.
        while let Some(row) = self.walk.next()? {
            let suffix = ExpiringKey::decode(self.kind, row.key, &mut self.key)?.suffix;
            if self.from <= suffix.time() && suffix.time() <= self.to && suffix.second() <= self.second_to {
                break;
            }
        }
        let Some(Row { key, value }) = self.walk.row() else { return Ok(None) };
        Ok(Some((ExpiringKey::decode(self.kind, key, &mut self.key)?, value)))
    }

    /// The row that was lent last, as it lies in the space.
    pub(in crate::kind) fn raw(&self) -> Option<Row<'_>> {
        self.walk.row()
    }

    /// Where the row that was lent last stands among the store's rows.
    pub(in crate::kind) fn place(&self) -> Option<&[u8]> {
        self.walk.row()?.key.get(ExpiringKey::HEAD..)
    }
}

/// The last `len` bytes, or all if there are less.
pub(super) fn tail(bytes: &[u8], len: usize) -> &[u8] {
    bytes.split_at_checked(bytes.len().saturating_sub(len)).map_or(bytes, |(_, tail)| tail)
}
