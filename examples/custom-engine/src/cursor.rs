//! The lending cursor over redb's walk.

use std::ops::Bound;
use std::sync::Arc;

use millpond_store_api::{Cursor, Direction, Range, Result, Row, SpaceId};
use redb::{OwnedAccessGuard, OwnedRange};

use crate::error;
use crate::snapshot::{Bytes, Snapshot};

/// A walk over the rows of one moment.
pub(crate) struct SnapshotCursor {
    snapshot: Arc<Snapshot>,
    space: SpaceId,
    /// Where the walk begins; a seek moves it.
    near: Bound<Vec<u8>>,
    /// Where it ends.
    far: Bound<Vec<u8>>,
    direction: Direction,
    rows: OwnedRange<Bytes, Bytes>,
    /// The row that is lent: both are pinned in redb's page.
    lent: Option<(OwnedAccessGuard<Bytes>, OwnedAccessGuard<Bytes>)>,
    ended: bool,
}

impl SnapshotCursor {
    pub(crate) fn open(
        snapshot: Arc<Snapshot>,
        space: SpaceId,
        range: Range<'_>,
        direction: Direction,
    ) -> Result<Self> {
        let rows = snapshot.rows(space, (range.lower, range.upper))?;
        let (lower, upper) = (range.lower.map(<[u8]>::to_vec), range.upper.map(<[u8]>::to_vec));
        let (near, far) = match direction {
            Direction::Forward => (lower, upper),
            Direction::Reverse => (upper, lower),
        };
        Ok(Self { snapshot, space, near, far, direction, rows, lent: None, ended: false })
    }

    /// Whether `key` lies further on than `than`, in the direction of the walk.
    fn is_beyond(&self, key: &[u8], than: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => key > than,
            Direction::Reverse => key < than,
        }
    }

    /// What the walk may lend.
    fn range(&self) -> Range<'_> {
        let (near, far) = (self.near.as_ref().map(Vec::as_slice), self.far.as_ref().map(Vec::as_slice));
        match self.direction {
            Direction::Forward => Range::new(near, far),
            Direction::Reverse => Range::new(far, near),
        }
    }
}

impl Cursor for SnapshotCursor {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        if self.ended {
            return Ok(None);
        }
        // The row before goes first: it may be all that keeps a page in memory.
        self.lent = None;
        let next = match self.direction {
            Direction::Forward => self.rows.next(),
            Direction::Reverse => self.rows.next_back(),
        };
        self.lent = next.transpose().map_err(|e| error::of("scan", e))?;
        self.ended = self.lent.is_none();
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.lent.as_ref().map(|(key, value)| Row { key: key.value(), value: value.value() })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        // Never back: not behind the row that is lent, nor behind where the range or an earlier seek begins.
        let is_ahead = match (&self.lent, &self.near) {
            (Some((lent, _)), _) => self.is_beyond(key, lent.value()),
            (None, Bound::Included(near) | Bound::Excluded(near)) => self.is_beyond(key, near),
            (None, Bound::Unbounded) => true,
        };
        if self.ended || !is_ahead {
            return Ok(());
        }
        self.lent = None;
        self.near = Bound::Included(key.to_vec());
        let range = self.range();
        if range.is_empty() {
            self.ended = true;
        } else {
            self.rows = self.snapshot.rows(self.space, (range.lower, range.upper))?;
        }
        Ok(())
    }
}
