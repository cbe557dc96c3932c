//! The expiring space: what is dropped, what stays, and walks that use the prefix filters.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use millpond_store_api::{
    Direction, Engine, Flush, List, Prefix, Range, Read, Shard, ShardSpec, SpaceId, SpaceSpec, Write,
};
use millpond_store_rocks::{RocksEngine, RocksSettings};

const KV: SpaceId = SpaceId(1);
const EXPIRING: SpaceId = SpaceId(2);

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn engine() -> RocksEngine {
    RocksEngine::new(RocksSettings { memory_bytes: Some(16 << 20), shards: 2, ..RocksSettings::default() }).unwrap()
}

fn open(engine: &RocksEngine, dir: &Path) -> Box<dyn Shard> {
    let space = |id, expires| SpaceSpec { id, name: "s".to_owned(), expires };
    engine
        .open(&ShardSpec { dir: Some(dir), spaces: &[space(KV, false), space(EXPIRING, true)], unlogged: false })
        .unwrap()
}

/// A windowed row's key: minute, store, key with its end mark, start.
fn key(minute: u32, key: u16, start: u64) -> Vec<u8> {
    let escaped = key.to_be_bytes().into_iter().flat_map(|b| if b == 0 { vec![0, 0xFF] } else { vec![b] });
    minute.to_be_bytes().into_iter().chain([0, 1]).chain(escaped).chain([0, 1]).chain(start.to_be_bytes()).collect()
}

/// Rows of many minutes, mostly incompressible. Each minute's lowest row has a table of its own, so that a table ends at a
/// bound exactly.
fn fill(shard: &mut dyn Shard, minutes: std::ops::Range<u32>) -> Rows {
    let mut all = Rows::new();
    for minute in minutes {
        let mut random = fastrand::Rng::with_seed(minute.into());
        let mut rows = Rows::new();
        for _ in 0..300 {
            let start = u64::from(minute) * 8 + random.u64(..8);
            rows.insert(key(minute, random.u16(..400), start), (0..100).map(|_| random.u8(..)).collect());
        }
        let writes: Vec<_> = rows.iter().map(|(k, v)| Write { space: EXPIRING, key: k, value: Some(v) }).collect();
        for part in [&writes[..1], &writes[1..]] {
            shard.apply(&mut List::new(part), &minute.to_be_bytes()).unwrap();
            shard.flush(Flush::Wait).unwrap();
        }
        all.append(&mut rows);
    }
    all
}

fn scan(read: &dyn Read, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = read.scan(EXPIRING, range, direction).unwrap();
    let mut rows = Vec::new();
    while let Some(row) = cursor.next().unwrap() {
        rows.push((row.key.to_vec(), row.value.to_vec()));
    }
    rows
}

fn expected(rows: &Rows, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows: Vec<_> =
        rows.iter().filter(|(k, _)| range.contains(k)).map(|(k, v)| (k.clone(), v.clone())).collect();
    if direction == Direction::Reverse {
        rows.reverse();
    }
    rows
}

#[test]
fn walks_within_a_prefix_and_across_see_the_same_rows() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    let rows = fill(&mut *shard, 10..22);
    let reader = shard.reader();
    let reads: [&dyn Read; 2] = [&*shard, &*reader];
    for (minute, k) in (10..22).flat_map(|minute| (0..400).step_by(13).map(move |k| (minute, k))) {
        let one = key(minute, k, 0);
        let prefix = Prefix::new(&one[..one.len() - 8]);
        let (from, to) = (key(minute, k, u64::from(minute) * 8 + 2), key(minute, k, u64::from(minute) * 8 + 5));
        let narrow = Range::new(Bound::Excluded(&from), Bound::Included(&to));
        let across = Range::new(Bound::Included(&from), Bound::Included(b"\0\0\0\x11"));
        for range in [prefix.range(), narrow, across] {
            for direction in [Direction::Forward, Direction::Reverse] {
                if !range.is_empty() {
                    for read in reads {
                        assert_eq!(scan(read, range, direction), expected(&rows, range, direction), "{minute} {k}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_seek_within_a_prefix_stays_in_it() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    let rows: Vec<_> = (0..10).flat_map(|start| [key(9, 500, start), key(9, 501, start)]).collect();
    let writes: Vec<_> = rows.iter().map(|key| Write { space: EXPIRING, key, value: Some(b"v") }).collect();
    shard.apply(&mut List::new(&writes), b"m").unwrap();
    shard.flush(Flush::Wait).unwrap();
    let one = key(9, 500, 0);
    let prefix = Prefix::new(&one[..one.len() - 8]);
    let mut cursor = shard.scan(EXPIRING, prefix.range(), Direction::Forward).unwrap();
    for (target, want) in [(key(8, 0, 0), Some(0)), (key(9, 500, 7), Some(7)), (key(9, 501, 0), None)] {
        cursor.seek(&target).unwrap();
        assert_eq!(cursor.next().unwrap().map(|row| row.key.to_vec()), want.map(|start| key(9, 500, start)));
    }
}

#[test]
fn what_is_below_the_bound_goes_and_a_row_at_the_bound_stays() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    let mut rows = fill(&mut *shard, 10..30);
    // Each minute's greatest row is in memory only, where no file can take it along.
    let late: Vec<_> = (10..30).map(|minute| key(minute, u16::MAX, 0)).collect();
    let writes: Vec<_> = late.iter().map(|key| Write { space: EXPIRING, key, value: Some(b"late") }).collect();
    shard.apply(&mut List::new(&writes), b"late").unwrap();
    rows.extend(late.iter().map(|key| (key.clone(), b"late".to_vec())));
    let reader = shard.reader();
    let before = engine.usage().shards[0].file_bytes;
    for minute in 11..=28_u32 {
        // The lowest row of the minute, itself: the rows before it go, it stays.
        let bound = rows.range(minute.to_be_bytes().to_vec()..).next().unwrap().0.clone();
        shard.drop_below(EXPIRING, &bound).unwrap();
        let kept = rows.split_off(&bound);
        let gone: Vec<_> = std::mem::replace(&mut rows, kept).into_keys().collect();
        for read in [&*shard as &dyn Read, &*reader] {
            assert!(!read.get(EXPIRING, gone.last().unwrap(), &mut |_| {}).unwrap(), "a row below the bound");
            let keys = [gone.last().unwrap().as_slice(), &bound];
            read.multi_get(EXPIRING, &keys, &mut |i, _| assert_eq!(i, 1, "a row below the bound")).unwrap();
            assert!(read.get(EXPIRING, &bound, &mut |_| {}).unwrap(), "the row at the bound");
            assert_eq!(scan(read, Range::ALL, Direction::Forward), expected(&rows, Range::ALL, Direction::Forward));
            let below = Range::new(Bound::Unbounded, Bound::Excluded(&bound));
            assert_eq!(scan(read, below, Direction::Reverse), []);
        }
    }
    // A bound that is lower than the last one takes nothing back.
    shard.drop_below(EXPIRING, &[0]).unwrap();
    assert_eq!(scan(&*shard, Range::ALL, Direction::Forward).len(), rows.len());
    let after = engine.usage().shards[0].file_bytes;
    assert!(after < before / 2, "{before} bytes in files before, {after} after");
    shard.close().unwrap();
    let shard = open(&engine, temp.path());
    let kept = scan(
        &*shard,
        Range::new(Bound::Included(rows.first_key_value().unwrap().0), Bound::Unbounded),
        Direction::Forward,
    );
    assert_eq!(kept, expected(&rows, Range::ALL, Direction::Forward));
}

#[test]
fn a_plain_space_loses_its_low_end_too_and_its_neighbours_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine();
    let mut shard = open(&engine, temp.path());
    let keys: Vec<_> = (0..100_u8).map(|k| [k]).collect();
    let writes: Vec<_> = [EXPIRING, KV]
        .iter()
        .flat_map(|&space| keys.iter().map(move |key| Write { space, key, value: Some(b"v") }))
        .collect();
    shard.apply(&mut List::new(&writes), b"m").unwrap();
    shard.drop_below(KV, &[40]).unwrap();
    shard.flush(Flush::Wait).unwrap();
    drop(shard);
    let shard = open(&engine, temp.path());
    assert_eq!(shard.committed(), Some(&b"m"[..]));
    for key in &keys {
        assert_eq!(shard.get(KV, key, &mut |_| {}).unwrap(), key[0] >= 40);
        assert!(shard.get(EXPIRING, key, &mut |_| {}).unwrap());
    }
}
