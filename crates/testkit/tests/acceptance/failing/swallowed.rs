//! Errors of children that a processor does not pass on.

use std::time::Duration;

use millpond_runtime::{Counter, Guarantee};
use millpond_testkit::DriverBuilder;
use millpond_topology::{
    Consumed, Context, Error, I64, KeyValue, Processor, Produced, Record, Result, Schedule, StoreRef, Utf8,
};

use crate::support::{BOTH, assert_names, builder, closure, kvs, out, pipe};

/// Drops the errors of its children; of keys that begin with `again` it forwards another value then.
struct Careless;

impl Processor for Careless {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        if cx.forward(record.clone()).is_err() && record.key.starts_with("again") {
            return cx.forward(record.with_value(1));
        }
        Ok(())
    }
}

/// Behind the careless one stands one that writes, forwards, and only then fails, for 13.
fn careless(guarantee: Guarantee, policy: &str) -> DriverBuilder {
    builder(|b| {
        let store = b.key_value_store("sums", Utf8, I64);
        type Sums = StoreRef<KeyValue<String, i64>>;
        b.stream("in", Consumed::with(Utf8, I64))
            .named("careless")
            .process((), |init, ()| {
                init.schedule(Schedule::wall_clock_ms(10), |_: &mut Careless, cx, at| {
                    let failed = cx.forward(Record::new("by-clock".to_owned(), 13, at));
                    assert!(failed.is_err());
                    Ok(())
                })?;
                Ok(Careless)
            })
            .named("half-done")
            .process(
                &store,
                closure(|sums: &Sums, cx, r| {
                    cx.store(sums)?.update(&r.key, |old| Some(old.unwrap_or(0) + r.value))?;
                    let value = r.value;
                    cx.forward(r)?;
                    if value == 13 { Err(Error::other("unlucky")) } else { Ok(()) }
                }),
            )
            .to("out", Produced::with(Utf8, I64));
    })
    .guarantee(guarantee)
    .setting("processing.exception.handler", policy)
}

#[test]
fn a_child_that_fails_fails_the_record_whatever_the_parent_makes_of_it() {
    for guarantee in BOTH {
        let driver = careless(guarantee, "continue").build().unwrap();
        pipe(&driver, &[("a", 1, 0), ("a", 13, 1), ("again", 13, 2), ("b", 2, 3)]);
        let sums = driver.store("sums", Utf8, I64);
        assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 2);
        driver.advance(Duration::from_millis(10)).unwrap();
        assert_eq!(driver.count(Counter::ProcessingSkippedTotal), 3, "a punctuation fails, too");
        assert_eq!((out(&driver), sums.all()), (kvs(&[("a", 1), ("b", 2)]), kvs(&[("a", 1), ("b", 2)])));
        assert_eq!(sums.changelog(), sums.all());
    }
}

#[test]
fn the_error_is_the_childs_and_says_what_is_missing() {
    let driver = careless(Guarantee::AtLeastOnce, "fail").build().unwrap();
    let error = driver.input("in", Utf8, I64).pipe("a", 13, 0).unwrap_err();
    assert_names(&error, &["node=`half-done`", "unlucky", "not passed on by=`careless`"]);
}
