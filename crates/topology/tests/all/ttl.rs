//! Key-value stores with a time to live, through processors: what has expired is seen by nothing.

use millpond_topology::*;

use crate::support::script::{Cx, Script, ms};

type Kind = TtlKeyValue<String, i64>;
type Scan = Rows<String, Expiring<i64>>;

fn ttl(time_to_live: u64) -> Script<Kind> {
    Script::new(StoreSpec::ttl_key_value("t", ms(time_to_live), Utf8, I64))
}

fn k(key: &str) -> String {
    key.to_owned()
}

fn at(value: i64, timestamp: i64) -> ValueAndTimestamp<i64> {
    ValueAndTimestamp { value, timestamp }
}

fn put(script: &mut Script<Kind>, key: &'static str, value: i64, timestamp: i64) {
    script.run(move |store, cx| cx.store(store)?.put(&k(key), &at(value, timestamp)));
}

fn keys(mut rows: Scan, cx: &mut Cx<'_, Kind>) -> Result<String> {
    let mut keys = Vec::new();
    while let Some((key, _)) = rows.next(cx)? {
        keys.push(key);
    }
    Ok(keys.join(","))
}

#[test]
fn what_has_expired_is_seen_by_no_function() {
    for commits in [false, true] {
        let mut script = ttl(100).committing(commits);
        put(&mut script, "a", 1, 50);
        put(&mut script, "b", 2, 51);
        put(&mut script, "c", 3, 150);
        script.run(|store, cx| {
            let mut view = cx.store(store)?;
            assert_eq!((view.get(&k("a"))?, view.get(&k("b"))?), (None, Some(at(2, 51))));
            assert_eq!((view.observed(), view.is_alive(50), view.is_alive(51)), (150, false, true));
            let scans = [
                (view.all(), "b,c"),
                (view.reverse_all(), "c,b"),
                (view.range(..=k("b"))?, "b"),
                (view.reverse_range(k("a")..)?, "c,b"),
                (view.prefix(&k("a"), &Utf8)?, ""),
            ];
            for (rows, expected) in scans {
                assert_eq!(keys(rows, cx)?, expected);
            }
            let mut view = cx.store(store)?;
            assert_eq!(view.remove(&k("a"))?, None);
            assert_eq!(view.update(&k("a"), |old| Some(at(old.map_or(-1, |old| old.value), 149)))?, Some(at(-1, 149)));
            assert_eq!(view.get(&k("a"))?, Some(at(-1, 149)));
            assert_eq!(view.remove(&k("a"))?, Some(at(-1, 149)));
            assert_eq!(view.get(&k("a"))?, None);
            Ok(())
        });
        assert_eq!(script.refused(), 0);
    }
}

#[test]
fn what_has_expired_is_not_put_and_is_counted() {
    for commits in [false, true] {
        let mut script = ttl(100).committing(commits);
        put(&mut script, "a", 1, 100);
        put(&mut script, "b", 2, 200);
        let logged = script.logged();
        put(&mut script, "b", 3, 100);
        put(&mut script, "c", 4, 100);
        script.run(|store, cx| cx.store(store)?.put_if_absent(&k("d"), &at(5, 0)));
        script.run(|store, cx| cx.store(store)?.put_all([(k("e"), at(6, 1)), (k("e"), at(7, 2))]));
        assert_eq!((script.refused(), script.logged()), (5, logged));
        script.run(|store, cx| {
            assert_eq!(cx.store(store)?.get(&k("b"))?, Some(at(2, 200)));
            let all = cx.store(store)?.all();
            assert_eq!(keys(all, cx)?, "b");
            Ok(())
        });
    }
}

#[test]
fn a_key_whose_row_has_expired_is_absent() {
    for commits in [false, true] {
        let mut script = ttl(100).committing(commits);
        put(&mut script, "a", 1, 0);
        let put_if_absent = |script: &mut Script<Kind>, value, time| {
            script.run(move |store, cx| cx.store(store)?.put_if_absent(&k("a"), &at(value, time)))
        };
        assert_eq!(put_if_absent(&mut script, 2, 99), Some(at(1, 0)));
        // Its own time is what shows that the former one has expired.
        assert_eq!(put_if_absent(&mut script, 3, 100), None);
        assert_eq!(put_if_absent(&mut script, 4, 101), Some(at(3, 100)));
        let observed = script.run(|store, cx| Ok(cx.store(store)?.observed()));
        assert_eq!(observed, 101);
    }
}

#[test]
fn the_time_of_the_task_counts_as_well() {
    let mut script = ttl(100);
    put(&mut script, "a", 1, 10);
    let there = |script: &mut Script<Kind>, time| script.at(time, |store, cx| cx.store(store)?.get(&k("a"))).is_some();
    assert!(there(&mut script, 109));
    assert!(!there(&mut script, 110));
}

/// B030: keys that share their bytes.
#[test]
fn a_key_expires_alone() {
    for commits in [false, true] {
        let mut script = ttl(100).committing(commits);
        for (key, time) in [("key", 10), ("key2", 20), ("a", 10), ("a|b", 20), ("a||", 20), ("a\0", 20)] {
            put(&mut script, key, 1, time);
        }
        let all = script.at(110, |store, cx| {
            let all = cx.store(store)?.all();
            keys(all, cx)
        });
        assert_eq!(all, "a\0,a|b,a||,key2");
    }
}

/// As for other stores, and: a row that had expired when the scan began is not seen, even if it is put again under it.
#[test]
fn a_scan_sees_what_was_there_when_it_began_and_still_is() {
    for commits in [false, true] {
        let mut script = ttl(100).committing(commits);
        for (key, time) in [("a", 60), ("b", 10), ("c", 60), ("d", 61), ("e", 110), ("f", 10)] {
            put(&mut script, key, 1, time);
        }
        let seen = script.run(|store, cx| {
            let mut rows = cx.store(store)?.all();
            let mut seen = vec![rows.next(cx)?.unwrap()];
            let mut view = cx.store(store)?;
            view.put(&k("b"), &at(2, 110))?;
            view.put(&k("aa"), &at(2, 110))?;
            view.put(&k("d"), &at(2, 110))?;
            // Now `c` has expired.
            view.put(&k("z"), &at(2, 160))?;
            while let Some(row) = rows.next(cx)? {
                seen.push(row);
            }
            Ok(seen)
        });
        assert_eq!(seen, [(k("a"), at(1, 60)), (k("d"), at(2, 110)), (k("e"), at(1, 110))]);
    }
}

#[test]
fn the_edges_of_time() {
    for commits in [false, true] {
        let mut script = ttl(100).committing(commits);
        put(&mut script, "a", 1, i64::MAX);
        put(&mut script, "b", 1, i64::MAX - 99);
        put(&mut script, "c", 1, i64::MAX - 100);
        put(&mut script, "d", 1, i64::MIN);
        let all = script.run(|store, cx| {
            let all = cx.store(store)?.all();
            keys(all, cx)
        });
        assert_eq!((all.as_str(), script.refused()), ("a,b", 2));
    }
}
