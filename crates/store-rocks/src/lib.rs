//! Millpond's RocksDB storage engine.
