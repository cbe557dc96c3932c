//! Sessions: what merges, what is told of, and for how long.

use std::collections::BTreeMap;

use fastrand::Rng;
use millpond_testkit::{Driver, DriverBuilder, OutputTopic, TestRecord};
use millpond_topology::{
    BufferConfig, Consumed, Grouped, I64, Materialized, Nullable, Produced, SessionWindowed, SessionWindows,
    Suppressed, Utf8, Windowed,
};

use crate::support::builder;
use crate::windows::{dropped_late, ms, pipe};

/// Texts of `in`, joined by key and session.
fn joining(gap: u64, grace: u64) -> DriverBuilder {
    let sessions = SessionWindows::of_inactivity_gap_and_grace(ms(gap), ms(grace));
    builder(move |b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(sessions)
            .aggregate(
                String::new,
                |so_far, _, v| so_far + v,
                |_, one, other| one + &other,
                Materialized::named("s").value(Utf8).caching_disabled(),
            )
            .to_stream()
            .to("out", Produced::with(SessionWindowed(Utf8), Nullable(Utf8)));
    })
}

type Updates = OutputTopic<Windowed<String>, Option<String>>;

fn sessions_output(driver: &Driver) -> Updates {
    driver.output("out", SessionWindowed(Utf8), Nullable(Utf8))
}

/// What has come out since it was asked last, as lines: `key[start,end]=value@time`.
fn told(out: &Updates) -> Vec<String> {
    let text = |r: &TestRecord<Windowed<String>, Option<String>>| {
        let value = r.value.as_deref().unwrap_or("null");
        format!("{}[{},{}]={value}@{}", r.key.key, r.key.start, r.key.end, r.timestamp)
    };
    out.read_all().iter().map(text).collect()
}

fn rows(driver: &Driver) -> Vec<(String, i64, i64, String)> {
    let rows = driver.session_store("s", Utf8, Utf8).all();
    rows.into_iter().map(|(k, v)| (k.key, k.start, k.end, v)).collect()
}

#[test]
fn b007_a_session_is_open_for_gap_and_grace_and_equality_is_open() {
    for edge in [119, 120] {
        let driver = joining(10, 5).build().unwrap();
        let out = sessions_output(&driver);
        pipe(&driver, &[("u", "1", 100), ("u", "2", 105), ("v", "x", edge)]);
        assert_eq!(told(&out).len(), 4);
        pipe(&driver, &[("u", "3", 95)]);
        assert_eq!(told(&out), ["u[100,105]=null@105", "u[95,105]=123@105"], "at {edge}");
        pipe(&driver, &[("v", "y", 121), ("u", "4", 96)]);
        let v = [format!("v[{edge},{edge}]=null@{edge}"), format!("v[{edge},121]=xy@121")];
        assert_eq!((told(&out), dropped_late(&driver)), (v.to_vec(), 1));
    }
}

#[test]
fn b008_a_late_record_bridges_sessions_that_are_a_gap_away() {
    let driver = joining(10, 30).build().unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("u", "1", 0), ("u", "2", 20), ("u", "3", 10)]);
    let expected = ["u[0,0]=1@0", "u[20,20]=2@20", "u[0,0]=null@0", "u[20,20]=null@20", "u[0,20]=123@20"];
    assert_eq!(told(&out), expected);
    assert_eq!(rows(&driver), [("u".to_owned(), 0, 20, "123".to_owned())]);

    let driver = joining(10, 30).build().unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("u", "1", 0), ("u", "2", 21), ("u", "3", 10)]);
    assert_eq!(told(&out), ["u[0,0]=1@0", "u[21,21]=2@21", "u[0,0]=null@0", "u[0,10]=13@10"]);
    let expected = [("u", 0, 10, "13"), ("u", 21, 21, "2")];
    assert_eq!(rows(&driver), expected.map(|(k, s, e, v)| (k.to_owned(), s, e, v.to_owned())));
}

/// The sessions of records that come in order, each key alone.
fn defined(records: &[(&str, &str, i64)], gap: i64) -> BTreeMap<(String, i64), String> {
    let mut sessions: BTreeMap<(String, i64), (i64, String)> = BTreeMap::new();
    for (key, value, time) in records {
        let mut of_key = sessions.iter_mut().filter(|((k, _), _)| k == key);
        match of_key.next_back().filter(|(_, (end, _))| time - *end <= gap) {
            Some((_, (end, text))) => {
                *end = *time;
                text.push_str(value);
            }
            None => drop(sessions.insert(((*key).to_owned(), *time), (*time, (*value).to_owned()))),
        }
    }
    sessions.into_iter().map(|(at, (_, text))| (at, text)).collect()
}

#[test]
fn b009_sessions_in_order_do_not_depend_on_other_keys() {
    let driver = joining(5, 0).build().unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("k", "1", 10), ("x", "a", 15), ("k", "2", 15)]);
    assert_eq!(told(&out), ["k[10,10]=1@10", "x[15,15]=a@15", "k[10,10]=null@10", "k[10,15]=12@15"]);

    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let gap = rng.i64(0..8);
        let mut time = 0;
        let mut records = Vec::new();
        for letter in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"] {
            time += rng.i64(0..6);
            records.push((*rng.choice(&["x", "y", "z"]).unwrap(), letter, time));
        }
        let driver = joining(gap as u64, 0).build().unwrap();
        pipe(&driver, &records);
        // What is left of the updates when those that were taken back are gone.
        let mut left = BTreeMap::new();
        for r in driver.output("out", SessionWindowed(Utf8), Nullable(Utf8)).read_all() {
            match r.value {
                Some(text) => left.insert((r.key.key, r.key.start), text),
                None => left.remove(&(r.key.key, r.key.start)),
            };
        }
        assert_eq!(left, defined(&records, gap), "seed {seed}: gap {gap}, {records:?}");
        assert_eq!(dropped_late(&driver), 0);
    }
}

/// A record that is in time may belong to a session that is closed: closing is about the session that it makes. Not so where
/// final results are told: then what is closed may have been told of.
#[test]
fn a_record_in_time_finds_a_closed_session_that_is_a_gap_away() {
    let driver = joining(5, 0).build().unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("b", "1", 15), ("a", "x", 24), ("b", "2", 20)]);
    assert_eq!(told(&out)[2..], ["b[15,15]=null@15", "b[15,20]=12@20"]);
}

/// The numbers are those of `docs/dsl.md`.
#[test]
fn final_results_on_another_branch_keep_a_closed_session_as_it_is() {
    for finals in [false, true] {
        let sessions = SessionWindows::of_inactivity_gap_and_grace(ms(30), ms(10));
        let driver = builder(move |b| {
            let sums = b
                .stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .windowed_by(sessions)
                .reduce(|a, b| a + &b, Materialized::named("s").caching_disabled());
            if finals {
                let closed = sums.clone().filter(|_, _| true);
                let closed = closed.map_values_materialized(|v| v, Materialized::default().value(Utf8));
                closed
                    .suppress(Suppressed::until_window_closes(BufferConfig::unbounded()).named("closed"))
                    .to_stream()
                    .to("finals", Produced::with(SessionWindowed(Utf8), Utf8));
            }
            sums.to_stream().to("out", Produced::default());
        });
        let driver = driver.build().unwrap();
        let out = sessions_output(&driver);
        pipe(&driver, &[("a", "1", 1), ("b", "2", 60), ("a", "3", 30)]);
        let last: &[&str] = if finals { &["a[30,30]=3@30"] } else { &["a[1,1]=null@1", "a[1,30]=13@30"] };
        assert_eq!(told(&out)[2..], *last, "final results: {finals}");
    }
}

#[test]
fn b011_old_values_of_cached_sessions_are_their_own() {
    for caching in [0, 1 << 20] {
        let sessions = SessionWindows::of_inactivity_gap_and_grace(ms(10), ms(1000));
        let driver = builder(move |b| {
            b.stream("in", Consumed::with(Utf8, Utf8))
                .group_by_key()
                .windowed_by(sessions)
                .count(Materialized::named("s"))
                .group_by(|_, n| ("T".to_owned(), n), Grouped::with(Utf8, I64))
                .reduce(|a, b| a + b, |a, b| a - b, Materialized::named("total"))
                .to_stream()
                .to("out", Produced::with(Utf8, I64));
        })
        .caching(caching)
        .build()
        .unwrap();
        for (time, total) in [(0, 1), (100, 2), (105, 3), (105, 4)] {
            pipe(&driver, &[("k", "", time)]);
            driver.commit().unwrap();
            let out = driver.output("out", Utf8, I64).read_values();
            assert_eq!(out.last(), Some(&total), "cache {caching}, at {time}");
        }
    }
}

#[test]
fn b016_sessions_skip_null_values_and_keys_which_do_not_move_time() {
    let sessions = SessionWindows::of_inactivity_gap_with_no_grace(ms(5));
    let driver = builder(move |b| {
        let _ = b
            .stream("in", Consumed::with(Nullable(Utf8), Nullable(Utf8)))
            .group_by_key()
            .windowed_by(sessions)
            .count(Materialized::named("s").caching_disabled());
    })
    .build()
    .unwrap();
    let input = driver.input("in", Nullable(Utf8), Nullable(Utf8));
    let some = |text: &str| Some(text.to_owned());
    for (key, value, time) in
        [(some("k"), some("1"), 0), (some("k"), None, 100), (some("k"), some("2"), 2), (None, some("5"), 200)]
    {
        input.pipe(key, value, time).unwrap();
    }
    let rows = driver.session_store("s", Utf8, I64).all();
    assert_eq!(rows.iter().map(|(k, n)| (k.start, k.end, *n)).collect::<Vec<_>>(), [(0, 2, 2)]);
}

#[test]
fn b047_a_session_has_the_time_of_its_last_record() {
    let driver = joining(10, 100).build().unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("k", "a", 3), ("k", "b", 8), ("k", "c", 5)]);
    assert_eq!(told(&out).last().unwrap(), "k[3,8]=abc@8");
}

#[test]
fn near_the_end_of_time_nothing_overflows() {
    let driver = joining(10, 5).build().unwrap();
    let out = sessions_output(&driver);
    pipe(&driver, &[("k", "a", i64::MAX - 4), ("k", "b", i64::MAX), ("k", "c", 0)]);
    let expected = format!("k[{},{}]=ab@{}", i64::MAX - 4, i64::MAX, i64::MAX);
    assert_eq!((told(&out).pop(), dropped_late(&driver)), (Some(expected), 1));
}
