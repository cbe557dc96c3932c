//! What a task's graph does with an overlay: get, put, scan, touch.

use millpond_store_api::{Chunk, Cursor, Direction, Range, Read, Result, Row, SpaceId};
use millpond_topology::Layer;
use smallvec::SmallVec;

use super::hash::hash;
use super::merge::{Index, Merged, Unapplied};
use super::slab::{Slab, Slot, State};
use super::small::Small;
use super::{Overlay, Superseded, Undo};

impl Layer for Overlay {
    fn get<'a>(&'a mut self, base: &dyn Read, key: &[u8]) -> Result<Option<&'a [u8]>> {
        let number = self.slot(key);
        self.last = number;
        let slot = self.slots.at_mut(number);
        slot.seen = true;
        if slot.state == State::Unknown {
            self.clean += slot.fill(self.options.space, base)?;
        }
        Ok(slot.value.as_ref().map(Small::as_slice))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> Result<()> {
        let number = self.slot_to_write(key);
        let slot = self.slots.at_mut(number);
        let (former, before) = (slot.state, slot.bytes());
        if slot.open && !self.options.caching {
            self.superseded.push(Superseded {
                slot: number,
                value: std::mem::replace(&mut slot.value, value.map(Small::from)),
                timestamp: std::mem::replace(&mut slot.timestamp, timestamp),
            });
        } else if slot.open {
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

    fn scan<'a>(&'a self, base: &'a dyn Read, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + 'a>> {
        let cursor = base.scan(self.options.space, range, direction)?;
        let index = self.index();
        if index.is_empty() {
            return Ok(cursor);
        }
        Ok(Box::new(Merged::new(cursor, Unapplied { index, slots: &self.slots }, range, direction)))
    }

    fn touch(&mut self, base: &dyn Read, keys: &[&[u8]]) -> Result<()> {
        // Two short passes, over the table and over the slots it names, instead of one: the processor waits for the cache
        // lines of several keys at once. What the table names first is the right slot but for one key in a hundred.
        let hashes: SmallVec<[u64; TOUCH]> = keys.iter().map(|key| hash(key)).collect();
        let guesses: SmallVec<[Option<u32>; TOUCH]> =
            hashes.iter().map(|hash| self.table.find(*hash, |_| true).copied()).collect();
        let mut ask: SmallVec<[&[u8]; TOUCH]> = SmallVec::new();
        let mut asked: SmallVec<[u32; TOUCH]> = SmallVec::new();
        for (key, guess) in keys.iter().zip(guesses) {
            let number = match guess {
                Some(number) if self.slots.at(number).key.as_slice() == *key => number,
                _ => self.slot(key),
            };
            let slot = self.slots.at_mut(number);
            slot.seen = true;
            if slot.state == State::Unknown {
                ask.push(key);
                asked.push(number);
            }
        }
        if ask.is_empty() {
            return Ok(());
        }
        let (slots, clean) = (&mut self.slots, &mut self.clean);
        base.multi_get(self.options.space, &ask, &mut |i, value| {
            // A key that was named twice is found twice.
            if let Some(slot) = asked.get(i).map(|number| slots.at_mut(*number))
                && slot.state == State::Unknown
            {
                *clean += slot.clean(Some(value));
            }
        })?;
        for number in asked {
            let slot = self.slots.at_mut(number);
            if slot.state == State::Unknown {
                self.clean += slot.clean(None);
            }
        }
        Ok(())
    }

    fn approximate_num_entries(&self, base: &dyn Read) -> Result<u64> {
        self.approximate_count(base)
    }

    fn written(&self, range: Range<'_>, direction: Direction, keys: &mut Chunk) {
        keys.clear();
        self.index().keys(range, direction, &mut |key| keys.push(Row { key, value: &[] }));
    }

    fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let slot = self.slots.at(self.find(key)?);
        (slot.state != State::Unknown).then(|| slot.value.as_ref().map(Small::as_slice))
    }

    fn space(&self) -> SpaceId {
        self.options.space
    }
}

/// How many keys a look-ahead may name without an allocation.
const TOUCH: usize = 64;

impl Overlay {
    /// The slot of a key.
    #[inline]
    fn find(&self, key: &[u8]) -> Option<u32> {
        self.table.find(hash(key), |slot| self.slots.at(*slot).key.as_slice() == key).copied()
    }

    /// The slot of a key, made if there is none.
    #[inline]
    fn slot(&mut self, key: &[u8]) -> u32 {
        let hash = hash(key);
        match self.table.find(hash, |slot| self.slots.at(*slot).key.as_slice() == key) {
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

    /// A new slot for a key that has none.
    #[inline(never)]
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
                index.insert(self.slots.at(number).key.as_slice(), number);
            }
            index
        })
    }
}

/// The hash of a slot's key.
pub(super) fn hash_of(slots: &Slab, number: u32) -> u64 {
    hash(slots.at(number).key.as_slice())
}
