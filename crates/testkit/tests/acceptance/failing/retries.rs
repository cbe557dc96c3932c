//! Records that are tried again: at once or after a pause, in their order, while others go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_runtime::{Counter, ErrorAnswer, ErrorStage};
use millpond_testkit::{Driver, DriverBuilder, RawRecord};
use millpond_topology::{
    Consumed, Context, Error, I64, KeyValue, Materialized, Processor, Produced, Record, Result, Schedule, StoreRef,
    Utf8,
};

use super::Asked;
use crate::support::{BOTH, assert_names, builder, closure, kvs, out, pipe};

/// Adds up, and fails for 13 as long as there are failures left.
fn failing_for_a_while(failures: &Arc<AtomicU32>) -> DriverBuilder {
    let left = failures.clone();
    builder(|b| {
        let store = b.key_value_store("sums", Utf8, I64);
        type Sums = StoreRef<KeyValue<String, i64>>;
        b.stream("in", Consumed::with(Utf8, I64))
            .process(
                &store,
                closure(move |sums: &Sums, cx, r| {
                    let sum = cx.store(sums)?.update(&r.key, |old| Some(old.unwrap_or(0) + r.value))?.unwrap_or(0);
                    cx.forward(Record::new(r.key, sum, r.timestamp))?;
                    let fails = r.value == 13 && left.load(Ordering::Relaxed) > 0;
                    if !fails {
                        return Ok(());
                    }
                    // Every other time it is a panic, after which the graph is built anew.
                    let left = left.fetch_sub(1, Ordering::Relaxed);
                    assert!(left.is_multiple_of(2), "not yet");
                    Err(Error::other("not yet"))
                }),
            )
            .to("out", Produced::with(Utf8, I64));
    })
}

#[test]
fn a_record_that_succeeds_in_the_end_counts_once() {
    for guarantee in BOTH {
        let (asked, failures) = (Asked::default(), Arc::new(AtomicU32::new(4)));
        let driver = failing_for_a_while(&failures)
            .guarantee(guarantee)
            .error_handler(asked.answering(|_| ErrorAnswer::Retry))
            .build()
            .unwrap();
        pipe(&driver, &[("a", 1, 0), ("a", 13, 1), ("a", 2, 2)]);
        assert_eq!(asked.attempts(), [1, 2, 3, 4]);
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 14), ("a", 16)]));
        assert_eq!(driver.records("sums-changelog").len(), 3);
        assert_eq!((driver.count(Counter::ProcessTotal), driver.count(Counter::DroppedRecordsTotal)), (3, 0));
        assert_eq!(driver.count(Counter::ProcessingRetriedTotal), 4);
        // The next one that fails begins to count anew.
        failures.store(1, Ordering::Relaxed);
        pipe(&driver, &[("a", 13, 3)]);
        assert_eq!(asked.attempts(), [1, 2, 3, 4, 1]);
    }
}

#[test]
fn a_pause_keeps_the_order_of_its_task_and_lets_others_go_on() {
    for guarantee in BOTH {
        let (asked, failures) = (Asked::default(), Arc::new(AtomicU32::new(2)));
        let pause = Duration::from_millis(100);
        let driver = failing_for_a_while(&failures)
            .guarantee(guarantee)
            .topic("in", 2)
            .topic("out", 1)
            .error_handler(asked.answering(move |_| ErrorAnswer::RetryAfter(pause)))
            .build()
            .unwrap();
        let input = driver.input("in", Utf8, I64);
        input.partition(0).pipe("a", 1, 0).unwrap();
        input.partition(0).pipe("a", 13, 1).unwrap();
        input.partition(0).pipe("a", 2, 2).unwrap();
        input.partition(1).pipe("b", 7, 0).unwrap();
        assert_eq!(out(&driver), kvs(&[("a", 1), ("b", 7)]), "the other task goes on");
        assert_eq!((driver.committed("in", 0), driver.committed("in", 1)), (Some(1), Some(1)), "and commits");
        driver.advance(Duration::from_millis(99)).unwrap();
        assert_eq!(asked.attempts(), [1], "not before its time");
        driver.advance(Duration::from_millis(1)).unwrap();
        assert_eq!(asked.attempts(), [1, 2]);
        driver.advance(pause).unwrap();
        assert_eq!(out(&driver), kvs(&[("a", 1), ("b", 7), ("a", 14), ("a", 16)]), "in the order of the input");
        assert_eq!(driver.committed("in", 0), Some(3));
    }
}

/// What is logged while a record waits does not stand behind it.
#[test]
fn a_record_that_waits_is_not_yet_in_the_position_of_changes() {
    let positions = |records: &[(&str, i64, i64)]| {
        let asked = Asked::default();
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .try_peek(|_, v| if *v == 13 { Err(Error::other("not yet")) } else { Ok(()) })
                .group_by_key()
                .count(Materialized::named("counts"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .setting("__iq.consistency.offset.vector.enabled__", "true")
        .caching(1 << 20)
        .manual_commit()
        .error_handler(asked.answering(|_| ErrorAnswer::RetryAfter(Duration::from_secs(3_600))))
        .build()
        .unwrap();
        crate::support::send(&driver, records);
        driver.run().unwrap();
        driver.commit().unwrap();
        let headers = |record: RawRecord| record.headers.get("c").unwrap().value.clone().unwrap();
        driver.records("counts-changelog").into_iter().map(headers).collect::<Vec<_>>()
    };
    let before = positions(&[("a", 1, 1)]);
    assert_eq!(before.len(), 1);
    assert_eq!(positions(&[("a", 1, 1), ("a", 13, 2)]), before);
    assert_ne!(positions(&[("a", 1, 1), ("a", 2, 2)]), before);
}

#[test]
fn a_pause_ends_with_a_restart() {
    for guarantee in BOTH {
        let (asked, failures) = (Asked::default(), Arc::new(AtomicU32::new(1)));
        let driver = failing_for_a_while(&failures)
            .guarantee(guarantee)
            .error_handler(asked.answering(|_| ErrorAnswer::RetryAfter(Duration::from_secs(3_600))))
            .build()
            .unwrap();
        pipe(&driver, &[("a", 13, 1)]);
        assert!(out(&driver).is_empty());
        driver.restart().unwrap();
        assert_eq!(out(&driver), kvs(&[("a", 13)]));
        assert_eq!(asked.attempts(), [1]);
    }
}

/// What waits was deleted meanwhile, the log cut short: nobody waits for it any more.
#[test]
fn a_record_that_is_gone_is_not_waited_for() {
    let (asked, failures) = (Asked::default(), Arc::new(AtomicU32::new(1)));
    let driver = failing_for_a_while(&failures)
        .error_handler(asked.answering(|_| ErrorAnswer::RetryAfter(Duration::from_secs(3_600))))
        .build()
        .unwrap();
    pipe(&driver, &[("a", 13, 1)]);
    driver.broker().admin().unwrap().delete_records(&[("in", 0, 1)]).unwrap();
    driver.crash().unwrap();
    pipe(&driver, &[("a", 2, 2)]);
    assert_eq!(out(&driver), kvs(&[("a", 2)]));
}

/// The extractor is asked again as well: it may be what failed.
#[test]
fn an_extractor_that_fails_is_tried_again() {
    let asked = Asked::default();
    let failures = Arc::new(AtomicU32::new(2));
    let left = failures.clone();
    let driver = builder(|b| {
        let consumed = Consumed::with(Utf8, I64).timestamp_extractor(move |_, value, _, _| {
            assert!(left.load(Ordering::Relaxed) == 0 || left.fetch_sub(1, Ordering::Relaxed) == 0, "not yet");
            *value
        });
        b.stream("in", consumed).to("out", Produced::default());
    })
    .error_handler(asked.answering(|_| ErrorAnswer::RetryAfter(Duration::from_millis(5))))
    .build()
    .unwrap();
    pipe(&driver, &[("a", 70, 1)]);
    driver.advance(Duration::from_millis(5)).unwrap();
    driver.advance(Duration::from_millis(5)).unwrap();
    let record = driver.output("out", Utf8, I64).read().unwrap();
    assert_eq!((record.value, record.timestamp, asked.attempts()), (70, 70, vec![1, 2]));
}

/// Fails at punctuations as long as there are failures left.
struct Ticker(Arc<AtomicU32>);

impl Processor for Ticker {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        cx.forward(record)
    }
}

fn ticking(failures: u32, handler: impl millpond_runtime::ErrorHandler + 'static) -> Driver {
    let failures = Arc::new(AtomicU32::new(failures));
    builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .named("ticker")
            .process((), move |init, ()| {
                init.schedule(Schedule::wall_clock_ms(10), |ticker: &mut Ticker, cx, at| {
                    cx.forward(Record::new("tick".to_owned(), at, at))?;
                    if ticker.0.load(Ordering::Relaxed) > 0 {
                        ticker.0.fetch_sub(1, Ordering::Relaxed);
                        return Err(Error::other("not yet"));
                    }
                    Ok(())
                })?;
                Ok(Ticker(failures.clone()))
            })
            .to("out", Produced::with(Utf8, I64));
    })
    .setting("errors.dead.letter.queue.topic.name", "dead")
    .error_handler(handler)
    .build()
    .unwrap()
}

#[test]
fn b081_a_punctuation_is_tried_again_at_once_and_bounded() {
    let asked = Asked::default();
    let driver = ticking(3, asked.answering(|_| ErrorAnswer::RetryAfter(Duration::from_secs(3_600))));
    driver.advance(Duration::from_millis(10)).unwrap();
    assert_eq!(out(&driver), kvs(&[("tick", 10)]), "what failed has sent nothing");
    assert_eq!(asked.attempts(), [1, 2, 3]);
    let told = asked.all().remove(0);
    assert_eq!((told.stage, told.node.as_deref()), (ErrorStage::Processing, Some("ticker")));
    assert_eq!((told.source, told.key, told.value, told.timestamp), (None, None, None, 10));

    let driver = ticking(u32::MAX, Asked::default().answering(|_| ErrorAnswer::Retry));
    let error = driver.advance(Duration::from_millis(10)).unwrap_err();
    assert_names(&error, &["run a punctuation", "node=`ticker`", "attempts=`10`", "not yet"]);
}

#[test]
fn b081_a_punctuation_that_fails_can_be_a_dead_letter() {
    let driver = ticking(1, Asked::default().answering(|_| ErrorAnswer::DeadLetter));
    driver.advance(Duration::from_millis(10)).unwrap();
    driver.advance(Duration::from_millis(10)).unwrap();
    assert_eq!(out(&driver), kvs(&[("tick", 20)]));
    let [letter] = driver.records("dead").try_into().unwrap();
    let RawRecord { key, value, timestamp, headers, .. } = letter;
    assert_eq!((key, value, timestamp), (None, None, 10));
    let header = |name: &str| headers.get(name).unwrap().value.clone();
    assert_eq!(header("__streams.errors.topic"), None);
    assert_eq!(header("__streams.errors.offset").as_deref(), Some(&b"-1"[..]));
    assert_eq!(header("__streams.errors.message").as_deref(), Some(&b"not yet"[..]));
}

/// An update out of a cache: its write stays, and the handler gets the row.
#[test]
fn an_update_out_of_a_cache_is_tried_again() {
    for guarantee in BOTH {
        let asked = Asked::default();
        let failures = Arc::new(AtomicU32::new(2));
        let left = failures.clone();
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .group_by_key()
                .count(Materialized::named("counts"))
                .to_stream()
                .try_peek(move |_, _| {
                    if left.load(Ordering::Relaxed) == 0 {
                        return Ok(());
                    }
                    left.fetch_sub(1, Ordering::Relaxed);
                    Err(Error::other("not yet"))
                })
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .caching(1 << 20)
        .manual_commit()
        .error_handler(asked.answering(|_| ErrorAnswer::Retry))
        .build()
        .unwrap();
        crate::support::send(&driver, &[("a", 1, 5), ("a", 1, 6)]);
        driver.commit().unwrap();
        assert_eq!(out(&driver), kvs(&[("a", 2)]));
        assert_eq!(asked.attempts(), [1, 2]);
        let told = asked.all().remove(0);
        assert_eq!((told.source, told.key.as_deref(), told.timestamp), (None, Some(&b"a"[..]), 6));
        assert!(told.value.is_some_and(|row| row.ends_with(&2_i64.to_be_bytes())));
        assert_eq!(driver.store("counts", Utf8, I64).changelog(), kvs(&[("a", 2)]));
    }
}
