//! How cases of a store kind reach the space that they test.

use millpond_store_api::{DirectSpace, Result, Shard, Space, SpaceId, SpaceMut};

use crate::{A, B, Harness, Rig};

/// One empty space, wherever it lives: in a shard, or in a buffer over one.
pub trait Subject {
    /// Lends the space; the same one at each call.
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut));

    /// Moves what was written so far one level down: a buffer commits into its shard. Reads must answer the same before
    /// and after. A space without levels does nothing.
    fn settle(&mut self);
}

/// When a case's writes are settled: never, after each write, after every second one.
const SETTLE_EVERY: [Option<u32>; 3] = [None, Some(1), Some(2)];

/// Runs a case of a kind on fresh subjects: once with all writes in the upper level, once with all of them settled, once
/// with every second one settled.
pub fn run_kind(make: &dyn Fn() -> Box<dyn Subject>, case: fn(&mut dyn Subject)) {
    for every in SETTLE_EVERY {
        case(&mut Settling { inner: &mut *make(), every, writes: 0 });
    }
}

/// Runs a case of a kind straight on a shard: in a plain space, and in one from which rows expire.
pub fn through_shard(harness: &dyn Harness, case: fn(&mut dyn Subject)) {
    for space in [A, B] {
        case(&mut ShardSubject { shard: Rig::new(harness).open(), space });
    }
}

struct ShardSubject {
    shard: Box<dyn Shard>,
    space: SpaceId,
}

impl Subject for ShardSubject {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        body(&mut DirectSpace::new(&mut *self.shard, self.space));
    }

    fn settle(&mut self) {}
}

/// Settles the subject within `with`'s calls: a call that wrote is followed by a settlement when its turn has come.
struct Settling<'a> {
    inner: &'a mut dyn Subject,
    every: Option<u32>,
    writes: u32,
}

impl Subject for Settling<'_> {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        let mut wrote = false;
        self.inner.with(&mut |space| body(&mut Watched { space, wrote: &mut wrote }));
        self.writes += u32::from(wrote);
        if wrote && self.every.is_some_and(|n| self.writes.is_multiple_of(n)) {
            self.inner.settle();
        }
    }

    fn settle(&mut self) {
        self.inner.settle();
    }
}

/// Notices writes.
struct Watched<'a> {
    space: &'a mut dyn SpaceMut,
    wrote: &'a mut bool,
}

impl Space for Watched<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.space.get(key)
    }

    fn scan(
        &self,
        range: millpond_store_api::Range<'_>,
        direction: millpond_store_api::Direction,
    ) -> Result<Box<dyn millpond_store_api::Cursor + '_>> {
        self.space.scan(range, direction)
    }

    fn touch(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.space.touch(keys)
    }
}

impl SpaceMut for Watched<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        *self.wrote = true;
        self.space.put(key, value)
    }
}
