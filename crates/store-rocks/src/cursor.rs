//! The lending cursor over RocksDB's own iterator.

use std::cmp::Ordering;

use millpond_store_api::{Cursor, Direction, Result, Row};
use rocksdb::{DBRawIterator, ReadOptions};

use crate::error::rocks;
use crate::layout::{Bounds, Place, window_prefix};

/// A walk over the rows of one moment.
pub(crate) struct RocksCursor<'a> {
    rows: DBRawIterator<'a>,
    space: Place,
    bounds: Bounds,
    direction: Direction,
    state: State,
    /// The stored key to seek; kept for its memory.
    target: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first row.
    Before,
    /// The iterator stands on the row that is lent.
    Lent,
    /// A seek has placed the iterator; what it stands on, if anything, is next.
    Placed,
    /// A seek has left the range; nothing is next.
    Outside,
    /// `next` has said that there is no more, and will go on saying so.
    Ended,
}

impl<'a> RocksCursor<'a> {
    /// Opens `rows` with the options, once they say what the walk needs.
    pub(crate) fn new(
        rows: impl FnOnce(ReadOptions) -> DBRawIterator<'a>,
        mut options: ReadOptions,
        space: Place,
        bounds: Bounds,
        direction: Direction,
    ) -> Self {
        options.set_iterate_lower_bound(bounds.lower.as_slice());
        if let Some(upper) = &bounds.upper {
            options.set_iterate_upper_bound(upper.as_slice());
        }
        if space == Place::Expiring {
            // With a prefix extractor a walk sees other prefixes only if it says so.
            if direction == Direction::Forward && within_one_prefix(&bounds) {
                options.set_prefix_same_as_start(true);
            } else {
                options.set_total_order_seek(true);
            }
        }
        Self { rows: rows(options), space, bounds, direction, state: State::Before, target: Vec::new() }
    }

    /// How `a` lies to `b` in the direction of the walk.
    fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => a.cmp(b),
            Direction::Reverse => b.cmp(a),
        }
    }

    fn first(&mut self) {
        match self.direction {
            Direction::Forward => self.rows.seek(&self.bounds.lower),
            Direction::Reverse => self.rows.seek_to_last(),
        }
    }

    fn step(&mut self) {
        match self.direction {
            Direction::Forward => self.rows.next(),
            Direction::Reverse => self.rows.prev(),
        }
    }

    /// Places the iterator at the first row at or after the target.
    fn place(&mut self) -> State {
        let below = self.target < self.bounds.lower;
        let above = self.bounds.upper.as_ref().is_some_and(|upper| self.target >= *upper);
        match self.direction {
            Direction::Forward if above => return State::Outside,
            Direction::Reverse if below => return State::Outside,
            Direction::Forward if below => self.first(),
            Direction::Reverse if above => self.first(),
            Direction::Forward => self.rows.seek(&self.target),
            Direction::Reverse => self.rows.seek_for_prev(&self.target),
        }
        State::Placed
    }
}

impl Cursor for RocksCursor<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        match self.state {
            State::Before => self.first(),
            State::Lent => self.step(),
            State::Placed => {}
            State::Outside | State::Ended => {
                self.state = State::Ended;
                return Ok(None);
            }
        }
        if self.rows.valid() {
            self.state = State::Lent;
            return Ok(self.row());
        }
        self.state = State::Ended;
        self.rows.status().map_err(|e| rocks("scan rows", e))?;
        Ok(None)
    }

    fn row(&self) -> Option<Row<'_>> {
        if self.state != State::Lent {
            return None;
        }
        let (key, value) = self.rows.item()?;
        Some(Row { key: key.get(self.space.prefix().len()..)?, value })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let mut target = std::mem::take(&mut self.target);
        target.clear();
        target.extend_from_slice(self.space.prefix());
        target.extend_from_slice(key);
        self.target = target;
        let ahead = match self.state {
            State::Before => true,
            // Never back: not behind a row that was lent, nor behind the one that is next anyway.
            State::Lent | State::Placed => {
                self.rows.key().is_some_and(|at| self.order(&self.target, at) == Ordering::Greater)
            }
            State::Outside | State::Ended => false,
        };
        if ahead {
            self.state = self.place();
        }
        Ok(())
    }
}

/// True if all keys of the range have the prefix that the family's filters know.
fn within_one_prefix(bounds: &Bounds) -> bool {
    let Some(prefix) = window_prefix(&bounds.lower) else { return false };
    // A key with the prefix goes on behind it, so the range must end in it or right behind its last key.
    bounds.upper.as_ref().is_some_and(|upper| {
        upper.starts_with(prefix)
            || millpond_store_api::Prefix::new(prefix).range().upper == std::ops::Bound::Excluded(upper)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_are_used_within_one_prefix_only() {
        let prefix = [0, 0, 0, 9, 0, 1, 7, 0, 1];
        let bounds =
            |lower: &[u8], upper: Option<&[u8]>| Bounds { lower: lower.to_vec(), upper: upper.map(<[u8]>::to_vec) };
        let with = |tail: &[u8]| [&prefix[..], tail].concat();
        assert!(within_one_prefix(&bounds(&with(&[1]), Some(&with(&[9])))));
        assert!(within_one_prefix(&bounds(&prefix, Some(&[0, 0, 0, 9, 0, 1, 7, 0, 2]))));
        assert!(!within_one_prefix(&bounds(&prefix, Some(&[0, 0, 0, 9, 0, 1, 7, 0, 3]))));
        assert!(!within_one_prefix(&bounds(&prefix, None)));
        assert!(!within_one_prefix(&bounds(&prefix[..8], Some(&prefix))));
    }
}
