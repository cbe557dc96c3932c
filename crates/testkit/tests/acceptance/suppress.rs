//! Suppressed tables: what waits, for how long, in which order it comes out, and that it does so once.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_runtime::{Gauge, Scope};
use millpond_testkit::{Driver, DriverBuilder, RawRecord, TestRecord};
use millpond_topology::{
    BufferConfig, Builder, Consumed, Grouped, I64, Materialized, Nullable, ProblemKind, Produced, StoreFormat,
    Suppressed, Topology, Utf8,
};

use crate::support::{BOTH, assert_names, builder, kvs, topology};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A table of texts, its updates held back until a time limit.
fn limited<W: 'static>(limit: u64, buffer: BufferConfig<W>) -> DriverBuilder {
    builder(|b| suppressed(b, limit, buffer))
}

fn suppressed<W: 'static>(b: &mut Builder, limit: u64, buffer: BufferConfig<W>) {
    b.table_materialized("in", Consumed::with(Utf8, Utf8), Materialized::named("t"))
        .suppress(Suppressed::until_time_limit(ms(limit), buffer).named("limit"))
        .to_stream()
        .to("out", Produced::default());
}

/// Key, value, time.
type Row = (String, Option<String>, i64);

/// What has come out since it was asked last.
struct Out(millpond_testkit::OutputTopic<String, Option<String>>);

impl Out {
    fn of(driver: &Driver) -> Self {
        Self(driver.output("out", Utf8, Nullable(Utf8)))
    }

    fn read(&self) -> Vec<Row> {
        self.0.read_all().into_iter().map(|r| (r.key, r.value, r.timestamp)).collect()
    }
}

fn rows(rows: &[(&str, Option<&str>, i64)]) -> Vec<Row> {
    rows.iter().map(|(k, v, t)| ((*k).to_owned(), v.map(str::to_owned), *t)).collect()
}

fn put(driver: &Driver, key: &str, value: Option<&str>, time: i64) {
    let input = driver.input("in", Utf8, Utf8);
    match value {
        Some(value) => input.pipe(key, value, time).unwrap(),
        None => input.delete(key, time).unwrap(),
    }
}

/// What waits in the topology's only buffer: how many rows, whether they have bytes, and the time of the oldest.
fn waiting(driver: &Driver) -> (u64, bool, u64) {
    let values = driver.metrics().snapshot();
    let gauge = |gauge: Gauge| {
        let mut of_stores =
            values.iter().filter(|(name, scope, _)| *name == gauge.name() && matches!(scope, Scope::Store { .. }));
        of_stores.next().unwrap().2
    };
    let bytes = gauge(Gauge::SuppressionBufferSize) > 0;
    (gauge(Gauge::SuppressionBufferCount), bytes, gauge(Gauge::SuppressionBufferOldest))
}

#[test]
fn b075_a_row_waits_from_its_first_update_on() {
    for guarantee in BOTH {
        let driver = limited(5, BufferConfig::unbounded()).guarantee(guarantee).build().unwrap();
        let out = Out::of(&driver);
        for (key, value, time, told) in [
            ("k1", "a", 0, &[][..]),
            ("k1", "b", 4, &[]),
            ("k2", "c", 5, &[("k1", Some("b"), 4)]),
            ("k3", "d", 9, &[]),
            ("k3", "e", 14, &[("k2", Some("c"), 5), ("k3", Some("e"), 14)]),
            ("k4", "f", 100, &[]),
        ] {
            put(&driver, key, Some(value), time);
            assert_eq!(out.read(), rows(told), "{key}={value}@{time}");
        }
        assert_eq!(waiting(&driver), (1, true, 100));
        let buffer = driver.store("limit-store", Utf8, Utf8);
        assert_eq!(buffer.all_with_timestamps(), [("k4".to_owned(), "f".to_owned(), 100)]);
        assert_eq!(buffer.changelog(), buffer.all());
    }
}

#[test]
fn b075_the_oldest_row_goes_early_when_the_buffer_is_full() {
    let driver = limited(500, BufferConfig::max_records(2).emit_early_when_full()).build().unwrap();
    let out = Out::of(&driver);
    for (key, value, time, told) in [
        ("k1", "a", 0, &[][..]),
        ("k2", "b", 1, &[]),
        ("k1", "c", 2, &[]),
        ("k3", "d", 3, &[("k1", Some("c"), 2)]),
        ("k4", "e", 4, &[("k2", Some("b"), 1)]),
        ("k4", "f", 0, &[]),
    ] {
        put(&driver, key, Some(value), time);
        assert_eq!(out.read(), rows(told), "{key}={value}@{time}");
    }
    assert_eq!(driver.store("limit-store", Utf8, Utf8).all(), kvs(&[("k3", "d".to_owned()), ("k4", "f".to_owned())]));
}

#[test]
fn b075_bytes_can_be_the_limit() {
    let driver = limited(500, BufferConfig::max_bytes(200).emit_early_when_full()).build().unwrap();
    let out = Out::of(&driver);
    put(&driver, "k1", Some("a"), 0);
    put(&driver, "k2", Some("b"), 1);
    assert_eq!(out.read(), []);
    put(&driver, "k3", Some(&"x".repeat(120)), 2);
    assert_eq!(out.read(), rows(&[("k1", Some("a"), 0), ("k2", Some("b"), 1)]));
    put(&driver, "k3", Some(&"y".repeat(300)), 3);
    assert_eq!(out.read(), rows(&[("k3", Some(&"y".repeat(300)), 3)]), "one that is too large alone goes at once");
}

#[test]
fn b075_a_full_buffer_stops_the_application_at_the_record_that_is_too_much() {
    for guarantee in BOTH {
        for policy in ["fail", "continue"] {
            let driver = limited(500, BufferConfig::max_records(2).with_max_bytes(1 << 20).shut_down_when_full())
                .guarantee(guarantee)
                .setting("processing.exception.handler", policy)
                .build()
                .unwrap();
            for (key, time) in [("k1", 0), ("k2", 1), ("k1", 2)] {
                put(&driver, key, Some("v"), time);
            }
            let failed = driver.input("in", Utf8, Utf8).pipe("k3", "v", 3).unwrap_err();
            let named = ["buffer is full", "node=`limit`", "records=`3`", "max records=`2`", "max bytes=`1048576`"];
            assert_names(&failed, &named);
            assert_names(&failed, &["offset=`3`", "let the buffer spill when it is full, or raise its limit"]);
            assert_eq!(driver.committed("in", 0), Some(3), "the record is the next one");
            assert!(Out::of(&driver).read().is_empty());
        }
    }
}

#[test]
fn a_limit_without_more_lets_rows_spill() {
    let driver = limited(1_000, BufferConfig::max_records(2).with_max_bytes(10).spill_when_full())
        .caching(1 << 20)
        .manual_commit()
        .build()
        .unwrap();
    for n in 0..500 {
        put(&driver, &format!("k{n:03}"), Some("v"), n);
    }
    driver.commit().unwrap();
    let out = Out::of(&driver);
    assert!(out.read().is_empty());
    assert_eq!(waiting(&driver), (500, true, 0));
    put(&driver, "z", Some("v"), 5_000);
    driver.commit().unwrap();
    let told = out.read();
    assert_eq!(told.len(), 500);
    assert!(told.is_sorted(), "in the order of their times");
    assert_eq!(waiting(&driver), (1, true, 5_000));
}

#[test]
fn deletes_wait_as_well() {
    let driver = limited(5, BufferConfig::unbounded()).build().unwrap();
    let out = Out::of(&driver);
    for (key, value, time, told) in [
        ("k", Some("a"), 0, &[][..]),
        ("k", None, 1, &[]),
        ("j", Some("b"), 10, &[("k", None, 1)]),
        ("j", None, 11, &[]),
        ("z", Some("c"), 100, &[("j", None, 11)]),
    ] {
        put(&driver, key, value, time);
        assert_eq!(out.read(), rows(told), "{key}={value:?}@{time}");
    }
}

#[test]
fn updates_out_of_order_keep_their_place() {
    let driver = limited(10, BufferConfig::unbounded()).build().unwrap();
    let out = Out::of(&driver);
    for (key, value, time, told) in [
        ("a", "1", 10, &[][..]),
        ("b", "2", 5, &[]),
        ("a", "3", 12, &[]),
        ("c", "4", 16, &[("b", Some("2"), 5)]),
        ("d", "5", 20, &[("a", Some("3"), 12)]),
        ("e", "6", 40, &[("c", Some("4"), 16), ("d", Some("5"), 20)]),
    ] {
        put(&driver, key, Some(value), time);
        assert_eq!(out.read(), rows(told), "{key}={value}@{time}");
    }
}

/// The bytes are those that Kafka Streams 4.4 writes for these steps.
#[test]
fn the_changelog_has_kafka_s_bytes() {
    let driver = limited(5, BufferConfig::unbounded()).build().unwrap();
    let input = driver.input("in", Utf8, Utf8);
    let headers = |value: &'static str| TestRecord::new("a".to_owned(), "1".to_owned(), 0).header("h", value).headers;
    input.pipe_with("a", "1", 0, headers("x")).unwrap();
    input.pipe_with("a", "2", 1, headers("y")).unwrap();
    input.pipe("b", "3", 10).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let logged = |r: RawRecord| {
        let headers: Vec<_> =
            r.headers.iter().map(|h| (h.name.to_string(), hex(h.value.as_deref().unwrap()))).collect();
        (hex(&r.key.unwrap()), r.value.as_deref().map(hex), r.timestamp, headers)
    };
    let version = || vec![("v".to_owned(), "03".to_owned())];
    let value = |text: &str| Some(text.replace(' ', ""));
    let context = |ts: u8, offset: u8| format!("{ts:016x} {offset:016x} 00000002 696e 00000000");
    let first = format!("{} 00000001 00000001 68 00000001 78 ffffffff ffffffff 00000001 31 {:016x}", context(0, 0), 0);
    let second =
        format!("{} 00000001 00000001 68 00000001 79 ffffffff 00000001 31 00000001 32 {:016x}", context(1, 1), 0);
    let third = format!("{} 00000000 ffffffff ffffffff 00000001 33 {:016x}", context(10, 2), 10);
    let mut records: Vec<_> = driver.records("limit-store-changelog").into_iter().map(logged).collect();
    // What one step writes of different keys may be in any order.
    records[2..].sort();
    assert_eq!(
        records,
        [
            ("61".to_owned(), value(&first), -1, version()),
            ("61".to_owned(), value(&second), -1, version()),
            ("61".to_owned(), None, -1, Vec::new()),
            ("62".to_owned(), value(&third), -1, version()),
        ]
    );
}

#[test]
fn what_comes_out_has_its_own_time_and_headers_and_so_after_a_restore() {
    for guarantee in BOTH {
        for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
            let driver = limited(5, BufferConfig::unbounded()).guarantee(guarantee).build().unwrap();
            let input = driver.input("in", Utf8, Utf8);
            let first = TestRecord::new("a".to_owned(), "1".to_owned(), 0).header("h", "x");
            let last = TestRecord::new("a".to_owned(), "2".to_owned(), 1).header("h", "y").header("", "z");
            input.pipe_record(&first).unwrap();
            input.pipe_record(&last).unwrap();
            let before = driver.store("limit-store", Utf8, Utf8).raw();
            start(&driver).unwrap();
            assert_eq!(driver.store("limit-store", Utf8, Utf8).raw(), before);
            input.pipe("b", "3", 10).unwrap();
            let out = driver.output("out", Utf8, Utf8).read_all();
            assert_eq!(out, [last]);
            assert_eq!(waiting(&driver), (1, true, 10));
        }
    }
}

#[test]
fn a_table_behind_it_takes_off_what_came_out_before() {
    let driver = builder(|b| {
        b.table_materialized("in", Consumed::with(Utf8, Utf8), Materialized::named("t"))
            .suppress(Suppressed::until_time_limit(ms(5), BufferConfig::unbounded()).named("limit"))
            .group_by(|_, group| (group, 1), Grouped::with(Utf8, I64))
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
    .build()
    .unwrap();
    let counts = driver.store("counts", Utf8, I64);
    // Of the first row only the last group came out, and it leaves that one, not those between.
    for (key, value, time) in [("1", Some("g"), 0), ("1", Some("h"), 1), ("2", Some("h"), 10)] {
        put(&driver, key, value, time);
    }
    assert_eq!(counts.all(), kvs(&[("h", 1)]));
    for (key, value, time) in
        [("1", Some("i"), 11), ("1", Some("j"), 12), ("3", Some("h"), 20), ("1", None, 21), ("4", Some("h"), 40)]
    {
        put(&driver, key, value, time);
    }
    assert_eq!(counts.all(), kvs(&[("h", 2), ("j", 0)]));
    assert_eq!(counts.changelog(), counts.all());
}

#[test]
fn time_does_not_go_back_over_restarts() {
    for guarantee in BOTH {
        for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
            let driver = limited(10, BufferConfig::unbounded()).guarantee(guarantee).build().unwrap();
            let out = Out::of(&driver);
            put(&driver, "a", Some("1"), 100);
            start(&driver).unwrap();
            put(&driver, "b", Some("2"), 50);
            assert_eq!(out.read(), rows(&[("b", Some("2"), 50)]), "it is 100, so what came at 50 is through");
            put(&driver, "c", Some("3"), 109);
            assert_eq!(out.read(), []);
            put(&driver, "d", Some("4"), 110);
            assert_eq!(out.read(), rows(&[("a", Some("1"), 100)]));
        }
    }
}

#[test]
fn behind_a_cache_it_sees_what_the_commits_bring() {
    for guarantee in BOTH {
        let driver = limited(5, BufferConfig::unbounded())
            .guarantee(guarantee)
            .caching(1 << 20)
            .manual_commit()
            .build()
            .unwrap();
        let out = Out::of(&driver);
        for (key, value, time) in [("a", "1", 0), ("a", "2", 1), ("b", "3", 20), ("b", "4", 21), ("a", "5", 22)] {
            put(&driver, key, Some(value), time);
        }
        assert_eq!(out.read(), []);
        driver.commit().unwrap();
        // One update of each row has come, and that of the first is of the time 22.
        assert_eq!(out.read(), []);
        assert_eq!(driver.records("limit-store-changelog").len(), 2);
        put(&driver, "c", Some("6"), 26);
        driver.commit().unwrap();
        assert_eq!(out.read(), rows(&[("b", Some("4"), 21)]));
        let buffer = driver.store("limit-store", Utf8, Utf8);
        assert_eq!(buffer.changelog(), buffer.all());
    }
}

#[test]
fn b039_chained_caches_and_what_is_suppressed_behind_them_go_in_one_commit() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            let first = b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key().count(Materialized::named("z-first"));
            first
                .to_stream()
                .group_by_key_with(Grouped::with(Utf8, I64))
                .reduce(|a, b| a + b, Materialized::named("a-second"))
                .suppress(Suppressed::until_time_limit(ms(5), BufferConfig::unbounded()).named("limit"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .caching(1 << 20)
        .manual_commit()
        .build()
        .unwrap();
        for (key, time) in [("k", 0), ("k", 1), ("j", 20)] {
            put(&driver, key, Some("v"), time);
        }
        driver.commit().unwrap();
        let second = driver.store("a-second", Utf8, I64);
        assert_eq!(second.changelog(), kvs(&[("j", 1), ("k", 2)]));
        assert_eq!(driver.output("out", Utf8, I64).read_key_values(), kvs(&[("k", 2)]));
        let buffer = driver.store("limit-store", Utf8, I64);
        assert_eq!(buffer.changelog(), kvs(&[("j", 1)]));
        assert_eq!(driver.committed("in", 0), Some(3));
        driver.crash().unwrap();
        assert_eq!(buffer.all(), kvs(&[("j", 1)]));
        assert!(driver.output("out", Utf8, I64).read_all().len() == 1, "what was committed is not said again");
    }
}

#[test]
fn what_comes_and_goes_between_two_commits_is_not_logged() {
    let driver = limited(5, BufferConfig::unbounded()).caching(1 << 20).manual_commit().build().unwrap();
    let input = driver.input("in", Utf8, Utf8);
    for n in 0..100 {
        input.send(format!("k{}", n % 10), "v", n).unwrap();
        driver.run().unwrap();
    }
    driver.commit().unwrap();
    let records = driver.records("limit-store-changelog");
    assert!(records.len() <= 10, "{} records for ten rows", records.len());
}

#[test]
fn time_goes_on_without_records_if_that_is_asked_for() {
    for caching in [0, 1 << 20] {
        let driver = builder(|b| {
            b.table_materialized("in", Consumed::with(Utf8, Utf8), Materialized::named("t"))
                .suppress(
                    Suppressed::until_time_limit(ms(5), BufferConfig::unbounded())
                        .idle_after(ms(30_000))
                        .named("limit"),
                )
                .to_stream()
                .to("out", Produced::default());
        })
        .caching(caching)
        .start_time(1_000_000)
        .build()
        .unwrap();
        let out = Out::of(&driver);
        put(&driver, "a", Some("1"), 1_000_000);
        driver.advance(ms(29_000)).unwrap();
        assert_eq!(out.read(), []);
        driver.advance(ms(1_004)).unwrap();
        driver.commit().unwrap();
        assert_eq!(out.read(), [], "as by the clock less the limit, it waits for 4 ms");
        driver.advance(ms(1_000)).unwrap();
        driver.commit().unwrap();
        assert_eq!(out.read(), rows(&[("a", Some("1"), 1_000_000)]));
        driver.advance(ms(600_000)).unwrap();
        assert_eq!(out.read(), [], "once");
        assert_eq!(waiting(&driver).0, 0);
    }
}

/// Where stores keep headers, the changelog says beside an old value what stood before it. The bytes are Kafka Streams'.
#[test]
fn the_changelog_keeps_the_headers_of_old_values() {
    [StoreFormat::Headers, StoreFormat::LastHeaders].into_iter().for_each(headers_of_old_values);
}

fn headers_of_old_values(format: StoreFormat) {
    let driver = builder(|b| {
        b.store_format(format);
        suppressed(b, 5, BufferConfig::unbounded());
    })
    .build()
    .unwrap();
    let input = driver.input("in", Utf8, Utf8);
    for (key, value, time, header) in [("a", "1", 0, "x"), ("a", "2", 1, "y"), ("b", "3", 10, "z")] {
        let record = TestRecord::new(key.to_owned(), value.to_owned(), time).header("h", header);
        input.pipe_record(&record).unwrap();
    }
    input.pipe("a", "4", 20).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let of = |key: &[u8]| {
        let records = driver.records("limit-store-changelog").into_iter();
        let of_key = records.filter(|r| r.key.as_deref() == Some(key) && r.value.is_some());
        let headers =
            |r: RawRecord| r.headers.iter().map(|h| (h.name.to_string(), hex(h.value.as_deref().unwrap()))).collect();
        of_key.map(headers).collect::<Vec<Vec<(String, String)>>>()
    };
    let headers =
        |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
    let first = headers(&[("v", "03")]);
    let second = headers(&[("v", "03"), ("vh.old", "0a02026802780000000000000000")]);
    let third = headers(&[("v", "03"), ("vh.old", "00ffffffffffffffff")]);
    assert_eq!(of(b"a"), [first.clone(), second, third]);
    assert_eq!(of(b"b"), [first]);
    let before = driver.store("limit-store", Utf8, Utf8).raw();
    driver.restart_without_state().unwrap();
    assert_eq!(driver.store("limit-store", Utf8, Utf8).raw(), before);
}

/// A row that waits: since when, its last update and the time of that.
type Held = (i64, Option<String>, i64);

/// What comes out, by the rule alone.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<String, Held>,
    now: i64,
}

impl Model {
    fn update(&mut self, key: &str, value: Option<&str>, time: i64, limit: i64) -> Vec<Row> {
        self.now = self.now.max(time);
        let since = self.waiting.get(key).map_or(time, |held| held.0);
        self.waiting.insert(key.to_owned(), (since, value.map(str::to_owned), time));
        let is_due = |held: &Held| held.0 + limit <= self.now;
        let mut due: Vec<_> =
            self.waiting.iter().filter(|(_, held)| is_due(held)).map(|(k, h)| (h.0, k.clone())).collect();
        due.sort();
        let taken = due.into_iter().filter_map(|(_, key)| self.waiting.remove_entry(&key));
        taken.map(|(key, (_, value, time))| (key, value, time)).collect()
    }
}

#[test]
fn whatever_happens_between_records_the_same_comes_out() {
    const LIMIT: u64 = 20;
    for seed in 0..24_u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let driver = limited(LIMIT, BufferConfig::unbounded()).guarantee(BOTH[(seed % 2) as usize]).build().unwrap();
        let (out, buffer) = (Out::of(&driver), driver.store("limit-store", Utf8, Nullable(Utf8)));
        let (mut model, mut time) = (Model::default(), 0);
        for n in 0..60 {
            time += rng.i64(0..6);
            let at = (time - rng.i64(0..25)).max(0);
            let key = ["a", "aa", "b", "", "c"][rng.usize(0..5)];
            let text = n.to_string();
            let value = (rng.u8(0..5) > 0).then_some(text.as_str());
            put(&driver, key, value, at);
            assert_eq!(out.read(), model.update(key, value, at, LIMIT as i64), "seed {seed}, update {n}");
            match rng.u8(0..12) {
                0 => driver.restart().unwrap(),
                1 => driver.crash().unwrap(),
                2 => driver.restart_without_state().unwrap(),
                _ => continue,
            }
            assert_eq!(buffer.raw().len(), model.waiting.len(), "seed {seed}, after update {n}");
            assert_eq!(buffer.changelog(), buffer.all(), "seed {seed}, after update {n}");
        }
    }
}

/// A topology, what is wrong with it, and what the message names.
type Refused<'a> = (&'a dyn Fn(&mut Builder), ProblemKind, &'a [&'a str]);

#[test]
fn what_cannot_be_suppressed_is_refused() {
    let windowed = |b: &mut Builder| {
        let serde = || millpond_topology::TimeWindowed::new(Utf8, 10);
        let _ = b
            .table("in", Consumed::with(serde(), Utf8))
            .suppress(Suppressed::until_window_closes(BufferConfig::unbounded()).named("final"));
    };
    let no_serde = |b: &mut Builder| {
        let _ = b
            .table("in", Consumed::with(Utf8, Utf8))
            .map_values(|v| v.len())
            .suppress(Suppressed::until_time_limit(ms(1), BufferConfig::unbounded()).named("limit"));
    };
    let twice = |b: &mut Builder| {
        let table = b.table("in", Consumed::with(Utf8, Utf8));
        for _ in 0..2 {
            let limit = Suppressed::until_time_limit(ms(1), BufferConfig::unbounded()).named("limit");
            let _ = table.clone().suppress(limit);
        }
    };
    let versioned = |b: &mut Builder| {
        let versions = Materialized::named("t").history_retention(ms(100));
        let _ = b
            .table_materialized("in", Consumed::with(Utf8, Utf8), versions)
            .suppress(Suppressed::until_time_limit(ms(1), BufferConfig::unbounded()).named("limit"));
    };
    let cases: [Refused<'_>; 4] = [
        (&versioned, ProblemKind::Shape, &["`limit`", "versioned table"]),
        (&windowed, ProblemKind::Shape, &["`final`", "not made of windows", "suppress the aggregation itself"]),
        (
            &no_serde,
            ProblemKind::MissingSerde,
            &["`suppress`", "(`limit`)", "`map_values_materialized(f, Materialized::with(..))`"],
        ),
        (&twice, ProblemKind::Clash, &["limit-store", "`limit`"]),
    ];
    for (define, kind, parts) in cases {
        let mut b = Topology::builder();
        define(&mut b);
        let refused = b.build().unwrap_err();
        let problem = refused.problems().iter().find(|p| p.kind == kind).unwrap();
        assert!(parts.iter().all(|part| refused.to_string().contains(part)), "{problem:?} in {refused}");
    }
}

#[test]
fn names_and_topics_are_kafka_s() {
    let named = topology(|b| suppressed(b, 1_000, BufferConfig::unbounded()));
    let text = named.describe().to_string();
    let part = "    Processor: limit (stores: [limit-store])\n      --> KTABLE-TOSTREAM-0000000002\n      <-- KTABLE-SOURCE-0000000001\n";
    assert!(text.contains(part), "{text}");
    let generated = topology(|b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .count(Materialized::named("w"))
            .suppress(Suppressed::until_time_limit(ms(1), BufferConfig::unbounded()))
            .to_stream()
            .to("out", Produced::default());
    });
    let text = generated.describe().to_string();
    let part = "    Processor: KTABLE-SUPPRESS-0000000002 (stores: [KTABLE-SUPPRESS-STATE-STORE-0000000003])\n      --> KTABLE-TOSTREAM-0000000004\n";
    assert!(text.contains(part), "{text}");
    let driver = Driver::builder(named).build().unwrap();
    let mut admin = millpond_broker_api::Broker::admin(&driver.broker()).unwrap();
    let topic = admin.describe(&["test-limit-store-changelog"]).unwrap().remove(0).unwrap();
    assert!(topic.configs.contains(&("cleanup.policy".to_owned(), "compact".to_owned())), "{:?}", topic.configs);
}
