//! The traits that an engine implements: reads, the single writer's shard, and readers for other threads.

use std::path::Path;
use std::sync::Arc;

use crate::{Capabilities, Cursor, Direction, Error, ErrorKind, Range, Result, SpaceId, Writes};

/// Reads, common to the writer's [`Shard`] and to a [`ShardReader`].
///
/// All by `&self`: two stores of one shard are read side by side. An engine that fills a cache on reads uses a `Cell` or a
/// lock; a shard is `Send`, not `Sync`. A space that the shard does not have is [`ErrorKind::Invalid`].
pub trait Read {
    /// Calls `found` with the value while it is pinned, once, or not at all; answers whether it did.
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Calls `found(i, value)` once for each `keys[i]` that is there, in any order.
    ///
    /// The default asks for one key after the other; what is lost is the overlap of the reads.
    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (i, key) in keys.iter().enumerate() {
            self.get(space, key, &mut |value| found(i, value))?;
        }
        Ok(())
    }

    /// A walk over a range that is not [empty](Range::is_empty).
    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>>;

    /// About how many rows a space has.
    ///
    /// MUST be exact for up to 1,000 rows, so it is 0 where there are none. Above it may be an estimate: within a factor of two
    /// where each key was put once, whatever lies in other spaces; further off where many rows were replaced or deleted lately.
    ///
    /// The default counts row by row, which is exact; what is lost is time, as much as a walk over the whole space takes. An
    /// engine that keeps count, or can estimate, does that instead.
    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        count(&mut *self.scan(space, Range::ALL, Direction::Forward)?)
    }
}

/// How many rows a walk has left.
pub(crate) fn count(rows: &mut dyn Cursor) -> Result<u64> {
    let mut counted = 0;
    while rows.next()?.is_some() {
        counted += 1;
    }
    Ok(counted)
}

/// How to flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Begin; [`Shard::durable`] moves when it is done.
    Start,
    /// Return when all that was applied is durable.
    Wait,
}

/// A task's state in one engine.
///
/// # Contract
///
/// Nothing is written but by [`Shard::apply`]: a batch together with its *metadata*, an opaque blob in which the library
/// keeps the offsets that the batch stands for. A shard is *committed* up to the last applied batch and *durable* up to the
/// last flushed one. All spaces and the metadata agree with each other at any moment, after any crash.
///
/// # Threading
///
/// One writer, which owns the shard (`Send`, not `Sync`). Other threads read through [`Shard::reader`].
///
/// # Crash safety
///
/// After a kill a reopened persistent shard MUST stand at a batch boundary at or after what [`Shard::durable`] answered
/// last, never between two batches. It need not be the last batch: the library reads the rest again from the changelog,
/// so an engine needs no write-ahead log. Only one that was opened as [unlogged](crate::ShardSpec::unlogged) MUST stand at
/// its last applied batch. Dropping a shard without [`Shard::close`] counts as a crash.
///
/// # What the library does for you
///
/// It wraps every shard in [`Poison`](crate::Poison): after an error of `apply`, `flush`, `durable`, `drop_below` or
/// `checkpoint` no further call but reads, `close` and `destroy` is made. It never opens a directory twice, never scans an
/// empty range, and keeps an interval's writes to itself until they are committed in the log.
pub trait Shard: Read + Send {
    /// What this shard can do, the same answer for its whole life.
    fn capabilities(&self) -> Capabilities;

    /// Applies all of the batch and replaces the metadata, or changes nothing. May return before it is durable.
    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()>;

    /// The metadata of the last applied batch; `None` for a new shard.
    fn committed(&self) -> Option<&[u8]>;

    /// The metadata of the last batch that survives a kill. By `&mut`: it picks up flushes that ended, and their errors.
    /// An engine that is not persistent answers `None`.
    fn durable(&mut self) -> Result<Option<&[u8]>>;

    /// Makes what was applied durable. An engine that is not persistent does nothing.
    fn flush(&mut self, how: Flush) -> Result<()>;

    /// Says that rows of `space` that sort below `key` are never asked for again. They may come back after a crash.
    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()>;

    /// A view of the committed state for other threads. It may outlive the shard, and answers [`ErrorKind::Retry`] then.
    fn reader(&self) -> Arc<dyn ShardReader>;

    /// Flushes and releases everything; may wait for running calls of readers.
    fn close(self: Box<Self>) -> Result<()>;

    /// Releases everything and deletes what was stored.
    fn destroy(self: Box<Self>) -> Result<()>;

    /// Makes a copy at `to`, which does not exist yet, that opens like this shard at its committed state.
    ///
    /// The default refuses, which is right for every engine that does not declare
    /// [`Capabilities::cheap_checkpoint`].
    fn checkpoint(&mut self, to: &Path) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "checkpoint").with("to", to.display()))
    }
}

/// The committed state of a shard, from any thread, while the writer goes on.
pub trait ShardReader: Read + Send + Sync {
    /// The metadata of the last applied batch, not older than any row that was read before the call.
    fn committed(&self) -> Result<Option<Arc<[u8]>>>;
}

const _: () = {
    const fn send<T: ?Sized + Send>() {}
    const fn sync<T: ?Sized + Sync>() {}
    send::<Box<dyn Shard>>();
    send::<Error>();
    sync::<Error>();
    send::<Arc<dyn ShardReader>>();
    sync::<Arc<dyn crate::Engine>>();
    assert!(size_of::<Result<()>>() == size_of::<usize>(), "an error travels in a register");
};
