//! The overlay's slots, in pages: growing copies nothing but the last one, and leaves little room unused, since a process has
//! hundreds of overlays.

use millpond_store_api::{Read, Result, SpaceId};

use super::small::Small;

/// What a slot says of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// The slot has no key and waits to be used again.
    Free,
    /// Nothing: the shard has to be asked.
    Unknown,
    /// What the shard holds: cache.
    Clean,
    /// Written, neither forwarded nor in the log yet.
    Pending,
    /// In the log, or the transaction, but not in the shard.
    Logged,
}

impl State {
    /// True for what the shard does not have yet.
    #[inline]
    pub(super) const fn unapplied(self) -> bool {
        matches!(self, Self::Pending | Self::Logged)
    }
}

/// A key with what is known of it: one cache line.
#[repr(align(64))]
pub(super) struct Slot {
    pub(super) key: Small,
    /// `None`: the key has no value. Of an unknown slot always `None`.
    pub(super) value: Option<Small>,
    /// Event time of the last write, for slots that are not applied.
    pub(super) timestamp: i64,
    pub(super) state: State,
    /// Used since the hand of the clock passed.
    pub(super) seen: bool,
    /// In the list of slots that were logged since the last commit.
    pub(super) listed: bool,
    /// Written since the last record border: the undo list has what was before.
    pub(super) open: bool,
}

const _: () = assert!(size_of::<Slot>() == 64, "a slot is a cache line");

impl Slot {
    /// What a slot costs beside its heap blocks: itself, its entry in the table (a number and a control byte at the table's
    /// usual load) and its number in a list.
    pub(super) const FIXED: usize = size_of::<Self>() + 8 + 4;

    /// A slot that knows nothing of its key.
    pub(super) fn new(key: Small) -> Self {
        Self { key, value: None, timestamp: 0, state: State::Unknown, seen: false, listed: false, open: false }
    }

    /// Takes over what the shard holds; answers by how many bytes an unknown slot has grown.
    pub(super) fn clean(&mut self, value: Option<&[u8]>) -> usize {
        self.state = State::Clean;
        self.value = value.map(Small::from);
        self.value.as_ref().map_or(0, Small::heap)
    }

    /// Reads an unknown slot from the base; answers by how many bytes it has grown. After an error it is unknown still.
    #[inline(never)]
    pub(super) fn fill(&mut self, space: SpaceId, base: &dyn Read) -> Result<usize> {
        let mut value = None;
        base.get(space, self.key.as_slice(), &mut |bytes| value = Some(Small::from(bytes)))?;
        (self.state, self.value) = (State::Clean, value);
        Ok(self.value.as_ref().map_or(0, Small::heap))
    }

    /// What the slot costs, in bytes.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        Self::FIXED + self.key.heap() + self.value.as_ref().map_or(0, Small::heap)
    }
}

/// Slots by number.
#[derive(Default)]
pub(super) struct Slab {
    /// All but the last are full.
    pages: Vec<Vec<Slot>>,
    free: Vec<u32>,
}

impl Slab {
    const SHIFT: u32 = 12;
    /// Slots per page.
    const PAGE: usize = 1 << Self::SHIFT;
    /// With so much room pages begin, but for the first one: most stores of most tests and many of real tasks are small.
    const FIRST: usize = 4;
    const OTHERS: usize = 256;

    /// Splits a number into page and place.
    #[inline]
    const fn place(slot: u32) -> (usize, usize) {
        ((slot >> Self::SHIFT) as usize, slot as usize & (Self::PAGE - 1))
    }

    /// How many slots there are, free ones included.
    pub(super) fn len(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * Self::PAGE + last.len())
    }

    /// How many slots are free.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// A slot of this slab.
    #[expect(clippy::indexing_slicing, reason = "numbers come from `insert`, and no slot is ever taken away")]
    #[inline]
    pub(super) fn at(&self, slot: u32) -> &Slot {
        let (page, place) = Self::place(slot);
        &self.pages[page][place]
    }

    /// A slot of this slab, to change it.
    #[expect(clippy::indexing_slicing, reason = "numbers come from `insert`, and no slot is ever taken away")]
    #[inline]
    pub(super) fn at_mut(&mut self, slot: u32) -> &mut Slot {
        let (page, place) = Self::place(slot);
        &mut self.pages[page][place]
    }

    /// The slot with a number, if there is one.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> Option<&Slot> {
        let (page, place) = Self::place(slot);
        self.pages.get(page)?.get(place)
    }

    /// Puts a slot where there is room.
    pub(super) fn insert(&mut self, slot: Slot) -> u32 {
        if let Some(number) = self.free.pop() {
            *self.at_mut(number) = slot;
            return number;
        }
        let number = u32::try_from(self.len()).expect("memory holds fewer slots than 32 bits count");
        match self.pages.last_mut() {
            Some(page) if page.len() < Self::PAGE => {
                if page.len() == page.capacity() {
                    page.reserve_exact((page.len() / 2).min(Self::PAGE - page.len()));
                }
                page.push(slot);
            }
            last => {
                let mut page = Vec::with_capacity(if last.is_some() { Self::OTHERS } else { Self::FIRST });
                page.push(slot);
                self.pages.push(page);
            }
        }
        number
    }

    /// Frees a slot, and the blocks of its key and value.
    pub(super) fn remove(&mut self, slot: u32) {
        *self.at_mut(slot) = Slot { state: State::Free, ..Slot::new(Small::from(&[][..])) };
        self.free.push(slot);
    }

    /// All slots that are not free, moved out.
    pub(super) fn into_live(self) -> impl Iterator<Item = Slot> {
        self.pages.into_iter().flatten().filter(|slot| slot.state != State::Free)
    }
}
