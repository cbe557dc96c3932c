//! Session stores through processors.

use std::collections::BTreeMap;

use millpond_topology::*;

use crate::support::script::{Cx, Lcg, Script, ms};

type Kind = Session<String, i64>;
/// Key, start, end.
type Seen = Vec<(String, i64, i64)>;

fn sessions(retention: u64) -> Script<Kind> {
    Script::new(StoreSpec::session("s", ms(retention), Utf8, I64))
}

fn of(key: &str, start: i64, end: i64) -> Windowed<String> {
    Windowed { key: key.to_owned(), start, end }
}

fn put(script: &mut Script<Kind>, key: &str, start: i64, end: i64) -> bool {
    let session = of(key, start, end);
    script.run(move |store, cx| cx.store(store)?.put(&session, &(end - start)))
}

fn collect(mut rows: WindowedRows<String, Plain<i64>>, cx: &mut Cx<'_, Kind>) -> Result<Seen> {
    let mut seen = Vec::new();
    while let Some((Windowed { key, start, end }, value)) = rows.next(cx)? {
        assert_eq!(value, end - start);
        seen.push((key, start, end));
    }
    assert!(rows.next(cx)?.is_none());
    Ok(seen)
}

/// What a forward and a backward scan see; they are mirrors.
fn both(
    cx: &mut Cx<'_, Kind>,
    store: &StoreRef<Kind>,
    forward: impl FnOnce(&mut SessionView<'_, String, Plain<i64>>) -> Result<WindowedRows<String, Plain<i64>>>,
    backward: impl FnOnce(&mut SessionView<'_, String, Plain<i64>>) -> Result<WindowedRows<String, Plain<i64>>>,
) -> Result<Seen> {
    let rows = forward(&mut cx.store(store)?)?;
    let forward = collect(rows, cx)?;
    let rows = backward(&mut cx.store(store)?)?;
    let mut backward = collect(rows, cx)?;
    backward.reverse();
    assert_eq!(forward, backward);
    Ok(forward)
}

#[test]
fn sessions_are_found_by_overlap_by_key_and_by_end() {
    for commits in [false, true] {
        let mut script = sessions(1_000_000).committing(commits);
        for (key, start, end) in [("a", 0, 10), ("a", 20, 30), ("a", 5, 30), ("b", 15, 15), ("a", 40, 40)] {
            assert!(put(&mut script, key, start, end));
        }
        script.run(|store, cx| {
            let (a, b) = ("a".to_owned(), "b".to_owned());
            let row = |key: &String, start, end| (key.clone(), start, end);
            assert_eq!(cx.store(store)?.fetch_session(&a, 20, 30)?, Some(10));
            assert_eq!(cx.store(store)?.fetch_session(&a, 20, 31)?, None);
            let all = [row(&a, 0, 10), row(&a, 5, 30), row(&a, 20, 30), row(&a, 40, 40), row(&b, 15, 15)];
            assert_eq!(both(cx, store, |s| s.all(), |s| s.backward_all())?, all);
            assert_eq!(both(cx, store, |s| s.fetch(&a), |s| s.backward_fetch(&a))?, all[..4]);
            let found = both(cx, store, |s| s.find_sessions(&a, 11, 20), |s| s.backward_find_sessions(&a, 11, 20))?;
            assert_eq!(found, all[1..3]);
            let found = both(cx, store, |s| s.find_sessions(&a, 11, 19), |s| s.backward_find_sessions(&a, 11, 19))?;
            assert_eq!(found, all[1..2]);
            let found = both(
                cx,
                store,
                |s| s.find_sessions_range(a.clone().., 15, 15),
                |s| s.backward_find_sessions_range(a.clone().., 15, 15),
            )?;
            assert_eq!(found, [all[1].clone(), all[4].clone()]);
            let range = both(cx, store, |s| s.fetch_range(..b.clone()), |s| s.backward_fetch_range(..b.clone()))?;
            assert_eq!(range, all[..4]);
            let ended = both(cx, store, |s| s.fetch_all(15..40), |s| s.backward_fetch_all(15..40))?;
            assert_eq!(ended, [all[1].clone(), all[2].clone(), all[4].clone()]);
            assert_eq!(both(cx, store, |s| s.find_sessions(&a, 30, 4), |s| s.backward_find_sessions(&a, 30, 4))?, []);
            Ok(())
        });
    }
}

#[test]
fn sessions_are_merged_while_they_are_walked() {
    for commits in [false, true] {
        let mut script = sessions(1_000_000).committing(commits);
        for n in 0..50 {
            assert!(put(&mut script, "a", n * 10, n * 10 + 1));
        }
        script.run(|store, cx| {
            let key = "a".to_owned();
            let (mut merged, mut seen) = (of("a", 100, 100), 0);
            let mut near = cx.store(store)?.find_sessions(&key, 100, 299)?;
            while let Some((session, _)) = near.next(cx)? {
                merged = of("a", merged.start.min(session.start), merged.end.max(session.end));
                cx.store(store)?.remove(&session)?;
                cx.store(store)?.put(&merged, &(merged.end - merged.start))?;
                seen += 1;
            }
            assert_eq!((merged.start, merged.end, seen), (100, 291, 20));
            Ok(())
        });
    }
}

/// B003 and B004, by a session's end.
#[test]
fn the_boundary_is_exact_and_what_has_expired_is_not_put() {
    for commits in [false, true] {
        let mut script = sessions(100).committing(commits);
        assert!(put(&mut script, "a", 0, 50) && put(&mut script, "a", 0, 51) && put(&mut script, "b", 150, 150));
        let logged = script.logged();
        assert!(!put(&mut script, "c", 0, 50));
        assert!(!script.run(|store, cx| cx.store(store)?.remove(&of("a", 0, 50))));
        assert_eq!((script.refused(), script.logged()), (2, logged));
        script.run(|store, cx| {
            let row = |key: &str, start, end| (key.to_owned(), start, end);
            let there = [row("a", 0, 51), row("b", 150, 150)];
            assert_eq!(both(cx, store, |s| s.all(), |s| s.backward_all())?, there);
            assert_eq!(cx.store(store)?.fetch_session(&"a".to_owned(), 0, 50)?, None);
            assert_eq!(cx.store(store)?.fetch_session(&"a".to_owned(), 0, 51)?, Some(51));
            Ok(())
        });
    }
}

/// B017: the edges of time.
#[test]
fn sessions_at_the_edges_of_time() {
    for commits in [false, true] {
        let mut script = sessions(1000).committing(commits);
        assert!(put(&mut script, "a", 0, 0) && put(&mut script, "a", i64::MAX - 7, i64::MAX));
        script.run(|store, cx| {
            let key = "a".to_owned();
            let late = [("a".to_owned(), i64::MAX - 7, i64::MAX)];
            assert_eq!(both(cx, store, |s| s.all(), |s| s.backward_all())?, late);
            let (from, to) = (i64::MIN, i64::MAX);
            let found =
                both(cx, store, |s| s.find_sessions(&key, from, to), |s| s.backward_find_sessions(&key, from, to))?;
            assert_eq!(found, late);
            let found =
                both(cx, store, |s| s.find_sessions(&key, from, from), |s| s.backward_find_sessions(&key, to, from))?;
            assert_eq!(found, []);
            Ok(())
        });
    }
}

#[test]
fn times_that_no_session_has_are_an_error_and_write_nothing() {
    let mut script = sessions(1000);
    for (start, end) in [(-1, 5), (5, 4), (i64::MIN, i64::MAX)] {
        let error = script.try_run(move |store, cx| cx.store(store)?.put(&of("a", start, end), &0)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Serialization);
        assert!(error.to_string().contains(&format!("start=`{start}` end=`{end}`")), "{error}");
        assert!(script.try_run(move |store, cx| cx.store(store)?.remove(&of("a", start, end))).is_err());
    }
    assert_eq!(script.logged(), 0);
}

fn random_session(random: &mut Lcg) -> Windowed<String> {
    let mut below = |n| i64::try_from(random.below(n)).unwrap();
    let (key, end) = (below(5), below(30) * 40_000);
    Windowed { key: "k".repeat(usize::try_from(key).unwrap()), start: (end - below(4) * 50_000).max(0), end }
}

fn random_write(
    random: &mut Lcg,
    store: &StoreRef<Kind>,
    cx: &mut Cx<'_, Kind>,
    model: &mut BTreeMap<(String, i64, i64), i64>,
) -> Result {
    let session = random_session(random);
    let row = (session.key.clone(), session.end, session.start);
    if random.below(3) == 0 {
        cx.store(store)?.remove(&session)?;
        model.remove(&row);
    } else {
        let value = i64::try_from(random.below(1000)).unwrap();
        cx.store(store)?.put(&session, &value)?;
        model.insert(row, value);
    }
    Ok(())
}

/// Sessions over several buckets under random writes before and during walks, against a map.
#[test]
fn walks_agree_with_a_model() {
    for seed in 0..60 {
        let mut script = sessions(1_000_000_000).committing(seed % 2 == 0);
        let (mut model, mut random) = (BTreeMap::new(), Lcg(seed));
        for _ in 0..3 {
            (model, random) = script.run(move |store, cx| {
                for _ in 0..random.below(200) {
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

fn random_walk(
    random: &mut Lcg,
    store: &StoreRef<Kind>,
    cx: &mut Cx<'_, Kind>,
    model: &mut BTreeMap<(String, i64, i64), i64>,
) -> Result {
    let (a, b) = (random_session(random), random_session(random));
    let (one, forward) = (random.below(2) == 0, random.below(2) == 0);
    let (earliest, latest) = (a.end, b.start);
    let (low, high) = if one { (a.key.clone(), a.key) } else { (a.key, b.key) };
    let mut view = cx.store(store)?;
    let mut rows = match (one, forward) {
        (true, true) => view.find_sessions(&low, earliest, latest)?,
        (true, false) => view.backward_find_sessions(&low, earliest, latest)?,
        (false, true) => view.find_sessions_range(low.clone()..=high.clone(), earliest, latest)?,
        (false, false) => view.backward_find_sessions_range(low.clone()..=high.clone(), earliest, latest)?,
    };
    let asked =
        |(key, end, start): &&(String, i64, i64)| low <= *key && *key <= high && *end >= earliest && *start <= latest;
    let mut at_start: Vec<_> = model.keys().filter(asked).cloned().collect();
    if !forward {
        at_start.reverse();
    }
    let mut left = at_start.iter();
    loop {
        for _ in 0..random.below(4) {
            random_write(random, store, cx, model)?;
        }
        let row = rows.next(cx)?.map(|(session, value)| ((session.key, session.end, session.start), value));
        let expected = left.find(|row| model.contains_key(*row)).map(|row| (row.clone(), model[row]));
        assert_eq!(row, expected);
        if row.is_none() {
            return Ok(());
        }
    }
}
