//! The estimates beside the bytes of formats, and beside what overlay and memory engine really count.

use std::sync::Arc;

use millpond_broker_api::{Broker, NewTopic, Outgoing, ProducerOptions, Sent};
use millpond_broker_mem::{Dumped, EmbeddedBroker};
use millpond_changelog::{KeyOrder, WindowKey};
use millpond_store_api::schema::{ExpiringKey, Suffix};
use millpond_store_api::{Engine, List, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_mem::MemEngine;
use millpond_topology::Layer;

use super::*;
use crate::state::{Budget, Overlay, OverlayOptions};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn tumbling(size: Duration, retention: Duration) -> WindowSizing {
    WindowSizing { size, advance: size, retention }
}

fn one(store: StoreSizing) -> Sizing {
    Sizing { hot: 1.0, ..Sizing::of(vec![store], 4) }
}

/// The measured number is the estimate, give or take a part of it.
#[track_caller]
fn assert_near(what: &str, estimated: u64, measured: u64, within: f64) {
    let ratio = estimated as f64 / measured as f64;
    assert!((1.0 - within..=1.0 + within).contains(&ratio), "{what}: {estimated} estimated, {measured} measured");
}

#[test]
fn windows_multiply_rows_and_are_kept_until_their_bucket_goes() {
    let windows = tumbling(5 * MINUTE, 8 * HOUR);
    let estimate = one(StoreSizing::aggregate(1000, 16, 8).windowed(windows)).estimate().unwrap();
    assert_eq!((estimate.rows, estimate.rows_kept), (96_000, 108_000));
    let hopping = WindowSizing { advance: MINUTE, ..windows };
    let estimate = one(StoreSizing::aggregate(1000, 16, 8).windowed(hopping)).estimate().unwrap();
    assert_eq!(estimate.rows, 480_000);
    let short = tumbling(MINUTE, 2 * MINUTE);
    let estimate = one(StoreSizing::aggregate(1000, 16, 8).windowed(short)).estimate().unwrap();
    assert_eq!((estimate.rows, estimate.rows_kept), (2000, 3000), "a bucket is a minute at least");
}

#[test]
fn an_instance_has_its_part_of_all_copies() {
    let store = StoreSizing::key_value(1_000_000, 16, 100);
    let alone = Sizing::of(vec![store.clone()], 12).estimate().unwrap();
    let three = Sizing { copies: 2, instances: 3, replication: 3, ..Sizing::of(vec![store], 12) }.estimate().unwrap();
    assert_eq!(three.disk, 2 * alone.disk);
    assert!(three.disk_of_an_instance.abs_diff(alone.disk * 2 / 3) <= 1);
    assert!(three.cache_for_all.abs_diff(alone.cache_for_all / 3) <= 1, "standbys cache nothing");
    assert_eq!((three.rows, three.changelog), (alone.rows, alone.changelog));
    assert_eq!(three.changelog_on_brokers, 3 * alone.changelog_on_brokers);
    assert_eq!((alone.changelog_partitions, alone.rows_in_memory), (12, 0));
}

#[test]
fn stores_without_a_changelog_and_without_rows_count_for_what_they_are() {
    let unlogged = StoreSizing { logged: false, ..StoreSizing::key_value(1000, 16, 100) };
    let estimate = one(unlogged).estimate().unwrap();
    assert_eq!((estimate.changelog, estimate.changelog_partitions), (0, 0));
    let empty = Sizing::of(Vec::new(), 1).estimate().unwrap();
    assert_eq!((empty.rows, empty.memory_budget), (0, MemoryBudget::MIN));
}

#[test]
fn the_budget_has_room_for_what_it_is_for() {
    for (keys, hot) in [(10_000_000, 0.1), (500_000_000, 0.0), (1_000_000, 1.0)] {
        let sizing = Sizing { hot, ..Sizing::of(vec![StoreSizing::aggregate(keys, 16, 100)], 64) };
        let estimate = sizing.estimate().unwrap();
        let settings =
            crate::MemorySettings { budget: Some(estimate.memory_budget), ..crate::MemorySettings::default() };
        let plan = MemoryBudget::plan(&settings, 0).unwrap();
        assert!(plan.cache + 8 >= estimate.cache_for_hot, "{keys}: {plan:?}");
        assert!(plan.engines / 2 + 8 >= estimate.lookup, "{keys}: {plan:?}");
    }
}

#[test]
fn what_makes_no_sense_is_named() {
    let refused = |sizing: Sizing| sizing.estimate().unwrap_err().to_string();
    let good = || one(StoreSizing::key_value(1, 1, 1));
    assert!(refused(Sizing { partitions: 0, ..good() }).contains("partitions=`0`"));
    assert!(refused(Sizing { copies: 2, ..good() }).contains("copies=`2`"));
    assert!(refused(Sizing { hot: 1.5, ..good() }).contains("hot=`1.5`"));
    assert!(refused(Sizing { compression: 0.0, ..good() }).contains("compression=`0`"));
    let windowed = |windows| one(StoreSizing::key_value(1, 1, 1).windowed(windows));
    assert!(refused(windowed(WindowSizing { advance: Duration::ZERO, ..tumbling(HOUR, HOUR) })).contains("advance"));
    assert!(refused(windowed(tumbling(HOUR, MINUTE))).contains("retention=`60000`"));
}

#[test]
fn an_overlay_takes_what_is_estimated() {
    for (key, value) in [(8, 8), (16, 100), (40, 10)] {
        let (rows, space) = (20_000, SpaceId(1));
        let budget = Arc::new(Budget::new(usize::MAX, usize::MAX));
        let mut overlay = Overlay::new(OverlayOptions { space, caching: false, keep_old: false }).with_budget(&budget);
        for row in 0..rows {
            overlay.put(&padded(row, key), Some(&vec![7; value]), 0).unwrap();
        }
        overlay.record_done(&mut |_| ());
        let estimate = one(StoreSizing::key_value(rows, key as u32, value as u32)).estimate().unwrap();
        assert_near("overlay", estimate.cache_for_all, overlay.uncommitted_bytes() as u64, 0.02);
        assert_eq!(estimate.cache_for_all, estimate.cache_for_hot);
    }
}

#[test]
fn the_memory_engine_takes_what_is_estimated() {
    let (rows, space) = (20_000, SpaceId(1));
    for windows in [None, Some(tumbling(HOUR, HOUR))] {
        let engine = MemEngine::default();
        let spaces = [SpaceSpec { id: space, name: "s".to_owned(), expires: windows.is_some() }];
        let mut shard = engine.open(&ShardSpec { dir: None, spaces: &spaces, unlogged: false }).unwrap();
        for row in 0..rows {
            let key = padded(row, 16);
            let key = if windows.is_some() { expiring(&key) } else { key };
            let write = [Write { space, key: &key, value: Some(&[7; 100]) }];
            shard.apply(&mut List::new(&write), b"").unwrap();
        }
        let store = StoreSizing { windows, ..StoreSizing::key_value(rows, 16, 100) };
        let estimate = Sizing { rows_lie: RowsLie::InMemory, ..one(store) }.estimate().unwrap();
        let per_row = estimate.rows_in_memory as f64 / estimate.rows_kept as f64;
        // The allocator's part is not in the engine's count, and is in the estimate.
        assert_near("rows in memory", (per_row * rows as f64) as u64, engine.memory().rows, 0.25);
        assert_eq!(estimate.disk, 0);
    }
}

/// A key as the windowed space has it.
fn expiring(key: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ExpiringKey { bucket: 7, store: 1, key, suffix: Suffix::Time(420_000) }.encode(&mut bytes);
    bytes
}

/// A key without zero bytes, each of which takes two in the windowed space.
fn padded(row: u64, len: usize) -> Vec<u8> {
    let mut key = format!("{row:08}").into_bytes();
    key.resize(len, b'.');
    key
}

/// A record's size in a batch of format 2.
fn record_size(offset_delta: i64, timestamp_delta: i64, key: usize, value: usize) -> u64 {
    fn varint(n: i64) -> usize {
        let zigzag = ((n << 1) ^ (n >> 63)) as u64;
        (64 - (zigzag | 1).leading_zeros() as usize).div_ceil(7)
    }
    let lengths = varint(key as i64) + varint(value as i64) + varint(0);
    let body = 1 + varint(timestamp_delta) + varint(offset_delta) + lengths + key + value;
    (varint(body as i64) + body) as u64
}

#[test]
fn a_changelog_takes_what_is_estimated() {
    for windows in [None, Some(tumbling(HOUR, 2 * HOUR))] {
        let broker = EmbeddedBroker::new();
        let topic = NewTopic { name: "log", partitions: 1, replication: None, configs: &[] };
        broker.admin().unwrap().create_topics(&[topic]).unwrap().remove(0).unwrap();
        let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
        let topic = producer.topic("log");
        for row in 0..5000 {
            let mut key = padded(row, 16);
            if windows.is_some() {
                let plain = std::mem::take(&mut key);
                WindowKey { key: &plain, start: 3_600_000, seqnum: 0 }.encode(KeyOrder::Plain, &mut key);
            }
            let record = Outgoing {
                topic,
                partition: 0,
                timestamp: row as i64,
                key: Some(&key),
                value: Some(&[7; 80]),
                headers: &[],
                tag: 0,
            };
            assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
        }
        producer.flush(Duration::ZERO).unwrap();
        let mut measured = 0;
        for batch in broker.dump("log", 0).unwrap().chunks(100) {
            measured += 61;
            for (at, (_, dumped)) in batch.iter().enumerate() {
                let Dumped::Record(record) = dumped else { panic!("{dumped:?}") };
                let (key, value) = (record.key.as_ref().unwrap().len(), record.value.as_ref().unwrap().len());
                measured += record_size(at as i64, at as i64, key, value);
            }
        }
        let store = StoreSizing { windows, ..StoreSizing::key_value(5000, 16, 80) };
        let estimate = one(store).estimate().unwrap();
        let windows = if windows.is_some() { 26 } else { 1 };
        assert_near("changelog", estimate.changelog / windows, measured, 0.03);
        assert_eq!(estimate.changelog_on_brokers, estimate.changelog * 2);
    }
}
