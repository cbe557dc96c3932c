//! What all scans are: two sorted lists, merged, with chunks read from the shard.

use std::cmp::Ordering;

use millpond_store_api as store;
use store::{Chunk, Direction, Range, Row};

use crate::error::Result;
use crate::port::{Layer, StoreAccess};

/// Rows of a store that a walk goes over, and how they are read.
pub(crate) trait Stretch {
    /// So many bytes of a row's key stand before those that the rows are in the order of.
    const HEAD: usize;

    fn direction(&self) -> Direction;

    /// Replaces the rows by up to `limit` of the shard's, those behind the row `after`; false if there are no more.
    fn read(&self, access: &StoreAccess<'_>, after: Option<&[u8]>, limit: usize, rows: &mut Chunk) -> Result<bool>;
}

/// Rows in the first chunk of a walk, and in the largest: a scan that ends early reads little.
pub(crate) const CHUNK: (usize, usize) = (16, 1024);

/// A walk over the keys that the layer had writes for when it began, and over the shard's rows. The shard does not change
/// between commits, and a call is never cut by one, so it may be read in chunks.
pub(crate) struct Walk<S> {
    stretch: S,
    /// Keys with a mark as value: whether the key had a value then.
    written: Chunk,
    next_written: usize,
    base: Chunk,
    next_base: usize,
    base_ended: bool,
    limit: usize,
}

/// The marks of keys that the layer has writes for.
const LIVE: &[u8] = &[1];
const DEAD: &[u8] = &[];

/// The keys in a range that the layer has writes for, with marks as values: whether there is a value, and it is `live`. The
/// range is not empty.
pub(crate) fn marked(layer: &dyn Layer, range: Range<'_>, direction: Direction, live: impl Fn(&[u8]) -> bool) -> Chunk {
    let (mut keys, mut marked) = (Chunk::default(), Chunk::default());
    layer.written(range, direction, &mut keys);
    for key in (0..keys.len()).filter_map(|i| keys.get(i)).map(|row| row.key) {
        let is_live = layer.peek(key).flatten().is_some_and(&live);
        marked.push(Row { key, value: if is_live { LIVE } else { DEAD } });
    }
    marked
}

impl<S: Stretch> Walk<S> {
    /// A walk over keys with marks, and over the shard's rows: first those in `base`, which may be merged with the layer's
    /// already, then, unless that was all, those behind them.
    pub(crate) fn new(stretch: S, written: Chunk, base: Chunk, base_ended: bool) -> Self {
        let (first, largest) = CHUNK;
        let limit = if base.is_empty() { first } else { (base.len() * 4).min(largest) };
        Self { stretch, written, next_written: 0, base, next_base: 0, base_ended, limit }
    }

    pub(crate) fn stretch(&self) -> &S {
        &self.stretch
    }

    /// Moves to the next row that is still there, and reads it. `was_there` says of a row of the shard whether it was there
    /// when the walk began; `read` answers `None` for one that is not there any more.
    pub(crate) fn step<R>(
        &mut self,
        access: &mut StoreAccess<'_>,
        was_there: impl Fn(&[u8]) -> Result<bool>,
        mut read: impl FnMut(&[u8], &[u8]) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        loop {
            if self.next_base >= self.base.len() && !self.base_ended {
                self.refill(access)?;
            }
            let (written, base) = (self.written.get(self.next_written), self.base.get(self.next_base));
            let order = match (written, base) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(w), Some(b)) if self.stretch.direction() == Direction::Forward => order::<S>(w, b),
                (Some(w), Some(b)) => order::<S>(b, w),
            };
            self.next_written += usize::from(order != Ordering::Greater);
            self.next_base += usize::from(order != Ordering::Less);
            let row = match (order, written, base) {
                (Ordering::Greater, _, Some(row)) if was_there(row.value)? => match access.layer.peek(row.key) {
                    Some(Some(value)) => read(row.key, value)?,
                    Some(None) => None,
                    None => read(row.key, row.value)?,
                },
                (Ordering::Less | Ordering::Equal, Some(row), _) if row.value == LIVE => {
                    match access.layer.get(access.base, row.key)? {
                        Some(value) => read(row.key, value)?,
                        None => None,
                    }
                }
                _ => None,
            };
            if row.is_some() {
                return Ok(row);
            }
        }
    }

    /// Replaces the chunk by the one behind it.
    fn refill(&mut self, access: &StoreAccess<'_>) -> Result {
        let last = self.base.last().map(|row| row.key.to_vec());
        self.next_base = 0;
        self.base_ended = !self.stretch.read(access, last.as_deref(), self.limit, &mut self.base)?;
        let (_, largest) = CHUNK;
        self.limit = (self.limit * 4).min(largest);
        Ok(())
    }
}

/// The order of two rows, by what stands behind their heads.
fn order<S: Stretch>(a: Row<'_>, b: Row<'_>) -> Ordering {
    a.key.get(S::HEAD..).cmp(&b.key.get(S::HEAD..))
}
