//! Several grouped streams into one aggregate, in windows and sessions too.

use std::time::Duration;

use millpond_runtime::Counter;
use millpond_testkit::{Driver, DriverBuilder, RawRecord};
use millpond_topology::{
    Builder, CogroupedStream, Consumed, Error, Grouped, GroupedStream, I64, Materialized, Nullable, Produced, Serde,
    SessionWindowed, SessionWindows, SlidingWindows, TimeWindowed, TimeWindows, TimestampedKeyValue, Utf8, Windowed,
};

use crate::support::{BOTH, builder, driver, kvs, topology};

const CACHES: [u64; 2] = [0, 1 << 20];

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn stream(b: &mut Builder, topic: &str) -> GroupedStream<String, String> {
    b.stream(topic, Consumed::with(Utf8, Utf8)).group_by_key()
}

/// Texts of `left` as they are, of `right` with a sign.
fn both(b: &mut Builder) -> CogroupedStream<String, String> {
    let right = stream(b, "right");
    stream(b, "left").cogroup(|all: String, _, v| all + v).cogroup(right, |all, _, v| format!("{all}+{v}"))
}

fn texts() -> Materialized<String, String> {
    Materialized::named("s").value(Utf8)
}

/// `l` is left, `r` right.
fn pipe(driver: &Driver, records: &[(char, &str, &str, i64)]) {
    let [left, right] = ["left", "right"].map(|topic| driver.input(topic, Utf8, Utf8));
    for (side, key, value, timestamp) in records {
        let input = if *side == 'l' { &left } else { &right };
        input.pipe(*key, *value, *timestamp).unwrap();
    }
}

fn told<K: 'static>(driver: &Driver, key: impl Serde<K>) -> Vec<(K, Option<String>, i64)> {
    let all = driver.output("out", key, Nullable(Utf8)).read_all();
    all.into_iter().map(|r| (r.key, r.value, r.timestamp)).collect()
}

/// A window's result.
fn of(key: &str, start: i64, end: i64, value: &str, timestamp: i64) -> (Windowed<String>, Option<String>, i64) {
    let value = Some(value.to_owned()).filter(|v| v != "-");
    (Windowed { key: key.to_owned(), start, end }, value, timestamp)
}

#[test]
fn streams_of_different_types_go_into_one_row() {
    for guarantee in BOTH {
        for cache in CACHES {
            let driver = builder(|b| {
                let right = stream(b, "right");
                let cogroup = stream(b, "left").cogroup(|sum: i64, _, v| sum + v.parse::<i64>().unwrap());
                let table = cogroup.cogroup(right, |sum, key, v| sum + (key.len() * v.len()) as i64);
                let table = table.aggregate(|| 100, Materialized::named("s").value(I64));
                assert!(table.store::<TimestampedKeyValue<String, i64>>().is_some());
                table.to_stream().to("out", Produced::with(Utf8, I64));
            })
            .guarantee(guarantee)
            .caching(cache)
            .build()
            .unwrap();
            pipe(&driver, &[('l', "k", "1", 5), ('r', "k", "abc", 3), ('l', "k", "2", 7), ('r', "jj", "d", 1)]);
            driver.pipe("left", None, &RawRecord::new(Some(b"k".to_vec()), None, 8)).unwrap();
            driver.pipe("right", None, &RawRecord::new(None, Some(b"e".to_vec()), 9)).unwrap();
            let out = driver.output("out", Utf8, I64).read_all();
            let out: Vec<_> = out.into_iter().map(|r| (r.key, r.value, r.timestamp)).collect();
            let want = [("k", 101, 5), ("k", 104, 5), ("k", 106, 7), ("jj", 102, 1)];
            assert_eq!(out, want.map(|(k, v, t)| (k.to_owned(), v, t)), "the latest time of what is in it");
            let rows = driver.store("s", Utf8, I64);
            assert_eq!(rows.changelog(), rows.all());
            assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
            driver.restart_without_state().unwrap();
            assert_eq!(rows.all(), kvs(&[("jj", 102), ("k", 106)]));
        }
    }
}

#[test]
fn a_cogroup_in_tumbling_windows_in_which_each_stream_has_its_own_time() {
    let windows = TimeWindows::of_size_and_grace(ms(10), ms(5));
    for cache in CACHES {
        let driver = in_windows(cache, |b| {
            let table = both(b).windowed_by(windows).aggregate(String::new, texts());
            table.to_stream().to("out", Produced::default());
        });
        pipe(&driver, &[('l', "k", "a", 5), ('r', "k", "b", 3), ('l', "k", "c", 12), ('r', "k", "d", 9)]);
        pipe(&driver, &[('l', "k", "e", 15), ('r', "k", "f", 4), ('l', "k", "late", 4)]);
        let want = [
            of("k", 0, 10, "a", 5),
            of("k", 0, 10, "a+b", 5),
            of("k", 10, 20, "c", 12),
            of("k", 0, 10, "a+b+d", 9),
            of("k", 10, 20, "ce", 15),
            of("k", 0, 10, "a+b+d+f", 9),
        ];
        assert_eq!(told(&driver, TimeWindowed::new(Utf8, 10)), want);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
        let stored = driver.window_store("s", Utf8, Utf8);
        assert_eq!(stored.changelog(), stored.all());
        let all = stored.all();
        driver.restart_without_state().unwrap();
        assert_eq!(stored.all(), all);
        pipe(&driver, &[('r', "k", "g", 9)]);
        assert_eq!(stored.get("k", 0).unwrap(), "a+b+d+f+g", "`right` is not later than it was");
        pipe(&driver, &[('l', "k", "late", 4)]);
        assert_eq!(stored.get("k", 0).unwrap(), "a+b+d+f+g", "and `left` not earlier");
    }
}

fn in_windows(cache: u64, define: impl FnOnce(&mut Builder)) -> Driver {
    let with: DriverBuilder = builder(define);
    with.caching(cache).build().unwrap()
}

#[test]
fn a_cogroup_in_sliding_windows() {
    let windows = SlidingWindows::of_time_difference_and_grace(ms(5), ms(20));
    let driver = driver(|b| {
        let table = both(b).windowed_by(windows).aggregate(String::new, texts());
        table.to_stream().to("out", Produced::default());
    });
    pipe(&driver, &[('l', "k", "a", 0), ('r', "k", "b", 3), ('l', "k", "c", 8), ('r', "j", "d", 6)]);
    let want = [
        of("k", 0, 5, "a", 0),
        of("k", 1, 6, "+b", 3),
        of("k", 0, 5, "a+b", 3),
        of("k", 4, 9, "c", 8),
        of("k", 3, 8, "+bc", 8),
        of("j", 1, 6, "+d", 6),
    ];
    assert_eq!(told(&driver, TimeWindowed::new(Utf8, 5)), want);
}

#[test]
fn a_cogroup_in_sessions() {
    let windows = SessionWindows::of_inactivity_gap_and_grace(ms(5), ms(20));
    for cache in CACHES {
        let driver = in_windows(cache, |b| {
            let table = both(b).windowed_by(windows).aggregate(String::new, |_, a, b| a + &b, texts());
            table.to_stream().to("out", Produced::default());
        });
        pipe(&driver, &[('l', "k", "a", 0), ('r', "k", "b", 10), ('l', "k", "c", 5), ('r', "j", "d", 6)]);
        let want = [
            of("k", 0, 0, "a", 0),
            of("k", 10, 10, "+b", 10),
            of("k", 0, 0, "-", 0),
            of("k", 10, 10, "-", 10),
            of("k", 0, 10, "a+bc", 10),
            of("j", 6, 6, "+d", 6),
        ];
        // What one record does to several sessions is drained in the order of their times.
        let sorted = |mut rows: Vec<_>| {
            rows[2..5].sort();
            rows
        };
        let told = told(&driver, SessionWindowed(Utf8));
        assert_eq!(sorted(told), sorted(want.to_vec()), "cache {cache}");
    }
}

#[test]
fn a_stream_with_another_key_is_repartitioned_and_names_are_kafka_streams() {
    let define = |b: &mut Builder| {
        let left =
            b.stream("left", Consumed::with(Utf8, Utf8)).group_by(|_, v| v.clone(), Grouped::default().key(Utf8));
        let right = stream(b, "right");
        let sum = |sum: i64, _: &String, v: &String| sum + v.parse::<i64>().unwrap();
        let table = left.cogroup(sum).cogroup(right, sum).aggregate(|| 0, Materialized::default().value(I64));
        table.to_stream().to("out", Produced::with(Utf8, I64));
    };
    let text = topology(define).describe().to_string();
    for line in [
        "Processor: COGROUPKSTREAM-AGGREGATE-0000000007 (stores: [COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003])",
        "Processor: COGROUPKSTREAM-AGGREGATE-0000000008 (stores: [COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003])",
        "Processor: COGROUPKSTREAM-MERGE-0000000009 (stores: [])",
        "Sink: COGROUPKSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition-sink",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let driver = driver(define);
    pipe(&driver, &[('l', "x", "1", 0), ('r', "1", "5", 1), ('l', "y", "1", 2), ('r', "2", "7", 3)]);
    let out = driver.output("out", Utf8, I64).read_key_values();
    assert_eq!(out, kvs(&[("1", 1), ("1", 6), ("1", 7), ("2", 7)]));
}

#[test]
fn streams_of_a_cogroup_have_equal_keys_in_the_same_tasks() {
    let rekeyed = topology(|b| {
        let left = b.stream("left", Consumed::with(Utf8, Utf8));
        let left = left.group_by(|_, v| v.clone(), Grouped::named("g").key(Utf8));
        let right = stream(b, "right");
        let _ = left.cogroup(|_: String, _, v| v.clone()).cogroup(right, |a, _, _| a).aggregate(String::new, texts());
    });
    let counts = |left, right| move |topic: &str| Some(if topic == "left" { left } else { right });
    for (left, right) in [(5, 3), (2, 3)] {
        let partitions = rekeyed.partitions(counts(left, right)).unwrap();
        assert_eq!(partitions.tasks, [left, right], "the repartition topic is as wide as `right`");
    }
    let as_they_are = topology(|b| drop(both(b).aggregate(String::new, texts())));
    assert!(as_they_are.partitions(counts(3, 3)).is_ok());
    let error = as_they_are.partitions(counts(5, 3)).unwrap_err().to_string();
    assert!(["left=5", "right=3", "repartition"].iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn operators_of_a_named_cogroup_have_its_name() {
    let topology = topology(|b| {
        let _ = both(b).named("all").aggregate(String::new, texts()).map_values(|v| v);
    });
    let text = topology.describe().to_string();
    for name in ["all-cogroup-agg-0", "all-cogroup-agg-1", "all-cogroup-merge", "KTABLE-MAPVALUES-0000000005"] {
        assert!(text.contains(&format!("Processor: {name} ")), "{name} in {text}");
    }
}

#[test]
fn what_lies_behind_a_cogroup_knows_what_rows_were() {
    for cache in CACHES {
        let driver = in_windows(cache, |b| {
            both(b)
                .aggregate(String::new, texts())
                .group_by(|_, v| ("all".to_owned(), v.len() as i64), Grouped::with(Utf8, I64))
                .reduce(|a, b| a + b, |a, b| a - b, Materialized::named("lengths"))
                .to_stream()
                .to("lengths", Produced::with(Utf8, I64));
        });
        pipe(&driver, &[('l', "k", "a", 0), ('r', "k", "b", 1), ('r', "j", "c", 2), ('l', "k", "d", 3)]);
        assert_eq!(driver.output("lengths", Utf8, I64).read_values(), [1, 3, 5, 6]);
    }
}

#[test]
fn an_aggregator_that_fails_leaves_no_trace() {
    let driver = builder(|b| {
        let right = stream(b, "right");
        stream(b, "left")
            .try_cogroup(|sum: i64, _, v| Ok(sum + v.parse::<i64>()?))
            .try_cogroup(right, |_, _, _| Err(Error::other("no")))
            .aggregate(|| 0, Materialized::named("s").value(I64))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    pipe(&driver, &[('l', "k", "1", 0), ('r', "k", "2", 1), ('l', "k", "x", 2), ('l', "k", "3", 3)]);
    assert_eq!(driver.store("s", Utf8, I64).all(), kvs(&[("k", 4)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
}
