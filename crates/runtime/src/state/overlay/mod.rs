//! The overlay of a store: record cache and transaction buffer in one structure, over the store's space in its shard.

mod commit;
mod count;
mod entry;
mod hash;
mod layer;
mod memory;
mod merge;
mod slab;
mod small;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;
use millpond_store_api::{self as store, Read, SpaceId};

use self::merge::Index;
use self::slab::{Slab, Slot, State};
use self::small::Small;
use super::budget::{Budget, Share};

pub use self::commit::{Chain, LoggedWrites};
pub use self::entry::{DrainedEntry, Entry};

/// What an overlay is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayOptions {
    /// The store's space in the shard.
    pub space: SpaceId,
    /// Writes are held back as *pending* and leave by [`Overlay::next_pending`]; otherwise they are logged at each record
    /// border.
    pub caching: bool,
    /// With caching: keep the value that was forwarded last beside each pending entry, for those who want old values.
    pub keep_old: bool,
}

/// Record cache and transaction buffer of one store.
///
/// A key is *clean* (as in the shard: cache), *pending* (written, neither forwarded nor logged) or *logged* (in the log or
/// the transaction, not in the shard). A commit turns pending into logged ([`Overlay::next_pending`]) and logged into clean
/// ([`Overlay::writes`], [`Overlay::applied`]); an abort forgets what is not clean ([`Overlay::abort`]).
///
/// # Record borders
///
/// What is written through [`Layer::put`](millpond_topology::Layer::put) belongs to a record (or punctuation, or drained entry) until
/// [`Overlay::record_done`] or [`Overlay::record_failed`] is called, and every call of the other methods that change states
/// comes after one of them. A border costs a store that was not written one branch.
///
/// # Memory
///
/// Counted exactly, but for the former values that a record holds until its border, the unused room of growing tables, and
/// the lists' entries beyond one per key. Freed slots are used again.
///
/// # Threading
///
/// One thread at a time, that of the task.
pub struct Overlay {
    options: OverlayOptions,
    table: HashTable<u32>,
    slots: Slab,
    /// Former states of the slots written since the last border, each slot once, in the order of first writes.
    undo: Vec<Undo>,
    /// Without caching: what the record at hand wrote and wrote over, in order. The log has every write.
    superseded: Vec<Superseded>,
    /// Pending slots in the order of first writes.
    pending: VecDeque<Pending>,
    /// So many of the first pending slots were fetched from memory ahead of their turn.
    fetched: usize,
    /// Slots that were logged since the last commit, each once; some may be pending again.
    logged: Vec<u32>,
    /// The sorted batch; kept for its memory.
    order: Vec<(u64, u32)>,
    index: OnceCell<Index>,
    /// Bytes of unknown and clean slots.
    clean: usize,
    /// Bytes of pending slots, and of what is kept beside them.
    pending_bytes: usize,
    /// Bytes of logged slots.
    uncommitted: usize,
    /// The hand of the clock that evicts.
    hand: u32,
    /// The slot that was read last: what is written next, more often than not.
    last: u32,
    share: Option<Share>,
}

/// How many slots are read ahead of their turn.
const FETCH_AHEAD: usize = 32;

/// What a slot was before the record at hand.
struct Undo {
    slot: u32,
    state: State,
    value: Option<Small>,
    timestamp: i64,
}

/// A write that a later one of the same record has taken the place of.
struct Superseded {
    slot: u32,
    value: Option<Small>,
    timestamp: i64,
}

/// A pending slot and what was forwarded last.
struct Pending {
    slot: u32,
    old: Old,
}

/// The value of a key that was forwarded last.
enum Old {
    /// What the shard holds; not looked up yet.
    Unread,
    /// None.
    Absent,
    /// There was one, which nobody will ask for.
    Present,
    /// This one.
    Value(Small),
}

impl Pending {
    /// What the entry costs, in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + if let Old::Value(value) = &self.old { value.heap() } else { 0 }
    }
}

impl Overlay {
    /// What the smallest pending entry costs, in bytes: a cache that has less is none.
    pub const SMALLEST_ENTRY: usize = Slot::FIXED + size_of::<Pending>();

    /// An empty overlay, outside any budget.
    pub fn new(options: OverlayOptions) -> Self {
        Self {
            options,
            table: HashTable::new(),
            slots: Slab::default(),
            undo: Vec::new(),
            superseded: Vec::new(),
            pending: VecDeque::new(),
            fetched: 0,
            logged: Vec::new(),
            order: Vec::new(),
            index: OnceCell::new(),
            clean: 0,
            pending_bytes: 0,
            uncommitted: 0,
            hand: 0,
            last: 0,
            share: None,
        }
    }

    /// Counts the overlay's bytes in a budget from now on; they leave it when the overlay is dropped.
    #[must_use]
    pub fn with_budget(mut self, budget: &Arc<Budget>) -> Self {
        self.share = Some(Share::new(Arc::clone(budget)));
        self.publish();
        self
    }

    /// What the overlay was made for.
    pub fn options(&self) -> OverlayOptions {
        self.options
    }

    // ---- record borders ----

    /// The record is done: what it wrote is part of the commit interval.
    ///
    /// Without caching every write is logged: handed to `log`, those of one key in order. With caching they are pending and
    /// nothing is handed over.
    #[inline]
    pub fn record_done(&mut self, log: &mut dyn FnMut(Entry<'_>)) {
        if !self.undo.is_empty() {
            self.close_record(log);
        }
    }

    fn close_record(&mut self, log: &mut dyn FnMut(Entry<'_>)) {
        for Superseded { slot, value, timestamp } in self.superseded.drain(..) {
            let value = value.as_ref().map(Small::as_slice);
            log(Entry { key: self.slots.at(slot).key.as_slice(), value, timestamp });
        }
        for undo in self.undo.drain(..) {
            let slot = self.slots.at_mut(undo.slot);
            slot.open = false;
            if !self.options.caching {
                if !slot.listed {
                    slot.listed = true;
                    self.logged.push(undo.slot);
                }
                let value = slot.value.as_ref().map(Small::as_slice);
                log(Entry { key: slot.key.as_slice(), value, timestamp: slot.timestamp });
            } else if undo.state != State::Pending {
                let old = match undo.value {
                    _ if undo.state == State::Unknown => Old::Unread,
                    None => Old::Absent,
                    Some(value) if self.options.keep_old => Old::Value(value),
                    Some(_) => Old::Present,
                };
                let entry = Pending { slot: undo.slot, old };
                self.pending_bytes += entry.bytes();
                self.pending.push_back(entry);
            }
        }
        self.publish_if_moved();
    }

    /// The record failed: every slot that it wrote is what it was before.
    #[inline]
    pub fn record_failed(&mut self) {
        if !self.undo.is_empty() {
            self.undo_record();
        }
    }

    fn undo_record(&mut self) {
        self.superseded.clear();
        let mut undo = std::mem::take(&mut self.undo);
        for former in undo.drain(..) {
            self.uncount(former.slot);
            let slot = self.slots.at_mut(former.slot);
            (slot.state, slot.value, slot.timestamp) = (former.state, former.value, former.timestamp);
            slot.open = false;
            if let Some(index) = self.index.get_mut()
                && !former.state.unapplied()
            {
                index.remove(slot.key.as_slice());
            }
            self.count(former.slot);
        }
        self.undo = undo;
        self.publish_if_moved();
    }

    // ---- drain ----

    /// How many entries are pending.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Takes the oldest pending entry out, for the log and for whoever is downstream; false if there is none.
    ///
    /// The key is logged from now on, whatever comes of forwarding it, and what was taken out counts as forwarded last: a
    /// put of the same key while it is forwarded makes it pending again, behind all others. Where old values are kept, a key
    /// that had no value when it was last forwarded and has none now is passed over: nobody has heard of it.
    ///
    /// # Errors
    ///
    /// Those of `base`, which is asked where the value forwarded last is wanted and was never read. The entry stays pending.
    pub fn next_pending(&mut self, base: &dyn Read, out: &mut DrainedEntry) -> store::Result<bool> {
        debug_assert!(self.undo.is_empty(), "entries are taken out between records");
        self.fetch_ahead();
        while let Some(entry) = self.pending.front() {
            let slot = self.slots.at(entry.slot);
            let had_value = match &entry.old {
                Old::Unread if self.options.keep_old => {
                    out.old.set(None);
                    base.get(self.options.space, slot.key.as_slice(), &mut |value| out.old.set(Some(value)))?
                }
                Old::Value(value) => {
                    out.old.set(Some(value.as_slice()));
                    true
                }
                Old::Absent => false,
                Old::Unread | Old::Present => true,
            };
            if !had_value || !self.options.keep_old {
                out.old.set(None);
            }
            if self.take_first(had_value, out) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the slots whose turn comes next in one short loop, so that the processor waits for their cache lines together
    /// and not for each at its turn, when the record before it is through.
    #[inline]
    fn fetch_ahead(&mut self) {
        if self.fetched == 0 {
            let next = self.pending.iter().take(FETCH_AHEAD);
            let fetched = next.fold(0, |n, entry| n + u64::from(self.slots.at(entry.slot).state.unapplied()));
            std::hint::black_box(fetched);
            self.fetched = self.pending.len().min(FETCH_AHEAD);
        }
    }

    /// Takes the first pending entry off the queue; false if it is to be passed over.
    fn take_first(&mut self, had_value: bool, out: &mut DrainedEntry) -> bool {
        let Some(entry) = self.pending.pop_front() else { return false };
        self.fetched = self.fetched.saturating_sub(1);
        self.pending_bytes -= entry.bytes();
        self.uncount(entry.slot);
        let slot = self.slots.at_mut(entry.slot);
        let heard_of = had_value || slot.value.is_some() || !self.options.keep_old;
        if heard_of {
            out.key.clear();
            out.key.extend_from_slice(slot.key.as_slice());
            out.new.set(slot.value.as_ref().map(Small::as_slice));
            out.timestamp = slot.timestamp;
            if !slot.listed {
                slot.listed = true;
                self.logged.push(entry.slot);
            }
        }
        // A key that was logged in this interval may still have a value in the shard: its absence has to be applied.
        slot.state = if slot.listed { State::Logged } else { State::Clean };
        if let Some(index) = self.index.get_mut()
            && !slot.state.unapplied()
        {
            index.remove(slot.key.as_slice());
        }
        self.count(entry.slot);
        self.publish_if_moved();
        heard_of
    }

    // ---- commit ----

    /// True if there is anything that the shard does not have.
    pub fn is_dirty(&self) -> bool {
        !(self.logged.is_empty() && self.pending.is_empty() && self.undo.is_empty())
    }

    /// What is logged, each key once in key order, as a batch for the shard. Nothing may be pending, since the shard's
    /// position would cover what it does not have.
    pub fn writes(&mut self) -> LoggedWrites<'_> {
        debug_assert!(self.undo.is_empty() && self.pending.is_empty(), "all entries are taken out before a commit");
        LoggedWrites::new(self.options.space, &self.slots, &self.logged, &mut self.order)
    }

    /// The shard has what [`Overlay::writes`] gave: logged entries are clean. They count as cache now, so that the budget may
    /// want some evicted.
    pub fn applied(&mut self) {
        debug_assert!(self.undo.is_empty(), "a commit lies between records");
        for number in self.logged.drain(..) {
            let slot = self.slots.at_mut(number);
            slot.listed = false;
            if slot.state == State::Logged {
                slot.state = State::Clean;
                let bytes = slot.bytes();
                self.uncommitted -= bytes;
                self.clean += bytes;
            }
        }
        self.index.take();
        self.compact();
        self.publish();
    }

    /// Forgets all that was written since the last commit; its keys have to be read from the shard again.
    pub fn abort(&mut self) {
        self.record_failed();
        let mut logged = std::mem::take(&mut self.logged);
        for slot in logged.drain(..) {
            self.slots.at_mut(slot).listed = false;
            self.forget(slot);
        }
        self.logged = logged;
        while let Some(entry) = self.pending.pop_front() {
            self.pending_bytes -= entry.bytes();
            self.forget(entry.slot);
        }
        self.fetched = 0;
        self.index.take();
        self.publish();
    }

    /// Forgets everything, cache too: for when the shard changes by other means than this overlay's commits.
    pub fn clear(&mut self) {
        *self = Self { share: self.share.take(), ..Self::new(self.options) };
        self.publish();
    }

    /// Makes a slot unknown.
    fn forget(&mut self, number: u32) {
        self.uncount(number);
        let slot = self.slots.at_mut(number);
        (slot.state, slot.value) = (State::Unknown, None);
        self.count(number);
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("options", &self.options)
            .field("keys", &self.table.len())
            .field("pending", &self.pending.len())
            .field("logged", &self.logged.len())
            .field("cache_bytes", &self.cache_bytes())
            .field("uncommitted_bytes", &self.uncommitted_bytes())
            .finish_non_exhaustive()
    }
}

const _: () = {
    const fn send<T: Send>() {}
    send::<Overlay>();
};
