//! The engine: opens shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond_store_api::{Engine, Error, ErrorKind, Result, Shard, ShardSpec};

use crate::directory::Directory;
use crate::shard::CustomShard;

/// What the engine may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomSettings {
    /// The bytes of the page cache of each shard; `None`: an eighth of the engine's part of the memory budget.
    pub cache_bytes: Option<usize>,
    /// A shard flushes by itself once this many bytes of keys and values were applied since the last flush: it bounds what is
    /// read again after a crash, and the pages that cannot be used again before a flush.
    pub flush_bytes: usize,
}

impl Default for CustomSettings {
    fn default() -> Self {
        Self { cache_bytes: None, flush_bytes: 64 << 20 }
    }
}

/// The part of each shard, if the settings do not say. redb cannot change a cache that is in use, so the number of shards has to
/// be guessed when the first is opened.
const SHARES: u64 = 8;
/// What the engine takes if nobody tells it its part.
const UNTOLD: u64 = 128 << 20;

/// An engine whose shards are one redb database each.
#[derive(Clone, Debug)]
pub struct CustomEngine {
    settings: CustomSettings,
    /// Its part of the memory budget, in bytes.
    memory: Arc<AtomicU64>,
}

impl Default for CustomEngine {
    fn default() -> Self {
        Self::new(CustomSettings::default())
    }
}

impl CustomEngine {
    /// An engine with these settings.
    pub fn new(settings: CustomSettings) -> Self {
        Self { settings, memory: Arc::new(AtomicU64::new(UNTOLD)) }
    }

    /// The bytes of the cache of a shard that is opened now.
    fn cache_bytes(&self) -> usize {
        let share = self.memory.load(Ordering::Relaxed) / SHARES;
        self.settings.cache_bytes.unwrap_or(usize::try_from(share).unwrap_or(usize::MAX))
    }
}

impl Engine for CustomEngine {
    fn name(&self) -> &'static str {
        "custom"
    }

    fn persistent(&self) -> bool {
        true
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        let Some(dir) = spec.dir else {
            let error = Error::new(ErrorKind::Invalid, "open shard").with("engine", self.name());
            return Err(error.with("remedy", "give it a directory, or use an engine that keeps its rows in memory"));
        };
        let directory = Directory::new(dir);
        directory.check()?;
        let shard = CustomShard::open(directory, spec, self.cache_bytes(), self.settings.flush_bytes)?;
        Ok(Box::new(shard))
    }

    fn set_memory(&self, bytes: u64) {
        self.memory.store(bytes, Ordering::Relaxed);
    }
}
