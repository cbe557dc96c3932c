//! A table's source topic as its changelog: what is restored from it, and what is not.

use millpond_broker_api::Broker;
use millpond_runtime::{Counter, Guarantee};
use millpond_testkit::{Driver, DriverBuilder, RawRecord};
use millpond_topology::{Consumed, Error, I64, Materialized, Nullable, OffsetReset, Optimization, Produced, Utf8};

use crate::support::{BOTH, builder, kvs, out, pipe, send};

/// A table of `in` that has no changelog, and its updates.
fn table(guarantee: Guarantee) -> DriverBuilder {
    builder(|b| {
        b.optimize(Optimization::REUSE_KTABLE_SOURCE_TOPICS)
            .table_materialized("in", Consumed::with(Utf8, I64).skip_invalid_timestamps(), Materialized::named("t"))
            .to_stream()
            .to("out", Produced::default());
    })
    .guarantee(guarantee)
}

fn rows(driver: &Driver) -> Vec<(String, i64)> {
    driver.store("t", Utf8, I64).all()
}

fn raw(key: Option<&[u8]>, value: Option<&[u8]>, timestamp: i64) -> RawRecord {
    RawRecord::new(key.map(Into::into), value.map(Into::into), timestamp)
}

/// All updates of the table.
fn updates(driver: &Driver) -> Vec<(String, Option<i64>)> {
    driver.output("out", Utf8, Nullable(I64)).read_key_values()
}

fn restored(driver: &Driver) -> u64 {
    driver.count(Counter::RestoreTotal)
}

#[test]
fn there_is_no_changelog_and_state_comes_back_from_the_source() {
    for guarantee in BOTH {
        let driver = table(guarantee).build().unwrap();
        pipe(&driver, &[("a", 1, 10), ("b", 2, 20), ("a", 3, 30)]);
        driver.pipe("in", None, &raw(Some(b"b"), None, 40)).unwrap();
        pipe(&driver, &[("c", 4, 50)]);
        let changelog = driver.broker().admin().unwrap().describe(&["test-t-changelog"]).unwrap();
        assert_eq!(changelog, [None]);
        driver.restart_without_state().unwrap();
        assert_eq!(rows(&driver), kvs(&[("a", 3), ("c", 4)]), "{guarantee:?}");
        assert_eq!(restored(&driver), 5);
        let row = driver.store("t", Utf8, I64).get_with_timestamp("a");
        assert_eq!(row, Some((3, 30)), "a row has its record's time");
        assert_eq!(updates(&driver).len(), 5, "nothing is processed twice");
    }
}

#[test]
fn a_restart_reads_nothing_and_a_crash_the_difference() {
    for guarantee in BOTH {
        let driver = table(guarantee).build().unwrap();
        pipe(&driver, &[("a", 1, 10), ("b", 2, 20)]);
        driver.restart().unwrap();
        assert_eq!((rows(&driver), restored(&driver)), (kvs(&[("a", 1), ("b", 2)]), 0), "{guarantee:?}");
        pipe(&driver, &[("a", 3, 30)]);
        driver.crash().unwrap();
        assert_eq!((rows(&driver), restored(&driver)), (kvs(&[("a", 3), ("b", 2)]), 1), "{guarantee:?}");
    }
}

#[test]
fn what_is_not_committed_is_processed_not_restored() {
    for guarantee in BOTH {
        let driver = table(guarantee).manual_commit().build().unwrap();
        pipe(&driver, &[("a", 1, 10), ("b", 2, 20)]);
        driver.commit().unwrap();
        send(&driver, &[("a", 3, 30), ("c", 4, 40)]);
        driver.restart_without_state().unwrap();
        driver.run().unwrap();
        driver.commit().unwrap();
        assert_eq!(restored(&driver), 2, "{guarantee:?}");
        assert_eq!(rows(&driver), kvs(&[("a", 3), ("b", 2), ("c", 4)]));
        let all = kvs(&[("a", Some(1)), ("b", Some(2)), ("a", Some(3)), ("c", Some(4))]);
        assert_eq!(updates(&driver), all, "their updates are forwarded");
    }
}

#[test]
fn an_interval_that_was_lost_in_a_crash_is_done_again() {
    for guarantee in BOTH {
        let driver = table(guarantee).manual_commit().build().unwrap();
        pipe(&driver, &[("a", 1, 10)]);
        driver.commit().unwrap();
        send(&driver, &[("a", 2, 20), ("b", 3, 30)]);
        driver.run().unwrap();
        driver.crash().unwrap();
        driver.run().unwrap();
        driver.commit().unwrap();
        assert_eq!(restored(&driver), 1, "{guarantee:?}");
        assert_eq!(rows(&driver), kvs(&[("a", 2), ("b", 3)]));
        let done = kvs(&[("a", Some(2)), ("b", Some(3))]);
        assert!(updates(&driver).ends_with(&done), "their updates are forwarded");
    }
}

#[test]
fn a_record_that_the_table_refuses_is_no_row_after_a_restore() {
    let driver =
        table(Guarantee::ExactlyOnce).setting("deserialization.exception.handler", "continue").build().unwrap();
    let number = 9_i64.to_be_bytes();
    pipe(&driver, &[("a", 1, 10), ("b", 2, 20)]);
    for refused in [
        raw(None, Some(&number), 30),
        raw(Some(b"a"), Some(b"no number"), 31),
        raw(Some(b"b\xFF"), Some(&number), 32),
        raw(Some(b"a"), Some(&number), -1),
    ] {
        driver.pipe("in", None, &refused).unwrap();
    }
    pipe(&driver, &[("c", 3, 40)]);
    let before = rows(&driver);
    assert_eq!(before, kvs(&[("a", 1), ("b", 2), ("c", 3)]));
    driver.restart_without_state().unwrap();
    assert_eq!(rows(&driver), before);
    assert_eq!(restored(&driver), 3);
}

/// What the docs say cannot be known: the handler skipped the record because of code behind the table.
#[test]
fn a_record_that_was_skipped_behind_the_table_is_a_row_after_a_restore() {
    let driver = builder(|b| {
        b.optimize(Optimization::ALL)
            .table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("t"))
            .to_stream()
            .try_peek(|_, v| if *v == Some(0) { Err(Error::other("zero")) } else { Ok(()) })
            .to("out", Produced::default());
    })
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    pipe(&driver, &[("a", 1, 10), ("a", 0, 20), ("b", 2, 30)]);
    assert_eq!(rows(&driver), kvs(&[("a", 1), ("b", 2)]));
    driver.restart_without_state().unwrap();
    assert_eq!(rows(&driver), kvs(&[("a", 0), ("b", 2)]));
}

#[test]
fn each_task_restores_its_own_partition_and_one_without_a_partition_nothing() {
    let driver = builder(|b| {
        b.optimize(Optimization::ALL);
        let table = b.table_materialized("in", Consumed::with(Utf8, I64), Materialized::named("t"));
        let stream = table.to_stream().filter(|_, v| v.is_some()).map_values(|v| v.unwrap_or(0));
        let wide = b.stream("wide", Consumed::with(Utf8, I64));
        stream.merge(wide).to("out", Produced::with(Utf8, I64));
    })
    .topic("in", 2)
    .topic("wide", 3)
    .build()
    .unwrap();
    assert_eq!(driver.tasks().len(), 3);
    let records: Vec<(String, i64)> = (0..20).map(|n| (format!("k{n}"), n)).collect();
    for (key, n) in &records {
        pipe(&driver, &[(key, *n, *n)]);
    }
    let before = rows(&driver);
    assert_eq!(before.len(), 20);
    driver.restart_without_state().unwrap();
    assert_eq!(rows(&driver), before);
    assert_eq!(restored(&driver), 20);
    pipe(&driver, &[("k0", 100, 100)]);
    assert_eq!(out(&driver).len(), 21);
}

/// A cached store forwards late, but the topic is its log at once.
#[test]
fn a_cached_table_is_restored_like_another() {
    let driver = table(Guarantee::ExactlyOnce).caching(1 << 20).manual_commit().build().unwrap();
    send(&driver, &[("a", 1, 10), ("a", 2, 20), ("b", 3, 30)]);
    driver.run().unwrap();
    driver.commit().unwrap();
    assert_eq!(updates(&driver), kvs(&[("a", Some(2)), ("b", Some(3))]));
    driver.restart_without_state().unwrap();
    assert_eq!(rows(&driver), kvs(&[("a", 2), ("b", 3)]));
}

fn table_from_the_end() -> DriverBuilder {
    builder(|b| {
        let latest = Consumed::with(Utf8, I64).offset_reset(OffsetReset::Latest);
        b.optimize(Optimization::ALL)
            .table_materialized("in", latest, Materialized::named("t"))
            .to_stream()
            .to("out", Produced::default());
    })
}

#[test]
fn a_table_that_begins_at_the_end_holds_what_the_topic_does() {
    let driver = table_from_the_end().build().unwrap();
    driver.stop().unwrap();
    assert_eq!(driver.committed("in", 0), Some(0), "where it began is where it goes on");
    send(&driver, &[("a", 1, 10), ("b", 2, 20)]);
    driver.restart().unwrap();
    pipe(&driver, &[("c", 3, 30)]);
    let before = rows(&driver);
    driver.restart_without_state().unwrap();
    assert_eq!(rows(&driver), before, "as it was, whenever it is restored");
    assert_eq!(before, kvs(&[("a", 1), ("b", 2), ("c", 3)]));
}

/// As long as nothing is committed there is nothing that a restore could bring back.
#[test]
fn a_table_that_begins_at_the_end_does_not_begin_with_what_it_never_processed() {
    for guarantee in BOTH {
        let driver = table_from_the_end().guarantee(guarantee).manual_commit().build().unwrap();
        send(&driver, &[("a", 1, 10), ("b", 2, 20)]);
        driver.crash().unwrap();
        assert_eq!(driver.committed("in", 0), None, "{guarantee:?}");
        assert_eq!((rows(&driver), restored(&driver)), (vec![], 0), "{guarantee:?}");
        send(&driver, &[("c", 3, 30)]);
        driver.run().unwrap();
        driver.commit().unwrap();
        assert_eq!(rows(&driver), kvs(&[("c", 3)]));
        driver.restart().unwrap();
        assert_eq!(rows(&driver), kvs(&[("c", 3)]));
        // Now the topic is all that there is, up to what was committed.
        driver.restart_without_state().unwrap();
        assert_eq!(rows(&driver), kvs(&[("a", 1), ("b", 2), ("c", 3)]));
        assert_eq!(updates(&driver), kvs(&[("c", Some(3))]));
    }
}
