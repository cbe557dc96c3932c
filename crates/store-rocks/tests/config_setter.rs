//! What a setter sets is what RocksDB has, family by family and shard by shard; what is not its business stays.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is how a test reports")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use millpond_store_api::{Engine, ErrorKind, Flush, List, Range, Shard, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_rocks::{Compression, FamilyOptions, RocksConfigSetter, RocksEngine, RocksSettings};

fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings { memory_bytes: Some(64 << 20), shards: 4, ..RocksSettings::default() }).unwrap()
}

fn try_open(engine: &RocksEngine, dir: &Path) -> millpond_store_api::Result<Box<dyn Shard>> {
    std::fs::create_dir_all(dir).unwrap();
    let space = |id, name: &str| SpaceSpec { id: SpaceId(id), name: name.to_owned(), expires: id == 2 };
    let spaces = [space(1, "counts"), space(2, "windows")];
    engine.open(&ShardSpec { dir: Some(dir), spaces: &spaces, unlogged: false })
}

fn open(engine: &RocksEngine, dir: &Path) -> Box<dyn Shard> {
    try_open(engine, dir).unwrap()
}

/// The options that RocksDB wrote down at the last opening: by section, such as `DBOptions`, and name.
fn options(dir: &Path) -> BTreeMap<(String, String), String> {
    let files = std::fs::read_dir(dir.join("db")).unwrap().map(|file| file.unwrap().path());
    let newest =
        files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("OPTIONS-")).max().unwrap();
    let mut section = String::new();
    let mut options = BTreeMap::new();
    for line in std::fs::read_to_string(newest).unwrap().lines() {
        if let Some(name) = line.trim().strip_prefix('[') {
            section = name.trim_end_matches(']').replace(['"', '\\'], "");
        } else if let Some((name, value)) = line.trim().split_once('=') {
            options.insert((section.clone(), name.to_owned()), value.to_owned());
        }
    }
    options
}

#[track_caller]
fn assert_option(dir: &Path, section: &str, name: &str, value: &str) {
    let found = options(dir).remove(&(section.to_owned(), name.to_owned()));
    assert_eq!(found.as_deref(), Some(value), "[{section}] {name}");
}

const KEY_VALUE: [&str; 2] = ["CFOptions default", "TableOptions/BlockBasedTable default"];
const WINDOWED: [&str; 2] = ["CFOptions windowed", "TableOptions/BlockBasedTable windowed"];

/// Everything that can be set, far from the library's own, and other values for the other family.
struct Everything;

impl RocksConfigSetter for Everything {
    fn set_key_value(&self, _: &ShardSpec<'_>, o: &mut FamilyOptions) {
        o.write_buffer_size = 2 << 20;
        o.max_write_buffer_number = 3;
        o.compression = Compression::Lz4hc;
        o.block_size = 16 << 10;
        o.bloom_bits_per_key = None;
        o.optimize_filters_for_hits = true;
        o.level0_file_num_compaction_trigger = 6;
        o.level0_slowdown_writes_trigger = 30;
        o.level0_stop_writes_trigger = 50;
        o.max_bytes_for_level_base = 128 << 20;
        o.max_bytes_for_level_multiplier = 8.0;
        o.target_file_size_base = 16 << 20;
    }

    fn set_windowed(&self, _: &ShardSpec<'_>, o: &mut FamilyOptions) {
        o.compression = Compression::None;
        o.write_buffer_size = 128 << 10;
    }
}

#[test]
fn each_option_reaches_its_family() {
    let temp = tempfile::tempdir().unwrap();
    let shard = open(&engine().with_config_setter(Everything), temp.path());
    let [family, table] = KEY_VALUE;
    for (section, name, value) in [
        (family, "write_buffer_size", "2097152"),
        (family, "max_write_buffer_number", "3"),
        (family, "compression", "kLZ4HCCompression"),
        (table, "block_size", "16384"),
        (table, "filter_policy", "nullptr"),
        (family, "optimize_filters_for_hits", "true"),
        (family, "level0_file_num_compaction_trigger", "6"),
        (family, "level0_slowdown_writes_trigger", "30"),
        (family, "level0_stop_writes_trigger", "50"),
        (family, "max_bytes_for_level_base", "134217728"),
        (family, "max_bytes_for_level_multiplier", "8.000000"),
        (family, "target_file_size_base", "16777216"),
    ] {
        assert_option(temp.path(), section, name, value);
    }
    let [family, table] = WINDOWED;
    for (section, name, value) in [
        (family, "compression", "kNoCompression"),
        (table, "filter_policy", "bloomfilter"),
        (family, "write_buffer_size", "131072"),
        // An eighth of the memtable: a block must not be larger than what it is a part of.
        (family, "arena_block_size", "16384"),
        (family, "max_write_buffer_number", "4"),
        (table, "block_size", "4096"),
    ] {
        assert_option(temp.path(), section, name, value);
    }
    shard.close().unwrap();
}

/// RocksDB does not write down how many bits a filter has, so they are weighed.
#[test]
fn filters_have_the_bits_that_were_set() {
    struct Bits(f64);
    impl RocksConfigSetter for Bits {
        fn set_windowed(&self, _: &ShardSpec<'_>, options: &mut FamilyOptions) {
            options.bloom_bits_per_key = Some(self.0);
        }
    }
    const ROWS: u32 = 20_000;
    let bytes = |bits| {
        let temp = tempfile::tempdir().unwrap();
        let engine = engine().with_config_setter(Bits(bits));
        let mut shard = open(&engine, temp.path());
        let keys: Vec<_> = (0..ROWS).map(u32::to_be_bytes).collect();
        let writes: Vec<_> = keys.iter().map(|key| Write { space: SpaceId(2), key, value: Some(b"") }).collect();
        shard.apply(&mut List::new(&writes), b"").unwrap();
        shard.flush(Flush::Wait).unwrap();
        engine.usage().shards[0].file_bytes
    };
    let more = (bytes(42.0) - bytes(2.0)) / u64::from(ROWS);
    assert!((4..=6).contains(&more), "{more} bytes per key instead of 5");
}

#[test]
fn what_promises_rest_on_is_not_the_setters() {
    let (with, without) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tuned = open(&engine().with_config_setter(Everything), with.path());
    let plain = open(&engine(), without.path());
    let settable = [
        "write_buffer_size",
        "arena_block_size",
        "max_write_buffer_number",
        "compression",
        "block_size",
        "filter_policy",
        "optimize_filters_for_hits",
        "level0_file_num_compaction_trigger",
        "level0_slowdown_writes_trigger",
        "level0_stop_writes_trigger",
        "max_bytes_for_level_base",
        "max_bytes_for_level_multiplier",
        "target_file_size_base",
    ];
    let (tuned_options, plain_options) = (options(with.path()), options(without.path()));
    assert!(plain_options.len() > 150, "the files are read");
    for (option, value) in &plain_options {
        if !settable.contains(&option.1.as_str()) {
            assert_eq!(tuned_options.get(option), Some(value), "{option:?}");
        }
    }
    for (section, name, value) in [
        ("DBOptions", "atomic_flush", "true"),
        ("DBOptions", "avoid_flush_during_shutdown", "true"),
        ("CFOptions default", "comparator", "leveldb.BytewiseComparator"),
        ("CFOptions default", "merge_operator", "nullptr"),
        ("CFOptions default", "prefix_extractor", "nullptr"),
        ("CFOptions windowed", "prefix_extractor", "millpond.window.1"),
        ("CFOptions default", "disable_auto_compactions", "false"),
        ("TableOptions/BlockBasedTable windowed", "cache_index_and_filter_blocks", "true"),
    ] {
        assert_option(with.path(), section, name, value);
    }
    tuned.close().unwrap();
    plain.close().unwrap();
}

/// Treats the shard of one task otherwise, and notes what it is told.
struct OneTask(Arc<Mutex<Vec<String>>>);

impl RocksConfigSetter for OneTask {
    fn set_key_value(&self, shard: &ShardSpec<'_>, options: &mut FamilyOptions) {
        let task = shard.dir.unwrap().parent().unwrap().file_name().unwrap().to_str().unwrap();
        self.0.lock().unwrap().push(format!("{task} {} {}", shard.spaces[0].name, options.write_buffer_size));
        if task == "0_3" {
            options.block_size = 32 << 10;
        }
    }
}

#[test]
fn one_shard_is_told_from_the_others() {
    let temp = tempfile::tempdir().unwrap();
    let told = Arc::default();
    let engine = engine().with_config_setter(OneTask(Arc::clone(&told)));
    for (task, block_size) in [("0_2", "4096"), ("0_3", "32768")] {
        let dir = temp.path().join(task).join("rocks-1");
        let shard = open(&engine, &dir);
        assert_option(&dir, KEY_VALUE[1], "block_size", block_size);
        assert_option(&dir, WINDOWED[1], "block_size", "4096");
        shard.close().unwrap();
    }
    assert_eq!(*told.lock().unwrap(), ["0_2 counts 1048576", "0_3 counts 1048576"]);
}

#[test]
fn rows_are_read_whatever_was_set_when_they_were_written() {
    let temp = tempfile::tempdir().unwrap();
    let rows: Vec<_> = (0..20_000_u32).map(u32::to_be_bytes).collect();
    let [tuned, plain] = [engine().with_config_setter(Everything), engine()];
    for (round, engine) in [&plain, &tuned, &plain].into_iter().enumerate() {
        let mut shard = open(engine, temp.path());
        for (n, key) in rows.iter().enumerate().filter(|(n, _)| n % 3 == round) {
            let space = SpaceId(1 + n as u16 % 2);
            shard.apply(&mut List::new(&[Write { space, key, value: Some(key) }]), b"").unwrap();
        }
        shard.flush(Flush::Wait).unwrap();
        let mut found = 0;
        for space in [1, 2].map(SpaceId) {
            let mut walk = shard.scan(space, Range::ALL, millpond_store_api::Direction::Forward).unwrap();
            while let Some(row) = walk.next().unwrap() {
                assert_eq!(row.key, row.value);
                found += 1;
            }
        }
        assert_eq!(found, rows.iter().enumerate().filter(|(n, _)| n % 3 <= round).count());
        shard.close().unwrap();
    }
}

/// Sets one option of the windowed family out of its bounds.
struct TooLarge;

impl RocksConfigSetter for TooLarge {
    fn set_windowed(&self, _: &ShardSpec<'_>, options: &mut FamilyOptions) {
        options.target_file_size_base = 1 << 30;
    }
}

#[test]
fn an_option_out_of_bounds_is_refused_by_name_and_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("0_1").join("rocks-1");
    let error = try_open(&engine().with_config_setter(TooLarge), &dir).map(drop).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    for part in ["target_file_size_base", "windowed", "0_1"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    open(&engine(), &dir).close().unwrap();
}
