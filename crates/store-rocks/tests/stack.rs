//! The full stack over RocksDB: the kinds through the overlay, a whole task, and random histories with crashes.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::ops::Range;
use std::sync::Arc;

use millpond_store_api::{Engine, EngineMemory, Result, Shard, ShardSpec};
use millpond_store_rocks::{RocksEngine, RocksSettings};
use millpond_testkit::stack::{RecordCache, check_histories};

fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings { memory_bytes: Some(32 << 20), shards: 8, ..RocksSettings::default() }).unwrap()
}

mod overlay {
    millpond_testkit::stack_conformance!(super::engine);
}

/// One engine for many histories: what a shard leaves behind is in its files and nowhere else, and opening is most of the work.
struct Shared(Arc<RocksEngine>);

#[deny(clippy::missing_trait_methods)]
impl Engine for Shared {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn persistent(&self) -> bool {
        self.0.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        self.0.open(spec)
    }

    fn set_memory(&self, bytes: u64) {
        self.0.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.0.memory()
    }
}

/// Of 500 histories, or 20,000, the part of one test out of four.
fn histories(cache: RecordCache, test: u64) {
    let all: u64 = if std::env::var_os("MILLPOND_SLOW").is_some() { 20_000 } else { 500 };
    let seeds: Range<u64> = all / 4 * test..all / 4 * (test + 1);
    let engine = Arc::new(engine());
    check_histories(
        || {
            let engine = Arc::clone(&engine);
            move || Shared(Arc::clone(&engine))
        },
        cache,
        seeds,
    );
}

#[test]
fn histories_without_a_cache() {
    histories(RecordCache::Off, 0);
}

#[test]
fn histories_with_a_cache_for_reads() {
    histories(RecordCache::Reads, 1);
}

#[test]
fn histories_with_a_tiny_cache() {
    histories(RecordCache::Tiny, 2);
}

#[test]
fn histories_with_a_large_cache() {
    histories(RecordCache::Large, 3);
}
