//! The full stack over RocksDB: the kinds through the overlay, a whole task, and random histories with crashes.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::ops::Range;
use std::sync::Arc;

use millpond_store_rocks::{RocksEngine, RocksSettings};
use millpond_testkit::stack::{RecordCache, check_histories};

fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings { memory_bytes: Some(32 << 20), shards: 8, ..RocksSettings::default() }).unwrap()
}

mod overlay {
    millpond_testkit::stack_conformance!(super::engine);
}

/// Of 500 histories, or 20,000, the part of one test out of four.
fn histories(cache: RecordCache, test: u64) {
    let all: u64 = if std::env::var_os("MILLPOND_SLOW").is_some() { 20_000 } else { 500 };
    let seeds: Range<u64> = all / 4 * test..all / 4 * (test + 1);
    // One engine for all of them: what a shard leaves behind is in its files and nowhere else, and opening is most of the work.
    let engine = Arc::new(engine());
    check_histories(
        || {
            let engine = Arc::clone(&engine);
            move || Arc::clone(&engine)
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
