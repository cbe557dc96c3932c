//! What a user may change about RocksDB's families, shard by shard: Kafka Streams' `rocksdb.config.setter`.

use millpond_store_api::{Error, ErrorKind, Result, ShardSpec};
use rocksdb::DBCompressionType;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Sets RocksDB's options of each shard's two families, before the shard is opened. Kafka Streams calls it
/// `RocksDBConfigSetter` and makes one by name (`rocksdb.config.setter`); here it is given to
/// [`RocksEngine::with_config_setter`](crate::RocksEngine::with_config_setter).
///
/// Both methods are called each time a shard is opened, on the thread of the worker that opens it, with what the library
/// would take: a method that does nothing, which is the default, leaves it so. They are told the shard's specification: its
/// `spaces` have the names of the stores whose rows do not expire, and its `dir` lies in the directory of the task, such as
/// `<state.dir>/<application.id>/0_3/rocks-1`. So one shard can be treated otherwise than the rest.
///
/// # What cannot be set
///
/// [`FamilyOptions`] has what is a matter of speed and space only. What the library's promises rest on is not in it: the order
/// of keys (comparator) and the prefixes of windowed ones, that there is no merge operator and no compaction filter, atomic
/// flush, the write-ahead log, and that blocks and memtables are charged to the one budget. How large the block cache is, how
/// many files are open and when a shard is flushed is decided for all shards together, by
/// [`RocksSettings`](crate::RocksSettings) and the memory budget.
///
/// ```
/// use millpond_store_api::ShardSpec;
/// use millpond_store_rocks::{Compression, FamilyOptions, RocksConfigSetter, RocksEngine, RocksSettings};
///
/// struct Tuning;
///
/// impl RocksConfigSetter for Tuning {
///     // All shards' key-value stores: larger blocks compress better, and are read as a whole.
///     fn set_key_value(&self, shard: &ShardSpec<'_>, options: &mut FamilyOptions) {
///         options.block_size = 16 << 10;
///         // One shard: pictures do not get smaller.
///         if shard.spaces.iter().any(|space| space.name == "pictures") {
///             options.compression = Compression::None;
///         }
///     }
///
///     // Windows are written once and expire: fewer bits for their filters.
///     fn set_windowed(&self, _: &ShardSpec<'_>, options: &mut FamilyOptions) {
///         options.bloom_bits_per_key = Some(6.0);
///     }
/// }
///
/// let engine = RocksEngine::new(RocksSettings::default())?.with_config_setter(Tuning);
/// # let temp = tempfile::tempdir().unwrap();
/// # let shard = ShardSpec { dir: Some(temp.path()), spaces: &[], unlogged: false };
/// # millpond_store_api::Engine::open(&engine, &shard)?.close()?;
/// # Ok::<(), millpond_store_api::Error>(())
/// ```
pub trait RocksConfigSetter: Send + Sync {
    /// For the family of all plain rows of a shard: key-value stores of whatever kind, the latest versions of versioned ones,
    /// lists and buffers.
    fn set_key_value(&self, shard: &ShardSpec<'_>, options: &mut FamilyOptions) {
        let _ = (shard, options);
    }

    /// For the family of all rows of a shard that expire: windows, sessions, superseded versions, the index of time to live.
    fn set_windowed(&self, shard: &ShardSpec<'_>, options: &mut FamilyOptions) {
        let _ = (shard, options);
    }
}

/// How a table's blocks are compressed. RocksDB is built with no other library.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// LZ4.
    Lz4,
    /// LZ4's slow and thorough form; read as fast as the other.
    Lz4hc,
}

/// RocksDB's options of one family of one shard, under RocksDB's names and with its meanings. What is out of bounds is
/// [`ErrorKind::Invalid`] when the shard is opened, by its name.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FamilyOptions {
    /// Bytes of a memtable: 64 KiB at least. More than the memtables' share of all shards counts as that: the share may become
    /// smaller while the application runs. Small ones stay in the processor's caches; larger ones make larger files and fewer
    /// compactions.
    pub write_buffer_size: u64,
    /// Memtables, the full ones that wait for their flush included; 2 to 64.
    pub max_write_buffer_number: u32,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Bytes of a block before compression; 1 KiB to 1 MiB. A `get` reads one.
    pub block_size: u64,
    /// Bits of the bloom filter per key, up to 64; `None` for no filter, where nobody asks for keys that are not there.
    pub bloom_bits_per_key: Option<f64>,
    /// True to leave the filter of the last level out: saves most of the filters' memory, if nearly all keys asked for exist.
    pub optimize_filters_for_hits: bool,
    /// Files of level 0 that begin a compaction; 1 at least.
    pub level0_file_num_compaction_trigger: u32,
    /// Files of level 0 from which on writes are slowed down; not below the former.
    pub level0_slowdown_writes_trigger: u32,
    /// Files of level 0 at which writes wait; not below the former.
    pub level0_stop_writes_trigger: u32,
    /// Bytes of level 1; a file's size at least.
    pub max_bytes_for_level_base: u64,
    /// How much larger each level is than the one above; 2 to 100.
    pub max_bytes_for_level_multiplier: f64,
    /// Bytes of a file that a compaction writes; 256 KiB to 32 MiB, since a filter of more rows is not kept in the cache.
    pub target_file_size_base: u64,
}

impl FamilyOptions {
    /// The largest file: a filter that is larger than a part of the cache is never cached, and every get reads it.
    pub(crate) const LARGEST_FILE: u64 = 32 * MIB;

    /// What the library takes.
    pub(crate) fn with_write_buffer_size(write_buffer_size: u64) -> Self {
        Self {
            write_buffer_size,
            max_write_buffer_number: 4,
            compression: Compression::Lz4,
            block_size: 4 * KIB,
            bloom_bits_per_key: Some(10.0),
            optimize_filters_for_hits: false,
            level0_file_num_compaction_trigger: 4,
            level0_slowdown_writes_trigger: 20,
            level0_stop_writes_trigger: 36,
            max_bytes_for_level_base: 64 * MIB,
            max_bytes_for_level_multiplier: 10.0,
            target_file_size_base: 8 * MIB,
        }
    }

    /// Refuses what is out of bounds.
    pub(crate) fn check(&self, family: &'static str) -> Result<()> {
        let within = |value: u64, least: u64, most: u64| (least..=most).contains(&value);
        let slowdown = self.level0_slowdown_writes_trigger;
        let rules = [
            ("write_buffer_size", self.write_buffer_size >= 64 * KIB),
            ("max_write_buffer_number", (2..=64).contains(&self.max_write_buffer_number)),
            ("block_size", within(self.block_size, KIB, MIB)),
            ("bloom_bits_per_key", self.bloom_bits_per_key.is_none_or(|bits| bits > 0.0 && bits <= 64.0)),
            ("level0_file_num_compaction_trigger", self.level0_file_num_compaction_trigger >= 1),
            ("level0_slowdown_writes_trigger", slowdown >= self.level0_file_num_compaction_trigger),
            ("level0_stop_writes_trigger", (slowdown..=1 << 20).contains(&self.level0_stop_writes_trigger)),
            ("target_file_size_base", within(self.target_file_size_base, 256 * KIB, Self::LARGEST_FILE)),
            ("max_bytes_for_level_base", within(self.max_bytes_for_level_base, self.target_file_size_base, 1 << 50)),
            ("max_bytes_for_level_multiplier", (2.0..=100.0).contains(&self.max_bytes_for_level_multiplier)),
        ];
        match rules.iter().find(|(_, holds)| !holds) {
            None => Ok(()),
            Some((option, _)) => Err(Error::new(ErrorKind::Invalid, "open shard")
                .with("reason", "the setter has set an option out of its bounds")
                .with("family", family)
                .with("option", option)
                .with("remedy", "see the bounds at `FamilyOptions`")),
        }
    }
}

impl Compression {
    pub(crate) const fn of_rocksdb(self) -> DBCompressionType {
        match self {
            Self::None => DBCompressionType::None,
            Self::Lz4 => DBCompressionType::Lz4,
            Self::Lz4hc => DBCompressionType::Lz4hc,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused_by_name() {
        let sound = FamilyOptions::with_write_buffer_size(MIB);
        sound.check("key-value").unwrap();
        let refused = |option: &str, change: &dyn Fn(&mut FamilyOptions)| {
            let mut options = sound;
            change(&mut options);
            let error = options.check("windowed").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let said: Vec<_> = error.context().collect();
            assert!(said.contains(&("option", option)) && said.contains(&("family", "windowed")), "{said:?}");
        };
        refused("write_buffer_size", &|o| o.write_buffer_size = 0);
        refused("max_write_buffer_number", &|o| o.max_write_buffer_number = 1);
        refused("block_size", &|o| o.block_size = 0);
        for bits in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            refused("bloom_bits_per_key", &|o| o.bloom_bits_per_key = Some(bits));
        }
        refused("level0_file_num_compaction_trigger", &|o| o.level0_file_num_compaction_trigger = 0);
        refused("level0_slowdown_writes_trigger", &|o| o.level0_slowdown_writes_trigger = 3);
        refused("level0_stop_writes_trigger", &|o| o.level0_stop_writes_trigger = 19);
        refused("level0_stop_writes_trigger", &|o| o.level0_stop_writes_trigger = u32::MAX);
        refused("target_file_size_base", &|o| o.target_file_size_base = 33 * MIB);
        refused("max_bytes_for_level_base", &|o| o.max_bytes_for_level_base = MIB);
        for factor in [1.0, f64::NAN, 1e9] {
            refused("max_bytes_for_level_multiplier", &|o| o.max_bytes_for_level_multiplier = factor);
        }
    }
}
