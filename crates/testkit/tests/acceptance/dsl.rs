//! Grouped streams, and names of operators.

use millpond_topology::{Consumed, Error, Grouped, I64, Materialized, Produced, Utf8};

use crate::support::{BOTH, assert_names, builder, driver, kvs, out, pipe};

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
