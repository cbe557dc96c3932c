//! How cases of a store kind reach the space that they test.

use millpond_store_api::{DirectSpace, Result, Shard, Space, SpaceId, SpaceMut};

use crate::{A, B, Harness, Rig};

/// Two empty spaces, wherever they live: in a shard, or in a buffer over one.
pub trait Subject {
    /// Lends the first space; the same one at each call.
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut));

    /// Lends both at once, for the kinds that keep rows in two: the first, and one from which rows expire.
    fn with_both(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut));

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
        let rig = Rig::new(harness);
        case(&mut ShardSubject { space, shard: rig.open(), second: rig.open_named("second") });
    }
}

/// Each space is in a shard of its own: one that writes at once has its shard to itself.
struct ShardSubject {
    space: SpaceId,
    shard: Box<dyn Shard>,
    second: Box<dyn Shard>,
}

impl Subject for ShardSubject {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        body(&mut DirectSpace::new(&mut *self.shard, self.space));
    }

    fn with_both(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
        let (mut first, mut second) =
            (DirectSpace::new(&mut *self.shard, self.space), DirectSpace::new(&mut *self.second, B));
        body(&mut first, &mut second);
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
        self.after(wrote);
    }

    fn with_both(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
        let (mut first, mut second) = (false, false);
        self.inner.with_both(&mut |one, other| {
            body(&mut Watched { space: one, wrote: &mut first }, &mut Watched { space: other, wrote: &mut second });
        });
        self.after(first || second);
    }

    fn settle(&mut self) {
        self.inner.settle();
    }
}

impl Settling<'_> {
    fn after(&mut self, wrote: bool) {
        self.writes += u32::from(wrote);
        if wrote && self.every.is_some_and(|n| self.writes.is_multiple_of(n)) {
            self.inner.settle();
        }
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

    fn approximate_num_entries(&self) -> Result<u64> {
        self.space.approximate_num_entries()
    }
}

impl SpaceMut for Watched<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        *self.wrote = true;
        self.space.put(key, value)
    }
}

/// Lends the first space to a closure that is called once, and hands its answer on.
pub(crate) fn with<T>(subject: &mut dyn Subject, body: impl FnOnce(&mut dyn SpaceMut) -> T) -> T {
    let (mut body, mut answer) = (Some(body), None);
    subject.with(&mut |space| {
        let body = body.take().expect("`with` calls once");
        answer = Some(body(space));
    });
    answer.expect("`with` calls once")
}

/// As [`with`], with both spaces.
pub(crate) fn with_both<T>(
    subject: &mut dyn Subject,
    body: impl FnOnce(&mut dyn SpaceMut, &mut dyn SpaceMut) -> T,
) -> T {
    let (mut body, mut answer) = (Some(body), None);
    subject.with_both(&mut |first, second| {
        let body = body.take().expect("`with_both` calls once");
        answer = Some(body(first, second));
    });
    answer.expect("`with_both` calls once")
}
