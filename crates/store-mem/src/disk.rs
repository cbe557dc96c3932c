//! Simulated durability: a disk in memory that survives a crash, and fails when a test says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_store_api::{Error, ErrorKind, Flush, Result, ShardSpec, SpaceId};

use crate::map::Image;
use crate::small::Small;

/// A disk for tests of crashes: it keeps, for each directory, what was flushed.
///
/// A handle; clones are the same disk. Make one per simulated machine, and a new
/// [`MemEngine::with_simulated_disk`](crate::MemEngine::with_simulated_disk) over it for each simulated process: shards
/// that are dropped without `close` come back at their last flush, not later. No file is touched; directories are names.
///
/// A flush that was only *started* ends when the shard is next asked for `durable`, so a crash in between loses it. What was
/// dropped does not come back by a crash, as where engines delete files.
///
/// Batches of an [unlogged](ShardSpec::unlogged) shard are durable once they are applied, on a slow disk too: what is
/// simulated is the end of a process, not of a machine.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Default)]
struct Disk {
    directories: BTreeMap<PathBuf, Stored>,
    faults: Vec<(DiskOp, ErrorKind)>,
    hold_flushes: bool,
    /// How many shards were opened so far: numbers them.
    opened: u64,
}

/// What a directory holds.
#[derive(Default)]
struct Stored {
    image: Image,
    /// The number of the shard that has it open.
    holder: Option<u64>,
}

/// Where [`SimulatedDisk::fail_next`] strikes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskOp {
    /// When a shard is opened; nothing is opened then.
    Open,
    /// When a batch is applied; nothing of it is applied then.
    Apply,
    /// When a flush ends: in `flush(Wait)`, in `close`, or in `durable` after `flush(Start)`. Nothing becomes durable then.
    Flush,
}

impl SimulatedDisk {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        // No code that can panic runs under the lock, but for allocations.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next such operation of any shard on this disk fail; several calls make several fail, in this order.
    pub fn fail_next(&self, op: DiskOp, kind: ErrorKind) {
        self.lock().faults.push((op, kind));
    }

    /// How many faults have not struck yet.
    pub fn pending_faults(&self) -> usize {
        self.lock().faults.len()
    }

    /// A slow disk: while true, a flush that was only started does not end. One that is waited for does.
    pub fn hold_flushes(&self, hold: bool) {
        self.lock().hold_flushes = hold;
    }

    /// The directories that hold a shard, in order.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.lock().directories.keys().cloned().collect()
    }

    /// Loses everything, as if the machine got a new disk. The flushes of shards that are open fail from now on.
    pub fn wipe(&self) {
        self.lock().directories.clear();
    }

    /// Locks a directory, and answers the shard's state with the spaces asked for.
    pub(crate) fn open(&self, dir: &Path, spec: &ShardSpec<'_>) -> Result<(Image, File)> {
        let op = "open shard";
        let mut disk = self.lock();
        disk.strike(DiskOp::Open, op)?;
        disk.opened += 1;
        let number = disk.opened;
        let stored = disk.directories.entry(dir.to_owned()).or_default();
        if stored.holder.is_some() {
            return Err(Error::new(ErrorKind::Retry, op).with("locked", dir.display()));
        }
        stored.holder = Some(number);
        let image = stored.image.with_spaces(spec.spaces.iter().map(|space| space.id));
        let durable = image.metadata.clone();
        let file = File {
            disk: self.clone(),
            dir: dir.to_owned(),
            number,
            unlogged: spec.unlogged,
            log: Vec::new(),
            started: 0,
            durable,
        };
        Ok((image, file))
    }
}

/// State is business data: the output says how much there is.
impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimulatedDisk").field("directories", &self.lock().directories.len()).finish_non_exhaustive()
    }
}

impl Disk {
    /// What a shard has open; gone if the disk was wiped since.
    fn held(&mut self, file: &File, op: &'static str) -> Result<&mut Stored> {
        let held = self.directories.get_mut(&file.dir).filter(|stored| stored.holder == Some(file.number));
        held.ok_or_else(|| Error::new(ErrorKind::Io, op).with("missing", file.dir.display()))
    }

    fn strike(&mut self, op: DiskOp, name: &'static str) -> Result<()> {
        match self.faults.iter().position(|(at, _)| *at == op) {
            Some(i) => Err(Error::new(self.faults.remove(i).1, name).with("cause", "an injected fault")),
            None => Ok(()),
        }
    }
}

/// A shard's directory on a simulated disk, locked.
///
/// An image is not copied at a flush: the writes since the last one are kept, and repeated on the image.
pub(crate) struct File {
    disk: SimulatedDisk,
    dir: PathBuf,
    number: u64,
    /// Batches are durable once they are applied.
    unlogged: bool,
    log: Vec<Entry>,
    /// How many entries of the log the flush that was started last will make durable.
    started: usize,
    durable: Option<Arc<[u8]>>,
}

enum Entry {
    /// A batch begins; this is its metadata.
    Batch(Arc<[u8]>),
    Write(SpaceId, Small, Option<Small>),
    Drop(SpaceId, Small),
}

impl Entry {
    fn repeat(&self, image: &mut Image) {
        match self {
            Self::Batch(metadata) => image.metadata = Some(Arc::clone(metadata)),
            Self::Write(space, key, value) => {
                image.map_or_new(*space).set(key.as_slice(), value.as_ref().map(Small::as_slice));
            }
            Self::Drop(space, key) => drop(image.map_or_new(*space).split_below(key.as_slice())),
        }
    }
}

/// Where the writes of a batch are kept until they are durable.
pub(crate) struct BatchLog<'a>(&'a mut Vec<Entry>);

impl BatchLog<'_> {
    pub(crate) fn write(&mut self, space: SpaceId, key: &[u8], value: Option<&[u8]>) {
        self.0.push(Entry::Write(space, Small::new(key), value.map(Small::new)));
    }
}

impl File {
    /// A batch that will be applied in full, unless this answers an error.
    pub(crate) fn begin(&mut self, metadata: &Arc<[u8]>) -> Result<BatchLog<'_>> {
        let op = "apply batch";
        let mut disk = self.disk.lock();
        disk.strike(DiskOp::Apply, op)?;
        if self.unlogged {
            // It will be saved, so there must be a place for it.
            disk.held(self, op)?;
        }
        drop(disk);
        self.log.push(Entry::Batch(Arc::clone(metadata)));
        Ok(BatchLog(&mut self.log))
    }

    /// The batch is applied in full.
    pub(crate) fn end(&mut self) -> Result<()> {
        if !self.unlogged {
            return Ok(());
        }
        let handle = self.disk.clone();
        self.started = 0;
        self.save(&mut handle.lock(), self.log.len(), "apply batch")
    }

    /// What is durable goes at once, as when files are deleted; what is not goes again when it is.
    pub(crate) fn drop_below(&mut self, space: SpaceId, key: &[u8]) {
        let gone = Entry::Drop(space, Small::new(key));
        let handle = self.disk.clone();
        if let Ok(stored) = handle.lock().held(self, "drop expired rows") {
            gone.repeat(&mut stored.image);
        }
        self.log.push(gone);
    }

    pub(crate) fn flush(&mut self, how: Flush) -> Result<()> {
        self.started = self.log.len();
        match how {
            Flush::Start => Ok(()),
            Flush::Wait => self.finish("flush shard"),
        }
    }

    pub(crate) fn durable(&mut self) -> Result<Option<&[u8]>> {
        if self.started > 0 && !self.disk.lock().hold_flushes {
            self.finish("ask for the durable position")?;
        }
        Ok(self.durable.as_deref())
    }

    /// Makes what was started durable.
    fn finish(&mut self, op: &'static str) -> Result<()> {
        let ended = std::mem::take(&mut self.started);
        let handle = self.disk.clone();
        let mut disk = handle.lock();
        disk.strike(DiskOp::Flush, op)?;
        self.save(&mut disk, ended, op)
    }

    /// Makes the first entries of the log durable.
    fn save(&mut self, disk: &mut Disk, ended: usize, op: &'static str) -> Result<()> {
        let stored = disk.held(self, op)?;
        self.log.drain(..ended).for_each(|entry| entry.repeat(&mut stored.image));
        self.durable.clone_from(&stored.image.metadata);
        Ok(())
    }

    pub(crate) fn checkpoint(&self, to: &Path) -> Result<()> {
        let op = "checkpoint";
        let mut disk = self.disk.lock();
        if disk.directories.contains_key(to) {
            return Err(Error::new(ErrorKind::Invalid, op).with("exists", to.display()));
        }
        let mut image = disk.held(self, op)?.image.clone();
        self.log.iter().for_each(|entry| entry.repeat(&mut image));
        disk.directories.insert(to.to_owned(), Stored { image, holder: None });
        Ok(())
    }

    pub(crate) fn destroy(self) {
        let mut disk = self.disk.lock();
        if disk.held(&self, "destroy shard").is_ok() {
            disk.directories.remove(&self.dir);
        }
    }
}

/// Releases the lock; what was not flushed is lost.
impl Drop for File {
    fn drop(&mut self) {
        let mut disk = self.disk.lock();
        if let Ok(stored) = disk.held(self, "close shard") {
            stored.holder = None;
        }
    }
}
