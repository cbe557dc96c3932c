//! Walks over the overlay and its base at once: the index of what is not applied, and the merging cursor.

use std::cmp::Ordering;
use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use millpond_store_api::{Cursor, Direction, Range, Result, Row};

use super::slab::{Slab, Slot};
use super::small::Small;

/// The slots that are not applied, by key. Built by the first scan of a commit interval, kept up to date until its end.
#[derive(Default)]
pub(super) struct Index {
    map: BTreeMap<Small, u32>,
    heap: usize,
}

impl Index {
    /// What an entry costs beside the heap block of its key: key, number and their part of a tree node.
    const FIXED: usize = size_of::<(Small, u32)>() + 16;

    pub(super) fn insert(&mut self, key: &[u8], slot: u32) {
        if !self.map.contains_key(key) {
            let key = Small::from(key);
            self.heap += key.heap();
            self.map.insert(key, slot);
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if let Some((key, _)) = self.map.remove_entry(key) {
            self.heap -= key.heap();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// What the index costs, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.heap + self.map.len() * Self::FIXED
    }

    /// The keys in a range; inverted and empty ranges, at which the map would panic, have none.
    fn range(&self, range: Range<'_>) -> btree_map::Range<'_, Small, u32> {
        if range.is_empty() {
            return btree_map::Range::default();
        }
        self.map.range::<[u8], _>((range.lower, range.upper))
    }

    /// Calls `each` with the keys in a range, in order.
    pub(super) fn keys(&self, range: Range<'_>, direction: Direction, each: &mut dyn FnMut(&[u8])) {
        let keys = self.range(range);
        match direction {
            Direction::Forward => keys.for_each(|(key, _)| each(key.as_slice())),
            Direction::Reverse => keys.rev().for_each(|(key, _)| each(key.as_slice())),
        }
    }
}

/// Which side the row that was lent last came from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lent {
    Nothing,
    Base,
    Mine,
    /// The overlay's row, which hides the base's row of the same key.
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

/// A walk over two sides in one order; the overlay's rows win, its absences hide.
pub(super) struct Merged<'a> {
    base: Box<dyn Cursor + 'a>,
    at: Base,
    index: &'a Index,
    slots: &'a Slab,
    rest: btree_map::Range<'a, Small, u32>,
    head: Option<&'a Slot>,
    direction: Direction,
    /// The far end of the range, for seeks.
    far: Bound<Vec<u8>>,
    lent: Lent,
    /// Where to go on, from the last seek; looked at by `next` only, so that seeks in a row do not add up.
    target: Option<Vec<u8>>,
}

impl<'a> Merged<'a> {
    /// A walk over `base`, which was opened with the same range and direction, and what the index has in it.
    pub(super) fn new(
        base: Box<dyn Cursor + 'a>,
        index: &'a Index,
        slots: &'a Slab,
        range: Range<'_>,
        direction: Direction,
    ) -> Self {
        let far = match direction {
            Direction::Forward => range.upper,
            Direction::Reverse => range.lower,
        };
        let mut merged = Self {
            base,
            at: Base::Stale,
            index,
            slots,
            rest: index.range(range),
            head: None,
            direction,
            far: far.map(<[u8]>::to_vec),
            lent: Lent::Nothing,
            target: None,
        };
        merged.pull();
        merged
    }

    /// Moves the overlay's side one row on.
    fn pull(&mut self) {
        let entry = match self.direction {
            Direction::Forward => self.rest.next(),
            Direction::Reverse => self.rest.next_back(),
        };
        self.head = entry.map(|(_, slot)| self.slots.at(*slot));
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
        if matches!(lent, Lent::Mine | Lent::Both) {
            self.pull();
        }
    }

    /// Does what the last seek asked for. A head that lies behind the target already stays where it is.
    fn resolve(&mut self) -> Result<()> {
        let Some(target) = self.target.take() else { return Ok(()) };
        let head_before = self.head.is_some_and(|slot| self.order(slot.key.as_slice(), &target).is_lt());
        if head_before {
            let (near, far) = (Bound::Included(target.as_slice()), self.far.as_ref().map(Vec::as_slice));
            self.rest = self.index.range(match self.direction {
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
            (None, Some(_)) => Lent::Mine,
            (Some(row), Some(slot)) => match self.order(row.key, slot.key.as_slice()) {
                Ordering::Less => Lent::Base,
                Ordering::Equal => Lent::Both,
                Ordering::Greater => Lent::Mine,
            },
        }
    }

    /// True if the row that would be lent is a key that the overlay says has no value.
    fn hidden(&self) -> bool {
        matches!(self.lent, Lent::Mine | Lent::Both) && self.head.is_some_and(|slot| slot.value.is_none())
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
            Lent::Mine | Lent::Both => {
                let slot = self.head?;
                Some(Row { key: slot.key.as_slice(), value: slot.value.as_ref()?.as_slice() })
            }
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let target = self.target.get_or_insert_default();
        target.clear();
        target.extend_from_slice(key);
        Ok(())
    }
}
