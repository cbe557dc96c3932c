//! About how many rows there are, where RocksDB can only estimate.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::path::Path;

use millpond_store_api::{Engine, Flush, List, Shard, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_rocks::{RocksEngine, RocksSettings};

const SMALL: SpaceId = SpaceId(1);
const LARGE: SpaceId = SpaceId(2);
const LAST: SpaceId = SpaceId(u16::MAX);
const EXPIRING: SpaceId = SpaceId(3);

fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings { memory_bytes: Some(64 << 20), shards: 2, ..RocksSettings::default() }).unwrap()
}

fn open(engine: &RocksEngine, dir: &Path) -> Box<dyn Shard> {
    let spaces = [SMALL, LARGE, LAST, EXPIRING].map(|id| SpaceSpec {
        id,
        name: format!("space {}", id.0),
        expires: id == EXPIRING,
    });
    engine.open(&ShardSpec { dir: Some(dir), spaces: &spaces, unlogged: false }).unwrap()
}

/// Puts or, without a size, deletes rows of a range of numbers, in batches; values are random bytes of the size.
fn write(shard: &mut dyn Shard, space: SpaceId, rows: std::ops::Range<u32>, size: Option<usize>) {
    let mut random = fastrand::Rng::with_seed(rows.start.into());
    for batch in rows.collect::<Vec<_>>().chunks(1_000) {
        let rows: Vec<_> = batch.iter().map(|i| (i.to_be_bytes(), size.map(|n| vec![random.u8(..); n]))).collect();
        let writes: Vec<_> = rows.iter().map(|(key, value)| Write { space, key, value: value.as_deref() }).collect();
        shard.apply(&mut List::new(&writes), b"m").unwrap();
    }
}

#[track_caller]
fn about(shard: &dyn Shard, space: SpaceId, rows: u64, percent: u64) {
    let off = rows * percent / 100;
    for counted in [shard.approximate_num_entries(space), shard.reader().approximate_num_entries(space)] {
        let counted = counted.unwrap();
        assert!((rows - off..=rows + off).contains(&counted), "{counted} instead of {rows} rows");
    }
}

#[test]
fn b126_each_space_of_a_family_is_counted_by_itself() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    write(&mut *shard, SMALL, 0..200_000, Some(8));
    write(&mut *shard, LARGE, 0..20_000, Some(500));
    write(&mut *shard, LAST, 0..50_000, Some(30));
    for _ in 0..2 {
        about(&*shard, SMALL, 200_000, 20);
        about(&*shard, LARGE, 20_000, 20);
        about(&*shard, LAST, 50_000, 20);
        about(&*shard, EXPIRING, 0, 0);
        shard.flush(Flush::Wait).unwrap();
    }
    shard.close().unwrap();
    let shard = open(&engine, temp.path());
    about(&*shard, SMALL, 200_000, 20);
    about(&*shard, LARGE, 20_000, 20);
}

#[test]
fn b126_replaced_rows_are_bounded_by_their_versions_and_deleted_ones_are_not_counted() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    for _ in 0..4 {
        write(&mut *shard, SMALL, 0..100_000, Some(8));
        shard.flush(Flush::Wait).unwrap();
    }
    write(&mut *shard, SMALL, 0..100_000, Some(8));
    let counted = shard.approximate_num_entries(SMALL).unwrap();
    assert!((10_000..=500_000).contains(&counted), "{counted}: a version may count as long as it is not compacted");
    write(&mut *shard, SMALL, 0..100_000, None);
    about(&*shard, SMALL, 0, 0);
    shard.flush(Flush::Wait).unwrap();
    about(&*shard, SMALL, 0, 0);
}

#[test]
fn b126_up_to_ten_thousand_rows_are_counted_exactly() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    write(&mut *shard, LARGE, 0..50_000, Some(50));
    for rows in [1, 9_999, 10_000] {
        write(&mut *shard, SMALL, 0..rows, Some(8));
        about(&*shard, SMALL, rows.into(), 0);
        shard.flush(Flush::Wait).unwrap();
        about(&*shard, SMALL, rows.into(), 0);
    }
    // The first row beyond is an estimate, and never less than what was counted.
    write(&mut *shard, SMALL, 10_000..10_001, Some(8));
    assert!(shard.approximate_num_entries(SMALL).unwrap() >= 10_000);
    about(&*shard, SMALL, 10_000, 20);
}

#[test]
fn b126_expired_rows_are_not_counted() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    write(&mut *shard, EXPIRING, 0..100_000, Some(20));
    shard.flush(Flush::Wait).unwrap();
    about(&*shard, EXPIRING, 100_000, 20);
    shard.drop_below(EXPIRING, &60_000_u32.to_be_bytes()).unwrap();
    about(&*shard, EXPIRING, 40_000, 20);
    shard.drop_below(EXPIRING, &99_000_u32.to_be_bytes()).unwrap();
    about(&*shard, EXPIRING, 1_000, 0);
}
