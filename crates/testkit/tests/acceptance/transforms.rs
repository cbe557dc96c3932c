//! Tables whose values are made by user code with stores, and tables mapped by key.

use millpond_runtime::Counter;
use millpond_testkit::Driver;
use millpond_topology::{
    Builder, Consumed, Deletes, Error, Grouped, Headers, I64, KeyValue, Materialized, Nullable, ProblemKind, Produced,
    Result, RowContext, StoreRef, Table, Topology, Utf8, ValueTransformer,
};

use crate::support::{BOTH, builder, driver, kvs, topology};

const CACHES: [u64; 2] = [0, 1 << 20];

fn rows(b: &mut Builder) -> Table<String, i64, Deletes> {
    b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("rows"))
}

/// Makes a row of the time of its update; deleted rows as well.
#[expect(clippy::unnecessary_wraps, reason = "the transformer's signature")]
fn times(cx: &mut RowContext<'_>, key: &String, value: Option<i64>) -> Result<Option<String>> {
    let value = value.map_or("gone".to_owned(), |v| v.to_string());
    let headers = cx.headers().len();
    Ok((value != "0").then(|| format!("{key}={value}@{}/{headers}", cx.timestamp())))
}

type Times = fn(&mut RowContext<'_>, &String, Option<i64>) -> Result<Option<String>>;

fn supplier(_: ()) -> Result<Times> {
    Ok(times)
}

fn told(driver: &Driver) -> Vec<Option<String>> {
    driver.output("out", Utf8, Nullable(Utf8)).read_values()
}

#[test]
fn a_transformer_sees_key_time_and_headers_of_each_update_deletes_included() {
    for cache in CACHES {
        for store in [None, Some("texts")] {
            let driver = builder(|b| {
                let texts = match store {
                    Some(name) => {
                        rows(b).transform_values_materialized((), supplier, Materialized::named(name).value(Utf8))
                    }
                    None => rows(b).transform_values((), supplier),
                };
                texts.to_stream().to("out", Produced::with(Utf8, Nullable(Utf8)));
            })
            .caching(cache)
            .build()
            .unwrap();
            let input = driver.input("in", Utf8, I64);
            let mut headers = Headers::new();
            headers.add("h", "x");
            input.pipe_with("k", 1, 10, headers).unwrap();
            input.pipe("k", 2, 5).unwrap();
            input.pipe("k", 0, 6).unwrap();
            input.delete("k", 7).unwrap();
            let known = if cache == 0 { "k=1@10/1" } else { "k=1@10/0" };
            let want = [Some(known), Some("k=2@5/0"), None, Some("k=gone@7/0")].map(|v| v.map(str::to_owned));
            assert_eq!(told(&driver), want, "cache {cache}, store {store:?}");
            if let Some(store) = store {
                let texts = driver.store(store, Utf8, Utf8);
                assert_eq!(texts.all_with_timestamps(), [("k".to_owned(), "k=gone@7/0".to_owned(), 7)]);
                assert_eq!(texts.changelog(), texts.all());
            }
        }
    }
}

/// How often a row has been set.
struct Updates(StoreRef<KeyValue<String, i64>>);

impl ValueTransformer<String, i64, i64> for Updates {
    fn transform(&mut self, cx: &mut RowContext<'_>, key: &String, value: Option<i64>) -> Result<Option<i64>> {
        let mut counts = cx.store(&self.0)?;
        let count = counts.get(key)?.unwrap_or(0) + 1;
        counts.put(key, &count)?;
        match value {
            Some(13) => Err(Error::other("thirteen")),
            Some(_) => Ok(Some(count)),
            None => Ok(None),
        }
    }
}

#[test]
fn a_transformer_has_stores_and_leaves_no_trace_where_it_fails() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            let counts = b.key_value_store("counts", Utf8, I64);
            rows(b)
                .named("updates")
                .transform_values(&counts, |counts| Ok(Updates(counts)))
                .to_stream()
                .to("out", Produced::with(Utf8, Nullable(I64)));
        })
        .guarantee(guarantee)
        .setting("processing.exception.handler", "continue")
        .build()
        .unwrap();
        driver.input("in", Utf8, I64).pipe_values("k", [1, 13, 2], 0).unwrap();
        driver.input("in", Utf8, I64).delete("k", 1).unwrap();
        assert_eq!(driver.output("out", Utf8, Nullable(I64)).read_values(), [Some(1), Some(2), None]);
        assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("k", 3)]));
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
        driver.restart_without_state().unwrap();
        assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("k", 3)]));
    }
}

#[test]
fn b050_an_old_value_is_what_was_made_at_its_own_update() {
    for cache in CACHES {
        let driver = builder(|b| {
            rows(b)
                .transform_values_materialized((), supplier, Materialized::named("texts").value(Utf8))
                .group_by(|_, text| ("all".to_owned(), text), Grouped::with(Utf8, Utf8))
                .aggregate(
                    String::new,
                    |log, _, text| format!("{log}+{text} "),
                    |log, _, text| format!("{log}-{text} "),
                    Materialized::named("log").value(Utf8),
                )
                .to_stream()
                .to("out", Produced::with(Utf8, Utf8));
        })
        .caching(cache)
        .build()
        .unwrap();
        let input = driver.input("in", Utf8, I64);
        input.pipe("k", 1, 10).unwrap();
        input.pipe("k", 2, 50).unwrap();
        driver.restart_without_state().unwrap();
        input.pipe("k", 0, 90).unwrap();
        let log = driver.store("log", Utf8, Utf8).get("all").unwrap();
        assert_eq!(log, "+k=1@10/0 -k=1@10/0 +k=2@50/0 -k=2@50/0 ", "never at the time of the record at hand");
    }
}

#[test]
fn b050_old_values_of_what_is_not_kept_are_refused_with_the_remedy() {
    let mut b = Topology::builder();
    let _ = rows(&mut b)
        .named("stamp")
        .transform_values((), supplier)
        .filter(|_, text| !text.is_empty())
        .named("regroup")
        .group_by(|k, text| (k.clone(), text), Grouped::with(Utf8, Utf8))
        .count(Materialized::default());
    let error = b.build().unwrap_err();
    let [problem] = error.problems() else { panic!("{error}") };
    assert_eq!(problem.kind, ProblemKind::Store);
    let message = &problem.message;
    assert!(["`regroup`", "`stamp`", "`Materialized::named`"].iter().all(|part| message.contains(part)), "{message}");
}

#[test]
fn rows_are_mapped_with_their_keys_and_what_can_fail_may() {
    let driver = builder(|b| {
        let rows = rows(b);
        rows.clone()
            .map_values_with_key(|k, v| format!("{k}{v}"))
            .to_stream()
            .to("out", Produced::with(Utf8, Nullable(Utf8)));
        let texts = Materialized::named("texts").value(Utf8);
        let _ = rows.clone().map_values_with_key_materialized(|k, v| format!("{k}{v}"), texts);
        let _ = rows.clone().filter_not_materialized(|_, v| *v < 0, Materialized::named("positive"));
        let refuse = |v: i64| if v == 13 { Err(Error::other("thirteen")) } else { Ok(v) };
        rows.try_filter(move |_, v| Ok(refuse(*v)? > 1))
            .try_map_values(move |v| refuse(v + 10))
            .to_stream()
            .to("large", Produced::with(Utf8, Nullable(I64)));
    })
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    driver.input("in", Utf8, I64).pipe_values("k", [1, 2, 13, 3, -1], 0).unwrap();
    let want = ["k1", "k2", "k-1"].map(|v| Some(v.to_owned()));
    assert_eq!(told(&driver), want, "a record that fails further down has no effect anywhere");
    assert_eq!(driver.store("texts", Utf8, Utf8).all(), kvs(&[("k", "k-1".to_owned())]));
    assert!(driver.store("positive", Utf8, I64).all().is_empty());
    assert_eq!(driver.output("large", Utf8, Nullable(I64)).read_values(), [Some(12), None]);
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
}

#[test]
fn a_mapping_that_sees_the_key_can_fail() {
    let driver = builder(|b| {
        rows(b)
            .try_map_values_with_key(|k, v| if k == "bad" { Err(Error::other("a bad key")) } else { Ok(v * 2) })
            .to_stream()
            .to("out", Produced::with(Utf8, Nullable(I64)));
    })
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    let rows = driver.input("in", Utf8, I64);
    for (key, value) in [("good", 1), ("bad", 2), ("good", 3)] {
        rows.pipe(key, value, 0).unwrap();
    }
    assert_eq!(driver.output("out", Utf8, Nullable(I64)).read_values(), [Some(2), Some(6)]);
}

#[test]
fn materialized_without_a_name_keeps_nothing_and_uses_up_a_number_as_kafka_streams_does() {
    let topology = topology(|b| {
        let rows = b.table("in", Consumed::with(Utf8, I64));
        let serde = || Materialized::default().value(I64);
        let _ =
            rows.filter_materialized(|_, _| true, serde()).map_values_materialized(|v| v, serde()).map_values(|v| v);
    });
    assert!(topology.stores().is_empty());
    let text = topology.describe().to_string();
    for name in ["KTABLE-FILTER-0000000004", "KTABLE-MAPVALUES-0000000006", "KTABLE-MAPVALUES-0000000007"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    let driver = driver(|b| {
        let _ = b.table("in", Consumed::with(Utf8, I64)).map_values(|v| v);
    });
    driver.input("in", Utf8, I64).pipe("k", 1, 0).unwrap();
}
