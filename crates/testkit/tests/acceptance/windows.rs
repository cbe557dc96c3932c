//! Aggregations in tumbling and hopping windows: which window takes what, for how long, what comes out, and what becomes of
//! late records.

use std::time::Duration;

use millpond_runtime::{Counter, Scope};
use millpond_store_mem::MemEngine;
use millpond_testkit::{Driver, DriverBuilder, OutputTopic, TestRecord};
use millpond_topology::{
    BuildError, Consumed, Dropped, EmitStrategy, Grouped, I64, Materialized, Nullable, Produced, SessionWindows,
    SlidingWindows, TimeWindowed, TimeWindows, TimestampedWindow, Topology, Utf8, Windowed,
};

use crate::support::builder;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Texts of `in`, joined by key and window.
fn joining(windows: TimeWindows, size: i64) -> DriverBuilder {
    builder(move |b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(windows)
            .aggregate(String::new, |so_far, _, v| so_far + v, Materialized::named("s").value(Utf8).caching_disabled())
            .to_stream()
            .to("out", Produced::with(TimeWindowed::new(Utf8, size), Utf8));
    })
}

/// Pipes texts into `in`: key, value, time.
pub(crate) fn pipe(driver: &Driver, records: &[(&str, &str, i64)]) {
    let input = driver.input("in", Utf8, Utf8);
    for (key, value, time) in records {
        input.pipe(*key, *value, *time).unwrap();
    }
}

/// Where results in windows of this size come out.
pub(crate) fn output(driver: &Driver, size: i64) -> OutputTopic<Windowed<String>, String> {
    driver.output("out", TimeWindowed::new(Utf8, size), Utf8)
}

/// What has come out since it was asked last.
pub(crate) fn told(out: &OutputTopic<Windowed<String>, String>) -> Vec<String> {
    out.read_all().iter().map(text).collect()
}

/// A result as a line: `key[start,end)=value@time`.
pub(crate) fn text(r: &TestRecord<Windowed<String>, String>) -> String {
    format!("{}[{},{})={}@{}", r.key.key, r.key.start, r.key.end, r.value, r.timestamp)
}

/// The rows of the store as lines: `key[start]=value`.
pub(crate) fn rows(driver: &Driver) -> Vec<String> {
    let rows = driver.window_store("s", Utf8, Utf8).all();
    rows.into_iter().map(|(key, start, value)| format!("{key}[{start}]={value}")).collect()
}

/// How many records were too late.
pub(crate) fn dropped_late(driver: &Driver) -> u64 {
    let is_late = |(name, scope, n): &(&str, Scope, u64)| match scope {
        Scope::Node { why: Dropped::Late, .. } if *name == Counter::DroppedByNodeTotal.name() => Some(*n),
        _ => None,
    };
    driver.metrics().snapshot().iter().filter_map(is_late).sum()
}

#[test]
fn b001_a_window_is_open_until_the_grace_is_over() {
    let windows = TimeWindows::of_size_and_grace(ms(10), ms(5));
    for driver in [joining(windows, 10), joining(windows, 10).engine(MemEngine::default())] {
        let driver = driver.build().unwrap();
        let out = output(&driver, 10);
        pipe(&driver, &[("a", "1", 0), ("a", "2", 9), ("a", "3", 14), ("a", "4", 5), ("a", "5", 15)]);
        let expected = ["a[0,10)=1@0", "a[0,10)=12@9", "a[10,20)=3@14", "a[0,10)=124@9", "a[10,20)=35@15"];
        assert_eq!(told(&out), expected);
        pipe(&driver, &[("a", "6", 6)]);
        assert_eq!((told(&out), dropped_late(&driver)), (Vec::<String>::new(), 1));
        assert_eq!(rows(&driver), ["a[0]=124", "a[10]=35"]);
    }
}

#[test]
fn b002_a_record_is_in_all_windows_that_hold_its_time() {
    let of = |size, advance, grace, times: &[i64]| {
        let windows = TimeWindows::of_size_and_grace(ms(size), ms(grace)).advance_by(ms(advance));
        let driver = joining(windows, size as i64).build().unwrap();
        for time in times {
            pipe(&driver, &[("k", ".", *time)]);
        }
        let latest = driver.output("out", TimeWindowed::new(Utf8, size as i64), Utf8).read_all();
        let mut counts = std::collections::BTreeMap::new();
        for r in latest {
            counts.insert((r.key.start, r.key.end), r.value.len());
        }
        counts.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(of(10, 5, 0, &[0, 4, 5, 9, 10, 14]), [((0, 10), 4), ((5, 15), 4), ((10, 20), 2)]);
    assert_eq!(of(10, 5, 0, &[7]), [((0, 10), 1), ((5, 15), 1)]);
    assert_eq!(of(10, 3, 100, &[3, 11]), [((0, 10), 1), ((3, 13), 2), ((6, 16), 1), ((9, 19), 1)]);
}

#[test]
fn b006_the_default_retention_covers_size_and_grace() {
    const HOUR: u64 = 3_600_000;
    let driver = joining(TimeWindows::of_size_and_grace(ms(HOUR), ms(48 * HOUR)), HOUR as i64).build().unwrap();
    let out = output(&driver, HOUR as i64);
    pipe(&driver, &[("k", "a", 0), ("k", "b", 47 * HOUR as i64), ("k", "c", HOUR as i64 / 2)]);
    assert_eq!(told(&out).last().unwrap(), &format!("k[0,{HOUR})=ac@{}", HOUR / 2));
    assert_eq!(rows(&driver)[0], "k[0]=ac");
}

/// A topology with these windows, whatever they are.
macro_rules! with {
    ($windows:expr, $materialized:expr) => {{
        let mut builder = Topology::builder();
        let _ =
            builder.stream("in", Consumed::with(Utf8, Utf8)).group_by_key().windowed_by($windows).count($materialized);
        builder.build()
    }};
}

#[track_caller]
fn assert_refused(built: Result<Topology, BuildError>, parts: &[&str]) {
    let text = built.unwrap_err().to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn b006_a_shorter_retention_is_refused_and_both_numbers_are_named() {
    let (ten, five) = (TimeWindows::of_size_and_grace(ms(10), ms(5)), ms(5));
    let short = |millis| Materialized::named("s").retention(ms(millis));
    assert_refused(with!(ten, short(14)), &["`s`", "14 ms", "15 ms", "size of 10 ms", "grace of 5 ms"]);
    assert!(with!(ten, short(15)).is_ok());
    let sliding = SlidingWindows::of_time_difference_and_grace(ms(10), five);
    assert_refused(with!(sliding, short(24)), &["`s`", "24 ms", "25 ms", "difference of 10 ms", "grace of 5 ms"]);
    assert!(with!(sliding, short(25)).is_ok());
    let sessions = SessionWindows::of_inactivity_gap_and_grace(ms(10), five);
    assert_refused(with!(sessions, short(14)), &["`s`", "14 ms", "15 ms", "gap of 10 ms", "grace of 5 ms"]);
    assert!(with!(sessions, short(15)).is_ok());
    assert_refused(with!(ten, short(u64::MAX)), &["`s`", &u64::MAX.to_string(), &i64::MAX.to_string()]);
    assert_refused(with!(ten, Materialized::named("s").history_retention(five)), &["`s`", "history"]);
    assert_refused(with!(ten, Materialized::named("s").time_to_live(five)), &["`s`", "time to live"]);
}

#[test]
fn durations_that_cannot_be_are_refused() {
    let named = || Materialized::named("s");
    let size = |millis| TimeWindows::of_size_with_no_grace(ms(millis));
    assert_refused(with!(size(0), named()), &["size of 0 ms", "at least 1 ms"]);
    assert_refused(with!(size(10).advance_by(ms(0)), named()), &["advance of 0 ms"]);
    assert_refused(with!(size(10).advance_by(ms(11)), named()), &["11 ms", "10 ms"]);
    assert_refused(with!(size(10).idle_after(ms(0)), named()), &["idle limit of 0 ms"]);
    assert_refused(with!(size(u64::MAX), named()), &[&u64::MAX.to_string(), &i64::MAX.to_string()]);
    let most = i64::MAX as u64;
    assert_refused(with!(TimeWindows::of_size_and_grace(ms(most), ms(1)), named()), &["more than can be counted"]);
    let sliding = SlidingWindows::of_time_difference_with_no_grace(ms(most / 2 + 1));
    assert_refused(with!(sliding, named()), &["more than can be counted"]);
    let sessions = SessionWindows::of_inactivity_gap_and_grace(ms(most), ms(most));
    assert_refused(with!(sessions, named()), &["more than can be counted"]);
}

#[test]
fn b016_windows_skip_null_values_and_keys_which_do_not_move_time() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Nullable(Utf8), Nullable(Utf8)))
            .group_by_key()
            .windowed_by(TimeWindows::of_size_with_no_grace(ms(10)))
            .count(Materialized::named("s").caching_disabled())
            .to_stream()
            .to("out", Produced::with(TimeWindowed::new(Nullable(Utf8), 10), I64));
    })
    .build()
    .unwrap();
    let input = driver.input("in", Nullable(Utf8), Nullable(Utf8));
    let some = |text: &str| Some(text.to_owned());
    for (key, value, time) in
        [(some("k"), some("1"), 0), (some("k"), None, 100), (some("k"), some("2"), 2), (None, some("5"), 200)]
    {
        input.pipe(key, value, time).unwrap();
    }
    let out = driver.output("out", TimeWindowed::new(Utf8, 10), I64).read_values();
    assert_eq!((out, dropped_late(&driver)), (vec![1, 2], 0));
    assert_eq!(driver.count(Counter::DroppedByNodeTotal), 2);
}

#[test]
fn b017_near_the_end_of_time_windows_end_with_it() {
    let driver = joining(TimeWindows::of_size_with_no_grace(ms(1000)), 1000).build().unwrap();
    let out = output(&driver, 1000);
    let start = i64::MAX - i64::MAX % 1000;
    pipe(&driver, &[("k", "a", 0), ("k", "b", i64::MAX - 7), ("k", "c", i64::MAX), ("k", "d", 5)]);
    let last = format!("k[{start},{})=bc@{}", i64::MAX, i64::MAX);
    assert_eq!((told(&out).pop(), dropped_late(&driver)), (Some(last), 1));
}

#[test]
fn b024_time_is_that_of_the_task_not_of_the_key() {
    let driver = joining(TimeWindows::of_size_with_no_grace(ms(10)), 10).partitions(2).build().unwrap();
    let out = output(&driver, 10);
    let input = driver.input("in", Utf8, Utf8);
    let (one, other) = (input.partition(0), driver.input("in", Utf8, Utf8).partition(1));
    for (key, time) in [("a", 5), ("b", 100), ("a", 6)] {
        one.pipe(key, ".", time).unwrap();
    }
    assert_eq!(dropped_late(&driver), 1);
    other.pipe("c", ".", 7).unwrap();
    assert_eq!((told(&out).pop(), dropped_late(&driver)), (Some("c[0,10)=.@7".to_owned()), 1));
}

/// What a filter takes out before the windows does not close them, though the task has seen its time.
#[test]
fn records_that_do_not_reach_the_windows_do_not_move_their_time() {
    for emit in [EmitStrategy::on_window_update(), EmitStrategy::on_window_close().at_most_every(Duration::ZERO)] {
        let driver = builder(move |b| {
            b.stream("in", Consumed::with(Utf8, Utf8))
                .filter(|_, v| v != "cancelled")
                .group_by_key()
                .windowed_by(TimeWindows::of_size_with_no_grace(ms(10)))
                .emit_strategy(emit)
                .aggregate(String::new, |a, _, v| a + v, Materialized::named("s").value(Utf8).caching_disabled())
                .to_stream()
                .to("out", Produced::with(TimeWindowed::new(Utf8, 10), Utf8));
        })
        .build()
        .unwrap();
        let out = output(&driver, 10);
        pipe(&driver, &[("k", "a", 1), ("k", "cancelled", 1_000_000), ("k", "b", 2), ("k", "c", 10)]);
        let expected: &[&str] = if emit == EmitStrategy::on_window_update() {
            &["k[0,10)=a@1", "k[0,10)=ab@2", "k[10,20)=c@10"]
        } else {
            &["k[0,10)=ab@2"]
        };
        assert_eq!((told(&out), dropped_late(&driver)), (expected.iter().map(|s| (*s).to_owned()).collect(), 0));
    }
}

#[test]
fn b047_a_result_has_the_latest_time_in_its_window() {
    let driver = joining(TimeWindows::of_size_and_grace(ms(10), ms(10)), 10).build().unwrap();
    let out = output(&driver, 10);
    pipe(&driver, &[("a", "1", 8), ("a", "2", 2)]);
    assert_eq!(told(&out), ["a[0,10)=1@8", "a[0,10)=12@8"]);
}

/// The records of `out` behind a group over all windows, with and without a cache.
#[test]
fn b071_the_first_update_of_a_window_has_no_old_value() {
    for caching in [0, 1 << 20] {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .windowed_by(TimeWindows::of_size_with_no_grace(ms(10)))
                .count(Materialized::named("s"))
                .group_by(|_, n| ("all".to_owned(), n), Grouped::with(Utf8, I64))
                .count(Materialized::named("windows"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .caching(caching)
        .build()
        .unwrap();
        for (time, windows) in [(1, 1), (2, 1), (13, 2), (14, 2), (25, 3)] {
            pipe(&driver, &[("k", "", time)]);
            driver.commit().unwrap();
            assert_eq!(driver.store("windows", Utf8, I64).get("all"), Some(windows), "cache {caching}, at {time}");
        }
    }
}

#[test]
fn a_cache_holds_updates_of_a_window_back() {
    let driver = builder(|b| {
        let table = b
            .stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(TimeWindows::of_size_and_grace(ms(10), ms(100)))
            .aggregate(String::new, |a, _, v| a + v, Materialized::named("s").value(Utf8));
        assert!(table.store::<TimestampedWindow<String, String>>().is_some());
        table.to_stream().to("out", Produced::with(TimeWindowed::new(Utf8, 10), Utf8));
    })
    .caching(1 << 20)
    .manual_commit()
    .build()
    .unwrap();
    let out = output(&driver, 10);
    pipe(&driver, &[("k", "a", 1), ("k", "b", 12), ("k", "c", 3), ("j", "d", 4)]);
    assert!(told(&out).is_empty());
    driver.commit().unwrap();
    let mut out = told(&out);
    out.sort();
    assert_eq!(out, ["j[0,10)=d@4", "k[0,10)=ac@3", "k[10,20)=b@12"]);
}

#[test]
fn windows_of_a_key_are_in_one_partition() {
    let driver = joining(TimeWindows::of_size_with_no_grace(ms(10)), 10).topic("out", 7).build().unwrap();
    for time in 0..20 {
        pipe(&driver, &[("k", "", time * 10)]);
    }
    let partitions: std::collections::BTreeSet<_> = driver.records("out").iter().map(|r| r.partition).collect();
    assert_eq!(partitions.len(), 1);
}

#[test]
fn a_window_whose_aggregate_becomes_null_is_deleted() {
    let driver = builder(|b| {
        let _ = b
            .stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(TimeWindows::of_size_with_no_grace(ms(10)))
            .aggregate(
                || None,
                |_, _, v: &String| (v != "reset").then(|| v.clone()),
                Materialized::named("s").value(Nullable(Utf8)).caching_disabled(),
            );
    })
    .build()
    .unwrap();
    pipe(&driver, &[("k", "a", 1), ("j", "b", 2), ("k", "reset", 3)]);
    assert_eq!(rows(&driver), ["j[0]=b"]);
}

#[test]
fn what_is_late_goes_where_it_is_told_to_with_all_it_came_with() {
    let driver = builder(|b| {
        let (windowed, late) = b
            .stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(TimeWindows::of_size_with_no_grace(ms(10)).advance_by(ms(5)))
            .split_late();
        late.filter(|_, v| v != "lost").to("late", Produced::default());
        windowed
            .aggregate(String::new, |a, _, v| a + v, Materialized::named("s").value(Utf8).caching_disabled())
            .to_stream()
            .to("out", Produced::with(TimeWindowed::new(Utf8, 10), Utf8));
    })
    .build()
    .unwrap();
    let out = output(&driver, 10);
    pipe(&driver, &[("a", "1", 17)]);
    assert_eq!(told(&out), ["a[10,20)=1@17", "a[15,25)=1@17"]);
    // [5, 15) is closed, [10, 20) is not: it is in one of its windows, and not late.
    pipe(&driver, &[("a", "2", 14)]);
    assert_eq!((told(&out), dropped_late(&driver)), (vec!["a[10,20)=12@17".to_owned()], 0));
    let input = driver.input("in", Utf8, Utf8);
    input.pipe_record(&TestRecord::new("b".to_owned(), "3".to_owned(), 4).header("h", "x")).unwrap();
    pipe(&driver, &[("b", "lost", 3)]);
    let late = driver.output("late", Utf8, Utf8).read_all();
    assert_eq!(late, [TestRecord::new("b".to_owned(), "3".to_owned(), 4).header("h", "x")]);
    assert_eq!(dropped_late(&driver), 2);
}

/// Behind a repartition topic the late stream is of the task behind it.
#[test]
fn late_records_behind_a_repartition_topic() {
    let driver = builder(|b| {
        let _ = b
            .stream("in", Consumed::with(Utf8, Utf8))
            .group_by(|_, v| v.clone(), Grouped::with(Utf8, Utf8))
            .windowed_by(SessionWindows::of_inactivity_gap_with_no_grace(ms(10)))
            .late_to("late", Produced::default())
            .count(Materialized::named("s"));
    })
    .partitions(2)
    .build()
    .unwrap();
    pipe(&driver, &[("a", "x", 100), ("b", "x", 89)]);
    assert_eq!(driver.output("late", Utf8, Utf8).read_key_values(), [("x".to_owned(), "x".to_owned())]);
}

#[test]
fn late_records_of_windows_that_are_not_aggregated_are_an_error() {
    let mut builder = Topology::builder();
    let (_, late) = builder
        .stream("in", Consumed::with(Utf8, Utf8))
        .group_by_key()
        .windowed_by(TimeWindows::of_size_with_no_grace(ms(10)))
        .split_late();
    late.to("late", Produced::default());
    assert_refused(builder.build(), &["KSTREAM-LATE-0000000001", "nothing is made of"]);
}

/// Which records are late does not depend on when the program was started.
#[test]
fn what_is_late_is_late_after_a_restart_too() {
    for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
        let windows = TimeWindows::of_size_with_no_grace(ms(10));
        let driver = builder(move |b| {
            let _ = b
                .stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .windowed_by(windows)
                .late_to("late", Produced::default())
                .count(Materialized::named("s").retention(ms(1000)));
        })
        .build()
        .unwrap();
        pipe(&driver, &[("a", "1", 5), ("b", "2", 100)]);
        start(&driver).unwrap();
        pipe(&driver, &[("a", "3", 6)]);
        assert_eq!(driver.output("late", Utf8, Utf8).read_values(), ["3"]);
    }
}
