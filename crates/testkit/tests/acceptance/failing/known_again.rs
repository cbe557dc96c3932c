//! Exactly-once: refused outputs are known again although not all is as it was when they are made again.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_broker_api::{Broker, Outgoing, Producer, ProducerOptions, Sent};
use millpond_runtime::{Counter, Guarantee};
use millpond_testkit::{Driver, DriverBuilder};
use millpond_topology::{Builder, Consumed, I64, Materialized, Nullable, Produced, Utf8};

use super::refused::{HANDLER, LATE, small_out};
use crate::support::{builder, kvs, send};

fn skipping(define: impl FnOnce(&mut Builder)) -> DriverBuilder {
    builder(define).guarantee(Guarantee::ExactlyOnce).setting(HANDLER, "continue").manual_commit()
}

/// The partition of an output without a key depends on those before it, which are made again, too.
#[test]
fn an_output_without_a_key_among_several_partitions() {
    let driver = small_out(
        skipping(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .map(|_, n| (None, "x".repeat(n as usize)))
                .to("out", Produced::with(Nullable(Utf8), Utf8));
        })
        .topic("out", 3)
        .setting("errors.max.attempts", "1"),
    );
    send(&driver, &[("a", 10, 0), ("a", 20, 1)]);
    driver.commit().unwrap();
    // Not a multiple of the partitions, or the turn would come to the same by itself.
    send(&driver, &[("a", 30, 2), ("a", LATE, 3), ("a", 40, 4), ("a", 50, 5)]);
    driver.commit().unwrap();
    let texts = driver.output("out", Nullable(Utf8), Utf8).read_all();
    let mut lengths: Vec<usize> = texts.iter().map(|r| r.value.len()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [10, 20, 30, 40, 50]);
    assert_eq!(driver.count(Counter::ProductionSkippedTotal), 1);
}

/// Writes to `in` while the topology runs.
#[derive(Clone, Default)]
struct Feed(Arc<Mutex<Option<Box<dyn Producer>>>>);

impl Feed {
    fn send(&self, partition: i32, key: &str) {
        let Some(producer) = &mut *self.0.lock().unwrap() else { return };
        let (topic, one) = (producer.topic("in"), 1_i64.to_be_bytes());
        let (key, value) = (Some(key.as_bytes()), Some(one.as_slice()));
        let record = Outgoing { topic, partition, timestamp: 9, key, value, headers: &[], tag: 0 };
        assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
        producer.flush(Duration::ZERO).unwrap();
    }
}

/// Adds numbers up by key, in a cache, and sends a text of that length. `look` sees each record first.
fn growing(partitions: i32, feed: &Feed, look: impl Fn(&str, i64) + Send + Sync + 'static) -> Driver {
    let driver = small_out(
        skipping(move |b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .peek(move |key, n| look(key, *n))
                .group_by_key()
                .reduce(|a, b| a + b, Materialized::named("sums"))
                .to_stream()
                .map_values(|n| "x".repeat(n as usize))
                .to("out", Produced::with(Utf8, Utf8));
        })
        .topic("in", partitions)
        .caching(1 << 20),
    );
    *feed.0.lock().unwrap() = Some(driver.broker().producer(&ProducerOptions::default()).unwrap());
    driver
}

/// Whenever its large record is processed another one comes in, as under load: so the interval is never the same again, nor is
/// what comes out of its cache.
#[test]
fn an_output_of_a_cache_whose_interval_grows() {
    let feed = Feed::default();
    let more = feed.clone();
    let driver = growing(1, &feed, move |_, n| {
        if n == LATE {
            more.send(0, "a")
        }
    });
    send(&driver, &[("b", 7, 0), ("a", LATE, 1), ("b", 8, 2)]);
    driver.commit().unwrap();
    let texts = driver.output("out", Utf8, Utf8).read_all();
    assert!(texts.iter().all(|r| r.key == "b"), "each of the others is too large");
    assert_eq!(texts.last().map(|r| r.value.len()), Some(15));
    let sums = driver.store("sums", Utf8, I64);
    let came = driver.committed("in", 0).unwrap() - 3;
    assert!(came > 3, "it was made again and again: {came}");
    assert_eq!(sums.all(), kvs(&[("a", LATE + came), ("b", 15)]));
    assert_eq!(sums.changelog(), sums.all());
}

/// The same in a task beside another one that always has something to do, and would have the first turn.
#[test]
fn an_output_of_a_cache_beside_a_busy_task() {
    const BUSY: i64 = 400;
    let (feed, busy) = (Feed::default(), AtomicI64::new(0));
    let more = feed.clone();
    let driver = growing(2, &feed, move |key, n| match (key, n) {
        (_, LATE) => more.send(1, "a"),
        ("busy", _) if busy.fetch_add(1, Ordering::Relaxed) < BUSY => more.send(0, "busy"),
        _ => {}
    });
    let input = driver.input("in", Utf8, I64);
    input.partition(0).send("busy", 1, 0).unwrap();
    input.partition(1).send("a", LATE, 1).unwrap();
    driver.commit().unwrap();
    let ones = |partition| driver.committed("in", partition).unwrap() - 1;
    let sums = driver.store("sums", Utf8, I64);
    assert_eq!(sums.all(), kvs(&[("a", LATE + ones(1)), ("busy", 1 + ones(0))]));
    let rollbacks = driver.count(Counter::RollbackTotal);
    assert!(rollbacks < 7, "{rollbacks}: tasks take turns, so it is not passed by until the search is given up");
}
