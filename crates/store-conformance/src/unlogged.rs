//! Shards of persistent engines with rows that have no changelog ([`ShardSpec::unlogged`]): a crash loses no batch.

use millpond_store_api::{Flush, List, Shard, SpaceId};

use crate::harness::spec;
use crate::model::Crashes;
use crate::tools::{Rows, all, apply, assert_rows, delete, fill, get, numbered, put};
use crate::{A, B, Harness, Rig};

#[cfg(doc)]
use millpond_store_api::ShardSpec;

/// Each applied batch survives a crash right behind it, with no flush in between, small and large ones.
pub fn an_applied_batch_survives_a_crash(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let rows = numbered(3_000);
    fill(&mut *rig.open_as(true), A, &rows, b"large");
    for i in 0..10_u8 {
        rig.restart();
        let mut shard = rig.open_as(true);
        let before = i.checked_sub(1).map_or(b"large".to_vec(), |last| vec![last]);
        assert_eq!(shard.committed(), Some(&before[..]), "a batch is lost");
        assert_eq!(get(&*shard, B, b"last"), i.checked_sub(1).map(|last| vec![last]));
        apply(&mut *shard, &[put(B, b"last", &[i]), put(B, &[i], b"v")], &[i]);
    }
    rig.restart();
    let shard = rig.open_as(true);
    assert_rows(&all(&*shard, A), &rows, "the large batch");
    assert_eq!(all(&*shard, B).len(), 11);
}

/// After a crash all spaces and the metadata are those of the last batch, wherever a flush was between the batches.
pub fn rows_and_metadata_are_of_the_last_batch(harness: &dyn Harness) {
    for flush in [None, Some(Flush::Start), Some(Flush::Wait)] {
        let mut rig = Rig::new(harness);
        let mut shard = rig.open_as(true);
        for i in 0..20_u8 {
            // Each batch shifts a window of five rows in A, and counts in B.
            apply(&mut *shard, &[put(A, &[i + 5], &[i]), delete(A, &[i]), put(B, b"count", &[i])], &[i]);
            if let (12, Some(how)) = (i, flush) {
                shard.flush(how).unwrap();
            }
        }
        drop(shard);
        rig.restart();
        let shard = rig.open_as(true);
        let want: Rows = (20..25).map(|key| (vec![key], vec![key - 5])).collect();
        assert_rows(&all(&*shard, A), &want, "the first space after the crash");
        assert_rows(&all(&*shard, B), &[(b"count".to_vec(), vec![19])], "the second space after the crash");
        assert_eq!(shard.committed(), Some(&[19][..]));
    }
}

/// `durable` answers like `committed`: after every batch, one that is empty too, at once, and after a crash.
pub fn durable_is_committed(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open_as(true);
    assert_eq!(shard.durable().unwrap(), None);
    for i in 0..30_u8 {
        if i % 2 == 0 {
            apply(&mut *shard, &[put(A, b"k", &[i])], &[i]);
        } else {
            apply(&mut *shard, &[], &[i]);
        }
        assert_eq!(shard.durable().unwrap(), Some(&[i][..]));
        match i % 5 {
            1 => shard.flush(Flush::Start).unwrap(),
            2 => shard.flush(Flush::Wait).unwrap(),
            3 => {
                drop(shard);
                rig.restart();
                shard = rig.open_as(true);
                assert_eq!(shard.committed(), Some(&[i][..]));
            }
            _ => {}
        }
        assert_eq!(shard.durable().unwrap(), Some(&[i][..]));
    }
}

/// A refused batch is not in what a crash leaves.
pub fn a_refused_batch_does_not_survive(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open_as(true);
    apply(&mut *shard, &[put(A, b"k", b"1")], b"1");
    assert!(shard.apply(&mut List::new(&[put(A, b"k", b"2"), put(SpaceId(9), b"x", b"2")]), b"2").is_err());
    drop(shard);
    rig.restart();
    let shard = rig.open_as(true);
    assert_eq!((get(&*shard, A, b"k"), shard.committed()), (Some(b"1".to_vec()), Some(&b"1"[..])));
}

/// One opening is unlogged and the next is not, or the other way round, after a clean end or a crash: what was durable is
/// there, and nothing older comes back in its place.
pub fn the_flag_may_change(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    // What each batch leaves: its number under one key, the keys of the last three batches, and its number as metadata.
    let state = |shard: &dyn Shard| -> u8 {
        let Some(last) = shard.committed().map(|m| m[0]) else {
            assert!(all(shard, A).is_empty() && all(shard, B).is_empty());
            return 0;
        };
        let rows: Rows = (last.saturating_sub(2).max(1)..=last).map(|i| (vec![i], vec![i])).collect();
        assert_rows(&all(shard, A), &rows, "the first space");
        assert_rows(&all(shard, B), &[(b"last".to_vec(), vec![last])], "the second space");
        last
    };
    let mut durable = 0;
    for (round, unlogged) in [false, true, false, false, true, true, false, true, false].into_iter().enumerate() {
        for close in [false, true, false] {
            let mut shard = rig.open_as(unlogged);
            let first = state(&*shard);
            assert!(first >= durable, "round {round} finds batch {first}, {durable} was durable");
            assert_eq!(shard.durable().unwrap().map_or(0, |m| m[0]), first, "what was found came from files");
            for i in first + 1..=first + 6 {
                let old = i.saturating_sub(3);
                apply(&mut *shard, &[put(A, &[i], &[i]), delete(A, &[old]), put(B, b"last", &[i])], &[i]);
                if i == first + 3 {
                    shard.flush(Flush::Wait).unwrap();
                }
            }
            durable = shard.durable().unwrap().map_or(0, |m| m[0]);
            if unlogged {
                assert_eq!(durable, first + 6);
            }
            if close {
                durable = first + 6;
                shard.close().unwrap();
            } else {
                drop(shard);
            }
            rig.restart();
            if round % 2 == 1 {
                // A start that applies nothing and crashes loses nothing either, whatever it does with what it found.
                assert!(state(&*rig.open_as(!unlogged)) >= durable);
                rig.restart();
            }
        }
    }
}

/// Spaces that are made in an unlogged opening are there after a crash, and keep the others' rows.
pub fn spaces_made_before_a_crash(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    apply(&mut *rig.try_open_as("shard", &[spec(B)], true).unwrap(), &[put(B, b"k", b"b")], b"1");
    rig.restart();
    apply(&mut *rig.open_as(true), &[put(A, b"k", b"a")], b"2");
    rig.restart();
    let shard = rig.open();
    assert_eq!((get(&*shard, A, b"k"), get(&*shard, B, b"k")), (Some(b"a".to_vec()), Some(b"b".to_vec())));
    assert_eq!(shard.committed(), Some(&b"2"[..]));
}

/// `destroy` takes along what was never flushed.
pub fn destroy_removes_what_was_not_flushed(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    let mut shard = rig.open_as(true);
    apply(&mut *shard, &[put(A, b"k", b"v")], b"m");
    shard.destroy().unwrap();
    rig.restart();
    for unlogged in [true, false] {
        let shard = rig.open_as(unlogged);
        assert_eq!((shard.committed(), all(&*shard, A).len()), (None, 0));
    }
}

/// The model test of `durable::random_crashes`, whose openings are unlogged or not at random.
pub fn random_crashes_and_changes_of_the_flag(harness: &dyn Harness) {
    for seed in 50..62 {
        Crashes::new(harness, seed).sometimes_unlogged().run();
    }
}
