//! Settings, how one memory budget is split, and RocksDB's options: the only place where RocksDB is tuned.
//!
//! The numbers that are not RocksDB's defaults come from measurements with 64 shards in 300 MiB.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use millpond_store_api::{Error, ErrorKind, Result, ShardSpec};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, LogLevel, Options, SliceTransform, WriteBufferManager,
};

use crate::ffi;
use crate::layout::{EXPIRING, PLAIN, window_prefix};
use crate::setter::{FamilyOptions, RocksConfigSetter};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Families of a shard's database.
const FAMILIES: u64 = 2;

/// What a user may tune. All shards of an engine share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RocksSettings {
    /// What RocksDB may take of the process's memory, in bytes: block cache, memtables, and a reserve for its buffers, its
    /// fixed structures and the allocator. At least 8 MiB. `None`: what the library says, which is a part of
    /// `memory.budget.bytes` ([`Engine::set_memory`](millpond_store_api::Engine::set_memory)); 256 MiB until it does.
    pub memory_bytes: Option<u64>,
    /// A shard is flushed when it holds this many unflushed bytes. This, not how often is committed, bounds what is read
    /// again from the changelog after a kill.
    pub flush_bytes: u64,
    /// A shard is flushed at the latest when this has passed since its first unflushed batch. Each shard takes up to a fifth
    /// off, so that they do not flush all at once. Kafka Streams has no such setting; ours is `state.flush.interval.ms`.
    pub flush_interval: Duration,
    /// How many shards are expected to be open at a time; more may be. Memory and file descriptors are handed out by it.
    pub shards: u32,
}

impl Default for RocksSettings {
    fn default() -> Self {
        Self { memory_bytes: None, flush_bytes: 64 * MIB, flush_interval: Duration::from_secs(30), shards: 64 }
    }
}

impl RocksSettings {
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |setting, remedy| {
            Err(Error::new(ErrorKind::Invalid, "set up the engine").with("setting", setting).with("remedy", remedy))
        };
        if self.memory_bytes.is_some_and(|bytes| bytes < Split::LEAST) {
            return invalid("memory_bytes", "give RocksDB at least 8 MiB");
        }
        if self.shards == 0 {
            return invalid("shards", "expect at least one shard");
        }
        if self.flush_bytes == 0 || self.flush_interval.is_zero() {
            return invalid("flush_bytes or flush_interval", "take more than 0: a flush per batch makes tiny files");
        }
        Ok(())
    }

    /// Half of the process's descriptors, in equal parts. A shard needs some 20.
    fn open_files(&self, open: u64, limit: u64) -> u64 {
        let shards = open.max(u64::from(self.shards));
        (limit / 2 / shards).clamp(32, 4096)
    }
}

/// How the engine's memory, in bytes, is split.
#[derive(Clone, Copy)]
pub(crate) struct Split(u64);

impl Split {
    /// With less there is no room for a few small memtables and the blocks they are flushed from.
    pub(crate) const LEAST: u64 = 8 * MIB;
    /// Where nobody has said anything.
    const UNTOLD: u64 = 256 * MIB;

    /// The block cache's capacity; memtables are charged to it.
    pub(crate) const fn cache_bytes(self) -> u64 {
        self.0 / 100 * 70
    }

    /// The memtables' share of it.
    pub(crate) const fn memtable_bytes(self) -> u64 {
        self.0 / 100 * 21
    }

    /// Small memtables stay in the processor's caches: loading is five times as fast as with 64 MiB.
    fn write_buffer_bytes(self) -> u64 {
        (self.memtable_bytes() / 16).clamp(MIB, 4 * MIB)
    }

    /// A block of this size is charged per family as soon as a row is written. With RocksDB's default the blocks of many
    /// shards alone fill the budget; all together may take an eighth of the memtables' share.
    fn arena_bytes(self, shards: u64, write_buffer_bytes: u64) -> u64 {
        let fair = self.memtable_bytes() / 8 / (FAMILIES * shards);
        fair.clamp(4 * KIB, write_buffer_bytes / 8) / KIB * KIB
    }
}

/// Whose choice a database's options are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tuning {
    /// Ours: one memory for all shards.
    Ours,
    /// RocksDB's defaults, for comparison: each shard has memory of its own.
    #[cfg_attr(not(feature = "untuned"), expect(dead_code, reason = "made by `RocksEngine::untuned` alone"))]
    RocksDbs,
}

/// What all shards of an engine have in common inside RocksDB.
pub(crate) struct Pool {
    tuning: Tuning,
    /// What the engine may take.
    bytes: AtomicU64,
    /// Made when the first shard is opened: RocksDB lays the cache's table out for the size that it has then.
    shared: OnceLock<(Cache, WriteBufferManager)>,
    /// Held while a size is given to what is shared, or what is shared is made of it.
    sizing: Mutex<()>,
}

impl Pool {
    pub(crate) fn new(settings: &RocksSettings, tuning: Tuning) -> Self {
        let bytes = AtomicU64::new(settings.memory_bytes.unwrap_or(Split::UNTOLD));
        Self { tuning, bytes, shared: OnceLock::new(), sizing: Mutex::new(()) }
    }

    /// Cache and memtables follow at once; the memtables' sizes and blocks with the next opening of each shard.
    pub(crate) fn set_memory(&self, bytes: u64) {
        let _sizing = self.sizing.lock().unwrap_or_else(PoisonError::into_inner);
        self.bytes.store(bytes.max(Split::LEAST), Ordering::Relaxed);
        if let Some((cache, memtables)) = self.shared.get() {
            cache.clone().set_capacity(size(self.split().cache_bytes()));
            memtables.set_buffer_size(manager_limit(self.split()));
        }
    }

    pub(crate) fn tuning(&self) -> Tuning {
        self.tuning
    }

    pub(crate) fn split(&self) -> Split {
        Split(self.bytes.load(Ordering::Relaxed))
    }

    fn shared(&self) -> &(Cache, WriteBufferManager) {
        let _sizing = self.sizing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.get_or_init(|| {
            let cache = Cache::new_hyper_clock_cache(size(self.split().cache_bytes()), 0);
            let limit = manager_limit(self.split());
            let memtables = WriteBufferManager::new_write_buffer_manager_with_cache(limit, false, cache.clone());
            (cache, memtables)
        })
    }

    /// All that the cache accounts for, memtables included.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.shared.get().map_or(0, |(cache, _)| cache.get_usage() as u64)
    }

    /// What of it cannot be dropped: memtables, and what look-ups and cursors hold.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.shared.get().map_or(0, |(cache, _)| cache.get_pinned_usage() as u64)
    }

    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.shared.get().map_or(0, |(_, memtables)| memtables.get_usage() as u64)
    }

    /// What a shard's families are opened with: what the library takes, as the setter has changed it. Key-value first.
    pub(crate) fn families(
        &self,
        setter: Option<&dyn RocksConfigSetter>,
        shard: &ShardSpec<'_>,
    ) -> Result<[FamilyOptions; 2]> {
        let ours = FamilyOptions::with_write_buffer_size(self.split().write_buffer_bytes());
        let (mut key_value, mut windowed) = (ours, ours);
        if let Some(setter) = setter {
            setter.set_key_value(shard, &mut key_value);
            setter.set_windowed(shard, &mut windowed);
            key_value
                .check("key-value")
                .and_then(|()| windowed.check("windowed"))
                .map_err(|e| e.with("dir", shard.dir.map(|dir| dir.display().to_string()).unwrap_or_default()))?;
            let share = self.split().memtable_bytes().max(ours.write_buffer_size);
            for options in [&mut key_value, &mut windowed] {
                options.write_buffer_size = options.write_buffer_size.min(share);
            }
        }
        Ok([key_value, windowed])
    }

    /// The options of a database and of its families, for the `open`th open shard.
    ///
    /// Whatever was set in the families: what the shard's promises rest on is set here, last.
    pub(crate) fn options(
        &self,
        settings: &RocksSettings,
        open: u64,
        [key_value, windowed]: [FamilyOptions; 2],
    ) -> Result<(Options, Vec<ColumnFamilyDescriptor>)> {
        let mut database = needed()?;
        let shards = open.max(u64::from(settings.shards));
        let (plain, mut expiring) = match self.tuning {
            Tuning::Ours => {
                self.tune(&mut database, settings, open);
                (self.family(&database, key_value, shards), self.family(&database, windowed, shards))
            }
            Tuning::RocksDbs => (database.clone(), database.clone()),
        };
        expiring.set_prefix_extractor(SliceTransform::create(
            "millpond.window.1",
            |key| window_prefix(key).unwrap_or(key),
            Some(|key| window_prefix(key).is_some()),
        ));
        let families = [(PLAIN, plain), (EXPIRING, expiring)];
        Ok((database, families.map(|(name, options)| ColumnFamilyDescriptor::new(name, options)).into()))
    }

    fn family(&self, database: &Options, f: FamilyOptions, shards: u64) -> Options {
        let mut o = database.clone();
        o.set_write_buffer_size(size(f.write_buffer_size));
        o.set_max_write_buffer_number(int(f.max_write_buffer_number));
        o.set_arena_block_size(size(self.split().arena_bytes(shards, f.write_buffer_size)));
        o.set_compression_type(f.compression.of_rocksdb());
        o.set_optimize_filters_for_hits(f.optimize_filters_for_hits);
        o.set_level_zero_file_num_compaction_trigger(int(f.level0_file_num_compaction_trigger));
        o.set_level_zero_slowdown_writes_trigger(int(f.level0_slowdown_writes_trigger));
        o.set_level_zero_stop_writes_trigger(int(f.level0_stop_writes_trigger));
        o.set_max_bytes_for_level_base(f.max_bytes_for_level_base);
        o.set_max_bytes_for_level_multiplier(f.max_bytes_for_level_multiplier);
        o.set_target_file_size_base(f.target_file_size_base);
        o.set_max_compaction_bytes(FamilyOptions::LARGEST_FILE);
        o.set_block_based_table_factory(&self.tables(f));
        o
    }

    fn tune(&self, o: &mut Options, settings: &RocksSettings, open: u64) {
        o.set_write_buffer_manager(&self.shared().1);
        o.set_max_background_jobs(std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4)) as i32);
        o.set_allow_concurrent_memtable_write(false);
        let limit = ffi::descriptor_limit().unwrap_or(1024);
        o.set_max_open_files(settings.open_files(open, limit) as i32);
        o.set_max_file_opening_threads(1);
        o.set_table_cache_num_shard_bits(2);
        o.set_skip_stats_update_on_db_open(true);
        o.set_compaction_readahead_size(256 << 10);
        o.set_writable_file_max_buffer_size(256 << 10);
        o.set_max_manifest_file_size(4 << 20);
        o.set_manifest_preallocation_size(64 << 10);
        o.set_max_total_wal_size(settings.flush_bytes);
        o.set_stats_dump_period_sec(0);
        o.set_stats_persist_period_sec(0);
        o.set_keep_log_file_num(1);
        o.set_max_log_file_size(1 << 20);
        o.set_log_level(LogLevel::Warn);
    }

    fn tables(&self, f: FamilyOptions) -> BlockBasedOptions {
        let mut b = BlockBasedOptions::default();
        b.set_block_cache(&self.shared().0);
        b.set_block_size(size(f.block_size));
        if let Some(bits) = f.bloom_bits_per_key {
            b.set_bloom_filter(bits, false);
        }
        b.set_format_version(6);
        b.set_optimize_filters_for_memory(true);
        // In the cache, so that the budget knows of them.
        b.set_cache_index_and_filter_blocks(true);
        b.set_cache_index_and_filter_blocks_with_high_priority(true);
        b
    }
}

/// What a shard cannot be right without, whatever it costs.
fn needed() -> Result<Options> {
    // The crate has no setter for this one. A shard that is dropped counts as crashed and must not write; `close`
    // flushes by itself, and sees the outcome.
    let mut o = Options::default()
        .get_options_from_string("avoid_flush_during_shutdown=true")
        .map_err(|e| crate::error::rocks("open shard", e))?;
    o.create_missing_column_families(true);
    // The metadata and all spaces reach the disk together or not at all.
    o.set_atomic_flush(true);
    Ok(o)
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// At its own limit RocksDB's manager would flush whichever shard happens to write, however small. So its limit lies where
/// it is never reached, it only keeps account, and the flusher decides.
fn manager_limit(split: Split) -> usize {
    size(split.memtable_bytes().saturating_mul(4))
}

/// A number that its check has found small.
fn int(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_split_as_measured() {
        let s = Split(300 * MIB);
        assert_eq!(s.cache_bytes() / MIB, 210);
        assert_eq!(s.memtable_bytes().div_ceil(MIB), 63);
        assert!((3 * MIB..=4 * MIB).contains(&s.write_buffer_bytes()));
        for shards in [64, 200, 1000] {
            let arena = s.arena_bytes(shards, s.write_buffer_bytes());
            assert!(FAMILIES * shards * arena <= s.memtable_bytes() / 8 || arena == 4 * KIB, "{shards}");
        }
        let tiny = Split(Split::LEAST);
        assert_eq!((tiny.write_buffer_bytes(), tiny.arena_bytes(64, MIB)), (MIB, 4 * KIB));
        assert_eq!(s.arena_bytes(1, 64 * KIB), 8 * KIB, "no block is larger than an eighth of a memtable");
    }

    #[test]
    fn a_new_size_reaches_what_is_shared_before_and_after_it_is_made() {
        let pool = Pool::new(&RocksSettings::default(), Tuning::Ours);
        assert_eq!((pool.split().0, pool.cache_bytes(), pool.memtable_bytes()), (Split::UNTOLD, 0, 0));
        pool.set_memory(100 * MIB);
        assert_eq!(pool.shared().1.get_buffer_size() as u64, 4 * Split(100 * MIB).memtable_bytes());
        for (bytes, kept) in [(40 * MIB, 40 * MIB), (1, Split::LEAST), (900 * MIB, 900 * MIB)] {
            pool.set_memory(bytes);
            assert_eq!(pool.split().0, kept);
            assert_eq!(pool.shared().1.get_buffer_size() as u64, 4 * Split(kept).memtable_bytes());
        }
    }

    #[test]
    fn descriptors_are_shared_out() {
        let s = RocksSettings::default();
        assert_eq!(s.open_files(1, 1024), 32);
        assert_eq!(s.open_files(64, 65_536), 512);
        assert_eq!(s.open_files(1, u64::MAX), 4096);
    }

    #[test]
    fn senseless_settings_are_refused_by_name() {
        let s = RocksSettings::default();
        for (bad, name) in [
            (RocksSettings { memory_bytes: Some(MIB), ..s.clone() }, "memory_bytes"),
            (RocksSettings { shards: 0, ..s.clone() }, "shards"),
            (RocksSettings { flush_bytes: 0, ..s.clone() }, "flush_bytes"),
            (RocksSettings { flush_interval: Duration::ZERO, ..s.clone() }, "flush_interval"),
        ] {
            let error = bad.check().unwrap_err();
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(name), "{error}");
        }
        s.check().unwrap();
    }
}
