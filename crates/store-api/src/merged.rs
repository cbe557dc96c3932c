//! A walk over rows and those that lie over them at once.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::{Cursor, Direction, Range, Result, Row};

/// A row that lies over others: its key, and its value, or none if it hides the key.
pub type RowAbove<'a> = (&'a [u8], Option<&'a [u8]>);

/// Rows that lie over others, such as writes that a shard does not have yet. They do not change while they are walked over.
pub trait Above<'a> {
    /// The rows of a range, from both ends.
    type Rows: DoubleEndedIterator<Item = RowAbove<'a>>;

    /// The rows in a range, in the order of their keys. Inverted and empty ranges have none.
    fn range(&self, range: Range<'_>) -> Self::Rows;
}

/// Which side the row that was lent last came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lent {
    Nothing,
    Base,
    Above,
    /// The row above, which hides the base's row of the same key.
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

/// A walk over two sides in one order; the rows above win, and hide what they have no value for.
pub struct Merged<'a, A: Above<'a>> {
    base: Box<dyn Cursor + 'a>,
    at: Base,
    above: A,
    rest: A::Rows,
    head: Option<RowAbove<'a>>,
    direction: Direction,
    /// The far end of the range, for seeks.
    far: Bound<Vec<u8>>,
    lent: Lent,
    /// Where to go on, from the last seek; looked at by `next` only, so that seeks in a row do not add up.
    target: Option<Vec<u8>>,
}

impl<'a, A: Above<'a>> std::fmt::Debug for Merged<'a, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Merged").field("direction", &self.direction).finish_non_exhaustive()
    }
}

impl<'a, A: Above<'a>> Merged<'a, A> {
    /// A walk over `base`, which was opened with the same range and direction, and the rows above in it.
    pub fn new(base: Box<dyn Cursor + 'a>, above: A, range: Range<'_>, direction: Direction) -> Self {
        let far = match direction {
            Direction::Forward => range.upper,
            Direction::Reverse => range.lower,
        };
        let rest = above.range(range);
        let mut merged = Self {
            base,
            at: Base::Stale,
            above,
            rest,
            head: None,
            direction,
            far: far.map(<[u8]>::to_vec),
            lent: Lent::Nothing,
            target: None,
        };
        merged.pull();
        merged
    }

    /// Moves the side above one row on.
    fn pull(&mut self) {
        self.head = match self.direction {
            Direction::Forward => self.rest.next(),
            Direction::Reverse => self.rest.next_back(),
        };
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
        if matches!(lent, Lent::Above | Lent::Both) {
            self.pull();
        }
    }

    /// Does what the last seek asked for. A side that lies behind the target already stays where it is.
    fn resolve(&mut self) -> Result<()> {
        let Some(target) = self.target.take() else { return Ok(()) };
        if self.head.is_some_and(|(key, _)| self.order(key, &target).is_lt()) {
            let (near, far) = (Bound::Included(target.as_slice()), self.far.as_ref().map(Vec::as_slice));
            self.rest = self.above.range(match self.direction {
                Direction::Forward => Range::new(near, far),
                Direction::Reverse => Range::new(far, near),
            });
            self.pull();
        }
        let base_before = match self.at {
            Base::Stale => true,
            Base::Ready => self.base.row().is_some_and(|row| self.order(row.key, &target).is_lt()),
            Base::Done => false,
        };
        if base_before {
            self.at = Base::Stale;
            let sought = self.base.seek(&target);
            if sought.is_err() {
                self.target = Some(target);
            }
            return sought;
        }
        Ok(())
    }

    /// The side that comes first.
    fn choose(&self) -> Lent {
        let base = if self.at == Base::Ready { self.base.row() } else { None };
        match (base, self.head) {
            (None, None) => Lent::Nothing,
            (Some(_), None) => Lent::Base,
            (None, Some(_)) => Lent::Above,
            (Some(row), Some((key, _))) => match self.order(row.key, key) {
                Ordering::Less => Lent::Base,
                Ordering::Equal => Lent::Both,
                Ordering::Greater => Lent::Above,
            },
        }
    }

    /// True if the row that would be lent is one that hides its key.
    fn hidden(&self) -> bool {
        matches!(self.lent, Lent::Above | Lent::Both) && matches!(self.head, Some((_, None)))
    }
}

impl<'a, A: Above<'a>> Cursor for Merged<'a, A> {
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
            Lent::Above | Lent::Both => self.head.and_then(|(key, value)| Some(Row { key, value: value? })),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let target = self.target.get_or_insert_default();
        target.clear();
        target.extend_from_slice(key);
        Ok(())
    }
}
