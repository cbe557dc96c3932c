//! Final results of windows and sessions by suppression: said when the window is closed, once, and never contradicted.

use millpond_runtime::{Counter, Gauge, MetricsRegistry, Scope};
use millpond_testkit::{Driver, DriverBuilder, TestRecord};
use millpond_topology::{
    BufferConfig, Builder, Consumed, Dropped, I64, Materialized, Produced, Serde, SessionWindowed, SessionWindows,
    SlidingWindows, Suppressed, Table, TimeWindowed, TimeWindows, Upserts, Utf8, Windowed,
};

use crate::support::{BOTH, builder};
use crate::windows::{ms, pipe, text};

const CACHES: [u64; 2] = [0, 1 << 20];

fn grouped(b: &mut Builder) -> millpond_topology::GroupedStream<String, String> {
    b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key()
}

#[expect(clippy::ptr_arg, reason = "an aggregator of texts")]
fn concat(so_far: String, _: &String, value: &String) -> String {
    so_far + value
}

fn finals<V: 'static>(
    table: Table<Windowed<String>, V, Upserts>,
    key: impl Serde<Windowed<String>>,
    value: impl Serde<V>,
) {
    table.to_stream().to("out", Produced::with(key, value));
}

fn until_closed() -> Suppressed<millpond_topology::UntilWindowCloses> {
    Suppressed::until_window_closes(BufferConfig::unbounded()).named("final")
}

/// Texts of `in`, joined by key and time window; final results go to `out`.
fn joined(windows: TimeWindows, size: i64) -> DriverBuilder {
    builder(move |b| {
        let table =
            grouped(b).windowed_by(windows).aggregate(String::new, concat, Materialized::named("s").value(Utf8));
        finals(table.suppress(until_closed()), TimeWindowed::new(Utf8, size), Utf8);
    })
}

/// The number of texts, as above.
fn counted(windows: TimeWindows) -> DriverBuilder {
    builder(move |b| {
        let table = grouped(b).windowed_by(windows).count(Materialized::named("s"));
        finals(table.suppress(until_closed()), TimeWindowed::new(Utf8, 10), I64);
    })
}

type Told = millpond_testkit::OutputTopic<Windowed<String>, i64>;

fn told(out: &Told) -> Vec<String> {
    let line =
        |r: TestRecord<Windowed<String>, i64>| format!("{}[{}]={}@{}", r.key.key, r.key.start, r.value, r.timestamp);
    out.read_all().into_iter().map(line).collect()
}

/// Pipes each record, and compares what comes out with what is to.
fn check(driver: &Driver, key: impl Serde<Windowed<String>>, steps: &[(&str, &str, i64, &[&str])]) {
    let out = driver.output("out", key, Utf8);
    for (key, value, time, expected) in steps {
        pipe(driver, &[(key, value, *time)]);
        let told: Vec<_> = out.read_all().iter().map(text).collect();
        assert_eq!(told, *expected, "after {key}={value}@{time}");
    }
}

#[test]
fn a_tumbling_window_is_told_of_when_its_grace_is_over() {
    for caching in CACHES {
        let driver = joined(TimeWindows::of_size_and_grace(ms(10), ms(5)), 10).caching(caching).build().unwrap();
        let steps: [(&str, &str, i64, &[&str]); 6] = [
            ("a", "1", 1, &[]),
            ("a", "2", 9, &[]),
            ("b", "3", 14, &[]),
            ("a", "4", 5, &[]),
            ("a", "5", 15, &["a[0,10)=124@9"]),
            ("b", "6", 40, &["a[10,20)=5@15", "b[10,20)=3@14"]),
        ];
        check(&driver, TimeWindowed::new(Utf8, 10), &steps);
    }
}

#[test]
fn hopping_windows_are_told_of_in_the_order_of_their_ends() {
    let windows = TimeWindows::of_size_with_no_grace(ms(10)).advance_by(ms(5));
    let driver = joined(windows, 10).build().unwrap();
    let steps: [(&str, &str, i64, &[&str]); 4] = [
        ("a", "1", 1, &[]),
        ("a", "2", 7, &[]),
        ("b", "3", 12, &["a[0,10)=12@7"]),
        ("a", "4", 40, &["a[5,15)=2@7", "b[5,15)=3@12", "b[10,20)=3@12"]),
    ];
    check(&driver, TimeWindowed::new(Utf8, 10), &steps);
}

/// A session's end belongs to it: with a gap of 5 that of 10 takes records until 15, that time included. Kafka Streams says
/// at 15 that it is over, and then twice something else.
#[test]
fn a_session_is_told_of_when_nothing_can_join_it() {
    for caching in CACHES {
        let driver = builder(|b| {
            let sessions = SessionWindows::of_inactivity_gap_with_no_grace(ms(5));
            let merge = |_: &String, a: String, b: String| a + &b;
            let m = Materialized::named("s").value(Utf8);
            let table = grouped(b).windowed_by(sessions).aggregate(String::new, concat, merge, m);
            finals(table.suppress(until_closed()), SessionWindowed(Utf8), Utf8);
        })
        .caching(caching)
        .build()
        .unwrap();
        let steps: [(&str, &str, i64, &[&str]); 7] = [
            ("k", "a", 10, &[]),
            ("x", "b", 15, &[]),
            ("k", "c", 10, &[]),
            ("k", "d", 15, &[]),
            ("x", "e", 16, &[]),
            ("y", "f", 21, &["k[10,15)=acd@15"]),
            ("y", "g", 22, &["x[15,16)=be@16"]),
        ];
        check(&driver, SessionWindowed(Utf8), &steps);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 0);
    }
}

/// A sliding window's end belongs to it, so it is over one millisecond later; Kafka Streams tells of it at its end, and again.
#[test]
fn a_sliding_window_is_told_of_behind_its_end() {
    for caching in CACHES {
        let driver = builder(|b| {
            let windows = SlidingWindows::of_time_difference_with_no_grace(ms(10));
            let m = Materialized::named("s").value(Utf8);
            let table = grouped(b).windowed_by(windows).aggregate(String::new, concat, m);
            finals(table.suppress(until_closed()), TimeWindowed::new(Utf8, 10), Utf8);
        })
        .caching(caching)
        .build()
        .unwrap();
        let steps: [(&str, &str, i64, &[&str]); 4] = [
            ("k", "a", 20, &[]),
            ("k", "b", 20, &[]),
            ("x", "c", 21, &["k[10,20)=ab@20"]),
            ("x", "d", 40, &["x[11,21)=c@21"]),
        ];
        check(&driver, TimeWindowed::new(Utf8, 10), &steps);
    }
}

#[test]
fn tables_made_of_windows_row_by_row_know_when_they_close() {
    let driver = builder(|b| {
        let windows = TimeWindows::of_size_with_no_grace(ms(10));
        let table = grouped(b).windowed_by(windows).count(Materialized::named("s"));
        let many = table.filter(|_, n| *n > 1).suppress(until_closed());
        finals(many, TimeWindowed::new(Utf8, 10), I64);
    })
    .build()
    .unwrap();
    let out = driver.output("out", TimeWindowed::new(Utf8, 10), I64);
    pipe(&driver, &[("a", "", 1), ("b", "", 2), ("a", "", 3), ("c", "", 10)]);
    assert!(out.is_empty(), "no row has come that tells of the time 10");
    pipe(&driver, &[("c", "", 11)]);
    assert_eq!(told(&out), ["a[0]=2@3"]);
}

/// Behind a cache updates come in the order of their first writes. Here one that closes a window comes before the last update of
/// that window, and the window's final result has to have it.
#[test]
fn b039_behind_a_cache_a_final_result_has_all_updates_of_its_window() {
    for guarantee in BOTH {
        for caching in CACHES {
            let windows = TimeWindows::of_size_with_no_grace(ms(10)).advance_by(ms(5));
            let driver = counted(windows).guarantee(guarantee).caching(caching).manual_commit().build().unwrap();
            let out = driver.output("out", TimeWindowed::new(Utf8, 10), I64);
            pipe(&driver, &[("a", "", 1)]);
            driver.commit().unwrap();
            pipe(&driver, &[("b", "", 6), ("a", "", 7), ("b", "", 12)]);
            driver.commit().unwrap();
            assert_eq!(told(&out), ["a[0]=2@7", "b[0]=1@6"]);
            pipe(&driver, &[("z", "", 50)]);
            driver.commit().unwrap();
            assert_eq!(told(&out), ["a[5]=1@7", "b[5]=2@12", "b[10]=1@12"]);
            let buffer = driver.store("final-store", TimeWindowed::new(Utf8, 10), I64);
            assert_eq!(buffer.all().len(), 2);
            assert_eq!(buffer.changelog(), buffer.all());
            assert_eq!(driver.committed("in", 0), Some(5));
        }
    }
}

/// As above, where the cache is that of an aggregation of several streams: it is drained at another node than writes to it.
#[test]
fn b039_behind_the_cache_of_a_cogroup_a_final_result_has_all_updates_of_its_window() {
    for caching in CACHES {
        let driver = builder(|b| {
            let table = grouped(b)
                .cogroup(concat)
                .windowed_by(TimeWindows::of_size_and_grace(ms(100), ms(30)))
                .aggregate(String::new, Materialized::named("s").value(Utf8));
            finals(table.suppress(until_closed()), TimeWindowed::new(Utf8, 100), Utf8);
        });
        let driver = driver.caching(caching).manual_commit().build().unwrap();
        let input = driver.input("in", Utf8, Utf8);
        for (key, value, time) in [("a", "1", 120), ("b", "2", 70), ("a", "3", 190)] {
            input.send(key, value, time).unwrap();
        }
        driver.commit().unwrap();
        let out = driver.output("out", TimeWindowed::new(Utf8, 100), Utf8);
        assert_eq!(out.read_all().iter().map(text).collect::<Vec<_>>(), ["b[0,100)=2@70"], "caching: {caching}");
    }
}

fn rows_waiting(metrics: &MetricsRegistry) -> Vec<(u64, u64, u64)> {
    let values = metrics.snapshot();
    let of = |gauge: Gauge| {
        let of_stores =
            values.iter().filter(move |(name, scope, _)| *name == gauge.name() && matches!(scope, Scope::Store { .. }));
        of_stores.map(|(.., value)| *value)
    };
    let sized = of(Gauge::SuppressionBufferCount).zip(of(Gauge::SuppressionBufferSize));
    sized.zip(of(Gauge::SuppressionBufferOldest)).map(|((rows, bytes), oldest)| (rows, bytes, oldest)).collect()
}

fn with_header(key: &str, time: i64, header: &'static str) -> TestRecord<String, String> {
    TestRecord::new(key.to_owned(), String::new(), time).header("h", header)
}

#[test]
fn b073_a_restored_buffer_tells_the_rest_once_with_times_and_headers() {
    for guarantee in BOTH {
        for start in [Driver::crash, Driver::restart, Driver::restart_without_state] {
            let driver = counted(TimeWindows::of_size_with_no_grace(ms(10))).guarantee(guarantee).build().unwrap();
            let (input, out) = (driver.input("in", Utf8, Utf8), driver.output("out", TimeWindowed::new(Utf8, 10), I64));
            for record in [with_header("k", 1, "H"), with_header("j", 2, "J"), with_header("k", 11, "K")] {
                input.pipe_record(&record).unwrap();
            }
            let result = |key: &str, start, time, header: &'static str| {
                let key = Windowed { key: key.to_owned(), start, end: start + 10 };
                TestRecord::new(key, 1, time).header("h", header)
            };
            assert_eq!(out.read_all(), [result("j", 0, 2, "J"), result("k", 0, 1, "H")]);
            input.pipe_record(&with_header("m", 12, "M")).unwrap();
            assert!(out.is_empty());
            start(&driver).unwrap();
            input.pipe_record(&with_header("z", 25, "Z")).unwrap();
            assert_eq!(out.read_all(), [result("k", 10, 11, "K"), result("m", 10, 12, "M")]);
            let waiting = rows_waiting(&driver.metrics());
            assert!(matches!(waiting[..], [(1, bytes, 30)] if bytes > 0), "{waiting:?}");

            start(&driver).unwrap();
            pipe(&driver, &[("k", "", 3), ("m", "", 19), ("z", "", 99)]);
            assert_eq!(out.read_all(), [result("z", 20, 25, "Z")], "nothing is told of again");
            let buffer = driver.store("final-store", TimeWindowed::new(Utf8, 10), I64);
            assert_eq!(buffer.changelog(), buffer.all());
        }
    }
}

/// Records that nodes have dropped as late.
fn late(driver: &Driver) -> u64 {
    let values = driver.metrics().snapshot();
    let is_late = |scope: &Scope| matches!(scope, Scope::Node { why: Dropped::Late, .. });
    values.iter().filter(|(_, scope, _)| is_late(scope)).map(|(.., n)| n).sum()
}

/// The wall clock at the start, which is also where the event times of a test begin.
const NOW: i64 = 1_700_000_000_000;

#[test]
fn b076_silence_closes_nothing_by_default_and_a_gauge_says_what_waits() {
    for caching in CACHES {
        let windows = TimeWindows::of_size_with_no_grace(ms(10));
        let driver = counted(windows).caching(caching).start_time(NOW).topic("in", 2).build().unwrap();
        let out = driver.output("out", TimeWindowed::new(Utf8, 10), I64);
        driver.input("in", Utf8, Utf8).partition(0).pipe("k", "", NOW + 1).unwrap();
        driver.advance(ms(600_000)).unwrap();
        assert_eq!(told(&out), Vec::<String>::new());
        let waiting = rows_waiting(&driver.metrics());
        let end = (NOW + 10).cast_unsigned();
        assert!(waiting.iter().any(|(rows, bytes, oldest)| *rows == 1 && *bytes > 0 && *oldest == end), "{waiting:?}");
    }
}

#[test]
fn b076_with_an_idle_limit_the_last_window_is_told_of_once() {
    for guarantee in BOTH {
        for caching in CACHES {
            let windows = TimeWindows::of_size_with_no_grace(ms(10)).idle_after(ms(30_000));
            let driver =
                counted(windows).guarantee(guarantee).caching(caching).start_time(NOW).topic("in", 2).build().unwrap();
            let out = driver.output("out", TimeWindowed::new(Utf8, 10), I64);
            let input = driver.input("in", Utf8, Utf8);
            let (one, other) = (input.partition(0), input.partition(1));
            one.pipe("k", "", NOW + 1).unwrap();
            other.pipe("j", "", NOW + 2).unwrap();
            driver.advance(ms(29_000)).unwrap();
            other.pipe("j", "", NOW + 3).unwrap();
            assert!(out.is_empty());
            driver.advance(ms(2_000)).unwrap();
            driver.commit().unwrap();
            let k = format!("k[{NOW}]=1@{}", NOW + 1);
            assert_eq!(told(&out), [k], "the other partition is not idle");

            for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
                let before = late(&driver);
                one.pipe("k", "", NOW + 5).unwrap();
                assert_eq!(late(&driver), before + 1, "it is late: its window was told of");
                start(&driver).unwrap();
            }
            driver.advance(ms(600_000)).unwrap();
            driver.commit().unwrap();
            assert_eq!(told(&out), [format!("j[{NOW}]=2@{}", NOW + 3)], "once");
            driver.advance(ms(600_000)).unwrap();
            driver.commit().unwrap();
            assert!(out.is_empty());
            assert!(rows_waiting(&driver.metrics()).iter().all(|(rows, ..)| *rows == 0));
        }
    }
}

#[test]
fn b077_what_waits_is_restored_from_kafka_s_bytes() {
    let driver = counted(TimeWindows::of_size_with_no_grace(ms(10))).build().unwrap();
    pipe(&driver, &[("a", "", 1)]);
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let records = driver.records("final-store-changelog");
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!(record.key.as_deref().map(hex).unwrap(), "610000000000000000");
    let value = record.value.as_deref().map(hex).unwrap();
    let (context, rest) = value.split_at(60);
    assert_eq!(context, "0000000000000001000000000000000000000002696e0000000000000000");
    assert!(rest.ends_with("000000080000000000000001000000000000000a"), "{rest}");
    assert_eq!(
        record.headers.iter().map(|h| (&*h.name, h.value.as_deref())).collect::<Vec<_>>(),
        [("v", Some(&[3][..]))]
    );
    driver.restart_without_state().unwrap();
    let buffer = driver.store("final-store", TimeWindowed::new(Utf8, 10), I64);
    assert_eq!(buffer.all().len(), 1);
    assert_eq!(buffer.changelog(), buffer.all());
}
