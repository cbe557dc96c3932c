//! Damaged, foreign and full: each is an error with a name, and never a wrong answer.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::fs;
use std::path::{Path, PathBuf};

use millpond_store_api::{
    Direction, Engine, Error, ErrorKind, Flush, List, Range, Result, Shard, ShardSpec, SpaceId, SpaceSpec, Write,
};
use millpond_store_rocks::{Ports, RocksEngine, RocksSettings, SystemPorts};

const KV: SpaceId = SpaceId(1);
const EXPIRING: SpaceId = SpaceId(2);
const ROWS: u32 = 3000;

/// A new engine, for the block cache knows the blocks of a copied file from the original.
fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings { memory_bytes: Some(16 << 20), shards: 4, ..RocksSettings::default() }).unwrap()
}

fn open(dir: &Path) -> Result<Box<dyn Shard>> {
    open_with(&engine(), dir)
}

fn open_with(engine: &RocksEngine, dir: &Path) -> Result<Box<dyn Shard>> {
    let space = |id, expires| SpaceSpec { id, name: "s".to_owned(), expires };
    engine.open(&ShardSpec { dir: Some(dir), spaces: &[space(KV, false), space(EXPIRING, true)], unlogged: false })
}

fn row(i: u32) -> ([u8; 4], [u8; 40]) {
    let mut value = [0; 40];
    fastrand::Rng::with_seed(i.into()).fill(&mut value);
    (i.to_be_bytes(), value)
}

fn apply(shard: &mut dyn Shard, rows: impl Iterator<Item = u32>) -> Result<()> {
    let rows: Vec<_> = rows.map(row).collect();
    let writes: Vec<_> = [KV, EXPIRING]
        .iter()
        .flat_map(|&space| rows.iter().map(move |(key, value)| Write { space, key, value: Some(value) }))
        .collect();
    shard.apply(&mut List::new(&writes), b"metadata")
}

/// A shard's directory with a few tables, closed.
fn written(dir: &Path) {
    fs::create_dir(dir).unwrap();
    let mut shard = open(dir).unwrap();
    for part in 0..3 {
        apply(&mut *shard, (0..ROWS).filter(|i| i % 3 == part)).unwrap();
        shard.flush(Flush::Wait).unwrap();
    }
    shard.close().unwrap();
}

/// Reads everything in every way; a wrong or missing row is a panic.
fn read(dir: &Path) -> Result<()> {
    let mut shard = open(dir)?;
    assert_eq!(shard.committed(), Some(&b"metadata"[..]));
    assert_eq!(shard.durable()?, Some(&b"metadata"[..]));
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    for space in [KV, EXPIRING] {
        for (key, value) in rows.iter().step_by(7) {
            assert!(shard.get(space, key, &mut |found| assert_eq!(found, value))?, "a row is missing");
        }
        assert!(!shard.get(space, b"absent", &mut |_| {})?);
        let keys: Vec<&[u8]> = rows.iter().map(|(key, _)| &key[..]).collect();
        let mut found = 0;
        shard.multi_get(space, &keys, &mut |i, value| {
            assert_eq!(value, rows[i].1);
            found += 1;
        })?;
        assert_eq!(found, ROWS);
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut cursor = shard.scan(space, Range::ALL, direction)?;
            let mut scanned = 0;
            while let Some(row) = cursor.next()? {
                let i = if direction == Direction::Forward { scanned } else { ROWS as usize - 1 - scanned };
                assert!(row.key == rows[i].0 && row.value == rows[i].1, "another row at {i}");
                scanned += 1;
            }
            assert_eq!(scanned, ROWS as usize);
        }
    }
    shard.close()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|e| e.unwrap()) {
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The files of RocksDB whose names begin or end so.
fn database_files(dir: &Path, part: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir.join("db")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| {
        let name = f.file_name().unwrap().to_str().unwrap();
        name.starts_with(part) || name.ends_with(part)
    });
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Damages copies of a shard with seeds; answers how many of the copies gave an error.
fn damage(seeds: u64, part: &str, damage: impl Fn(&mut Vec<u8>, &mut fastrand::Rng)) -> u64 {
    let temp = tempfile::tempdir().unwrap();
    let good = temp.path().join("good");
    written(&good);
    read(&good).unwrap();
    let mut found = 0;
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let bad = temp.path().join(seed.to_string());
        copy(&good, &bad);
        let file = random.choice(database_files(&bad, part)).unwrap();
        let mut bytes = fs::read(&file).unwrap();
        damage(&mut bytes, &mut random);
        fs::write(&file, bytes).unwrap();
        if let Err(error) = read(&bad) {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "seed {seed}, {}: {error:?}", file.display());
            found += 1;
        }
    }
    found
}

#[test]
fn a_flipped_bit_in_a_table_is_found_or_harmless() {
    let found = damage(60, ".sst", |bytes, random| {
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u8(..8);
    });
    // What is harmless lies in blocks that nothing reads, such as a table's properties.
    assert!(found >= 40, "{found} of 60 were found");
}

#[test]
fn a_truncated_table_is_damage() {
    let found = damage(20, ".sst", |bytes, random| bytes.truncate(random.usize(..bytes.len())));
    assert_eq!(found, 20);
}

#[test]
fn a_flipped_bit_in_the_manifest_is_damage() {
    let found = damage(30, "MANIFEST", |bytes, random| {
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u8(..8);
    });
    assert!(found >= 25, "{found} of 30 were found");
}

#[test]
fn a_missing_file_is_damage_and_nothing_is_made_anew() {
    for part in [".sst", "MANIFEST", "CURRENT"] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("shard");
        written(&dir);
        fs::remove_file(&database_files(&dir, part)[0]).unwrap();
        for _ in 0..2 {
            let error = read(&dir).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{part}: {error:?}");
        }
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    written(&dir);
    fs::remove_dir_all(dir.join("db")).unwrap();
    assert_eq!(open(&dir).err().unwrap().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_directory_that_goes_away_is_an_error_of_the_flush() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    fs::create_dir(&dir).unwrap();
    let mut shard = open(&dir).unwrap();
    apply(&mut *shard, 0..10).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    let error = shard.flush(Flush::Wait).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error:?}");
    assert!(shard.close().is_err(), "nothing was flushed");
}

#[test]
fn the_files_of_another_engine_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("image"), "rows").unwrap();
    let error = open(temp.path()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains(&temp.path().display().to_string()), "{error}");
}

#[test]
fn a_space_may_not_change_its_kind() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    written(&dir);
    let specs = [SpaceSpec { id: KV, name: "s".to_owned(), expires: true }];
    let error = engine().open(&ShardSpec { dir: Some(&dir), spaces: &specs, unlogged: false }).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    read(&dir).unwrap();
}

#[test]
fn a_checkpoint_is_refused_where_something_is() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    written(&dir);
    let mut shard = open(&dir).unwrap();
    let error = shard.checkpoint(temp.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let copy = temp.path().join("copy");
    shard.checkpoint(&copy).unwrap();
    drop(shard);
    read(&copy).unwrap();
}

/// Applies the rows that are there already, again and again, until a flush fails. What is durable stays what `read` expects.
fn fill_until_full(shard: &mut dyn Shard) {
    let mut flushed = || apply(shard, 0..ROWS).and_then(|()| shard.flush(Flush::Wait));
    let error = (0..1000).find_map(|_| flushed().err());
    assert_eq!(error.as_ref().map(Error::kind), Some(ErrorKind::Full), "{error:?}");
}

/// Makes the tables to come links to the device that is always full.
#[cfg(target_os = "linux")]
fn fill_the_device(dir: &Path) -> Vec<PathBuf> {
    let tables = (0..200).map(|n| dir.join("db").join(format!("{n:06}.sst")));
    let links: Vec<_> = tables.filter(|table| !table.exists()).collect();
    for link in &links {
        std::os::unix::fs::symlink("/dev/full", link).unwrap();
    }
    links
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_has_a_name_and_loses_nothing_durable() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    written(&dir);
    let mut shard = open(&dir).unwrap();
    let links = fill_the_device(&dir);
    fill_until_full(&mut *shard);
    let written_after = shard.flush(Flush::Wait).and_then(|()| shard.durable().map(drop));
    assert!(written_after.is_err(), "the failure is not forgotten");
    drop(shard);
    for link in &links {
        drop(fs::remove_file(link));
    }
    read(&dir).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_flush_that_fails_behind_the_writer_is_told_by_durable() {
    // Once a flush that the writer has started, once one of the flusher's own.
    for flush_bytes in [u64::MAX, 1] {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("shard");
        written(&dir);
        let settings = RocksSettings { memory_bytes: Some(16 << 20), flush_bytes, ..RocksSettings::default() };
        let mut shard = open_with(&RocksEngine::new(settings).unwrap(), &dir).unwrap();
        fill_the_device(&dir);
        apply(&mut *shard, 0..ROWS).unwrap();
        if flush_bytes > 1 {
            shard.flush(Flush::Start).unwrap();
        }
        let clock = SystemPorts::new();
        let error = loop {
            if let Err(error) = shard.durable() {
                break error;
            }
            assert!(clock.monotonic().as_secs() < 60, "no error in a minute");
            std::thread::yield_now();
        };
        assert_eq!(error.kind(), ErrorKind::Full, "{error:?}");
        assert!(shard.close().is_err(), "what was not flushed is not claimed to be");
    }
}

/// The same on a real file system of 24 MiB. Mounting it needs root: among the slow tests, after the one above.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_has_a_name_and_loses_nothing_durable() {
    let temp = tempfile::tempdir().unwrap();
    let mount = std::env::var_os("MILLPOND_SLOW").map(|_| Mount::tmpfs(temp.path(), 24));
    let dir = temp.path().join("shard");
    written(&dir);
    if mount.is_some() {
        let mut shard = open(&dir).unwrap();
        let ballast = temp.path().join("ballast");
        let mut file = fs::File::create(&ballast).unwrap();
        while std::io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
        fill_until_full(&mut *shard);
        drop(shard);
        fs::remove_file(&ballast).unwrap();
    }
    read(&dir).unwrap();
}

/// A mounted file system, unmounted when dropped.
#[cfg(target_os = "linux")]
struct Mount(PathBuf);

#[cfg(target_os = "linux")]
impl Mount {
    fn tmpfs(at: &Path, mib: u32) -> Self {
        let size = format!("size={mib}m");
        let status = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at).status();
        assert!(status.unwrap().success(), "mounting needs root");
        Self(at.to_owned())
    }
}

#[cfg(target_os = "linux")]
impl Drop for Mount {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg(&self.0).status());
    }
}
