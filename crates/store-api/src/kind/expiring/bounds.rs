//! From what is asked for to ranges of the windowed space.

use std::cmp::Ordering;
use std::ops::Bound;

use super::Store;
use crate::range::successor;
use crate::schema::{ExpiringKey, Suffix, SuffixKind, escape, escape_end, escape_prefix};
use crate::{Direction, Prefix, Range};

/// The keys that a scan of a window or session store goes over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keys<'a> {
    /// Exactly this one.
    One(&'a [u8]),
    /// Those between two bounds, in the order of their bytes.
    Between(Bound<&'a [u8]>, Bound<&'a [u8]>),
    /// Those that begin with these bytes.
    Prefix(&'a [u8]),
}

impl Keys<'_> {
    /// Every key.
    pub const ALL: Keys<'static> = Keys::Between(Bound::Unbounded, Bound::Unbounded);
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(key) => f.debug_struct("One").field("len", &key.len()).finish(),
            Self::Between(lower, upper) => Range::new(*lower, *upper).fmt(f),
            Self::Prefix(prefix) => Prefix::new(prefix).fmt(f),
        }
    }
}

/// A range of the windowed space that owns its ends.
pub(super) struct Bounds {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl Bounds {
    pub(super) fn range(&self) -> Range<'_> {
        Range::new(self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice))
    }

    /// The rows of one key, over all buckets of some times.
    pub(super) fn of_key(store: Store, key: &[u8], from: i64, to: i64) -> Self {
        let row = |time: i64, fill: u8| {
            // With room for a few bytes that are escaped: in most cases this is the only allocation.
            let mut bytes = Vec::with_capacity(ExpiringKey::HEAD + key.len() + 2 * SuffixKind::MAX_LEN);
            bytes.extend_from_slice(&ExpiringKey::head(store.buckets.of(time), store.number));
            escape(key, &mut bytes);
            Suffix::Time(time).encode(&mut bytes);
            bytes.resize(bytes.len() + store.kind.len() - SuffixKind::Time.len(), fill);
            Bound::Included(bytes)
        };
        Self { lower: row(from, 0), upper: row(to, 0xFF) }
    }

    /// The rows of some keys in one bucket.
    pub(super) fn of_bucket(store: Store, bucket: u32, keys: Keys<'_>) -> Self {
        let head = ExpiringKey::head(bucket, store.number);
        let with = |append: fn(&[u8], &mut Vec<u8>), key| {
            let mut bytes = head.to_vec();
            append(key, &mut bytes);
            bytes
        };
        let end_of = |prefix: &[u8]| successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        match keys {
            Keys::One(key) => {
                Self { lower: Bound::Included(with(escape, key)), upper: Bound::Excluded(with(escape_end, key)) }
            }
            Keys::Prefix(prefix) => {
                let open = with(escape_prefix, prefix);
                Self { upper: end_of(&open), lower: Bound::Included(open) }
            }
            Keys::Between(lower, upper) => Self {
                lower: match lower {
                    Bound::Included(key) => Bound::Included(with(escape, key)),
                    Bound::Excluded(key) => Bound::Included(with(escape_end, key)),
                    Bound::Unbounded => Bound::Included(head.to_vec()),
                },
                upper: match upper {
                    Bound::Included(key) => Bound::Excluded(with(escape_end, key)),
                    Bound::Excluded(key) => Bound::Excluded(with(escape, key)),
                    Bound::Unbounded => end_of(&head),
                },
            },
        }
    }

    /// What is left behind a place in a bucket, for a walk in this direction. Never more than there was.
    #[must_use]
    pub(super) fn behind(mut self, store: Store, bucket: u32, place: &[u8], direction: Direction) -> Self {
        let place = [&ExpiringKey::head(bucket, store.number)[..], place].concat();
        let (near, beyond) = match direction {
            Direction::Forward => (&mut self.lower, Ordering::Less),
            Direction::Reverse => (&mut self.upper, Ordering::Greater),
        };
        let ahead = match &*near {
            Bound::Included(bound) | Bound::Excluded(bound) => place.cmp(bound) == beyond,
            Bound::Unbounded => false,
        };
        if !ahead {
            *near = Bound::Excluded(place);
        }
        self
    }
}
