//! Dropping rows from the low end of a space.

use millpond_store_api::{Range, Result, SpaceId};
use rocksdb::WriteBatch;

use crate::layout::{PLAIN, Place};
use crate::shard::RocksShard;

impl RocksShard {
    /// In the expiring space: deletes the files that hold nothing at or above the bound, always from the very beginning, so
    /// that a file which straddled an earlier bound goes now. No tombstone: reads never go below the bound, and a tombstone
    /// would tie every new file to the dead range. In a plain space: one range tombstone.
    pub(crate) fn expire(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        self.check_background()?;
        match self.database.spaces.place(space)? {
            Place::Expiring => {
                self.handle.raise_low(key);
                self.low = self.handle.low();
                match below(&self.low) {
                    Some(end) => self.database.delete_files_up_to(&end),
                    None => Ok(()),
                }
            }
            place @ Place::Plain(_) => {
                let all = place.bounds(Range::ALL, &[]);
                let mut batch = WriteBatch::default();
                place.with_key(key, |stored| {
                    batch.delete_range_cf(self.database.family(PLAIN), all.lower.as_slice(), stored);
                });
                self.database.write("drop rows", batch)?;
                self.handle.soil(|| self.shared.ports.monotonic());
                Ok(())
            }
        }
    }
}

/// A key shortly below `key`; none if there is nothing below.
///
/// RocksDB deletes files up to *and including* the end it is given, and a row at the bound is alive. Between the answer and
/// the bound only keys could lie that go on with many `FF`s, and their file would merely stay until the next bound.
fn below(key: &[u8]) -> Option<Vec<u8>> {
    let (last, head) = key.split_last()?;
    let mut below = head.to_vec();
    if let Some(smaller) = last.checked_sub(1) {
        below.push(smaller);
        below.extend_from_slice(&[0xFF; 16]);
    }
    Some(below)
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn the_end_of_deletion_lies_just_below_the_bound() {
        assert_eq!(below(b""), None);
        assert_eq!(below(&[0]), Some(vec![]));
        assert_eq!(below(&[5, 0]), Some(vec![5]));
        let end = below(&[0, 0, 0, 9]).unwrap();
        assert!(end.as_slice() < &[0, 0, 0, 9][..] && end.as_slice() > &[0, 0, 0, 8, 0xFF, 0xFF, 0xFF][..]);
    }
}
