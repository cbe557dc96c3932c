//! Errors: atomic records, both policies, bad bytes, bad settings, missing topics and engines; what they name.

use millpond_runtime::{Counter, ErrorKind, Guarantee};
use millpond_testkit::{Driver, DriverBuilder, RawRecord};
use millpond_topology::{Consumed, Error, I64, Materialized, Produced, Repartitioned, Topology, Utf8};

use crate::failing;
use crate::support::{BOTH, assert_names, builder, closure, kvs, out, pipe, topology};

fn half_done(guarantee: Guarantee, policy: &str) -> DriverBuilder {
    failing::half_done().guarantee(guarantee).setting("processing.exception.handler", policy)
}

#[test]
fn d14_nothing_of_a_failed_record_remains_anywhere() {
    for guarantee in BOTH {
        for caching in [0, 1 << 20] {
            let driver = half_done(guarantee, "continue").caching(caching).build().unwrap();
            pipe(&driver, &[("a", 1, 0), ("a", 13, 1), ("a", 14, 2), ("a", 2, 3)]);
            assert_eq!(out(&driver), kvs(&[("a", 1), ("a", -1), ("a", 3), ("a", -3)]));
            assert_eq!(driver.records("again-repartition").len(), 4);
            assert_eq!(driver.store("counts", Utf8, I64).all(), kvs(&[("a", 4)]));
            let sums = driver.store("sums", Utf8, I64);
            assert_eq!(sums.all(), kvs(&[("a", 3), ("last-a", 2)]));
            assert_eq!(driver.records("sums-changelog").len(), 4, "two keys for each good record");
            assert_eq!(sums.changelog(), sums.all());
            assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
            assert!(driver.committed("in", 0).is_some_and(|n| n >= 4));
            driver.restart_without_state().unwrap();
            assert_eq!(sums.all(), kvs(&[("a", 3), ("last-a", 2)]));
        }
    }
}

#[test]
fn d14_records_of_one_batch_stand_and_fall_alone() {
    for guarantee in BOTH {
        let driver = half_done(guarantee, "continue").manual_commit().build().unwrap();
        crate::support::send(&driver, &[("a", 1, 0), ("a", 13, 1), ("b", 14, 2), ("b", 5, 3), ("a", 13, 4)]);
        driver.commit().unwrap();
        assert_eq!(driver.store("sums", Utf8, I64).all(), kvs(&[("a", 1), ("b", 5), ("last-a", 1), ("last-b", 5)]));
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", -1), ("b", 5), ("b", -5)]));
    }
}

#[test]
fn a_failed_record_names_its_place_and_the_remedy_and_stops_the_application() {
    for guarantee in BOTH {
        for (value, cause) in [(13, "unlucky"), (14, "panic: very unlucky")] {
            let driver = half_done(guarantee, "fail").topic("in", 2).build().unwrap();
            let input = driver.input("in", Utf8, I64).partition(1);
            input.pipe("a", 1, 0).unwrap();
            let error = input.pipe("a", value, 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Record);
            assert_names(&error, &["topic=`in`", "partition=`1`", "offset=`1`", "processing.exception.handler", cause]);
            assert!(!error.chain().contains("\"a\""), "no keys in errors: {}", error.chain());
            assert_eq!(driver.committed("in", 1), Some(1), "the record is not done with");
            assert_eq!(out(&driver).len(), 2);
            let again = driver.restart().unwrap_err();
            assert_names(&again, &["offset=`1`", cause]);
        }
    }
}

#[test]
fn the_errors_of_user_code_name_their_node() {
    let driver = half_done(Guarantee::AtLeastOnce, "fail").build().unwrap();
    let error = driver.input("in", Utf8, I64).pipe("a", 13, 1).unwrap_err();
    assert_names(&error, &["node=`half-done`"]);
}

fn plain() -> DriverBuilder {
    builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64).named("numbers")).to("out", Produced::default());
    })
}

fn poison(n: i64) -> RawRecord {
    RawRecord::bytes("k", b"not a number", n)
}

#[test]
fn bytes_that_do_not_deserialize_stop_the_application_with_their_place() {
    let driver = plain().build().unwrap();
    pipe(&driver, &[("a", 1, 0)]);
    let error = driver.pipe("in", None, &poison(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Record);
    assert_names(
        &error,
        &[
            "topic=`in`",
            "partition=`0`",
            "offset=`1`",
            "node=`numbers`",
            "do not deserialize",
            "deserialization.exception.handler",
        ],
    );
    assert!(!error.chain().contains("not a number"));
}

#[test]
fn b083_records_that_fail_to_deserialize_at_the_end_are_done_with() {
    for guarantee in BOTH {
        let driver =
            plain().guarantee(guarantee).setting("deserialization.exception.handler", "continue").build().unwrap();
        pipe(&driver, &[("a", 1, 0), ("a", 2, 1), ("a", 3, 2)]);
        driver.pipe("in", None, &poison(3)).unwrap();
        driver.pipe("in", None, &poison(4)).unwrap();
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2);
        assert_eq!(driver.committed("in", 0), Some(5));
        driver.restart().unwrap();
        assert_eq!(driver.count(Counter::DroppedRecordsTotal), 2, "none is met again");
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2), ("a", 3)]));
        let driver =
            plain().guarantee(guarantee).setting("deserialization.exception.handler", "continue").build().unwrap();
        driver.pipe("in", None, &poison(0)).unwrap();
        assert_eq!(driver.committed("in", 0), Some(1), "a batch of nothing but poison is committed, too");
    }
}

#[test]
fn the_two_handlers_are_told_apart() {
    let driver = plain().setting("processing.exception.handler", "continue").build().unwrap();
    assert!(driver.pipe("in", None, &poison(0)).is_err());
    let driver = half_done(Guarantee::AtLeastOnce, "fail")
        .setting("deserialization.exception.handler", "continue")
        .build()
        .unwrap();
    assert!(driver.input("in", Utf8, I64).pipe("a", 13, 0).is_err());
}

#[test]
fn poison_under_a_timestamp_extractor_is_the_deserialization_handlers() {
    let extracting = |policy| {
        builder(|b| {
            let consumed = Consumed::with(Utf8, I64).timestamp_extractor(|_, v, _, _| *v);
            b.stream("in", consumed).to("out", Produced::default());
        })
        .setting("deserialization.exception.handler", policy)
        .build()
        .unwrap()
    };
    let driver = extracting("continue");
    driver.pipe("in", None, &poison(1)).unwrap();
    pipe(&driver, &[("a", 7, 0)]);
    assert_eq!(out(&driver), kvs(&[("a", 7)]));
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
    let driver = extracting("fail");
    let error = driver.pipe("in", None, &poison(1)).unwrap_err();
    assert_names(&error, &["topic=`in`", "offset=`0`"]);
}

#[test]
fn a_panic_in_a_timestamp_extractor_skips_its_record() {
    let driver = builder(|b| {
        let consumed =
            Consumed::with(Utf8, I64).timestamp_extractor(|_, v, _, _| if *v == 13 { panic!("unlucky") } else { *v });
        b.stream("in", consumed).to("out", Produced::default());
    })
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    pipe(&driver, &[("a", 7, 0), ("a", 13, 1), ("a", 8, 2)]);
    assert_eq!(out(&driver), kvs(&[("a", 7), ("a", 8)]), "a record without a time has no effect");
    assert_eq!(driver.count(Counter::DroppedRecordsTotal), 1);
}

#[test]
fn a_skipped_record_moves_no_clock() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .process(
                (),
                closure(|(), cx, r| {
                    if r.value == 13 {
                        return Err(Error::other("unlucky"));
                    }
                    let time = cx.stream_time();
                    cx.forward(r.with_value(time))
                }),
            )
            .to("out", Produced::with(Utf8, I64));
    })
    .setting("processing.exception.handler", "continue")
    .setting("deserialization.exception.handler", "continue")
    .build()
    .unwrap();
    pipe(&driver, &[("a", 1, 10), ("a", 13, 1_000_000)]);
    driver.pipe("in", None, &poison(2_000_000)).unwrap();
    pipe(&driver, &[("a", 2, 11)]);
    driver.restart().unwrap();
    pipe(&driver, &[("a", 2, 12)]);
    assert_eq!(out(&driver), kvs(&[("a", 10), ("a", 11), ("a", 12)]));
}

#[test]
fn a_value_that_does_not_serialize_is_an_error_of_its_record() {
    struct Small;
    impl millpond_topology::Serde<i64> for Small {
        fn encode(&self, value: &i64, out: &mut Vec<u8>) -> millpond_topology::Result {
            out.push(u8::try_from(*value)?);
            Ok(())
        }
        fn decode(&self, bytes: &[u8]) -> millpond_topology::Result<i64> {
            Ok(i64::from(bytes[0]))
        }
    }
    let small = |policy| {
        builder(|b| b.stream("in", Consumed::with(Utf8, I64)).to("out", Produced::with(Utf8, Small)))
            .setting("production.exception.handler", policy)
            .build()
            .unwrap()
    };
    let driver = small("fail");
    let error = driver.input("in", Utf8, I64).pipe("a", 1_000, 0).unwrap_err();
    assert_names(&error, &["does not serialize", "offset=`0`"]);
    let driver = small("continue");
    pipe(&driver, &[("a", 1_000, 0), ("a", 7, 1)]);
    assert_eq!(driver.output("out", Utf8, Small).read_key_values(), kvs(&[("a", 7)]));
}

#[test]
fn b150_missing_source_topics_are_all_named() {
    let define = |b: &mut millpond_topology::Builder| {
        b.stream_of(&["in", "in2"], Consumed::with(Utf8, I64)).to("out", Produced::default());
    };
    let error = builder(define).only_named_topics().topic("in", 1).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_names(&error, &["in2, out", "create them"]);
    assert!(builder(define).only_named_topics().topic("in", 1).topic("in2", 1).topic("out", 1).build().is_ok());
}

fn counting(materialized: Materialized<String, i64>) -> Topology {
    topology(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by_key()
            .count(materialized)
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
}

#[test]
fn an_engine_that_is_not_there_is_named_with_its_store_and_those_that_are() {
    let error = Driver::builder(counting(Materialized::named("counts").engine("rocks"))).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert_names(&error, &["store=`counts`", "`rocks`", "engines=`mem`"]);
}

#[test]
fn wrong_settings_name_key_value_and_remedy() {
    let build = |key: &str, value: &str| {
        Driver::builder(counting(Materialized::default())).setting(key, value).build().unwrap_err()
    };
    assert_names(&build("procesing.guarantee", "x"), &["procesing.guarantee", "nearest=`processing.guarantee`"]);
    assert_names(&build("processing.guarantee", "twice"), &["processing.guarantee", "`twice`", "exactly_once_v2"]);
    assert_names(&build("num.stream.threads", "0"), &["num.stream.threads", "1 to 256"]);
    assert_names(&build("application.id", "a/b"), &["application.id", "`a/b`", "letters"]);
}

#[test]
fn b149_name_clashes_and_illegal_names_are_refused_when_the_topology_is_built() {
    let refused = |define: &dyn Fn(&mut millpond_topology::Builder)| {
        let mut builder = Topology::builder();
        define(&mut builder);
        builder.build().unwrap_err().to_string()
    };
    let count = |b: &mut millpond_topology::Builder, topic: &str, store: &str| {
        let _ = b.stream(topic, Consumed::with(Utf8, I64)).group_by_key().count(Materialized::named(store));
    };
    let text = refused(&|b| {
        count(b, "in", "s");
        count(b, "in2", "s");
    });
    assert!(text.contains("`s`"), "{text}");
    for name in ["a/b", "a b", "..", &"x".repeat(250)] {
        let text = refused(&|b| count(b, "in", name));
        assert!(text.contains(name), "{text}");
    }
    let text = refused(&|b| {
        for topic in ["in", "in2"] {
            b.stream(topic, Consumed::with(Utf8, I64))
                .repartition(Repartitioned::named("again").partitions(topic.len() as i32))
                .to("out", Produced::default());
        }
    });
    assert!(text.contains("again"), "{text}");
    let text = refused(&|b| {
        b.stream("in", Consumed::with(Utf8, I64)).to("out", Produced::default());
        b.stream("in", Consumed::with(Utf8, I64)).to("out2", Produced::default());
    });
    assert!(text.contains("`in`"), "{text}");
}

#[test]
fn a_supplier_that_fails_or_panics_fails_the_start() {
    let failing = |panics: bool| {
        builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .named("unwilling")
                .process((), move |_, ()| {
                    assert!(!panics, "not today");
                    Err::<crate::support::Closure<()>, _>(Error::other("not today"))
                })
                .to("out", Produced::with(Utf8, I64));
        })
        .build()
        .unwrap_err()
    };
    assert_names(&failing(false), &["not today", "build a task's graph"]);
    assert_names(&failing(true), &["not today", "panic"]);
}

#[test]
fn a_full_disk_is_survived_and_nothing_is_lost() {
    for guarantee in BOTH {
        let driver = Driver::builder(counting(Materialized::named("counts"))).guarantee(guarantee).build().unwrap();
        pipe(&driver, &[("a", 1, 0)]);
        driver.disk().fail_next(millpond_store_mem::DiskOp::Apply, millpond_store_api::ErrorKind::Full);
        pipe(&driver, &[("a", 1, 1), ("a", 1, 2)]);
        assert_eq!(driver.disk().pending_faults(), 0);
        assert_eq!(driver.count(Counter::ShardReopenedTotal), 1);
        let counts = driver.store("counts", Utf8, I64);
        assert_eq!(counts.get("a"), Some(3));
        assert_eq!(counts.changelog(), counts.all());
        assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2), ("a", 3)]));
    }
}
