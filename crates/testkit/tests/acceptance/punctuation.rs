//! Punctuation by stream time and by the wall clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_runtime::{Counter, ErrorAnswer, Failed, Guarantee};
use millpond_testkit::Driver;
use millpond_topology::{
    Consumed, Context, Error, I64, Init, KeyValue, Processor, Produced, Record, Repartitioned, Result, Schedule,
    StoreRef, Timer, Utf8,
};

use crate::support::{BOTH, assert_names, builder, closure, kvs, out, pipe, send};

type Calls = Arc<Mutex<Vec<String>>>;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Hands records on, and has timers.
struct Ticker {
    calls: Calls,
    first: Option<Timer>,
}

impl Processor for Ticker {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        if record.key.contains("cancel")
            && let Some(timer) = self.first
        {
            cx.cancel(timer);
            cx.cancel(timer);
        }
        if record.key.contains("start") {
            cx.schedule(Schedule::wall_clock_ms(7), |t, _, at| note(t, "new", at))?;
        }
        cx.forward(record)
    }
}

/// A driver with a ticker that `init` has set up. A record whose key says `fail` fails behind the ticker.
fn ticking(
    guarantee: Guarantee,
    init: impl Fn(&mut Init<'_, Ticker>, &mut Ticker) -> Result + Send + Sync + 'static,
) -> (Driver, Calls) {
    ticking_with("fail", guarantee, init)
}

fn ticking_with(
    policy: &str,
    guarantee: Guarantee,
    init: impl Fn(&mut Init<'_, Ticker>, &mut Ticker) -> Result + Send + Sync + 'static,
) -> (Driver, Calls) {
    let calls = Calls::default();
    let kept = calls.clone();
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .named("ticker")
            .process((), move |cx, ()| {
                let mut ticker = Ticker { calls: kept.clone(), first: None };
                init(cx, &mut ticker)?;
                Ok(ticker)
            })
            .try_peek(|key, _| if key.contains("fail") { Err(Error::other("told to")) } else { Ok(()) })
            .to("out", Produced::with(Utf8, I64));
    })
    .start_time(100)
    .guarantee(guarantee)
    .setting("processing.exception.handler", policy)
    .build()
    .unwrap();
    (driver, calls)
}

fn note(ticker: &mut Ticker, name: &str, at: i64) -> Result {
    ticker.calls.lock().unwrap().push(format!("{name}@{at}"));
    Ok(())
}

fn taken(calls: &Calls) -> Vec<String> {
    std::mem::take(&mut *calls.lock().unwrap())
}

#[test]
fn b078_wall_clock_punctuation_first_call_and_missed_calls() {
    let (driver, calls) = ticking(Guarantee::AtLeastOnce, |init, ticker| {
        ticker.first = Some(init.schedule(Schedule::wall_clock_ms(10), |t, _, at| note(t, "w", at))?);
        Ok(())
    });
    let mut now = 100;
    for at in [100, 109, 110, 125, 129, 130, 200, 209, 210] {
        driver.advance(ms(at - now)).unwrap();
        now = at;
    }
    assert_eq!(taken(&calls), ["w@110", "w@125", "w@130", "w@200", "w@210"]);
    assert_eq!(driver.count(Counter::PunctuateTotal), 5);
}

#[test]
fn stream_time_punctuation_begins_with_the_first_record_and_follows_records_alone() {
    let (driver, calls) = ticking(Guarantee::AtLeastOnce, |init, _| {
        init.schedule(Schedule::stream_time_ms(10), |t, cx, at| {
            assert_eq!(cx.stream_time(), at);
            note(t, "s", at)
        })
        .map(drop)
    });
    driver.advance(Duration::from_secs(3_600)).unwrap();
    assert!(taken(&calls).is_empty(), "the wall clock is not stream time");
    pipe(&driver, &[("a", 1, 23), ("a", 1, 29), ("a", 1, 5), ("a", 1, 30), ("a", 1, 75), ("a", 1, 79), ("a", 1, 80)]);
    assert_eq!(taken(&calls), ["s@23", "s@30", "s@75", "s@80"]);
}

#[test]
fn b080_records_of_a_punctuation_have_its_time_and_no_source_and_are_committed() {
    for guarantee in BOTH {
        let (driver, calls) = ticking(guarantee, |init, _| {
            init.schedule(Schedule::wall_clock_ms(1_000), |t, cx, at| {
                let text = format!("{} {:?}", cx.timestamp() == at, cx.metadata());
                t.calls.lock().unwrap().push(text);
                let n = t.calls.lock().unwrap().len() as i64;
                let time = cx.timestamp();
                cx.forward(Record::new("k".to_owned(), n, time))
            })
            .map(drop)
        });
        let output = driver.output("out", Utf8, I64);
        for second in 1..=3 {
            driver.advance(Duration::from_secs(1)).unwrap();
            let record = output.read().expect("it is committed though no input was read");
            assert_eq!((record.value, record.timestamp), (second, 100 + second * 1_000));
        }
        assert_eq!(taken(&calls), ["true None"; 3]);
        // A record before must not lend its source to the next punctuation.
        pipe(&driver, &[("a", 1, 7)]);
        driver.advance(Duration::from_secs(1)).unwrap();
        assert_eq!(taken(&calls), ["true None"]);
    }
}

/// KAFKA-6906: nothing is read, so no offset moves; the transaction is committed in time all the same.
#[test]
fn b080_what_a_punctuation_sends_is_seen_within_one_commit_interval() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .process((), |init, ()| {
                    init.schedule(Schedule::wall_clock_ms(1_000), |_: &mut Ticker, cx, at| {
                        cx.forward(Record::new("k".to_owned(), at, at))
                    })?;
                    Ok(Ticker { calls: Calls::default(), first: None })
                })
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .manual_commit()
        .setting("commit.interval.ms", "100")
        .build()
        .unwrap();
        let output = driver.output("out", Utf8, I64);
        let mut seen = Vec::new();
        for _ in 0..350 {
            driver.advance(ms(10)).unwrap();
            while let Some(record) = output.read() {
                assert_eq!(record.timestamp, record.value);
                let late = driver.wall_ms() - record.timestamp;
                assert!(late <= 100, "{guarantee:?}: {late} ms");
                seen.push(record.timestamp);
            }
        }
        assert_eq!(seen, [1_000, 2_000, 3_000], "{guarantee:?}");
    }
}

#[test]
fn b081_cancelling_and_scheduling_inside_a_punctuation() {
    let (driver, calls) = ticking(Guarantee::AtLeastOnce, |init, ticker| {
        ticker.first = Some(init.schedule(Schedule::wall_clock_ms(10), |t, cx, at| {
            note(t, "p1", at)?;
            let first = t.first.expect("it was set");
            cx.cancel(first);
            cx.schedule(Schedule::wall_clock_ms(5), move |t, cx, at| {
                note(t, "p2", at)?;
                cx.cancel(first);
                Ok(())
            })
            .map(drop)
        })?);
        Ok(())
    });
    for _ in 0..5 {
        driver.advance(ms(5)).unwrap();
    }
    assert_eq!(taken(&calls), ["p1@110", "p2@115", "p2@120", "p2@125"]);
}

#[test]
fn punctuations_that_are_due_at_once_run_in_the_order_they_were_made() {
    let (driver, calls) = ticking(Guarantee::AtLeastOnce, |init, _| {
        init.schedule(Schedule::wall_clock_ms(10), |t, _, at| note(t, "one", at))?;
        init.schedule(Schedule::wall_clock_ms(10), |t, _, at| note(t, "two", at))?;
        Ok(())
    });
    driver.advance(ms(10)).unwrap();
    assert_eq!(taken(&calls), ["one@110", "two@110"]);
}

#[test]
fn a_record_can_cancel_a_punctuation() {
    let (driver, calls) = ticking(Guarantee::AtLeastOnce, |init, ticker| {
        ticker.first = Some(init.schedule(Schedule::wall_clock_ms(10), |t, _, at| note(t, "w", at))?);
        Ok(())
    });
    driver.advance(ms(10)).unwrap();
    pipe(&driver, &[("cancel", 1, 0)]);
    driver.advance(ms(100)).unwrap();
    assert_eq!(taken(&calls), ["w@110"]);
}

#[test]
fn a_record_that_fails_cancels_and_starts_no_punctuation() {
    for guarantee in BOTH {
        let (driver, calls) = ticking_with("continue", guarantee, |init, ticker| {
            ticker.first = Some(init.schedule(Schedule::wall_clock_ms(10), |t, _, at| note(t, "w", at))?);
            Ok(())
        });
        pipe(&driver, &[("cancel start fail", 1, 0)]);
        driver.advance(ms(10)).unwrap();
        assert_eq!(taken(&calls), ["w@110"]);
        // A new one beside it takes neither its place nor its calls.
        pipe(&driver, &[("cancel fail", 1, 0), ("start", 1, 0)]);
        for _ in 0..10 {
            driver.advance(ms(1)).unwrap();
        }
        assert_eq!(taken(&calls), ["new@117", "w@120"]);
        pipe(&driver, &[("cancel", 1, 0), ("start fail", 1, 0)]);
        driver.advance(ms(4)).unwrap();
        driver.advance(ms(7)).unwrap();
        assert_eq!(taken(&calls), ["new@124", "new@131"]);
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 3);
    }
}

/// Starts a timer where none runs, and cancels it where the key says so.
struct Awake(Calls, Timer);

impl Awake {
    fn call(&mut self, cx: &mut Context<'_, Self>, at: i64) -> Result {
        self.0.lock().unwrap().push(format!("{at}"));
        cx.cancel(self.1);
        Ok(())
    }
}

impl Processor for Awake {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        if record.key.contains("cancel") {
            cx.cancel(self.1);
        }
        if record.key.contains("other") {
            cx.schedule(Schedule::wall_clock_ms(1_000), |_, _, _| Ok(()))?;
        }
        if record.key.contains("start") && !cx.is_scheduled(self.1) {
            self.1 = cx.schedule(Schedule::wall_clock_ms(10), Self::call)?;
        }
        cx.forward(record)
    }
}

/// The failing node is a sibling that comes later: nothing of the processor itself has failed.
#[test]
fn whether_a_timer_runs_is_known_after_a_record_that_failed_too() {
    let calls = Calls::default();
    let kept = calls.clone();
    let driver = builder(|b| {
        let input = b.stream("in", Consumed::with(Utf8, I64));
        let awake = input.clone().process((), move |init, ()| {
            let timer = init.schedule(Schedule::wall_clock_ms(10), Awake::call)?;
            Ok(Awake(kept.clone(), timer))
        });
        awake.to("out", Produced::with(Utf8, I64));
        input.try_foreach(|key, _| if key.contains("fail") { Err(Error::other("told to")) } else { Ok(()) });
    })
    .start_time(100)
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    driver.advance(ms(10)).unwrap();
    assert_eq!(taken(&calls), ["110"]);
    // It was cancelled by its own call, and what starts it has failed: the next record starts it.
    pipe(&driver, &[("start fail", 1, 0), ("start", 1, 0), ("start", 1, 0)]);
    driver.advance(ms(10)).unwrap();
    assert_eq!(taken(&calls), ["120"]);
    // A cancellation that has failed leaves it running: the next record starts no second one.
    pipe(&driver, &[("start", 1, 0), ("cancel fail", 1, 0), ("start", 1, 0)]);
    driver.advance(ms(10)).unwrap();
    assert_eq!(taken(&calls), ["130"]);
    // One that is cancelled for good is.
    pipe(&driver, &[("start", 1, 0), ("cancel", 1, 0)]);
    driver.advance(ms(10)).unwrap();
    assert!(taken(&calls).is_empty());
    // A record knows what it has done itself.
    pipe(&driver, &[("start", 1, 0)]);
    driver.advance(ms(5)).unwrap();
    pipe(&driver, &[("cancel start", 1, 0)]);
    driver.advance(ms(5)).unwrap();
    assert!(taken(&calls).is_empty());
    driver.advance(ms(5)).unwrap();
    assert_eq!(taken(&calls), ["155"]);
    // Others, of which one has its slot now, are not taken for it.
    pipe(&driver, &[("other", 1, 0), ("other", 1, 0), ("start", 1, 0)]);
    driver.advance(ms(10)).unwrap();
    assert_eq!(taken(&calls), ["165"]);
}

#[test]
fn a_punctuation_that_fails_does_not_end_itself() {
    let (driver, calls) = ticking_with("continue", Guarantee::AtLeastOnce, |init, ticker| {
        ticker.first = Some(init.schedule(Schedule::wall_clock_ms(10), |t, cx, at| {
            note(t, "w", at)?;
            cx.cancel(t.first.expect("it was set"));
            if at < 130 { Err(Error::other("not yet")) } else { Ok(()) }
        })?);
        Ok(())
    });
    for _ in 0..5 {
        driver.advance(ms(10)).unwrap();
    }
    assert_eq!(taken(&calls), ["w@110", "w@120", "w@130"]);
}

#[test]
fn a_punctuation_that_panics_keeps_its_rhythm_as_those_beside_it_do() {
    let (driver, calls) = ticking_with("continue", Guarantee::AtLeastOnce, |init, _| {
        init.schedule(Schedule::stream_time_ms(10), |t, _, at| {
            note(t, "s", at)?;
            panic!("not today")
        })?;
        init.schedule(Schedule::wall_clock_ms(10), |t, _, at| note(t, "w", at)).map(drop)
    });
    driver.advance(ms(9)).unwrap();
    pipe(&driver, &[("a", 1, 5)]);
    driver.advance(ms(1)).unwrap();
    pipe(&driver, &[("a", 1, 9), ("a", 1, 10)]);
    assert_eq!(taken(&calls), ["s@5", "w@110", "s@10"]);
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
}

/// A timer that was started by a record ends with a panic. The one that the supplier makes anew may stand in its place, and is
/// not called in its stead.
#[test]
fn a_punctuation_that_is_gone_with_its_panic_is_not_tried_again() {
    struct Replaced(Calls, Timer);

    impl Processor for Replaced {
        type In = Record<String, i64>;
        type Out = Record<String, i64>;

        fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
            match record.key.as_str() {
                "cancel" => cx.cancel(self.1),
                _ => drop(cx.schedule(Schedule::wall_clock_ms(7), |_, _, _| panic!("not this one"))?),
            }
            Ok(())
        }
    }

    let calls = Calls::default();
    let kept = calls.clone();
    let driver = builder(move |b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .process((), move |init, ()| {
                let timer = init.schedule(Schedule::wall_clock_ms(10), |replaced: &mut Replaced, _, at| {
                    replaced.0.lock().unwrap().push(at.to_string());
                    Ok(())
                })?;
                Ok(Replaced(kept.clone(), timer))
            })
            .to("out", Produced::with(Utf8, I64));
    });
    let retry = |_: &Failed<'_>, _: &millpond_runtime::Error| ErrorAnswer::Retry;
    let driver = driver.start_time(100).error_handler(retry).build().unwrap();
    pipe(&driver, &[("cancel", 0, 0), ("start", 0, 0)]);
    driver.advance(ms(7)).unwrap();
    assert!(taken(&calls).is_empty());
    driver.advance(ms(10)).unwrap();
    assert_eq!(taken(&calls), ["117"], "what the supplier has made anew");
}

/// Nobody could read it: a source takes no record from before 1970.
#[test]
fn a_record_with_a_negative_time_is_written_to_no_topic() {
    let driver = builder(|b| {
        let input = b.stream("in", Consumed::with(Utf8, I64));
        let early = closure(|(): &(), cx, record: Record<String, i64>| {
            let timestamp = record.value;
            cx.forward(Record { timestamp, ..record })
        });
        input.process((), early).repartition(Repartitioned::with(Utf8, I64)).to("out", Produced::with(Utf8, I64));
    });
    let driver = driver.setting("processing.exception.handler", "continue").build().unwrap();
    pipe(&driver, &[("a", 5, 1), ("b", -5, 2), ("c", 6, 3)]);
    assert_eq!(out(&driver), kvs(&[("a", 5), ("c", 6)]));
    assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 1);
}

#[test]
fn b081_an_error_in_a_punctuation_names_the_node_or_is_counted() {
    let (driver, _) = ticking(Guarantee::AtLeastOnce, |init, _| {
        init.schedule(Schedule::wall_clock_ms(10), |_, _, _| Err(Error::other("no such luck"))).map(drop)
    });
    let error = driver.advance(ms(10)).unwrap_err();
    assert_names(&error, &["punctuation", "task=`0_0`", "node=`ticker`", "no such luck"]);
    let again = driver.input("in", Utf8, I64).pipe("a", 1, 0).unwrap_err();
    assert_names(&again, &["no such luck"]);
}

/// As before a record that fails: it is not done again.
#[test]
fn what_was_done_before_a_punctuation_that_fails_is_committed() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .process((), |init, ()| {
                    init.schedule(Schedule::wall_clock_ms(10), |_: &mut Ticker, cx, at| {
                        cx.forward(Record::new("half".to_owned(), 0, at))?;
                        Err(Error::other("no such luck"))
                    })?;
                    Ok(Ticker { calls: Calls::default(), first: None })
                })
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .manual_commit()
        .build()
        .unwrap();
        send(&driver, &[("a", 1, 0), ("b", 2, 1)]);
        driver.run().unwrap();
        assert_eq!(driver.committed("in", 0), None, "{guarantee:?}: nothing has asked for a commit");
        assert_names(&driver.advance(ms(10)).unwrap_err(), &["no such luck"]);
        assert_eq!(driver.committed("in", 0), Some(2), "{guarantee:?}");
        driver.restart().unwrap();
        driver.run().unwrap();
        assert_eq!(
            out(&driver),
            kvs(&[("a", 1), ("b", 2)]),
            "{guarantee:?}: each once, and nothing of the punctuation"
        );
    }
}

/// Keeps the last value of each key, and lets those below 10 go at a punctuation.
struct Expiring {
    rows: StoreRef<KeyValue<String, i64>>,
}

impl Processor for Expiring {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        cx.store(&self.rows)?.put(&record.key, &record.value)
    }
}

fn expire(p: &mut Expiring, cx: &mut Context<'_, Expiring>, at: i64) -> Result {
    let mut rows = cx.store(&p.rows)?.all();
    while let Some((key, value)) = rows.next(cx)? {
        if value == 666 {
            return Err(Error::other("met the beast"));
        }
        if value == 667 {
            panic!("met the beast's neighbour");
        }
        if value < 10 {
            cx.store(&p.rows)?.delete(&key)?;
            cx.forward(Record::new(key, value, at))?;
        }
    }
    Ok(())
}

fn expiring(policy: &str, guarantee: Guarantee) -> Driver {
    builder(|b| {
        let rows = b.key_value_store("rows", Utf8, I64);
        b.stream("in", Consumed::with(Utf8, I64))
            .process(&rows, |init, rows| {
                init.schedule(Schedule::wall_clock_ms(1_000), expire)?;
                Ok(Expiring { rows })
            })
            .to("out", Produced::with(Utf8, I64));
    })
    .guarantee(guarantee)
    .setting("processing.exception.handler", policy)
    .build()
    .unwrap()
}

#[test]
fn a_punctuation_scans_forwards_and_deletes() {
    for guarantee in BOTH {
        let driver = expiring("fail", guarantee);
        pipe(&driver, &[("a", 1, 0), ("b", 20, 0), ("c", 3, 0)]);
        driver.advance(ms(1_000)).unwrap();
        assert_eq!(out(&driver), kvs(&[("a", 1), ("c", 3)]));
        let rows = driver.store("rows", Utf8, I64);
        assert_eq!(rows.all(), kvs(&[("b", 20)]));
        assert_eq!(rows.changelog(), rows.all());
        driver.restart_without_state().unwrap();
        assert_eq!(rows.all(), kvs(&[("b", 20)]));
    }
}

#[test]
fn a_punctuation_that_fails_half_way_has_no_effect() {
    for guarantee in BOTH {
        for (beast, from) in [(666, "c"), (667, "d")] {
            let driver = expiring("continue", guarantee);
            pipe(&driver, &[("a", 1, 0), ("b", 2, 0), (from, beast, 0)]);
            driver.advance(ms(1_000)).unwrap();
            assert!(out(&driver).is_empty());
            let rows = driver.store("rows", Utf8, I64);
            assert_eq!(rows.all(), kvs(&[("a", 1), ("b", 2), (from, beast)]));
            assert_eq!(rows.changelog(), rows.all());
            assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1, "the failed punctuation is counted");
            pipe(&driver, &[(from, 4, 0)]);
            driver.advance(ms(1_000)).unwrap();
            assert_eq!(out(&driver), kvs(&[("a", 1), ("b", 2), (from, 4)]), "and the next one does it all");
        }
    }
}
