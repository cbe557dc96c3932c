//! Clearing one store leaves its neighbours in the same spaces and buckets.

use millpond_changelog::clear_store;
use millpond_store_api::schema::{Buckets, ExpiringKey, Suffix};

use super::*;
use crate::stores::{Kind, MINUTE, WINDOWED, layout};

/// Stores that have rows of their own and in many buckets, between two that are in the same.
const STORES: [u16; 3] = [3, 4, u16::MAX];

fn windowed_row(bucket: u32, store: u16, key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ExpiringKey { bucket, store, key, suffix: Suffix::Time(0) }.encode(&mut bytes);
    bytes
}

/// A shard with rows of all stores in the first bucket, in the last and in some between, not all in each.
fn shard() -> FakeShard {
    let mut shard = FakeShard::default();
    for store in STORES {
        for key in ["a", "b", "c"] {
            shard.put(SpaceId(store), key.as_bytes(), b"own");
        }
        for bucket in [0, 1, 7, 8, Buckets::NEVER] {
            if (bucket, store) != (7, 4) && (bucket, store) != (8, 3) {
                for key in [&b""[..], b"\0", b"\xFF", b"a"] {
                    shard.put(WINDOWED, &windowed_row(bucket, store, key), b"row");
                }
            }
        }
    }
    shard
}

/// The rows that are not of a store.
fn without(shard: &FakeShard, store: u16, kind: Kind) -> std::collections::BTreeMap<u16, Rows> {
    let rows = layout(kind, store, MINUTE);
    let mut spaces = shard.spaces.clone();
    if rows.windowed().is_some() {
        let of_store = |key: &[u8]| key.get(4..6) == Some(&store.to_be_bytes()[..]);
        spaces.get_mut(&WINDOWED.0).unwrap().retain(|key, _| !of_store(key));
    }
    if rows.own_space().is_some() {
        spaces.insert(store, Rows::new());
    }
    spaces
}

#[test]
fn the_rows_of_one_store_go_and_no_others() {
    for store in STORES {
        for kind in Kind::ALL {
            let mut shard = shard();
            let expected = without(&shard, store, kind);
            clear_store(&mut shard, layout(kind, store, MINUTE), b"m").unwrap();
            assert_eq!(shard.spaces, expected, "{kind:?} {store}");
            assert_eq!(shard.metadata.as_deref(), Some(&b"m"[..]));
            // Once more there is nothing to write.
            shard.batches.clear();
            clear_store(&mut shard, layout(kind, store, MINUTE), b"n").unwrap();
            assert_eq!((shard.batches.len(), shard.metadata.as_deref()), (0, Some(&b"m"[..])));
        }
    }
}

#[test]
fn a_store_that_begins_anew_is_cleared_in_chunks_of_any_size() {
    for store in STORES {
        for kind in Kind::ALL {
            for records in [0, 1, 2, 5, 100] {
                let mut shard = shard();
                let expected = without(&shard, store, kind);
                let mut metadata = ShardMetadata::default();
                metadata.set_changelog("a", 1, 0, 700);
                metadata.observe("a", 99);
                metadata.observe("other", 98);
                shard.set_metadata(&metadata);
                let log = Log::starting_at(800);
                let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
                let a = Changelog { rows: layout(kind, store, MINUTE), ..plain("a", SpaceId(store)) };
                let limits = ApplyLimits { records, ..ApplyLimits::default() };
                let run = Run::plan(&mut consumer, &mut shard, &[a]).limits(limits).complete();
                assert_eq!(run.shard.spaces, expected, "{kind:?} {store} {records}");
                assert!(run.shard.batches.iter().all(|writes| *writes <= records.max(1)));
                let times = (run.metadata.stream_time("a"), run.metadata.stream_time("other"));
                assert_eq!(times, (None, Some(98)));
            }
        }
    }
}

#[test]
fn a_crash_while_a_store_is_cleared_begins_anew() {
    let rows = layout(Kind::Versioned, 4, MINUTE);
    let whole = shard();
    for refused in 0..10 {
        let mut shard = shard();
        shard.answers = (0..refused).map(|_| None).chain([Some(ErrorKind::Io)]).collect();
        let mut metadata = ShardMetadata::default();
        metadata.set_changelog("a", 1, 0, 700);
        shard.set_metadata(&metadata);
        let mut log = Log::starting_at(800);
        log.put("k", "1");
        let mut consumer = FakeConsumer::new(10, &[("a", &log)]);
        let a = Changelog { rows, ..plain("a", SpaceId(4)) };
        let limits = ApplyLimits { records: 2, ..ApplyLimits::default() };
        let mut run = Run::plan(&mut consumer, &mut shard, std::slice::from_ref(&a)).limits(limits);
        assert_eq!(run.begin().is_err(), refused < 10);
        drop(run);
        assert_eq!(shard.metadata().changelog("a", 0).is_some(), refused == 0, "no position once a row is gone");
        let run = Run::plan(&mut consumer, &mut shard, &[a]).complete();
        let mut expected = without(&whole, 4, Kind::Versioned);
        expected.entry(4).or_default().insert(b"k".to_vec(), [&800i64.to_be_bytes()[..], b"1"].concat());
        assert_eq!(run.shard.spaces, expected);
    }
}

#[test]
fn bytes_that_are_no_row_of_the_windowed_space_are_damage() {
    let mut shard = shard();
    shard.put(WINDOWED, &[0, 0, 0], b"");
    let error = clear_store(&mut shard, layout(Kind::Window, 4, MINUTE), b"m").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}
