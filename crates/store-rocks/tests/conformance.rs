//! The case list that every storage engine must pass, without and with a write-ahead log.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use millpond_store_api::{Engine, EngineMemory, Result, Shard, ShardSpec};
use millpond_store_rocks::{RocksEngine, RocksSettings};

fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings { memory_bytes: Some(32 << 20), shards: 8, ..RocksSettings::default() }).unwrap()
}

mod changelog {
    millpond_store_conformance::conformance!(persistent, super::engine);
}

mod write_ahead_log {
    millpond_store_conformance::conformance!(persistent, || super::AllUnlogged(super::engine()));
}

/// Has a log for every shard, asked for or not.
struct AllUnlogged(RocksEngine);

#[deny(clippy::missing_trait_methods)]
impl Engine for AllUnlogged {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn persistent(&self) -> bool {
        self.0.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        self.0.open(&ShardSpec { unlogged: true, ..*spec })
    }

    fn set_memory(&self, bytes: u64) {
        self.0.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.0.memory()
    }
}
