//! Ranges of keys: two bounds, and prefixes as ranges.

use std::ops::Bound;

use crate::Direction;

/// A range of keys in byte order. There is no prefix variant: [`Prefix`] owns the upper bound's bytes and lends a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Range<'a> {
    /// The low end.
    pub lower: Bound<&'a [u8]>,
    /// The high end.
    pub upper: Bound<&'a [u8]>,
}

impl<'a> Range<'a> {
    /// Every key.
    pub const ALL: Range<'static> = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };

    /// The keys between two bounds; may be empty or inverted, see [`Range::is_empty`].
    pub const fn new(lower: Bound<&'a [u8]>, upper: Bound<&'a [u8]>) -> Self {
        Self { lower, upper }
    }

    /// True if no key can lie in the range, for inverted bounds too. The library never hands such a range to an engine.
    pub fn is_empty(&self) -> bool {
        use Bound::{Excluded as X, Included as I, Unbounded as U};
        match (self.lower, self.upper) {
            (U, X(b)) => b.is_empty(),
            (U, _) | (_, U) => false,
            (I(a), I(b)) => a > b,
            (I(a), X(b)) | (X(a), I(b)) => a >= b,
            // Between `a` and its successor `a ‖ 00` lies no key.
            (X(a), X(b)) => a >= b || b.strip_prefix(a) == Some(&[0]),
        }
    }

    /// True if `key` lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        let above = match self.lower {
            Bound::Included(b) => key >= b,
            Bound::Excluded(b) => key > b,
            Bound::Unbounded => true,
        };
        above
            && match self.upper {
                Bound::Included(b) => key <= b,
                Bound::Excluded(b) => key < b,
                Bound::Unbounded => true,
            }
    }

    /// What is left of the range for a walk in `direction` that goes on right after `key`.
    #[must_use]
    pub const fn after(self, key: &'a [u8], direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self { lower: Bound::Excluded(key), upper: self.upper },
            Direction::Reverse => Self { lower: self.lower, upper: Bound::Excluded(key) },
        }
    }
}

/// Bounds say how long they are, never what they hold.
impl std::fmt::Debug for Range<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes = |b: Bound<&[u8]>| b.map(<[u8]>::len);
        f.debug_struct("Range").field("lower_len", &sizes(self.lower)).field("upper_len", &sizes(self.upper)).finish()
    }
}

/// All keys that begin with some bytes, as a range.
///
/// ```
/// use millpond_store_api::Prefix;
///
/// let prefix = Prefix::new(&[1, 0xFF]);
/// assert!(prefix.range().contains(&[1, 0xFF, 0]));
/// assert!(!prefix.range().contains(&[2]));
/// ```
pub struct Prefix {
    lower: Vec<u8>,
    /// The first key that does not begin with the prefix; none if the prefix is all `FF`.
    upper: Option<Vec<u8>>,
}

impl Prefix {
    /// Copies the prefix. The empty prefix stands for all keys.
    pub fn new(prefix: &[u8]) -> Self {
        Self { lower: prefix.to_vec(), upper: successor(prefix) }
    }

    /// The range of all keys with the prefix.
    pub fn range(&self) -> Range<'_> {
        Range::new(Bound::Included(&self.lower), self.upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// The first key behind all that begin with some bytes; none if those are all `FF`.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while end.pop_if(|b| *b == 0xFF).is_some() {}
    end.pop().map(|b| {
        end.push(b + 1);
        end
    })
}

impl std::fmt::Debug for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prefix").field("len", &self.lower.len()).finish()
    }
}
