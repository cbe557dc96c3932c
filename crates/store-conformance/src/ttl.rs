//! The key-value store whose rows have a time to live, over whatever two spaces.

use std::ops::Bound::{Excluded, Included};

use millpond_store_api::{Direction, ErrorKind, Expired, Prefix, Range, SpaceMut, TtlKeyValue, ValueAndTimestamp};

use crate::expiring::{MINUTE, Times};
use crate::kind::with_both;
use crate::tools::{BOTH, drain, kind};
use crate::twin::TtlTwin;
use crate::{Subject, twin};

/// The store's number; others share the index's space.
const STORE: u16 = 7;

/// A row: key, time, value.
pub(crate) type Timed = (String, i64, String);

/// The store as its task has it: the observed time is kept from one access to the next.
pub(crate) struct Store<'a> {
    pub(crate) subject: &'a mut dyn Subject,
    pub(crate) number: u16,
    pub(crate) ttl: i64,
    pub(crate) now: i64,
}

type View<'a> = TtlKeyValue<'a, dyn SpaceMut + 'a>;

impl<'a> Store<'a> {
    fn new(subject: &'a mut dyn Subject, ttl: i64) -> Self {
        Self { subject, number: STORE, ttl, now: i64::MIN }
    }

    fn view<T>(&mut self, body: impl FnOnce(&mut View<'_>) -> T) -> T {
        let (number, ttl, now) = (self.number, self.ttl, self.now);
        let (answer, now) = with_both(self.subject, |rows, index| {
            let mut view = View::new(rows, index, number, ttl, now);
            let answer = body(&mut view);
            (answer, view.observed())
        });
        self.now = now;
        answer
    }

    pub(crate) fn put(&mut self, key: &str, timestamp: i64, value: &str) -> bool {
        let value = ValueAndTimestamp { timestamp, value: value.as_bytes() };
        self.view(|store| store.put(key.as_bytes(), value)).expect("the row is put")
    }

    pub(crate) fn put_if_absent(&mut self, key: &str, timestamp: i64, value: &str) -> bool {
        let value = ValueAndTimestamp { timestamp, value: value.as_bytes() };
        self.view(|store| store.put_if_absent(key.as_bytes(), value)).expect("the row is read and put")
    }

    pub(crate) fn get(&mut self, key: &str) -> Option<(i64, String)> {
        self.view(|store| store.get(key.as_bytes()).map(|found| found.map(|v| (v.timestamp, text(v.value)))))
            .expect("the key is read")
    }

    pub(crate) fn scan(&mut self, range: Range<'_>, direction: Direction) -> Vec<Timed> {
        let mut rows = Vec::new();
        let walk = self.view(|store| {
            store.for_each(range, direction, &mut |row| {
                rows.push((text(row.raw.key), row.value.timestamp, text(row.value.value)));
                Ok(true)
            })
        });
        walk.expect("the walk goes through");
        rows
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.view(|store| store.delete(key.as_bytes())).expect("the row is deleted");
    }

    fn keys(&mut self) -> String {
        self.scan(Range::ALL, Direction::Forward).into_iter().map(|row| row.0).collect()
    }

    pub(crate) fn expire(&mut self, limit: usize) -> Expired {
        self.view(|store| store.expire(limit)).expect("rows are deleted")
    }

    /// How many rows lie in the two spaces.
    fn rows(&mut self) -> [usize; 2] {
        let count = |space: &dyn SpaceMut| drain(&mut *space.scan(Range::ALL, Direction::Forward).unwrap()).len();
        with_both(self.subject, |rows, index| [count(rows), count(index)])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the case's bytes are text")
}

fn done(deleted: usize, stale: usize, more: bool) -> Expired {
    Expired { deleted, stale, more }
}

/// A row is there while its time is greater than the observed time less the time to live, to the millisecond: for a get, a walk
/// and a `put_if_absent`, whether it has been deleted or not.
pub fn the_boundary_is_exact(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 100);
    assert!(store.put("a", 1_000, "1"));
    assert!(store.put("b", 1_001, "2"));
    assert!(store.put("c", 1_099, "3"));
    assert_eq!((store.keys().as_str(), store.get("a")), ("abc", Some((1_000, "1".into()))));
    assert!(store.put("d", 1_100, "4"));
    assert_eq!((store.keys().as_str(), store.get("a"), store.get("b")), ("bcd", None, Some((1_001, "2".into()))));
    assert!(store.put_if_absent("a", 1_001, "again"), "an expired row is absent");
    assert!(!store.put_if_absent("b", 1_100, "no"), "one that is about to expire is not");
    assert_eq!((store.get("a"), store.get("b")), (Some((1_001, "again".into())), Some((1_001, "2".into()))));
    store.now = 1_101;
    assert_eq!(
        (store.keys().as_str(), store.get("a"), store.get("b")),
        ("cd", None, None),
        "time may pass without a put"
    );
}

/// What has expired already is not put, and says so: the row that is there stays, and nothing is written.
pub fn an_expired_put_is_dropped(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 100);
    store.put("k", 1_000, "alive");
    let rows = store.rows();
    assert!(!store.put("k", 900, "late"));
    assert!(!store.put("new", 900, "late"));
    assert!(!store.put_if_absent("new", 900, "late"));
    assert!(store.put("k", 901, "just"), "the last time that is alive");
    assert_eq!((store.get("k"), store.get("new")), (Some((901, "just".into())), None));
    assert_eq!(store.rows()[0], rows[0]);
    let mut never = Store { ttl: 0, ..store };
    assert!(!never.put("k", 2_000, "v"), "with no time to live nothing is put");
}

/// Ranges, prefixes and both directions, with expired rows among the others.
pub fn walks_leave_out_what_has_expired(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 10);
    for (key, time) in [("a", 100), ("b", 89), ("ba", 95), ("bb", 90), ("c", 91), ("d", 80), ("e", 99)] {
        with_both(store.subject, |rows, _| {
            let mut bytes = Vec::new();
            ValueAndTimestamp { timestamp: time, value: key.as_bytes() }.encode(&mut bytes);
            rows.put(key.as_bytes(), Some(&bytes)).unwrap();
        });
    }
    store.now = 100;
    for direction in BOTH {
        let mut keys = |range: Range<'_>| {
            let mut keys: Vec<_> = store.scan(range, direction).into_iter().map(|row| row.0).collect();
            if direction == Direction::Reverse {
                keys.reverse();
            }
            keys.join(" ")
        };
        assert_eq!(keys(Range::ALL), "a ba c e");
        assert_eq!(keys(Range::new(Excluded(b"a"), Included(b"c"))), "ba c");
        assert_eq!(keys(Prefix::new(b"b").range()), "ba");
        assert_eq!(keys(Range::new(Included(b"d"), Excluded(b"e"))), "");
    }
    let counted = store.view(|store| store.approximate_num_entries());
    assert_eq!(counted.unwrap(), 7, "a count has what is not deleted yet");
}

/// B105: expired rows are deleted, each by a write of its own, so that they do not come back from the log; the others stay.
/// What is left in both spaces is counted.
pub fn b105_expired_rows_are_deleted(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    for i in 0..50 {
        store.put(&format!("old {i}"), 10 * MINUTE + i, "v");
        store.put(&format!("young {i}"), 15 * MINUTE + i, "v");
    }
    assert_eq!(store.rows(), [100, 100]);
    assert_eq!(store.expire(1_000), done(0, 0, false));
    store.now = 19 * MINUTE;
    assert_eq!(store.expire(1_000), done(50, 0, false), "their bucket has passed");
    assert_eq!(store.rows(), [50, 50]);
    assert_eq!(store.expire(1_000), done(0, 0, false));
    store.now = 60 * MINUTE;
    assert_eq!(store.keys(), "");
    assert_eq!(store.rows(), [50, 50], "what has expired is hidden before it is deleted");
    assert_eq!(store.expire(1_000), done(50, 0, false));
    assert_eq!(store.rows(), [0, 0]);
}

/// Rows are deleted in steps of the given size, oldest bucket first; the last step says that it was the last.
pub fn expiry_goes_in_steps(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    for i in 0..25_i64 {
        store.put(&format!("{i:02}"), (25 - i) * MINUTE / 4, "v");
    }
    store.now = 100 * MINUTE;
    assert_eq!(store.expire(0), done(0, 0, true));
    let steps = [10, 10, 10].map(|limit| store.expire(limit));
    assert_eq!(steps, [done(10, 0, true), done(10, 0, true), done(5, 0, false)]);
    assert_eq!(store.rows(), [0, 0]);
}

/// A row that was put again lives on: its former index rows are stale, and go. So do those of deleted rows.
pub fn a_row_that_was_put_again_lives_on(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    for minute in 0..20 {
        store.put("busy", minute * MINUTE, "v");
        store.put("busy", minute * MINUTE + 1, "v");
    }
    store.put("gone", 2 * MINUTE, "v");
    assert!(store.get("gone").is_none(), "it has expired, and was not put");
    store.put("gone", 15 * MINUTE, "v");
    store.delete("gone");
    assert_eq!(store.rows()[0], 1);
    let first = store.expire(1_000);
    assert_eq!((first.deleted, first.more), (0, false));
    assert!(store.rows()[1] <= 11, "an index row for each bucket that is to come, and that of the deleted row");
    store.now = 60 * MINUTE;
    let last = store.expire(1_000);
    assert_eq!((last.deleted, store.rows()), (1, [0, 0]));
}

/// A row that was put with an earlier time than before expires by that time.
pub fn a_row_may_become_older(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    store.put("k", 20 * MINUTE, "new");
    store.put("k", 13 * MINUTE, "old");
    store.now = 22 * MINUTE;
    assert_eq!(store.get("k"), None);
    assert_eq!(store.expire(9), done(1, 0, false));
    assert_eq!(store.rows(), [0, 1]);
    store.now = 40 * MINUTE;
    assert_eq!(store.expire(9), done(0, 1, false));
    assert_eq!(store.rows(), [0, 0]);
}

/// B147: of several puts and deletes of a key in one interval the last one decides, its time included: the row expires by that,
/// neither earlier nor later, and nothing is left of the others.
pub fn b147_the_last_of_conflicting_puts_decides(subject: &mut dyn Subject) {
    for (times, last) in [([10, 15], 12), ([10, 11], 15), ([15, 12], 10)] {
        let mut store = Store::new(subject, 8 * MINUTE);
        for time in times {
            assert!(store.put("k", time * MINUTE, "no"));
        }
        store.delete("k");
        assert!(store.put("k", last * MINUTE, "yes"));
        store.now = (last + 8) * MINUTE - 1;
        assert_eq!(store.expire(9).deleted, 0);
        assert_eq!(store.get("k"), Some((last * MINUTE, "yes".into())));
        assert_eq!(store.scan(Range::ALL, Direction::Reverse), [("k".into(), last * MINUTE, "yes".into())]);
        store.now += 1;
        assert_eq!((store.get("k"), store.keys().as_str()), (None, ""));
        store.now = 60 * MINUTE;
        assert_eq!((store.expire(9).deleted, store.rows()), (1, [0, 0]));
    }
}

/// The time to live may be changed: reads keep to the new one at once, and in the end every row is deleted.
pub fn the_time_to_live_may_change(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    store.put("k", MINUTE, "v");
    store.now = 10 * MINUTE;
    assert_eq!(store.get("k"), None);
    store.ttl = 80 * MINUTE;
    assert_eq!(store.expire(9), done(0, 1, false));
    assert_eq!((store.get("k"), store.rows()), (Some((MINUTE, "v".into())), [1, 1]));
    store.put("l", 10 * MINUTE, "v");
    store.ttl = 8 * MINUTE;
    store.now = 18 * MINUTE;
    assert_eq!((store.keys().as_str(), store.expire(9)), ("", done(0, 0, false)));
    store.now = 100 * MINUTE;
    assert_eq!((store.expire(9), store.rows()), (done(2, 0, false), [0, 0]));
}

/// B030: what expires is that key, and none that shares its bytes; other stores' rows in the index are left alone.
pub fn b030_keys_that_share_bytes(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    let keys = ["key", "key2", "a", "a|b", "a||", "", "\0", "a\0", "a\0\0"];
    for old in keys {
        for key in keys {
            store.put(key, if key == old { MINUTE } else { 7 * MINUTE }, "v");
        }
        let others: [&[u8]; 4] =
            [b"\0\0\0\x09\0\x06key", b"\0\0\0\x09\0\x08key", b"\0\0\0\x0A\0\x06k", b"\0\0\0\x0B\0\x08k"];
        with_both(store.subject, |_, index| others.map(|key| index.put(key, Some(b"")).unwrap()));
        store.now = 10 * MINUTE;
        assert_eq!(store.expire(100).deleted, 1);
        let left: Vec<_> = store.scan(Range::ALL, Direction::Forward).into_iter().map(|row| row.0).collect();
        let mut want: Vec<_> = keys.into_iter().filter(|key| *key != old).collect();
        want.sort_unstable();
        assert_eq!(left, want, "{old:?} has expired");
        with_both(store.subject, |_, index| {
            assert!(others.iter().all(|key| index.get(key).unwrap().is_some()), "other stores' rows");
        });
        store.now = 100 * MINUTE;
        store.expire(1_000);
        store.now = i64::MIN;
    }
}

/// Rows that were written past the view, with their index rows, as a restore does, expire as the others do.
pub fn rows_of_a_restore(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    with_both(store.subject, |rows, index| {
        for (key, timestamp) in [("expired", MINUTE), ("alive", 9 * MINUTE)] {
            let (mut value, mut entry) = (Vec::new(), Vec::new());
            ValueAndTimestamp { timestamp, value: b"v" }.encode(&mut value);
            rows.put(key.as_bytes(), Some(&value)).unwrap();
            TtlKeyValue::<dyn SpaceMut>::index_key(STORE, 8 * MINUTE, key.as_bytes(), timestamp, &mut entry);
            index.put(&entry, Some(&[])).unwrap();
        }
    });
    store.now = 10 * MINUTE;
    assert_eq!(store.keys(), "alive");
    assert_eq!(store.expire(100), done(1, 0, false));
    assert_eq!((store.keys().as_str(), store.rows()), ("alive", [1, 1]));
}

/// A value that is too short for a time, and an index row that is too short for its head, are `Corrupt`.
pub fn damage_is_corrupt(subject: &mut dyn Subject) {
    let mut store = Store::new(subject, 8 * MINUTE);
    with_both(store.subject, |rows, index| {
        rows.put(b"k", Some(b"short")).unwrap();
        index.put(b"\0\0\0\x01\0", Some(b"")).unwrap();
    });
    store.now = 10 * MINUTE;
    assert_eq!(kind(store.view(|view| view.get(b"k").map(drop)), "a get"), ErrorKind::Corrupt);
    let walk = store.view(|view| view.for_each(Range::ALL, Direction::Forward, &mut |_| Ok(true)));
    assert_eq!(kind(walk, "a walk"), ErrorKind::Corrupt);
    assert_eq!(kind(store.view(|view| view.expire(1)), "an expiry"), ErrorKind::Corrupt);
}

/// Random puts, deletes, expiries and reads against a map that is filtered by the rule; in the end nothing is left anywhere.
fn against(subject: &mut dyn Subject, seed: u64, ttl: i64) {
    let mut twins = [TtlTwin::new(STORE, ttl)];
    twin::steps(subject, &mut twins, seed, Times::Flowing { now: 5 * ttl, unit: ttl / 12 }, 1_000);
    let end = twins[0].now + 3 * ttl + 2 * MINUTE;
    let mut store = Store { now: end, ..Store::new(subject, ttl) };
    while store.expire(7).more {}
    assert_eq!(store.rows(), [0, 0], "the rows that are left after all have expired");
}

/// A time to live within one expiry bucket.
pub fn against_a_model_in_seconds(subject: &mut dyn Subject) {
    against(subject, 31, 20_000);
}

/// A time to live over many expiry buckets.
pub fn against_a_model_in_hours(subject: &mut dyn Subject) {
    against(subject, 32, 5 * 60 * MINUTE);
}
