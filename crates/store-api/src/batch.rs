//! Batches: writes that are applied together, pulled out of whatever holds them.

use crate::SpaceId;

/// One write of a batch, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    /// The space that is written to.
    pub space: SpaceId,
    /// The key's bytes.
    pub key: &'a [u8],
    /// The new value's bytes; `None` deletes.
    pub value: Option<&'a [u8]>,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Write<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write")
            .field("space", &self.space)
            .field("key_len", &self.key.len())
            .field("value_len", &self.value.map(<[u8]>::len))
            .finish()
    }
}

/// A batch, pulled row by row: no second copy of an interval's writes is ever built.
///
/// Writes are applied in order; a later write of a key wins. An engine MAY go through the batch more than once (say, to
/// check all spaces before it changes anything) by [`Writes::rewind`].
pub trait Writes {
    /// Goes back before the first write.
    fn rewind(&mut self);

    /// The next write, lent until the next call.
    fn next(&mut self) -> Option<Write<'_>>;
}

/// A slice of writes as a batch.
#[derive(Debug)]
pub struct List<'a> {
    writes: &'a [Write<'a>],
    at: usize,
}

impl<'a> List<'a> {
    /// A batch of these writes, in this order.
    pub const fn new(writes: &'a [Write<'a>]) -> Self {
        Self { writes, at: 0 }
    }
}

impl Writes for List<'_> {
    fn rewind(&mut self) {
        self.at = 0;
    }

    fn next(&mut self) -> Option<Write<'_>> {
        let write = self.writes.get(self.at)?;
        self.at += 1;
        Some(*write)
    }
}
