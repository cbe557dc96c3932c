//! Walks over the overlay and its base at once: the index of what is not applied, as the side above.

use std::collections::{BTreeMap, btree_map};

use millpond_store_api::{self as store, Above, Direction, Range, RowAbove};

use super::slab::Slab;
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

/// A walk over the overlay and its base; the overlay's rows win, its absences hide.
pub(super) type Merged<'a> = store::Merged<'a, Unapplied<'a>>;

/// What is not applied, as what lies above the base.
pub(super) struct Unapplied<'a> {
    pub(super) index: &'a Index,
    pub(super) slots: &'a Slab,
}

impl<'a> Above<'a> for Unapplied<'a> {
    type Rows = UnappliedRows<'a>;

    fn range(&self, range: Range<'_>) -> UnappliedRows<'a> {
        UnappliedRows { slots: self.slots, rest: self.index.range(range) }
    }
}

/// The rows of a range that are not applied.
pub(super) struct UnappliedRows<'a> {
    slots: &'a Slab,
    rest: btree_map::Range<'a, Small, u32>,
}

impl<'a> UnappliedRows<'a> {
    fn row(&self, (_, slot): (&'a Small, &'a u32)) -> RowAbove<'a> {
        let slot = self.slots.at(*slot);
        (slot.key.as_slice(), slot.value.as_ref().map(Small::as_slice))
    }
}

impl<'a> Iterator for UnappliedRows<'a> {
    type Item = RowAbove<'a>;

    fn next(&mut self) -> Option<RowAbove<'a>> {
        let entry = self.rest.next()?;
        Some(self.row(entry))
    }
}

impl DoubleEndedIterator for UnappliedRows<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let entry = self.rest.next_back()?;
        Some(self.row(entry))
    }
}
