//! Shards that released formats have left behind are opened by this one, for ever (`tests/fixtures/README.md`).
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::fs;
use std::path::Path;

use millpond_store_api::{Direction, Engine, Flush, List, Range, Shard, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_rocks::{RocksEngine, RocksSettings};

const PLAIN: SpaceId = SpaceId(1);
const OTHER: SpaceId = SpaceId(258);
const EXPIRING: SpaceId = SpaceId(3);

/// The example of `docs/formats/shard-metadata.md`.
const METADATA: &[u8] = b"\x01\x00\x00\x00\x00\x01\xAC\x02\x00\x00\x01\x8B\xCF\xE5\x68\x00\x02\x0Fapp-s-changelog\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x01\x02\x82\x01\x00\x02in\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x00\x01\x02\xC8\x01\
    \x01\x01s\x00\x00\x00\x00\x00\x00\x13\x88";

/// All rows, in the order of their keys: empty ones, and such whose bytes are the ends of their range.
const ROWS: &[(SpaceId, &[u8], &[u8])] = &[
    (PLAIN, b"", b"empty key"),
    (PLAIN, b"\0", b""),
    (PLAIN, b"key", b"\0\0\x01\x8B\xCF\xE5\x68\0value"),
    (PLAIN, b"\xFF\xFF\xFF", b"last"),
    (OTHER, b"key", b"of another space"),
    (EXPIRING, b"\0\0\0\0\0\0\0\x01key", b"early"),
    (EXPIRING, b"\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFFkey", b"late"),
];

fn open(dir: &Path) -> Box<dyn Shard> {
    let settings = RocksSettings { memory_bytes: Some(16 << 20), shards: 1, ..RocksSettings::default() };
    let space = |id, expires| SpaceSpec { id, name: format!("s{}", id.0), expires };
    let spaces = [space(PLAIN, false), space(OTHER, false), space(EXPIRING, true)];
    RocksEngine::new(settings).unwrap().open(&ShardSpec { dir: Some(dir), spaces: &spaces, unlogged: false }).unwrap()
}

/// Writes what the fixtures hold: one row was there before, one is deleted, all in two tables.
fn write(dir: &Path) {
    let mut shard = open(dir);
    let old = [
        Write { space: PLAIN, key: b"key", value: Some(b"old") },
        Write { space: OTHER, key: b"gone", value: Some(b"gone") },
    ];
    shard.apply(&mut List::new(&old), b"old").unwrap();
    shard.flush(Flush::Wait).unwrap();
    let mut rows: Vec<_> =
        ROWS.iter().map(|(space, key, value)| Write { space: *space, key, value: Some(value) }).collect();
    rows.push(Write { space: OTHER, key: b"gone", value: None });
    shard.apply(&mut List::new(&rows), METADATA).unwrap();
    shard.flush(Flush::Wait).unwrap();
    shard.close().unwrap();
}

/// Finds exactly what [`write`] wrote, writes, and finds that after it was closed.
fn check(dir: &Path) {
    let mut shard = open(dir);
    assert_eq!(shard.committed(), Some(METADATA));
    assert_eq!(shard.durable().unwrap(), Some(METADATA));
    assert_eq!(rows(&*shard), owned(ROWS));
    let change = [Write { space: PLAIN, key: b"new", value: Some(b"new") }];
    shard.apply(&mut List::new(&change), b"new").unwrap();
    shard.close().unwrap();

    let shard = open(dir);
    assert_eq!(shard.committed(), Some(&b"new"[..]));
    let mut found = rows(&*shard);
    found.retain(|row| row.1 != b"new");
    assert_eq!(found, owned(ROWS));
}

type Rows = Vec<(u16, Vec<u8>, Vec<u8>)>;

fn owned(rows: &[(SpaceId, &[u8], &[u8])]) -> Rows {
    rows.iter().map(|(space, key, value)| (space.0, key.to_vec(), value.to_vec())).collect()
}

fn rows(shard: &dyn Shard) -> Rows {
    let mut rows = Vec::new();
    for space in [PLAIN, OTHER, EXPIRING] {
        let mut cursor = shard.scan(space, Range::ALL, Direction::Forward).unwrap();
        while let Some(row) = cursor.next().unwrap() {
            rows.push((space.0, row.key.to_vec(), row.value.to_vec()));
        }
    }
    rows
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

/// What the fixture of the next format is made of: with `MILLPOND_FIXTURE=DIR` it is left in this new directory.
#[test]
fn what_is_written_today_is_read() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("shard");
    fs::create_dir(&dir).unwrap();
    write(&dir);
    if let Some(fixture) = std::env::var_os("MILLPOND_FIXTURE") {
        copy(&dir, Path::new(&fixture));
    }
    check(&dir);
}

#[test]
fn every_released_format_is_read() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let temp = tempfile::tempdir().unwrap();
    let mut opened = 0;
    for entry in fs::read_dir(fixtures).unwrap().map(|e| e.unwrap()).filter(|e| e.path().is_dir()) {
        let dir = temp.path().join(entry.file_name());
        copy(&entry.path(), &dir);
        check(&dir);
        opened += 1;
    }
    assert!(opened >= 1);
}
