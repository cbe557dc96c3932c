//! The key-value store API inside processors: ranges, scans, deletes; cached or not, committed or not.

use std::sync::{Arc, Mutex};

use millpond_testkit::Driver;
use millpond_topology::{
    ByteArray, Consumed, Context, I64, KeyValue, Nullable, Processor, Produced, Record, Result, Rows, StoreKind,
    StoreRef, StoreSpec, U64, Utf8, Values,
};

use crate::support::{Closure, assert_names, builder, closure, pipe};

/// What bodies have seen.
type Seen<T> = Arc<Mutex<Vec<T>>>;

fn keys<P: Processor, K: 'static, C: Values>(cx: &mut Context<'_, P>, mut rows: Rows<K, C>) -> Result<Vec<K>> {
    let mut keys = Vec::new();
    while let Some((key, _)) = rows.next(cx)? {
        keys.push(key);
    }
    Ok(keys)
}

/// A driver whose records run `body` with a store of its own.
fn with_store<T: StoreKind>(
    cached: bool,
    spec: StoreSpec<T>,
    body: impl FnMut(&StoreRef<T>, &mut Context<'_, Closure<StoreRef<T>>>, Record<String, i64>) -> Result
    + Clone
    + Send
    + Sync
    + 'static,
) -> Driver
where
    StoreRef<T>: Send + Sync,
{
    let define = |b: &mut millpond_topology::Builder| {
        let store = b.add_store(if cached { spec.caching_enabled() } else { spec });
        b.stream("in", Consumed::with(Utf8, I64)).process(&store, closure(body)).to("out", Produced::with(Utf8, I64));
    };
    let driver = builder(define).manual_commit();
    if cached { driver.caching(1 << 20) } else { driver }.build().unwrap()
}

/// Runs the steps 0, 1, 2, … of a body one record each, with a commit behind each or none: it must make no difference.
fn steps(driver: &Driver, count: i64, commits: bool) {
    for step in 0..count {
        pipe(driver, &[("", step, step)]);
        if commits {
            driver.commit().unwrap();
        }
    }
}

/// All ways to run a script.
fn variants(run: impl Fn(bool, bool)) {
    for cached in [false, true] {
        for commits in [false, true] {
            run(cached, commits);
        }
    }
}

fn bytes_store(name: &str) -> StoreSpec<KeyValue<Vec<u8>, i64>> {
    StoreSpec::key_value(name, ByteArray, I64)
}

#[test]
fn b025_a_prefix_scan_with_a_prefix_that_has_no_successor() {
    const KEYS: [&[u8]; 8] =
        [&[0x7F], &[0xFE], &[0xFE, 0xFF], &[0xFF], &[0xFF, 1], &[0xFF, 0x7F], &[0xFF, 0xFF], &[0xFF, 0xFF, 0xFF]];
    variants(|cached, commits| {
        let seen: Seen<Vec<Vec<u8>>> = Arc::default();
        let found = seen.clone();
        let driver = with_store(cached, bytes_store("keys"), move |store, cx, step| {
            for key in KEYS.iter().skip(step.value as usize % 2).step_by(2).filter(|_| step.value < 2) {
                cx.store(store)?.put(&key.to_vec(), &1)?;
            }
            let prefixes: [&[u8]; 4] = [&[0xFF], &[0xFF, 0xFF], &[0xFE], &[]];
            for prefix in prefixes.into_iter().filter(|_| step.value == 2) {
                let rows = cx.store(store)?.prefix(&prefix.to_vec(), &ByteArray)?;
                let keys = keys(cx, rows)?;
                found.lock().unwrap().push(keys);
            }
            Ok(())
        });
        steps(&driver, 3, commits);
        let owned = |from: usize, to: usize| KEYS[from..to].iter().map(|k| k.to_vec()).collect::<Vec<_>>();
        assert_eq!(*seen.lock().unwrap(), [owned(3, 8), owned(6, 8), owned(1, 3), owned(0, 8)]);
    });
}

#[test]
fn b026_range_bounds_inclusive_open_and_inverted() {
    variants(|cached, commits| {
        let seen: Seen<(String, String)> = Arc::default();
        let found = seen.clone();
        let spec = StoreSpec::<KeyValue<String, i64>>::key_value("rows", Utf8, I64);
        let driver = with_store(cached, spec, move |store, cx, step| {
            let text = |s: &str| s.to_owned();
            match step.value {
                0 => cx.store(store)?.put_all([(text("a"), 1), (text("c"), 1)]),
                1 => cx.store(store)?.put_all([(text("d"), 1), (text("b"), 1)]),
                _ => {
                    let all: Vec<(std::ops::Bound<String>, std::ops::Bound<String>)> = {
                        use std::ops::Bound::{Excluded, Included, Unbounded};
                        vec![
                            (Included(text("b")), Included(text("c"))),
                            (Unbounded, Included(text("b"))),
                            (Included(text("c")), Unbounded),
                            (Unbounded, Unbounded),
                            (Included(text("c")), Included(text("b"))),
                            (Included(text("b")), Included(text("b"))),
                            (Included(text("aa")), Included(text("bb"))),
                            (Excluded(text("a")), Excluded(text("d"))),
                        ]
                    };
                    for range in all {
                        let rows = cx.store(store)?.range(range.clone())?;
                        let forward = keys(cx, rows)?.concat();
                        let rows = cx.store(store)?.reverse_range(range)?;
                        let backward = keys(cx, rows)?.concat();
                        found.lock().unwrap().push((forward, backward));
                    }
                    Ok(())
                }
            }
        });
        steps(&driver, 3, commits);
        let seen = seen.lock().unwrap();
        let forward: Vec<&str> = seen.iter().map(|(f, _)| f.as_str()).collect();
        assert_eq!(forward, ["bc", "ab", "cd", "abcd", "", "b", "b", "bc"]);
        for (forward, backward) in seen.iter() {
            assert_eq!(*backward, forward.chars().rev().collect::<String>());
        }
    });
}

#[test]
fn b027_a_scan_meets_entries_that_were_deleted_after_it_began() {
    variants(|cached, commits| {
        let seen: Seen<(u64, i64)> = Arc::default();
        let found = seen.clone();
        let spec = StoreSpec::<KeyValue<u64, i64>>::key_value("rows", U64, I64);
        let driver = with_store(cached, spec, move |store, cx, step| {
            match step.value {
                0 => cx.store(store)?.put_all([(1, 10), (2, 20), (3, 30)])?,
                1 => {
                    let mut rows = cx.store(store)?.all();
                    cx.store(store)?.delete(&2)?;
                    cx.store(store)?.put(&4, &40)?;
                    cx.store(store)?.put(&3, &31)?;
                    while let Some(row) = rows.next(cx)? {
                        found.lock().unwrap().push(row);
                    }
                }
                _ => {
                    let mut rows = cx.store(store)?.all();
                    while let Some((key, _)) = rows.next(cx)? {
                        cx.store(store)?.delete(&key)?;
                        assert_eq!(cx.store(store)?.get(&key)?, None, "deleted is deleted, whatever a scan holds");
                    }
                }
            }
            Ok(())
        });
        steps(&driver, 3, commits);
        assert_eq!(*seen.lock().unwrap(), [(1, 10), (3, 31)], "keys as they were, values as they are, no nulls");
        assert!(driver.store("rows", U64, I64).all().is_empty());
    });
}

#[test]
fn b028_a_range_over_signed_keys_is_refused_and_over_unsigned_ones_sorts() {
    let spec = StoreSpec::<KeyValue<i64, i64>>::key_value("rows", I64, I64);
    let driver = with_store(false, spec, |store, cx, _| {
        cx.store(store)?.put(&-5, &1)?;
        let rows = cx.store(store)?.range(-2..=2)?;
        keys(cx, rows).map(drop)
    });
    let error = driver.input("in", Utf8, I64).pipe("", 0, 0).unwrap_err();
    assert_names(&error, &["scan a range", "ordered", "topic=`in`"]);

    let seen: Seen<Vec<u64>> = Arc::default();
    let found = seen.clone();
    let spec = StoreSpec::<KeyValue<u64, i64>>::key_value("rows", U64, I64);
    let driver = with_store(false, spec, move |store, cx, _| {
        cx.store(store)?.put_all([(256, 1), (1, 1), (u64::MAX, 1), (255, 1), (0, 1)])?;
        let rows = cx.store(store)?.range(1..=256)?;
        let keys = keys(cx, rows)?;
        found.lock().unwrap().push(keys);
        Ok(())
    });
    steps(&driver, 1, true);
    assert_eq!(*seen.lock().unwrap(), [[1, 255, 256]]);
}

#[test]
fn b031_put_if_absent_answers_with_what_was_there() {
    variants(|cached, _| {
        let seen: Seen<Option<Option<i64>>> = Arc::default();
        let found = seen.clone();
        let spec = StoreSpec::<KeyValue<String, Option<i64>>>::key_value("rows", Utf8, Nullable(I64));
        let driver = with_store(cached, spec, move |store, cx, step| {
            let key = "k".to_owned();
            let mut rows = cx.store(store)?;
            let answer = match step.value {
                0 => rows.put_if_absent(&key, &Some(1))?,
                1 => rows.put_if_absent(&key, &Some(2))?,
                2 => return rows.delete(&key),
                3 => rows.put_if_absent(&key, &None)?,
                _ => rows.put_if_absent(&key, &Some(3))?,
            };
            found.lock().unwrap().push(answer);
            Ok(())
        });
        steps(&driver, 5, true);
        assert_eq!(*seen.lock().unwrap(), [None, Some(Some(1)), None, None]);
        let logged: Vec<Option<i64>> = driver.output("rows-changelog", Utf8, Nullable(I64)).read_values();
        assert_eq!(logged, [Some(1), None, Some(3)]);
    });
}

#[test]
fn b032_deletes_reach_the_changelog_and_survive_a_restore() {
    variants(|cached, _| {
        let spec = StoreSpec::<KeyValue<String, Option<i64>>>::key_value("rows", Utf8, Nullable(I64));
        let driver = with_store(cached, spec, |store, cx, step| {
            let mut rows = cx.store(store)?;
            match step.value {
                0 => rows.put(&"k".to_owned(), &Some(1)),
                1 => rows.delete(&"k".to_owned()),
                2 => rows.put(&"j".to_owned(), &Some(1)),
                _ => rows.put_all([("j".to_owned(), None), ("m".to_owned(), Some(1))]),
            }
        });
        steps(&driver, 4, true);
        let log = driver.output("rows-changelog", Utf8, Nullable(I64)).read_key_values();
        assert_eq!(
            log,
            crate::support::kvs(&[("k", Some(1)), ("k", None), ("j", Some(1)), ("j", None), ("m", Some(1))])
        );
        driver.restart_without_state().unwrap();
        assert_eq!(driver.store("rows", Utf8, I64).all(), crate::support::kvs(&[("m", 1)]));
        driver.broker().compact("test-rows-changelog").unwrap();
        driver.restart_without_state().unwrap();
        assert_eq!(driver.store("rows", Utf8, I64).all(), crate::support::kvs(&[("m", 1)]));
    });
}

#[test]
fn b034_a_delete_is_read_inside_its_own_record() {
    variants(|cached, commits| {
        let seen: Seen<Option<i64>> = Arc::default();
        let found = seen.clone();
        let spec = StoreSpec::<KeyValue<String, i64>>::key_value("rows", Utf8, I64);
        let driver = with_store(cached, spec, move |store, cx, step| {
            let (key, only) = ("k".to_owned(), "only-here".to_owned());
            if step.value == 0 {
                return cx.store(store)?.put(&key, &1);
            }
            cx.store(store)?.delete(&key)?;
            found.lock().unwrap().push(cx.store(store)?.get(&key)?);
            let rows = cx.store(store)?.all();
            assert!(keys(cx, rows)?.is_empty());
            let mut rows = cx.store(store)?;
            rows.put(&key, &2)?;
            found.lock().unwrap().push(rows.get(&key)?);
            rows.delete(&key)?;
            rows.put(&only, &9)?;
            rows.delete(&only)?;
            found.lock().unwrap().push(rows.get(&only)?);
            Ok(())
        });
        steps(&driver, 2, commits);
        driver.commit().unwrap();
        assert_eq!(*seen.lock().unwrap(), [None, Some(2), None]);
        let rows = driver.store("rows", Utf8, I64);
        assert!(rows.all().is_empty());
        let log = driver.output("rows-changelog", Utf8, Nullable(I64)).read_key_values();
        assert!(log.iter().rfind(|(k, _)| k == "k").is_none_or(|(_, v)| v.is_none()), "{log:?}");
        assert!(log.iter().rfind(|(k, _)| k == "only-here").is_none_or(|(_, v)| v.is_none()), "{log:?}");
        driver.restart_without_state().unwrap();
        assert!(rows.all().is_empty());
    });
}

#[test]
fn b035_tombstones_that_are_ahead_of_the_stores_cursor() {
    for cached in [false, true] {
        let seen: Seen<Vec<u64>> = Arc::default();
        let found = seen.clone();
        let spec = StoreSpec::<KeyValue<u64, i64>>::key_value("rows", U64, I64);
        let driver = with_store(cached, spec, move |store, cx, step| {
            if step.value == 0 {
                return cx.store(store)?.put_all([(3, 1), (5, 1), (7, 1), (9, 1)]);
            }
            let mut rows = cx.store(store)?;
            rows.delete(&1)?;
            rows.delete(&7)?;
            rows.put(&6, &1)?;
            rows.delete(&9)?;
            let (all, reverse, range) = (rows.all(), rows.reverse_all(), rows.range(4..=8)?);
            for rows in [all, reverse, range] {
                let keys = keys(cx, rows)?;
                found.lock().unwrap().push(keys);
            }
            Ok(())
        });
        steps(&driver, 2, true);
        assert_eq!(*seen.lock().unwrap(), [vec![3, 5, 6], vec![6, 5, 3], vec![5, 6]]);
        assert_eq!(driver.store("rows", U64, I64).all(), [(3, 1), (5, 1), (6, 1)]);
    }
}

#[test]
fn b033_a_change_that_cannot_be_written_is_never_skipped() {
    for guarantee in crate::support::BOTH {
        let driver = builder(|b| {
            let store = b.key_value_store("texts", Utf8, Utf8);
            b.stream("in", Consumed::with(Utf8, I64))
                .process(
                    &store,
                    closure(|store: &StoreRef<KeyValue<String, String>>, cx, r| {
                        cx.store(store)?.put(&r.key, &"x".repeat(r.value as usize))?;
                        cx.forward(r)
                    }),
                )
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .setting("topic.max.message.bytes", "1000")
        .setting("processing.exception.handler", "continue")
        .setting("production.exception.handler", "continue")
        .build()
        .unwrap();
        pipe(&driver, &[("small", 10, 0)]);
        let error = driver.input("in", Utf8, I64).pipe("large", 5_000, 1).unwrap_err();
        assert_names(&error, &["test-texts-changelog", "max.message.bytes"]);
        assert_eq!(driver.committed("in", 0), Some(1), "the record is not done");
        let mut admin = millpond_broker_api::Broker::admin(&driver.broker()).unwrap();
        admin.set_configs("test-texts-changelog", &[("max.message.bytes", "100000")]).unwrap();
        driver.restart().unwrap();
        assert_eq!(driver.committed("in", 0).map(|n| n >= 2), Some(true));
        let texts = driver.store("texts", Utf8, Utf8);
        assert_eq!(texts.get("large").map(|t| t.len()), Some(5_000));
        assert_eq!(texts.changelog(), texts.all());
    }
}
