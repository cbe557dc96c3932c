//! The overlay of a store: record cache and transaction buffer in one structure, over the store's space in its shard.

mod commit;
mod entry;
mod hash;
mod merge;
mod slab;
mod small;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;
use millpond_store_api::{self as store, Chunk, Cursor, Direction, Range, Read, Row, SpaceId};
use millpond_topology::Layer;
use smallvec::SmallVec;

use self::hash::hash;
use self::merge::{Index, Merged};
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
/// What is written through [`Layer::put`] belongs to a record (or punctuation, or drained entry) until
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
    /// Pending slots in the order of first writes.
    pending: VecDeque<Pending>,
    /// Slots that were logged since the last commit, each once; some may be pending again.
    logged: Vec<u32>,
    /// The sorted batch; kept for its memory.
    order: Vec<(u64, u32)>,
    index: OnceCell<Index>,
    /// Bytes of unknown, clean and pending slots.
    cache: usize,
    /// Bytes of logged slots.
    uncommitted: usize,
    /// The hand of the clock that evicts.
    hand: u32,
    /// The slot that was read last: what is written next, more often than not.
    last: u32,
    share: Option<Share>,
}

/// What a slot was before the record at hand.
struct Undo {
    slot: u32,
    state: State,
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
    /// An empty overlay, outside any budget.
    pub fn new(options: OverlayOptions) -> Self {
        Self {
            options,
            table: HashTable::new(),
            slots: Slab::default(),
            undo: Vec::new(),
            pending: VecDeque::new(),
            logged: Vec::new(),
            order: Vec::new(),
            index: OnceCell::new(),
            cache: 0,
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
    /// Without caching every key that it wrote is logged: handed to `log` once, in the order of first writes. With caching
    /// they are pending and nothing is handed over.
    #[inline]
    pub fn record_done(&mut self, log: &mut dyn FnMut(Entry<'_>)) {
        if !self.undo.is_empty() {
            self.close_record(log);
        }
    }

    fn close_record(&mut self, log: &mut dyn FnMut(Entry<'_>)) {
        for undo in self.undo.drain(..) {
            let slot = &mut self.slots[undo.slot];
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
                self.cache += entry.bytes();
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
        let mut undo = std::mem::take(&mut self.undo);
        for former in undo.drain(..) {
            self.uncount(former.slot);
            let slot = &mut self.slots[former.slot];
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
    /// put of the same key while it is forwarded makes it pending again, behind all others. A key that had no value when it
    /// was last forwarded and has none now is passed over: nobody has heard of it.
    ///
    /// # Errors
    ///
    /// Those of `base`, which is asked where the value forwarded last is wanted and was never read. The entry stays pending.
    pub fn next_pending(&mut self, base: &dyn Read, out: &mut DrainedEntry) -> store::Result<bool> {
        debug_assert!(self.undo.is_empty(), "entries are taken out between records");
        while let Some(entry) = self.pending.front() {
            let slot = &self.slots[entry.slot];
            let had_value = match &entry.old {
                Old::Unread if self.options.keep_old || slot.value.is_none() => {
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

    /// Takes the first pending entry off the queue; false if it is to be passed over.
    fn take_first(&mut self, had_value: bool, out: &mut DrainedEntry) -> bool {
        let Some(entry) = self.pending.pop_front() else { return false };
        self.cache -= entry.bytes();
        self.uncount(entry.slot);
        let slot = &mut self.slots[entry.slot];
        let heard_of = had_value || slot.value.is_some();
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
            let slot = &mut self.slots[number];
            slot.listed = false;
            if slot.state == State::Logged {
                slot.state = State::Clean;
                let bytes = slot.bytes();
                self.uncommitted -= bytes;
                self.cache += bytes;
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
            self.slots[slot].listed = false;
            self.forget(slot);
        }
        self.logged = logged;
        while let Some(entry) = self.pending.pop_front() {
            self.cache -= entry.bytes();
            self.forget(entry.slot);
        }
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
        let slot = &mut self.slots[number];
        (slot.state, slot.value) = (State::Unknown, None);
        self.count(number);
    }

    // ---- memory ----

    /// Bytes that `statestore.cache.max.bytes` bounds: what is clean and pending.
    pub fn cache_bytes(&self) -> usize {
        self.cache
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
        while freed < bytes && steps > 0 && self.cache > 0 {
            steps -= 1;
            let number = self.hand;
            self.hand = if number as usize + 1 < self.slots.len() { number + 1 } else { 0 };
            let slot = &mut self.slots[number];
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
        let found = self.table.find_entry(hash(self.slots[number].key.as_slice()), |slot| *slot == number);
        if let Ok(entry) = found {
            entry.remove();
        }
        self.slots.remove(number);
    }

    /// Gives memory back when less than half of the slots are in use; between commits only, when no list names a slot.
    fn compact(&mut self) {
        const WORTH_IT: usize = 4096;
        let free = self.slots.free();
        if free < WORTH_IT || free * 2 < self.slots.len() || self.is_dirty() {
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
    }

    /// The byte count that slots of a state are in.
    #[inline]
    fn bytes_of(&mut self, state: State) -> &mut usize {
        match state {
            State::Logged => &mut self.uncommitted,
            _ => &mut self.cache,
        }
    }

    /// Adds a slot to the bytes of its state.
    fn count(&mut self, number: u32) {
        let (state, bytes) = (self.slots[number].state, self.slots[number].bytes());
        *self.bytes_of(state) += bytes;
    }

    /// Takes a slot off the bytes of its state.
    fn uncount(&mut self, number: u32) {
        let (state, bytes) = (self.slots[number].state, self.slots[number].bytes());
        *self.bytes_of(state) -= bytes;
    }

    /// Tells the budget, if the bytes have moved far since it was last told.
    #[inline]
    fn publish_if_moved(&mut self) {
        if self.share.as_ref().is_some_and(|share| share.moved(self.cache, self.uncommitted)) {
            self.publish();
        }
    }

    /// Tells the budget.
    fn publish(&mut self) {
        let (cache, uncommitted) = (self.cache_bytes(), self.uncommitted_bytes());
        if let Some(share) = &mut self.share {
            share.publish(cache, uncommitted);
        }
    }

    // ---- look-up ----

    /// The slot of a key.
    #[inline]
    fn find(&self, key: &[u8]) -> Option<u32> {
        self.table.find(hash(key), |slot| self.slots[*slot].key.as_slice() == key).copied()
    }

    /// The slot of a key, made if there is none.
    #[inline]
    fn slot(&mut self, key: &[u8]) -> u32 {
        let hash = hash(key);
        match self.table.find(hash, |slot| self.slots[*slot].key.as_slice() == key) {
            Some(slot) => *slot,
            None => self.insert(hash, key),
        }
    }

    /// As [`Overlay::slot`], after a look at the slot that was read last.
    #[inline]
    fn slot_to_write(&mut self, key: &[u8]) -> u32 {
        match self.slots.get(self.last) {
            Some(last) if last.state != State::Free && last.key.as_slice() == key => self.last,
            _ => self.slot(key),
        }
    }

    #[cold]
    fn insert(&mut self, hash: u64, key: &[u8]) -> u32 {
        let number = self.slots.insert(Slot::new(Small::from(key)));
        let slots = &self.slots;
        self.table.insert_unique(hash, number, |slot| hash_of(slots, *slot));
        self.count(number);
        self.publish_if_moved();
        number
    }

    /// The index for scans, built if there is none.
    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut index = Index::default();
            let logged = self.logged.iter().copied();
            let pending = self.pending.iter().map(|entry| entry.slot);
            for number in logged.chain(pending).chain(self.undo.iter().map(|undo| undo.slot)) {
                index.insert(self.slots[number].key.as_slice(), number);
            }
            index
        })
    }
}

fn hash_of(slots: &Slab, number: u32) -> u64 {
    hash(slots[number].key.as_slice())
}

impl Layer for Overlay {
    fn get<'a>(&'a mut self, base: &dyn Read, key: &[u8]) -> store::Result<Option<&'a [u8]>> {
        let number = self.slot(key);
        self.last = number;
        let slot = &mut self.slots[number];
        slot.seen = true;
        if slot.state == State::Unknown {
            self.cache += slot.fill(self.options.space, base)?;
        }
        Ok(slot.value.as_ref().map(Small::as_slice))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> store::Result<()> {
        let number = self.slot_to_write(key);
        let slot = &mut self.slots[number];
        let (former, before) = (slot.state, slot.bytes());
        if slot.open {
            match (&mut slot.value, value) {
                (Some(old), Some(new)) => old.assign(new),
                (old, new) => *old = new.map(Small::from),
            }
            slot.timestamp = timestamp;
        } else {
            self.undo.push(Undo {
                slot: number,
                state: former,
                value: std::mem::replace(&mut slot.value, value.map(Small::from)),
                timestamp: std::mem::replace(&mut slot.timestamp, timestamp),
            });
            slot.state = if self.options.caching { State::Pending } else { State::Logged };
            (slot.open, slot.seen) = (true, true);
            if let Some(index) = self.index.get_mut() {
                index.insert(key, number);
            }
        }
        let (state, after) = (slot.state, slot.bytes());
        *self.bytes_of(former) -= before;
        *self.bytes_of(state) += after;
        Ok(())
    }

    fn scan<'a>(
        &'a self,
        base: &'a dyn Read,
        range: Range<'_>,
        direction: Direction,
    ) -> store::Result<Box<dyn Cursor + 'a>> {
        let cursor = base.scan(self.options.space, range, direction)?;
        let index = self.index();
        if index.is_empty() {
            return Ok(cursor);
        }
        Ok(Box::new(Merged::new(cursor, index, &self.slots, range, direction)))
    }

    fn touch(&mut self, base: &dyn Read, keys: &[&[u8]]) -> store::Result<()> {
        // Two short passes, over the table and over the slots it names, instead of one: the processor waits for the cache
        // lines of several keys at once. What the table names first is the right slot but for one key in a hundred.
        let hashes: SmallVec<[u64; TOUCH]> = keys.iter().map(|key| hash(key)).collect();
        let guesses: SmallVec<[Option<u32>; TOUCH]> =
            hashes.iter().map(|hash| self.table.find(*hash, |_| true).copied()).collect();
        let mut ask: SmallVec<[&[u8]; TOUCH]> = SmallVec::new();
        let mut asked: SmallVec<[u32; TOUCH]> = SmallVec::new();
        for (key, guess) in keys.iter().zip(guesses) {
            let number = match guess {
                Some(number) if self.slots[number].key.as_slice() == *key => number,
                _ => self.slot(key),
            };
            let slot = &mut self.slots[number];
            slot.seen = true;
            if slot.state == State::Unknown {
                ask.push(key);
                asked.push(number);
            }
        }
        if ask.is_empty() {
            return Ok(());
        }
        let (slots, cache) = (&mut self.slots, &mut self.cache);
        base.multi_get(self.options.space, &ask, &mut |i, value| {
            // A key that was named twice is found twice.
            if let Some(slot) = asked.get(i).map(|number| &mut slots[*number])
                && slot.state == State::Unknown
            {
                *cache += slot.clean(Some(value));
            }
        })?;
        for number in asked {
            let slot = &mut self.slots[number];
            if slot.state == State::Unknown {
                self.cache += slot.clean(None);
            }
        }
        Ok(())
    }

    fn written(&self, range: Range<'_>, direction: Direction, keys: &mut Chunk) {
        self.index().keys(range, direction, &mut |key| keys.push(Row { key, value: &[] }));
    }

    fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let slot = &self.slots[self.find(key)?];
        (slot.state != State::Unknown).then(|| slot.value.as_ref().map(Small::as_slice))
    }

    fn space(&self) -> SpaceId {
        self.options.space
    }
}

/// How many keys a look-ahead may name without an allocation.
const TOUCH: usize = 64;

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
