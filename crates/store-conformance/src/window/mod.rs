//! The window store, over whatever space. Cases with a number in front are failures that other systems have had.

mod model;
pub(crate) mod store;

use std::ops::Bound::{Excluded, Included, Unbounded};

use millpond_store_api::schema::{Buckets, ExpiringKey, Suffix};
use millpond_store_api::{Direction, ErrorKind, Keys};

pub use self::model::{against_a_model, duplicates_against_a_model, times_at_the_edges_against_a_model};
use self::store::{Store, WindowRows, rows, text};
use crate::Subject;
use crate::expiring::MINUTE;
use crate::keys::adversarial;
use crate::tools::{BOTH, kind};

const ALL: (i64, i64) = (i64::MIN, i64::MAX);

/// A put is read, replaced and deleted; another start and another key are another row; an empty value is a value.
pub fn put_get_delete(subject: &mut dyn Subject) {
    let mut store = Store::new(7, 1_000);
    assert_eq!(store.get(subject, b"k", 10), None);
    assert!(store.put(subject, b"k", 10, b"1"));
    assert!(store.put(subject, b"k", 20, b""));
    assert!(store.put(subject, b"j", 10, b"3"));
    assert_eq!(store.get(subject, b"k", 10).as_deref(), Some(&b"1"[..]));
    assert_eq!(store.get(subject, b"k", 20).as_deref(), Some(&b""[..]));
    assert_eq!(store.get(subject, b"k", 11), None);
    assert!(store.put(subject, b"k", 10, b"2"));
    assert_eq!(text(&store.all(subject)), "j@10=3 k@10=2 k@20=");
    assert!(store.delete(subject, b"k", 10));
    assert!(store.delete(subject, b"k", 11), "deleting what is not there is fine");
    assert_eq!(store.get(subject, b"k", 10), None);
    assert_eq!(text(&store.all(subject)), "j@10=3 k@20=");
}

/// A fetch has the starts from one to the other, both included, oldest first, and youngest first backward.
pub fn a_fetch_includes_both_ends(subject: &mut dyn Subject) {
    let mut store = Store::new(0, 60 * MINUTE);
    for start in [30, 10, 20, 40 * MINUTE, 0] {
        store.put(subject, b"k", start, start.to_string().as_bytes());
        store.put(subject, b"a", start, b"");
        store.put(subject, b"z", start, b"");
    }
    let mut check = |from, to, want: &[i64]| {
        let want: WindowRows = want.iter().map(|start| (b"k".to_vec(), *start, start.to_string().into())).collect();
        let got = store.scan(subject, Keys::One(b"k"), (from, to), Direction::Forward);
        assert_eq!(text(&got), text(&want), "{from}..={to}");
        let mut got = store.scan(subject, Keys::One(b"k"), (from, to), Direction::Reverse);
        got.reverse();
        assert_eq!(text(&got), text(&want), "{from}..={to}, backward");
    };
    check(10, 30, &[10, 20, 30]);
    check(11, 29, &[20]);
    check(0, 0, &[0]);
    check(31, 40 * MINUTE - 1, &[]);
    check(30, 40 * MINUTE, &[30, 40 * MINUTE]);
    check(i64::MIN, i64::MAX, &[0, 10, 20, 30, 40 * MINUTE]);
    check(20, 10, &[]);
}

/// Ranges of keys: bounds included, excluded and open, inverted ones, prefixes; times are clipped within.
pub fn ranges_of_keys(subject: &mut dyn Subject) {
    let mut store = Store::new(1, 60 * MINUTE);
    for key in ["a", "ab", "b", "c", "d"] {
        for start in [50 * MINUTE, 5, 25 * MINUTE] {
            store.put(subject, key.as_bytes(), start, b"");
        }
    }
    let mut check = |keys, from, to, want: &[&str]| {
        for direction in BOTH {
            let mut got = store.scan(subject, keys, (from, to), direction);
            if direction == Direction::Reverse {
                got.reverse();
            }
            got.dedup_by(|a, b| a.0 == b.0);
            let got: Vec<_> = got.iter().map(|(key, ..)| std::str::from_utf8(key).unwrap()).collect();
            assert_eq!(got, want, "{keys:?} {direction:?}");
        }
    };
    check(Keys::ALL, i64::MIN, i64::MAX, &["a", "ab", "b", "c", "d"]);
    check(Keys::Between(Included(b"ab"), Included(b"c")), 0, 10, &["ab", "b", "c"]);
    check(Keys::Between(Excluded(b"ab"), Excluded(b"c")), 0, i64::MAX, &["b"]);
    check(Keys::Between(Excluded(b"a"), Unbounded), 0, i64::MAX, &["ab", "b", "c", "d"]);
    check(Keys::Between(Unbounded, Excluded(b"b")), 0, i64::MAX, &["a", "ab"]);
    check(Keys::Between(Unbounded, Included(b"aa")), 0, i64::MAX, &["a"]);
    check(Keys::Between(Included(b"c"), Included(b"b")), 0, i64::MAX, &[]);
    check(Keys::Between(Excluded(b"b"), Excluded(b"b")), 0, i64::MAX, &[]);
    check(Keys::Between(Included(b"b"), Included(b"b")), 0, i64::MAX, &["b"]);
    check(Keys::Prefix(b"a"), 0, i64::MAX, &["a", "ab"]);
    check(Keys::Prefix(b"ab"), 0, i64::MAX, &["ab"]);
    check(Keys::Prefix(b""), 0, i64::MAX, &["a", "ab", "b", "c", "d"]);
    check(Keys::Prefix(b"x"), 0, i64::MAX, &[]);
    check(Keys::ALL, 6, 25 * MINUTE - 1, &[]);
    check(Keys::ALL, 10, 6, &[]);
}

/// Rows of several keys come by key, then by start, wherever their buckets end.
pub fn keys_come_before_times(subject: &mut dyn Subject) {
    let mut store = Store::new(1, 60 * MINUTE);
    for (start, key) in [(0, "b"), (9 * MINUTE, "a"), (25 * MINUTE, "b"), (25 * MINUTE, "a"), (50 * MINUTE, "b")] {
        store.put(subject, key.as_bytes(), start, b"");
    }
    assert_eq!(text(&store.all(subject)), "a@540000= a@1500000= b@0= b@1500000= b@3000000=");
    let some = store.scan(subject, Keys::ALL, (1, 25 * MINUTE), Direction::Reverse);
    assert_eq!(text(&some), "b@1500000= a@1500000= a@540000=");
}

/// Keys that are prefixes of each other and keys of `00` and `FF`: each has its rows and nobody else's, in key order.
pub fn adversarial_keys_are_kept_apart(subject: &mut dyn Subject) {
    let mut store = Store::new(0x00FF, 60 * MINUTE);
    let keys: Vec<Vec<u8>> = adversarial().into_iter().map(|(key, _)| key).filter(|key| key.len() < 24).collect();
    let mut want = WindowRows::new();
    for (i, key) in keys.iter().enumerate() {
        for start in [0, 20 * MINUTE] {
            let value = format!("{i}/{start}").into_bytes();
            store.put(subject, key, start, &value);
            want.push((key.clone(), start, value));
        }
    }
    assert!(store.all(subject) == want, "the rows of all keys");
    for (key, rows) in keys.iter().zip(want.chunks(2)) {
        assert_eq!(store.scan(subject, Keys::One(key), ALL, Direction::Forward), rows);
        assert_eq!(store.get(subject, key, 0).as_deref(), Some(&rows[0].2[..]));
    }
    for pair in keys.windows(2).step_by(5) {
        let between =
            store.scan(subject, Keys::Between(Excluded(&pair[0]), Included(&pair[1])), ALL, Direction::Reverse);
        assert!(between.len() == 2 && between.iter().all(|(key, ..)| *key == pair[1]), "{between:?}");
        let with_prefix = want.iter().filter(|(key, ..)| key.starts_with(&pair[0])).count();
        assert_eq!(store.scan(subject, Keys::Prefix(&pair[0]), ALL, Direction::Forward).len(), with_prefix);
    }
}

/// A row is there while its start is above the greatest start minus the retention, to the millisecond; a late row that is
/// alive is put, and moves no time. Get, fetch and scans agree.
pub fn b003_retention_is_exact_and_driven_by_the_greatest_start(subject: &mut dyn Subject) {
    let mut store = Store::new(3, 60_000);
    store.put(subject, b"k1", 100_000, b"1");
    store.put(subject, b"k2", 150_000, b"2");
    assert!(store.put(subject, b"k0", 95_000, b"0"), "late, but alive");
    assert_eq!(store.now, 150_000);
    assert_eq!(store.get(subject, b"k0", 95_000).as_deref(), Some(&b"0"[..]));
    store.put(subject, b"k3", 159_999, b"3");
    assert_eq!(store.get(subject, b"k0", 95_000), None);
    assert_eq!(store.get(subject, b"k1", 100_000).as_deref(), Some(&b"1"[..]));
    assert_eq!(store.scan(subject, Keys::One(b"k1"), (0, 200_000), Direction::Forward).len(), 1);
    assert_eq!(text(&store.all(subject)), "k1@100000=1 k2@150000=2 k3@159999=3");
    store.put(subject, b"k4", 160_000, b"4");
    assert_eq!(store.get(subject, b"k1", 100_000), None);
    assert_eq!(store.scan(subject, Keys::One(b"k1"), (0, 200_000), Direction::Forward), []);
    assert_eq!(text(&store.all(subject)), "k2@150000=2 k3@159999=3 k4@160000=4");
}

/// An expired put is answered with false and changes nothing, though the bucket that it would lie in is alive.
pub fn b004_an_expired_put_is_refused(subject: &mut dyn Subject) {
    let mut store = Store::new(4, 100);
    assert!(store.put(subject, b"a", 0, b"early"));
    assert!(store.put(subject, b"b", 50, b"b"));
    assert!(store.put(subject, b"c", 155, b"c"));
    assert!(!store.put(subject, b"a", 40, b"late"));
    assert!(!store.put(subject, b"e", 55, b"at the limit"));
    assert!(!store.delete(subject, b"b", 50), "a delete of what has expired is as late");
    assert!(store.put(subject, b"d", 56, b"d"));
    assert_eq!(text(&store.all(subject)), "c@155=c d@56=d");
    assert_eq!((store.get(subject, b"a", 40), store.get(subject, b"b", 50)), (None, None));
    // Nothing was written: seen with an earlier time, the refused rows are not there.
    store.now = 100;
    assert_eq!(text(&store.all(subject)), "b@50=b d@56=d");
}

/// What has expired is not read from a cache either.
pub fn b005_a_cache_serves_no_expired_rows(subject: &mut dyn Subject) {
    let mut store = Store::new(5, 100);
    store.put(subject, b"a", 0, b"1");
    assert_eq!(store.get(subject, b"a", 0).as_deref(), Some(&b"1"[..]));
    store.put(subject, b"b", 200, b"1");
    for settled in [false, true] {
        assert_eq!(store.get(subject, b"a", 0), None, "settled: {settled}");
        assert_eq!(store.scan(subject, Keys::One(b"a"), (0, 1_000), Direction::Forward), []);
        assert_eq!(text(&store.scan(subject, Keys::ALL, (0, 1_000), Direction::Forward)), "b@200=1");
        subject.settle();
    }
}

/// Starts near the ends of `i64`, with a retention of any size: no overflow, no walk over the buckets between.
pub fn b017_the_edges_of_time(subject: &mut dyn Subject) {
    for (number, retention) in (0..).zip([1_000, 60 * MINUTE, i64::MAX]) {
        let mut store = Store::new(number, retention);
        let last = i64::MAX - 7;
        assert!(store.put(subject, b"k", 0, b"first"));
        assert_eq!(text(&store.all(subject)), "k@0=first");
        assert!(store.put(subject, b"k", last, b"last"));
        let want = if retention == i64::MAX { vec![0, last] } else { vec![last] };
        for direction in BOTH {
            for keys in [Keys::One(b"k"), Keys::ALL] {
                for times in [(0, i64::MAX), ALL] {
                    let (mut got, placed) = store.placed(subject, keys, times, direction);
                    if direction == Direction::Reverse {
                        got.reverse();
                    }
                    assert_eq!(got.iter().map(|(_, start, _)| *start).collect::<Vec<_>>(), want, "{retention}");
                    assert!(placed <= Buckets::MAX_ALIVE, "{placed} seeks");
                }
                assert_eq!(store.scan(subject, keys, (i64::MIN, -1), direction), []);
                assert_eq!(store.scan(subject, keys, (i64::MAX, i64::MIN), direction), []);
            }
        }
        assert!(store.put(subject, b"k", i64::MAX, b"the very last"));
        assert_eq!(store.get(subject, b"k", i64::MAX).as_deref(), Some(&b"the very last"[..]));
        assert!(!store.put(subject, b"k", i64::MIN, b""));
        assert_eq!(store.put(subject, b"k", 1, b""), retention == i64::MAX);
    }
}

/// Times before 1970 are times like others, down to the first of them.
pub fn times_before_1970(subject: &mut dyn Subject) {
    let mut store = Store::new(6, 10 * MINUTE);
    assert!(store.put(subject, b"k", i64::MIN, b"a"));
    assert!(store.put(subject, b"k", i64::MIN + 1, b"b"));
    assert_eq!(store.all(subject).len(), 2);
    assert!(store.put(subject, b"k", -5 * MINUTE, b"c"));
    assert!(store.put(subject, b"j", -12 * MINUTE, b"d"));
    assert!(store.put(subject, b"k", -1, b"e"));
    assert_eq!(text(&store.all(subject)), "k@-300000=c k@-1=e");
    assert!(store.put(subject, b"k", 4 * MINUTE, b"f"));
    assert_eq!(text(&store.scan(subject, Keys::One(b"k"), (i64::MIN, -1), Direction::Reverse)), "k@-1=e k@-300000=c");
    assert!(store.put(subject, b"k", 5 * MINUTE, b"g"));
    assert_eq!(text(&store.all(subject)), "k@-1=e k@240000=f k@300000=g");
}

/// With a retention of zero or less nothing ever lives.
pub fn without_retention_nothing_lives(subject: &mut dyn Subject) {
    for retention in [0, -1, i64::MIN] {
        for start in [5, i64::MAX] {
            let mut store = Store::new(6, retention);
            assert!(!store.put(subject, b"k", start, b"v"));
            assert_eq!(store.get(subject, b"k", start), None);
            assert_eq!(store.all(subject), []);
        }
    }
}

/// Backward is the exact mirror of forward, over buckets and within them, with any bounds.
pub fn b020_backward_is_the_mirror_of_forward(subject: &mut dyn Subject) {
    for (number, retention) in (0..).zip([1_000, 24 * 60 * MINUTE]) {
        let mut store = Store::new(number, retention);
        // With the longer retention the two times are 15 hours apart.
        let late = if retention == 1_000 { 900 } else { 900 * MINUTE };
        for (key, start) in [("a", 40), ("b", 40), ("c", 40), ("d", late), ("e", late)] {
            store.put(subject, key.as_bytes(), start, b"");
        }
        let keys = |rows: WindowRows| rows.into_iter().flat_map(|(key, ..)| key).collect::<Vec<u8>>();
        for (bounds, times, want) in [
            (Keys::ALL, ALL, "abcde"),
            (Keys::ALL, (40, late), "abcde"),
            (Keys::Between(Included(b"a"), Unbounded), (0, late), "abcde"),
            (Keys::Between(Unbounded, Included(b"d")), (0, late), "abcd"),
            (Keys::Between(Included(b"b"), Included(b"d")), (0, late), "bcd"),
            (Keys::ALL, (41, late), "de"),
        ] {
            assert_eq!(keys(store.scan(subject, bounds, times, Direction::Forward)), want.as_bytes());
            let mirror: Vec<u8> = want.bytes().rev().collect();
            assert_eq!(keys(store.scan(subject, bounds, times, Direction::Reverse)), mirror);
        }
    }
}

/// A store with duplicates keeps equal rows, in the order of the puts; a null is nothing at all.
pub fn b022_duplicates_are_kept_and_nulls_are_nothing(subject: &mut dyn Subject) {
    let mut store = Store::with_duplicates(8, 1_000);
    assert!(store.put(subject, b"k", 5, b"v1"));
    assert!(store.put(subject, b"k", 5, b"v1"));
    assert!(store.delete(subject, b"k", 5));
    assert!(store.put(subject, b"k", 5, b"v2"));
    assert!(store.delete(subject, b"k", 9_000), "a null does not even move the time");
    assert!(store.put(subject, b"j", 5, b"v3"));
    assert!(store.put(subject, b"k", 4, b"v4"));
    assert_eq!(text(&store.all(subject)), "j@5=v3 k@4=v4 k@5=v1 k@5=v1 k@5=v2");
    assert_eq!(store.get(subject, b"k", 5).as_deref(), Some(&b"v2"[..]), "the last one");
    assert_eq!(store.get(subject, b"k", 6), None);
    assert_eq!(text(&store.scan(subject, Keys::One(b"k"), (5, 5), Direction::Reverse)), "k@5=v2 k@5=v1 k@5=v1");
    assert!(store.put(subject, b"k", 1_004, b"v5"));
    assert!(!store.put(subject, b"k", 4, b"late"));
    assert_eq!(text(&store.all(subject)), "j@5=v3 k@5=v1 k@5=v1 k@5=v2 k@1004=v5");
}

/// Where rows of a key and start are, numbering goes on behind them, whoever wrote them; at the last number with those that are
/// free.
pub fn duplicates_go_on_behind_what_is_there(subject: &mut dyn Subject) {
    let mut store = Store::with_duplicates(9, 10 * MINUTE);
    let mut restore = |start, sequence, value: &[u8]| {
        let bucket = Buckets::new(10 * MINUTE).of(start);
        let row = ExpiringKey { bucket, store: 9, key: b"k", suffix: Suffix::Sequence(start, sequence) };
        let mut key = Vec::new();
        row.encode(&mut key);
        subject.with(&mut |space| space.put(&key, Some(value)).expect("the row is put"));
    };
    restore(5, 17, b"from the changelog");
    restore(6, i32::MAX.unsigned_abs(), b"the last number");
    store.now = 6;
    assert!(store.put(subject, b"k", 5, b"new"));
    assert_eq!(text(&store.all(subject)), "k@5=from the changelog k@5=new k@6=the last number");
    assert!(store.put(subject, b"k", 6, b"a free number") && store.put(subject, b"k", 6, b"the next"));
    let six = text(&store.scan(subject, Keys::One(b"k"), (6, 6), Direction::Forward));
    assert_eq!(six, "k@6=a free number k@6=the next k@6=the last number");
}

/// Stores of other retention, number and kind of row in the same space do not see each other.
pub fn stores_share_the_space(subject: &mut dyn Subject) {
    let mut stores = [
        Store::new(0, 100),
        Store::new(1, 10 * MINUTE),
        Store::with_duplicates(2, 60 * MINUTE),
        Store::new(u16::MAX - 1, i64::MAX),
        Store::new(u16::MAX, 60 * MINUTE),
    ];
    for start in [0, 1, 9 * MINUTE, 55 * MINUTE] {
        for (i, store) in stores.iter_mut().enumerate() {
            for key in [&b"k"[..], b"", b"k\0"] {
                assert!(store.put(subject, key, start, &[b'0' + i as u8]));
            }
        }
    }
    for (i, (store, alive)) in stores.iter_mut().zip([1, 1, 4, 4, 4]).enumerate() {
        let rows = store.all(subject);
        assert_eq!(rows.len(), 3 * alive, "store {i}");
        assert!(rows.iter().all(|(.., value)| *value == [b'0' + i as u8]), "store {i}");
        for direction in BOTH {
            let rows = store.scan(subject, Keys::One(b"k"), ALL, direction);
            assert!(rows.len() == alive && rows.iter().all(|(.., value)| *value == [b'0' + i as u8]), "store {i}");
        }
    }
}

/// A cursor is placed once at most for each bucket: 9 times in all. Empty buckets cost nothing.
pub fn one_seek_at_most_for_each_bucket(subject: &mut dyn Subject) {
    let hours = |n: i64| n * 60 * MINUTE;
    // Eight hours in buckets of one: rows of the key and of its neighbours in each of them.
    let (mut store, mut other) = (Store::new(5, hours(8)), Store::new(4, hours(1)));
    for hour in 0..8 {
        for key in ["j", "k", "l"] {
            for minute in [1, 59] {
                assert!(store.put(subject, key.as_bytes(), hours(hour) + minute * MINUTE, b""));
            }
        }
        other.put(subject, b"k", hours(hour), b"");
    }
    for direction in BOTH {
        for (keys, count) in [(Keys::One(b"k"), 16), (Keys::ALL, 48), (Keys::Prefix(b"k"), 16)] {
            let (rows, placed) = store.placed(subject, keys, ALL, direction);
            assert!(rows.len() == count && placed <= Buckets::MAX_ALIVE, "{placed} seeks for {} rows", rows.len());
        }
        let (rows, placed) = store.placed(subject, Keys::One(b"k"), (hours(3) + 1, hours(4)), direction);
        assert!(rows.len() == 2 && placed == 1, "{placed} seeks for {} rows of one bucket", rows.len());
    }
    // Far apart: the buckets between are not looked at.
    let mut store = Store::new(6, hours(80));
    for hour in [0, 79] {
        for key in ["j", "k", "l"] {
            store.put(subject, key.as_bytes(), hours(hour), b"");
        }
    }
    for direction in BOTH {
        let (rows, placed) = store.placed(subject, Keys::One(b"k"), (0, hours(79)), direction);
        assert!(rows.len() == 2 && placed <= 4, "{placed} seeks for {} rows far apart", rows.len());
    }
}

/// A scan in chunks, which goes on over writes, places a cursor once at most for each bucket and chunk: for one key in those
/// buckets only that the chunk's rows are in.
pub fn one_seek_at_most_for_each_bucket_and_chunk(subject: &mut dyn Subject) {
    let mut store = Store::new(8, 8 * 60 * MINUTE);
    for hour in 0..8 {
        for key in ["j", "k", "l"] {
            for minute in [1, 59] {
                assert!(store.put(subject, key.as_bytes(), (hour * 60 + minute) * MINUTE, b""));
            }
        }
    }
    for direction in BOTH {
        for (keys, count, most) in [(Keys::One(b"k"), 16, 3), (Keys::ALL, 48, Buckets::MAX_ALIVE)] {
            let (rows, placed) = store.placed_in_chunks(subject, keys, direction, 4);
            assert!(rows == count && placed <= most, "{placed} seeks for 4 of {rows} rows, {direction:?} {keys:?}");
        }
    }
}

/// A scan goes on behind its place, with writes in between: chunk by chunk it sees what one scan sees, and rows that were
/// deleted or put ahead of it meanwhile are gone or there.
pub fn a_scan_is_resumed_behind_its_place(subject: &mut dyn Subject) {
    for duplicates in [false, true] {
        for direction in BOTH {
            for keys in [Keys::One(b"b"), Keys::ALL, Keys::Prefix(b"b"), Keys::Between(Excluded(b"a"), Included(b"c"))]
            {
                resume(subject, duplicates, direction, keys);
            }
        }
    }
}

fn resume(subject: &mut dyn Subject, duplicates: bool, direction: Direction, keys: Keys<'_>) {
    let mut store = Store { duplicates, ..Store::new(u16::from(duplicates), 60 * MINUTE) };
    if store.scan(subject, Keys::ALL, ALL, Direction::Forward).is_empty() {
        store.now = 58 * MINUTE;
        for key in [&b"a"[..], b"b", b"b\0", b"c"] {
            for start in 0..30 {
                assert!(store.put(subject, key, start * 2 * MINUTE, &[start as u8]));
            }
        }
    }
    store.now = 58 * MINUTE;
    let times = (4 * MINUTE, 50 * MINUTE);
    let want = store.scan(subject, keys, times, direction);
    let (mut got, mut place) = (WindowRows::new(), None::<Vec<u8>>);
    loop {
        let chunk: WindowRows = store.view(subject, |store| {
            let mut scan = match &place {
                Some(place) => store.resume(keys, times.0, times.1, direction, place).expect("the scan opens"),
                None => store.scan(keys, times.0, times.1, direction).expect("the scan opens"),
            };
            let mut chunk = WindowRows::new();
            while chunk.len() < 7
                && let Some(row) = scan.next().expect("the scan moves")
            {
                chunk.push((row.key.to_vec(), row.start, row.value.to_vec()));
                place = scan.place().map(<[u8]>::to_vec);
            }
            chunk
        });
        let Some((key, start, value)) = chunk.last().cloned() else { break };
        got.extend(chunk);
        assert!(got.len() <= want.len(), "the scan does not go on: {direction:?} {keys:?}");
        if !duplicates {
            // What the scan has passed may be written again; it is not seen again.
            store.delete(subject, &key, start);
            store.put(subject, &key, start, &value);
        }
    }
    assert_eq!(text(&got), text(&want), "{direction:?} {keys:?}");
    // Behind the last place there is nothing, and after its row has expired neither.
    let place = place.expect("there were rows");
    store.now = 300 * MINUTE;
    let rest = |store: &mut Store, subject: &mut dyn Subject| {
        store.view(subject, |store| {
            rows(store.resume(keys, times.0, times.1, direction, &place).expect("the scan opens"))
        })
    };
    assert_eq!(rest(&mut store, subject), []);
    store.now = 58 * MINUTE;
    assert_eq!(rest(&mut store, subject), []);
}

/// A place that none gave is an error of a known kind or an end, not a panic.
pub fn a_foreign_place_is_corrupt(subject: &mut dyn Subject) {
    let mut store = Store::new(1, 60 * MINUTE);
    store.put(subject, b"k", 5, b"v");
    store.view(subject, |store| {
        let opened = store.resume(Keys::One(b"k"), 0, 10, Direction::Forward, b"short").map(drop);
        assert_eq!(kind(opened, "a resumed scan"), ErrorKind::Corrupt);
        for direction in BOTH {
            for place in [&b""[..], b"short", &[0xFF; 40]] {
                rows(store.resume(Keys::ALL, 0, 10, direction, place).expect("the scan opens"));
            }
        }
    });
}

/// A row whose key is damaged is a named error for scans that meet it, and harmless to others.
pub fn damaged_rows_are_corrupt(subject: &mut dyn Subject) {
    let mut store = Store::new(1, 60 * MINUTE);
    store.put(subject, b"k", 5 * MINUTE, b"v");
    let head = ExpiringKey::head(Buckets::new(60 * MINUTE).of(5 * MINUTE), 1);
    for (i, damage) in [&b"m\0\x01short"[..], b"m\0\x02\x80\0\0\0\0\x04\x93\xE0", b"m"].into_iter().enumerate() {
        let key = [&head[..], damage].concat();
        subject.with(&mut |space| space.put(&key, Some(b"v")).expect("the row is put"));
        let walk = store.view(subject, |store| {
            let mut scan = store.all(Direction::Reverse).expect("the scan opens");
            while scan.next()?.is_some() {}
            Ok(())
        });
        assert_eq!(kind(walk, &format!("a walk over damage {i}")), ErrorKind::Corrupt);
        assert_eq!(text(&store.scan(subject, Keys::One(b"k"), ALL, Direction::Forward)), "k@300000=v");
        subject.with(&mut |space| space.put(&key, None).expect("the row is deleted"));
    }
}
