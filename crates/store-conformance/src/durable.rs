//! Engines that keep shards in directories: reopening, crashes, locks.
//!
//! Dropping a shard without `close` counts as a crash; killing the process for real is up to each engine's own tests.

use std::path::Path;

use millpond_store_api::{ErrorKind, Flush, List, Range, ShardSpec, SpaceId};

use crate::harness::spec;
use crate::model::Crashes;
use crate::tools::{
    BOTH, Rows, all, apply, assert_bytes, assert_rows, delete, expected, fill, get, kind, numbered, put, scan,
};
use crate::{A, B, Harness, Rig};

/// `close` makes everything durable: rows and metadata come back, in the same process and in the next.
pub fn close_then_reopen(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let rows = numbered(2_000);
    let mut shard = rig.open();
    fill(&mut *shard, A, &rows, b"1");
    apply(&mut *shard, &[put(B, b"k", b"v"), delete(A, &rows[0].0)], b"2");
    shard.close().unwrap();
    for _ in 0..2 {
        let mut shard = rig.open();
        for direction in BOTH {
            let got = scan(&*shard, A, Range::ALL, direction);
            assert_rows(&got, &expected(&rows[1..], Range::ALL, direction), "the first space");
        }
        assert_eq!(get(&*shard, B, b"k"), Some(b"v".to_vec()));
        assert_eq!(shard.committed(), Some(&b"2"[..]));
        assert_eq!(shard.durable().unwrap(), Some(&b"2"[..]));
        shard.close().unwrap();
        rig.restart();
    }
}

/// A shard that was closed before its first batch is a new one.
pub fn close_without_a_batch(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    rig.open().close().unwrap();
    let mut shard = rig.open();
    assert_eq!((shard.committed(), all(&*shard, A).len()), (None, 0));
    assert_eq!(shard.durable().unwrap(), None);
    shard.flush(Flush::Wait).unwrap();
    assert_eq!(shard.durable().unwrap(), None);
}

/// After `flush(Wait)` what is committed is durable.
pub fn flush_makes_durable(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    for metadata in [&b"1"[..], b"", b"3"] {
        apply(&mut *shard, &[put(A, b"k", metadata)], metadata);
        shard.flush(Flush::Wait).unwrap();
        assert_eq!(shard.durable().unwrap(), Some(metadata));
    }
    apply(&mut *shard, &[], b"only metadata");
    shard.flush(Flush::Wait).unwrap();
    assert_eq!(shard.durable().unwrap(), Some(&b"only metadata"[..]));
}

/// What `durable` answered survives a crash, with its rows, at once: no flush is asked for in between.
pub fn durable_is_no_promise_too_early(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    for round in 1..=20_u8 {
        let mut shard = rig.open();
        let before = shard.committed().map_or(0, |m| m[0]);
        apply(&mut *shard, &[put(A, b"k", &[round])], &[round]);
        if round % 3 == 0 {
            shard.flush(Flush::Start).unwrap();
        }
        let durable = shard.durable().unwrap().map_or(0, |m| m[0]);
        assert!(durable == round || durable <= before, "`durable` answers a batch that there never was");
        drop(shard);
        rig.restart();
        let shard = rig.open();
        let committed = shard.committed().map_or(0, |m| m[0]);
        assert!(committed >= durable, "`durable` was {durable}, after the crash there is {committed}");
        assert_eq!(get(&*shard, A, b"k").map_or(0, |v| v[0]), committed, "rows and metadata differ");
    }
}

/// `durable` is never ahead of `committed` and never goes back.
pub fn durable_moves_forward(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let mut last = 0;
    for i in 1..=60_u8 {
        apply(&mut *shard, &[put(A, &[i], b"v")], &[i]);
        if i % 7 == 0 {
            shard.flush(if i % 2 == 0 { Flush::Wait } else { Flush::Start }).unwrap();
        }
        let durable = shard.durable().unwrap().map_or(0, |m| m[0]);
        assert!((last..=i).contains(&durable), "`durable` moves from {last} to {durable} at batch {i}");
        last = durable;
    }
    assert!(last >= 56, "the flush that was waited for at batch 56 is not seen");
}

/// After a crash the shard stands at a batch's border, all spaces and the metadata agreeing, at or after `durable`.
pub fn a_crash_leaves_a_batch_border(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    for flush_at in [None, Some(0), Some(7), Some(19)] {
        let mut shard = rig.open_named("one");
        for i in 0..20_u8 {
            // Each batch shifts a window of five rows in A, and counts in B.
            apply(&mut *shard, &[put(A, &[i + 5], &[i]), delete(A, &[i]), put(B, b"count", &[i])], &[i]);
            if flush_at == Some(i) {
                shard.flush(Flush::Wait).unwrap();
            }
        }
        let durable = shard.durable().unwrap().map(|m| m[0]);
        assert!(durable >= flush_at);
        drop(shard);
        rig.restart();
        let shard = rig.open_named("one");
        let committed = shard.committed().map(|m| m[0]);
        assert!(committed >= durable, "`durable` was {durable:?}, after the crash there is {committed:?}");
        let (want_a, want_b): (Rows, Rows) = match committed {
            None => (vec![], vec![]),
            Some(last) => (
                // Batch i put i + 5 and deleted i: what is left are the keys above the last batch's.
                (last.max(4) + 1..=last + 5).map(|k| (vec![k], vec![k - 5])).collect(),
                vec![(b"count".to_vec(), vec![last])],
            ),
        };
        assert_rows(&all(&*shard, A), &want_a, "the first space after the crash");
        assert_rows(&all(&*shard, B), &want_b, "the second space after the crash");
        shard.destroy().unwrap();
    }
}

/// A crash right after a flush was started loses at most what was not durable yet.
pub fn a_crash_while_a_flush_runs(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(3_000);
    fill(&mut *shard, A, &rows, b"1");
    shard.flush(Flush::Wait).unwrap();
    fill(&mut *shard, B, &rows, b"2");
    shard.flush(Flush::Start).unwrap();
    drop(shard);
    rig.restart();
    let shard = rig.open();
    assert_rows(&all(&*shard, A), &rows, "the rows that were durable");
    let second: &[_] = match shard.committed() {
        Some(b"1") => &[],
        Some(b"2") => &rows,
        other => panic!("the metadata is {:?} bytes of something else", other.map(<[u8]>::len)),
    };
    assert_rows(&all(&*shard, B), second, "the rows of the batch that was being flushed");
}

/// `flush(Wait)` behind a `flush(Start)` and more batches covers all of them.
pub fn waiting_behind_a_started_flush(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"a", b"1")], b"1");
    shard.flush(Flush::Start).unwrap();
    apply(&mut *shard, &[put(A, b"b", b"2")], b"2");
    shard.flush(Flush::Start).unwrap();
    shard.flush(Flush::Wait).unwrap();
    assert_eq!(shard.durable().unwrap(), Some(&b"2"[..]));
    drop(shard);
    rig.restart();
    assert_eq!(all(&*rig.open(), A).len(), 2);
}

/// As [`waiting_behind_a_started_flush`], where the batch behind it writes to other spaces than the one before, or to none. Several
/// times, since it is a matter of who comes first.
pub fn waiting_behind_a_flush_of_other_spaces(harness: &dyn Harness) {
    let batches: [&[SpaceId]; 4] = [&[A, B], &[A], &[B], &[]];
    for (i, (first, second)) in
        (0_u32..).zip(batches.iter().flat_map(|first| batches.map(|second| (*first, second))).cycle().take(48))
    {
        let mut rig = Rig::new(harness);
        let mut shard = rig.open();
        let mut rows = 0;
        for (spaces, metadata) in [(first, b"1"), (second, b"2")] {
            let writes: Vec<_> = spaces.iter().map(|space| put(*space, metadata, b"v")).collect();
            apply(&mut *shard, &writes, metadata);
            rows += writes.len();
            if metadata == b"1" {
                shard.flush(Flush::Start).unwrap();
            }
        }
        if i % 3 != 0 {
            shard.flush(Flush::Wait).unwrap();
            assert_eq!(shard.durable().unwrap(), Some(&b"2"[..]));
            drop(shard);
        } else {
            shard.close().unwrap();
        }
        rig.restart();
        let shard = rig.open();
        assert_eq!(shard.committed(), Some(&b"2"[..]), "{first:?}, then {second:?}");
        assert_eq!(all(&*shard, A).len() + all(&*shard, B).len(), rows, "{first:?}, then {second:?}");
    }
}

/// Crash after crash: the state that was reached before is the start of the next process.
pub fn repeated_crashes(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    for i in 0..12_u8 {
        let mut shard = rig.open();
        assert!(shard.committed().map_or(0, |m| m[0] + 1) >= i.saturating_sub(i % 2), "a flushed batch is lost");
        apply(&mut *shard, &[put(A, &[i], b"v")], &[i]);
        if i % 2 == 1 {
            shard.flush(Flush::Wait).unwrap();
        }
        drop(shard);
        rig.restart();
    }
    let shard = rig.open();
    assert_eq!(shard.committed(), Some(&[11][..]));
    assert_eq!(get(&*shard, A, &[11]), Some(b"v".to_vec()));
}

/// A refused batch is not in the files.
pub fn a_refused_batch_is_not_kept(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"1")], b"1");
    assert!(shard.apply(&mut List::new(&[put(A, b"k", b"2"), put(SpaceId(9), b"x", b"2")]), b"2").is_err());
    shard.close().unwrap();
    rig.restart();
    let shard = rig.open();
    assert_eq!((get(&*shard, A, b"k"), shard.committed()), (Some(b"1".to_vec()), Some(&b"1"[..])));
}

/// Deletes, empty keys and values, large keys, values and metadata come back as they were.
pub fn special_rows_survive(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open();
    let (long_key, large) = (vec![b'k'; 64 << 10], vec![7; 1 << 20]);
    apply(&mut *shard, &[put(A, b"deleted", b"v"), put(A, b"", b"of the empty key")], b"1");
    shard.flush(Flush::Wait).unwrap();
    apply(&mut *shard, &[delete(A, b"deleted"), put(A, b"empty", b""), put(A, &long_key, &large)], &large);
    shard.close().unwrap();
    rig.restart();
    let shard = rig.open();
    let rows: Rows =
        vec![(b"".to_vec(), b"of the empty key".to_vec()), (b"empty".to_vec(), Vec::new()), (long_key, large.clone())];
    assert_rows(&all(&*shard, A), &rows, "the space");
    assert_bytes(shard.committed(), Some(&large), "committed");
}

/// Metadata that only an empty batch moved survives; empty metadata is not `None` after a restart.
pub fn metadata_alone_survives(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    for metadata in [&b"100"[..], b"120", b""] {
        let mut shard = rig.open();
        apply(&mut *shard, &[], metadata);
        shard.close().unwrap();
        rig.restart();
        assert_eq!(rig.open().committed(), Some(metadata));
    }
}

/// A directory is open once: the second attempt is `Retry`, and works when the first is closed or gone.
pub fn a_directory_is_open_once(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let spaces = [spec(A), spec(B)];
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"v")], b"m");
    assert_eq!(kind(rig.try_open("shard", &spaces).map(drop), "a second open"), ErrorKind::Retry);
    assert_eq!(get(&*shard, A, b"k"), Some(b"v".to_vec()), "the refused attempt has harmed the first");
    shard.close().unwrap();
    let shard = rig.open();
    assert_eq!(get(&*shard, A, b"k"), Some(b"v".to_vec()));
    assert_eq!(kind(rig.try_open("shard", &spaces).map(drop), "a second open"), ErrorKind::Retry);
    drop(shard);
    rig.open();
}

/// A persistent engine needs a directory.
pub fn a_directory_is_needed(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    assert!(rig.engine().persistent());
    let answer = rig.engine().open(&ShardSpec { dir: None, spaces: &[spec(A)], unlogged: false }).map(drop);
    assert_eq!(kind(answer, "opening without a directory"), ErrorKind::Invalid);
}

/// `destroy` deletes what was stored, for the next process too, and touches no other shard.
pub fn destroy_removes_the_shard(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut other = rig.open_named("other");
    apply(&mut *other, &[put(A, b"k", b"other")], b"other");
    other.close().unwrap();
    let mut shard = rig.open();
    fill(&mut *shard, A, &numbered(500), b"m");
    shard.flush(Flush::Wait).unwrap();
    shard.destroy().unwrap();
    assert!(left_in(&rig.path("shard")).is_empty(), "`destroy` leaves {:?}", left_in(&rig.path("shard")));
    rig.restart();
    let mut shard = rig.open();
    assert_eq!((shard.committed(), all(&*shard, A).len()), (None, 0));
    assert_eq!(shard.durable().unwrap(), None);
    assert_eq!(get(&*rig.open_named("other"), A, b"k"), Some(b"other".to_vec()));
}

fn left_in(dir: &Path) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(dir).map_or_else(|_| Vec::new(), |files| files.flatten().map(|f| f.file_name()).collect())
}

/// Spaces that the files lack are made; the others keep their rows, wherever they stand in the list.
pub fn reopen_with_more_spaces(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.try_open("shard", &[spec(B)]).unwrap();
    apply(&mut *shard, &[put(B, b"k", b"v")], b"1");
    shard.close().unwrap();
    rig.restart();
    let more = SpaceId(700);
    let mut shard = rig.try_open("shard", &[spec(more), spec(B), spec(A)]).unwrap();
    assert_eq!((get(&*shard, B, b"k"), shard.committed()), (Some(b"v".to_vec()), Some(&b"1"[..])));
    assert!(all(&*shard, A).is_empty() && all(&*shard, more).is_empty());
    apply(&mut *shard, &[put(more, b"k", b"more"), put(A, b"k", b"a")], b"2");
    shard.close().unwrap();
    rig.restart();
    let shard = rig.try_open("shard", &[spec(A), spec(B), spec(more)]).unwrap();
    let values = [A, B, more].map(|space| get(&*shard, space, b"k").unwrap());
    assert_eq!(values, [b"a".to_vec(), b"v".to_vec(), b"more".to_vec()]);
}

/// Spaces that are not asked for stay untouched, cannot be reached, and are there again when they are asked for.
pub fn reopen_with_fewer_spaces(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open();
    fill(&mut *shard, A, &numbered(10), b"1");
    fill(&mut *shard, B, &numbered(20), b"2");
    shard.close().unwrap();
    rig.restart();
    let mut shard = rig.try_open("shard", &[spec(A)]).unwrap();
    assert_eq!(kind(shard.get(B, b"k", &mut |_| ()), "a get of a space not asked for"), ErrorKind::Invalid);
    let refused = shard.apply(&mut List::new(&[put(B, b"k", b"x")]), b"x");
    assert_eq!(kind(refused, "a write to a space not asked for"), ErrorKind::Invalid);
    apply(&mut *shard, &[put(A, b"k", b"v")], b"3");
    shard.close().unwrap();
    rig.restart();
    let shard = rig.open();
    assert_rows(&all(&*shard, B), &numbered(20), "the space that was not asked for in between");
    assert_eq!((all(&*shard, A).len(), shard.committed()), (11, Some(&b"3"[..])));
}

/// A space is known by its number: its name is for messages, and may change.
pub fn a_renamed_space_keeps_its_rows(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"a"), put(B, b"k", b"b")], b"m");
    shard.close().unwrap();
    rig.restart();
    let mut spaces = [spec(A), spec(B)];
    spaces[0].name = "renamed".into();
    spaces[1].name = "space-1".into();
    let shard = rig.try_open("shard", &spaces).unwrap();
    assert_eq!(get(&*shard, A, b"k"), Some(b"a".to_vec()));
    assert_eq!(get(&*shard, B, b"k"), Some(b"b".to_vec()));
}

/// `drop_below` takes nothing else along over a restart, by `close` or by a crash.
pub fn drop_below_then_reopen(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let rows = numbered(1_000);
    let mut shard = rig.open();
    fill(&mut *shard, B, &rows, b"1");
    fill(&mut *shard, A, &rows, b"2");
    shard.flush(Flush::Wait).unwrap();
    for cut in [100_u32, 600, 300] {
        shard.drop_below(B, &cut.to_be_bytes()).unwrap();
        if cut == 300 {
            drop(shard);
        } else {
            shard.close().unwrap();
        }
        rig.restart();
        shard = rig.open();
        let from = cut.max(if cut == 300 { 600 } else { 0 });
        let lower = from.to_be_bytes();
        let range = Range::new(std::ops::Bound::Included(&lower[..]), std::ops::Bound::Unbounded);
        for direction in BOTH {
            let got = scan(&*shard, B, range, direction);
            assert_rows(&got, &expected(&rows, range, direction), "the rows that are not below");
        }
        assert_rows(&all(&*shard, A), &rows, "the other space");
        assert_eq!(shard.committed(), Some(&b"2"[..]));
    }
}

/// Rows of windowed stores that have expired stay unseen over restarts and crashes, dropped or come back, and those that are
/// alive stay seen.
pub fn expired_rows_stay_unseen(harness: &dyn Harness) {
    crate::expiry::over_restarts(harness);
}

/// A reader of a reopened shard sees what was stored.
pub fn a_reader_of_a_reopened_shard(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open();
    fill(&mut *shard, A, &numbered(100), b"m");
    shard.close().unwrap();
    rig.restart();
    let shard = rig.open();
    let reader = shard.reader();
    assert_eq!(reader.committed().unwrap().as_deref(), Some(&b"m"[..]));
    assert_rows(&scan(&*reader, A, Range::ALL, millpond_store_api::Direction::Forward), &numbered(100), "the reader");
}

/// Several shards of one engine crash and come back on their own.
pub fn shards_crash_alone(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut one = rig.open_named("one");
    let mut two = rig.open_named("two");
    apply(&mut *one, &[put(A, b"k", b"1")], b"1");
    apply(&mut *two, &[put(A, b"k", b"2")], b"2");
    one.flush(Flush::Wait).unwrap();
    drop(one);
    assert_eq!(get(&*two, A, b"k"), Some(b"2".to_vec()));
    let one = rig.open_named("one");
    assert_eq!((get(&*one, A, b"k"), one.committed()), (Some(b"1".to_vec()), Some(&b"1"[..])));
    two.close().unwrap();
    assert_eq!(rig.open_named("two").committed(), Some(&b"2"[..]));
}

/// A model test over random batches, flushes, clean restarts and crashes: after each crash the shard is at one of the
/// batches since the durable one.
pub fn random_crashes(harness: &dyn Harness) {
    for seed in 0..12 {
        Crashes::new(harness, seed).run();
    }
}
