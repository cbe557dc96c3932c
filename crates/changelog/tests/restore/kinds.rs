//! What a log makes of a store of each kind, by example.

use millpond_changelog::{KeyOrder, SessionKey, WindowKey};
use millpond_store_api::schema::{Buckets, ExpiringKey, Suffix};
use millpond_store_api::{DirectSpace, SpaceId, TtlKeyValue, VersionPut, Versioned};

use super::*;
use crate::stores::{KEYS, Kind, Live, MINUTE, Put, WINDOWED, rows_of};

const HOUR: i64 = 60 * MINUTE;

/// A restore of these stores into a new shard, in batches of this size.
fn restored(stores: &[&Live], records: usize) -> FakeShard {
    let mut shard = FakeShard::default();
    restore_into(&mut shard, stores, records);
    shard
}

fn restore_into(shard: &mut FakeShard, stores: &[&Live], records: usize) {
    let changelogs: Vec<_> = stores.iter().map(|store| store.changelog()).collect();
    let mut consumer = FakeConsumer::new(records + 1, &[]);
    for (store, changelog) in stores.iter().zip(&changelogs) {
        consumer.logs.insert((changelog.topic.to_string(), 0), store.log.clone());
    }
    let limits = ApplyLimits { records, ..ApplyLimits::default() };
    drop(Run::plan(&mut consumer, shard, &changelogs).limits(limits).complete());
}

/// Makes the shard stand at an earlier position of a store's log than its rows do.
fn wind_back(shard: &mut FakeShard, store: &Live, next: i64) {
    let mut metadata = shard.metadata();
    metadata.set_changelog(&store.changelog().topic, 1, 0, next);
    shard.set_metadata(&metadata);
}

#[test]
fn a_window_is_logged_under_kafka_s_key_and_comes_back() {
    for (kind, seqnums) in [(Kind::Window, [0, 0]), (Kind::Duplicates, [1, 2])] {
        let mut store = Live::new(kind, 3, HOUR);
        for key in KEYS {
            store.put(&Put::at(key, 5, "v"));
            store.put(&Put::at(key, 5, "w"));
        }
        let logged = store.log.entries.iter().map(|entry| entry.key.as_deref().unwrap());
        let expected = KEYS.iter().flat_map(|key| seqnums.map(|seqnum| WindowKey { key, start: 5, seqnum }));
        let logged: Vec<_> = logged.map(|key| WindowKey::decode(KeyOrder::Plain, key).unwrap()).collect();
        assert_eq!(logged, expected.collect::<Vec<_>>());
        let shard = restored(&[&store], 4);
        store.compare(&shard);
        assert_eq!(store.seen().len(), if kind == Kind::Window { KEYS.len() } else { 2 * KEYS.len() });
    }
}

#[test]
fn windows_of_the_first_and_the_last_time_come_back() {
    for kind in [Kind::Window, Kind::Duplicates] {
        for retention in [HOUR, i64::MAX] {
            for start in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
                let store = Live::new(kind, u16::MAX, retention).puts([Put::at(b"k", start, "v")]);
                let shard = restored(&[&store], 10);
                store.compare(&shard);
                let key = ExpiringKey {
                    bucket: Buckets::new(retention).of(start),
                    store: u16::MAX,
                    key: b"k",
                    suffix: if kind == Kind::Window { Suffix::Time(start) } else { Suffix::Sequence(start, 1) },
                };
                let mut expected = Vec::new();
                key.encode(&mut expected);
                assert_eq!(rows_of(&shard, u16::MAX), Rows::from([(expected, b"v".to_vec())]));
            }
        }
    }
}

#[test]
fn sessions_of_all_times_come_back() {
    for (start, end) in [(0, 0), (0, i64::MAX), (7, 7), (i64::MAX, i64::MAX)] {
        let mut store = Live::new(Kind::Session, 3, HOUR);
        for key in KEYS {
            store.put(&Put { start, end, ..Put::at(key, end, "v") });
        }
        store.put(&Put { start, end, ..Put::delete(b"a", end) });
        let entry = store.log.entries.first().unwrap();
        let key = SessionKey::decode(KeyOrder::Plain, entry.key.as_deref().unwrap()).unwrap();
        assert_eq!(key, SessionKey { key: b"", start, end });
        let shard = restored(&[&store], 4);
        store.compare(&shard);
        assert_eq!(store.seen().len(), KEYS.len() - 1);
        assert_eq!(shard.metadata().stream_time("3"), Some(end));
    }
}

#[test]
fn headers_come_back_from_the_records_of_windows_and_sessions() {
    for kind in [Kind::WindowWithHeaders, Kind::SessionWithHeaders] {
        let store = Live::new(kind, 3, HOUR).puts([Put::at(b"k", 70, "v"), Put::at(b"empty", 71, "")]);
        let logged = &store.log.entries[0];
        assert_eq!((logged.value.as_deref(), logged.headers.len()), (Some(&b"v"[..]), 1));
        let shard = restored(&[&store], 4);
        store.compare(&shard);
        assert!(store.seen().iter().any(|(.., row)| row.starts_with(&[0x0A, 2, 2, b'h', 2, b'v'])), "{kind:?}");
    }
}

#[test]
fn what_a_store_has_observed_is_what_its_rows_expire_by() {
    // The records' own times say nothing of windows and sessions.
    let at = |kind, start, end| {
        let put = Put { start, end, timestamp: 1_000_000, ..Put::at(b"k", 0, "v") };
        let store = Live::new(kind, 3, HOUR).puts([put]);
        restored(&[&store], 1).metadata().stream_time("3")
    };
    assert_eq!(at(Kind::Window, 50, 60), Some(50));
    assert_eq!(at(Kind::Duplicates, 50, 60), Some(50));
    assert_eq!(at(Kind::Session, 50, 60), Some(60));
    for kind in [Kind::Timestamped, Kind::Ttl, Kind::Versioned] {
        assert_eq!(at(kind, 50, 60), Some(1_000_000));
    }
}

#[test]
fn b099_rows_that_have_expired_are_not_seen_and_lie_where_they_are_dropped() {
    for kind in [Kind::Window, Kind::Duplicates, Kind::Session] {
        let mut store = Live::new(kind, 3, HOUR);
        for i in 0..1000 {
            store.put(&Put::at(KEYS[i as usize % KEYS.len()], i, "old"));
        }
        for i in 0..10 {
            store.put(&Put::at(KEYS[i as usize], 9 * HOUR + 59 * MINUTE + i, "new"));
        }
        // The last offset is a marker.
        store.log.hole(1);
        for records in [7, 100, 2000] {
            let shard = restored(&[&store], records);
            store.compare(&shard);
            assert_eq!(store.seen().len(), 10);
            let end = Buckets::dead_below(store.observed);
            let left = rows_of(&shard, 3).into_keys().filter(|key| *key >= end.to_vec());
            assert_eq!(left.count(), 10, "all others go with their buckets");
        }
        let shard = restored(&[&store], 2000);
        assert_eq!(rows_of(&shard, 3).len(), 10, "what expires within a batch is not written at all");
    }
}

#[test]
fn b099_an_expired_row_that_comes_late_is_not_written() {
    let mut store = Live::new(Kind::Window, 3, HOUR).puts([Put::at(b"a", 10 * HOUR, "new")]);
    let mut key = Vec::new();
    for start in [0, 9 * HOUR, 9 * HOUR + 1] {
        key.clear();
        WindowKey { key: b"a", start, seqnum: 0 }.encode(KeyOrder::Plain, &mut key);
        store.log.push(Some(&key), Some(b"late"), 0);
    }
    for records in [1, 100] {
        let shard = restored(&[&store], records);
        let starts: Vec<_> = store.seen_in(&shard, &shard, 10 * HOUR).iter().map(|row| row.1).collect();
        assert_eq!(starts, [9 * HOUR + 1, 10 * HOUR], "the boundary is exact");
        assert_eq!(rows_of(&shard, 3).len(), 2);
    }
}

#[test]
fn a_row_with_a_time_to_live_comes_back_with_its_index() {
    let store = Live::new(Kind::Ttl, 3, HOUR).puts([
        Put::at(b"k", 5, "1"),
        Put::at(b"k", 2 * HOUR, "2"),
        Put::at(b"gone", 2 * HOUR, "x"),
        Put::delete(b"gone", 2 * HOUR),
    ]);
    for records in [1, 2, 100] {
        let mut shard = restored(&[&store], records);
        store.compare(&shard);
        assert_eq!(shard.rows(SpaceId(3)).len(), 1);
        let index: Vec<_> = rows_of(&shard, 3).into_keys().map(|key| (key[..4].to_vec(), key[6..].to_vec())).collect();
        let bucket = |time| Buckets::new(HOUR).of(time).to_be_bytes().to_vec();
        let expected = [(bucket(5), &b"k"[..]), (bucket(2 * HOUR), b"gone"), (bucket(2 * HOUR), b"k")];
        assert_eq!(index, expected.map(|(bucket, key)| (bucket, key.to_vec())));
        // A tombstone has no index row.
        shard.batches.clear();
        wind_back(&mut shard, &store, 3);
        restore_into(&mut shard, &[&store], 100);
        assert_eq!(shard.batches, [1, 0]);
    }
}

#[test]
fn b105_an_expired_row_does_not_come_back() {
    // Nobody has logged that the row expired: it was never deleted, or only where it lay.
    let mut store = Live::new(Kind::Ttl, 3, HOUR).puts([Put::at(b"k1", 0, "1"), Put::at(b"k2", 2 * HOUR, "2")]);
    for records in [1, 100] {
        let shard = restored(&[&store], records);
        assert!(shard.rows(SpaceId(3)).contains_key(&b"k1"[..]), "the log has it, so the shard has");
        let now = shard.metadata().stream_time("3").unwrap();
        let (mut rows, mut index) = (shard.clone(), shard);
        let (mut own, mut windowed) = (DirectSpace::new(&mut rows, SpaceId(3)), DirectSpace::new(&mut index, WINDOWED));
        let mut view = TtlKeyValue::new(&mut own, &mut windowed, 3, HOUR, now);
        assert_eq!(view.get(b"k1").unwrap(), None);
        assert_eq!(view.get(b"k2").unwrap().unwrap().value, b"2");
        // It is found, so that the tombstone that is missing can be written.
        assert_eq!(view.expire(100).unwrap().deleted, 1);
        assert_eq!(rows.rows(SpaceId(3)).into_keys().collect::<Vec<_>>(), [b"k2"]);
    }
    store.expire(100);
    let tombstone = store.log.entries.last().unwrap();
    assert_eq!((tombstone.key.as_deref(), &tombstone.value), (Some(&b"k1"[..]), &None));
    let shard = restored(&[&store], 100);
    assert_eq!(shard.rows(SpaceId(3)).into_keys().collect::<Vec<_>>(), [b"k2"]);
}

#[test]
fn an_expired_row_still_replaces_the_one_before_it() {
    // Skipping it would leave the older row, which a longer time to live would show again.
    let mut store = Live::new(Kind::Ttl, 3, HOUR).puts([Put::at(b"k", 5, "1"), Put::at(b"other", 9 * HOUR, "x")]);
    store.log.push(Some(b"k"), Some(b"2"), 6);
    let shard = restored(&[&store], 1);
    let value = [&6i64.to_be_bytes()[..], b"2"].concat();
    assert_eq!(shard.rows(SpaceId(3)).get(&b"k"[..]), Some(&value));
}

#[test]
fn versions_come_back_in_whatever_order_they_were_put() {
    // `v10@10, v30@30, v20@20, null@25, w@20` of B139, then one that is too old to be kept.
    let puts = [
        Put::at(b"a", 10, "v10"),
        Put::at(b"a", 30, "v30"),
        Put::at(b"a", 20, "v20"),
        Put::delete(b"a", 25),
        Put::at(b"a", 20, "w"),
        Put::at(b"ab", 1000, "x"),
        Put::at(b"a\0", 500, "y"),
        Put::delete(b"a\0", 400),
        Put::at(b"ab", -1, "too old"),
    ];
    let store = Live::new(Kind::Versioned, 3, 1000).puts(puts);
    assert_eq!(store.log.entries.len(), 9);
    for records in [1, 2, 3, 100] {
        let mut shard = restored(&[&store], records);
        store.compare(&shard);
        let versions = |key: &[u8], value: &str, from, to| (key.to_vec(), from, to, value.as_bytes().to_vec());
        let expected = [
            versions(b"a", "v10", 10, 20),
            versions(b"a", "w", 20, 25),
            versions(b"a", "v30", 30, i64::MAX),
            versions(b"a\0", "y", 500, i64::MAX),
            versions(b"ab", "x", 1000, i64::MAX),
        ];
        assert_eq!(store.seen_in(&shard, &shard, 1000), expected);
        for next in 0..store.log.end {
            let before = shard.spaces.clone();
            wind_back(&mut shard, &store, next);
            restore_into(&mut shard, &[&store], records);
            store.compare(&shard);
            assert_eq!(shard.spaces, before, "from {next} once more");
        }
    }
}

#[test]
fn versions_that_were_refused_by_the_shard_are_put_again_as_if_nothing_had_been() {
    // The later record must not make the earlier one too old when the batch is tried again.
    let store = Live::new(Kind::Versioned, 3, 100).puts([Put::at(b"a", 10, "1"), Put::at(b"a", 90, "2")]);
    let store = store.puts([Put::at(b"ab", 150, "3")]);
    let mut consumer = FakeConsumer::new(100, &[("3", &store.log)]);
    let mut shard = FakeShard::answering([Some(ErrorKind::Retry)]);
    let mut run = Run::plan(&mut consumer, &mut shard, &[store.changelog()]);
    run.begin().unwrap();
    let batch = run.consumer.poll(Duration::ZERO).unwrap();
    let mut polled = run.applier.batch(&batch);
    let error = polled.apply(&mut run.restore, run.shard, &mut run.metadata).unwrap_err();
    assert_eq!((error.kind(), run.metadata.stream_time("3")), (ErrorKind::Retry, None));
    assert!(run.shard.spaces.is_empty());
    assert_eq!(polled.apply(&mut run.restore, run.shard, &mut run.metadata).unwrap().records, 3);
    store.compare(&shard);
    assert_eq!(store.seen().len(), 3);
}

#[test]
fn a_version_moves_a_large_one_within_the_limit_of_a_batch() {
    let mut store = Live::new(Kind::Versioned, 3, 1000);
    let large = "x".repeat(1000);
    KEYS.iter().for_each(|key| store.put(&Put::at(key, 1, &large)));
    KEYS.iter().for_each(|key| store.put(&Put::at(key, 2, "s")));
    let mut shard = FakeShard::default();
    let mut consumer = FakeConsumer::new(100, &[("3", &store.log)]);
    let limits = ApplyLimits { records: 100, bytes: 2500 };
    let run = Run::plan(&mut consumer, &mut shard, &[store.changelog()]).limits(limits).complete();
    assert!(run.shard.batches.iter().all(|writes| *writes <= 6), "{:?}", run.shard.batches);
    store.compare(&shard);
}

#[test]
fn a_put_of_the_view_goes_on_where_a_restore_has_ended() {
    let store = Live::new(Kind::Versioned, 3, 100).puts([Put::at(b"a", 500, "1"), Put::at(b"a", 550, "2")]);
    let shard = restored(&[&store], 1);
    let now = shard.metadata().stream_time("3").unwrap();
    let (mut latest, mut history) = (shard.clone(), shard);
    let (mut own, mut windowed) = (DirectSpace::new(&mut latest, SpaceId(3)), DirectSpace::new(&mut history, WINDOWED));
    let mut view = Versioned::new(&mut own, &mut windowed, 3, 100, now);
    assert_eq!(view.put(b"a", Some(b"x"), 449).unwrap(), VersionPut::TooOld);
    assert_eq!(view.put(b"a", Some(b"x"), 525).unwrap(), VersionPut::ValidTo(550));
}

#[test]
fn a_record_that_is_none_of_the_store_s_is_named_and_nothing_is_guessed_from_it() {
    let window = |seqnum| {
        let mut key = Vec::new();
        WindowKey { key: b"k", start: 5, seqnum }.encode(KeyOrder::Plain, &mut key);
        key
    };
    let session = |start, end| {
        let mut key = Vec::new();
        SessionKey { key: b"k", start, end }.encode(KeyOrder::Plain, &mut key);
        key
    };
    let bad = [
        (Kind::Window, b"short".to_vec()),
        (Kind::Window, window(1)),
        (Kind::Window, window(-1)),
        (Kind::Duplicates, window(i32::MIN)),
        (Kind::Duplicates, Vec::new()),
        (Kind::Session, session(-1, 5)),
        (Kind::Session, session(6, 5)),
        (Kind::SessionWithHeaders, vec![0; 15]),
    ];
    for (kind, key) in bad {
        for records in [1, 2, 100] {
            let mut store = Live::new(kind, 3, HOUR);
            for i in 0..5 {
                store.put(&Put::at(b"good", i, "v"));
            }
            store.log.hole(37).push(Some(&key), Some(b"v"), 0).push(Some(&key), None, 0);
            let mut consumer = FakeConsumer::new(100, &[("3", &store.log)]);
            let mut shard = FakeShard::default();
            let limits = ApplyLimits { records, ..ApplyLimits::default() };
            let mut run = Run::plan(&mut consumer, &mut shard, &[store.changelog()]).limits(limits);
            run.begin().unwrap();
            let error = run.step().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{kind:?} {key:?}");
            let text = error.to_string();
            assert!(text.contains("topic=`3` partition=`0` offset=`42`"), "{text}");
            // Shard and metadata stand where the last whole batch was taken.
            let taken = 5 / records * records;
            let at = |metadata: &ShardMetadata| metadata.changelog("3", 0).map_or(0, |position| position.next);
            assert_eq!((at(&run.metadata), rows_of(run.shard, 3).len()), (taken as i64, taken));
            assert_eq!(run.progress().at, taken as i64);
        }
    }
}

#[test]
fn stores_of_all_kinds_are_restored_side_by_side() {
    // Two of each.
    let kinds = Kind::ALL.into_iter().chain(Kind::ALL);
    let mut stores: Vec<_> = (1..).zip(kinds).map(|(number, kind)| Live::new(kind, number, HOUR)).collect();
    for (n, store) in stores.iter_mut().enumerate() {
        for (i, key) in (0..).zip(KEYS) {
            store.put(&Put::at(key, MINUTE * i, &format!("{n}")));
        }
        store.put(&Put::delete(b"a", 7 * MINUTE));
    }
    for records in [1, 3, 1000] {
        let shard = restored(&stores.iter().collect::<Vec<_>>(), records);
        stores.iter().for_each(|store| store.compare(&shard));
    }
}

#[test]
fn what_was_observed_goes_with_the_rows_of_a_store_that_begins_anew() {
    for kind in [Kind::Window, Kind::Session, Kind::Versioned] {
        let late = Live::new(kind, 3, HOUR).puts([Put::at(b"a", 100 * HOUR, "old"), Put::at(b"ab", 100 * HOUR, "old")]);
        let mut again = Live::new(kind, 3, HOUR).puts([Put::at(b"a", 1, "1"), Put::at(b"a", 2, "2")]);
        again.log.topic_id = 2;
        // Found out when it is planned.
        let mut shard = restored(&[&late], 10);
        restore_into(&mut shard, &[&again], 10);
        again.compare(&shard);
        assert_eq!(again.seen().len(), 2);
        // Found out on the way.
        let mut consumer = FakeConsumer::new(1, &[("3", &late.log)]);
        let mut shard = FakeShard::default();
        let mut run = Run::plan(&mut consumer, &mut shard, &[late.changelog()]);
        run.begin().unwrap();
        run.step().unwrap();
        assert!(run.restore.replan(Source(3), again.log.range()).unwrap().clears());
        *run.consumer.log("3") = again.log.clone();
        again.compare(run.complete().shard);
    }
}
