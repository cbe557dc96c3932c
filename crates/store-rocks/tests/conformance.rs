//! The case list that every storage engine must pass, without and with a write-ahead log.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use millpond_store_rocks::{RocksEngine, RocksSettings};

fn engine(wal: bool) -> impl Fn() -> RocksEngine {
    let settings = RocksSettings { memory_bytes: 32 << 20, shards: 8, wal, ..RocksSettings::default() };
    move || RocksEngine::new(settings.clone()).unwrap()
}

mod changelog {
    millpond_store_conformance::conformance!(persistent, super::engine(false));
}

mod write_ahead_log {
    millpond_store_conformance::conformance!(persistent, super::engine(true));
}
