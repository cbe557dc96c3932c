//! A walk over the rows of a shard and those staged over them at once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use millpond_store_api::{Cursor, Direction, Range, Result, Row};

/// Staged rows by key; `None` is a row that will be gone.
pub(super) type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Which side the row that was lent last came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lent {
    Nothing,
    Base,
    Staged,
    /// The staged row, which hides the base's row of the same key.
    Both,
}

/// Where the base stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// Its next row has to be asked for.
    Stale,
    /// Its row is the next one of this side, or was lent last.
    Ready,
    /// It has ended.
    Done,
}

/// A walk over both sides in one order; staged rows win.
pub(super) struct Merged<'a> {
    base: Box<dyn Cursor + 'a>,
    at: Base,
    rows: &'a Rows,
    rest: btree_map::Range<'a, Vec<u8>, Option<Vec<u8>>>,
    head: Option<(&'a [u8], Option<&'a [u8]>)>,
    direction: Direction,
    /// The far end of the range, for seeks.
    far: Bound<Vec<u8>>,
    lent: Lent,
    /// Where to go on, from the last seek; looked at by `next` only, so that seeks in a row do not add up.
    target: Option<Vec<u8>>,
}

impl<'a> Merged<'a> {
    /// A walk over `base`, which was opened with the same range and direction, and the staged rows in it.
    pub(super) fn new(base: Box<dyn Cursor + 'a>, rows: &'a Rows, range: Range<'_>, direction: Direction) -> Self {
        let far = match direction {
            Direction::Forward => range.upper,
            Direction::Reverse => range.lower,
        };
        let mut merged = Self {
            base,
            at: Base::Stale,
            rows,
            rest: in_range(rows, range),
            head: None,
            direction,
            far: far.map(<[u8]>::to_vec),
            lent: Lent::Nothing,
            target: None,
        };
        merged.pull();
        merged
    }

    /// Moves the staged side one row on.
    fn pull(&mut self) {
        let entry = match self.direction {
            Direction::Forward => self.rest.next(),
            Direction::Reverse => self.rest.next_back(),
        };
        self.head = entry.map(|(key, value)| (key.as_slice(), value.as_deref()));
    }

    /// How two keys follow each other in this walk.
    fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => a.cmp(b),
            Direction::Reverse => b.cmp(a),
        }
    }

    /// Takes what was lent off its side.
    fn consume(&mut self) {
        let lent = std::mem::replace(&mut self.lent, Lent::Nothing);
        if matches!(lent, Lent::Base | Lent::Both) {
            self.at = Base::Stale;
        }
        if matches!(lent, Lent::Staged | Lent::Both) {
            self.pull();
        }
    }

    /// Does what the last seek asked for. A side that lies behind the target already stays where it is.
    fn resolve(&mut self) -> Result<()> {
        let Some(target) = self.target.take() else { return Ok(()) };
        if self.head.is_some_and(|(key, _)| self.order(key, &target).is_lt()) {
            let (near, far) = (Bound::Included(target.as_slice()), self.far.as_ref().map(Vec::as_slice));
            let range = match self.direction {
                Direction::Forward => Range::new(near, far),
                Direction::Reverse => Range::new(far, near),
            };
            self.rest = in_range(self.rows, range);
            self.pull();
        }
        let base_before = match self.at {
            Base::Stale => true,
            Base::Ready => self.base.row().is_some_and(|row| self.order(row.key, &target).is_lt()),
            Base::Done => false,
        };
        if base_before {
            self.at = Base::Stale;
            self.base.seek(&target)?;
        }
        Ok(())
    }

    /// The side that comes first.
    fn choose(&self) -> Lent {
        let base = if self.at == Base::Ready { self.base.row() } else { None };
        match (base, self.head) {
            (None, None) => Lent::Nothing,
            (Some(_), None) => Lent::Base,
            (None, Some(_)) => Lent::Staged,
            (Some(row), Some((key, _))) => match self.order(row.key, key) {
                Ordering::Less => Lent::Base,
                Ordering::Equal => Lent::Both,
                Ordering::Greater => Lent::Staged,
            },
        }
    }

    /// True if the row that would be lent will be gone.
    fn hidden(&self) -> bool {
        matches!(self.lent, Lent::Staged | Lent::Both) && matches!(self.head, Some((_, None)))
    }
}

impl Cursor for Merged<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        loop {
            self.consume();
            self.resolve()?;
            if self.at == Base::Stale {
                self.at = if self.base.next()?.is_some() { Base::Ready } else { Base::Done };
            }
            self.lent = self.choose();
            if !self.hidden() {
                return Ok(self.row());
            }
        }
    }

    fn row(&self) -> Option<Row<'_>> {
        match self.lent {
            Lent::Nothing => None,
            Lent::Base => self.base.row(),
            Lent::Staged | Lent::Both => self.head.and_then(|(key, value)| Some(Row { key, value: value? })),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.target = Some(key.to_vec());
        Ok(())
    }
}

/// The rows in a range; inverted and empty ranges, at which the map would panic, have none.
fn in_range<'a>(rows: &'a Rows, range: Range<'_>) -> btree_map::Range<'a, Vec<u8>, Option<Vec<u8>>> {
    if range.is_empty() { btree_map::Range::default() } else { rows.range::<[u8], _>((range.lower, range.upper)) }
}

#[cfg(test)]
mod tests;
