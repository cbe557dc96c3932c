//! What the simulated disk promises beyond the conformance suite: gaps, faults, slowness, loss.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::path::Path;

use millpond_store_api::{Engine, ErrorKind, Flush, List, Result, Shard, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_mem::{DiskOp, MemEngine, SimulatedDisk};

const SPACE: SpaceId = SpaceId(1);

fn try_open(disk: &SimulatedDisk, dir: &str) -> Result<Box<dyn Shard>> {
    try_open_as(disk, dir, false)
}

fn try_open_as(disk: &SimulatedDisk, dir: &str, unlogged: bool) -> Result<Box<dyn Shard>> {
    let spaces = [SpaceSpec { id: SPACE, name: "store".into(), expires: false }];
    MemEngine::with_simulated_disk(disk).open(&ShardSpec { dir: Some(Path::new(dir)), spaces: &spaces, unlogged })
}

fn open(disk: &SimulatedDisk) -> Box<dyn Shard> {
    try_open(disk, "shard").unwrap()
}

fn try_put(shard: &mut dyn Shard, value: &[u8]) -> Result<()> {
    shard.apply(&mut List::new(&[Write { space: SPACE, key: b"k", value: Some(value) }]), value)
}

fn put(shard: &mut dyn Shard, value: &[u8]) {
    try_put(shard, value).unwrap();
}

fn get(shard: &dyn Shard) -> Option<Vec<u8>> {
    let mut value = None;
    shard.get(SPACE, b"k", &mut |bytes| value = Some(bytes.to_vec())).unwrap();
    value
}

#[test]
fn a_crash_falls_back_to_exactly_the_last_flush() {
    let disk = SimulatedDisk::default();
    let mut shard = open(&disk);
    put(&mut *shard, b"1");
    shard.flush(Flush::Wait).unwrap();
    put(&mut *shard, b"2");
    drop(shard);
    let shard = open(&disk);
    assert_eq!((get(&*shard), shard.committed()), (Some(b"1".to_vec()), Some(&b"1"[..])));
}

#[test]
fn a_started_flush_ends_when_durable_is_asked_for() {
    let disk = SimulatedDisk::default();
    for (asked, survives) in [(false, None), (true, Some(b"1".to_vec()))] {
        let mut shard = open(&disk);
        put(&mut *shard, b"1");
        shard.flush(Flush::Start).unwrap();
        put(&mut *shard, b"2");
        if asked {
            assert_eq!(shard.durable().unwrap(), Some(&b"1"[..]), "the batch after the flush was started is not in it");
        }
        drop(shard);
        assert_eq!(get(&*open(&disk)), survives);
    }
}

#[test]
fn a_slow_disk_ends_only_flushes_that_are_waited_for() {
    let disk = SimulatedDisk::default();
    let mut shard = open(&disk);
    disk.hold_flushes(true);
    put(&mut *shard, b"1");
    shard.flush(Flush::Start).unwrap();
    assert_eq!(shard.durable().unwrap(), None);
    disk.hold_flushes(false);
    assert_eq!(shard.durable().unwrap(), Some(&b"1"[..]));
    disk.hold_flushes(true);
    put(&mut *shard, b"2");
    shard.flush(Flush::Wait).unwrap();
    assert_eq!(shard.durable().unwrap(), Some(&b"2"[..]));
}

#[test]
fn a_failed_apply_changes_nothing() {
    let disk = SimulatedDisk::default();
    let mut shard = open(&disk);
    put(&mut *shard, b"1");
    disk.fail_next(DiskOp::Apply, ErrorKind::Full);
    assert_eq!(try_put(&mut *shard, b"2").unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(disk.pending_faults(), 0);
    assert_eq!((get(&*shard), shard.committed()), (Some(b"1".to_vec()), Some(&b"1"[..])));
    shard.close().unwrap();
    assert_eq!(get(&*open(&disk)), Some(b"1".to_vec()));
}

#[test]
fn a_failed_flush_makes_nothing_durable() {
    let disk = SimulatedDisk::default();
    let mut shard = open(&disk);
    put(&mut *shard, b"1");
    shard.flush(Flush::Wait).unwrap();
    put(&mut *shard, b"2");
    disk.fail_next(DiskOp::Flush, ErrorKind::Io);
    assert_eq!(shard.flush(Flush::Wait).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(shard.durable().unwrap(), Some(&b"1"[..]));
    drop(shard);
    assert_eq!(get(&*open(&disk)), Some(b"1".to_vec()));
}

#[test]
fn a_started_flush_fails_at_durable_and_a_last_one_at_close() {
    let disk = SimulatedDisk::default();
    let mut shard = open(&disk);
    put(&mut *shard, b"1");
    disk.fail_next(DiskOp::Flush, ErrorKind::Full);
    shard.flush(Flush::Start).unwrap();
    assert_eq!(shard.durable().unwrap_err().kind(), ErrorKind::Full);
    disk.fail_next(DiskOp::Flush, ErrorKind::Io);
    assert_eq!(shard.close().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(get(&*open(&disk)), None, "the directory is free again, and holds nothing");
}

#[test]
fn faults_strike_in_order_and_each_at_its_operation() {
    let disk = SimulatedDisk::default();
    disk.fail_next(DiskOp::Flush, ErrorKind::Io);
    disk.fail_next(DiskOp::Open, ErrorKind::Corrupt);
    disk.fail_next(DiskOp::Open, ErrorKind::Retry);
    let failed_open = || try_open(&disk, "shard").map(drop).unwrap_err().kind();
    assert_eq!((failed_open(), failed_open()), (ErrorKind::Corrupt, ErrorKind::Retry));
    let mut shard = open(&disk);
    put(&mut *shard, b"1");
    assert_eq!(disk.pending_faults(), 1);
    assert!(shard.flush(Flush::Wait).is_err());
    shard.flush(Flush::Wait).unwrap();
}

#[test]
fn a_wiped_disk_fails_what_is_open_and_holds_nothing() {
    let disk = SimulatedDisk::default();
    let mut old = open(&disk);
    put(&mut *old, b"1");
    old.flush(Flush::Wait).unwrap();
    assert_eq!(disk.directories(), [Path::new("shard")]);
    disk.wipe();
    assert!(disk.directories().is_empty());
    let mut new = open(&disk);
    assert_eq!(get(&*new), None);
    put(&mut *old, b"2");
    assert_eq!(old.flush(Flush::Wait).unwrap_err().kind(), ErrorKind::Io);
    drop(old);
    assert_eq!(
        try_open(&disk, "shard").map(drop).unwrap_err().kind(),
        ErrorKind::Retry,
        "the new shard keeps its lock"
    );
    put(&mut *new, b"3");
    new.close().unwrap();
    assert_eq!(get(&*open(&disk)), Some(b"3".to_vec()));
}

#[test]
fn disks_are_separate_and_handles_are_one() {
    let (disk, other) = (SimulatedDisk::default(), SimulatedDisk::default());
    let mut shard = open(&disk.clone());
    put(&mut *shard, b"1");
    shard.close().unwrap();
    assert_eq!(get(&*open(&disk)), Some(b"1".to_vec()));
    assert_eq!(get(&*open(&other)), None);
    assert!(format!("{disk:?}").contains("directories: 1"));
}

#[test]
fn a_panic_inside_a_batch_ends_the_shard_and_is_not_kept() {
    struct Panics(u8);
    impl millpond_store_api::Writes for Panics {
        fn rewind(&mut self) {
            self.0 = 10;
        }

        fn next(&mut self) -> Option<Write<'_>> {
            self.0 += 1;
            assert!(self.0 < 12, "the batch's source fails in the second pass");
            (self.0 != 4).then_some(Write { space: SPACE, key: b"half", value: Some(b"v") })
        }
    }
    for unlogged in [false, true] {
        let disk = SimulatedDisk::default();
        let mut shard = try_open_as(&disk, "shard", unlogged).unwrap();
        put(&mut *shard, b"1");
        shard.flush(Flush::Wait).unwrap();
        let reader = shard.reader();
        let applied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shard.apply(&mut Panics(0), b"2")));
        assert!(applied.is_err());
        assert_eq!(reader.get(SPACE, b"half", &mut |_| ()).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(shard.flush(Flush::Wait).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(shard.close().unwrap_err().kind(), ErrorKind::Corrupt);
        let shard = try_open_as(&disk, "shard", unlogged).unwrap();
        assert_eq!((get(&*shard), shard.committed()), (Some(b"1".to_vec()), Some(&b"1"[..])));
        assert!(!shard.get(SPACE, b"half", &mut |_| ()).unwrap());
    }
}

#[test]
fn an_unlogged_shards_batches_are_durable_on_a_slow_disk_too() {
    let disk = SimulatedDisk::default();
    disk.hold_flushes(true);
    let mut shard = try_open_as(&disk, "shard", true).unwrap();
    put(&mut *shard, b"1");
    shard.flush(Flush::Start).unwrap();
    put(&mut *shard, b"2");
    assert_eq!(shard.durable().unwrap(), Some(&b"2"[..]));
    drop(shard);
    let mut shard = open(&disk);
    assert_eq!((get(&*shard), shard.committed()), (Some(b"2".to_vec()), Some(&b"2"[..])));
    put(&mut *shard, b"3");
    drop(shard);
    assert_eq!(get(&*open(&disk)), Some(b"2".to_vec()), "the next opening has no log");
}

#[test]
fn an_unlogged_shard_without_its_disk_applies_nothing() {
    let disk = SimulatedDisk::default();
    let mut shard = try_open_as(&disk, "shard", true).unwrap();
    put(&mut *shard, b"1");
    disk.fail_next(DiskOp::Apply, ErrorKind::Full);
    assert_eq!(try_put(&mut *shard, b"2").unwrap_err().kind(), ErrorKind::Full);
    disk.wipe();
    assert_eq!(try_put(&mut *shard, b"3").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!((get(&*shard), shard.committed()), (Some(b"1".to_vec()), Some(&b"1"[..])));
}

#[test]
fn the_engine_knows_what_its_rows_take() {
    let disk = SimulatedDisk::default();
    let engine = MemEngine::with_simulated_disk(&disk);
    let spaces = [SpaceSpec { id: SpaceId(1), name: "a".into(), expires: true }];
    let open = |engine: &MemEngine, dir: &str| {
        engine.open(&ShardSpec { dir: Some(dir.as_ref()), spaces: &spaces, unlogged: false }).unwrap()
    };
    let (mut one, two) = (open(&engine, "one"), open(&engine, "two"));
    assert_eq!(engine.memory().total(), 0);
    let value = [7; 1_000];
    let keys: Vec<_> = (0..100_u32).map(u32::to_be_bytes).collect();
    let rows: Vec<_> = keys.iter().map(|key| Write { space: SpaceId(1), key, value: Some(&value) }).collect();
    one.apply(&mut List::new(&rows), b"1").unwrap();
    let all = engine.memory().rows;
    assert!((100_000..120_000).contains(&all), "{all}");
    one.drop_below(SpaceId(1), &keys[50]).unwrap();
    assert_eq!(engine.memory().rows, all / 2);
    one.close().unwrap();
    assert_eq!(engine.memory().total(), 0);
    let one = open(&engine, "one");
    assert_eq!(engine.memory().rows, all / 2);
    drop((one, two));
    assert_eq!(engine.memory().total(), 0);
}
