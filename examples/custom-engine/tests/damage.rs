//! Damaged, foreign and full: each is an error with a name, and never a wrong answer.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::fs;
use std::path::{Path, PathBuf};

use millpond_example_custom_engine::CustomEngine;
use millpond_store_api::{
    Direction, Engine, Error, ErrorKind, Flush, List, Range, Result, Shard, ShardSpec, SpaceId, SpaceSpec, Write,
};

const SPACES: [SpaceId; 2] = [SpaceId(1), SpaceId(2)];
const ROWS: u32 = 2000;
/// In how many batches the rows are written; each is flushed.
const BATCHES: u32 = 4;

fn open(dir: &Path) -> Result<Box<dyn Shard>> {
    let spaces = SPACES.map(|id| SpaceSpec { id, name: "s".to_owned(), expires: false });
    CustomEngine::default().open(&ShardSpec { dir: Some(dir), spaces: &spaces, unlogged: false })
}

fn row(i: u32) -> ([u8; 4], [u8; 40]) {
    let mut value = [0; 40];
    fastrand::Rng::with_seed(i.into()).fill(&mut value);
    (i.to_be_bytes(), value)
}

/// The rows of a batch are spread over all of the keys.
fn of_batch(batch: u32) -> impl Iterator<Item = u32> {
    (0..ROWS).filter(move |i| i % BATCHES == batch)
}

fn apply(shard: &mut dyn Shard, batch: u32) -> Result<()> {
    let rows: Vec<_> = of_batch(batch).map(row).collect();
    let writes: Vec<_> = SPACES
        .iter()
        .flat_map(|&space| rows.iter().map(move |(key, value)| Write { space, key, value: Some(value) }))
        .collect();
    shard.apply(&mut List::new(&writes), &batch.to_be_bytes())
}

/// A shard's directory with all batches, closed.
fn written(dir: &Path) {
    fs::create_dir(dir).unwrap();
    let mut shard = open(dir).unwrap();
    for batch in 0..BATCHES {
        apply(&mut *shard, batch).unwrap();
        shard.flush(Flush::Wait).unwrap();
    }
    shard.close().unwrap();
}

/// Reads everything both ways and answers how many batches are there; rows that do not agree with the metadata are a panic.
fn read(dir: &Path) -> Result<u32> {
    let mut shard = open(dir)?;
    let batches = shard.committed().map_or(0, |metadata| u32::from(metadata[3]) + 1);
    assert_eq!(shard.durable()?.map(<[u8]>::to_vec), shard.committed().map(<[u8]>::to_vec));
    let want: Vec<_> = (0..ROWS).filter(|i| i % BATCHES < batches).map(row).collect();
    for space in SPACES {
        for (key, value) in want.iter().step_by(7) {
            assert!(shard.get(space, key, &mut |found| assert_eq!(found, value))?, "a row is missing");
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut cursor = shard.scan(space, Range::ALL, direction)?;
            let mut seen = 0;
            while let Some(found) = cursor.next()? {
                let i = if direction == Direction::Forward { seen } else { want.len() - 1 - seen };
                assert!(found.key == want[i].0 && found.value == want[i].1, "another row at {i}");
                seen += 1;
            }
            assert_eq!(seen, want.len());
        }
    }
    shard.close()?;
    Ok(batches)
}

fn rows_of(dir: &Path) -> PathBuf {
    dir.join("rows.redb")
}

/// Damages copies of a shard with seeds; answers how many gave an error, and how many came back at an earlier batch.
fn damage(seeds: u64, damage: impl Fn(&mut Vec<u8>, &mut fastrand::Rng)) -> (u64, u64) {
    let temp = tempfile::tempdir().unwrap();
    let good = temp.path().join("good");
    written(&good);
    assert_eq!(read(&good).unwrap(), BATCHES);
    let (mut refused, mut earlier) = (0, 0);
    for seed in 0..seeds {
        let bad = temp.path().join(seed.to_string());
        fs::create_dir(&bad).unwrap();
        fs::copy(good.join("FORMAT"), bad.join("FORMAT")).unwrap();
        let mut bytes = fs::read(rows_of(&good)).unwrap();
        damage(&mut bytes, &mut fastrand::Rng::with_seed(seed));
        fs::write(rows_of(&bad), bytes).unwrap();
        match read(&bad) {
            Ok(batches) => earlier += u64::from(batches < BATCHES),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "seed {seed}: {error:?}");
                refused += 1;
            }
        }
    }
    println!("{seeds} damaged: {refused} refused, {earlier} at an earlier batch, the others unharmed");
    (refused, earlier)
}

#[test]
fn a_flipped_bit_is_found_or_harmless() {
    // What is harmless lies in pages that nothing uses, and at the ends of those that are not full.
    let (refused, earlier) = damage(150, |bytes, random| {
        let at = random.usize(..bytes.len());
        bytes[at] ^= 1 << random.u8(..8);
    });
    assert!(refused + earlier >= 20, "{refused} and {earlier} of 150");
}

#[test]
fn a_flipped_bit_in_the_head_of_the_file_is_found_or_harmless() {
    damage(100, |bytes, random| {
        let at = random.usize(..320);
        bytes[at] ^= 1 << random.u8(..8);
    });
}

#[test]
fn a_page_of_zeros_is_found_or_harmless() {
    let (refused, earlier) = damage(60, |bytes, random| {
        let page = random.usize(..bytes.len() / 4096);
        bytes[page * 4096..][..4096].fill(0);
    });
    assert!(refused + earlier >= 10, "{refused} and {earlier} of 60");
}

#[test]
fn a_truncated_file_is_damage() {
    let (refused, earlier) = damage(40, |bytes, random| bytes.truncate(random.usize(..bytes.len())));
    assert_eq!((refused, earlier), (40, 0));
}

#[test]
fn a_missing_file_is_damage_and_nothing_is_made_anew() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    written(&dir);
    fs::remove_file(rows_of(&dir)).unwrap();
    for _ in 0..2 {
        let error = read(&dir).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
        assert!(error.to_string().contains(&dir.display().to_string()), "{error}");
    }
}

#[test]
fn the_files_of_another_engine_or_version_are_refused_and_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    for (name, text) in [("CURRENT", "rows"), ("FORMAT", "millpond custom engine, format 2\n")] {
        let dir = temp.path().join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(name), text).unwrap();
        let error = open(&dir).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains(&dir.display().to_string()), "{error}");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }
}

#[test]
fn a_kill_before_the_marker_was_written_is_no_damage() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    written(&dir);
    fs::remove_file(dir.join("FORMAT")).unwrap();
    fs::write(dir.join("FORMAT.new"), "millp").unwrap();
    assert_eq!(read(&dir).unwrap(), BATCHES);
    assert!(dir.join("FORMAT").exists());
}

#[test]
fn a_walk_that_goes_on_when_its_shard_is_closed_ends_with_an_error_or_its_rows() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    written(&dir);
    let shard = open(&dir).unwrap();
    let reader = shard.reader();
    let mut walk = reader.scan(SPACES[0], Range::ALL, Direction::Forward).unwrap();
    assert!(walk.next().unwrap().is_some());
    shard.close().unwrap();
    // The walk keeps nobody from opening the shard.
    let next = open(&dir).unwrap();
    let mut seen = 1;
    let ended = loop {
        match walk.next() {
            Ok(Some(row)) => assert_eq!(row.value, row_at(seen)),
            Ok(None) => break Ok(seen),
            Err(error) => break Err(error.kind()),
        }
        seen += 1;
    };
    assert!(matches!(ended, Ok(ROWS) | Err(ErrorKind::Retry)), "{ended:?}");
    next.close().unwrap();
}

fn row_at(i: u32) -> [u8; 40] {
    row(i).1
}

/// Applies the rows that are there already, again and again, until a flush fails.
#[cfg(target_os = "linux")]
fn fill_until_full(shard: &mut dyn Shard) {
    let last = BATCHES - 1;
    let mut flushed = || apply(shard, last).and_then(|()| shard.flush(Flush::Wait));
    let error = (0..1000).find_map(|_| flushed().err());
    assert_eq!(error.as_ref().map(Error::kind), Some(ErrorKind::Full), "{error:?}");
}

/// On a real file system of 8 MiB. Mounting it needs root, so it is among the slow tests.
#[cfg(target_os = "linux")]
#[test]
fn a_full_file_system_has_a_name_and_loses_nothing_durable() {
    let temp = tempfile::tempdir().unwrap();
    let mount = std::env::var_os("MILLPOND_SLOW").map(|_| Mount::tmpfs(temp.path(), 8));
    let dir = temp.path().join("shard");
    written(&dir);
    if mount.is_some() {
        let mut shard = open(&dir).unwrap();
        let ballast = temp.path().join("ballast");
        let mut file = fs::File::create(&ballast).unwrap();
        while std::io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
        fill_until_full(&mut *shard);
        assert!(shard.flush(Flush::Wait).is_err(), "the failure is not forgotten");
        drop(shard);
        fs::remove_file(&ballast).unwrap();
    }
    assert_eq!(read(&dir).unwrap(), BATCHES);
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
