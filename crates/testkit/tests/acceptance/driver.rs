//! The driver itself: partitions, headers, stores, commit, time, restart, and how fast it is.

use std::time::Duration;

use millpond_runtime::{Counter, Guarantee, TaskState};
use millpond_testkit::{Driver, RawRecord, TestRecord};
use millpond_topology::{
    Consumed, Grouped, I64, Materialized, Produced, SessionWindows, TimeWindows, Topology, Utf8, Windowed,
};

use crate::support::assert_names;

fn counting() -> Topology {
    let mut builder = Topology::builder();
    builder
        .stream("in", Consumed::with(Utf8, Utf8))
        .group_by(|_, value: &String| value.clone(), Grouped::named("by-value").key(Utf8).value(Utf8))
        .count(Materialized::named("counts").key(Utf8))
        .to_stream()
        .to("out", Produced::with(Utf8, I64));
    builder.build().unwrap()
}

fn expect(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
}

#[test]
fn a_pipe_goes_through_a_repartition_topic_to_the_end_for_both_guarantees() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let driver = Driver::builder(counting()).guarantee(guarantee).build().unwrap();
        let (input, output) = (driver.input("in", Utf8, Utf8), driver.output("out", Utf8, I64));
        input.pipe("1", "a", 10).unwrap();
        assert_eq!(output.read(), Some(TestRecord::new("a".to_owned(), 1, 10)));
        assert_eq!(output.read(), None);
        input.pipe_values("2", ["a", "b"], 20).unwrap();
        assert_eq!(output.read_key_values(), expect(&[("a", 2), ("b", 1)]));
        let counts = driver.store("counts", Utf8, I64);
        assert_eq!(counts.get("a"), Some(2));
        assert_eq!(counts.get_with_timestamp("b"), Some((1, 20)));
        assert_eq!(counts.get("c"), None);
        assert_eq!(counts.all(), expect(&[("a", 2), ("b", 1)]));
        assert_eq!(counts.changelog(), counts.all());
        assert_eq!(driver.wall_ms(), 0, "time stands still");
    }
}

#[test]
fn several_partitions_are_several_tasks_and_stores_are_found_by_key() {
    let driver = Driver::builder(counting()).topic("in", 3).topic("out", 2).build().unwrap();
    assert_eq!(driver.tasks().len(), 6);
    assert!(driver.tasks().iter().all(|(_, state)| *state == TaskState::Running));
    let input = driver.input("in", Utf8, Utf8);
    for n in 0..60 {
        input.partition(n % 3).pipe(n.to_string(), format!("v{}", n % 20), n.into()).unwrap();
    }
    let counts = driver.store("counts", Utf8, I64);
    assert_eq!(counts.all().len(), 20);
    assert!((0..20).all(|v| counts.get(format!("v{v}")) == Some(3)));
    let parts: Vec<usize> = (0..3).map(|p| counts.in_partition(p).len()).collect();
    assert_eq!(parts.iter().sum::<usize>(), 20);
    assert!(parts.iter().all(|n| *n > 0), "{parts:?}");
    let output = driver.output("out", Utf8, I64);
    let partitions: std::collections::BTreeSet<i32> = output.read_all().iter().map(|r| r.partition).collect();
    assert_eq!(partitions.len(), 2);
}

#[test]
fn state_is_kept_over_a_restart_restored_after_a_loss_and_durable_after_a_crash() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let driver = Driver::builder(counting()).topic("in", 2).guarantee(guarantee).build().unwrap();
        let (input, output) = (driver.input("in", Utf8, Utf8), driver.output("out", Utf8, I64));
        let counts = driver.store("counts", Utf8, I64);
        for n in 0..10 {
            input.pipe(n.to_string(), "a", n.into()).unwrap();
        }
        assert_eq!(output.read_latest()["a"], 10);
        driver.restart().unwrap();
        assert_eq!(driver.count(Counter::RestoreTotal), 0, "a clean stop flushed everything");
        assert_eq!(counts.get("a"), Some(10));
        driver.restart_without_state().unwrap();
        assert_eq!(driver.count(Counter::RestoreTotal), 10, "and without it all is read again");
        assert_eq!(counts.get("a"), Some(10));
        input.pipe("x", "a", 11).unwrap();
        driver.crash().unwrap();
        assert_eq!(counts.get("a"), Some(11), "what was committed is in the log");
        input.pipe("x", "a", 12).unwrap();
        assert_eq!(output.read_values().last(), Some(&12));
        assert_eq!(counts.changelog(), counts.all());
    }
}

#[test]
fn a_crash_forgets_what_was_not_committed() {
    let build = |guarantee| Driver::builder(counting()).guarantee(guarantee).manual_commit().build().unwrap();
    let driver = build(Guarantee::ExactlyOnce);
    let (input, output) = (driver.input("in", Utf8, Utf8), driver.output("out", Utf8, I64));
    input.pipe("1", "a", 1).unwrap();
    assert!(output.is_empty(), "nothing is committed");
    driver.crash().unwrap();
    assert!(output.is_empty());
    driver.commit().unwrap();
    assert_eq!(output.read_key_values(), expect(&[("a", 1)]), "the record was processed again, and counts once");
    assert_eq!(driver.committed("in", 0), driver.records("in").last().map(|r| r.offset + 1));
}

#[test]
fn headers_and_raw_bytes_go_in_and_come_out() {
    let mut builder = Topology::builder();
    builder.stream("in", Consumed::with(Utf8, Utf8)).to("out", Produced::default());
    let driver = Driver::builder(builder.build().unwrap()).partitions(2).build().unwrap();
    let output = driver.output("out", Utf8, Utf8);
    let record = TestRecord::new("k".to_owned(), "v".to_owned(), 5).header("trace", "17").header("trace", "18");
    driver.input("in", Utf8, Utf8).pipe_record(&record).unwrap();
    assert_eq!(output.read(), Some(record));
    driver.pipe("in", Some(1), &RawRecord::bytes("k", "raw", 6)).unwrap();
    assert_eq!(driver.records("in").iter().filter(|r| r.partition == 1 && r.timestamp == 6).count(), 1);
    assert_eq!(output.read_values(), ["raw"]);
}

#[test]
fn two_workers_do_the_same() {
    let driver = Driver::builder(counting()).topic("in", 4).setting("num.stream.threads", "2").build().unwrap();
    let (input, output) = (driver.input("in", Utf8, Utf8), driver.output("out", Utf8, I64));
    for n in 0..40 {
        input.pipe(n.to_string(), format!("v{}", n % 4), n.into()).unwrap();
    }
    assert!(output.read_latest().values().all(|n| *n == 10));
    driver.restart().unwrap();
    assert_eq!(driver.store("counts", Utf8, I64).all().len(), 4);
}

#[test]
fn a_leap_of_forty_years_is_no_trouble() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let driver = Driver::builder(counting()).guarantee(guarantee).build().unwrap();
        let input = driver.input("in", Utf8, Utf8);
        input.pipe("1", "a", 1).unwrap();
        driver.advance(Duration::from_secs(40 * 365 * 86_400)).unwrap();
        input.pipe("1", "a", 2).unwrap();
        assert_eq!(driver.store("counts", Utf8, I64).get("a"), Some(2));
        assert_eq!(driver.count(Counter::RollbackTotal), 0);
    }
}

#[test]
fn what_is_stopped_says_so() {
    let driver = Driver::builder(counting()).build().unwrap();
    driver.stop().unwrap();
    let error = driver.input("in", Utf8, Utf8).pipe("1", "a", 1).unwrap_err().chain();
    assert!(error.contains("restart"), "{error}");
    driver.restart().unwrap();
    assert_eq!(driver.store("counts", Utf8, I64).get("a"), Some(1), "the record was there");
}

#[test]
#[should_panic(expected = "there is no topic `oot`; the topology's are in, out, test-by-value-repartition")]
fn a_mistyped_topic_is_named_with_those_that_there_are() {
    Driver::builder(counting()).build().unwrap().output("oot", Utf8, I64);
}

#[test]
#[should_panic(expected = "the value of topic=`out` partition=`0` offset=`0` does not fit the test's serde")]
fn a_wrong_serde_says_where() {
    let driver = Driver::builder(counting()).build().unwrap();
    driver.input("in", Utf8, Utf8).pipe("1", "a", 1).unwrap();
    driver.output("out", Utf8, millpond_topology::I32).read();
}

/// What a closure panics with, and in which file.
fn panic_of(run: impl FnOnce() + std::panic::UnwindSafe) -> (String, String) {
    use std::sync::{Arc, Mutex, PoisonError};
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Arc::new(Mutex::new(String::new()));
    let (told, me, former) = (place.clone(), std::thread::current().id(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == me {
            *told.lock().unwrap() = info.location().unwrap().file().to_owned();
        }
    }));
    let panicked = std::panic::catch_unwind(run).unwrap_err();
    std::panic::set_hook(former);
    let place = place.lock().unwrap().clone();
    (*panicked.downcast::<String>().unwrap(), place)
}

#[test]
fn other_records_than_expected_are_shown_side_by_side_at_the_tests_line() {
    let (message, place) = panic_of(|| {
        let driver = Driver::builder(counting()).build().unwrap();
        driver.input("in", Utf8, Utf8).pipe_values("1", ["a", "b", "a"], 5).unwrap();
        driver.output("out", Utf8, I64).expect([("a", 1, 5), ("c", 1, 5)]);
    });
    let shown = [
        "other records than expected in topic=`out`",
        "    expected   got",
        "    \"a\"=1 @5   \"a\"=1 @5",
        "  ! \"c\"=1 @5   \"b\"=1 @5",
        "  ! -          \"a\"=2 @5",
    ];
    assert_eq!(message, shown.join("\n"));
    assert_eq!(place, file!());
}

#[test]
fn a_store_of_another_kind_is_named_with_the_door_to_it() {
    let windows = || {
        let mut builder = Topology::builder();
        let _ = builder
            .stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(TimeWindows::of_size_with_no_grace(Duration::from_millis(10)))
            .count(Materialized::named("per-window"));
        Driver::builder(builder.build().unwrap()).build().unwrap()
    };
    let (message, place) = panic_of(|| drop(windows().store("per-window", Utf8, I64)));
    assert_eq!(message, "`per-window` is a timestamped window store; look into it with `window_store`");
    assert_eq!(place, file!());
    // A row that does not fit the serdes is an affair of the test's line, too.
    let (message, place) = panic_of(|| {
        let driver = windows();
        driver.input("in", Utf8, Utf8).pipe("k", "v", 15).unwrap();
        let counts = driver.window_store("per-window", Utf8, I64);
        assert_eq!(counts.all(), [("k".to_owned(), 10, 1)]);
        assert_eq!((counts.get("k", 10), counts.get("k", 20), counts.get("j", 10)), (Some(1), None, None));
        assert_eq!(counts.fetch("k", 10..), [(10, 1)]);
        assert_eq!(counts.changelog(), counts.all());
        let _ = driver.window_store("per-window", I64, I64).all();
    });
    assert!(message.starts_with("a key of the store `per-window` does not fit the test's serde"), "{message}");
    assert_eq!(place, file!());
}

/// What a test gets wrong is told at its line, whatever it is.
#[test]
fn partitions_and_stores_that_are_not_there_are_the_tests_faults() {
    let driver = || Driver::builder(counting()).topic("in", 2).build().unwrap();
    let said = "the topic `in` has no partition 2; it has 2, which `DriverBuilder::topic` decides";
    let record = || RawRecord::bytes("1", "a", 0);
    for (message, place) in [
        panic_of(|| drop(driver().input("in", Utf8, Utf8).partition(2))),
        panic_of(|| driver().pipe("in", Some(2), &record()).unwrap()),
        panic_of(|| driver().send("in", Some(2), &record()).unwrap()),
    ] {
        assert_eq!((message.as_str(), place.as_str()), (said, file!()));
    }
    let (message, _) = panic_of(|| drop(driver().store("count", Utf8, I64)));
    assert_eq!(message, "there is no store `count`; the topology has counts");
    let (message, _) = panic_of(|| {
        let mut builder = Topology::builder();
        builder.stream("in", Consumed::with(Utf8, Utf8)).to("out", Produced::default());
        let _ = Driver::builder(builder.build().unwrap()).build().unwrap().store("counts", Utf8, I64);
    });
    assert_eq!(message, "there is no store `counts`; the topology has no stores");
}

#[test]
fn a_topic_that_the_topology_does_not_have_is_refused() {
    let error = Driver::builder(counting()).topic("im", 2).build().unwrap_err();
    assert_names(&error, &["unknown topic=`im`", "in, out, test-by-value-repartition", "or leave it out"]);
    let dead_letters = Driver::builder(counting())
        .topic("dead", 2)
        .setting("errors.dead.letter.queue.topic.name", "dead")
        .setting("processing.exception.handler", "dead-letter");
    assert!(dead_letters.build().is_ok());
}

#[test]
fn sessions_and_versions_have_doors_of_their_own() {
    let mut builder = Topology::builder();
    let (gap, history) = (Duration::from_millis(5), Duration::from_millis(100));
    let input = builder.stream("in", Consumed::with(Utf8, Utf8));
    let _ = input
        .clone()
        .group_by_key()
        .windowed_by(SessionWindows::of_inactivity_gap_with_no_grace(gap))
        .count(Materialized::named("visits"));
    let _ = input.to_table(Materialized::named("last").history_retention(history));
    let driver = Driver::builder(builder.build().unwrap()).build().unwrap();
    let input = driver.input("in", Utf8, Utf8);
    for (value, at) in [("x", 10), ("y", 13)] {
        input.pipe("k", value, at).unwrap();
    }
    let visits = driver.session_store("visits", Utf8, I64);
    assert_eq!(visits.all(), [(Windowed { key: "k".to_owned(), start: 10, end: 13 }, 2)]);
    assert_eq!((visits.get("k", 10, 13), visits.get("k", 10, 10)), (Some(2), None));
    assert_eq!((visits.fetch("k"), visits.fetch("j")), (vec![(10, 13, 2)], vec![]));
    assert_eq!(visits.changelog(), visits.all());
    let last = driver.versioned_store("last", Utf8, Utf8);
    assert_eq!(last.all(), [("k".to_owned(), "y".to_owned(), 13)]);
    assert_eq!(last.get("k").map(|v| (v.value, v.timestamp, v.valid_to)), Some(("y".to_owned(), 13, None)));
    assert_eq!(
        last.get_as_of("k", 12).map(|v| (v.value, v.timestamp, v.valid_to)),
        Some(("x".to_owned(), 10, Some(13)))
    );
    assert_eq!(last.get_as_of("k", 9), None);
}

#[test]
fn a_commit_after_each_record_lets_a_cache_show_each_repartitioned_one() {
    let told = |each_record: bool| {
        let mut builder = Topology::builder();
        builder
            .stream("in", Consumed::with(Utf8, Utf8))
            .flat_map_values(|words| words.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .group_by(|_, word| word.clone(), Grouped::with(Utf8, Utf8))
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
        let driver = Driver::builder(builder.build().unwrap()).caching(1 << 20);
        let driver = if each_record { driver.commit_each_record() } else { driver }.build().unwrap();
        driver.input("in", Utf8, Utf8).pipe("k", "a a", 1).unwrap();
        driver.output("out", Utf8, I64).read_values()
    };
    assert_eq!(told(false), [2]);
    assert_eq!(told(true), [1, 2]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it tells how fast the driver is")]
fn a_test_of_a_counting_topology_is_quick() {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let start = std::time::Instant::now();
        let driver = Driver::builder(counting()).build().unwrap();
        let (input, output) = (driver.input("in", Utf8, Utf8), driver.output("out", Utf8, I64));
        for n in 0..10 {
            input.pipe(n.to_string(), "a", n.into()).unwrap();
        }
        assert_eq!(output.read_values(), (1..=10).collect::<Vec<_>>());
        drop(driver);
        best = best.min(start.elapsed());
    }
    println!("a test of a counting topology with ten records: {best:?}");
    // It is under 10 ms where nothing else runs; here something may.
    assert!(best < Duration::from_millis(50), "{best:?}");
}
