//! The cursor: rows are copied in chunks under the lock, and lent from the chunk.

use std::ops::Bound;

use millpond_store_api::{Chunk, Cursor, Direction, Range, Result, Row};

use crate::map::Map;
use crate::shared::Shared;
use crate::small::Small;

/// A walk that looks for one row shall not copy many.
const FIRST_CHUNK: usize = 2;
const GROWTH: usize = 4;
/// What bounds the time for which a chunk keeps the writer out.
const LARGEST_CHUNK: usize = 1024;
/// Larger values end a chunk early: a chunk of large rows shall not hold gigabytes.
const CHUNK_BYTES: usize = 1 << 20;

pub(crate) struct MemCursor<'a> {
    shared: &'a Shared,
    /// Where the space is in the shard's list.
    space: usize,
    /// What has not been copied yet.
    lower: Bound<Small>,
    upper: Bound<Small>,
    direction: Direction,
    chunk: Chunk,
    /// How many rows of the chunk were lent or passed.
    at: usize,
    /// The size of the next chunk; 0: there is none.
    want: usize,
    /// A row is lent, and it is the one before `at`.
    lent: bool,
}

impl<'a> MemCursor<'a> {
    pub(crate) fn new(shared: &'a Shared, space: usize, range: Range<'_>, direction: Direction) -> Self {
        let (lower, upper) = (range.lower.map(Small::new), range.upper.map(Small::new));
        let (chunk, at, want, lent) = (Chunk::default(), 0, FIRST_CHUNK, false);
        Self { shared, space, lower, upper, direction, chunk, at, want, lent }
    }

    /// Replaces the bound that the walk moves away from.
    fn go_on_from(&mut self, bound: Bound<Small>) {
        match self.direction {
            Direction::Forward => self.lower = bound,
            Direction::Reverse => self.upper = bound,
        }
    }

    fn passed(&self, row: &[u8], target: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => row < target,
            Direction::Reverse => row > target,
        }
    }

    /// True if nothing is left; `BTreeMap::range` panics at inverted bounds.
    fn is_empty(&self) -> bool {
        Range::new(self.lower.as_ref().map(Small::as_slice), self.upper.as_ref().map(Small::as_slice)).is_empty()
    }

    fn refill(&mut self) -> Result<()> {
        self.chunk.clear();
        self.at = 0;
        if self.want == 0 || self.is_empty() {
            self.want = 0;
            return Ok(());
        }
        let now = self.shared.now("scan space")?;
        let ended = copy(
            now.image().at(self.space),
            (self.lower.as_ref(), self.upper.as_ref()),
            self.direction,
            self.want,
            &mut self.chunk,
        );
        drop(now);
        self.want = if ended { 0 } else { (self.want * GROWTH).min(LARGEST_CHUNK) };
        if let Some(last) = self.chunk.last().map(|row| Small::new(row.key)) {
            self.go_on_from(Bound::Excluded(last));
        }
        Ok(())
    }
}

/// Copies up to `limit` rows; answers whether these were the last.
fn copy(
    map: &Map,
    range: (Bound<&Small>, Bound<&Small>),
    direction: Direction,
    limit: usize,
    chunk: &mut Chunk,
) -> bool {
    let mut bytes = 0;
    let mut take = |rows: &mut dyn Iterator<Item = (&Small, &Small)>| {
        for (key, value) in rows {
            let row = Row { key: key.as_slice(), value: value.as_slice() };
            chunk.push(row);
            bytes += row.key.len() + row.value.len();
            if chunk.len() == limit || bytes >= CHUNK_BYTES {
                return false;
            }
        }
        true
    };
    let mut rows = map.rows().range::<Small, _>(range);
    match direction {
        Direction::Forward => take(&mut rows),
        Direction::Reverse => take(&mut rows.rev()),
    }
}

impl Cursor for MemCursor<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        if self.at == self.chunk.len() {
            self.lent = false;
            self.refill()?;
        }
        let row = self.chunk.get(self.at);
        self.lent = row.is_some();
        self.at += usize::from(self.lent);
        Ok(row)
    }

    fn row(&self) -> Option<Row<'_>> {
        if self.lent { self.chunk.get(self.at.checked_sub(1)?) } else { None }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.lent = false;
        // The first row of the chunk's rest that lies at the target or beyond it: the chunk is in order.
        let mut beyond = self.chunk.len();
        while self.at < beyond {
            let middle = self.at.midpoint(beyond);
            match self.chunk.get(middle) {
                Some(row) if self.passed(row.key, key) => self.at = middle + 1,
                _ => beyond = middle,
            }
        }
        if self.at < self.chunk.len() {
            return Ok(());
        }
        let near = match self.direction {
            Direction::Forward => &self.lower,
            Direction::Reverse => &self.upper,
        };
        let ahead = match near {
            Bound::Included(bound) | Bound::Excluded(bound) => self.passed(bound.as_slice(), key),
            Bound::Unbounded => true,
        };
        if ahead && self.want > 0 {
            self.go_on_from(Bound::Included(Small::new(key)));
            self.want = FIRST_CHUNK;
        }
        Ok(())
    }
}
