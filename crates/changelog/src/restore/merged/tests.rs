//! The merged walk against one over the rows as they will be.

use std::ops::Bound;

use millpond_store_api::{Cursor, Direction, Result, Row};
use proptest::prelude::*;

use super::*;

/// A cursor over rows that are there already, as an engine has it.
struct Walk {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    direction: Direction,
    next: usize,
    /// Behind the row that was lent last: where no seek goes back from.
    lent: usize,
}

impl Walk {
    fn over(rows: &BTreeMap<Vec<u8>, Vec<u8>>, range: Range<'_>, direction: Direction) -> Self {
        let rows = rows.iter().filter(|(key, _)| range.contains(key)).map(|(key, value)| (key.clone(), value.clone()));
        let mut rows: Vec<_> = rows.collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        Self { rows, direction, next: 0, lent: 0 }
    }
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        self.next += 1;
        self.lent = self.next;
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.rows.get(self.next.checked_sub(1)?).map(|(key, value)| Row { key, value })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let direction = self.direction;
        let before = |row: &(Vec<u8>, Vec<u8>)| match direction {
            Direction::Forward => row.0.as_slice() < key,
            Direction::Reverse => row.0.as_slice() > key,
        };
        self.next = self.lent.max(self.rows.partition_point(before));
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Next,
    Seek(Vec<u8>),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..4u8, 0..3)
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![Just(Bound::Unbounded), key().prop_map(Bound::Included), key().prop_map(Bound::Excluded)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop_oneof![3 => Just(Step::Next), 1 => key().prop_map(Step::Seek)], 0..30)
}

proptest! {
    #[test]
    fn a_walk_is_one_over_the_rows_as_they_will_be(
        base in prop::collection::btree_map(key(), Just(b"base".to_vec()), 0..16),
        staged in prop::collection::btree_map(key(), prop::option::of(Just(b"staged".to_vec())), 0..16),
        (lower, upper) in (bound(), bound()),
        reverse: bool,
        steps in steps(),
    ) {
        let direction = if reverse { Direction::Reverse } else { Direction::Forward };
        let range = Range::new(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        let mut rows = base.clone();
        for (key, value) in &staged {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        let mut expected = Walk::over(&rows, range, direction);
        let mut merged = Merged::new(Box::new(Walk::over(&base, range, direction)), RowsAbove(&staged), range, direction);
        prop_assert_eq!(merged.row(), None);
        for step in steps.iter().chain(&vec![Step::Next; 20]) {
            match step {
                Step::Next => {
                    prop_assert_eq!(merged.next().unwrap(), expected.next().unwrap());
                    prop_assert_eq!(merged.row(), expected.row());
                }
                Step::Seek(key) => {
                    merged.seek(key).unwrap();
                    expected.seek(key).unwrap();
                }
            }
        }
    }
}

#[test]
fn staged_rows_win_and_hide() {
    let base: BTreeMap<_, _> = [b"a", b"b", b"c"].map(|key| (key.to_vec(), b"base".to_vec())).into();
    let staged: Rows = [(b"b".to_vec(), None), (b"c".to_vec(), Some(b"staged".to_vec())), (b"d".to_vec(), None)].into();
    let walk = Walk::over(&base, Range::ALL, Direction::Forward);
    let mut merged = Merged::new(Box::new(walk), RowsAbove(&staged), Range::ALL, Direction::Forward);
    assert_eq!(merged.next().unwrap(), Some(Row { key: b"a", value: b"base" }));
    assert_eq!(merged.next().unwrap(), Some(Row { key: b"c", value: b"staged" }));
    assert_eq!(merged.next().unwrap(), None);
    assert_eq!(merged.next().unwrap(), None);
}
