//! What a task does to its stores between records: makes room in memory, and deletes what has outlived its time.

use super::Task;
use super::process::Processing;
use crate::error::Result;
use crate::handler::Of;
use crate::state::Excess;

impl Task {
    /// Frees what this task's overlays hold too much: clean entries first, then the oldest pending ones are drained.
    pub(crate) fn make_room(&mut self, cx: &mut Processing<'_>, excess: Excess) -> Result {
        let places = self.stores.as_ref().map_or(0, |s| s.stores().len());
        for place in 0..places {
            let Some((store, _)) = self.stores.as_mut().and_then(|s| s.at(place)) else { continue };
            let mut missing = 0;
            for overlay in store.overlays_mut() {
                let to_free = excess.part(overlay.cache_bytes());
                let freed = if to_free > 0 { overlay.evict(to_free) } else { 0 };
                self.counts.evicted += u64::from(freed > 0);
                missing += to_free.saturating_sub(freed);
            }
            while missing > 0 {
                let before = self.stores.as_mut().and_then(|s| s.at(place)).map_or(0, |(s, _)| s.overlay.cache_bytes());
                if !self.drain_one(cx, place)? {
                    break;
                }
                let after = self.stores.as_mut().and_then(|s| s.at(place)).map_or(0, |(s, _)| s.overlay.cache_bytes());
                missing = missing.saturating_sub(before.saturating_sub(after).max(1));
            }
        }
        Ok(())
    }

    /// Deletes rows whose time to live has passed, some at a time, each time as a record of its own: so they are tombstones
    /// in the changelog, and come back with their interval if that is given up. Answers whether there were any.
    pub(crate) fn delete_expired(&mut self, cx: &mut Processing<'_>) -> Result<bool> {
        let Some(stores) = self.stores.as_mut() else { return Ok(false) };
        match stores.delete_expired(self.stream_time) {
            Ok(0) => Ok(false),
            Ok(_) => {
                self.dirty = true;
                self.keep(cx, Of::Other(self.stream_time))?;
                Ok(true)
            }
            Err(e) => {
                self.undo();
                Err(e.with("task", self.id))
            }
        }
    }
}
