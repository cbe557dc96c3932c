//! The shard: batches into ordered maps.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_store_api::{
    Capabilities, Cursor, Direction, Error, ErrorKind, Flush, Isolation, Range, Read, Result, Shard, ShardReader,
    SpaceId, Write, Writes,
};

use crate::disk::File;
use crate::map::Image;
use crate::reader::{MemReader, count, scan};
use crate::shared::Shared;

pub(crate) struct MemShard {
    shared: Arc<Shared>,
    committed: Option<Arc<[u8]>>,
    /// What the rows of all shards of the engine take, and what of it is this shard's.
    total: Arc<AtomicUsize>,
    counted: usize,
    /// Where flushes go; none for a shard that lives in memory only.
    file: Option<File>,
}

impl MemShard {
    pub(crate) fn new(image: Image, file: Option<File>, total: Arc<AtomicUsize>) -> Self {
        let (committed, bytes) = (image.metadata.clone(), image.bytes());
        let mut shard = Self { shared: Arc::new(Shared::new(image)), committed, total, counted: 0, file };
        shard.count(bytes);
        shard
    }

    /// Tells the engine how many bytes the rows take now.
    fn count(&mut self, bytes: usize) {
        // Wrapping on purpose: the sum of all shards is exact, whatever the order of additions.
        self.total.fetch_add(bytes.wrapping_sub(self.counted), Ordering::Relaxed);
        self.counted = bytes;
    }
}

/// Readers end with the shard. Without `close` nothing is flushed: a crash.
impl Drop for MemShard {
    fn drop(&mut self) {
        self.shared.end();
        self.count(0);
    }
}

impl Read for MemShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let now = self.shared.now("get")?;
        Ok(now.image().map(space, "get")?.get(key).map(|value| found(value.as_slice())).is_some())
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let now = self.shared.now("get")?;
        let map = now.image().map(space, "get")?;
        for (i, key) in keys.iter().enumerate() {
            if let Some(value) = map.get(key) {
                found(i, value.as_slice());
            }
        }
        Ok(())
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        scan(&self.shared, space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        count(&self.shared, space)
    }
}

impl Shard for MemShard {
    fn capabilities(&self) -> Capabilities {
        let persistent = self.file.is_some();
        Capabilities {
            persistent,
            overlapped_reads: false,
            cheap_checkpoint: persistent,
            shared_open: false,
            isolation: Isolation::Chunk,
        }
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        let op = "apply batch";
        let metadata: Arc<[u8]> = metadata.into();
        let file = self.file.as_mut();
        let bytes = self.shared.change(op, |image| {
            while let Some(Write { space, .. }) = writes.next() {
                image.position(space, op)?;
            }
            let mut log = file.map(|file| file.begin(&metadata)).transpose()?;
            writes.rewind();
            let mut last = None;
            while let Some(Write { space, key, value }) = writes.next() {
                let position = match last {
                    Some((id, position)) if id == space => position,
                    _ => image.position(space, op)?,
                };
                last = Some((space, position));
                image.at_mut(position).set(key, value);
                if let Some(log) = &mut log {
                    log.write(space, key, value);
                }
            }
            image.metadata = Some(Arc::clone(&metadata));
            Ok(image.bytes())
        })?;
        self.count(bytes);
        self.committed = Some(metadata);
        self.file.as_mut().map_or(Ok(()), File::end)
    }

    fn committed(&self) -> Option<&[u8]> {
        self.committed.as_deref()
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        drop(self.shared.now("ask for the durable position")?);
        self.file.as_mut().map_or(Ok(None), File::durable)
    }

    fn flush(&mut self, how: Flush) -> Result<()> {
        // A batch that a panic has cut off must not become durable.
        drop(self.shared.now("flush shard")?);
        self.file.as_mut().map_or(Ok(()), |file| file.flush(how))
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        let op = "drop expired rows";
        let (dropped, bytes) = self.shared.change(op, |image| {
            let position = image.position(space, op)?;
            let dropped = image.at_mut(position).split_below(key);
            Ok((dropped, image.bytes()))
        })?;
        self.count(bytes);
        // They are freed here, where no reader waits for it.
        drop(dropped);
        if let Some(file) = &mut self.file {
            file.drop_below(space, key);
        }
        Ok(())
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        Arc::new(MemReader(Arc::clone(&self.shared)))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.flush(Flush::Wait)
    }

    fn destroy(mut self: Box<Self>) -> Result<()> {
        if let Some(file) = self.file.take() {
            file.destroy();
        }
        Ok(())
    }

    fn checkpoint(&mut self, to: &Path) -> Result<()> {
        drop(self.shared.now("checkpoint")?);
        match &self.file {
            Some(file) => file.checkpoint(to),
            None => Err(Error::new(ErrorKind::Unsupported, "checkpoint").with("to", to.display())),
        }
    }
}
