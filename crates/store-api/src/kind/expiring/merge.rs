//! The rows of many keys: a cursor for each bucket, merged by what stands behind the bucket.

use crate::schema::ExpiringKey;
use crate::{Cursor, Direction, Result, Row};

/// Walks all buckets at once, so that the order is that of the keys, and under a key that of the times, and does not tell
/// where one bucket ends and the next begins.
pub(super) struct MergeWalk<'a> {
    /// Those that have a row, or have not been asked.
    cursors: Vec<Box<dyn Cursor + 'a>>,
    direction: Direction,
    /// Whose row was lent last.
    lent: Option<usize>,
    begun: bool,
}

impl<'a> MergeWalk<'a> {
    pub(super) fn new(cursors: Vec<Box<dyn Cursor + 'a>>, direction: Direction) -> Self {
        Self { cursors, direction, lent: None, begun: false }
    }

    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>> {
        if !self.begun {
            for cursor in &mut self.cursors {
                cursor.next()?;
            }
            self.cursors.retain(|cursor| cursor.row().is_some());
            self.begun = true;
        } else if let Some(lent) = self.lent
            && let Some(cursor) = self.cursors.get_mut(lent)
            && cursor.next()?.is_none()
        {
            self.cursors.swap_remove(lent);
        }
        self.lent = self.first();
        Ok(self.row())
    }

    pub(super) fn row(&self) -> Option<Row<'_>> {
        self.cursors.get(self.lent?)?.row()
    }

    /// The cursor whose row comes first.
    fn first(&self) -> Option<usize> {
        let mut rows = self.cursors.iter().map(|cursor| sorted_by(&**cursor)).enumerate();
        let mut first = rows.next()?;
        for row in rows {
            let sooner = match self.direction {
                Direction::Forward => row.1 < first.1,
                Direction::Reverse => row.1 > first.1,
            };
            if sooner {
                first = row;
            }
        }
        Some(first.0)
    }
}

/// Escaped key and suffix of the row that a cursor stands on.
fn sorted_by<'c>(cursor: &'c (dyn Cursor + '_)) -> &'c [u8] {
    cursor.row().and_then(|row| row.key.get(ExpiringKey::HEAD..)).unwrap_or_default()
}
