//! The versioned key-value store, over whatever two spaces.

use std::cell::Cell;

use millpond_store_api::VersionPut::{Latest, TooOld, ValidTo};
use millpond_store_api::{
    Cursor, Direction, Error, ErrorKind, Range, Result, Space, SpaceMut, VersionPut, Versioned, VersionedRecord,
};

use crate::expiring::{MINUTE, Times};
use crate::kind::with_both;
use crate::tools::{BOTH, drain, kind};
use crate::twin::VersionedTwin;
use crate::{Subject, twin};

/// The store's number.
const STORE: u16 = 7;

/// A version: value, from when on, until when.
pub(crate) type Version = (String, i64, Option<i64>);

/// The store as its task has it: the observed time is kept from one access to the next.
pub(crate) struct Store<'a> {
    pub(crate) subject: &'a mut dyn Subject,
    pub(crate) number: u16,
    pub(crate) history: i64,
    pub(crate) now: i64,
}

type View<'a> = Versioned<'a, dyn SpaceMut + 'a>;

impl<'a> Store<'a> {
    fn new(subject: &'a mut dyn Subject, history: i64) -> Self {
        Self { subject, number: STORE, history, now: i64::MIN }
    }

    fn view<T>(&mut self, body: impl FnOnce(&mut View<'_>) -> T) -> T {
        let (number, history, now) = (self.number, self.history, self.now);
        let (answer, now) = with_both(self.subject, |latest, old| {
            let mut view = View::new(latest, old, number, history, now);
            let answer = body(&mut view);
            (answer, view.observed())
        });
        self.now = now;
        answer
    }

    pub(crate) fn put(&mut self, key: &str, value: Option<&str>, timestamp: i64) -> VersionPut {
        self.view(|store| store.put(key.as_bytes(), value.map(str::as_bytes), timestamp)).expect("the version is put")
    }

    fn delete(&mut self, key: &str, timestamp: i64) -> Option<Version> {
        self.view(|store| store.delete(key.as_bytes(), timestamp).map(|found| found.map(version)))
            .expect("the tombstone is put")
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<Version> {
        self.view(|store| store.get(key.as_bytes()).map(|found| found.map(version))).expect("the key is read")
    }

    pub(crate) fn as_of(&mut self, key: &str, as_of: i64) -> Option<Version> {
        self.view(|store| store.get_as_of(key.as_bytes(), as_of).map(|found| found.map(version)))
            .expect("the key is read")
    }

    pub(crate) fn versions(&mut self, key: &str, from: i64, to: i64, direction: Direction) -> Vec<Version> {
        let mut versions = Vec::new();
        let walk = self.view(|store| {
            store.versions(key.as_bytes(), from, to, direction, &mut |record| {
                versions.push(version(record));
                Ok(true)
            })
        });
        walk.expect("the versions are read");
        versions
    }

    /// How many rows lie in the two spaces.
    fn rows(&mut self) -> [usize; 2] {
        let count = |space: &dyn SpaceMut| drain(&mut *space.scan(Range::ALL, Direction::Forward).unwrap()).len();
        with_both(self.subject, |latest, old| [count(latest), count(old)])
    }
}

fn version(record: VersionedRecord<'_>) -> Version {
    let value = String::from_utf8(record.value.to_vec()).expect("the case's values are text");
    (value, record.timestamp, record.valid_to)
}

fn old(value: &str, from: i64, to: i64) -> Option<Version> {
    Some((value.into(), from, Some(to)))
}

fn latest(value: &str, from: i64) -> Option<Version> {
    Some((value.into(), from, None))
}

/// B139: versions that come out of order, a tombstone among them, and one of the same time: the answers of the puts, of gets
/// at every border, and of the range both ways.
pub fn b139_out_of_order_history(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 1_000);
    let puts = [(Some("v10"), 10), (Some("v30"), 30), (Some("v20"), 20), (None, 25), (Some("w"), 20)];
    let answers = puts.map(|(value, timestamp)| store.put("k", value, timestamp));
    assert_eq!(answers, [Latest, Latest, ValidTo(30), ValidTo(30), ValidTo(25)]);
    assert_eq!(store.get("k"), latest("v30", 30));
    for (as_of, want) in [
        (9, None),
        (10, old("v10", 10, 20)),
        (19, old("v10", 10, 20)),
        (20, old("w", 20, 25)),
        (24, old("w", 20, 25)),
        (25, None),
        (29, None),
        (30, latest("v30", 30)),
        (i64::MAX, latest("v30", 30)),
    ] {
        assert_eq!(store.as_of("k", as_of), want, "as of {as_of}");
    }
    let mut versions = store.versions("k", 0, 100, Direction::Forward);
    assert_eq!(versions.iter().map(|version| version.0.as_str()).collect::<Vec<_>>(), ["v10", "w", "v30"]);
    assert_eq!(versions.iter().map(|version| version.2).collect::<Vec<_>>(), [Some(20), Some(25), None]);
    versions.reverse();
    assert_eq!(store.versions("k", 0, 100, Direction::Reverse), versions);
}

/// A range has what was valid at some time of it, both ends included, and can be ended.
pub fn ranges_of_versions(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 1_000);
    for (value, timestamp) in [("a", 10), ("b", 20), ("c", 30), ("d", 50)] {
        store.put("k", Some(value), timestamp);
    }
    store.put("k", None, 40);
    store.put("other", Some("x"), 25);
    for (from, to, want) in [
        (0, 9, ""),
        (0, 10, "a"),
        (15, 15, "a"),
        (19, 20, "ab"),
        (20, 20, "b"),
        (39, 45, "c"),
        (40, 49, ""),
        (40, 50, "d"),
        (60, 70, "d"),
        (i64::MIN, i64::MAX, "abcd"),
        (20, 19, ""),
        (70, 60, ""),
    ] {
        for direction in BOTH {
            let mut got = store.versions("k", from, to, direction);
            if direction == Direction::Reverse {
                got.reverse();
            }
            let got: String = got.iter().map(|version| version.0.as_str()).collect();
            assert_eq!(got, want, "{from}..={to} {direction:?}");
        }
    }
    for (direction, want) in [(Direction::Forward, "ab"), (Direction::Reverse, "dc")] {
        let mut seen = String::new();
        let walk = store.view(|store| {
            store.versions(b"k", 0, 100, direction, &mut |record| {
                seen.push_str(&version(record).0);
                Ok(seen.len() < 2)
            })
        });
        walk.unwrap();
        assert_eq!(seen, want);
    }
}

/// A tombstone is where a version ends, wherever it comes: as the latest, before every value, in a row of tombstones.
pub fn tombstones(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 1_000);
    assert_eq!(store.put("k", None, 50), Latest);
    assert_eq!((store.get("k"), store.as_of("k", 50)), (None, None));
    assert_eq!(store.put("k", Some("a"), 40), ValidTo(50), "the tombstone of a key without values is known");
    assert_eq!(store.put("k", None, 45), ValidTo(50));
    assert_eq!(store.put("k", Some("b"), 47), ValidTo(50), "of two tombstones the nearest ends a version");
    assert_eq!(store.put("k", Some("c"), 42), ValidTo(45));
    assert_eq!(store.put("k", Some("d"), 60), Latest);
    assert_eq!(store.put("k", Some("e"), 55), ValidTo(60));
    let want = [old("a", 40, 42), old("c", 42, 45), old("b", 47, 50), old("e", 55, 60), latest("d", 60)];
    assert_eq!(store.versions("k", 0, 100, Direction::Forward), want.map(Option::unwrap));
    assert_eq!((store.as_of("k", 46), store.as_of("k", 52), store.as_of("k", 55)), (None, None, old("e", 55, 60)));
    assert_eq!(store.put("k", None, 60), Latest);
    assert_eq!((store.get("k"), store.as_of("k", 59)), (None, old("e", 55, 60)));
    assert_eq!(store.put("k", Some("f"), 60), Latest, "a value takes the time of the last tombstone");
    assert_eq!(store.get("k"), latest("f", 60));
    assert_eq!(store.put("k", Some("g"), 50), ValidTo(55), "and of one before");
    assert_eq!(store.as_of("k", 52), old("g", 50, 55));
    assert_eq!(store.put("k", None, 50), ValidTo(55), "and the other way round");
    assert_eq!((store.as_of("k", 52), store.as_of("k", 49)), (None, old("b", 47, 50)));
}

/// A version of the same time is replaced: the latest, an older one, and again.
pub fn same_times(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 1_000);
    store.put("k", Some("a"), 10);
    assert_eq!(store.put("k", Some("b"), 10), Latest);
    assert_eq!(store.versions("k", 0, 99, Direction::Forward), [("b".into(), 10, None)]);
    store.put("k", Some("c"), 20);
    assert_eq!(store.put("k", Some(""), 10), ValidTo(20));
    assert_eq!(store.put("k", Some("a long value"), 10), ValidTo(20));
    assert_eq!(store.as_of("k", 10), old("a long value", 10, 20));
    assert_eq!(store.versions("k", 0, 99, Direction::Forward).len(), 2);
    assert_eq!(store.rows(), [1, 1]);
}

/// `delete` answers what was valid at its time, and nothing when it is too old, as it is not done then.
pub fn delete(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 100);
    assert_eq!(store.delete("k", 5), None);
    store.put("k", Some("a"), 10);
    store.put("k", Some("b"), 30);
    assert_eq!(store.delete("k", 20), old("a", 10, 30));
    assert_eq!(store.as_of("k", 25), None);
    assert_eq!(store.delete("k", 40), latest("b", 30));
    assert_eq!((store.get("k"), store.as_of("k", 39)), (None, old("b", 30, 40)));
    store.put("k", Some("c"), 200);
    assert_eq!(store.delete("k", 99), None);
    assert_eq!(store.get("k"), latest("c", 200));
}

/// The borders of the history: a put at the oldest time is done, one before is not; reads answer from the oldest time on; the
/// latest version never expires, and answers for every time from its own on.
pub fn the_borders_of_the_history(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 100);
    store.put("k", Some("a"), 10);
    store.put("k", Some("b"), 50);
    store.put("other", Some("x"), 149);
    assert_eq!(store.as_of("k", 49), old("a", 10, 50), "the oldest time");
    assert_eq!(store.as_of("k", 48), None, "a version that is still there, at a time that is too old");
    assert_eq!(store.put("k", Some("late"), 48), TooOld);
    assert_eq!(store.put("k", Some("just"), 49), ValidTo(50));
    assert_eq!(store.as_of("k", 49), old("just", 49, 50));
    store.put("other", Some("y"), 150);
    assert_eq!(store.as_of("k", 49), None);
    assert_eq!(store.versions("k", 0, 49, Direction::Forward), []);
    assert_eq!(store.as_of("k", 50), latest("b", 50));
    assert_eq!(store.put("k", Some("late"), 49), TooOld);
    store.put("other", Some("z"), 1_000_000);
    assert_eq!(store.get("k"), latest("b", 50));
    assert_eq!((store.as_of("k", 50), store.as_of("k", 49)), (latest("b", 50), None));
    assert_eq!(store.versions("k", 0, 60, Direction::Reverse), [("b".into(), 50, None)]);
    assert_eq!(store.put("k", None, 999_900), Latest);
    assert_eq!((store.get("k"), store.as_of("k", 50)), (None, None));
}

/// Without a history there is the latest version alone, and whatever comes late is too old.
pub fn no_history(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 0);
    assert_eq!(store.put("k", Some("a"), 10), Latest);
    assert_eq!(store.put("k", Some("b"), 10), Latest);
    assert_eq!(store.put("k", Some("late"), 9), TooOld);
    assert_eq!(store.put("k", Some("c"), 20), Latest);
    assert_eq!((store.get("k"), store.as_of("k", 19)), (latest("c", 20), None));
    assert_eq!(store.put("k", None, 20), Latest);
    assert_eq!(store.get("k"), None);
    assert_eq!(store.rows(), [0, 0]);
}

/// Times before 1970, the extremes, and histories that reach before the first time.
pub fn extreme_times(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, i64::MAX);
    for (value, timestamp) in [("min", i64::MIN), ("before", -1), ("zero", 0)] {
        assert_eq!(store.put("k", Some(value), timestamp), Latest);
    }
    assert_eq!(store.as_of("k", i64::MIN + 1), old("min", i64::MIN, -1), "the oldest time");
    assert_eq!(store.as_of("k", i64::MIN), None);
    assert_eq!(store.as_of("k", -1), old("before", -1, 0));
    assert_eq!(store.put("k", Some("max"), i64::MAX), Latest);
    assert_eq!(store.as_of("k", i64::MAX), latest("max", i64::MAX));
    assert_eq!(store.as_of("k", i64::MAX - 1), old("zero", 0, i64::MAX));
    assert_eq!(store.as_of("k", -1), None, "it is older than the history by now");
    assert_eq!(store.versions("k", i64::MIN, i64::MAX, Direction::Forward).len(), 2);
}

/// Keys that are parts of each other, with zero bytes and empty, have versions of their own.
pub fn keys_do_not_meet(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 1_000);
    let keys = ["", "\0", "\0\0", "\0\u{1}", "k", "k\0", "k\0\0", "kk", "k\u{1}", "k\u{7F}"];
    for timestamp in [10, 20, 30] {
        for key in keys {
            store.put(key, Some(&format!("{key:?} {timestamp}")), timestamp);
        }
    }
    for key in keys {
        let want = [10, 20, 30].map(|at| (format!("{key:?} {at}"), at, (at < 30).then_some(at + 10)));
        assert_eq!(store.versions(key, 0, 99, Direction::Forward), want);
    }
}

/// The latest versions of all keys, in the order of the keys, without those whose latest is a tombstone.
pub fn a_walk_over_the_latest(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 1_000);
    for (key, value, timestamp) in [("b", Some("2"), 20), ("a", Some("1"), 30), ("c", None, 5), ("b", Some("0"), 10)] {
        store.put(key, value, timestamp);
    }
    for direction in BOTH {
        let mut rows = Vec::new();
        let walk = store.view(|store| {
            store.for_each_latest(Range::ALL, direction, &mut |row| {
                rows.push((row.raw.key.to_vec(), row.value.timestamp, row.value.value.to_vec()));
                Ok(true)
            })
        });
        walk.unwrap();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        assert_eq!(rows, [(b"a".to_vec(), 30, b"1".to_vec()), (b"b".to_vec(), 20, b"2".to_vec())]);
    }
}

/// Fails each write once some have been let through.
struct Failing<'a> {
    space: &'a mut dyn SpaceMut,
    left: &'a Cell<usize>,
}

impl Space for Failing<'_> {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.space.get(key)
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.space.scan(range, direction)
    }

    fn touch(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.space.touch(keys)
    }

    fn approximate_num_entries(&self) -> Result<u64> {
        self.space.approximate_num_entries()
    }
}

impl SpaceMut for Failing<'_> {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| Error::new(ErrorKind::Io, "put"))?;
        self.left.set(left);
        self.space.put(key, value)
    }
}

impl Store<'_> {
    /// A put of which only the first `writes` writes are done; true if that was all of it.
    fn put_partly(&mut self, key: &str, value: Option<&str>, timestamp: i64, writes: usize) -> bool {
        let (history, now, left) = (self.history, self.now, Cell::new(writes));
        let put = with_both(self.subject, |latest, old| {
            let (mut latest, mut old) = (Failing { space: latest, left: &left }, Failing { space: old, left: &left });
            let mut store = Versioned::<Failing<'_>>::new(&mut latest, &mut old, STORE, history, now);
            store.put(key.as_bytes(), value.map(str::as_bytes), timestamp)
        });
        assert!(put.is_ok() || kind(put.as_ref().map_err(clone), "the put") == ErrorKind::Io);
        put.is_ok()
    }
}

fn clone(e: &Error) -> Error {
    Error::new(e.kind(), e.op())
}

/// B141: a put that was cut short after any of its writes, and is repeated, ends as if nothing had happened: one that
/// replaces the latest version, and ones that cut an old version in two, by a value and by a tombstone.
pub fn b141_a_put_cut_short_is_repeated(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 10_000_000);
    let minute = 60_000;
    for (what, value, timestamp) in [
        ("a new latest", Some("new"), 90 * minute),
        ("a tombstone as the latest", None, 90 * minute),
        ("the second half of an old one", Some("new"), 30 * minute),
        ("a tombstone in an old one", None, 30 * minute),
        ("a tombstone of the same time", None, 20 * minute),
    ] {
        let mut tried = 0;
        loop {
            let (cut, clean) = (format!("{what} {tried}"), format!("{what} {tried} clean"));
            for key in [&cut, &clean] {
                store.put(key, Some("a"), 20 * minute);
                store.put(key, Some("b"), 70 * minute);
            }
            let whole = store.put_partly(&cut, value, timestamp, tried);
            let answers = [&cut, &clean].map(|key| store.put(key, value, timestamp));
            assert_eq!(answers[0], answers[1], "{cut}");
            for direction in BOTH {
                let [cut, clean] = [&cut, &clean].map(|key| store.versions(key, 0, i64::MAX, direction));
                assert_eq!(cut, clean, "{what}, cut short after {tried} writes");
            }
            for as_of in (0..100).map(|at| at * minute) {
                assert_eq!(store.as_of(&cut, as_of), store.as_of(&clean, as_of), "{cut} as of {as_of}");
            }
            if whole {
                break;
            }
            tried += 1;
        }
        assert!(tried >= 2, "{what} is no put of several writes");
    }
}

/// Random operations within milliseconds: all of the history lies in a few expiry buckets.
pub fn against_a_model_in_milliseconds(subject: &mut dyn Subject) {
    twin::steps(subject, &mut [VersionedTwin::new(STORE, 20)], 21, Times::Flowing { now: -10, unit: 2 }, 1_000);
}

/// Random operations on minutes: the history goes over many expiry buckets.
pub fn against_a_model_in_minutes(subject: &mut dyn Subject) {
    twin::steps(subject, &mut [VersionedTwin::new(STORE, 10 * MINUTE)], 22, Times::flowing(-10 * MINUTE), 1_000);
}
