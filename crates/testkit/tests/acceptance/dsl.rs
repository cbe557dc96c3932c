//! Every operator of streams and of grouped streams, one by one.

use std::sync::{Arc, Mutex};

use millpond_topology::{Consumed, Error, Grouped, I64, Materialized, Produced, Repartitioned, Stream, Utf8};

use crate::support::{BOTH, assert_names, builder, driver, kvs, out, pipe};

/// What comes out of an operator between a source and a sink.
fn through(op: impl FnOnce(Stream<String, i64>) -> Stream<String, i64>, inputs: &[(&str, i64)]) -> Vec<(String, i64)> {
    let driver = driver(|b| {
        let stream = b.stream("in", Consumed::with(Utf8, I64));
        op(stream).to("out", Produced::with(Utf8, I64));
    });
    let records: Vec<_> = (0..).zip(inputs).map(|(t, (k, v))| (*k, *v, t)).collect();
    pipe(&driver, &records);
    let records = driver.output("out", Utf8, I64).read_all();
    records.into_iter().map(|r| (r.key, r.value)).collect()
}

const IN: &[(&str, i64)] = &[("a", 1), ("b", 2), ("a", 3)];

#[test]
fn filter_and_filter_not_split_what_comes() {
    assert_eq!(through(|s| s.filter(|_, v| *v > 1), IN), kvs(&[("b", 2), ("a", 3)]));
    assert_eq!(through(|s| s.filter_not(|_, v| *v > 1), IN), kvs(&[("a", 1)]));
    assert_eq!(through(|s| s.try_filter(|k, _| Ok(k == "b")), IN), kvs(&[("b", 2)]));
}

#[test]
fn map_changes_key_and_value_and_map_values_the_value() {
    let mapped = through(|s| s.map(|k, v| (format!("{k}{k}"), v * 10)), IN);
    assert_eq!(mapped, kvs(&[("aa", 10), ("bb", 20), ("aa", 30)]));
    assert_eq!(through(|s| s.map_values(|v| -v), IN), kvs(&[("a", -1), ("b", -2), ("a", -3)]));
    assert_eq!(through(|s| s.try_map(|k, v| Ok((k, v + 1))), IN), kvs(&[("a", 2), ("b", 3), ("a", 4)]));
    assert_eq!(through(|s| s.try_map_values(|v| Ok(v + 1)), IN), kvs(&[("a", 2), ("b", 3), ("a", 4)]));
}

#[test]
fn flat_maps_give_none_or_many_in_order() {
    let many =
        through(|s| s.flat_map(|k, v| (0..v).map(move |n| (format!("{k}{n}"), n)).filter(|(_, n)| n % 2 == 1)), IN);
    assert_eq!(many, kvs(&[("b1", 1), ("a1", 1)]));
    assert_eq!(through(|s| s.flat_map_values(|v| vec![v; (v - 1) as usize]), IN), kvs(&[("b", 2), ("a", 3), ("a", 3)]));
}

#[test]
fn select_key_gives_another_key_and_keeps_the_value() {
    assert_eq!(through(|s| s.select_key(|k, v| format!("{k}-{v}")), IN), kvs(&[("a-1", 1), ("b-2", 2), ("a-3", 3)]));
}

#[test]
fn peek_and_foreach_see_every_record_once() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (peeked, done) = (seen.clone(), seen.clone());
    let tried = seen.clone();
    let passed = through(
        |s| {
            s.clone().foreach(move |k, v| done.lock().unwrap().push(format!("foreach {k}{v}")));
            s.peek(move |k, v| peeked.lock().unwrap().push(format!("peek {k}{v}"))).try_peek(move |_, v| {
                tried.lock().unwrap().push(format!("try {v}"));
                Ok(())
            })
        },
        &[("a", 1), ("b", 2)],
    );
    assert_eq!(passed, kvs(&[("a", 1), ("b", 2)]));
    assert_eq!(*seen.lock().unwrap(), ["foreach a1", "peek a1", "try 1", "foreach b2", "peek b2", "try 2"]);
}

#[test]
fn merge_takes_both_and_split_gives_each_record_to_the_first_branch() {
    let merged = through(|s| s.clone().filter(|_, v| *v == 1).merge(s.filter(|_, v| *v == 3)), IN);
    assert_eq!(merged, kvs(&[("a", 1), ("a", 3)]));
    let driver = driver(|b| {
        let mut split = b.stream("in", Consumed::with(Utf8, I64)).named("by-size").split();
        split.named("-large").branch(|_, v| *v >= 100).to("large", Produced::default());
        split.branch(|_, v| *v >= 10).to("medium", Produced::default());
        split.rest().to("out", Produced::default());
    });
    pipe(&driver, &[("a", 1, 0), ("b", 10, 1), ("c", 100, 2), ("d", 1000, 3)]);
    assert_eq!(driver.output("large", Utf8, I64).read_key_values(), kvs(&[("c", 100), ("d", 1000)]));
    assert_eq!(driver.output("medium", Utf8, I64).read_key_values(), kvs(&[("b", 10)]));
    assert_eq!(out(&driver), kvs(&[("a", 1)]));
}

#[test]
fn a_stream_of_several_topics_has_all_their_records() {
    let driver = driver(|b| b.stream_of(&["in", "in2"], Consumed::with(Utf8, I64)).to("out", Produced::default()));
    pipe(&driver, &[("a", 1, 0)]);
    driver.input("in2", Utf8, I64).pipe("b", 2, 1).unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("b", 2)]));
}

#[test]
fn a_sink_chooses_partitions_by_key_or_as_it_is_told() {
    let driver = builder(|b| {
        let stream = b.stream("in", Consumed::with(Utf8, I64));
        stream.clone().to("out", Produced::default());
        stream.to("chosen", Produced::with(Utf8, I64).partitioner(|_, v, n| (*v >= 0).then_some(*v as i32 % n)));
    })
    .topic("out", 8)
    .topic("chosen", 3)
    .build()
    .unwrap();
    pipe(&driver, &[("a", 0, 0), ("b", 1, 1), ("c", 5, 2)]);
    for record in driver.records("out") {
        let key = record.key.unwrap();
        assert_eq!(record.partition, millpond_changelog::partition_for_key(&key, 8));
    }
    let chosen: Vec<(i64, i32)> =
        driver.output("chosen", Utf8, I64).read_all().iter().map(|r| (r.value, r.partition)).collect();
    assert_eq!(chosen, [(0, 0), (1, 1), (5, 2)]);
}

#[test]
fn a_partitioner_that_names_no_partition_is_an_error_of_the_record() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Utf8, I64)).to("out", Produced::with(Utf8, I64).partitioner(|_, _, n| Some(n)));
    });
    let error = driver.input("in", Utf8, I64).pipe("a", 1, 0).unwrap_err();
    assert_names(&error, &["topic=`in`", "partition=`1`", "partitions=`1`", "offset=`0`"]);
}

#[test]
fn groups_are_counted_reduced_and_aggregated_by_key() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
            grouped
                .clone()
                .count(Materialized::named("counts"))
                .to_stream()
                .to("counts-out", Produced::with(Utf8, I64));
            grouped.clone().reduce(i64::max, Materialized::named("max")).to_stream().to("max-out", Produced::default());
            grouped
                .clone()
                .aggregate(|| 100, |sum, key, v| sum + v + key.len() as i64, Materialized::with(Utf8, I64))
                .to_stream()
                .to("sum-out", Produced::default());
            grouped
                .try_aggregate(
                    || 0,
                    |sum, _, v| if *v < 0 { Err(Error::other("negative")) } else { Ok(sum + v) },
                    Materialized::with(Utf8, I64),
                )
                .to_stream()
                .to("out", Produced::default());
        })
        .guarantee(guarantee)
        .build()
        .unwrap();
        pipe(&driver, &[("a", 1, 0), ("a", 5, 1), ("b", 2, 2), ("a", 3, 3)]);
        let read = |topic: &str| driver.output(topic, Utf8, I64).read_key_values();
        assert_eq!(read("counts-out"), kvs(&[("a", 1), ("a", 2), ("b", 1), ("a", 3)]));
        assert_eq!(read("max-out"), kvs(&[("a", 1), ("a", 5), ("b", 2), ("a", 5)]));
        assert_eq!(read("sum-out"), kvs(&[("a", 102), ("a", 108), ("b", 103), ("a", 112)]));
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 6), ("b", 2), ("a", 9)]));
        assert_eq!(driver.store("max", Utf8, I64).all(), kvs(&[("a", 5), ("b", 2)]));
        let error = driver.input("in", Utf8, I64).pipe("a", -1, 4).unwrap_err();
        assert_names(&error, &["negative", "topic=`in`", "offset=`4`"]);
    }
}

#[test]
fn group_by_a_new_key_goes_through_a_topic_and_group_by_key_does_not() {
    let direct = driver(|b| {
        let stream = b.stream("in", Consumed::with(Utf8, I64)).filter(|_, _| true).map_values(|v| v + 1);
        stream
            .group_by_key_with(Grouped::with(Utf8, I64))
            .count(Materialized::default())
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    });
    assert_eq!(direct.tasks().len(), 1);
    let cut = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by(|_, v| v % 2, Grouped::named("parity").key(I64))
            .reduce(|a, b| a + b, Materialized::named("sums"))
            .to_stream()
            .to("out", Produced::default());
    })
    .topic("in", 2)
    .build()
    .unwrap();
    assert_eq!(cut.tasks().len(), 4);
    pipe(&cut, &[("a", 1, 0), ("b", 2, 1), ("c", 3, 2), ("d", 4, 3)]);
    assert_eq!(cut.store("sums", I64, I64).all(), [(0, 6), (1, 4)]);
    assert_eq!(cut.records("parity-repartition").len(), 4);
}

#[test]
fn repartition_spreads_records_anew() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .select_key(|_, v| v.to_string())
            .repartition(Repartitioned::named("spread").key(Utf8).partitions(5))
            .to("out", Produced::default());
    })
    .build()
    .unwrap();
    assert_eq!(driver.tasks().len(), 6, "one before, five behind");
    for n in 0..20 {
        pipe(&driver, &[("k", n, n)]);
    }
    let used: std::collections::BTreeSet<i32> =
        driver.records("spread-repartition").iter().map(|r| r.partition).collect();
    assert!(used.len() > 2, "{used:?}");
    let mut values: Vec<i64> = out(&driver).into_iter().map(|(_, v)| v).collect();
    values.sort_unstable();
    assert_eq!(values, (0..20).collect::<Vec<_>>());
}

#[test]
fn to_table_keeps_the_last_value() {
    let driver = driver(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .to_table(Materialized::named("last"))
            .map_values(|v| v * 2)
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    });
    pipe(&driver, &[("a", 1, 0), ("a", 2, 1), ("b", 3, 2)]);
    assert_eq!(driver.store("last", Utf8, I64).all(), kvs(&[("a", 2), ("b", 3)]));
    assert_eq!(out(&driver), kvs(&[("a", 2), ("a", 4), ("b", 6)]));
}

#[test]
fn a_named_operator_is_called_so_in_the_description_and_in_errors() {
    let topology = crate::support::topology(|b| {
        b.stream("in", Consumed::with(Utf8, I64).named("numbers"))
            .named("halve")
            .try_map_values(|v| if v % 2 == 0 { Ok(v / 2) } else { Err(Error::other("odd")) })
            .to("out", Produced::with(Utf8, I64).named("halves"));
    });
    for name in ["numbers", "halve", "halves"] {
        assert!(topology.describe().to_string().contains(name), "{}", topology.describe());
    }
    let driver = millpond_testkit::Driver::builder(topology).build().unwrap();
    pipe(&driver, &[("a", 4, 0)]);
    assert_eq!(out(&driver), kvs(&[("a", 2)]));
    let error = driver.input("in", Utf8, I64).pipe("a", 3, 1).unwrap_err();
    assert_names(&error, &["node=`halve`", "odd"]);
}
