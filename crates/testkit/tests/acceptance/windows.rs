//! Aggregations in tumbling and hopping windows: which window takes what, for how long, and what comes out.

use std::time::Duration;

use millpond_testkit::{Driver, DriverBuilder, TestRecord};
use millpond_topology::{
    Builder, Consumed, Materialized, Produced, Table, TimeWindowed, TimeWindows, Upserts, Utf8, Windowed,
};

use crate::support::builder;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Texts of `in`, joined by key and window, to `out`.
fn joining(windows: TimeWindows, size: i64) -> DriverBuilder {
    builder(move |b| to_out(joined(b, windows, Materialized::named("s")), size))
}

fn joined(
    b: &mut Builder,
    windows: TimeWindows,
    m: Materialized<String, String>,
) -> Table<Windowed<String>, String, Upserts> {
    b.stream("in", Consumed::with(Utf8, Utf8)).group_by_key().windowed_by(windows).aggregate(
        String::new,
        |so_far, _, value| so_far + value,
        m.value(Utf8).caching_disabled(),
    )
}

fn to_out(table: Table<Windowed<String>, String, Upserts>, size: i64) {
    table.to_stream().to("out", Produced::with(TimeWindowed::new(Utf8, size), Utf8));
}

/// Pipes texts into `in`: key, value, time.
pub(crate) fn pipe(driver: &Driver, records: &[(&str, &str, i64)]) {
    let input = driver.input("in", Utf8, Utf8);
    for (key, value, time) in records {
        input.pipe(*key, *value, *time).unwrap();
    }
}

/// What has come out since it was asked last: key, start, end, value, time.
fn told(driver: &Driver, size: i64) -> Vec<String> {
    driver.output("out", TimeWindowed::new(Utf8, size), Utf8).read_all().iter().map(text).collect()
}

/// A result as a line: `key[start,end)=value@time`.
pub(crate) fn text(r: &TestRecord<Windowed<String>, String>) -> String {
    format!("{}[{},{})={}@{}", r.key.key, r.key.start, r.key.end, r.value, r.timestamp)
}

#[test]
fn b001_a_window_is_open_until_the_grace_is_over() {
    let driver = joining(TimeWindows::of_size_and_grace(ms(10), ms(5)), 10).build().unwrap();
    pipe(&driver, &[("a", "1", 0), ("a", "2", 9), ("a", "3", 14), ("a", "4", 5), ("a", "5", 15), ("a", "6", 6)]);
    let expected = ["a[0,10)=1@0", "a[0,10)=12@9", "a[10,20)=3@14", "a[0,10)=124@9", "a[10,20)=35@15"];
    assert_eq!(told(&driver, 10), expected);
}
