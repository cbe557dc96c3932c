//! Lending cursors: one row at a time, nothing allocated per row.

use crate::Result;

/// A key and its value, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// The value's bytes.
    pub value: &'a [u8],
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row").field("key_len", &self.key.len()).field("value_len", &self.value.len()).finish()
    }
}

/// The order of a walk: by key bytes, ascending or descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the lower to the upper bound.
    Forward,
    /// From the upper to the lower bound; the exact mirror of [`Direction::Forward`].
    Reverse,
}

/// Lends one row at a time, in the direction and within the range it was opened with.
///
/// # Contract
///
/// * The cursor stands *before* the first row when it is opened.
/// * After the end, [`Cursor::next`] MUST answer `None` again and again.
/// * Rows MUST come in strict key order and MUST lie in the range.
///
/// # Threading
///
/// Neither `Send` nor `Sync`: no cursor outlives the call that opened it.
pub trait Cursor {
    /// Moves to the next row and lends it until the next call.
    fn next(&mut self) -> Result<Option<Row<'_>>>;

    /// The row that [`Cursor::next`] lent last, again; `None` before the first and after the end.
    ///
    /// Adaptors (merge, filter, decrypt) need it, because a conditional return of a lent row does not pass the borrow
    /// checker. It is not asked for between [`Cursor::seek`] and [`Cursor::next`].
    fn row(&self) -> Option<Row<'_>>;

    /// Makes the first row at or after `key` (in the cursor's direction) the one that [`Cursor::next`] lends next.
    ///
    /// It MUST NOT go back behind a row that was lent, and MUST NOT leave the range.
    fn seek(&mut self, key: &[u8]) -> Result<()>;
}

/// The cursor over nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Empty;

impl Cursor for Empty {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        Ok(None)
    }

    fn row(&self) -> Option<Row<'_>> {
        None
    }

    fn seek(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}
