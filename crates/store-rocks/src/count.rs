//! About how many rows a space has.
//!
//! RocksDB's own estimate is of a whole family, which many spaces share. So a space's first rows are counted, and what they
//! take in the files is compared with what the whole space takes there. What is in memtables only, which are small, is
//! counted.

use millpond_store_api::{Cursor, Direction, Range, Result, SpaceId};
use rocksdb::{ReadOptions, ReadTier};

use crate::database::Database;
use crate::layout::{Bounds, Place};

/// A space with no more rows is counted row by row. Enough of them that a block of a file more or less is a few per cent.
const HEAD: u64 = 10_000;

/// The end of a space that nothing comes behind, since a range of files needs one.
const END: [u8; 64] = [0xFF; 64];

/// The rows that a walk met.
#[derive(Clone, Copy, Default)]
struct Counted {
    rows: u64,
    bytes: u64,
}

impl Database {
    /// About how many rows a space has; exact up to [`HEAD`] of them. Takes some milliseconds.
    ///
    /// Above that it assumes that the first rows are like the others: as large, and as often replaced since their last
    /// compaction.
    pub(crate) fn approximate_num_entries(&self, space: SpaceId, low: &[u8]) -> Result<u64> {
        let place = self.spaces.place(space)?;
        let all = place.bounds(Range::ALL, low);
        let mut rows = self.scan(space, Range::ALL, Direction::Forward, low)?;
        let (mut head, mut end) = (Counted::default(), Vec::new());
        while let Some(row) = rows.next()? {
            if head.rows == HEAD {
                return self.estimate(place, all, head, end);
            }
            head.rows += 1;
            head.bytes += (row.key.len() + row.value.len()) as u64;
            if head.rows == HEAD {
                end = [place.prefix(), row.key, &[0]].concat();
            }
        }
        Ok(head.rows)
    }

    /// How many rows there are, from those below `end`.
    fn estimate(&self, place: Place, all: Bounds, head: Counted, end: Vec<u8>) -> Result<u64> {
        let last = all.upper.as_deref().unwrap_or(&END);
        let [head_bytes, all_bytes] = [&end, last].map(|end| self.bytes_in_files(place, &all.lower, end));
        let head_bounds = Bounds { lower: all.lower.clone(), upper: Some(end) };
        let in_memtables = self.count_memtables(place, all)?;
        // Those of the head that files alone have stand for its bytes in the files.
        let head_in_files = head.rows.saturating_sub(self.count_memtables(place, head_bounds)?);
        let in_files = if head_in_files > 0 && head_bytes > 0 {
            scaled(head_in_files, all_bytes, head_bytes)
        } else {
            // The first rows are not in files yet: by what they take, as if nothing were compressed.
            scaled(head.rows, all_bytes, head.bytes.max(1))
        };
        Ok(in_memtables.saturating_add(in_files).max(head.rows))
    }

    /// The rows that memtables have a value for.
    fn count_memtables(&self, place: Place, bounds: Bounds) -> Result<u64> {
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Memtable);
        let mut rows = self.walk(options, place, bounds, Direction::Forward);
        let mut counted = 0;
        while rows.next()?.is_some() {
            counted += 1;
        }
        Ok(counted)
    }
}

/// `rows * part / whole`, at most what a number holds.
fn scaled(rows: u64, part: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(rows) * u128::from(part) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn b126_an_estimate_never_overflows() {
        assert_eq!(scaled(u64::MAX, u64::MAX, 1), u64::MAX);
        assert_eq!(scaled(u64::MAX, 2, 2), u64::MAX);
        assert_eq!((scaled(10, 30, 20), scaled(10, 0, 20), scaled(10, 5, 0)), (15, 0, 50));
    }
}
