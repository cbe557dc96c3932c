//! Tables grouped by another key: what a row counted for is taken off before what it counts for now is added.

use std::time::Duration;

use millpond_runtime::Counter;
use millpond_testkit::{Driver, RawRecord};
use millpond_topology::{
    Builder, Consumed, Deletes, Error, Grouped, I64, Materialized, Nullable, ProblemKind, Produced, SessionWindows,
    Table, Topology, Utf8,
};

use crate::support::{BOTH, builder, driver, kvs, topology};

const CACHES: [u64; 2] = [0, 1 << 20];

/// `group,amount`
fn row(text: &str) -> (String, i64) {
    let (group, amount) = text.split_once(',').unwrap();
    (group.to_owned(), amount.parse().unwrap())
}

fn rows(b: &mut Builder) -> Table<String, String, Deletes> {
    b.table_materialized("in", Consumed::with(Utf8, Utf8), Materialized::named("rows"))
}

/// What the amounts of each group come to.
fn sums(rows: Table<String, String, Deletes>) {
    rows.group_by(|_, v| row(&v), Grouped::named("by-group").key(Utf8).value(I64))
        .reduce(|sum, amount| sum + amount, |sum, amount| sum - amount, Materialized::named("sums"))
        .to_stream()
        .to("out", Produced::with(Utf8, I64));
}

fn pipe(driver: &Driver, updates: &[(&str, Option<&str>)]) {
    let input = driver.input("in", Utf8, Utf8);
    for (n, (key, value)) in (0..).zip(updates) {
        match value {
            Some(value) => input.pipe(*key, *value, n).unwrap(),
            None => input.delete(*key, n).unwrap(),
        }
    }
}

fn out(driver: &Driver) -> Vec<(String, i64)> {
    driver.output("out", Utf8, I64).read_key_values()
}

/// B043's updates.
const UPDATES: [(&str, Option<&str>); 6] = [
    ("1", Some("g,10")),
    ("2", Some("g,5")),
    ("1", Some("g,12")),
    ("1", Some("h,12")),
    ("1", None),
    ("2", Some("g,5")),
];

#[test]
fn b043_no_half_updated_aggregate_when_the_group_stays() {
    for guarantee in BOTH {
        for cache in CACHES {
            let driver = builder(|b| sums(rows(b))).guarantee(guarantee).caching(cache).build().unwrap();
            pipe(&driver, &UPDATES);
            let told = kvs(&[("g", 10), ("g", 15), ("g", 17), ("g", 5), ("h", 12), ("h", 0), ("g", 5)]);
            assert_eq!(out(&driver), told);
            let sums = driver.store("sums", Utf8, I64);
            assert_eq!(sums.all(), kvs(&[("g", 5), ("h", 0)]));
            assert_eq!(sums.changelog(), sums.all());
        }
    }
}

#[test]
fn b043_over_several_partitions_and_restarts_the_sums_are_right() {
    let driver = builder(|b| sums(rows(b))).topic("in", 3).caching(1 << 20).manual_commit().build().unwrap();
    let mut model = std::collections::BTreeMap::new();
    for n in 0..300_i64 {
        let (key, group) = (format!("r{}", n * 7 % 23), ["g", "h", "i", "j"][n as usize * 5 % 11 % 4]);
        if n % 13 == 0 {
            driver.input("in", Utf8, Utf8).delete(key.as_str(), n).unwrap();
            model.remove(&key);
        } else {
            driver.input("in", Utf8, Utf8).pipe(key.as_str(), format!("{group},{n}"), n).unwrap();
            model.insert(key, (group, n));
        }
        match n % 50 {
            20 => driver.restart().unwrap(),
            40 => driver.restart_without_state().unwrap(),
            _ if n % 7 == 0 => driver.commit().unwrap(),
            _ => {}
        }
    }
    driver.commit().unwrap();
    let mut want = std::collections::BTreeMap::from([("g", 0), ("h", 0), ("i", 0), ("j", 0)]);
    for (group, amount) in model.into_values() {
        *want.get_mut(group).unwrap() += amount;
    }
    assert_eq!(driver.store("sums", Utf8, I64).all(), kvs(&Vec::from_iter(want)));
}

#[test]
fn what_is_taken_off_comes_before_what_is_added_and_the_old_key_first() {
    let driver = driver(|b| {
        rows(b)
            .group_by(|_, v| row(&v), Grouped::with(Utf8, I64))
            .aggregate(
                String::new,
                |log, _, amount| format!("{log}+{amount}"),
                |log, _, amount| format!("{log}-{amount}"),
                Materialized::named("log").value(Utf8),
            )
            .to_stream()
            .to("out", Produced::with(Utf8, Utf8));
    });
    pipe(&driver, &UPDATES);
    let told = driver.output("out", Utf8, Utf8).read_key_values();
    let want = [
        ("g", "+10"),
        ("g", "+10+5"),
        ("g", "+10+5-10+12"),
        ("g", "+10+5-10+12-12"),
        ("h", "+12"),
        ("h", "+12-12"),
        ("g", "+10+5-10+12-12-5+5"),
    ];
    assert_eq!(told, want.map(|(k, v)| (k.to_owned(), v.to_owned())));
    // One record where the key stays (KIP-904), old first where it does not: flag bytes 1, 1, 2, 0 and 1, 0, 2.
    let changes = driver.records("log-repartition");
    let flags: Vec<_> = changes.iter().map(|r| *r.value.as_ref().unwrap().last().unwrap()).collect();
    assert_eq!(flags, [1, 1, 2, 0, 1, 0, 2]);
}

#[test]
fn a_table_that_is_grouped_gets_a_store() {
    let define = |b: &mut Builder| {
        sums(b.table("in", Consumed::with(Utf8, Utf8)).filter(|_, v| v.len() > 2).map_values(|v| v + "0"));
    };
    let stores: Vec<_> = topology(define).stores().iter().map(|s| s.name.clone()).collect();
    assert_eq!(
        stores,
        ["in-STATE-STORE-0000000000", "sums"],
        "the source keeps its rows, what filters and maps does not"
    );
    for cache in CACHES {
        let driver = builder(define).caching(cache).build().unwrap();
        pipe(&driver, &[("1", Some("g,1")), ("2", Some("g,2")), ("1", Some("h"))]);
        driver.restart_without_state().unwrap();
        pipe(&driver, &[("2", Some("h,5")), ("3", None)]);
        assert_eq!(out(&driver), kvs(&[("g", 10), ("g", 30), ("g", 20), ("g", 0), ("h", 50)]));
    }
    // So does a table of a stream.
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .to_table(Materialized::default())
            .group_by(|_, v| row(&v), Grouped::with(Utf8, I64))
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    });
    pipe(&driver, &[("1", Some("g,1")), ("1", Some("g,2")), ("1", Some("h,2"))]);
    assert_eq!(out(&driver), kvs(&[("g", 1), ("g", 1), ("g", 0), ("h", 1)]));
}

#[test]
fn aggregates_of_aggregates() {
    for cache in CACHES {
        let driver = builder(|b| {
            // How many groups have how many rows.
            rows(b)
                .group_by(|_, v| row(&v), Grouped::named("by-group").key(Utf8).value(I64))
                .count(Materialized::named("counts"))
                .filter(|_, count| *count > 0)
                .group_by(|group, count| (count.to_string(), group.clone()), Grouped::with(Utf8, Utf8))
                .count(Materialized::named("sizes"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .caching(cache)
        .build()
        .unwrap();
        pipe(&driver, &[("1", Some("g,0")), ("2", Some("h,0")), ("3", Some("g,0")), ("2", Some("g,0")), ("1", None)]);
        assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("g", 2), ("h", 0)]));
        assert_eq!(driver.store("sizes", Utf8, I64).all(), kvs(&[("1", 0), ("2", 1), ("3", 0)]));
    }
}

#[test]
fn b011_what_is_taken_off_of_sessions_is_the_session_itself() {
    let sessions = SessionWindows::of_inactivity_gap_and_grace(Duration::from_millis(10), Duration::from_secs(1));
    for cache in CACHES {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .windowed_by(sessions)
                .count(Materialized::named("sessions"))
                .group_by(|_, count| ("all".to_owned(), count), Grouped::with(Utf8, I64))
                .reduce(|sum, count| sum + count, |sum, count| sum - count, Materialized::named("total"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .caching(cache)
        .build()
        .unwrap();
        let input = driver.input("in", Utf8, Utf8);
        for time in [0, 100, 105] {
            input.pipe("k", "x", time).unwrap();
        }
        assert_eq!(driver.store("total", Utf8, I64).all(), kvs(&[("all", 3)]));
        // [100, 100] goes, then [100, 105] comes.
        let told: &[i64] = if cache == 0 { &[1, 2, 1, 3] } else { &[1, 2, 3] };
        assert_eq!(driver.output("out", Utf8, I64).read_values(), told);
    }
}

#[test]
fn a_new_row_of_a_stream_aggregate_has_no_old_value() {
    // Kafka Streams gives the initializer's value as the old one, so that the count of rows stays at 1.
    for cache in CACHES {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .count(Materialized::named("counts"))
                .group_by(|_, count| ("all".to_owned(), count), Grouped::with(Utf8, I64))
                .count(Materialized::named("rows"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .caching(cache)
        .build()
        .unwrap();
        pipe(&driver, &[("k", Some("a")), ("k", Some("b")), ("j", Some("c")), ("i", Some("d"))]);
        assert_eq!(out(&driver), kvs(&[("all", 1), ("all", 1), ("all", 2), ("all", 3)]));
    }
}

#[test]
fn a_null_key_or_value_counts_for_nothing() {
    let driver = driver(|b| {
        let part = |text: &str, at: usize| text.split(',').nth(at).filter(|p| !p.is_empty()).map(str::to_owned);
        rows(b)
            .group_by(
                move |_, v| (part(&v, 0), part(&v, 1)),
                Grouped::named("g").key(Nullable(Utf8)).value(Nullable(Utf8)),
            )
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Nullable(Utf8), I64));
    });
    pipe(&driver, &[("1", Some(",10")), ("1", Some("g,")), ("1", Some("g,5")), ("1", Some(",6")), ("1", Some("g,7"))]);
    driver.pipe("in", None, &RawRecord::new(None, Some(b"g,8".to_vec()), 9)).unwrap();
    assert_eq!(out(&driver), kvs(&[("g", 1), ("g", 0), ("g", 1)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1, "the table's null key");
}

#[test]
fn an_aggregate_that_becomes_none_deletes_its_row_and_begins_anew() {
    for cache in CACHES {
        let driver = builder(|b| {
            rows(b)
                .group_by(|_, v| row(&v), Grouped::with(Utf8, I64))
                .aggregate(
                    || Some(100),
                    |sum: Option<i64>, _, amount| Some(sum.unwrap() + amount),
                    |sum, _, amount| sum.map(|sum| sum - amount).filter(|sum| *sum != 100),
                    Materialized::named("sums").value(Nullable(I64)),
                )
                .to_stream()
                .to("out", Produced::with(Utf8, Nullable(I64)));
        })
        .caching(cache)
        .build()
        .unwrap();
        pipe(&driver, &[("1", Some("g,1")), ("1", Some("g,2")), ("1", None), ("1", None), ("2", Some("g,3"))]);
        let told = driver.output("out", Utf8, Nullable(I64)).read_values();
        assert_eq!(told, [Some(101), Some(102), None, Some(103)]);
        assert_eq!(driver.store("sums", Utf8, I64).all(), kvs(&[("g", 103)]));
    }
}

#[test]
fn a_named_grouping_is_repartitioned_once_and_one_without_a_name_for_each_store() {
    let both = |name: Option<&str>| {
        topology(|b| {
            let grouped = name.map_or_else(Grouped::default, Grouped::named).key(Utf8).value(I64);
            let grouped = rows(b).group_by(|_, v| row(&v), grouped);
            let _ = grouped.clone().count(Materialized::named("counts"));
            let _ = grouped.reduce(i64::max, |a, _| a, Materialized::named("most"));
        })
    };
    let topics = |t: &Topology| t.sources().iter().map(|s| s.topics[0].name.clone()).collect::<Vec<_>>();
    assert_eq!(topics(&both(Some("g"))), ["in", "g-repartition"]);
    assert_eq!(topics(&both(None)), ["in", "counts-repartition", "most-repartition"]);
    let driver = Driver::builder(both(Some("g"))).build().unwrap();
    pipe(&driver, &[("1", Some("g,1")), ("2", Some("g,2"))]);
    assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("g", 2)]));
    assert_eq!(driver.store("most", Utf8, I64).all(), kvs(&[("g", 2)]));
}

#[test]
fn closures_that_fail_name_their_node_and_leave_no_trace() {
    let driver = builder(|b| {
        let refuse = |amount: i64| if amount < 0 { Err(Error::other("negative")) } else { Ok(amount) };
        rows(b)
            .named("regroup")
            .try_group_by(
                |_, v| v.contains(',').then(|| row(&v)).ok_or_else(|| Error::other("no group")),
                Grouped::with(Utf8, I64),
            )
            .named("total")
            .try_aggregate(
                || 0,
                move |sum, _, amount| Ok(sum + refuse(*amount)?),
                move |sum, _, amount| Ok(sum - amount),
                Materialized::named("sums").value(I64),
            )
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    pipe(&driver, &[("1", Some("g,1")), ("2", Some("g,-1")), ("3", Some("g")), ("4", Some("g,2"))]);
    assert_eq!(out(&driver), kvs(&[("g", 1), ("g", 3)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
    let rows = driver.store("rows", Utf8, Utf8).all();
    assert_eq!(rows.iter().map(|(k, _)| k.as_str()).collect::<Vec<_>>(), ["1", "2", "4"], "undone where it failed");
}

#[test]
fn serdes_that_are_missing_are_named() {
    let mut b = Topology::builder();
    let _ = rows(&mut b).group_by(|_, v| row(&v), Grouped::named("g")).count(Materialized::default());
    let error = b.build().unwrap_err();
    assert!(error.problems().iter().all(|p| p.kind == ProblemKind::MissingSerde), "{error}");
    let text = error.to_string();
    assert!(text.contains("`group_by` (`g`)") && text.contains("`Grouped`"), "{text}");
}
