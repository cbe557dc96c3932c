//! The engine: what all shards of a process share.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use millpond_store_api::{Engine, EngineMemory, Error, ErrorKind, Result, Shard, ShardSpec};

use crate::flusher::Flusher;
use crate::metrics::{ShardUsage, Usage};
use crate::options::{Pool, RocksSettings, Tuning};
use crate::ports::{Ports, SystemPorts};
use crate::setter::RocksConfigSetter;
use crate::shard::RocksShard;

/// The RocksDB engine: one block cache, one account of memtables and one flusher for all its shards.
///
/// One engine per process is meant: two have two budgets.
pub struct RocksEngine {
    shared: Arc<Shared>,
    setter: Option<Box<dyn RocksConfigSetter>>,
}

/// What an engine shares with its shards. When the last of them is gone the flusher's thread is told to end.
pub(crate) struct Shared {
    pub(crate) settings: RocksSettings,
    pub(crate) pool: Arc<Pool>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) ports: Arc<dyn Ports>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.flusher.stop();
    }
}

impl RocksEngine {
    /// An engine on plain threads and the system's clock. Senseless settings are [`ErrorKind::Invalid`].
    pub fn new(settings: RocksSettings) -> Result<Self> {
        Self::with_ports(settings, Arc::new(SystemPorts::new()))
    }

    /// An engine on the host's threads and clock. Fails like [`RocksEngine::new`], and with [`ErrorKind::Retry`] if no thread
    /// can be had.
    pub fn with_ports(settings: RocksSettings, ports: Arc<dyn Ports>) -> Result<Self> {
        Self::made(settings, Tuning::Ours, ports)
    }

    /// An engine whose shards have RocksDB's own defaults, each with memory of its own, and flush when RocksDB says so; for
    /// comparison, not for use. What a shard cannot be right without is as always.
    #[cfg(feature = "untuned")]
    pub fn untuned() -> Result<Self> {
        let day = std::time::Duration::from_secs(24 * 3600);
        let settings = RocksSettings { flush_bytes: u64::MAX, flush_interval: day, ..RocksSettings::default() };
        Self::made(settings, Tuning::RocksDbs, Arc::new(SystemPorts::new()))
    }

    fn made(settings: RocksSettings, tuning: Tuning, ports: Arc<dyn Ports>) -> Result<Self> {
        settings.check()?;
        let pool = Arc::new(Pool::new(&settings, tuning));
        let flusher = Arc::new(Flusher::new(Arc::clone(&pool), Arc::clone(&ports), &settings));
        let running = Arc::clone(&flusher);
        ports
            .spawn("rocks-flusher", Box::new(move || running.run()))
            .map_err(|e| Error::new(ErrorKind::Retry, "start the flusher's thread").caused_by(e))?;
        Ok(Self { shared: Arc::new(Shared { settings, pool, flusher, ports }), setter: None })
    }

    /// Lets `setter` change RocksDB's options of each shard that is opened from now on. What it sets is checked at the opening:
    /// an option out of its bounds is [`ErrorKind::Invalid`] there.
    #[must_use]
    pub fn with_config_setter(self, setter: impl RocksConfigSetter + 'static) -> Self {
        Self { setter: Some(Box::new(setter)), ..self }
    }

    /// What the engine and its open shards take now. From any thread; costs a few microseconds per shard.
    pub fn usage(&self) -> Usage {
        let Shared { pool, flusher, .. } = &*self.shared;
        let shards = flusher.shards().into_iter().filter_map(|handle| {
            let database = handle.gate.enter()?;
            let (unflushed_bytes, file_bytes) = (database.unflushed_bytes(), database.file_bytes());
            Some(ShardUsage { dir: database.dir.clone(), unflushed_bytes, file_bytes })
        });
        Usage {
            cache_bytes: pool.cache_bytes(),
            pinned_bytes: pool.pinned_bytes(),
            memtable_bytes: pool.memtable_bytes(),
            memtable_share_bytes: pool.split().memtable_bytes(),
            flushes: flusher.flushes.load(Ordering::Relaxed),
            waits: flusher.waits.load(Ordering::Relaxed),
            longest_wait: flusher.longest_stall(),
            shards: shards.collect(),
        }
    }
}

impl std::fmt::Debug for RocksEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksEngine").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl Engine for RocksEngine {
    fn name(&self) -> &'static str {
        "rocks"
    }

    fn persistent(&self) -> bool {
        true
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        Ok(Box::new(RocksShard::open(Arc::clone(&self.shared), self.setter.as_deref(), spec)?))
    }

    fn set_memory(&self, bytes: u64) {
        if self.shared.settings.memory_bytes.is_none() {
            self.shared.pool.set_memory(bytes);
            self.shared.flusher.wake();
        }
    }

    fn memory(&self) -> EngineMemory {
        let pool = &self.shared.pool;
        let write_buffers = pool.memtable_bytes();
        // RocksDB charges memtables to the cache, pinned.
        let besides = |all: u64| all.saturating_sub(write_buffers);
        EngineMemory {
            cache: besides(pool.cache_bytes()),
            pinned: besides(pool.pinned_bytes()),
            write_buffers,
            rows: 0,
            stalled: self.shared.flusher.stalled(),
            longest_stall: self.shared.flusher.longest_stall(),
        }
    }
}
