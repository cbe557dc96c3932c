//! The rows that are staged over a shard's, for a walk over both.

use std::collections::{BTreeMap, btree_map};

use millpond_store_api::{Above, Range, RowAbove};

/// RowsAbove rows by key; `None` is a row that will be gone.
pub(super) type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A walk over both sides in one order; staged rows win.
pub(super) type Merged<'a> = millpond_store_api::Merged<'a, RowsAbove<'a>>;

/// The staged rows, as what lies above.
pub(super) struct RowsAbove<'a>(pub(super) &'a Rows);

type Entry<'a> = (&'a Vec<u8>, &'a Option<Vec<u8>>);

impl<'a> Above<'a> for RowsAbove<'a> {
    type Rows = std::iter::Map<btree_map::Range<'a, Vec<u8>, Option<Vec<u8>>>, fn(Entry<'a>) -> RowAbove<'a>>;

    fn range(&self, range: Range<'_>) -> Self::Rows {
        // The map would panic at an inverted range.
        let rows = match range.is_empty() {
            true => btree_map::Range::default(),
            false => self.0.range::<[u8], _>((range.lower, range.upper)),
        };
        rows.map(|(key, value)| (key.as_slice(), value.as_deref()))
    }
}

#[cfg(test)]
mod tests;
