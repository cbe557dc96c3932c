//! Outputs that the broker refuses, at once or long after their records were processed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_runtime::{Counter, ErrorAnswer, ErrorStage, Guarantee};
use millpond_testkit::{Driver, DriverBuilder};
use millpond_topology::{
    Consumed, Context, I64, KeyValue, Materialized, Processor, Produced, Record, Repartitioned, Result, Schedule,
    StoreRef, Utf8,
};

use super::{Asked, letters, number};
use crate::support::{BOTH, assert_names, builder, closure, kvs, pipe, send};

pub(super) const HANDLER: &str = "production.exception.handler";
const TOPIC: &str = "errors.dead.letter.queue.topic.name";
/// The client takes it and the broker does not: it is refused when it is flushed.
pub(super) const LATE: i64 = 5_000;
/// The client does not take it.
const AT_ONCE: i64 = 1_100_000;

/// Adds numbers up, writes each to `audit`, and a text of that length to `out`.
fn texts() -> DriverBuilder {
    builder(|b| {
        let store = b.key_value_store("sums", Utf8, I64);
        type Sums = StoreRef<KeyValue<String, i64>>;
        let stream = b.stream("in", Consumed::with(Utf8, I64)).process(
            &store,
            closure(|sums: &Sums, cx, r| {
                cx.store(sums)?.update(&r.key, |old| Some(old.unwrap_or(0) + r.value))?;
                cx.forward(r)
            }),
        );
        let texts = stream.clone().map_values(|n| "x".repeat(n as usize));
        texts.to("out", Produced::with(Utf8, Utf8).named("texts"));
        stream.to("audit", Produced::with(Utf8, I64));
    })
}

/// Adds numbers up behind a cache, and writes a text of the sum's length to `out`.
fn cached_texts(guarantee: Guarantee) -> DriverBuilder {
    builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by_key()
            .reduce(|a, b| a + b, Materialized::named("sums"))
            .to_stream()
            .map_values(|n| "x".repeat(n as usize))
            .to("out", Produced::with(Utf8, Utf8));
    })
    .guarantee(guarantee)
    .caching(1 << 20)
    .manual_commit()
}

/// Builds a driver whose topic `out` takes no more than a kilobyte.
pub(super) fn small_out(builder: DriverBuilder) -> Driver {
    let driver = builder.build().unwrap();
    limit(&driver, "out");
    driver
}

fn limit(driver: &Driver, topic: &str) {
    driver.broker().admin().unwrap().set_configs(topic, &[("max.message.bytes", "1000")]).unwrap();
}

/// The lengths of the texts that came out.
fn lengths(driver: &Driver) -> Vec<usize> {
    driver.output("out", Utf8, Utf8).read_all().iter().map(|r| r.value.len()).collect()
}

fn audit(driver: &Driver) -> Vec<i64> {
    driver.output("audit", Utf8, I64).read_all().iter().map(|r| r.value).collect()
}

/// Only the output is missing: all else of its record is there, and the record is done with.
fn assert_left_out(driver: &Driver, size: i64) {
    assert_eq!((lengths(driver), audit(driver)), (vec![10, 20], vec![10, size, 20]));
    let sums = driver.store("sums", Utf8, I64);
    assert_eq!(sums.all(), kvs(&[("a", 30 + size)]));
    assert_eq!(sums.changelog(), sums.all());
    assert!(driver.committed("in", 0).is_some_and(|n| n >= 3));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
}

fn each(check: impl Fn(Guarantee, i64)) {
    for guarantee in BOTH {
        for size in [LATE, AT_ONCE] {
            check(guarantee, size);
        }
    }
}

#[test]
fn an_output_that_is_skipped_is_all_that_is_missing() {
    each(|guarantee, size| {
        let driver = small_out(texts().guarantee(guarantee).setting(HANDLER, "continue"));
        pipe(&driver, &[("a", 10, 0), ("a", size, 1), ("a", 20, 2)]);
        assert_left_out(&driver, size);
        assert_eq!(driver.count(Counter::ProductionSkippedTotal), 1);
        driver.restart_without_state().unwrap();
        assert_eq!(driver.store("sums", Utf8, I64).all(), kvs(&[("a", 30 + size)]));
        assert_eq!(driver.count(Counter::ProductionSkippedTotal), 1, "it is not met again");
    });
}

#[test]
fn the_input_record_of_an_output_becomes_the_dead_letter() {
    each(|guarantee, size| {
        let builder = texts().guarantee(guarantee).setting(HANDLER, "dead-letter").setting(TOPIC, "dead");
        let driver = small_out(builder);
        pipe(&driver, &[("a", 10, 0), ("a", size, 1), ("a", 20, 2)]);
        assert_left_out(&driver, size);
        assert_eq!(letters(&driver, "dead"), [(b"a".to_vec(), number(size))]);
        let letter = driver.records("dead").remove(0);
        let header = |name: &str| {
            let value = letter.headers.get(&format!("__streams.errors.{name}")).unwrap().value.clone().unwrap();
            String::from_utf8(value.to_vec()).unwrap()
        };
        assert_eq!((header("topic"), header("partition"), header("offset")), ("in".into(), "0".into(), "1".into()));
        assert!(header("exception").starts_with("production: "), "{}", header("exception"));
        assert!(header("stacktrace").contains("output topic=`out`"), "{}", header("stacktrace"));
        assert_eq!((letter.timestamp, driver.count(Counter::DeadLetterTotal)), (1, 1));
    });
}

#[test]
fn the_handler_is_asked_once_about_an_output_and_told_its_record() {
    each(|guarantee, size| {
        let asked = Asked::default();
        let handler = asked.answering(|_| ErrorAnswer::Skip);
        let driver = small_out(texts().guarantee(guarantee).error_handler(handler));
        pipe(&driver, &[("a", 10, 0), ("a", size, 1), ("a", 20, 2)]);
        assert_left_out(&driver, size);
        let all = asked.all();
        let [told] = all.as_slice() else { panic!("{guarantee:?} {size}: {all:?}") };
        assert_eq!((told.stage, told.attempt, told.node.as_deref()), (ErrorStage::Production, 1, Some("texts")));
        assert_eq!(told.output, Some(("out".to_owned(), 0)));
        assert_eq!(told.source, Some(("in".to_owned(), 0, 1)));
        assert_eq!((told.key.as_deref(), told.value.clone()), (Some(&b"a"[..]), Some(number(size))));
        assert_eq!(told.timestamp, 1);
        for part in ["task=`0_0`", "output topic=`out`", "topic=`in`", "offset=`1`"] {
            assert!(told.error.contains(part), "{}", told.error);
        }
    });
}

#[test]
fn fail_and_retry_stop_the_application() {
    each(|guarantee, size| {
        for answer in [None, Some(ErrorAnswer::Fail), Some(ErrorAnswer::Retry)] {
            let builder = match answer.clone() {
                None => texts(),
                Some(answer) => texts().error_handler(Asked::default().answering(move |_| answer.clone())),
            };
            let driver = small_out(builder.guarantee(guarantee));
            pipe(&driver, &[("a", 10, 0)]);
            let error = driver.input("in", Utf8, I64).pipe("a", size, 1).unwrap_err();
            assert_names(&error, &["max.message.bytes"]);
            if answer.is_some() {
                assert_names(&error, &["output topic=`out`", "topic=`in`", "offset=`1`"]);
                assert_eq!(driver.count(Counter::ProductionFailedTotal), 1);
            }
            assert_eq!(driver.committed("in", 0), Some(1), "{answer:?}: the record is not done with");
            assert_eq!(lengths(&driver), [10]);
        }
    });
}

/// Several refused ones among many, in one interval, two of them alike but for their time.
#[test]
fn refused_outputs_of_one_interval_are_told_apart() {
    for guarantee in BOTH {
        let asked = Asked::default();
        let handler = asked.answering(|_| ErrorAnswer::DeadLetter);
        let builder = texts().guarantee(guarantee).setting(TOPIC, "dead").manual_commit().error_handler(handler);
        let driver = small_out(builder);
        let mut inputs = vec![("a", 10, 0); 50];
        for (at, size) in [(3, LATE), (20, LATE), (21, LATE + 1), (40, AT_ONCE), (49, LATE)] {
            inputs[at] = ("b", size, at as i64);
        }
        send(&driver, &inputs);
        driver.commit().unwrap();
        assert_eq!((lengths(&driver).len(), audit(&driver).len()), (45, 50), "{guarantee:?}");
        let mut sizes: Vec<_> = letters(&driver, "dead").into_iter().map(|(_, value)| value).collect();
        sizes.sort();
        assert_eq!(sizes, [LATE, LATE, LATE, LATE + 1, AT_ONCE].map(number), "{guarantee:?}");
        let mut offsets: Vec<i64> = asked.all().iter().map(|told| told.source.clone().unwrap().2).collect();
        offsets.sort_unstable();
        if guarantee == Guarantee::ExactlyOnce {
            // What the client itself refuses is known before the last one is: it is done again with that one's transaction.
            offsets.dedup();
        }
        assert_eq!(offsets, [3, 20, 21, 40, 49], "{guarantee:?}: about each once");
        let sums = driver.store("sums", Utf8, I64);
        assert_eq!(sums.all(), kvs(&[("a", 450), ("b", 3 * LATE + LATE + 1 + AT_ONCE)]));
        assert_eq!(sums.changelog(), sums.all());
    }
}

/// What is kept of the records whose outputs have no answer yet is bounded, and right.
#[test]
fn many_large_records_wait_for_the_answers_to_their_outputs() {
    let builder = texts().setting(HANDLER, "dead-letter").setting(TOPIC, "dead").manual_commit();
    let driver = small_out(builder);
    let key = |n: usize| format!("{n:0>10000}");
    let input = driver.input("in", Utf8, I64);
    let mut want = Vec::new();
    for n in 0..300 {
        // The key alone is too much for the topic.
        input.send(key(n), 1, n as i64).unwrap();
        want.push((key(n).into_bytes(), number(1)));
    }
    driver.commit().unwrap();
    assert_eq!(letters(&driver, "dead"), want);
    assert_eq!((lengths(&driver).len(), audit(&driver).len()), (0, 300));
}

/// Without the same output nobody knows which one it was: the application does not try for ever.
#[test]
fn an_output_that_differs_each_time_stops_the_application() {
    let made = Arc::new(AtomicI64::new(0));
    let count = made.clone();
    let asked = Asked::default();
    let driver = small_out(
        builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .map_values(move |n| "x".repeat((n + count.fetch_add(1, Ordering::Relaxed)) as usize))
                .to("out", Produced::with(Utf8, Utf8));
        })
        .guarantee(Guarantee::ExactlyOnce)
        .setting("errors.max.attempts", "3")
        .error_handler(asked.answering(|_| ErrorAnswer::Skip)),
    );
    let error = driver.input("in", Utf8, I64).pipe("a", LATE, 0).unwrap_err();
    assert_names(&error, &["topic=`out`", "attempts=`4`", "differs each time"]);
    assert_eq!((made.load(Ordering::Relaxed), asked.all().len()), (4, 0));
    assert_eq!(driver.committed("in", 0), Some(0));
}

/// Sends a text at each punctuation.
struct Ticker;

impl Processor for Ticker {
    type In = Record<String, i64>;
    type Out = Record<String, String>;

    fn process(&mut self, _: &mut Context<'_, Self>, _: Self::In) -> Result {
        Ok(())
    }
}

#[test]
fn an_output_of_a_punctuation_has_no_record() {
    let asked = Asked::default();
    let driver = small_out(
        builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .process((), |init, ()| {
                    init.schedule(Schedule::wall_clock_ms(10), |_: &mut Ticker, cx, at| {
                        cx.forward(Record::new("k".to_owned(), "x".repeat(at as usize * 50), at))
                    })?;
                    Ok(Ticker)
                })
                .to("out", Produced::with(Utf8, Utf8));
        })
        .error_handler(asked.answering(|_| ErrorAnswer::Skip)),
    );
    for _ in 0..3 {
        driver.advance(Duration::from_millis(10)).unwrap();
    }
    assert_eq!(lengths(&driver), [500]);
    let told: Vec<_> = asked.all().into_iter().map(|t| (t.stage, t.source, t.key)).collect();
    assert_eq!(told, vec![(ErrorStage::Production, None, None); 2]);
}

/// Updates out of a cache are sent while it is committed.
#[test]
fn an_output_of_a_cache_is_left_out_as_well() {
    for guarantee in BOTH {
        let driver = small_out(cached_texts(guarantee).setting(HANDLER, "continue"));
        send(&driver, &[("a", 10, 0), ("a", LATE, 1), ("b", 7, 2)]);
        driver.commit().unwrap();
        assert_eq!(lengths(&driver), [7], "{guarantee:?}");
        let sums = driver.store("sums", Utf8, I64);
        assert_eq!(sums.all(), kvs(&[("a", LATE + 10), ("b", 7)]));
        assert_eq!(sums.changelog(), sums.all());
        assert_eq!(driver.count(Counter::ProductionSkippedTotal), 1);
    }
}

#[test]
fn the_row_of_a_refused_update_becomes_the_dead_letter() {
    for guarantee in BOTH {
        let driver = small_out(cached_texts(guarantee).setting(HANDLER, "dead-letter").setting(TOPIC, "dead"));
        send(&driver, &[("a", 10, 0), ("a", LATE, 1), ("b", 7, 2)]);
        driver.commit().unwrap();
        assert_eq!(lengths(&driver), [7], "{guarantee:?}");
        let letter = driver.records("dead").remove(0);
        assert_eq!((letter.key.as_deref(), letter.timestamp), (Some(b"a".as_slice()), 1), "{guarantee:?}");
        assert_eq!(letter.value.unwrap(), number(LATE + 10), "{guarantee:?}");
    }
}

/// What is between two sub-topologies is never left out.
#[test]
fn a_repartition_topic_that_refuses_stops_the_application_whatever_the_handler_says() {
    for guarantee in BOTH {
        for size in [LATE, AT_ONCE] {
            let asked = Asked::default();
            let driver = builder(|b| {
                b.stream("in", Consumed::with(Utf8, I64))
                    .map(|k, n| (k, "x".repeat(n as usize)))
                    .repartition(Repartitioned::named("again").key(Utf8).value(Utf8))
                    .to("out", Produced::with(Utf8, Utf8));
            })
            .guarantee(guarantee)
            .error_handler(asked.answering(|_| ErrorAnswer::Skip))
            .build()
            .unwrap();
            limit(&driver, "test-again-repartition");
            pipe(&driver, &[("a", 10, 0)]);
            let error = driver.input("in", Utf8, I64).pipe("a", size, 1).unwrap_err();
            let named = if size == LATE { "test-again-repartition" } else { "message.max.bytes" };
            assert_names(&error, &[named]);
            assert_eq!((asked.all().len(), driver.committed("in", 0)), (0, Some(1)));
        }
    }
}
