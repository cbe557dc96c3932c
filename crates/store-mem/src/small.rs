//! Byte strings that hold up to 22 bytes in place, ordered by comparing numbers.

use std::borrow::Borrow;
use std::cmp::Ordering;

/// How many bytes fit without an allocation.
const INLINE: usize = 22;

/// An owned byte string, 24 bytes wide.
///
/// The order is that of the bytes. Two strings in place are compared as big-endian numbers, eight bytes at a time, straight
/// from the node of the tree: half the time of a batch was spent in comparing otherwise.
#[derive(Clone)]
pub(crate) enum Small {
    /// The bytes, then zeros; the first field is how many bytes there are.
    Inline(u8, [u8; INLINE]),
    Heap(Box<[u8]>),
}

const _: () = assert!(size_of::<Small>() == 24);

impl Small {
    /// The bytes in place, if they fit.
    pub(crate) fn inline(bytes: &[u8]) -> Option<Self> {
        let mut place = [0; INLINE];
        place.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self::Inline(u8::try_from(bytes.len()).ok()?, place))
    }

    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self::inline(bytes).unwrap_or_else(|| Self::Heap(bytes.into()))
    }

    /// How many bytes it has outside of its place.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Inline(..) => 0,
            Self::Heap(bytes) => bytes.len(),
        }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Self::Heap(bytes) => bytes,
        }
    }

    /// Replaces the bytes; an allocation of the right size is kept.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        match self {
            Self::Heap(old) if old.len() == bytes.len() && bytes.len() > INLINE => old.copy_from_slice(bytes),
            _ => *self = Self::new(bytes),
        }
    }
}

/// Zeros behind the end make a shorter string lower or equal, and then its length decides.
fn words(bytes: &[u8; INLINE]) -> (u64, u64, u64) {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7, c0, c1, c2, c3, c4, c5] = *bytes;
    (
        u64::from_be_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
        u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
        u64::from_be_bytes([c0, c1, c2, c3, c4, c5, 0, 0]),
    )
}

impl Ord for Small {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Inline(a_len, a), Self::Inline(b_len, b)) => words(a).cmp(&words(b)).then(a_len.cmp(b_len)),
            _ => self.as_slice().cmp(other.as_slice()),
        }
    }
}

impl PartialOrd for Small {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Small {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Small {}

/// The order of `Small` is that of its bytes, so a tree can be searched with a slice.
impl Borrow<[u8]> for Small {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_bytes() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut bytes = |max: usize| -> Vec<u8> {
            let len = random.usize(..=max);
            std::iter::repeat_with(|| random.choice([0, 0, 1, 0x7F, 0xFF]).unwrap()).take(len).collect()
        };
        for i in 0..200_000 {
            let max = [3, 9, 17, 23, 30][i % 5];
            let (a, b) = (bytes(max), bytes(max));
            assert_eq!(Small::new(&a).cmp(&Small::new(&b)), a.cmp(&b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn bytes_come_back_at_every_length() {
        for len in 0..60 {
            let bytes: Vec<u8> = (1..=len).collect();
            assert_eq!(Small::new(&bytes).as_slice(), bytes);
            for before in 0..60 {
                let mut small = Small::new(&vec![9; before]);
                small.set(&bytes);
                assert_eq!(small.as_slice(), bytes);
                assert_eq!(matches!(small, Small::Inline(..)), usize::from(len) <= INLINE);
            }
        }
    }
}
