//! A wrapper around any engine, that counts: the way in which encryption or a throttle is put around one.
//!
//! Three things are wrapped, since each hands out the next: the engine, its shards, their readers. All that is not
//! counted is passed on as it is. `missing_trait_methods` sees to it that a method which the seam gets later, with a default
//! that would go around the wrapper, is noticed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond_store_api::{
    Capabilities, Cursor, Direction, Engine, EngineMemory, Flush, Range, Read, Result, Shard, ShardReader, ShardSpec,
    SpaceId, Write, Writes,
};

/// What was asked of an engine, over all its shards and their readers.
#[derive(Debug, Default)]
pub struct Counts {
    reads: AtomicU64,
    walks: AtomicU64,
    batches: AtomicU64,
    bytes_applied: AtomicU64,
}

impl Counts {
    /// Keys that were asked for, one by one or several at once.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Walks that were opened.
    pub fn walks(&self) -> u64 {
        self.walks.load(Ordering::Relaxed)
    }

    /// Batches that were applied, not those that were refused.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Bytes of the keys and values in these batches.
    pub fn bytes_applied(&self) -> u64 {
        self.bytes_applied.load(Ordering::Relaxed)
    }
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// An engine that counts what it is asked.
#[derive(Debug)]
pub struct Counted<E> {
    inner: E,
    counts: Arc<Counts>,
}

impl<E: Engine> Counted<E> {
    /// Wraps an engine; the counts go on for as long as anybody holds them.
    pub fn new(inner: E, counts: Arc<Counts>) -> Self {
        Self { inner, counts }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<E: Engine> Engine for Counted<E> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn persistent(&self) -> bool {
        self.inner.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        Ok(Box::new(CountedShard { inner: self.inner.open(spec)?, counts: Arc::clone(&self.counts) }))
    }

    fn set_memory(&self, bytes: u64) {
        self.inner.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.inner.memory()
    }
}

struct CountedShard {
    inner: Box<dyn Shard>,
    counts: Arc<Counts>,
}

/// Reads that are counted: the shard's and the reader's are the same.
macro_rules! counted_reads {
    ($wrapper:ty) => {
        #[deny(clippy::missing_trait_methods)]
        impl Read for $wrapper {
            fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
                add(&self.counts.reads, 1);
                self.inner.get(space, key, found)
            }

            fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
                add(&self.counts.reads, keys.len());
                self.inner.multi_get(space, keys, found)
            }

            fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
                add(&self.counts.walks, 1);
                self.inner.scan(space, range, direction)
            }

            fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
                self.inner.approximate_num_entries(space)
            }
        }
    };
}

counted_reads!(CountedShard);
counted_reads!(CountedReader);

#[deny(clippy::missing_trait_methods)]
impl Shard for CountedShard {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        let mut counted = CountedWrites { inner: writes, bytes: 0 };
        self.inner.apply(&mut counted, metadata)?;
        add(&self.counts.batches, 1);
        add(&self.counts.bytes_applied, counted.bytes);
        Ok(())
    }

    fn committed(&self) -> Option<&[u8]> {
        self.inner.committed()
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        self.inner.durable()
    }

    fn flush(&mut self, how: Flush) -> Result<()> {
        self.inner.flush(how)
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        self.inner.drop_below(space, key)
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        Arc::new(CountedReader { inner: self.inner.reader(), counts: Arc::clone(&self.counts) })
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.inner.close()
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        self.inner.destroy()
    }

    fn checkpoint(&mut self, to: &Path) -> Result<()> {
        self.inner.checkpoint(to)
    }
}

/// A batch on its way to the shard. An engine may go through it more than once, so the count begins anew then.
struct CountedWrites<'a> {
    inner: &'a mut dyn Writes,
    bytes: usize,
}

#[deny(clippy::missing_trait_methods)]
impl Writes for CountedWrites<'_> {
    fn rewind(&mut self) {
        self.bytes = 0;
        self.inner.rewind();
    }

    fn next(&mut self) -> Option<Write<'_>> {
        let write = self.inner.next()?;
        self.bytes += write.key.len() + write.value.map_or(0, <[u8]>::len);
        Some(write)
    }
}

struct CountedReader {
    inner: Arc<dyn ShardReader>,
    counts: Arc<Counts>,
}

#[deny(clippy::missing_trait_methods)]
impl ShardReader for CountedReader {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        self.inner.committed()
    }
}
