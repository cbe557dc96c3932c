//! All failures and answers mixed, with commits and crashes in between, against what each record alone comes to.

use std::collections::BTreeMap;

use fastrand::Rng;
use millpond_broker_api::Broker;
use millpond_runtime::{ErrorAnswer, Failed, Guarantee};
use millpond_testkit::{Driver, RawRecord};
use millpond_topology::{Consumed, Error, I64, KeyValue, Produced, Record, StoreRef, Utf8};

use super::{Picky, number};
use crate::support::{BOTH, builder, closure};

/// What a record does, by the last digit of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Well,
    Poison,
    Fail,
    Panic,
    NotSerialize,
    /// Its text is refused when it is flushed.
    RefusedLate,
    /// Its text is refused by the client.
    RefusedAtOnce,
}

fn does(n: i64) -> Does {
    match n % 10 {
        0 => Does::Poison,
        1 => Does::Fail,
        2 => Does::Panic,
        3 => Does::NotSerialize,
        4 => Does::RefusedLate,
        5 if n % 4 == 1 => Does::RefusedAtOnce,
        _ => Does::Well,
    }
}

fn is_dead_lettered(n: i64) -> bool {
    n / 10 % 2 == 0
}

fn bytes(n: i64) -> Vec<u8> {
    // Poison has its number in front, so that the handler can tell which it is.
    if does(n) == Does::Poison { [number(n), vec![0]].concat() } else { number(n) }
}

/// Some are tried again once; then they are skipped, or become dead letters.
fn answer(failed: &Failed<'_>, _: &millpond_runtime::Error) -> ErrorAnswer {
    let n = failed.value.and_then(|v| v.first_chunk()).map_or(0, |n| i64::from_be_bytes(*n));
    match (failed.attempt, failed.output) {
        (1, None) if n % 3 == 0 => ErrorAnswer::Retry,
        _ if is_dead_lettered(n) => ErrorAnswer::DeadLetter,
        _ => ErrorAnswer::Skip,
    }
}

fn driver(guarantee: Guarantee, rng: &mut Rng) -> Driver {
    let driver = builder(|b| {
        let store = b.key_value_store("sums", Utf8, I64);
        type Sums = StoreRef<KeyValue<String, i64>>;
        let stream = b.stream("in", Consumed::with(Utf8, I64)).process(
            &store,
            closure(|sums: &Sums, cx, r| {
                let n = r.value;
                cx.store(sums)?.update(&r.key, |old| Some(old.unwrap_or(0) + n))?;
                cx.forward(r.clone())?;
                match does(n) {
                    Does::Fail => Err(Error::other("told to")),
                    Does::Panic => panic!("told to"),
                    Does::NotSerialize => cx.forward(Record { value: i64::MIN, ..r }),
                    _ => Ok(()),
                }
            }),
        );
        let texts = stream.clone().filter(|_, n| *n != i64::MIN).map_values(|n| {
            let length = match does(n) {
                Does::RefusedLate => 2_000,
                Does::RefusedAtOnce => 1_100_000,
                _ => 10,
            };
            format!("{}{n}", "0".repeat(length))
        });
        texts.to("texts", Produced::with(Utf8, Utf8));
        stream.to("numbers", Produced::with(Utf8, Picky));
    })
    .topic("in", 2)
    .guarantee(guarantee)
    .caching(if rng.bool() { 0 } else { 1 << 20 })
    .manual_commit()
    .setting("errors.dead.letter.queue.topic.name", "dead")
    .error_handler(answer)
    .build()
    .unwrap();
    let mut admin = driver.broker().admin().unwrap();
    admin.set_configs("texts", &[("max.message.bytes", "1000")]).unwrap();
    driver
}

/// Numbers, in order.
fn sorted(mut numbers: Vec<i64>) -> Vec<i64> {
    numbers.sort_unstable();
    numbers
}

fn check(driver: &Driver, all: &[(String, i64)]) {
    let by = |keeps: &dyn Fn(Does) -> bool| sorted(all.iter().map(|(_, n)| *n).filter(|n| keeps(does(*n))).collect());
    let is_refused = |d| matches!(d, Does::RefusedLate | Does::RefusedAtOnce);
    let is_whole = |d| d == Does::Well || is_refused(d);
    let numbers = driver.output("numbers", Utf8, I64).read_all().into_iter().map(|r| r.value);
    assert_eq!(sorted(numbers.collect()), by(&is_whole));
    let texts = driver.output("texts", Utf8, Utf8).read_all().into_iter().map(|r| r.value.parse().unwrap());
    assert_eq!(sorted(texts.collect()), by(&|d| d == Does::Well));
    let letters = driver.records("dead").into_iter().map(|r| {
        let value = r.value.unwrap();
        let n = i64::from_be_bytes(*value.first_chunk().unwrap());
        assert_eq!(value, bytes(n), "as it came");
        n
    });
    let mut dead = by(&|d| d != Does::Well);
    dead.retain(|n| is_dead_lettered(*n));
    assert_eq!(sorted(letters.collect()), dead);
    let mut sums = BTreeMap::<String, i64>::new();
    for (key, n) in all.iter().filter(|(_, n)| is_whole(does(*n))) {
        *sums.entry(key.clone()).or_default() += n;
    }
    let store = driver.store("sums", Utf8, I64);
    assert_eq!(store.all(), Vec::from_iter(sums));
    assert_eq!(store.changelog(), store.all());
}

#[test]
fn what_fails_never_touches_what_does_not() {
    for guarantee in BOTH {
        for seed in 0..20 {
            let mut rng = Rng::with_seed(seed);
            let driver = driver(guarantee, &mut rng);
            let mut all = Vec::new();
            for at in 0..rng.i64(1..200) {
                // Numbers are not repeated, so that each can be found again.
                let (key, n) = (format!("k{}", rng.u8(0..4)), at * 100 + rng.i64(0..100));
                driver.send("in", None, &RawRecord::bytes(&key, bytes(n), at)).unwrap();
                all.push((key, n));
                match rng.u8(0..20) {
                    0 => driver.commit().unwrap(),
                    1..4 => driver.run().unwrap(),
                    4 if guarantee == Guarantee::ExactlyOnce => driver.crash().unwrap(),
                    _ => {}
                }
            }
            driver.commit().unwrap();
            check(&driver, &all);
            driver.restart_without_state().unwrap();
            check(&driver, &all);
        }
    }
}
