//! About how many keys of a store have a value: the shard's estimate, corrected by a sample of what is not applied yet.

use millpond_store_api::{Read, Result};
use smallvec::SmallVec;

use super::Overlay;

/// So many entries are compared with the shard; if there are no more, the correction is exact.
const SAMPLE: usize = 256;

impl Overlay {
    /// What the base says, plus keys that are new to it, minus keys that are gone; never below zero or beyond what a number
    /// holds. Asks the base for [`SAMPLE`] keys at most.
    pub(super) fn approximate_count(&self, base: &dyn Read) -> Result<u64> {
        let stored = base.approximate_num_entries(self.options.space)?;
        let entries = self.logged.len() + self.pending.len() + self.undo.len();
        let sampled = entries.min(SAMPLE);
        let sample: SmallVec<[u32; SAMPLE]> =
            (0..sampled).filter_map(|i| self.unapplied(i * entries / sampled)).collect();
        let keys: SmallVec<[&[u8]; SAMPLE]> = sample.iter().map(|slot| self.slots.at(*slot).key.as_slice()).collect();
        let has_value = |i: usize| sample.get(i).is_some_and(|slot| self.slots.at(*slot).value.is_some());
        let mut more = (0..sample.len()).filter(|i| has_value(*i)).count() as i64;
        base.multi_get(self.options.space, &keys, &mut |_, _| more -= 1)?;
        // Wide enough: the lists have 32-bit numbers, and the sample is a few hundred.
        let more = if sampled == 0 { 0 } else { more * entries as i64 / sampled as i64 };
        Ok(stored.saturating_add_signed(more))
    }

    /// The slot of an entry that is not applied, by its place in the three lists one behind the other; none for an entry
    /// whose slot an earlier list has as well.
    fn unapplied(&self, place: usize) -> Option<u32> {
        if let Some(slot) = self.logged.get(place) {
            return Some(*slot);
        }
        let place = place - self.logged.len();
        if let Some(entry) = self.pending.get(place) {
            return (!self.slots.at(entry.slot).listed).then_some(entry.slot);
        }
        let undo = self.undo.get(place - self.pending.len())?;
        (!undo.state.unapplied()).then_some(undo.slot)
    }
}
