//! The engine: opens shards in memory, or on a simulated disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_store_api::{Engine, EngineMemory, Error, ErrorKind, Result, Shard, ShardSpec};

use crate::disk::SimulatedDisk;
use crate::map::Image;
use crate::shard::MemShard;

/// Shards as ordered maps in memory. See the [crate's documentation](crate).
#[derive(Clone, Debug, Default)]
pub struct MemEngine {
    disk: Option<SimulatedDisk>,
    /// What the rows of all open shards take.
    rows: Arc<AtomicUsize>,
}

impl MemEngine {
    /// An engine whose shards survive on `disk`, for tests of crashes and restarts. A shard's directory is its name there.
    pub fn with_simulated_disk(disk: &SimulatedDisk) -> Self {
        Self { disk: Some(disk.clone()), rows: Arc::default() }
    }
}

impl Engine for MemEngine {
    fn name(&self) -> &'static str {
        "mem"
    }

    fn persistent(&self) -> bool {
        self.disk.is_some()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        let (image, file) = match (&self.disk, spec.dir) {
            (None, _) => (Image::default().with_spaces(spec.spaces.iter().map(|space| space.id)), None),
            (Some(disk), Some(dir)) => {
                let (image, file) = disk.open(dir, spec)?;
                (image, Some(file))
            }
            (Some(_), None) => {
                return Err(Error::new(ErrorKind::Invalid, "open shard").with("directory", "none given"));
            }
        };
        Ok(Box::new(MemShard::new(image, file, Arc::clone(&self.rows))))
    }

    /// All rows are in memory, so there is nothing that could be dropped: the library warns of what is too much.
    fn set_memory(&self, _: u64) {}

    fn memory(&self) -> EngineMemory {
        EngineMemory { rows: self.rows.load(Ordering::Relaxed) as u64, ..EngineMemory::default() }
    }
}
