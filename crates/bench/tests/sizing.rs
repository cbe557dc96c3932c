//! The files of RocksDB beside what `Sizing` has estimated.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::time::Duration;

use millpond_bench::memory::pause;
use millpond_runtime::{Sizing, StoreSizing, WindowSizing};
use millpond_store_api::schema::{Buckets, ExpiringKey, Suffix};
use millpond_store_api::{Engine, Flush, List, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_rocks::{RocksEngine, RocksSettings};

const ROWS: u64 = 400_000;
const KEY: usize = 16;
const VALUE: usize = 100;
const SPACE: SpaceId = SpaceId(1);
/// Estimate and measurement differ by so much at most.
const WITHIN: f64 = 0.3;

/// A key without zero bytes, each of which takes two in the windowed space.
fn key(row: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(row);
    (0..KEY).map(|_| random.u8(1..)).collect()
}

/// Writes each row once, and every fourth one again; answers with the bytes of all files when RocksDB has come to rest.
fn files(windows: Option<WindowSizing>, noise: usize) -> u64 {
    let temp = tempfile::tempdir().unwrap();
    let engine = RocksEngine::new(RocksSettings { memory_bytes: Some(64 << 20), ..RocksSettings::default() }).unwrap();
    let spaces = [SpaceSpec { id: SPACE, name: "rows".to_owned(), expires: windows.is_some() }];
    let spec = ShardSpec { dir: Some(temp.path()), spaces: &spaces, unlogged: false };
    let mut shard = engine.open(&spec).unwrap();
    let stored = |row: u64| match windows {
        None => key(row),
        Some(windows) => {
            let retention = i64::try_from(windows.retention.as_millis()).unwrap();
            let start = i64::try_from(windows.advance.as_millis()).unwrap() * (row as i64 % alive(&windows));
            let (bucket, mut bytes) = (Buckets::new(retention).of(start), Vec::new());
            ExpiringKey { bucket, store: 1, key: &key(row), suffix: Suffix::Time(start) }.encode(&mut bytes);
            bytes
        }
    };
    let mut random = fastrand::Rng::with_seed(1);
    for batch in (0..ROWS).chain((0..ROWS).step_by(4)).collect::<Vec<_>>().chunks(1000) {
        let row = |row: &u64| {
            let mut value = vec![b'.'; VALUE];
            value.iter_mut().take(noise).for_each(|byte| *byte = random.u8(..));
            (stored(*row), value)
        };
        let mut rows: Vec<_> = batch.iter().map(row).collect();
        rows.sort();
        let writes: Vec<_> = rows.iter().map(|(key, value)| Write { space: SPACE, key, value: Some(value) }).collect();
        shard.apply(&mut List::new(&writes), b"metadata").unwrap();
    }
    shard.flush(Flush::Wait).unwrap();
    let (mut before, mut now) = (0, size(temp.path()));
    while now != before {
        pause(Duration::from_millis(300));
        (before, now) = (now, size(temp.path()));
    }
    shard.close().unwrap();
    size(temp.path())
}

/// Windows of a key that are alive.
fn alive(windows: &WindowSizing) -> i64 {
    i64::try_from(windows.retention.as_millis() / windows.advance.as_millis()).unwrap()
}

fn size(dir: &Path) -> u64 {
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        // Compaction has deleted it.
        Err(_) => 0,
    };
    std::fs::read_dir(dir).unwrap().flatten().map(of).sum()
}

#[track_caller]
fn assert_near(sizing: &Sizing, rows: f64, measured: u64) {
    let estimate = sizing.estimate().unwrap();
    let ratio = estimate.disk as f64 * rows / measured as f64;
    println!("{} bytes estimated for {rows} of the rows, {measured} measured: {ratio:.3}", estimate.disk);
    assert!((1.0 - WITHIN..=1.0 + WITHIN).contains(&ratio), "estimated {ratio:.3} times what was measured");
}

#[test]
fn rows_that_do_not_compress_take_what_is_estimated() {
    let store = StoreSizing::key_value(ROWS, KEY as u32, VALUE as u32);
    assert_near(&Sizing::of(vec![store], 1), 1.0, files(None, VALUE));
}

#[test]
fn rows_that_compress_take_what_is_estimated() {
    let store = StoreSizing::key_value(ROWS, KEY as u32, VALUE as u32);
    let compression = (KEY + 50) as f64 / (KEY + VALUE) as f64;
    assert_near(&Sizing { compression, ..Sizing::of(vec![store], 1) }, 1.0, files(None, 50));
}

#[test]
fn rows_of_windows_take_what_is_estimated() {
    let (size, retention) = (Duration::from_secs(300), Duration::from_secs(8 * 3600));
    let windows = WindowSizing { size, advance: size, retention };
    let keys = ROWS / alive(&windows) as u64;
    let store = StoreSizing::key_value(keys, KEY as u32, VALUE as u32).windowed(windows);
    // No row has expired, so that there are none that wait for their bucket.
    let kept = ROWS as f64 / store_kept(&store);
    assert_near(&Sizing::of(vec![store], 1), kept, files(Some(windows), VALUE));
}

fn store_kept(store: &StoreSizing) -> f64 {
    Sizing::of(vec![store.clone()], 1).estimate().unwrap().rows_kept as f64
}
