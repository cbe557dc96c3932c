//! The engine: opens shards.

use millpond_store_api::{Engine, Error, ErrorKind, Result, Shard, ShardSpec};

use crate::directory::Directory;
use crate::shard::CustomShard;

/// What the engine may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomSettings {
    /// The bytes of the page cache of each shard. Give it the engine's part of the memory budget, divided by the shards.
    pub cache_bytes: usize,
    /// A shard flushes by itself once this many bytes of keys and values were applied since the last flush: it bounds what is
    /// read again after a crash, and the pages that cannot be used again before a flush.
    pub flush_bytes: usize,
}

impl Default for CustomSettings {
    fn default() -> Self {
        Self { cache_bytes: 16 << 20, flush_bytes: 64 << 20 }
    }
}

/// An engine whose shards are one redb database each.
#[derive(Clone, Debug, Default)]
pub struct CustomEngine {
    settings: CustomSettings,
}

impl CustomEngine {
    /// An engine with these settings.
    pub const fn new(settings: CustomSettings) -> Self {
        Self { settings }
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
        let shard = CustomShard::open(directory, spec, self.settings)?;
        Ok(Box::new(shard))
    }
}
