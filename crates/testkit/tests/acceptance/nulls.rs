//! Nulls: dropped and counted by plain serdes, a delete to tables, handed on by `Nullable`.

use std::sync::{Arc, Mutex};

use millpond_runtime::Counter;
use millpond_testkit::{Driver, RawRecord};
use millpond_topology::{Consumed, Grouped, I64, Materialized, Nullable, Produced, RowContext, Topology, Utf8};

use crate::support::{driver, kvs, out};

fn pipe_nulls(driver: &Driver) {
    driver.pipe("in", None, &RawRecord::new(None, Some(1_i64.to_be_bytes().to_vec()), 0)).unwrap();
    driver.pipe("in", None, &RawRecord::new(Some(b"k".to_vec()), None, 1)).unwrap();
    driver.pipe("in", None, &RawRecord::new(None, None, 2)).unwrap();
    driver.pipe("in", None, &RawRecord::bytes("k", 7_i64.to_be_bytes(), 3)).unwrap();
}

#[test]
fn a_plain_serde_drops_nulls_and_counts_them() {
    let driver = driver(|b| b.stream("in", Consumed::with(Utf8, I64)).to("out", Produced::default()));
    pipe_nulls(&driver);
    assert_eq!(out(&driver), kvs(&[("k", 7)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 3);
    assert_eq!(driver.committed("in", 0), Some(4), "and they are done with");
}

#[test]
fn a_table_takes_a_null_value_as_a_delete() {
    let driver = driver(|b| {
        b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("rows"))
            .to_stream()
            .to("out", Produced::default());
    });
    let input = driver.input("in", Utf8, I64);
    input.pipe("a", 1, 0).unwrap();
    input.pipe("b", 2, 1).unwrap();
    input.delete("a", 2).unwrap();
    driver.pipe("in", None, &RawRecord::new(None, None, 3)).unwrap();
    let rows = driver.store("rows", Utf8, I64);
    assert_eq!(rows.all(), kvs(&[("b", 2)]));
    let told = driver.output("out", Utf8, Nullable(I64)).read_key_values();
    assert_eq!(told, kvs(&[("a", Some(1)), ("b", Some(2)), ("a", None)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1, "a null key is no row");
    assert_eq!(rows.changelog(), rows.all());
    driver.restart_without_state().unwrap();
    assert_eq!(rows.all(), kvs(&[("b", 2)]));
}

#[test]
fn nullable_hands_nulls_on() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Nullable(Utf8), Nullable(I64)))
            .map(|k, v| (k.unwrap_or_else(|| "none".to_owned()), v.map_or(-1, |v| v * 2)))
            .to("out", Produced::with(Utf8, I64));
    });
    pipe_nulls(&driver);
    assert_eq!(out(&driver), kvs(&[("none", 2), ("k", -1), ("none", -1), ("k", 14)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 0);
}

#[test]
fn nulls_go_out_as_nulls() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Nullable(Utf8), Nullable(I64))).to("out", Produced::default());
    });
    pipe_nulls(&driver);
    let raw: Vec<_> = driver.records("out").into_iter().map(|r| (r.key, r.value.is_some())).collect();
    assert_eq!(raw, [(None, true), (Some(b"k".to_vec()), false), (None, false), (Some(b"k".to_vec()), true)]);
}

#[test]
fn an_aggregate_that_becomes_null_deletes_its_row() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by_key()
            .aggregate(
                || Some(0),
                |sum: Option<i64>, _, v| if *v < 0 { None } else { Some(sum.unwrap_or(0) + v) },
                Materialized::named("sums").serdes(Utf8, Nullable(I64)),
            )
            .to_stream()
            .to("out", Produced::default());
    });
    crate::support::pipe(&driver, &[("a", 1, 0), ("a", 2, 1), ("a", -1, 2), ("a", 5, 3)]);
    let told = driver.output("out", Utf8, Nullable(I64)).read_values();
    assert_eq!(told, [Some(1), Some(3), None, Some(5)]);
    assert_eq!(driver.store("sums", Utf8, I64).all(), kvs(&[("a", 5)]));
}

#[test]
fn b049_null_keys_grouped_repartitioned_and_in_tables() {
    let driver = driver(|b| {
        let stream = b.stream("in", Consumed::with(Nullable(Utf8), I64));
        let grouped = stream.clone().group_by_key();
        grouped.count(Materialized::named("by-key")).to_stream().to("out-by-key", Produced::with(Nullable(Utf8), I64));
        stream
            .map(|_, v| (format!("new-{v}"), v))
            .group_by_key_with(Grouped::with(Utf8, I64))
            .count(Materialized::named("by-new-key"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
        let _ = b.table_materialized("table", Consumed::with(Utf8, I64), Materialized::named("rows"));
    });
    let null = RawRecord::new(None, Some(1_i64.to_be_bytes().to_vec()), 0);
    driver.pipe("in", None, &null).unwrap();
    assert!(driver.store("by-key", Nullable(Utf8), I64).all().is_empty(), "dropped");
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1, "and counted");
    assert_eq!(out(&driver), kvs(&[("new-1", 1)]), "counted under the new key");
    driver.pipe("table", None, &null).unwrap();
    assert!(driver.store("rows", Utf8, I64).all().is_empty());
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
}

#[test]
fn b016_a_null_value_does_not_count_in_an_aggregation() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Utf8, Nullable(I64)))
            .group_by_key()
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    });
    let input = driver.input("in", Utf8, Nullable(I64));
    input.pipe("a", Some(1), 0).unwrap();
    input.delete("a", 1).unwrap();
    input.pipe("a", Some(2), 2).unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
}

/// What `map_values` makes of a null is a row that nobody knows of when it is to be taken off.
#[test]
fn rows_made_of_nulls_are_kept_before_they_are_grouped() {
    let counted = |kept: Option<Materialized<String, i64>>| {
        let mut b = Topology::builder();
        let some = b.stream("in", Consumed::with(Utf8, Nullable(I64))).to_table(Materialized::named("t"));
        let or_zero = |value: Option<i64>| value.unwrap_or(0);
        let numbers = match kept {
            Some(kept) => some.map_values_materialized(or_zero, kept),
            None => some.map_values(or_zero),
        };
        numbers
            .group_by(|_, value| ("all".to_owned(), value), Grouped::with(Utf8, I64))
            .count(Materialized::named("n"));
        b.build()
    };
    let refused = counted(None).unwrap_err().to_string();
    assert!(refused.contains("`map_values_materialized`") && refused.contains("null"), "{refused}");
    let driver = Driver::builder(counted(Some(Materialized::named("kept").value(I64))).unwrap()).build().unwrap();
    let input = driver.input("in", Utf8, Nullable(I64));
    for (time, value) in [(1, Some(5)), (2, None), (3, Some(7)), (4, None), (5, None)] {
        input.pipe("k", value, time).unwrap();
        assert_eq!(driver.store("n", Utf8, I64).get("all"), Some(1), "at {time}");
    }
}

/// A transformer is told of a deleted row as of one that is not there, also where its values are options.
#[test]
fn a_row_that_has_become_null_is_none_to_a_transformer() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let driver = driver(move |b| {
        let note = move |()| {
            let noted = noted.clone();
            Ok(move |_: &mut RowContext<'_>, _: &String, value: Option<Option<i64>>| {
                noted.lock().unwrap().push(value);
                Ok(value.flatten())
            })
        };
        let table = b.stream("in", Consumed::with(Utf8, Nullable(I64))).to_table(Materialized::named("t"));
        table.transform_values((), note).to_stream().foreach(|_, _| ());
    });
    let input = driver.input("in", Utf8, Nullable(I64));
    for (time, value) in [(1, Some(5)), (2, None), (3, Some(7))] {
        input.pipe("k", value, time).unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), [Some(Some(5)), None, Some(Some(7))]);
}
