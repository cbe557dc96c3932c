//! The rows of one key: buckets follow time, so one cursor walks them one after the other.

use super::Store;
use super::merge::MergeWalk;
use crate::schema::{Buckets, ExpiringKey, SuffixKind, escape};
use crate::{Cursor, Direction, Result, Row};

/// A way through the rows of one store, in order of key and suffix.
pub(super) enum Walk<'a> {
    Empty,
    Key(KeyWalk<'a>),
    Merge(MergeWalk<'a>),
}

impl Walk<'_> {
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>> {
        match self {
            Self::Empty => Ok(None),
            Self::Key(walk) => walk.next(),
            Self::Merge(walk) => walk.next(),
        }
    }

    /// The row that was lent last; `None` after the end.
    pub(super) fn row(&self) -> Option<Row<'_>> {
        match self {
            Self::Empty => None,
            Self::Key(walk) => walk.row(),
            Self::Merge(walk) => walk.row(),
        }
    }
}

/// Goes from bucket to bucket. A bucket without rows costs nothing: the row that is met instead of one of the key's tells
/// in which bucket the next one can be. So there is one seek at most for each bucket that has rows of whatever store.
pub(super) struct KeyWalk<'a> {
    cursor: Box<dyn Cursor + 'a>,
    buckets: Buckets,
    direction: Direction,
    /// The bucket at the far end.
    last: u32,
    /// Where the key's rows begin in a bucket, seen in the direction; the bucket's four bytes are written at each seek.
    near: Vec<u8>,
    /// How many of these bytes all rows of the key begin with.
    common: usize,
    ended: bool,
}

/// Where the bucket's bytes end.
const BUCKET: usize = size_of::<u32>();

impl<'a> KeyWalk<'a> {
    /// A walk over what `cursor`, which goes over the key's rows of these times and over what lies between, has of them.
    pub(super) fn new(
        cursor: Box<dyn Cursor + 'a>,
        store: Store,
        key: &[u8],
        (from, to): (i64, i64),
        direction: Direction,
    ) -> Self {
        let mut near = Vec::with_capacity(ExpiringKey::HEAD + key.len() + 2 * SuffixKind::MAX_LEN);
        near.extend_from_slice(&ExpiringKey::head(0, store.number));
        escape(key, &mut near);
        let common = near.len();
        let last = match direction {
            Direction::Forward => to,
            Direction::Reverse => {
                // No suffix is longer, and none is greater.
                near.resize(common + SuffixKind::MAX_LEN, 0xFF);
                from
            }
        };
        let last = store.buckets.of(last);
        Self { cursor, buckets: store.buckets, direction, last, near, common, ended: false }
    }

    fn next(&mut self) -> Result<Option<Row<'_>>> {
        while !self.ended {
            let Some(row) = self.cursor.next()? else {
                self.ended = true;
                break;
            };
            let (met, behind) = (ExpiringKey::bucket_of(row.key)?, row.key.get(BUCKET..).unwrap_or_default());
            let common = self.near.get(BUCKET..self.common).unwrap_or_default();
            if behind.starts_with(common) {
                break;
            }
            // The key's rows of the bucket that was met are either still to come or not there.
            let next = match self.direction {
                Direction::Forward if behind < common => Some(met),
                Direction::Forward => met.checked_add(1),
                Direction::Reverse if behind > common => Some(met),
                Direction::Reverse => met.checked_sub(1),
            };
            match next.and_then(|minute| self.bucket_from(minute)) {
                Some(bucket) => self.seek(bucket)?,
                None => self.ended = true,
            }
        }
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        if self.ended { None } else { self.cursor.row() }
    }

    /// The first bucket of the store from a minute on, if it is not behind the last one.
    fn bucket_from(&self, minute: u32) -> Option<u32> {
        match self.direction {
            Direction::Forward => Some(self.buckets.at_or_after(minute)).filter(|bucket| *bucket <= self.last),
            Direction::Reverse => Some(self.buckets.at_or_before(minute)).filter(|bucket| *bucket >= self.last),
        }
    }

    fn seek(&mut self, bucket: u32) -> Result<()> {
        if let Some(head) = self.near.first_chunk_mut() {
            *head = bucket.to_be_bytes();
        }
        self.cursor.seek(&self.near)
    }
}
