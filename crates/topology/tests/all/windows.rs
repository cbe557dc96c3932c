//! Window stores through processors: what is there, in which order, and under a scan that is written into.

use std::collections::BTreeMap;

use millpond_topology::*;

use crate::support::script::{Cx, Lcg, Script, ms};

type Kind = Window<String, i64>;
/// Key, start, end, value.
type Seen = Vec<(String, i64, i64, i64)>;

fn windows(retention: u64, size: u64) -> Script<Kind> {
    Script::new(StoreSpec::window("w", ms(retention), ms(size), Utf8, I64))
}

fn k(key: &str) -> String {
    key.to_owned()
}

fn collect(mut rows: WindowedRows<String, Plain<i64>>, cx: &mut Cx<'_, Kind>) -> Result<Seen> {
    let mut seen = Vec::new();
    while let Some((Windowed { key, start, end }, value)) = rows.next(cx)? {
        seen.push((key, start, end, value));
    }
    assert!(rows.next(cx)?.is_none());
    Ok(seen)
}

/// The starts that a forward and a backward scan see; they are mirrors.
fn both(
    cx: &mut Cx<'_, Kind>,
    store: &StoreRef<Kind>,
    forward: impl FnOnce(&mut WindowView<'_, String, Plain<i64>>) -> Result<WindowedRows<String, Plain<i64>>>,
    backward: impl FnOnce(&mut WindowView<'_, String, Plain<i64>>) -> Result<WindowedRows<String, Plain<i64>>>,
) -> Result<Vec<(String, i64)>> {
    let rows = forward(&mut cx.store(store)?)?;
    let forward = collect(rows, cx)?;
    let rows = backward(&mut cx.store(store)?)?;
    let mut backward = collect(rows, cx)?;
    backward.reverse();
    assert_eq!(forward, backward);
    Ok(forward.into_iter().map(|(key, start, ..)| (key, start)).collect())
}

/// What point reads, a fetch, a fetch of all and a walk over all see of some rows; they agree.
fn seen(script: &mut Script<Kind>, rows: &'static [(&'static str, i64)]) -> Vec<(String, i64)> {
    script.run(move |store, cx| {
        let mut there = Vec::new();
        for (key, start) in rows {
            let found = cx.store(store)?.get(&k(key), *start)?.is_some();
            let fetched = cx.store(store)?.fetch(&k(key), *start..=*start)?;
            assert_eq!(collect(fetched, cx)?.len(), usize::from(found));
            there.extend(found.then(|| (k(key), *start)));
        }
        there.sort();
        for all in [
            both(cx, store, |w| w.all(), |w| w.backward_all())?,
            both(cx, store, |w| w.fetch_all(0..=200_000), |w| w.backward_fetch_all(0..=200_000))?,
            both(cx, store, |w| w.fetch_range(.., ..), |w| w.backward_fetch_range(.., ..))?,
        ] {
            assert_eq!(all, there);
        }
        Ok(there)
    })
}

fn put(script: &mut Script<Kind>, key: &str, start: i64, value: i64) -> bool {
    let key = k(key);
    script.run(move |store, cx| cx.store(store)?.put(&key, start, &value))
}

#[test]
fn b003_the_boundary_is_exact_and_follows_what_was_seen() {
    for commits in [false, true] {
        const ROWS: &[(&str, i64)] =
            &[("k0", 95_000), ("k1", 100_000), ("k2", 150_000), ("k3", 159_999), ("k4", 160_000)];
        let mut script = windows(60_000, 1).committing(commits);
        assert!(put(&mut script, "k1", 100_000, 1) && put(&mut script, "k2", 150_000, 2));
        assert!(put(&mut script, "k0", 95_000, 0));
        assert_eq!(seen(&mut script, ROWS).len(), 3);
        assert!(put(&mut script, "k3", 159_999, 3));
        assert_eq!(seen(&mut script, ROWS), [(k("k1"), 100_000), (k("k2"), 150_000), (k("k3"), 159_999)]);
        assert!(put(&mut script, "k4", 160_000, 4));
        assert_eq!(seen(&mut script, ROWS), [(k("k2"), 150_000), (k("k3"), 159_999), (k("k4"), 160_000)]);
        assert_eq!(script.refused(), 0);
    }
}

#[test]
fn b004_what_has_expired_is_not_put_and_is_counted() {
    for commits in [false, true] {
        let mut script = windows(100, 1).committing(commits);
        assert!(put(&mut script, "a", 0, 1) && put(&mut script, "b", 50, 2) && put(&mut script, "c", 155, 3));
        let logged = script.logged();
        assert!(!put(&mut script, "a", 40, 4));
        assert!(!script.run(|store, cx| cx.store(store)?.delete(&k("b"), 50)));
        assert_eq!((script.refused(), script.logged()), (2, logged));
        assert!(put(&mut script, "d", 56, 5));
        const ROWS: &[(&str, i64)] = &[("a", 40), ("a", 0), ("b", 50), ("c", 155), ("d", 56)];
        assert_eq!(seen(&mut script, ROWS), [(k("c"), 155), (k("d"), 56)]);
    }
}

/// What lies in memory, uncommitted, is not shown when it has expired.
#[test]
fn b005_a_layer_shows_nothing_that_has_expired() {
    let mut script = windows(100, 1);
    assert!(put(&mut script, "a", 0, 1) && put(&mut script, "b", 200, 1));
    assert_eq!(seen(&mut script, &[("a", 0), ("b", 200)]), [(k("b"), 200)]);
    let fetched = script.run(|store, cx| {
        let rows = cx.store(store)?.fetch(&k("a"), 0..=1000)?;
        collect(rows, cx)
    });
    assert!(fetched.is_empty());
}

#[test]
fn the_time_of_the_task_counts_as_well() {
    let mut script = windows(100, 1);
    assert!(put(&mut script, "a", 50, 1));
    let observed = script.at(150, |store, cx| Ok(cx.store(store)?.observed()));
    assert_eq!(observed, 150);
    assert_eq!(seen(&mut script, &[("a", 50)]), []);
}

#[test]
fn b017_the_edges_of_time() {
    for commits in [false, true] {
        let mut script = windows(1000, 1000).committing(commits);
        assert!(put(&mut script, "k", 0, 1));
        assert_eq!(seen(&mut script, &[("k", 0)]), [(k("k"), 0)]);
        let late = i64::MAX - 7;
        assert!(put(&mut script, "k", late, 2));
        script.run(move |store, cx| {
            for rows in [
                cx.store(store)?.fetch(&k("k"), 0..=i64::MAX)?,
                cx.store(store)?.fetch(&k("k"), ..)?,
                cx.store(store)?.backward_fetch(&k("k"), i64::MIN..)?,
                cx.store(store)?.fetch_all(0..=i64::MAX)?,
                cx.store(store)?.backward_fetch_all(..=i64::MAX)?,
            ] {
                assert_eq!(collect(rows, cx)?, [(k("k"), late, i64::MAX, 2)]);
            }
            for (from, to) in [(i64::MIN, -1), (7, 3), (i64::MAX, i64::MIN)] {
                let rows = cx.store(store)?.fetch(&k("k"), from..=to)?;
                assert_eq!(collect(rows, cx)?, []);
            }
            let rows = cx.store(store)?.fetch(&k("k"), i64::MIN..i64::MIN)?;
            assert_eq!(collect(rows, cx)?, []);
            let after_the_end = (std::ops::Bound::Excluded(i64::MAX), std::ops::Bound::Unbounded);
            let rows = cx.store(store)?.fetch_all(after_the_end)?;
            assert_eq!(collect(rows, cx)?, []);
            Ok(())
        });
        let error = script.try_run(|store, cx| cx.store(store)?.put(&k("k"), -1, &1)).unwrap_err();
        assert!(error.to_string().contains("begins before 1970` start=`-1`"), "{error}");
    }
}

#[test]
fn b022_duplicates_are_kept_and_not_deleted() {
    for commits in [false, true] {
        let spec = StoreSpec::window("d", ms(1000), ms(1), Utf8, Nullable(I64)).retain_duplicates();
        let mut script = Script::new(spec).committing(commits);
        for value in [Some(1), Some(1), Some(2)] {
            assert!(script.run(move |store, cx| cx.store(store)?.put(&k("k"), 5, &value)));
        }
        let logged = script.logged();
        assert!(script.run(|store, cx| cx.store(store)?.put(&k("k"), 5, &None)));
        assert!(script.run(|store, cx| cx.store(store)?.delete(&k("k"), 5)));
        assert_eq!((script.logged(), script.refused()), (logged, 0));
        script.run(|store, cx| {
            assert_eq!(cx.store(store)?.get(&k("k"), 5)?, Some(Some(2)));
            let mut values = Vec::new();
            let mut rows = cx.store(store)?.fetch(&k("k"), 0..10)?;
            while let Some((window, value)) = rows.next(cx)? {
                assert_eq!((window.start, window.end), (5, 6));
                values.push(value);
            }
            let mut rows = cx.store(store)?.backward_fetch(&k("k"), ..)?;
            while let Some((_, value)) = rows.next(cx)? {
                assert_eq!(values.pop(), Some(value));
            }
            assert_eq!(values, []);
            Ok(())
        });
    }
}

#[test]
fn rows_come_by_key_then_start_whatever_their_buckets() {
    const HOUR: i64 = 3_600_000;
    for commits in [false, true] {
        let mut script = windows(8 * 3_600_000, 60_000).committing(commits);
        for (key, start) in [("b", 0), ("a", 7), ("ab", 3), ("a", 0), ("a", 5), ("", 2), ("c", 6)] {
            assert!(put(&mut script, key, start * HOUR, start));
        }
        let names =
            |rows: Vec<(String, i64)>| rows.into_iter().map(|(k, t)| format!("{k}{}", t / HOUR)).collect::<Vec<_>>();
        script.run(move |store, cx| {
            let all = both(cx, store, |w| w.all(), |w| w.backward_all())?;
            assert_eq!(names(all), ["2", "a0", "a5", "a7", "ab3", "b0", "c6"]);
            let times = 3 * HOUR..6 * HOUR;
            let some = both(cx, store, |w| w.fetch_all(times.clone()), |w| w.backward_fetch_all(times.clone()))?;
            assert_eq!(names(some), ["a5", "ab3"]);
            let one = both(cx, store, |w| w.fetch(&k("a"), ..=5 * HOUR), |w| w.backward_fetch(&k("a"), ..=5 * HOUR))?;
            assert_eq!(names(one), ["a0", "a5"]);
            let keys = || k("a")..k("b");
            let range = both(cx, store, |w| w.fetch_range(keys(), ..), |w| w.backward_fetch_range(keys(), ..))?;
            assert_eq!(names(range), ["a0", "a5", "a7", "ab3"]);
            let inverted =
                both(cx, store, |w| w.fetch_range(k("b")..k("a"), ..), |w| w.backward_fetch_range(k("b")..k("a"), ..))?;
            assert_eq!(names(inverted), [""; 0]);
            Ok(())
        });
    }
}

/// B030: keys that share their bytes with others.
#[test]
fn keys_that_are_prefixes_of_others_keep_to_themselves() {
    for commits in [false, true] {
        let mut script = windows(1000, 1).committing(commits);
        let keys = ["key", "key2", "a", "a|b", "a||", "a\0", "a\0\0", "\u{7f}"];
        for key in keys {
            assert!(put(&mut script, key, 10, 1) && put(&mut script, key, 20, 2));
        }
        for key in keys {
            script.run(move |store, cx| {
                let rows = cx.store(store)?.fetch(&k(key), 0..=100)?;
                assert_eq!(collect(rows, cx)?, [(k(key), 10, 11, 1), (k(key), 20, 21, 2)]);
                cx.store(store)?.delete(&k(key), 10)?;
                cx.store(store)?.delete(&k(key), 20)
            });
            let left = script.run(move |store, cx| both(cx, store, |w| w.all(), |w| w.backward_all()));
            assert!(left.iter().all(|(other, _)| other != key));
        }
    }
}

/// As [`crate::rows`] has it for key-value stores.
#[test]
fn deleted_rows_are_skipped_new_ones_not_seen_values_are_current() {
    for commits in [false, true] {
        let mut script = windows(1000, 1).committing(commits);
        for start in 1..=5 {
            assert!(put(&mut script, "k", start, start));
        }
        let seen = script.run(|store, cx| {
            cx.store(store)?.delete(&k("k"), 5)?;
            let mut rows = cx.store(store)?.fetch(&k("k"), ..)?;
            let mut seen = vec![rows.next(cx)?.unwrap().1];
            let mut view = cx.store(store)?;
            view.delete(&k("k"), 2)?;
            view.put(&k("k"), 3, &30)?;
            view.put(&k("k"), 5, &50)?;
            view.put(&k("k"), 6, &60)?;
            view.put(&k("other"), 6, &70)?;
            while let Some((_, value)) = rows.next(cx)? {
                seen.push(value);
            }
            Ok(seen)
        });
        assert_eq!(seen, [1, 30, 4]);
    }
}

#[test]
fn what_expires_under_a_scan_is_skipped() {
    for commits in [false, true] {
        let mut script = windows(100, 1).committing(commits);
        for start in 0..60 {
            assert!(put(&mut script, "k", start, start));
        }
        let seen = script.run(|store, cx| {
            let mut rows = cx.store(store)?.fetch(&k("k"), ..)?;
            assert_eq!(rows.next(cx)?.unwrap().1, 0);
            // Now everything up to 50 has expired.
            cx.store(store)?.put(&k("k"), 150, &150)?;
            Ok(collect(rows, cx)?.iter().map(|row| row.1).collect::<Vec<_>>())
        });
        assert_eq!(seen, (51..60).collect::<Vec<_>>());
    }
}

#[test]
fn a_walk_ends_even_if_each_of_its_rows_leads_to_a_new_one() {
    for commits in [false, true] {
        let mut script = windows(1_000_000, 1).committing(commits);
        for start in 0..100 {
            assert!(put(&mut script, "k", start, start));
        }
        let seen = script.run(|store, cx| {
            let mut rows = cx.store(store)?.all()?;
            let mut seen = 0;
            while let Some((window, value)) = rows.next(cx)? {
                cx.store(store)?.put(&window.key, window.start + 100, &value)?;
                seen += 1;
            }
            Ok(seen)
        });
        assert_eq!(seen, 100);
    }
}

#[test]
fn a_walk_ends_with_its_call() {
    let mut script = windows(1000, 1);
    put(&mut script, "k", 1, 1);
    let mut rows = script.run(|store, cx| cx.store(store)?.all());
    let error = script.try_run(move |_, cx| rows.next(cx).map(|row| row.is_some())).unwrap_err();
    assert!(error.to_string().contains("the scan began in another call"), "{error}");
}

#[test]
fn a_range_over_keys_without_order_is_refused_and_one_over_all_is_not() {
    let mut script = Script::new(StoreSpec::window("w", ms(1000), ms(1), I64, I64));
    script.run(|store, cx| {
        let mut view = cx.store(store)?;
        view.put(&-1, 1, &1)?;
        let error = view.fetch_range(-2..2, ..).unwrap_err();
        assert!(error.to_string().contains("do not sort as the keys do"), "{error}");
        let mut rows = view.fetch_range(.., ..)?;
        assert!(rows.next(cx)?.is_some());
        Ok(())
    });
}

const KEYS: u64 = 12;
const TIMES: u64 = 40;
const BUCKET: i64 = 45_000;

/// Rows of several keys over several buckets under random writes before and during walks of all forms, against a map.
#[test]
fn walks_agree_with_a_model() {
    for seed in 0..60 {
        let commits = seed % 2 == 0;
        let mut script = windows(1_000_000_000, 1).committing(commits);
        let mut model: BTreeMap<(String, i64), i64> = BTreeMap::new();
        let mut random = Lcg(seed);
        for _ in 0..2 {
            (model, random) = script.run(move |store, cx| {
                for _ in 0..random.below(300) {
                    random_write(&mut random, store, cx, &mut model)?;
                }
                Ok((model, random))
            });
            (model, random) = script.run(move |store, cx| {
                for _ in 0..random.below(60) {
                    random_write(&mut random, store, cx, &mut model)?;
                }
                random_walk(&mut random, store, cx, &mut model)?;
                Ok((model, random))
            });
        }
    }
}

fn random_row(random: &mut Lcg) -> (String, i64) {
    let key = "k".repeat(usize::try_from(random.below(KEYS)).unwrap());
    (key, i64::try_from(random.below(TIMES)).unwrap() * BUCKET)
}

fn random_write(
    random: &mut Lcg,
    store: &StoreRef<Kind>,
    cx: &mut Cx<'_, Kind>,
    model: &mut BTreeMap<(String, i64), i64>,
) -> Result {
    let (key, start) = random_row(random);
    if random.below(3) == 0 {
        cx.store(store)?.delete(&key, start)?;
        model.remove(&(key, start));
    } else {
        let value = i64::try_from(random.below(1000)).unwrap();
        cx.store(store)?.put(&key, start, &value)?;
        model.insert((key, start), value);
    }
    Ok(())
}

fn random_walk(
    random: &mut Lcg,
    store: &StoreRef<Kind>,
    cx: &mut Cx<'_, Kind>,
    model: &mut BTreeMap<(String, i64), i64>,
) -> Result {
    let ((a, from), (b, to)) = (random_row(random), random_row(random));
    let (form, forward) = (random.below(3), random.below(2) == 0);
    let (a, b) = match form {
        0 => (String::new(), "k".repeat(99)),
        1 => (a.clone(), a),
        _ => (a, b),
    };
    let mut view = cx.store(store)?;
    let mut rows = match (form, forward) {
        (0, true) => view.fetch_all(from..=to)?,
        (0, false) => view.backward_fetch_all(from..=to)?,
        (1, true) => view.fetch(&a, from..=to)?,
        (1, false) => view.backward_fetch(&a, from..=to)?,
        (_, true) => view.fetch_range(a.clone()..=b.clone(), from..=to)?,
        (_, false) => view.backward_fetch_range(a.clone()..=b.clone(), from..=to)?,
    };
    let asked = |(key, start): &&(String, i64)| a <= *key && *key <= b && from <= *start && *start <= to;
    let mut at_start: Vec<_> = model.keys().filter(asked).cloned().collect();
    if !forward {
        at_start.reverse();
    }
    let mut left = at_start.iter();
    loop {
        for _ in 0..random.below(4) {
            random_write(random, store, cx, model)?;
        }
        let row = rows.next(cx)?.map(|(window, value)| ((window.key, window.start), value));
        let expected = left.find(|row| model.contains_key(*row)).map(|row| (row.clone(), model[row]));
        assert_eq!(row, expected);
        if row.is_none() {
            return Ok(());
        }
    }
}

/// Three stores that share the windowed space, opened at once.
struct Three(StoreRef<Kind>, StoreRef<Session<String, i64>>, StoreRef<Window<String, i64>>);

impl Processor for Three {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result {
        let (mut a, mut b, mut c) = cx.stores((&self.0, &self.1, &self.2))?;
        a.put(&r.key, r.timestamp, &1)?;
        b.put(&Windowed { key: r.key.clone(), start: 0, end: r.timestamp }, &2)?;
        c.put(&r.key, r.timestamp, &3)?;
        assert_eq!(a.get(&r.key, r.timestamp)?, Some(1));
        assert_eq!(b.fetch_session(&r.key, 0, r.timestamp)?, Some(2));
        let (mut a, mut b, mut c) = (a.all()?, b.all()?, c.all()?);
        for n in 1..=r.value {
            assert_eq!(a.next(cx)?.map(|row| (row.0.start, row.1)), Some((n, 1)));
            assert_eq!(b.next(cx)?.map(|row| (row.0.end, row.1)), Some((n, 2)));
            assert_eq!(c.next(cx)?.map(|row| (row.0.start, row.1)), Some((n, 3)));
        }
        assert!(a.next(cx)?.is_none() && b.next(cx)?.is_none() && c.next(cx)?.is_none());
        cx.forward(r)
    }
}

#[test]
fn stores_that_share_a_space_are_opened_at_once_and_see_their_own_rows() {
    let mut b = Topology::builder();
    let one = b.add_store(StoreSpec::window("a", ms(1000), ms(1), Utf8, I64));
    let two = b.add_store(StoreSpec::session("b", ms(1000), Utf8, I64));
    let three = b.add_store(StoreSpec::window("c", ms(1000), ms(1), Utf8, I64));
    let _ = b
        .stream("in", Consumed::with(Utf8, I64))
        .process((&one, &two, &three), |_, (one, two, three)| Ok(Three(one, two, three)));
    let mut driver = crate::support::driver::Driver::new(&b.build().unwrap());
    for n in 1..=40_i64 {
        driver.pipe("in", Some(b"k"), Some(&n.to_be_bytes()), n).unwrap();
        if n % 7 == 0 {
            driver.port(0).commit();
        }
    }
}

/// What the changelog marks a write with.
#[test]
fn a_timestamped_window_is_logged_with_its_own_time() {
    let mut script = Script::new(StoreSpec::timestamped_window("w", ms(1000), ms(10), Utf8, I64));
    script.at(70, |store, cx| {
        let mut view = cx.store(store)?;
        let value = ValueAndTimestamp { value: 3, timestamp: 64 };
        assert!(view.put(&k("k"), 60, &value)?);
        assert_eq!(view.get(&k("k"), 60)?, Some(value));
        view.delete(&k("k"), 60)
    });
    let times: Vec<_> = script.driver.logged().iter().map(|change| change.timestamp).collect();
    assert_eq!(times, [64, 70]);
}
