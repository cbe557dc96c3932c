//! Dead letters byte by byte, and that they share the fate of their transaction.

use millpond_broker_api::ErrorKind;
use millpond_broker_mem::{OpKind, Verdict};
use millpond_runtime::{Counter, Guarantee};
use millpond_testkit::{Driver, RawRecord};
use millpond_topology::{Consumed, Error, I64, Materialized, Result, SessionWindows, TimeWindows, Utf8};

use super::{FAULTS, Fault, half_done, letters};
use crate::support::{BOTH, assert_names, builder, kvs, out};

const TOPIC: &str = "errors.dead.letter.queue.topic.name";

fn dead_lettering(guarantee: Guarantee) -> millpond_testkit::DriverBuilder {
    ["deserialization.exception.handler", "processing.exception.handler", "production.exception.handler"]
        .into_iter()
        .fold(half_done().guarantee(guarantee), |builder, key| builder.setting(key, "dead-letter"))
        .setting(TOPIC, "dead")
}

fn only_letter(driver: &Driver) -> RawRecord {
    let all = driver.records("dead");
    let [letter] = all.try_into().unwrap_or_else(|all: Vec<_>| panic!("{} letters", all.len()));
    letter
}

/// KIP-1034: the record's own bytes and headers, and six headers behind them.
#[test]
fn a_dead_letter_has_the_records_bytes_and_says_why() {
    for guarantee in BOTH {
        for fault in FAULTS {
            let driver = dead_lettering(guarantee).topic("in", 2).build().unwrap();
            driver.input("in", Utf8, I64).partition(1).pipe("a", 1, 10).unwrap();
            let mut record = fault.record(11).header("first", "1");
            record.headers.push(millpond_topology::Header { name: "null".into(), value: None });
            driver.pipe("in", Some(1), &record).unwrap();
            let letter = only_letter(&driver);
            assert_eq!((&letter.key, &letter.value, letter.timestamp), (&record.key, &record.value, 11), "{fault:?}");
            let headers: Vec<(&str, Option<&str>)> = letter
                .headers
                .iter()
                .map(|h| (&*h.name, h.value.as_deref().map(|v| std::str::from_utf8(v).unwrap())))
                .collect();
            let (exception, message, cause) = match fault {
                Fault::Bytes => (
                    "deserialization: 8 bytes are an i64, here are 12",
                    "8 bytes are an i64, here are 12",
                    "decode the value failed: bytes do not deserialize type=`i64` node=`numbers`",
                ),
                Fault::Error => ("processing: unlucky", "unlucky", "process failed: processing error node=`half-done`"),
                Fault::Panic => ("processing: panic: very unlucky", "panic: very unlucky", "panic: very unlucky"),
                Fault::Output => (
                    "production: too low",
                    "too low",
                    "encode the value failed: value does not serialize type=`i64` node=`results`",
                ),
            };
            let place = "process a record failed task=`0_1` topic=`in` partition=`1` offset=`1`";
            let stack = if cause == message {
                format!("{place}\ncaused by: {cause}")
            } else {
                format!("{place}\ncaused by: {cause}\ncaused by: {message}")
            };
            let want = [
                ("first", Some("1")),
                ("null", None),
                ("__streams.errors.exception", Some(exception)),
                ("__streams.errors.message", Some(message)),
                ("__streams.errors.stacktrace", Some(&*stack)),
                ("__streams.errors.topic", Some("in")),
                ("__streams.errors.partition", Some("1")),
                ("__streams.errors.offset", Some("1")),
            ];
            assert_eq!(headers, want, "{fault:?}");
        }
    }
}

#[test]
fn nulls_stay_nulls_and_keys_decide_the_partition() {
    let driver = dead_lettering(Guarantee::AtLeastOnce).topic("in", 1).topic("dead", 3).build().unwrap();
    let poison = |key: Option<&str>| RawRecord::new(key.map(|k| k.as_bytes().to_vec()), Some(vec![1]), -7);
    let keys = ["a", "b", "c", "d", "e"];
    for key in keys {
        driver.pipe("in", None, &poison(Some(key))).unwrap();
    }
    for letter in driver.records("dead") {
        let key = letter.key.clone().unwrap();
        assert_eq!(letter.partition, millpond_changelog::partition_for_key(&key, 3));
        assert_eq!(letter.timestamp, driver.wall_ms(), "it had no time of its own");
    }
    assert_eq!(driver.records("dead").len(), keys.len());
    // Not even the key can be read: it stands in the letter as it is.
    driver.pipe("in", None, &RawRecord::bytes([0xff, 0xfe], super::number(1), 3)).unwrap();
    assert!(letters(&driver, "dead").contains(&(vec![0xff, 0xfe], super::number(1))));
    let counted = |counter| driver.count(counter);
    // A time below 0 is looked at before the bytes are.
    assert_eq!(counted(Counter::ProcessingDeadLetterTotal), 5);
    assert_eq!((counted(Counter::DeserializationDeadLetterTotal), counted(Counter::DeadLetterTotal)), (1, 6));
}

/// Records of a repartition topic carry a header of the library's own, which is nobody's business.
#[test]
fn the_librarys_header_reaches_no_dead_letter() {
    let driver = dead_lettering(Guarantee::AtLeastOnce).build().unwrap();
    let tag = millpond_changelog::Cut::default().encode(millpond_changelog::CutKind::Tag);
    let record = Fault::Bytes.record(1).header("mine", "x").header("__cut", tag.as_slice().to_vec());
    driver.pipe("again-repartition", Some(0), &record).unwrap();
    let letter = only_letter(&driver);
    assert!(letter.headers.get("__cut").is_none() && letter.headers.get("mine").is_some());
    let topic = letter.headers.get("__streams.errors.topic").unwrap().value.clone().unwrap();
    assert_eq!(&topic[..], b"test-again-repartition");
}

#[test]
fn a_dead_letter_is_seen_with_its_transaction_and_not_before() {
    for fault in FAULTS {
        let driver = dead_lettering(Guarantee::ExactlyOnce).manual_commit().build().unwrap();
        driver.pipe("in", None, &fault.record(1)).unwrap();
        assert!(driver.records("dead").is_empty(), "{fault:?}");
        driver.crash().unwrap();
        assert!(driver.records("dead").is_empty(), "{fault:?}: what was written before is aborted");
        driver.commit().unwrap();
        assert_eq!(only_letter(&driver).value, Some(fault.value()));
        // A commit that fails: the record is processed again, and so is its letter.
        driver.pipe("in", None, &fault.record(2)).unwrap();
        driver.broker().plan(OpKind::EndTxn, Verdict::Fail(ErrorKind::Abortable));
        driver.commit().unwrap();
        assert_eq!(driver.count(Counter::CommitFailedTotal), 1);
        assert_eq!(driver.records("dead").len(), 2, "{fault:?}: each once");
    }
}

#[test]
fn a_dead_letter_that_is_refused_stops_the_application() {
    for guarantee in BOTH {
        let driver = dead_lettering(guarantee).build().unwrap();
        let mut admin = millpond_broker_api::Broker::admin(&driver.broker()).unwrap();
        admin.set_configs("dead", &[("max.message.bytes", "1000")]).unwrap();
        driver.input("in", Utf8, I64).pipe("a", 1, 0).unwrap();
        let large = RawRecord::bytes("a", vec![7; 2_000], 1);
        let error = driver.pipe("in", None, &large).unwrap_err();
        assert_names(&error, &["dead letter", "topic=`dead`", "max.message.bytes"]);
        assert_eq!(driver.committed("in", 0), Some(1), "the record is not lost");
        admin.set_configs("dead", &[("max.message.bytes", "100000")]).unwrap();
        driver.restart().unwrap();
        assert_eq!(only_letter(&driver).value, large.value);
        assert_eq!(driver.committed("in", 0), Some(2));
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", -1)]));
    }
}

/// An update out of a cache is told with the user's bytes, and not with those of the store: as it stands in its changelog, the
/// window's key as in a topic.
#[test]
fn the_dead_letter_of_a_cached_update_can_be_read() {
    let driver = |define: fn(&mut millpond_topology::Builder)| {
        let driver = builder(define).caching(1 << 20).setting("processing.exception.handler", "dead-letter");
        driver.setting(TOPIC, "dead").build().unwrap()
    };
    fn never<K, V>(_: &K, _: &V) -> Result {
        Err(Error::other("never"))
    }
    let rows = driver(|b| {
        let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
        grouped.reduce(|_, last| last, Materialized::named("s")).to_stream().try_foreach(never);
    });
    let windows = driver(|b| {
        let minutes = TimeWindows::of_size_with_no_grace(std::time::Duration::from_secs(60));
        let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key().windowed_by(minutes);
        grouped.reduce(|_, last| last, Materialized::named("s")).to_stream().try_foreach(never);
    });
    let sessions = driver(|b| {
        let gap = SessionWindows::of_inactivity_gap_with_no_grace(std::time::Duration::from_secs(60));
        let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key().windowed_by(gap);
        grouped.reduce(|_, last| last, Materialized::named("s")).to_stream().try_foreach(never);
    });
    let at = |time: i64| time.to_be_bytes().to_vec();
    let keys = [vec![], at(60_000), [at(60_007), at(60_007)].concat()];
    for (driver, suffix) in [rows, windows, sessions].into_iter().zip(keys) {
        driver.input("in", Utf8, I64).pipe("a", 13, 60_007).unwrap();
        let letter = only_letter(&driver);
        assert_eq!(letter.key.unwrap(), [b"a".to_vec(), suffix].concat());
        assert_eq!((letter.value.unwrap(), letter.timestamp), (super::number(13), 60_007));
    }
}
