//! Bytes that lie inline up to 22 of them: short keys and counters cost no allocation.

/// Bytes, 24 wide.
pub(super) enum Small {
    /// The length and the bytes.
    Inline(u8, [u8; Small::INLINE]),
    /// Longer ones.
    Heap(Box<[u8]>),
}

impl Small {
    /// How many bytes lie inline.
    pub(super) const INLINE: usize = 22;
    /// What the allocator keeps beside each block, by estimate.
    const BLOCK: usize = 16;

    /// The bytes.
    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Inline(len, bytes) => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Heap(bytes) => bytes,
        }
    }

    /// How many bytes lie outside.
    #[inline]
    pub(super) fn heap(&self) -> usize {
        match self {
            Self::Inline(..) => 0,
            Self::Heap(bytes) => bytes.len() + Self::BLOCK,
        }
    }

    /// Replaces the bytes; a block of the right length is used again.
    #[inline]
    pub(super) fn assign(&mut self, bytes: &[u8]) {
        match self {
            Self::Heap(block) if block.len() == bytes.len() => block.copy_from_slice(bytes),
            _ => *self = Self::from(bytes),
        }
    }
}

impl From<&[u8]> for Small {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        let mut inline = [0; Self::INLINE];
        match (inline.get_mut(..bytes.len()), u8::try_from(bytes.len())) {
            (Some(to), Ok(len)) => {
                to.copy_from_slice(bytes);
                Self::Inline(len, inline)
            }
            _ => Self::Heap(bytes.into()),
        }
    }
}

impl std::borrow::Borrow<[u8]> for Small {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Small {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Small {}

impl PartialOrd for Small {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Small {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Small {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Small").field("len", &self.as_slice().len()).finish()
    }
}

const _: () = assert!(size_of::<Option<Small>>() == 24, "the tag has room for the absence of a value");
