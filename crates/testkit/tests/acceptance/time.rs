//! Event time: order between inputs, stream time of a task, negative times, extractors.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_runtime::Counter;
use millpond_testkit::{Driver, DriverBuilder, RawRecord};
use millpond_topology::{Consumed, I64, KeyValue, Materialized, Produced, StoreRef, TimeWindowed, TimeWindows, Utf8};

use crate::support::{assert_names, builder, closure, kvs, out, pipe};

/// A stream `in` that is looked up in a table `table` of the same task.
fn lookup() -> DriverBuilder {
    builder(|b| {
        let rows = b.key_value_store("rows", Utf8, I64);
        type Rows = StoreRef<KeyValue<String, i64>>;
        b.stream("table", Consumed::with(Utf8, I64))
            .process(&rows, closure(|rows: &Rows, cx, r| cx.store(rows)?.put(&r.key, &r.value)))
            .foreach(|_, _: &i64| {});
        b.stream("in", Consumed::with(Utf8, I64))
            .process(
                &rows,
                closure(|rows: &Rows, cx, r| {
                    let found = cx.store(rows)?.get(&r.key)?.unwrap_or(-1);
                    cx.forward(r.with_value(found))
                }),
            )
            .to("out", Produced::with(Utf8, I64));
    })
}

#[test]
fn b061_inputs_of_a_task_are_taken_in_the_order_of_time() {
    for guarantee in crate::support::BOTH {
        let driver = lookup().guarantee(guarantee).build().unwrap();
        let table = driver.input("table", Utf8, I64);
        for round in 0..100 {
            let at = round * 100;
            let key = format!("k{round}");
            driver.input("in", Utf8, I64).send(key.clone(), 0, at + 5).unwrap();
            table.send(key.clone(), 2, at + 10).unwrap();
            driver.commit().unwrap();
            assert_eq!(out(&driver).last(), Some(&(key, -1)));
        }
        let driver = lookup().guarantee(guarantee).build().unwrap();
        let (input, table) = (driver.input("in", Utf8, I64), driver.input("table", Utf8, I64));
        for round in 0..100 {
            let at = round * 100;
            input.send(format!("k{round}"), 0, at + 5).unwrap();
            table.send(format!("k{round}"), 1, at + 1).unwrap();
            table.send(format!("k{round}"), 2, at + 10).unwrap();
        }
        driver.commit().unwrap();
        assert_eq!(out(&driver).len(), 100);
        assert!(out(&driver).iter().all(|(_, found)| *found == 1), "{:?}", out(&driver));
    }
}

#[test]
fn b061_an_empty_input_is_waited_for_as_long_as_was_said_and_not_for_ever() {
    let driver = lookup().setting("max.task.idle.ms", "100").build().unwrap();
    driver.input("in", Utf8, I64).pipe("k", 0, 5).unwrap();
    assert!(out(&driver).is_empty());
    driver.advance(Duration::from_millis(50)).unwrap();
    assert!(out(&driver).is_empty());
    // It was worth waiting for.
    driver.input("table", Utf8, I64).pipe("k", 7, 4).unwrap();
    driver.advance(Duration::from_millis(99)).unwrap();
    assert!(out(&driver).is_empty(), "it waits anew, since the input was not empty meanwhile");
    driver.advance(Duration::from_millis(1)).unwrap();
    assert_eq!(out(&driver), kvs(&[("k", 7)]));
}

#[test]
fn several_empty_inputs_are_waited_for_at_once() {
    let driver = builder(|b| {
        b.stream_of(&["in", "in2", "in3"], Consumed::with(Utf8, I64)).to("out", Produced::default());
    })
    .setting("max.task.idle.ms", "100")
    .build()
    .unwrap();
    pipe(&driver, &[("k", 1, 5)]);
    driver.advance(Duration::from_millis(99)).unwrap();
    assert!(out(&driver).is_empty());
    driver.advance(Duration::from_millis(1)).unwrap();
    assert_eq!(out(&driver), kvs(&[("k", 1)]));
}

/// What processors saw: key and stream time.
type Seen = Arc<Mutex<Vec<(String, i64)>>>;

fn stream_times(
    partitions: i32,
    consumed: impl FnOnce(Consumed<String, i64>) -> Consumed<String, i64>,
) -> (Driver, Seen) {
    let seen = Seen::default();
    let kept = seen.clone();
    let driver = builder(|b| {
        b.stream("in", consumed(Consumed::with(Utf8, I64)))
            .process(
                (),
                closure(move |(), cx, r| {
                    kept.lock().unwrap().push((r.key.clone(), cx.stream_time()));
                    cx.forward(r)
                }),
            )
            .to("out", Produced::with(Utf8, I64));
    })
    .topic("in", partitions)
    .build()
    .unwrap();
    (driver, seen)
}

#[test]
fn b024_stream_time_is_that_of_the_task_not_of_the_key() {
    let (driver, seen) = stream_times(2, |c| c);
    let input = driver.input("in", Utf8, I64);
    for (key, at) in [("a", 5), ("b", 100), ("a", 6)] {
        input.partition(0).pipe(key, 0, at).unwrap();
    }
    input.partition(1).pipe("c", 0, 7).unwrap();
    assert_eq!(*seen.lock().unwrap(), kvs(&[("a", 5), ("b", 100), ("a", 100), ("c", 7)]));
}

#[test]
fn b018_a_negative_time_is_an_error_unless_it_is_said_what_to_do() {
    let (driver, _) = stream_times(1, |c| c);
    pipe(&driver, &[("k", 1, 50)]);
    let error = driver.input("in", Utf8, I64).pipe("k", 2, -1).unwrap_err();
    assert_names(&error, &["topic=`in`", "partition=`0`", "offset=`1`", "timestamp=`-1`"]);
    let remedy = "; set a timestamp extractor, or let `processing.exception.handler` be `continue` or `dead-letter`";
    assert!(error.to_string().ends_with(remedy), "{error}");
    assert_eq!(error.chain().matches("timestamp extractor").count(), 1);

    let (driver, seen) = stream_times(1, Consumed::skip_invalid_timestamps);
    pipe(&driver, &[("a", 1, 50), ("b", 2, -1), ("c", 3, 40), ("d", 4, -1)]);
    assert_eq!(*seen.lock().unwrap(), kvs(&[("a", 50), ("c", 50)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
    assert_eq!(driver.committed("in", 0), Some(4));

    let (driver, _) = stream_times(1, Consumed::partition_time_on_invalid_timestamps);
    pipe(&driver, &[("a", 1, 50), ("b", 2, -1), ("c", 3, 40), ("d", 4, -1)]);
    let times: Vec<_> = driver.output("out", Utf8, I64).read_all().into_iter().map(|r| (r.key, r.timestamp)).collect();
    assert_eq!(times, kvs(&[("a", 50), ("b", 50), ("c", 40), ("d", 50)]));
    let (driver, _) = stream_times(1, Consumed::partition_time_on_invalid_timestamps);
    let error = driver.input("in", Utf8, I64).pipe("first", 0, -1).unwrap_err();
    assert_names(
        &error,
        &["topic=`in`", "offset=`0`", "timestamp=`-1`", "no record of the partition has had a time yet"],
    );
}

/// KAFKA-4393: windows never see a time below 0, nor the time of the record before.
#[test]
fn b018_windows_over_records_without_a_time() {
    let counting = |consumed: fn(Consumed<String, i64>) -> Consumed<String, i64>, policy| {
        builder(|b| {
            let windows = TimeWindows::of_size_and_grace(Duration::from_millis(10), Duration::from_millis(100));
            b.stream("in", consumed(Consumed::with(Utf8, I64)))
                .group_by_key()
                .windowed_by(windows)
                .count(Materialized::named("counts"))
                .to_stream()
                .to("out", Produced::with(TimeWindowed::new(Utf8, 10), I64));
        })
        .setting("processing.exception.handler", policy)
        .build()
        .unwrap()
    };
    let input: [(&str, i64, i64); 4] = [("k", 1, 50), ("k", 2, -1), ("k", 3, 40), ("k", 4, -1)];
    let counts = |driver: &Driver| {
        let all = driver.output("out", TimeWindowed::new(Utf8, 10), I64).read_all();
        let mut counts: Vec<_> = all.into_iter().map(|r| (r.key.start, r.value)).collect();
        counts.sort_unstable();
        counts
    };

    let driver = counting(|c| c, "fail");
    pipe(&driver, &input[..1]);
    let error = driver.input("in", Utf8, I64).pipe("k", 2, -1).unwrap_err();
    assert_names(&error, &["topic=`in`", "partition=`0`", "offset=`1`"]);
    assert_eq!(driver.committed("in", 0), Some(1));

    for (consumed, policy) in [
        (Consumed::skip_invalid_timestamps as fn(Consumed<String, i64>) -> Consumed<String, i64>, "fail"),
        (|c| c, "continue"),
    ] {
        let driver = counting(consumed, policy);
        pipe(&driver, &input);
        assert_eq!(counts(&driver), [(40, 1), (50, 1)]);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
    }

    let driver = counting(Consumed::partition_time_on_invalid_timestamps, "fail");
    pipe(&driver, &input);
    assert_eq!(counts(&driver), [(40, 1), (50, 1), (50, 2), (50, 3)]);
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 0);
}

#[test]
fn an_extractor_gets_the_partitions_time_and_decides() {
    let (driver, seen) = stream_times(1, |c| {
        c.timestamp_extractor(|_, value, own, partition| if *value < 0 { partition } else { own + value })
    });
    pipe(&driver, &[("a", 100, 1), ("b", 5, 10), ("c", -1, 10), ("d", -1, 10)]);
    let times: Vec<i64> = driver.output("out", Utf8, I64).read_all().iter().map(|r| r.timestamp).collect();
    assert_eq!(times, [101, 15, 101, 101]);
    assert!(seen.lock().unwrap().iter().all(|(_, time)| *time == 101));
    // A null is not asked about.
    driver.pipe("in", None, &RawRecord::new(Some(b"k".to_vec()), None, 3)).unwrap();
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
}

#[test]
fn records_of_one_input_keep_their_order_whatever_their_times() {
    let (driver, _) = stream_times(1, |c| c);
    crate::support::send(&driver, &[("a", 1, 30), ("b", 2, 10), ("c", 3, 20)]);
    driver.commit().unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("b", 2), ("c", 3)]));
}
