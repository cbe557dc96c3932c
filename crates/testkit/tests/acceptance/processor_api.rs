//! The Processor API: scans with writes and forwards inside, shared stores, children by name, one processor per task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millpond_runtime::Counter;
use millpond_topology::{
    Child, Consumed, Context, FixedKeyRecord, Headers, I64, KeyValue, Processor, Produced, Record, Result, StoreRef,
    TimestampedKeyValue, Utf8, ValueAndTimestamp,
};

use crate::support::{BOTH, builder, closure, driver, kvs, out, pipe};

#[test]
fn a_scan_forwards_and_deletes_inside_its_loop() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            let store = b.key_value_store("seen", Utf8, I64);
            b.stream("in", Consumed::with(Utf8, I64))
                .process(
                    &store,
                    closure(|store: &StoreRef<KeyValue<String, i64>>, cx, r| {
                        if r.key != "sweep" {
                            return cx.store(store)?.put(&r.key, &r.value);
                        }
                        let mut rows = cx.store(store)?.all();
                        while let Some((key, value)) = rows.next(cx)? {
                            if value < r.value {
                                cx.store(store)?.delete(&key)?;
                                cx.forward(Record::new(key, value, r.timestamp))?;
                            }
                        }
                        Ok(())
                    }),
                )
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .build()
        .unwrap();
        pipe(&driver, &[("a", 1, 0), ("b", 5, 1), ("c", 2, 2), ("sweep", 5, 3)]);
        assert_eq!(out(&driver), kvs(&[("a", 1), ("c", 2)]));
        let seen = driver.store("seen", Utf8, I64);
        assert_eq!(seen.all(), kvs(&[("b", 5)]));
        assert_eq!(seen.changelog(), seen.all());
    }
}

#[test]
fn two_processors_share_a_store_and_so_a_task() {
    let driver = builder(|b| {
        let store = b.key_value_store("shared", Utf8, I64);
        b.stream("prices", Consumed::with(Utf8, I64))
            .process(
                &store,
                closure(|store: &StoreRef<KeyValue<String, i64>>, cx, r| cx.store(store)?.put(&r.key, &r.value)),
            )
            .foreach(|_, _: &i64| {});
        b.stream("in", Consumed::with(Utf8, I64))
            .process(
                &store,
                closure(|store: &StoreRef<KeyValue<String, i64>>, cx, r| {
                    let price = cx.store(store)?.get(&r.key)?.unwrap_or(0);
                    cx.forward(r.map(|k, amount| (k, amount * price)))
                }),
            )
            .to("out", Produced::with(Utf8, I64));
    })
    .topic("in", 2)
    .topic("prices", 2)
    .build()
    .unwrap();
    assert_eq!(driver.tasks().len(), 2, "one sub-topology, two partitions");
    let prices = driver.input("prices", Utf8, I64);
    prices.pipe("a", 7, 0).unwrap();
    prices.pipe("b", 3, 0).unwrap();
    pipe(&driver, &[("a", 2, 1), ("b", 5, 1), ("c", 9, 1)]);
    let mut all = out(&driver);
    all.sort();
    assert_eq!(all, kvs(&[("a", 14), ("b", 15), ("c", 0)]));
}

#[test]
fn several_stores_are_opened_at_once_and_updated_together() {
    let driver = driver(|b| {
        let plain = b.key_value_store("plain", Utf8, I64);
        let stamped = b.timestamped_key_value_store("stamped", Utf8, I64);
        type Both = (StoreRef<KeyValue<String, i64>>, StoreRef<TimestampedKeyValue<String, i64>>);
        b.stream("in", Consumed::with(Utf8, I64))
            .process(
                (&plain, &stamped),
                closure(|(plain, stamped): &Both, cx, r| {
                    let (mut plain, mut stamped) = cx.stores((plain, stamped))?;
                    let sum = plain.update(&r.key, |old| Some(old.unwrap_or(0) + r.value))?.unwrap_or(0);
                    stamped.put(&r.key, &ValueAndTimestamp { value: sum, timestamp: r.timestamp * 10 })?;
                    assert_eq!(plain.remove(&"absent".to_owned())?, None);
                    cx.forward(Record::new(r.key, sum, r.timestamp))
                }),
            )
            .to("out", Produced::with(Utf8, I64));
    });
    pipe(&driver, &[("a", 1, 5), ("a", 2, 6)]);
    assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 3)]));
    assert_eq!(driver.store("plain", Utf8, I64).get_with_timestamp("a"), Some((3, -1)));
    assert_eq!(driver.store("stamped", Utf8, I64).get_with_timestamp("a"), Some((3, 60)));
    let log = driver.output("stamped-changelog", Utf8, I64).read_all();
    assert_eq!(log.iter().map(|r| (r.value, r.timestamp)).collect::<Vec<_>>(), [(1, 50), (3, 60)]);
}

/// Sends even numbers one way and odd ones another.
struct Router {
    even: Child,
    odd: Child,
}

impl Processor for Router {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let to = if record.value % 2 == 0 { self.even } else { self.odd };
        cx.forward_to(to, record)
    }
}

#[test]
fn parents_and_children_go_by_name() {
    let driver = driver(|b| {
        b.source("numbers", &["in"], Consumed::with(Utf8, I64))
            .processor("router", &["numbers"], (), |init, ()| {
                Ok(Router { even: init.child("even")?, odd: init.child("odd")? })
            })
            .sink("even", "out", &["router"], Utf8, I64)
            .sink("odd", "odd-out", &["router"], Utf8, I64);
    });
    pipe(&driver, &[("a", 1, 0), ("b", 2, 1), ("c", 3, 2)]);
    assert_eq!(out(&driver), kvs(&[("b", 2)]));
    assert_eq!(driver.output("odd-out", Utf8, I64).read_key_values(), kvs(&[("a", 1), ("c", 3)]));
}

/// Adds what it knows of the record as headers.
struct Annotate;

impl Processor for Annotate {
    type In = FixedKeyRecord<String, i64>;
    type Out = FixedKeyRecord<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, mut record: Self::In) -> Result {
        let from = cx.metadata().map(|m| format!("{}-{}@{}", m.topic, m.partition, m.offset)).unwrap_or_default();
        record.headers_mut().add("from", from);
        record.headers_mut().remove("secret");
        let time = cx.timestamp();
        assert_eq!(time, record.timestamp());
        cx.forward(record.map_value(|v| v + 1).with_timestamp(time + 1))
    }
}

#[test]
fn a_fixed_key_processor_sees_metadata_and_changes_headers_value_and_time() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .process_values((), |_, ()| Ok(Annotate))
            .to("out", Produced::with(Utf8, I64));
    })
    .topic("in", 3)
    .build()
    .unwrap();
    let input = driver.input("in", Utf8, I64).partition(2);
    let mut headers = Headers::new();
    headers.add("secret", "x");
    headers.add("kept", "y");
    input.pipe("a", 1, 7).unwrap();
    input.pipe_with("a", 2, 8, headers).unwrap();
    let all = driver.output("out", Utf8, I64).read_all();
    let shown: Vec<_> = all
        .iter()
        .map(|r| {
            let names: Vec<String> = r
                .headers
                .iter()
                .map(|h| format!("{}={}", h.name, String::from_utf8_lossy(h.value.as_deref().unwrap())))
                .collect();
            (r.value, r.timestamp, names.join(","))
        })
        .collect();
    assert_eq!(shown, [(2, 8, "from=in-2@0".to_owned()), (3, 9, "kept=y,from=in-2@1".to_owned())]);
}

/// Numbers its records.
struct Numbering(i64);

impl Processor for Numbering {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        self.0 += 1;
        cx.forward(record.with_value(self.0))
    }
}

#[test]
fn b051_every_task_has_a_processor_of_its_own() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .process((), move |_, ()| {
                counter.fetch_add(1, Ordering::Relaxed);
                Ok(Numbering(0))
            })
            .to("out", Produced::with(Utf8, I64));
    })
    .topic("in", 2)
    .build()
    .unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 3, "one for the dry run, one for each task, no other");
    let input = driver.input("in", Utf8, I64);
    for n in 0..4 {
        input.partition(0).pipe("a", n, n).unwrap();
    }
    input.partition(1).pipe("b", 0, 0).unwrap();
    assert_eq!(out(&driver), kvs(&[("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1)]));
    driver.restart().unwrap();
    input.partition(0).pipe("a", 9, 9).unwrap();
    assert_eq!(out(&driver).last(), Some(&("a".to_owned(), 1)), "fields start anew");
}

/// A processor that counts how many of its kind there are.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Processor for Counted {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        assert!(record.value != 13, "unlucky");
        cx.forward(record)
    }
}

/// What is made is dropped once: with its task, after a panic, and where another supplier of its task fails.
#[test]
fn b051_processors_are_made_and_dropped_in_pairs() {
    let (alive, refuses) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (first, second, refused) = (alive.clone(), alive.clone(), refuses.clone());
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .process((), move |_, ()| Ok(Counted::new(&first)))
            .process((), move |_, ()| match refused.load(Ordering::Relaxed) {
                0 => Ok(Counted::new(&second)),
                _ => Err(millpond_topology::Error::other("not today")),
            })
            .to("out", Produced::with(Utf8, I64));
    })
    .topic("in", 2)
    .setting("processing.exception.handler", "continue")
    .build()
    .unwrap();
    let alive = || alive.load(Ordering::Relaxed);
    assert_eq!(alive(), 4, "two for each task");
    let input = driver.input("in", Utf8, I64);
    input.partition(0).pipe("a", 13, 0).unwrap();
    assert_eq!(alive(), 4, "after a panic the task has new ones");
    driver.restart().unwrap();
    assert_eq!(alive(), 4);
    driver.stop().unwrap();
    assert_eq!(alive(), 0);
    refuses.store(1, Ordering::Relaxed);
    assert!(driver.restart().is_err());
    assert_eq!(alive(), 0);
}

#[test]
fn a_processor_asks_for_a_commit() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .process(
                    (),
                    closure(|(), cx, r| {
                        if r.value == 3 {
                            cx.commit();
                        }
                        cx.forward(r)
                    }),
                )
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .manual_commit()
        .build()
        .unwrap();
        let before = driver.count(Counter::CommitTotal);
        crate::support::send(&driver, &[("a", 1, 0), ("a", 2, 1), ("a", 3, 2), ("a", 4, 3)]);
        driver.run().unwrap();
        assert_eq!(driver.count(Counter::CommitTotal), before + 1);
        assert_eq!(driver.committed("in", 0), Some(3), "up to the record that asked, not further");
        driver.commit().unwrap();
        assert!(driver.committed("in", 0).is_some_and(|n| n >= 4));
    }
}
