//! Tables that keep the versions of their rows, and tables whose rows have a time to live.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_runtime::Counter;
use millpond_testkit::Driver;
use millpond_topology::{
    Builder, Consumed, Deletes, Grouped, I64, Json, Materialized, Nullable, ProblemKind, Produced, Record, StoreFormat,
    StoreRef, StoreType, Table, Topology, TtlKeyValue, Utf8, Versioned,
};

use crate::support::{BOTH, builder, closure, driver, kvs, pipe, topology};

type Rows = Table<String, String, Deletes>;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn versioned(b: &mut Builder) -> Rows {
    let kept = Materialized::named("rows").history_retention(ms(100));
    b.table_materialized("in", Consumed::with(Utf8, Utf8), kept)
}

pub(crate) fn count_by_value(rows: Rows) {
    rows.group_by(|_, v| (v, ()), Grouped::with(Utf8, Json::<()>::default()))
        .count(Materialized::named("counts"))
        .to_stream()
        .to("counts", Produced::with(Utf8, I64));
}

fn update(driver: &Driver, updates: &[(Option<&str>, i64)]) {
    let input = driver.input("in", Utf8, Utf8);
    for (value, timestamp) in updates {
        match value {
            Some(value) => input.pipe("k", *value, *timestamp).unwrap(),
            None => input.delete("k", *timestamp).unwrap(),
        }
    }
}

fn told(driver: &Driver) -> Vec<(Option<String>, i64)> {
    let all = driver.output("out", Utf8, Nullable(Utf8)).read_all();
    all.into_iter().map(|r| (r.value, r.timestamp)).collect()
}

/// A version's value and time.
type Version = Option<(String, i64)>;

/// What was valid when, as a processor that shares the table's store finds it.
fn as_of(b: &mut Builder, rows: &Rows, found: &Arc<Mutex<Vec<Version>>>) {
    let (store, found) = (rows.store::<Versioned<String, String>>().unwrap(), found.clone());
    let ask = closure(move |rows: &StoreRef<Versioned<String, String>>, cx, record: Record<String, i64>| {
        let version = cx.store(rows)?.get_as_of(&record.key, record.value)?;
        found.lock().unwrap().push(version.map(|v| (v.value, v.timestamp)));
        Ok(())
    });
    let _ = b.stream("ask", Consumed::with(Utf8, I64)).process(&store, ask);
}

#[test]
fn b046_a_versioned_table_puts_late_updates_in_their_place_and_tells_aggregates_of_the_latest_only() {
    for guarantee in BOTH {
        let found = Arc::default();
        let driver = builder(|b| {
            let rows = versioned(b);
            as_of(b, &rows, &found);
            rows.clone().to_stream().to("out", Produced::default());
            count_by_value(rows);
        })
        .guarantee(guarantee)
        .caching(1 << 20)
        .build()
        .unwrap();
        update(&driver, &[(Some("new"), 20), (Some("old"), 10), (None, 15)]);
        for way in [Driver::commit, Driver::restart, Driver::crash, Driver::restart_without_state] {
            way(&driver).unwrap();
            let ask = driver.input("ask", Utf8, I64);
            for time in [1_000, 16, 12, 9] {
                ask.pipe("k", time, 20).unwrap();
            }
            let version = |text: &str, from| Some((text.to_owned(), from));
            assert_eq!(*found.lock().unwrap(), [version("new", 20), None, version("old", 10), None]);
            found.lock().unwrap().clear();
        }
        assert_eq!(driver.versioned_store("rows", Utf8, Utf8).all(), [("k".to_owned(), "new".to_owned(), 20)]);
        assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("new", 1)]));
        let counted = driver.output("counts", Utf8, I64);
        assert_eq!(counted.read_key_values(), kvs(&[("new", 1)]));
        let new = |v: &str| Some(v.to_owned());
        assert_eq!(told(&driver), [(new("new"), 20), (new("old"), 10), (None, 15)], "as a stream all are told");
        update(&driver, &[(Some("newer"), 30)]);
        assert_eq!(counted.read_key_values(), kvs(&[("new", 0), ("newer", 1)]));
    }
}

#[test]
fn what_is_older_than_the_history_is_dropped_and_counted() {
    let driver = driver(|b| versioned(b).to_stream().to("out", Produced::default()));
    update(&driver, &[(Some("e"), 200), (Some("f"), 99), (Some("g"), 100)]);
    assert_eq!(told(&driver), [(Some("e".to_owned()), 200), (Some("g".to_owned()), 100)]);
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
    let logged: Vec<_> = driver.records("rows-changelog").iter().map(|r| r.timestamp).collect();
    assert_eq!(logged, [200, 100]);
}

#[test]
fn what_filters_and_maps_a_versioned_table_is_versioned_until_its_rows_are_kept_otherwise() {
    let driver = driver(|b| {
        let rows = versioned(b);
        rows.clone()
            .filter(|_, v| v.starts_with('n'))
            .map_values(|v| v + "!")
            .to_stream()
            .to("out", Produced::with(Utf8, Nullable(Utf8)));
        count_by_value(rows.clone().filter(|_, v| v.starts_with('n')).map_values(|v| v + "!"));
        // A plain store has no versions: the update that comes last wins, and that is what is counted.
        let plain = rows.map_values_materialized(|v| v, Materialized::named("plain").value(Utf8));
        let _ = plain
            .group_by(|_, v| (v, ()), Grouped::with(Utf8, Json::<()>::default()))
            .count(Materialized::named("plain-counts"));
    });
    update(&driver, &[(Some("new"), 20), (Some("old"), 10), (Some("nut"), 15), (Some("x"), 30), (Some("y"), 25)]);
    let new = |v: &str| Some(v.to_owned());
    let want = [(new("new!"), 20), (None, 10), (new("nut!"), 15), (None, 30), (None, 25)];
    assert_eq!(told(&driver), want, "a delete for each version that does not pass");
    assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("new!", 0)]));
    assert_eq!(driver.store("plain", Utf8, Utf8).get("k"), new("y"));
    let counts = driver.store("plain-counts", Utf8, I64).all();
    assert_eq!(counts, kvs(&[("new", 0), ("nut", 0), ("old", 0), ("x", 0), ("y", 1)]));
}

#[test]
fn aggregates_and_other_tables_can_be_versioned() {
    let driver = driver(|b| {
        let history = |name: &str| Materialized::named(name).history_retention(ms(100));
        let stream = b.stream("in", Consumed::with(Utf8, Utf8));
        stream.clone().group_by_key().reduce(|_, b| b, history("last")).to_stream().to("out", Produced::default());
        let rows = stream.to_table(history("rows"));
        let lengths = Materialized::named("lengths").value(I64).history_retention(ms(100));
        let _ = rows.clone().map_values_materialized(|v| v.len() as i64, lengths);
        let _ = rows.clone().filter_not_materialized(|_, v| v == "b", history("others"));
        let _ = rows.group_by(|_, v| (v.clone(), v), Grouped::with(Utf8, Utf8)).reduce(
            |_, b| b,
            |a, _| a,
            history("grouped"),
        );
    });
    update(&driver, &[(Some("a"), 10), (Some("b"), 5), (Some("cc"), 20)]);
    let out = driver.output("out", Utf8, Utf8).read_all();
    let out: Vec<_> = out.into_iter().map(|r| (r.value, r.timestamp)).collect();
    assert_eq!(out, [("a".to_owned(), 10), ("b".to_owned(), 10), ("cc".to_owned(), 20)]);
    assert_eq!(driver.versioned_store("lengths", Utf8, I64).all(), [("k".to_owned(), 2, 20)]);
    assert_eq!(driver.versioned_store("others", Utf8, Utf8).all(), [("k".to_owned(), "cc".to_owned(), 20)]);
    assert_eq!(driver.versioned_store("grouped", Utf8, Utf8).all().len(), 2);
    driver.restart_without_state().unwrap();
    assert_eq!(driver.versioned_store("lengths", Utf8, I64).all(), [("k".to_owned(), 2, 20)]);
}

#[test]
fn a_row_with_a_time_to_live_is_gone_after_it_and_nobody_is_told() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .group_by_key()
                .reduce(|a, b| a + b, Materialized::named("sums").time_to_live(ms(100)))
                .to_stream()
                .to("out", Produced::default());
        })
        .guarantee(guarantee)
        .caching(1 << 20)
        .build()
        .unwrap();
        let sums = driver.store("sums", Utf8, I64);
        pipe(&driver, &[("a", 1, 0), ("b", 1, 50), ("a", 2, 60)]);
        assert_eq!(sums.all(), kvs(&[("a", 3), ("b", 1)]));
        pipe(&driver, &[("c", 1, 150)]);
        assert_eq!(sums.all(), kvs(&[("a", 3), ("c", 1)]), "`b` has lived for 100");
        pipe(&driver, &[("b", 5, 155), ("c", 1, 40)]);
        assert_eq!(sums.all(), kvs(&[("a", 3), ("b", 5), ("c", 2)]), "begun anew; a result has the latest time");
        pipe(&driver, &[("d", 7, 50)]);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1, "what has expired is not put, nor told");
        assert_eq!(crate::support::out(&driver), kvs(&[("a", 1), ("b", 1), ("a", 3), ("c", 1), ("b", 5), ("c", 2)]));
        driver.restart_without_state().unwrap();
        assert_eq!(sums.all(), kvs(&[("a", 3), ("b", 5), ("c", 2)]));
    }
}

#[test]
fn what_lies_behind_a_table_with_a_time_to_live_does_not_know_what_is_gone() {
    let driver = driver(|b| {
        let kept = Materialized::named("rows").time_to_live(ms(100));
        let rows = b.table_materialized("in", Consumed::with(Utf8, Utf8), kept);
        assert!(rows.store::<TtlKeyValue<String, String>>().is_some());
        rows.clone().filter(|_, v| v == "x").to_stream().to("out", Produced::default());
        count_by_value(rows);
    });
    update(&driver, &[(Some("x"), 0), (Some("y"), 50), (Some("x"), 200), (Some("y"), 400)]);
    let x = |at| (Some("x".to_owned()), at);
    assert_eq!(told(&driver), [x(0), (None, 50), x(200)], "at 400 the row was gone, so there was none to delete");
    assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("x", 1), ("y", 2)]), "nor to take off");
}

/// The mistakes of a topology.
#[track_caller]
fn refused(define: impl FnOnce(&mut Builder), parts: &[&str]) {
    let mut b = Topology::builder();
    define(&mut b);
    let error = b.build().unwrap_err();
    assert!(error.problems().iter().all(|p| p.kind == ProblemKind::Store), "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

#[test]
fn a_kind_that_cannot_be_is_refused_by_name() {
    let table = |m: Materialized<String, String>| {
        move |b: &mut Builder| drop(b.table_materialized("in", Consumed::with(Utf8, Utf8), m))
    };
    let named = || Materialized::named("rows");
    refused(table(named().retention(ms(5))), &["`rows`", "no windows", "`history_retention`", "`time_to_live`"]);
    refused(table(named().history_retention(ms(0))), &["`rows`", "history retention of 0 ms"]);
    refused(table(named().time_to_live(Duration::MAX)), &["`rows`", "time to live of", "longest"]);
    let late = |b: &mut Builder| {
        let _ = b.table_materialized("in", Consumed::with(Utf8, Utf8), named());
        b.store_format(StoreFormat::Headers);
    };
    refused(late, &["`KSTREAM-SOURCE-0000000000`", "before all else"]);
}

#[test]
fn a_kind_alone_makes_a_store_with_a_generated_name() {
    let topology = topology(|b| {
        let history = || Materialized::default().history_retention(ms(5));
        let rows = b.table_materialized("in", Consumed::with(Utf8, Utf8), history());
        let _ = rows.filter_materialized(|_, _| true, history());
    });
    let stores: Vec<_> = topology.stores().iter().map(|s| (s.name.as_str(), s.kind, s.caching)).collect();
    let kind = StoreType::VersionedKeyValue;
    let want = [("in-STATE-STORE-0000000000", kind, false), ("KTABLE-FILTER-STATE-STORE-0000000003", kind, false)];
    assert_eq!(stores, want);
}
