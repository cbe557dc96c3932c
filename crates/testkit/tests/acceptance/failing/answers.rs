//! Every answer to every kind of failure, by a handler and by settings.

use millpond_runtime::{Counter, ErrorAnswer, ErrorHandler, ErrorKind, ErrorPolicy, ErrorStage, Failed, Guarantee};
use millpond_testkit::{Driver, DriverBuilder, RawRecord};
use millpond_topology::{Consumed, I64, Materialized, Produced, Utf8};

use super::{Asked, FAULTS, Fault, half_done, letters};
use crate::support::{BOTH, assert_names, builder, kvs, out};

const KEYS: [&str; 3] =
    ["deserialization.exception.handler", "processing.exception.handler", "production.exception.handler"];

/// How often each answer was given to errors of a stage: fail, skip, dead letter, retry.
fn counted(driver: &Driver, stage: ErrorStage) -> [u64; 4] {
    let counters = match stage {
        ErrorStage::Deserialization => [
            Counter::DeserializationFailedTotal,
            Counter::DeserializationSkippedTotal,
            Counter::DeserializationDeadLetterTotal,
            Counter::DeserializationRetriedTotal,
        ],
        ErrorStage::Processing => [
            Counter::ProcessingFailedTotal,
            Counter::ProcessingSkippedTotal,
            Counter::ProcessingDeadLetterTotal,
            Counter::ProcessingRetriedTotal,
        ],
        _ => [
            Counter::ProductionFailedTotal,
            Counter::ProductionSkippedTotal,
            Counter::ProductionDeadLetterTotal,
            Counter::ProductionRetriedTotal,
        ],
    };
    counters.map(|counter| driver.count(counter))
}

/// A good record, one that fails and another good one.
fn run(driver: &Driver, fault: Fault) -> millpond_runtime::Result {
    let input = driver.input("in", Utf8, I64);
    input.pipe("a", 1, 10)?;
    driver.pipe("in", None, &fault.record(11))?;
    input.pipe("a", 2, 12)
}

/// The record that failed has left nothing anywhere, and the others are whole.
fn assert_skipped(driver: &Driver, fault: Fault) {
    assert_eq!(out(driver), kvs(&[("a", 1), ("a", -1), ("a", 3), ("a", -3)]), "{fault:?}");
    let sums = driver.store("sums", Utf8, I64);
    assert_eq!(sums.all(), kvs(&[("a", 3), ("last-a", 2)]), "{fault:?}");
    assert_eq!(sums.changelog(), sums.all());
    assert_eq!(driver.records("sums-changelog").len(), 4, "{fault:?}: two keys for each good record");
    assert_eq!(driver.records("again-repartition").len(), 4, "{fault:?}");
    assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("a", 4)]), "{fault:?}");
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1, "{fault:?}");
    assert!(driver.committed("in", 0).is_some_and(|n| n >= 3));
}

/// The application has stopped at the second record, with nothing of it done and all of the first.
fn assert_stopped(driver: &Driver, fault: Fault) {
    assert_eq!(out(driver), kvs(&[("a", 1), ("a", -1)]), "{fault:?}");
    assert_eq!(driver.records("sums-changelog").len(), 2, "{fault:?}");
    assert_eq!(driver.records("again-repartition").len(), 2, "{fault:?}");
    assert_eq!(driver.committed("in", 0), Some(1), "{fault:?}: it is not done with");
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 0);
}

/// All failures with all guarantees, with and without a cache.
fn each(check: impl Fn(Fault, &dyn Fn() -> DriverBuilder)) {
    for guarantee in BOTH {
        for caching in [0, 1 << 20] {
            for fault in FAULTS {
                check(fault, &|| half_done().guarantee(guarantee).caching(caching));
            }
        }
    }
}

#[test]
fn skip() {
    each(|fault, make| {
        let asked = Asked::default();
        let driver = make().error_handler(asked.answering(|_| ErrorAnswer::Skip)).build().unwrap();
        run(&driver, fault).unwrap();
        assert_skipped(&driver, fault);
        assert_eq!(asked.attempts(), [1], "{fault:?}");
        assert_eq!(counted(&driver, fault.stage()), [0, 1, 0, 0], "{fault:?}");
        driver.restart_without_state().unwrap();
        assert_eq!(driver.store("sums", Utf8, I64).all(), kvs(&[("a", 3), ("last-a", 2)]));
        assert_eq!(asked.attempts(), [1], "{fault:?}: it is not met again");
    });
}

#[test]
fn fail() {
    each(|fault, make| {
        let asked = Asked::default();
        let driver = make().error_handler(asked.answering(|_| ErrorAnswer::Fail)).build().unwrap();
        let error = run(&driver, fault).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record);
        assert_names(&error, &["task=`0_0`", "topic=`in`", "partition=`0`", "offset=`1`", "exception.handler"]);
        assert_stopped(&driver, fault);
        assert_eq!(counted(&driver, fault.stage()), [1, 0, 0, 0], "{fault:?}");
        assert_names(&driver.restart().unwrap_err(), &["offset=`1`"]);
        assert_eq!(asked.attempts(), [1, 1], "{fault:?}: once for each start");
    });
}

#[test]
fn dead_letter() {
    each(|fault, make| {
        for topic in ["dead", "elsewhere"] {
            let asked = Asked::default();
            let answer =
                if topic == "dead" { ErrorAnswer::DeadLetter } else { ErrorAnswer::DeadLetterTo(topic.to_owned()) };
            let driver = make()
                .setting("errors.dead.letter.queue.topic.name", "dead")
                .error_handler(asked.answering(move |_| answer.clone()))
                .build()
                .unwrap();
            run(&driver, fault).unwrap();
            assert_skipped(&driver, fault);
            assert_eq!(letters(&driver, topic), [(b"a".to_vec(), fault.value())]);
            let other = if topic == "dead" { "elsewhere" } else { "dead" };
            assert!(driver.records(other).is_empty());
            assert_eq!(asked.attempts(), [1], "{fault:?}");
            assert_eq!(counted(&driver, fault.stage()), [0, 0, 1, 0], "{fault:?}");
            assert_eq!(driver.count(Counter::DeadLetterTotal), 1);
            driver.restart().unwrap();
            assert_eq!(letters(&driver, topic).len(), 1);
        }
    });
}

#[test]
fn retry_is_bounded_and_ends_as_a_failure() {
    each(|fault, make| {
        let asked = Asked::default();
        let driver = make()
            .setting("errors.max.attempts", "3")
            .error_handler(asked.answering(|_| ErrorAnswer::Retry))
            .build()
            .unwrap();
        let error = run(&driver, fault).unwrap_err();
        assert_names(&error, &["topic=`in`", "offset=`1`", "attempts=`3`"]);
        assert_eq!(asked.attempts(), [1, 2, 3], "{fault:?}");
        assert_stopped(&driver, fault);
        assert_eq!(counted(&driver, fault.stage()), [1, 0, 0, 2], "{fault:?}");
    });
}

/// The same by settings: only the handler of the stage decides.
#[test]
fn settings_answer_for_their_stage() {
    for fault in FAULTS {
        let stage = match fault.stage() {
            ErrorStage::Deserialization => 0,
            ErrorStage::Processing => 1,
            _ => 2,
        };
        let with = |of_stage: &str, of_others: &str| {
            let set = |builder: DriverBuilder, (at, key): (usize, &&str)| {
                builder.setting(key, if at == stage { of_stage } else { of_others })
            };
            let builder = KEYS.iter().enumerate().fold(half_done(), set);
            if [of_stage, of_others].contains(&"dead-letter") {
                builder.setting("errors.dead.letter.queue.topic.name", "dead").build().unwrap()
            } else {
                builder.build().unwrap()
            }
        };
        let driver = with("continue", "fail");
        run(&driver, fault).unwrap();
        assert_skipped(&driver, fault);
        let driver = with("dead-letter", "fail");
        run(&driver, fault).unwrap();
        assert_skipped(&driver, fault);
        assert_eq!(letters(&driver, "dead"), [(b"a".to_vec(), fault.value())]);
        let driver = with("fail", "dead-letter");
        let error = run(&driver, fault).unwrap_err();
        assert_names(&error, &[KEYS[stage], "offset=`1`"]);
        assert_stopped(&driver, fault);
        assert!(letters(&driver, "dead").is_empty());
    }
}

#[test]
fn a_handler_is_told_what_failed_and_where() {
    for fault in FAULTS {
        let asked = Asked::default();
        let driver = half_done()
            .topic("in", 3)
            .setting("processing.exception.handler", "continue")
            .error_handler(asked.answering(|failed| {
                let processing = failed.stage == ErrorStage::Processing;
                assert_eq!(failed.policy, if processing { ErrorPolicy::Continue } else { ErrorPolicy::Fail });
                ErrorAnswer::Skip
            }))
            .build()
            .unwrap();
        driver.input("in", Utf8, I64).partition(2).pipe("a", 1, 10).unwrap();
        let record = fault.record(11).header("h", "x").header("i", "y");
        driver.pipe("in", Some(2), &record).unwrap();
        let all = asked.all();
        let [told] = all.as_slice() else { panic!("{all:?}") };
        let node = match fault {
            Fault::Bytes => Some("numbers"),
            Fault::Error => Some("half-done"),
            Fault::Panic => None,
            Fault::Output => Some("results"),
        };
        assert_eq!((told.stage, told.node.as_deref()), (fault.stage(), node), "{fault:?}");
        assert_eq!(told.source, Some(("in".to_owned(), 2, 1)));
        assert_eq!((told.key.as_deref(), told.value.clone()), (Some(&b"a"[..]), Some(fault.value())));
        assert_eq!((told.headers, told.timestamp, &told.output), (2, 11, &None));
        for part in ["task=`0_2`", "topic=`in`", "partition=`2`", "offset=`1`"] {
            assert!(told.error.contains(part), "{}", told.error);
        }
        assert!(!told.error.contains("\"a\"") && !told.error.contains("not a number"), "{}", told.error);
    }
}

/// The causes of an error can be told apart by their types.
#[test]
fn a_handler_finds_the_cause_of_an_error() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .try_map_values(|text: String| Ok(text.parse::<i64>()?))
            .to("out", Produced::with(Utf8, I64));
    })
    .error_handler(|_: &millpond_runtime::Failed<'_>, error: &millpond_runtime::Error| {
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            if error.is::<std::num::ParseIntError>() {
                return ErrorAnswer::Skip;
            }
            cause = error.source();
        }
        ErrorAnswer::Fail
    })
    .build()
    .unwrap();
    let input = driver.input("in", Utf8, Utf8);
    input.pipe("a", "1", 0).unwrap();
    input.pipe("a", "one", 1).unwrap();
    input.pipe("a", "2", 2).unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2)]));
}

#[test]
fn a_panic_in_the_handler_stops_the_application() {
    for guarantee in BOTH {
        let driver = half_done()
            .guarantee(guarantee)
            .error_handler(Asked::default().answering(|_| panic!("handlers can be wrong, too")))
            .build()
            .unwrap();
        let error = run(&driver, Fault::Error).unwrap_err();
        assert_names(&error, &["error handler=`panicked`", "offset=`1`", "unlucky"]);
        assert_stopped(&driver, Fault::Error);
    }
}

/// KAFKA-6502: poison at the end of a partition is met once, and is done with.
#[test]
fn b083_the_handler_is_called_once_for_each_poison_record() {
    for guarantee in BOTH {
        let asked = Asked::default();
        let driver =
            half_done().guarantee(guarantee).error_handler(asked.answering(|_| ErrorAnswer::Skip)).build().unwrap();
        let input = driver.input("in", Utf8, I64);
        for n in 1..=3 {
            input.pipe("a", n, n).unwrap();
        }
        driver.send("in", None, &Fault::Bytes.record(4)).unwrap();
        driver.send("in", None, &RawRecord::bytes("b", [1, 2], 5)).unwrap();
        driver.commit().unwrap();
        let told: Vec<_> = asked.all().into_iter().map(|t| (t.source, t.key, t.value)).collect();
        let place = |offset| Some(("in".to_owned(), 0, offset));
        assert_eq!(
            told,
            [
                (place(3), Some(b"a".to_vec()), Some(b"not a number".to_vec())),
                (place(4), Some(b"b".to_vec()), Some(vec![1, 2]))
            ]
        );
        assert_eq!((driver.committed("in", 0), driver.count(Counter::DroppedRecordsTotal)), (Some(5), 2));
        driver.restart().unwrap();
        driver.commit().unwrap();
        assert_eq!(asked.all().len(), 2, "none is met again");
        assert_eq!((driver.committed("in", 0), out(&driver).len()), (Some(5), 6));
    }
}

/// A batch of nothing but poison moves the committed offset, under either guarantee.
#[test]
fn b083_a_batch_of_poison_is_committed() {
    for guarantee in BOTH {
        let driver = half_done().guarantee(guarantee).setting(KEYS[0], "continue").manual_commit().build().unwrap();
        for n in 0..10 {
            driver.send("in", None, &Fault::Bytes.record(n)).unwrap();
        }
        driver.commit().unwrap();
        assert_eq!((driver.committed("in", 0), driver.count(Counter::DroppedRecordsTotal)), (Some(10), 10));
    }
}

/// KAFKA-4393: what has no event time is the processing handler's, and moves no clock.
#[test]
fn b018_a_handler_may_skip_what_has_a_negative_time() {
    for guarantee in BOTH {
        let asked = Asked::default();
        let driver =
            half_done().guarantee(guarantee).error_handler(asked.answering(|_| ErrorAnswer::Skip)).build().unwrap();
        let input = driver.input("in", Utf8, I64);
        for (value, timestamp) in [(1, 50), (2, -1), (3, 40), (4, -1)] {
            input.pipe("k", value, timestamp).unwrap();
        }
        let told: Vec<_> = asked.all().into_iter().map(|t| (t.stage, t.source.unwrap().2, t.timestamp)).collect();
        assert_eq!(told, [(ErrorStage::Processing, 1, -1), (ErrorStage::Processing, 3, -1)]);
        let times: Vec<i64> = driver.output("out", Utf8, I64).read_all().iter().map(|r| r.timestamp).collect();
        assert_eq!((times, driver.count(Counter::DroppedRecordsTotal)), (vec![50, 50, 40, 40], 2));
        assert_eq!(driver.committed("in", 0), Some(4));
    }
}

#[test]
fn what_cannot_be_meant_is_refused_at_the_start() {
    let refused = |builder: DriverBuilder| builder.build().unwrap_err();
    for key in KEYS {
        let error = refused(half_done().setting(key, "dead-letter"));
        assert_eq!(error.kind(), ErrorKind::Config);
        assert_names(&error, &[key, "dead-letter", "errors.dead.letter.queue.topic.name"]);
        assert_names(&refused(half_done().setting(key, "resume")), &[key, "`resume`", "`dead-letter`"]);
    }
    let topic = "errors.dead.letter.queue.topic.name";
    let error = refused(half_done().setting(topic, "dead").setting(KEYS[0], "continue"));
    assert_names(&error, &["without effect", topic, "dead-letter"]);
    assert_names(&refused(half_done().setting("errors.max.attempts", "0")), &["errors.max.attempts", "1 or more"]);

    let named = |builder: DriverBuilder| {
        let builder = builder.only_named_topics().topic("in", 1).topic("out", 1).topic("counts-out", 1);
        refused(builder.setting(topic, "dead"))
    };
    let error = named(half_done().setting(KEYS[2], "dead-letter"));
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_names(&error, &["unknown topics=`dead`", "topic for dead letters=`dead`", "create them"]);
    let error = named(half_done().topic("dead", 1).error_handler(Asked::default().answering(|_| ErrorAnswer::Skip)));
    assert_names(&error, &["topic for dead letters=`elsewhere`"]);
}

/// A closure cannot implement `dead_letter_topics`; it is given them.
#[test]
fn a_closure_sorts_its_dead_letters_into_topics() {
    let sort = |failed: &Failed<'_>, _: &millpond_runtime::Error| match failed.stage {
        ErrorStage::Deserialization => ErrorAnswer::DeadLetterTo("unreadable".to_owned()),
        ErrorStage::Production => ErrorAnswer::DeadLetterTo("unwritable".to_owned()),
        _ => ErrorAnswer::DeadLetter,
    };
    for guarantee in BOTH {
        let driver = half_done()
            .guarantee(guarantee)
            .setting("errors.dead.letter.queue.topic.name", "dead")
            .error_handler(sort.with_dead_letter_topics(["unreadable"]).with_dead_letter_topics(["unwritable"]))
            .build()
            .unwrap();
        for (n, fault) in (0..).zip(FAULTS) {
            driver.pipe("in", None, &fault.record(n)).unwrap();
        }
        let values = |topic| letters(&driver, topic).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(values("unreadable"), [Fault::Bytes.value()]);
        assert_eq!(values("unwritable"), [Fault::Output.value()]);
        assert_eq!(values("dead"), [Fault::Error.value(), Fault::Panic.value()]);
    }
}

#[test]
fn a_dead_letter_without_a_place_stops_the_application() {
    for (answer, remedy) in [
        (ErrorAnswer::DeadLetter, "set `errors.dead.letter.queue.topic.name`"),
        (ErrorAnswer::DeadLetterTo("nowhere".to_owned()), "`with_dead_letter_topics`"),
    ] {
        let driver = half_done()
            .guarantee(Guarantee::ExactlyOnce)
            .error_handler(Asked::default().answering(move |_| answer.clone()))
            .build()
            .unwrap();
        let error = run(&driver, Fault::Error).unwrap_err();
        assert_names(&error, &["offset=`1`", remedy, "unlucky"]);
        assert_stopped(&driver, Fault::Error);
    }
}

/// Also after a panic, which leaves a graph that is not whole: cached updates go through a node with two parents.
#[test]
fn what_was_done_before_a_panic_is_committed() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            let input = b.stream("in", Consumed::with(Utf8, I64));
            let sums = input.clone().group_by_key().reduce(|a, b| a + b, Materialized::named("sums"));
            let both = sums.to_stream().merge(input);
            let check = |_: &String, value: &i64| match value {
                13 => panic!("very unlucky"),
                _ => Ok(()),
            };
            both.try_peek(check).to("out", Produced::with(Utf8, I64));
        });
        let driver = driver.guarantee(guarantee).caching(1 << 20).manual_commit().build().unwrap();
        let input = driver.input("in", Utf8, I64);
        input.pipe("a", 1, 1).unwrap();
        input.pipe("a", 2, 2).unwrap();
        assert_names(&input.pipe("b", 13, 3).unwrap_err(), &["very unlucky"]);
        assert_eq!(driver.committed("in", 0), Some(2), "{guarantee:?}");
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2), ("a", 3)]), "{guarantee:?}");
    }
}
