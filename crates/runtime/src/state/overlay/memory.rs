//! The overlay's memory: byte counts, eviction, and what it tells the budget.

use super::Overlay;
use super::hash::hash;
use super::layer::hash_of;
use super::merge::Index;
use super::slab::State;
use crate::state::budget::Held;

impl Overlay {
    /// Bytes that `statestore.cache.max.bytes` bounds: what is clean and pending.
    pub fn cache_bytes(&self) -> usize {
        self.clean + self.pending_bytes
    }

    /// Bytes that `statestore.uncommitted.max.bytes` bounds: what is logged, and the index for scans.
    pub fn uncommitted_bytes(&self) -> usize {
        self.uncommitted + self.index.get().map_or(0, Index::bytes)
    }

    /// Drops clean entries that were not used for long until `bytes` bytes are free or none is left; answers how many
    /// bytes it freed. What is pending stays: [`Overlay::next_pending`] turns it into what a commit makes clean.
    ///
    /// Used entries get a second chance: the hand of a clock goes round the slots, and takes what it finds unused since its
    /// last round.
    pub fn evict(&mut self, bytes: usize) -> usize {
        let (mut freed, mut steps) = (0, 2 * self.slots.len());
        while freed < bytes && steps > 0 && self.clean > 0 {
            steps -= 1;
            let number = self.hand;
            self.hand = if number as usize + 1 < self.slots.len() { number + 1 } else { 0 };
            let slot = self.slots.at_mut(number);
            if matches!(slot.state, State::Clean | State::Unknown) && !std::mem::take(&mut slot.seen) {
                freed += slot.bytes();
                self.remove(number);
            }
        }
        if freed > 0 {
            self.publish();
        }
        freed
    }

    /// Takes a slot out of the table and frees it.
    fn remove(&mut self, number: u32) {
        self.uncount(number);
        let found = self.table.find_entry(hash(self.slots.at(number).key.as_slice()), |slot| *slot == number);
        if let Ok(entry) = found {
            entry.remove();
        }
        self.slots.remove(number);
    }

    /// Gives memory back when a third of the slots are free; between commits only, when no list names a slot.
    pub(super) fn compact(&mut self) {
        const WORTH_IT: usize = 256;
        let free = self.slots.free();
        if free < WORTH_IT || free * 3 < self.slots.len() || self.is_dirty() {
            return;
        }
        let old = std::mem::take(&mut self.slots);
        self.table.clear();
        for slot in old.into_live() {
            let hash = hash(slot.key.as_slice());
            let number = self.slots.insert(slot);
            let slots = &self.slots;
            self.table.insert_unique(hash, number, |slot| hash_of(slots, *slot));
        }
        let slots = &self.slots;
        self.table.shrink_to_fit(|slot| hash_of(slots, *slot));
        self.hand = 0;
        self.undo.shrink_to(WORTH_IT);
        self.pending.shrink_to(WORTH_IT);
        self.logged.shrink_to(WORTH_IT);
        self.order.shrink_to(WORTH_IT);
    }

    /// The byte count that slots of a state are in.
    #[inline]
    pub(super) fn bytes_of(&mut self, state: State) -> &mut usize {
        match state {
            State::Logged => &mut self.uncommitted,
            State::Pending => &mut self.pending_bytes,
            State::Free | State::Unknown | State::Clean => &mut self.clean,
        }
    }

    /// Adds a slot to the bytes of its state.
    pub(super) fn count(&mut self, number: u32) {
        let (state, bytes) = (self.slots.at(number).state, self.slots.at(number).bytes());
        *self.bytes_of(state) += bytes;
    }

    /// Takes a slot off the bytes of its state.
    pub(super) fn uncount(&mut self, number: u32) {
        let (state, bytes) = (self.slots.at(number).state, self.slots.at(number).bytes());
        *self.bytes_of(state) -= bytes;
    }

    /// Tells the budget, if the bytes have moved far since it was last told.
    #[inline]
    pub(super) fn publish_if_moved(&mut self) {
        if self.share.as_ref().is_some_and(|share| share.moved(self.held())) {
            self.publish();
        }
    }

    /// What the overlay holds.
    fn held(&self) -> Held {
        Held { clean: self.clean, pending: self.pending_bytes, logged: self.uncommitted_bytes() }
    }

    /// Tells the budget.
    pub(super) fn publish(&mut self) {
        let held = self.held();
        if let Some(share) = &mut self.share {
            share.publish(held);
        }
    }
}
