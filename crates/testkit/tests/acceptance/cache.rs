//! Caching: what is coalesced, in which order it is drained, and that memory has a bound.

use millpond_runtime::{Counter, Gauge, MemorySettings, Scope};
use millpond_testkit::{Driver, DriverBuilder};
use millpond_topology::{
    Consumed, Grouped, I64, Materialized, Nullable, Produced, StoreRef, TimestampedKeyValue, Utf8, ValueAndTimestamp,
};

use crate::support::{BOTH, builder, closure, kvs, out, pipe, send};

fn counting() -> DriverBuilder {
    builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by_key()
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
}

#[test]
fn updates_of_an_interval_are_one_and_without_a_cache_all_are_told() {
    for guarantee in BOTH {
        let records = [("a", 1, 0), ("a", 1, 1), ("b", 1, 2), ("a", 1, 3)];
        let driver = counting().guarantee(guarantee).caching(1 << 20).build().unwrap();
        send(&driver, &records);
        driver.commit().unwrap();
        assert_eq!(out(&driver), kvs(&[("a", 3), ("b", 1)]));
        assert_eq!(driver.records("counts-changelog").len(), 2);
        let driver = counting().guarantee(guarantee).build().unwrap();
        send(&driver, &records);
        driver.commit().unwrap();
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2), ("b", 1), ("a", 3)]));
        assert_eq!(driver.records("counts-changelog").len(), 4);
    }
}

#[test]
fn a_store_can_be_excepted_from_caching() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by_key()
            .count(Materialized::named("counts").caching_disabled())
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
    .caching(1 << 20)
    .build()
    .unwrap();
    send(&driver, &[("a", 1, 0), ("a", 1, 1)]);
    driver.commit().unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2)]));
}

/// A table whose filter needs to know what a row was.
fn filtered() -> Driver {
    builder(|b| {
        b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("rows"))
            .filter(|_, v| *v < 100)
            .to_stream()
            .to("out", Produced::default());
    })
    .caching(1 << 20)
    .manual_commit()
    .build()
    .unwrap()
}

#[test]
fn b042_coalescing_keeps_the_semantics_of_a_table() {
    let driver = filtered();
    let (input, output) = (driver.input("in", Utf8, I64), driver.output("out", Utf8, Nullable(I64)));
    let mut tombstones = 0;
    let mut flush = |values: &[Option<i64>], want: &[Option<i64>]| {
        for value in values {
            match value {
                Some(value) => input.pipe("k", *value, 0).unwrap(),
                None => input.delete("k", 0).unwrap(),
            }
        }
        driver.commit().unwrap();
        assert_eq!(output.read_values(), want, "for {values:?}");
        tombstones = driver.records("rows-changelog").iter().filter(|r| r.value.is_none()).count();
        tombstones
    };
    assert_eq!(flush(&[Some(1), None], &[]), 0, "nobody has heard of the row");
    flush(&[Some(2)], &[Some(2)]);
    flush(&[Some(3), Some(4)], &[Some(4)]);
    flush(&[None, Some(5)], &[Some(5)]);
    // The old value is the one that was forwarded last: 5 had passed the filter, so 100 is a delete.
    flush(&[Some(101), Some(100)], &[None]);
    // And 100 had not, so 102 is none.
    flush(&[Some(102)], &[]);
    flush(&[Some(6)], &[Some(6)]);
    assert_eq!(flush(&[Some(7), None], &[None]), 1, "and a tombstone is in the log");
    let rows = driver.store("rows", Utf8, I64);
    assert!(rows.all().is_empty());
    assert_eq!(rows.changelog(), rows.all());
}

#[test]
fn b039_one_commit_pushes_a_record_through_chained_caches_in_order() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .group_by_key()
                .reduce(|a, b| a + b, Materialized::named("z-first"))
                .to_stream()
                .group_by_key_with(Grouped::with(Utf8, I64))
                .reduce(i64::max, Materialized::named("m-second"))
                .to_stream()
                .group_by_key_with(Grouped::with(Utf8, I64))
                .count(Materialized::named("a-third"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .caching(1 << 20)
        .manual_commit()
        .build()
        .unwrap();
        let commits = driver.count(Counter::CommitTotal);
        send(&driver, &[("k", 1, 0), ("k", 2, 1)]);
        driver.commit().unwrap();
        assert_eq!(driver.count(Counter::CommitTotal), commits + 1, "one commit did it all");
        assert_eq!(out(&driver), kvs(&[("k", 1)]));
        for (name, value) in [("z-first", 3), ("m-second", 3), ("a-third", 1)] {
            let store = driver.store(name, Utf8, I64);
            assert_eq!(store.all(), kvs(&[("k", value)]), "{name}");
            assert_eq!(store.changelog(), store.all(), "{name}");
        }
        driver.crash().unwrap();
        assert_eq!(driver.store("a-third", Utf8, I64).all(), kvs(&[("k", 1)]));
    }
}

#[test]
fn b037_a_put_into_the_table_that_is_being_drained() {
    for guarantee in BOTH {
        for cache in [1 << 20, 400] {
            let driver = builder(|b| {
                let table = b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("rows"));
                let rows = table.store::<TimestampedKeyValue<_, _>>().unwrap();
                type Rows = StoreRef<TimestampedKeyValue<String, i64>>;
                table
                    .to_stream()
                    .map_values(|v| v.unwrap_or(0))
                    .process(
                        &rows,
                        closure(|rows: &Rows, cx, r| {
                            if r.key == "k" {
                                let row = ValueAndTimestamp { value: r.value * 10, timestamp: r.timestamp };
                                cx.store(rows)?.put(&"x".to_owned(), &row)?;
                            }
                            cx.forward(r)
                        }),
                    )
                    .to("out", Produced::with(Utf8, I64));
            })
            .guarantee(guarantee)
            .caching(cache)
            .manual_commit()
            .build()
            .unwrap();
            pipe(&driver, &[("k", 1, 0), ("j", 1, 1), ("k", 2, 2)]);
            driver.commit().unwrap();
            let rows = driver.store("rows", Utf8, I64);
            assert_eq!(rows.all(), kvs(&[("j", 1), ("k", 2), ("x", 20)]));
            assert_eq!(rows.changelog(), rows.all());
            let told = out(&driver);
            let latest: std::collections::BTreeMap<_, _> = told.iter().cloned().collect();
            assert_eq!(latest, kvs(&[("j", 1), ("k", 2), ("x", 20)]).into_iter().collect(), "{told:?}");
            let metrics = driver.metrics();
            assert_eq!(metrics.gauge(Gauge::UncommittedBytes, Scope::Client), Some(0), "nothing is left behind");
        }
    }
}

#[test]
fn b041_the_cache_keeps_to_its_bound() {
    let limit = 64 << 10;
    let driver = builder(|b| {
        b.table_materialized("in", Consumed::with(Utf8, Utf8), Materialized::named("rows"))
            .to_stream()
            .to("out", Produced::default());
    })
    .caching(limit)
    .topic("in", 4)
    .setting("topic.max.message.bytes", "4000000")
    .manual_commit()
    .build()
    .unwrap();
    let input = driver.input("in", Utf8, Utf8);
    let metrics = driver.metrics();
    let row = "x".repeat(1_000);
    let mut most = 0;
    for n in 0..1_000 {
        input.pipe(format!("k{n}"), row.clone(), n).unwrap();
        most = most.max(metrics.gauge(Gauge::CacheBytes, Scope::Client).unwrap_or(0));
        if n % 100 == 99 {
            driver.commit().unwrap();
        }
    }
    assert!(most <= limit + 2_000, "at most one entry above {limit}: {most}");
    assert!(most > limit / 2, "and it is used: {most}");
    input.pipe("large", "y".repeat(500_000), 2_000).unwrap();
    driver.commit().unwrap();
    input.pipe("small", "y", 2_001).unwrap();
    driver.commit().unwrap();
    assert!(metrics.gauge(Gauge::CacheBytes, Scope::Client).unwrap() <= limit);
    // It shrinks while all is running, to nothing at last: the next record finds it so.
    for (n, limit) in [(2_002, 8 << 10), (2_003, 0)] {
        driver.set_memory(&MemorySettings { cache_max: Some(limit), ..MemorySettings::default() }).unwrap();
        input.pipe("small", "y", n).unwrap();
        let held = metrics.gauge(Gauge::CacheBytes, Scope::Client).unwrap();
        assert!(held <= limit + 2_000, "at most one entry above {limit}: {held}");
    }
    let rows = driver.store("rows", Utf8, Utf8);
    assert_eq!(rows.get("large").map(|v| v.len()), Some(500_000));
    assert_eq!(rows.all().len(), 1_002);
    driver.stop().unwrap();
    driver.restart().unwrap();
    assert!(metrics.gauge(Gauge::CacheBytes, Scope::Client).unwrap() <= limit);
}

#[test]
fn the_cache_and_no_cache_end_with_the_same() {
    for guarantee in BOTH {
        let run = |cache: u64| {
            let driver = builder(|b| {
                b.stream("in", Consumed::with(Utf8, I64))
                    .group_by(|k, v| format!("{k}{}", v % 3), Grouped::named("g").key(Utf8))
                    .reduce(|a, b| (a * 7 + b) % 1_000_003, Materialized::named("sums"))
                    .filter(|_, v| v % 2 == 0)
                    .to_stream()
                    .to("out", Produced::with(Utf8, Nullable(I64)));
            })
            .guarantee(guarantee)
            .caching(cache)
            .topic("in", 2)
            .manual_commit()
            .build()
            .unwrap();
            for n in 0..200 {
                send(&driver, &[(["a", "b", "c"][n as usize % 3], n % 11, n)]);
                match n % 17 {
                    0 => driver.run().unwrap(),
                    9 => driver.commit().unwrap(),
                    _ => {}
                }
            }
            driver.commit().unwrap();
            let sums = driver.store("sums", Utf8, I64);
            assert_eq!(sums.changelog(), sums.all());
            let mut last = driver.output("out", Utf8, Nullable(I64)).read_latest();
            last.retain(|_, v| v.is_some());
            (sums.all(), last)
        };
        let plain = run(0);
        assert_eq!(run(1 << 20), plain);
        assert_eq!(run(500), plain);
    }
}
