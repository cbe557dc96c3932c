//! The overlay's end of a commit: what is logged as one batch in key order, and several overlays' batches as one.

use millpond_store_api::{SpaceId, Write, Writes};
use smallvec::SmallVec;

use super::Overlay;
use super::slab::{Slab, State};

/// The first eight bytes of a key as a number: the sort seldom has to look at the slots.
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(head)
        }
    }
}

/// What an overlay has logged since the last commit, each key once, in key order.
pub struct LoggedWrites<'a> {
    slots: &'a Slab,
    order: &'a [(u64, u32)],
    at: usize,
    space: SpaceId,
}

impl<'a> LoggedWrites<'a> {
    pub(super) fn new(space: SpaceId, slots: &'a Slab, logged: &[u32], order: &'a mut Vec<(u64, u32)>) -> Self {
        order.clear();
        let live = logged.iter().filter(|slot| slots.at(**slot).state == State::Logged);
        order.extend(live.map(|slot| (prefix(slots.at(*slot).key.as_slice()), *slot)));
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| slots.at(a.1).key.cmp(&slots.at(b.1).key)));
        Self { slots, order, at: 0, space }
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Writes for LoggedWrites<'_> {
    fn rewind(&mut self) {
        self.at = 0;
    }

    fn next(&mut self) -> Option<Write<'_>> {
        let &(_, slot) = self.order.get(self.at)?;
        self.at += 1;
        let slot = self.slots.at(slot);
        let value = slot.value.as_ref().map(|value| value.as_slice());
        Some(Write { space: self.space, key: slot.key.as_slice(), value })
    }
}

impl std::fmt::Debug for LoggedWrites<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoggedWrites").field("space", &self.space).field("writes", &self.len()).finish()
    }
}

/// The writes of several overlays as one batch, one overlay after the other: what a shard applies at a commit.
pub struct Chain<'a> {
    parts: SmallVec<[LoggedWrites<'a>; 4]>,
    at: usize,
}

impl<'a> Chain<'a> {
    /// The batch of the overlays of one shard.
    pub fn new(overlays: impl IntoIterator<Item = &'a mut Overlay>) -> Self {
        Self { parts: overlays.into_iter().map(Overlay::writes).collect(), at: 0 }
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        self.parts.iter().map(LoggedWrites::len).sum()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(LoggedWrites::is_empty)
    }
}

impl Writes for Chain<'_> {
    fn rewind(&mut self) {
        self.parts.iter_mut().for_each(Writes::rewind);
        self.at = 0;
    }

    fn next(&mut self) -> Option<Write<'_>> {
        while self.parts.get(self.at).is_some_and(|part| part.at >= part.len()) {
            self.at += 1;
        }
        self.parts.get_mut(self.at)?.next()
    }
}

impl std::fmt::Debug for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}
