//! Final results of windows: what is held until they come.

use std::time::Duration;

use millpond_testkit::Driver;
use millpond_topology::{Consumed, EmitStrategy, I64, Materialized, Produced, TimeWindows, Utf8};

use crate::support::{driver, kvs, out, pipe};

#[test]
fn windows_that_wait_for_their_close_are_all_there_after_a_crash_and_a_loss() {
    for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
        let driver = driver(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .group_by_key()
                .windowed_by(TimeWindows::of_size_and_grace(Duration::from_millis(10), Duration::from_millis(5)))
                .emit_strategy(EmitStrategy::on_window_close().at_most_every(Duration::ZERO))
                .count(Materialized::named("counts"))
                .to_stream()
                .map(|k, v| (k.key, v))
                .to("out", Produced::with(Utf8, I64));
        });
        pipe(&driver, &[("a", 1, 1), ("a", 1, 2)]);
        start(&driver).unwrap();
        assert_eq!(driver.window_store("counts", Utf8, I64).all(), [("a".to_owned(), 0, 2)]);
        pipe(&driver, &[("a", 1, 3), ("b", 1, 100)]);
        assert_eq!(out(&driver), kvs(&[("a", 3)]));
    }
}
