//! Final results: each window once, when it is closed; what jumps, throttles, restarts and silence do to that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use millpond_runtime::Guarantee;
use millpond_store_mem::MemEngine;
use millpond_testkit::{Driver, DriverBuilder, OutputTopic, TestRecord};
use millpond_topology::{
    Consumed, EmitStrategy, GroupedStream, I64, Materialized, Nullable, Produced, SessionWindowed, SessionWindows,
    SlidingWindows, TimeWindowed, TimeWindows, Utf8, Windowed, WindowedStream, Windowing,
};

use crate::support::{BOTH, builder};
use crate::windows::{dropped_late, ms, output, pipe, told};

const AT_ONCE: EmitStrategy = EmitStrategy::on_window_close().at_most_every(Duration::ZERO);

/// Texts of `in`, joined by key and window, as final results.
fn joining<W>(windows: W, size: i64, emit: EmitStrategy) -> DriverBuilder
where
    W: Windowing<Stream<String, String> = WindowedStream<String, String>>,
{
    builder(move |b| {
        let grouped: GroupedStream<String, String> = b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key();
        grouped
            .windowed_by(windows)
            .emit_strategy(emit)
            .aggregate(String::new, |so_far, _, v| so_far + v, Materialized::named("s").value(Utf8))
            .to_stream()
            .to("out", Produced::with(TimeWindowed::new(Utf8, size), Utf8));
    })
}

fn tumbling(grace: u64, emit: EmitStrategy) -> DriverBuilder {
    joining(TimeWindows::of_size_and_grace(ms(10), ms(grace)), 10, emit)
}

fn sessions(gap: u64, grace: u64, emit: EmitStrategy) -> DriverBuilder {
    let windows = SessionWindows::of_inactivity_gap_and_grace(ms(gap), ms(grace));
    builder(move |b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(windows)
            .emit_strategy(emit)
            .aggregate(
                String::new,
                |so_far, _, v| so_far + v,
                |_, one, other| one + &other,
                Materialized::named("s").value(Utf8),
            )
            .to_stream()
            .to("out", Produced::with(SessionWindowed(Utf8), Nullable(Utf8)));
    })
}

fn sessions_output(driver: &Driver) -> OutputTopic<Windowed<String>, String> {
    driver.output("out", SessionWindowed(Utf8), Utf8)
}

/// What has come out since it was asked last, as lines.
fn told_sessions(out: &OutputTopic<Windowed<String>, String>) -> Vec<String> {
    let line = |r: &TestRecord<Windowed<String>, String>| {
        format!("{}[{},{}]={}@{}", r.key.key, r.key.start, r.key.end, r.value, r.timestamp)
    };
    out.read_all().iter().map(line).collect()
}

#[test]
fn results_come_in_the_order_of_windows_then_of_keys_without_headers() {
    for engine in [false, true] {
        let driver = tumbling(0, AT_ONCE);
        let driver = if engine { driver.engine(MemEngine::default()) } else { driver }.build().unwrap();
        let input = driver.input("in", Utf8, Utf8);
        for (key, value, time) in [("b", "1", 1), ("a", "2", 2), ("c", "3", 11), ("a", "4", 12), ("z", "5", 20)] {
            let record = TestRecord::new(key.to_owned(), value.to_owned(), time).header("h", value);
            input.pipe_record(&record).unwrap();
        }
        let out = driver.output("out", TimeWindowed::new(Utf8, 10), Utf8).read_all();
        assert!(out.iter().all(|r| r.headers.is_empty()));
        let lines: Vec<_> = out.iter().map(crate::windows::text).collect();
        assert_eq!(lines, ["a[0,10)=2@2", "b[0,10)=1@1", "a[10,20)=4@12", "c[10,20)=3@11"]);
    }
}

#[test]
fn b023_each_window_comes_once_over_restarts() {
    for guarantee in BOTH {
        for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
            let driver = tumbling(0, AT_ONCE).guarantee(guarantee).build().unwrap();
            let out = output(&driver, 10);
            pipe(&driver, &[("a", "1", 1), ("a", "2", 11)]);
            assert_eq!(told(&out), ["a[0,10)=1@1"]);
            start(&driver).unwrap();
            pipe(&driver, &[("a", "3", 12)]);
            assert!(told(&out).is_empty());
            start(&driver).unwrap();
            pipe(&driver, &[("b", "4", 25)]);
            assert_eq!(told(&out), ["a[10,20)=23@12"]);
            pipe(&driver, &[("c", "5", 25)]);
            assert!(told(&out).is_empty());
        }
    }
}

#[test]
fn b023_each_session_comes_once_over_restarts() {
    for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
        let driver = sessions(10, 0, AT_ONCE).build().unwrap();
        let out = sessions_output(&driver);
        pipe(&driver, &[("a", "1", 0), ("a", "2", 5), ("b", "3", 6), ("a", "4", 16)]);
        assert_eq!(told_sessions(&out), ["a[0,5]=12@5"]);
        start(&driver).unwrap();
        pipe(&driver, &[("a", "5", 30)]);
        assert_eq!(told_sessions(&out), ["b[6,6]=3@6", "a[16,16]=4@16"]);
        start(&driver).unwrap();
        pipe(&driver, &[("z", "6", 1000)]);
        assert_eq!(told_sessions(&out), ["a[30,30]=5@30"]);
    }
}

#[test]
fn a_jump_of_time_loses_no_window() {
    let driver = tumbling(5, AT_ONCE).build().unwrap();
    let out = output(&driver, 10);
    pipe(&driver, &[("a", "1", 1), ("a", "2", 14), ("a", "3", 2)]);
    driver.commit().unwrap();
    pipe(&driver, &[("z", "9", 1_000_000_000_000)]);
    assert_eq!(told(&out), ["a[0,10)=13@2", "a[10,20)=2@14"]);
    let driver = joining(SlidingWindows::of_time_difference_with_no_grace(ms(10)), 10, AT_ONCE).build().unwrap();
    let out = output(&driver, 10);
    pipe(&driver, &[("a", "1", 1), ("a", "2", 5), ("b", "3", 1_000_000)]);
    assert_eq!(told(&out), ["a[0,10)=12@5", "a[2,12)=2@5"]);
}

#[test]
fn what_is_put_off_comes_by_itself() {
    let driver = tumbling(0, EmitStrategy::on_window_close()).build().unwrap();
    let out = output(&driver, 10);
    pipe(&driver, &[("a", "1", 1), ("a", "2", 11), ("a", "3", 21)]);
    driver.advance(ms(999)).unwrap();
    pipe(&driver, &[("a", "4", 31), ("a", "late", 2)]);
    assert!(told(&out).is_empty());
    assert_eq!(dropped_late(&driver), 1, "a window is closed before it is told of");
    driver.advance(ms(1)).unwrap();
    assert!(told(&out).is_empty());
    driver.advance(ms(1000)).unwrap();
    assert_eq!(told(&out), ["a[0,10)=1@1", "a[10,20)=2@11", "a[20,30)=3@21"]);
    driver.advance(ms(5000)).unwrap();
    pipe(&driver, &[("a", "5", 42)]);
    assert_eq!(told(&out), ["a[30,40)=4@31"]);
}

/// A window that was closed but not told of is told of after a restart.
#[test]
fn what_is_put_off_survives_a_restart() {
    for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
        let driver = tumbling(0, EmitStrategy::on_window_close()).build().unwrap();
        let out = output(&driver, 10);
        pipe(&driver, &[("a", "1", 1), ("a", "2", 11), ("z", "3", 1_000_000)]);
        assert!(told(&out).is_empty());
        start(&driver).unwrap();
        driver.advance(ms(5000)).unwrap();
        pipe(&driver, &[("z", "4", 1_000_001)]);
        assert_eq!(told(&out), ["a[0,10)=1@1", "a[10,20)=2@11"]);
    }
}

/// An operator's time does not go back over restarts: what was late stays late, and what is put off comes though nothing else does.
#[test]
fn the_time_of_windows_survives_a_restart() {
    for guarantee in BOTH {
        for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
            let driver = tumbling(0, EmitStrategy::on_window_close()).guarantee(guarantee).build().unwrap();
            let out = output(&driver, 10);
            // Looks once, and finds nothing; from then on the looks are put off.
            pipe(&driver, &[("a", "1", 5), ("a", "2", 25)]);
            assert!(told(&out).is_empty());
            start(&driver).unwrap();
            pipe(&driver, &[("a", "late", 3)]);
            assert_eq!(dropped_late(&driver), 1, "{guarantee:?}");
            driver.advance(ms(2000)).unwrap();
            assert_eq!(told(&out), ["a[0,10)=1@5"], "{guarantee:?}");
            start(&driver).unwrap();
            driver.advance(ms(5000)).unwrap();
            assert!(told(&out).is_empty());
        }
    }
}

/// The final results of random sequences are the last updates of the same windows, whatever the jumps and restarts.
#[test]
fn final_results_are_the_last_updates() {
    for seed in 0..24 {
        let mut rng = Rng::with_seed(seed);
        let (size, grace) = (rng.i64(1..12), rng.u64(0..8));
        let (advance, sliding) = (rng.u64(1..=size as u64), rng.bool());
        let records: Vec<_> = (0..25).map(|n| (["x", "y", "z"][rng.usize(0..3)], n, n * 2 + rng.i64(0..8))).collect();
        let run = |emit: EmitStrategy, restarts: bool| {
            let driver = if sliding {
                joining(SlidingWindows::of_time_difference_and_grace(ms(size as u64), ms(grace)), size, emit)
            } else {
                joining(TimeWindows::of_size_and_grace(ms(size as u64), ms(grace)).advance_by(ms(advance)), size, emit)
            };
            let driver = driver.guarantee(Guarantee::ExactlyOnce).build().unwrap();
            for (key, n, time) in &records {
                pipe(&driver, &[(key, &format!("{n}."), *time)]);
                if restarts && n % 7 == 3 {
                    driver.crash().unwrap();
                }
            }
            pipe(&driver, &[("end", "", 1_000_000)]);
            driver.output("out", TimeWindowed::new(Utf8, size), Utf8).read_all()
        };
        let mut last = BTreeMap::new();
        for r in run(EmitStrategy::on_window_update(), false).into_iter().filter(|r| r.key.key != "end") {
            last.insert((r.key.start, r.key.key), (r.value, r.timestamp));
        }
        for restarts in [false, true] {
            let finals = run(AT_ONCE, restarts);
            let found: Vec<_> =
                finals.into_iter().map(|r| ((r.key.start, r.key.key), (r.value, r.timestamp))).collect();
            let expected: Vec<_> = last.clone().into_iter().collect();
            assert_eq!(found, expected, "seed {seed}, restarts {restarts}");
        }
    }
}

#[test]
fn b076_an_idle_limit_closes_the_last_windows_and_they_stay_closed() {
    for emit in [EmitStrategy::on_window_close(), EmitStrategy::on_window_update()] {
        let windows = TimeWindows::of_size_with_no_grace(ms(10)).idle_after(ms(30_000));
        let driver = joining(windows, 10, emit).build().unwrap();
        let out = output(&driver, 10);
        pipe(&driver, &[("k", "1", 1)]);
        let updated = told(&out).len();
        assert_eq!(updated, usize::from(emit == EmitStrategy::on_window_update()));
        driver.advance(ms(29_999)).unwrap();
        assert!(told(&out).is_empty());
        // It is looked at once a second.
        driver.advance(ms(1_001)).unwrap();
        let expected: &[&str] = if updated == 0 { &["k[0,10)=1@1"] } else { &[] };
        assert_eq!(told(&out), expected);
        for start in [Driver::restart, Driver::restart_without_state] {
            let late = dropped_late(&driver);
            pipe(&driver, &[("k", "2", 2)]);
            assert_eq!((told(&out), dropped_late(&driver)), (Vec::new(), late + 1));
            start(&driver).unwrap();
        }
        driver.advance(ms(600_000)).unwrap();
        assert!(told(&out).is_empty());
    }
}

#[test]
fn b076_without_an_idle_limit_silence_closes_nothing() {
    let driver = tumbling(0, EmitStrategy::on_window_close()).build().unwrap();
    let out = output(&driver, 10);
    pipe(&driver, &[("k", "1", 1)]);
    driver.advance(ms(600_000)).unwrap();
    assert!(told(&out).is_empty());
}

#[test]
fn an_idle_limit_closes_sessions() {
    let windows = SessionWindows::of_inactivity_gap_with_no_grace(ms(10)).idle_after(ms(1000));
    let driver = builder(move |b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(windows)
            .emit_strategy(EmitStrategy::on_window_close())
            .reduce(|a, b| a + &b, Materialized::named("s"))
            .to_stream()
            .to("out", Produced::with(SessionWindowed(Utf8), Nullable(Utf8)));
    })
    .build()
    .unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("k", "a", 1), ("k", "b", 5)]);
    driver.advance(ms(3000)).unwrap();
    assert_eq!(told_sessions(&out), ["k[1,5]=ab@5"]);
}

/// A record that fails has no effect (D14): it moves no time, and closes nothing.
#[test]
fn a_record_that_fails_closes_nothing() {
    let is_down = Arc::new(AtomicBool::new(false));
    for emit in [AT_ONCE, EmitStrategy::on_window_update()] {
        let down = is_down.clone();
        let driver = builder(move |b| {
            b.stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .windowed_by(TimeWindows::of_size_with_no_grace(ms(10)))
                .emit_strategy(emit)
                .try_aggregate(
                    || 0,
                    move |so_far, _, _| match down.load(Ordering::Relaxed) {
                        true => Err(millpond_topology::Error::other("down")),
                        false => Ok(so_far + 1),
                    },
                    Materialized::named("s").value(I64),
                )
                .to_stream()
                .to("out", Produced::with(TimeWindowed::new(Utf8, 10), I64));
        });
        let driver = driver.setting("processing.exception.handler", "continue").build().unwrap();
        let input = driver.input("in", Utf8, Utf8);
        let out = driver.output("out", TimeWindowed::new(Utf8, 10), I64);
        input.pipe("a", "1", 1).unwrap();
        is_down.store(true, Ordering::Relaxed);
        input.pipe("b", "far ahead", 1_000).unwrap();
        is_down.store(false, Ordering::Relaxed);
        input.pipe("a", "2", 5).unwrap();
        assert_eq!(dropped_late(&driver), 0, "time stands where it stood");
        input.pipe("c", "3", 12).unwrap();
        let of_a: Vec<i64> =
            out.read_key_values().into_iter().filter(|(key, _)| key.key == "a").map(|(_, n)| n).collect();
        assert_eq!(of_a.last(), Some(&2), "{of_a:?}");
    }
}

/// What was told as final is not taken back by a record that is in time and a gap away from it.
#[test]
fn a_session_that_was_told_of_is_final_even_for_a_record_in_time() {
    let driver = sessions(5, 0, AT_ONCE).build().unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("b", "1", 15), ("a", "x", 24), ("b", "2", 20), ("z", "y", 100)]);
    assert_eq!(told(&out), ["b[15,15)=1@15", "b[20,20)=2@20", "a[24,24)=x@24"]);
}
