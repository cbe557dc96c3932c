//! Versioned stores through processors.

use millpond_topology::*;

use crate::support::script::{Script, ms};

type Kind = Versioned<String, String>;

fn versioned(history: u64) -> Script<Kind> {
    Script::new(StoreSpec::versioned("v", ms(history), Utf8, Utf8))
}

fn k() -> String {
    "k".to_owned()
}

fn put(script: &mut Script<Kind>, value: Option<&str>, timestamp: i64) -> VersionPut {
    let value = value.map(str::to_owned);
    script.run(move |store, cx| cx.store(store)?.put(&k(), value.as_ref(), timestamp))
}

/// Value, from, to.
type Version = (String, i64, Option<i64>);

fn version(record: VersionedRecord<String>) -> Version {
    (record.value, record.timestamp, record.valid_to)
}

fn as_of(script: &mut Script<Kind>, time: i64) -> Option<Version> {
    script.run(move |store, cx| cx.store(store)?.get_as_of(&k(), time)).map(version)
}

/// The versions of a range; backward is the mirror.
fn versions(script: &mut Script<Kind>, from: i64, to: i64) -> Vec<Version> {
    let found: Vec<_> = script.run(move |store, cx| {
        let mut view = cx.store(store)?;
        let forward = view.versions(&k(), from..=to)?;
        let mut backward = view.backward_versions(&k(), from..=to)?;
        backward.reverse();
        assert_eq!(forward, backward);
        Ok(forward)
    });
    found.into_iter().map(version).collect()
}

fn of(value: &str, from: i64, to: Option<i64>) -> Version {
    (value.to_owned(), from, to)
}

#[test]
fn b139_versions_out_of_order_and_their_intervals() {
    for commits in [false, true] {
        let mut script = versioned(1000).committing(commits);
        let puts = [(Some("v10"), 10), (Some("v30"), 30), (Some("v20"), 20), (None, 25), (Some("w"), 20)];
        let answers: Vec<_> = puts.iter().map(|(value, time)| put(&mut script, *value, *time)).collect();
        use VersionPut::{Latest, ValidTo};
        assert_eq!(answers, [Latest, Latest, ValidTo(30), ValidTo(30), ValidTo(25)]);
        let (v10, w, v30) = (of("v10", 10, Some(20)), of("w", 20, Some(25)), of("v30", 30, None));
        let latest = script.run(|store, cx| cx.store(store)?.get(&k()));
        assert_eq!(latest.map(version), Some(v30.clone()));
        for (time, expected) in [
            (9, None),
            (10, Some(&v10)),
            (19, Some(&v10)),
            (20, Some(&w)),
            (24, Some(&w)),
            (25, None),
            (29, None),
            (30, Some(&v30)),
            (i64::MAX, Some(&v30)),
            (i64::MIN, None),
        ] {
            assert_eq!(as_of(&mut script, time).as_ref(), expected, "as of {time}");
        }
        assert_eq!(versions(&mut script, 0, 100), [v10.clone(), w.clone(), v30.clone()]);
        assert_eq!(versions(&mut script, 19, 20), [v10.clone(), w.clone()]);
        assert_eq!(versions(&mut script, 25, 29), []);
        assert_eq!(versions(&mut script, 5, 3), []);
        assert_eq!(versions(&mut script, i64::MIN, i64::MAX), [v10, w, v30]);
        let log: Vec<_> = script.puts().into_iter().map(|(key, value, time)| (key, value.is_some(), time)).collect();
        let key = || b"k".to_vec();
        assert_eq!(
            log,
            [(key(), true, 10), (key(), true, 30), (key(), true, 20), (key(), false, 25), (key(), true, 20)]
        );
    }
}

#[test]
fn what_is_too_old_is_refused_counted_and_not_logged() {
    for commits in [false, true] {
        let mut script = versioned(100).committing(commits);
        assert_eq!(put(&mut script, Some("a"), 1000), VersionPut::Latest);
        assert_eq!(put(&mut script, Some("b"), 900), VersionPut::ValidTo(1000));
        assert_eq!(put(&mut script, Some("c"), 899), VersionPut::TooOld);
        let deleted = script.run(|store, cx| cx.store(store)?.delete(&k(), 899));
        assert_eq!(deleted, None);
        assert_eq!((script.refused(), script.puts().len()), (2, 2));
        assert_eq!(as_of(&mut script, 900), Some(of("b", 900, Some(1000))));
        // The latest never expires; what was before it does, by the task's time as well.
        script.at(5000, |_, _| Ok(()));
        assert_eq!(as_of(&mut script, 900), None);
        assert_eq!(as_of(&mut script, 1000), Some(of("a", 1000, None)));
        assert_eq!(versions(&mut script, 0, 5000), [of("a", 1000, None)]);
    }
}

#[test]
fn a_delete_answers_what_was_valid_and_leaves_a_tombstone() {
    for commits in [false, true] {
        let mut script = versioned(1000).committing(commits);
        put(&mut script, Some("a"), 10);
        put(&mut script, Some("b"), 30);
        let delete = |script: &mut Script<Kind>, time| {
            script.run(move |store, cx| cx.store(store)?.delete(&k(), time)).map(version)
        };
        assert_eq!(delete(&mut script, 20), Some(of("a", 10, Some(30))));
        assert_eq!(delete(&mut script, 40), Some(of("b", 30, None)));
        assert_eq!(delete(&mut script, 50), None);
        assert_eq!(versions(&mut script, 0, 100), [of("a", 10, Some(20)), of("b", 30, Some(40))]);
        let latest = script.run(|store, cx| cx.store(store)?.get(&k()));
        assert!(latest.is_none());
    }
}

#[test]
fn a_time_before_1970_is_an_error() {
    let mut script = versioned(1000);
    let error = script.try_run(|store, cx| cx.store(store)?.put(&k(), None, -1).map(drop)).unwrap_err();
    assert!(error.to_string().contains("before 1970` timestamp=`-1`"), "{error}");
    assert!(script.puts().is_empty());
}

#[test]
fn the_latest_versions_are_rows() {
    for commits in [false, true] {
        let mut script = versioned(1000).committing(commits);
        for (key, time) in [("b", 1), ("a", 2), ("ab", 3), ("c", 4)] {
            script.run(move |store, cx| cx.store(store)?.put(&key.to_owned(), Some(&format!("{key}{time}")), time));
        }
        script.run(|store, cx| cx.store(store)?.put(&"c".to_owned(), None, 9));
        script.run(|store, cx| {
            let text = |key: &str| key.to_owned();
            let mut view = cx.store(store)?;
            let scans = [
                (view.all(), "a2 ab3 b1"),
                (view.reverse_all(), "b1 ab3 a2"),
                (view.range(text("a")..text("b"))?, "a2 ab3"),
                (view.reverse_range(text("ab")..)?, "b1 ab3"),
                (view.prefix(&text("a"), &Utf8)?, "a2 ab3"),
            ];
            for (mut rows, expected) in scans {
                let mut seen = Vec::new();
                while let Some((key, latest)) = rows.next(cx)? {
                    assert_eq!(latest.value, format!("{key}{}", latest.timestamp));
                    seen.push(latest.value);
                }
                assert_eq!(seen.join(" "), expected);
            }
            Ok(())
        });
    }
}
