//! Tables: the last value of each key, filtered and mapped; results' times.

use millpond_topology::{
    Consumed, I64, Materialized, Nullable, Produced, SessionWindowed, SessionWindows, TimeWindowed, TimeWindows, Utf8,
};

use crate::support::{BOTH, builder, driver, kvs, pipe};

#[test]
fn a_table_without_a_store_hands_updates_on() {
    let driver = driver(|b| {
        b.table("in", Consumed::with(Utf8, I64))
            .map_values(|v| v * 10)
            .to_stream()
            .to("out", Produced::with(Utf8, Nullable(I64)));
    });
    let input = driver.input("in", Utf8, I64);
    input.pipe("a", 1, 0).unwrap();
    input.delete("a", 1).unwrap();
    input.pipe("a", 2, 2).unwrap();
    assert_eq!(driver.output("out", Utf8, Nullable(I64)).read_values(), [Some(10), None, Some(20)]);
}

#[test]
fn b045_a_filter_tells_no_delete_of_a_row_that_never_passed() {
    for cache in [0, 1 << 20] {
        let driver = builder(|b| {
            b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("rows"))
                .filter(|_, v| *v >= 10)
                .to_stream()
                .to("out", Produced::default());
        })
        .caching(cache)
        .build()
        .unwrap();
        let input = driver.input("in", Utf8, I64);
        input.pipe_values("k", [1, 5, 12, 13, 3, 2], 0).unwrap();
        input.delete("k", 1).unwrap();
        assert_eq!(driver.output("out", Utf8, Nullable(I64)).read_values(), [Some(12), Some(13), None]);
    }
}

#[test]
fn filtered_and_mapped_tables_can_be_kept_in_stores() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            let table = b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("rows"));
            let _ = table.clone().filter_materialized(|_, v| v % 2 == 0, Materialized::named("even"));
            table.clone().filter_not(|_, v| v % 2 == 0).to_stream().to("odd", Produced::with(Utf8, Nullable(I64)));
            table
                .map_values_materialized(|v| v.to_string(), Materialized::named("texts").serdes(Utf8, Utf8))
                .to_stream()
                .to("out", Produced::with(Utf8, Nullable(Utf8)));
        })
        .guarantee(guarantee)
        .build()
        .unwrap();
        let input = driver.input("in", Utf8, I64);
        input.pipe_values("a", [1, 2, 3], 0).unwrap();
        input.pipe("b", 4, 1).unwrap();
        input.pipe("c", 5, 2).unwrap();
        input.delete("c", 3).unwrap();
        assert_eq!(driver.store("rows", Utf8, I64).all(), kvs(&[("a", 3), ("b", 4)]));
        assert_eq!(driver.store("even", Utf8, I64).all(), kvs(&[("b", 4)]));
        assert_eq!(driver.store("texts", Utf8, Utf8).all(), kvs(&[("a", "3".to_owned()), ("b", "4".to_owned())]));
        let odd = driver.output("odd", Utf8, Nullable(I64)).read_key_values();
        assert_eq!(odd, kvs(&[("a", Some(1)), ("a", None), ("a", Some(3)), ("c", Some(5)), ("c", None)]));
        for store in ["rows", "even"] {
            let store = driver.store(store, Utf8, I64);
            assert_eq!(store.changelog(), store.all());
        }
        driver.restart_without_state().unwrap();
        assert_eq!(driver.store("even", Utf8, I64).all(), kvs(&[("b", 4)]));
    }
}

#[test]
fn b046_of_updates_out_of_order_the_last_one_wins() {
    let driver = driver(|b| {
        b.table_materialized("in", Consumed::with(Utf8, Utf8), Materialized::named("rows"))
            .to_stream()
            .to("out", Produced::default());
    });
    let input = driver.input("in", Utf8, Utf8);
    let rows = driver.store("rows", Utf8, Utf8);
    input.pipe("k", "new", 20).unwrap();
    input.pipe("k", "old", 10).unwrap();
    assert_eq!(rows.get_with_timestamp("k"), Some(("old".to_owned(), 10)));
    input.delete("k", 15).unwrap();
    assert_eq!(rows.get("k"), None);
    let told = driver.output("out", Utf8, Nullable(Utf8)).read_all();
    let told: Vec<_> = told.into_iter().map(|r| (r.value, r.timestamp)).collect();
    assert_eq!(told, [(Some("new".to_owned()), 20), (Some("old".to_owned()), 10), (None, 15)]);
    driver.restart_without_state().unwrap();
    assert_eq!(rows.get("k"), None);
}

#[test]
fn b047_a_window_has_the_latest_time_of_what_is_in_it_and_a_session_that_of_its_end() {
    let ms = std::time::Duration::from_millis;
    for cache in [0, 1 << 20] {
        let driver = builder(|b| {
            let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
            let tumbling = grouped.clone().windowed_by(TimeWindows::of_size_and_grace(ms(10), ms(10)));
            let produced = Produced::with(TimeWindowed::new(Utf8, 10), I64);
            tumbling.count(Materialized::named("w")).to_stream().to("tumbling", produced);
            let sessions = grouped.windowed_by(SessionWindows::of_inactivity_gap_and_grace(ms(5), ms(10)));
            let produced = Produced::with(SessionWindowed(Utf8), Nullable(I64));
            sessions.count(Materialized::named("s")).to_stream().to("sessions", produced);
        })
        .caching(cache)
        .build()
        .unwrap();
        pipe(&driver, &[("k", 1, 8), ("k", 1, 3)]);
        let told: Vec<_> = driver.records("tumbling").iter().map(|r| r.timestamp).collect();
        assert_eq!(told, [8, 8]);
        let told = driver.output("sessions", SessionWindowed(Utf8), Nullable(I64)).read_all();
        let mut told: Vec<_> = told.iter().map(|r| (r.key.start, r.key.end, r.value, r.timestamp)).collect();
        told[1..].sort();
        assert_eq!(told, [(8, 8, Some(1), 8), (3, 8, Some(2), 8), (8, 8, None, 8)]);
    }
}

#[test]
fn b047_a_result_has_the_latest_time_of_what_is_in_it() {
    for cache in [0, 1 << 20] {
        let driver = builder(|b| {
            let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
            grouped
                .clone()
                .reduce(|a, b| a + b, Materialized::named("sums"))
                .to_stream()
                .to("out", Produced::default());
            grouped.count(Materialized::named("counts")).to_stream().to("counts-out", Produced::with(Utf8, I64));
        })
        .caching(cache)
        .build()
        .unwrap();
        pipe(&driver, &[("k", 1, 10), ("k", 2, 5), ("k", 3, 12)]);
        for topic in ["out", "counts-out"] {
            let times: Vec<i64> = driver.output(topic, Utf8, I64).read_all().iter().map(|r| r.timestamp).collect();
            assert_eq!(times, [10, 10, 12]);
        }
        let logged: Vec<i64> =
            driver.output("sums-changelog", Utf8, I64).read_all().iter().map(|r| r.timestamp).collect();
        assert_eq!(logged, [10, 10, 12]);
        assert_eq!(driver.store("sums", Utf8, I64).get_with_timestamp("k"), Some((6, 12)));
    }
}
