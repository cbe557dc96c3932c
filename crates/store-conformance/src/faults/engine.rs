//! The wrapper: an engine, its shards and their readers, wrong in one way and passed on in all others.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use millpond_store_api::{
    Capabilities, Cursor, Direction, Engine, EngineMemory, Flush, List, Range, Read, Result, Shard, ShardReader,
    ShardSpec, SpaceId, Write, Writes,
};

use super::Fault;
use super::cursor::FaultyCursor;

/// An engine that is right but for one fault.
pub struct Faulty {
    inner: Box<dyn Engine>,
    fault: Fault,
}

impl Faulty {
    /// Puts a fault around an engine.
    pub fn new(inner: Box<dyn Engine>, fault: Fault) -> Self {
        Self { inner, fault }
    }
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faulty").field("inner", &self.inner.name()).field("fault", &self.fault).finish()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Engine for Faulty {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn persistent(&self) -> bool {
        self.inner.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        let inner = self.inner.open(spec)?;
        let metadata = inner.committed().map(<[u8]>::to_vec);
        Ok(Box::new(FaultyShard { inner, fault: self.fault, metadata, refused: Arc::default() }))
    }

    fn set_memory(&self, bytes: u64) {
        self.inner.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.inner.memory()
    }
}

/// A batch that owns its bytes: space, key, value.
type Batch = Vec<(SpaceId, Vec<u8>, Option<Vec<u8>>)>;

fn copy(writes: &mut dyn Writes) -> Batch {
    let mut batch = Batch::new();
    while let Some(Write { space, key, value }) = writes.next() {
        batch.push((space, key.to_vec(), value.map(<[u8]>::to_vec)));
    }
    batch
}

struct FaultyShard {
    inner: Box<dyn Shard>,
    fault: Fault,
    /// Of the last batch.
    metadata: Option<Vec<u8>>,
    /// The batch that was refused last, for readers to see.
    refused: Arc<Mutex<Batch>>,
}

impl FaultyShard {
    fn change(&self, batch: &mut Batch) {
        match self.fault {
            Fault::LastWriteDropped => drop(batch.pop()),
            Fault::DeletesForgotten => batch.retain(|(_, _, value)| value.is_some()),
            Fault::EmptyValueDeletes => {
                batch.iter_mut().for_each(|(_, _, value)| *value = value.take().filter(|value| !value.is_empty()));
            }
            _ => {}
        }
    }
}

fn multi_get(
    inner: &dyn Read,
    fault: Fault,
    space: SpaceId,
    keys: &[&[u8]],
    found: &mut dyn FnMut(usize, &[u8]),
) -> Result<()> {
    let missed = (fault == Fault::MultiGetMissesAKey && keys.len() > 1).then(|| keys.len() - 1);
    inner.multi_get(space, keys, &mut |i, value| {
        if Some(i) != missed {
            found(i, value);
        }
    })
}

fn scan<'a>(
    inner: &'a dyn Read,
    fault: Fault,
    space: SpaceId,
    range: Range<'_>,
    direction: Direction,
) -> Result<Box<dyn Cursor + 'a>> {
    let inner = inner.scan(space, range, direction)?;
    Ok(Box::new(FaultyCursor::new(inner, fault, range, direction)))
}

#[deny(clippy::missing_trait_methods)]
impl Read for FaultyShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(space, key, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        multi_get(&*self.inner, self.fault, space, keys, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        scan(&*self.inner, self.fault, space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.inner.approximate_num_entries(space)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Shard for FaultyShard {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        let mut batch = copy(writes);
        self.change(&mut batch);
        let list: Vec<_> =
            batch.iter().map(|(space, key, value)| Write { space: *space, key, value: value.as_deref() }).collect();
        let stored = match self.fault {
            Fault::MetadataApart => self.metadata.as_deref().unwrap_or_default(),
            _ => metadata,
        };
        let applied = self.inner.apply(&mut List::new(&list), stored);
        if applied.is_err() {
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = batch;
            return applied;
        }
        self.metadata = Some(metadata.to_vec());
        Ok(())
    }

    fn committed(&self) -> Option<&[u8]> {
        match self.fault {
            Fault::MetadataApart => self.metadata.as_deref(),
            _ => self.inner.committed(),
        }
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        match self.fault {
            Fault::DurableTooEarly => Ok(self.inner.committed()),
            _ => self.inner.durable(),
        }
    }

    fn flush(&mut self, how: Flush) -> Result<()> {
        self.inner.flush(how)
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        match self.fault {
            // The bound's successor: what lies below it is the bound, too.
            Fault::DropBelowOneTooMany => self.inner.drop_below(space, &[key, b"\0"].concat()),
            _ => self.inner.drop_below(space, key),
        }
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        let (inner, fault, refused) = (self.inner.reader(), self.fault, Arc::clone(&self.refused));
        Arc::new(FaultyReader { inner, fault, refused })
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

struct FaultyReader {
    inner: Arc<dyn ShardReader>,
    fault: Fault,
    refused: Arc<Mutex<Batch>>,
}

#[deny(clippy::missing_trait_methods)]
impl Read for FaultyReader {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if self.fault == Fault::ReaderSeesRefusedBatch {
            let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            let last = refused.iter().rfind(|(of, written, _)| *of == space && written == key);
            if let Some((_, _, Some(value))) = last {
                found(value);
                return Ok(true);
            }
        }
        self.inner.get(space, key, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        multi_get(&*self.inner, self.fault, space, keys, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        scan(&*self.inner, self.fault, space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.inner.approximate_num_entries(space)
    }
}

#[deny(clippy::missing_trait_methods)]
impl ShardReader for FaultyReader {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        self.inner.committed()
    }
}
