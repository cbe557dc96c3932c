//! Sliding windows against their definition.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use millpond_testkit::{Driver, DriverBuilder};
use millpond_topology::{Consumed, I64, Materialized, Produced, SlidingWindows, TimeWindowed, Utf8};

use crate::support::builder;
use crate::windows::{dropped_late, ms, pipe, text};

/// Texts of `in`, joined by key and window.
fn joining(difference: u64, grace: u64) -> DriverBuilder {
    let windows = SlidingWindows::of_time_difference_and_grace(ms(difference), ms(grace));
    builder(move |b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(windows)
            .aggregate(String::new, |so_far, _, v| so_far + v, Materialized::named("s").value(Utf8).caching_disabled())
            .to_stream()
            .to("out", Produced::with(TimeWindowed::new(Utf8, difference as i64), Utf8));
    })
}

fn counting(difference: u64, grace: u64) -> DriverBuilder {
    let windows = SlidingWindows::of_time_difference_and_grace(ms(difference), ms(grace));
    builder(move |b| {
        b.stream("in", Consumed::with(Utf8, Utf8))
            .group_by_key()
            .windowed_by(windows)
            .count(Materialized::named("s").caching_disabled())
            .to_stream()
            .to("out", Produced::with(TimeWindowed::new(Utf8, difference as i64), I64));
    })
}

/// The rows of the store: by key and start, the values sorted.
fn rows(driver: &Driver) -> BTreeMap<(String, i64), String> {
    let sorted = |value: String| {
        let mut letters: Vec<char> = value.chars().collect();
        letters.sort_unstable();
        letters.into_iter().collect::<String>()
    };
    let rows = driver.window_store("s", Utf8, Utf8).all();
    rows.into_iter().map(|(key, start, value)| ((key, start), sorted(value))).collect()
}

fn counts(driver: &Driver) -> Vec<(String, i64, i64)> {
    driver.window_store("s", Utf8, I64).all()
}

/// What the definition says: for each record the window that ends with it, and the one behind it if there is anything in it.
/// Windows that would begin before 1970 are one.
fn defined(records: &[(&str, &str, i64)], difference: i64) -> BTreeMap<(String, i64), String> {
    let mut windows = BTreeMap::new();
    for key in records.iter().map(|(key, ..)| *key).collect::<BTreeSet<_>>() {
        let of_key: Vec<_> = records.iter().filter(|(k, ..)| *k == key).collect();
        let starts = of_key.iter().flat_map(|(.., t)| [(*t - difference).max(0), *t + 1]);
        for start in starts.collect::<BTreeSet<_>>() {
            let inside = of_key.iter().filter(|(.., t)| (start..=start + difference).contains(t));
            let mut letters: Vec<_> = inside.map(|(_, v, _)| *v).collect();
            letters.sort_unstable();
            if !letters.is_empty() {
                windows.insert((key.to_owned(), start), letters.concat());
            }
        }
    }
    windows
}

fn permutations<T: Copy>(of: &[T]) -> Vec<Vec<T>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for at in 0..of.len() {
        let mut rest = of.to_vec();
        let first = rest.remove(at);
        for mut tail in permutations(&rest) {
            tail.insert(0, first);
            all.push(tail);
        }
    }
    all
}

#[test]
fn b012_any_order_of_four_records_gives_the_windows_of_the_definition() {
    let records = [("a", "p", 20), ("a", "q", 25), ("a", "r", 31), ("a", "s", 22)];
    let expected = [(10, "p"), (12, "ps"), (15, "pqs"), (21, "qrs"), (23, "qr"), (26, "r")];
    let expected: BTreeMap<_, _> = expected.iter().map(|(s, v)| (("a".to_owned(), *s), (*v).to_owned())).collect();
    assert_eq!(defined(&records, 10), expected);
    for order in permutations(&records) {
        let driver = joining(10, 100).build().unwrap();
        pipe(&driver, &order);
        assert_eq!(rows(&driver), expected, "{order:?}");
    }
}

#[test]
fn b012_a_thousand_random_sequences_give_the_windows_of_the_definition() {
    const LETTERS: &[&str] = &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for difference in 0..10 {
        // A sequence for each key: nothing is late, so that they do not know of each other.
        let mut rng = Rng::with_seed(difference as u64);
        let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
        let mut records = Vec::new();
        for key in &keys {
            let span = rng.i64(1..60);
            let letters = LETTERS.get(..rng.usize(1..LETTERS.len())).unwrap();
            records.extend(letters.iter().map(|letter| (key.as_str(), *letter, rng.i64(0..span))));
        }
        let driver = joining(difference as u64, 1000).build().unwrap();
        let input = driver.input("in", Utf8, Utf8);
        for (key, value, time) in &records {
            input.send(*key, *value, *time).unwrap();
        }
        driver.run().unwrap();
        let (found, expected) = (rows(&driver), defined(&records, difference));
        for key in &keys {
            let of = |all: &BTreeMap<(String, i64), String>| -> Vec<_> {
                all.iter().filter(|((k, _), _)| k == key).map(|((_, s), v)| (*s, v.clone())).collect()
            };
            let sequence: Vec<_> = records.iter().filter(|(k, ..)| k == key).collect();
            assert_eq!(of(&found), of(&expected), "difference {difference}: {sequence:?}");
        }
    }
}

#[test]
fn b013_without_grace_a_record_is_in_its_own_window() {
    let driver = counting(10, 0).build().unwrap();
    pipe(&driver, &[("a", "", 20), ("a", "", 20), ("a", "", 25), ("b", "", 25)]);
    let expected = [("a", 10, 2), ("a", 15, 3), ("a", 21, 1), ("b", 15, 1)];
    assert_eq!(counts(&driver), expected.map(|(k, s, n)| (k.to_owned(), s, n)));
    assert_eq!(dropped_late(&driver), 0);
}

#[test]
fn b014_records_near_1970_share_a_window_in_any_order() {
    let records = [("a", "p", 3), ("a", "q", 7), ("a", "r", 15)];
    let expected = [(0, "pq"), (4, "q"), (5, "qr"), (8, "r")];
    let expected: BTreeMap<_, _> = expected.iter().map(|(s, v)| (("a".to_owned(), *s), (*v).to_owned())).collect();
    for order in permutations(&records) {
        let driver = joining(10, 100).build().unwrap();
        pipe(&driver, &order);
        assert_eq!(rows(&driver), expected, "{order:?}");
    }
}

#[test]
fn b015_a_very_late_record_makes_no_window() {
    let driver = counting(10, 5).build().unwrap();
    pipe(&driver, &[("a", "", 100)]);
    let before = counts(&driver);
    assert_eq!(before, [("a".to_owned(), 90, 1)]);
    pipe(&driver, &[("a", "", 84)]);
    assert_eq!((counts(&driver), dropped_late(&driver)), (before.clone(), 1));
    // Its window is closed, and in the one behind it is nothing.
    pipe(&driver, &[("a", "", 85)]);
    assert_eq!((counts(&driver), dropped_late(&driver)), (before, 2));
}

#[test]
fn without_a_difference_each_time_has_a_window() {
    let driver = joining(0, 10).build().unwrap();
    pipe(&driver, &[("k", "a", 5), ("k", "b", 5), ("k", "c", 6), ("k", "d", 16), ("k", "e", 6), ("k", "f", 5)]);
    let out: Vec<_> = driver.output("out", TimeWindowed::new(Utf8, 0), Utf8).read_all().iter().map(text).collect();
    assert_eq!(out, ["k[5,5)=a@5", "k[5,5)=ab@5", "k[6,6)=c@6", "k[16,16)=d@16", "k[6,6)=ce@6"]);
    assert_eq!(dropped_late(&driver), 1);
}

#[test]
fn near_the_end_of_time_windows_end_with_it() {
    let driver = counting(10, 0).build().unwrap();
    pipe(&driver, &[("k", "", i64::MAX - 3), ("k", "", i64::MAX), ("k", "", i64::MAX)]);
    let out = driver.output("out", TimeWindowed::new(Utf8, 10), I64).read_all();
    let last = out.last().unwrap();
    assert_eq!((last.key.start, last.key.end, last.value, last.timestamp), (i64::MAX - 10, i64::MAX, 3, i64::MAX));
}
