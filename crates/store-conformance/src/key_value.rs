//! The plain key-value store, over whatever space.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

use fastrand::Rng;
use millpond_store_api::{Chunk, Direction, KeyValue, Range, SpaceMut};

use crate::expiring::Times;
use crate::kind::with;
use crate::tools::{BOTH, Bounds, Rows, assert_bytes, assert_rows, drain, expected, next_key, rows_of};
use crate::twin::{Plain, RowsTwin};
use crate::{Subject, twin};

/// Calls the body with a view of the store.
pub(crate) fn view<T>(subject: &mut dyn Subject, body: impl FnOnce(&mut KeyValue<'_, dyn SpaceMut + '_>) -> T) -> T {
    with(subject, |space| body(&mut KeyValue::new(space)))
}

pub(crate) fn put(subject: &mut dyn Subject, key: &[u8], value: &[u8]) {
    view(subject, |store| store.put(key, value)).expect("the row is put");
}

pub(crate) fn delete(subject: &mut dyn Subject, key: &[u8]) {
    view(subject, |store| store.delete(key)).expect("the row is deleted");
}

pub(crate) fn get(subject: &mut dyn Subject, key: &[u8]) -> Option<Vec<u8>> {
    view(subject, |store| store.get(key).map(|value| value.map(<[u8]>::to_vec))).expect("the key is read")
}

pub(crate) fn range(subject: &mut dyn Subject, lower: Bound<&[u8]>, upper: Bound<&[u8]>, direction: Direction) -> Rows {
    view(subject, |store| drain(&mut *store.range(lower, upper, direction).expect("the walk opens")))
}

fn prefix(subject: &mut dyn Subject, prefix: &[u8], direction: Direction) -> Rows {
    view(subject, |store| drain(&mut *store.prefix(prefix, direction).expect("the walk opens")))
}

fn all(subject: &mut dyn Subject, direction: Direction) -> Rows {
    view(subject, |store| drain(&mut *store.all(direction).expect("the walk opens")))
}

/// Compares the whole store in both directions, and each key by a get.
#[track_caller]
fn assert_store(subject: &mut dyn Subject, rows: &[(Vec<u8>, Vec<u8>)]) {
    for direction in BOTH {
        assert_rows(&all(subject, direction), &expected(rows, Range::ALL, direction), &format!("all, {direction:?}"));
    }
    for (key, value) in rows {
        assert_bytes(get(subject, key).as_deref(), Some(value), "get");
    }
}

fn with_keys(subject: &mut dyn Subject, keys: &[&[u8]]) {
    keys.iter().for_each(|key| put(subject, key, key));
}

/// A put is read back at once, replaced by the next, and gone after a delete.
pub fn put_get_delete(subject: &mut dyn Subject) {
    assert_eq!(get(subject, b"k"), None);
    put(subject, b"k", b"1");
    assert_eq!(get(subject, b"k"), Some(b"1".to_vec()));
    put(subject, b"k", b"22");
    assert_store(subject, &[(b"k".to_vec(), b"22".to_vec())]);
    delete(subject, b"k");
    assert_eq!(get(subject, b"k"), None);
    assert_store(subject, &[]);
    delete(subject, b"k");
    put(subject, b"k", b"again");
    assert_store(subject, &[(b"k".to_vec(), b"again".to_vec())]);
}

/// An empty value is a value, the empty key a key.
pub fn empty_is_not_absent(subject: &mut dyn Subject) {
    put(subject, b"", b"");
    put(subject, b"k", b"");
    assert_store(subject, &rows_of(&[b""]).into_iter().chain([(b"k".to_vec(), Vec::new())]).collect::<Rows>());
    assert!(!view(subject, |store| store.put_if_absent(b"k", b"1")).unwrap());
    delete(subject, b"");
    assert_eq!((get(subject, b""), get(subject, b"k")), (None, Some(Vec::new())));
}

/// `put_if_absent` writes where there is nothing, and says so; a key that was deleted is absent again.
pub fn b031_put_if_absent(subject: &mut dyn Subject) {
    let try_put = |subject: &mut dyn Subject, value: &[u8]| view(subject, |s| s.put_if_absent(b"k", value)).unwrap();
    assert!(try_put(subject, b"1"));
    assert!(!try_put(subject, b"2"));
    assert_eq!(get(subject, b"k"), Some(b"1".to_vec()));
    delete(subject, b"k");
    assert!(try_put(subject, b"3"));
    assert!(!try_put(subject, b"4"));
    assert_store(subject, &[(b"k".to_vec(), b"3".to_vec())]);
}

/// `put_all` puts and deletes in its order: a later row of a key wins.
pub fn put_all(subject: &mut dyn Subject) {
    put(subject, b"gone", b"1");
    put(subject, b"stays", b"stays");
    let rows: [(&[u8], Option<&[u8]>); 5] =
        [(b"a", Some(b"1")), (b"gone", None), (b"", Some(b"")), (b"a", Some(b"2")), (b"never", None)];
    view(subject, |store| store.put_all(rows)).expect("the rows are put");
    assert_store(
        subject,
        &[(b"".to_vec(), b"".to_vec()), (b"a".to_vec(), b"2".to_vec()), rows_of(&[b"stays"])[0].clone()],
    );
    view(subject, |store| store.put_all([])).expect("nothing is put");
}

/// B126: what was put, replaced and deleted counts at once, exactly while it is little.
pub fn b126_approximate_num_entries(subject: &mut dyn Subject) {
    let count = |subject: &mut dyn Subject| view(subject, |store| store.approximate_num_entries()).unwrap();
    assert_eq!(count(subject), 0);
    let (mut rows, mut random) = (BTreeMap::new(), Rng::with_seed(5967));
    for step in 0..300 {
        let key = [random.u8(..100)];
        if random.u8(..3) > 0 {
            put(subject, &key, b"v");
            rows.insert(key, ());
        } else {
            delete(subject, &key);
            rows.remove(&key);
        }
        assert_eq!(count(subject), rows.len() as u64, "step {step}");
    }
    assert!(rows.len() > 40, "the case means little without rows");
    rows.keys().for_each(|key| delete(subject, key));
    assert_eq!(count(subject), 0);
}

/// Bounds that are included, excluded, open, equal, inverted and between keys.
pub fn b026_bounds(subject: &mut dyn Subject) {
    with_keys(subject, &[b"a", b"b", b"c", b"d"]);
    let cases: [(Bounds<'_>, &[&[u8]]); 11] = [
        ((Included(b"b"), Included(b"c")), &[b"b", b"c"]),
        ((Unbounded, Included(b"b")), &[b"a", b"b"]),
        ((Included(b"c"), Unbounded), &[b"c", b"d"]),
        ((Unbounded, Unbounded), &[b"a", b"b", b"c", b"d"]),
        ((Included(b"c"), Included(b"b")), &[]),
        ((Included(b"b"), Included(b"b")), &[b"b"]),
        ((Included(b"aa"), Included(b"bb")), &[b"b"]),
        ((Excluded(b"a"), Excluded(b"d")), &[b"b", b"c"]),
        ((Excluded(b"b"), Excluded(b"b")), &[]),
        ((Excluded(b"d"), Excluded(b"a")), &[]),
        ((Unbounded, Excluded(b"a")), &[]),
    ];
    for ((lower, upper), keys) in cases {
        for direction in BOTH {
            let got = range(subject, lower, upper, direction);
            assert_rows(&got, &expected(&rows_of(keys), Range::ALL, direction), &format!("{keys:?} {direction:?}"));
        }
    }
}

/// Prefixes that no key follows: `FF`, `FF FF`, and the empty one.
pub fn b025_prefixes_without_a_successor(subject: &mut dyn Subject) {
    let keys: [&[u8]; 8] =
        [b"\x7F", b"\xFE", b"\xFE\xFF", b"\xFF", b"\xFF\x01", b"\xFF\x7F", b"\xFF\xFF", b"\xFF\xFF\xFF"];
    with_keys(subject, &keys);
    for start in [&b"\xFF"[..], b"\xFF\xFF", b"\xFE", b"", b"\x7F\x00", b"\xFF\xFF\xFF\xFF"] {
        let want: Vec<&[u8]> = keys.iter().copied().filter(|key| key.starts_with(start)).collect();
        for direction in BOTH {
            let got = prefix(subject, start, direction);
            assert_rows(
                &got,
                &expected(&rows_of(&want), Range::ALL, direction),
                &format!("{start:02x?} {direction:?}"),
            );
        }
    }
}

/// A reverse walk is the mirror of the forward one, for ranges and prefixes.
pub fn reverse_is_the_mirror(subject: &mut dyn Subject) {
    for i in 0..60_u32 {
        put(subject, &(i * 37 % 101).to_be_bytes(), &i.to_be_bytes());
    }
    for (low, high) in [(0_u32, 200_u32), (10, 50), (33, 34), (90, 10)] {
        let ends = [low.to_be_bytes(), high.to_be_bytes()];
        let (lower, upper) = (Excluded(&ends[0][..]), Included(&ends[1][..]));
        let mut reverse = range(subject, lower, upper, Direction::Reverse);
        reverse.reverse();
        assert_rows(&reverse, &range(subject, lower, upper, Direction::Forward), "the reversed reverse walk");
    }
    let mut reverse = prefix(subject, &[0, 0, 0], Direction::Reverse);
    reverse.reverse();
    assert_rows(&reverse, &prefix(subject, &[0, 0, 0], Direction::Forward), "the reversed reverse walk of a prefix");
}

/// A row that lies below and is deleted above is neither found nor listed; put again, it is the new one.
pub fn b034_a_delete_hides_what_lies_below(subject: &mut dyn Subject) {
    put(subject, b"k", b"1");
    subject.settle();
    delete(subject, b"k");
    assert_eq!(get(subject, b"k"), None);
    assert_store(subject, &[]);
    put(subject, b"k", b"2");
    assert_store(subject, &[(b"k".to_vec(), b"2".to_vec())]);
    delete(subject, b"k");
    assert_store(subject, &[]);
    subject.settle();
    assert_eq!(get(subject, b"k"), None);
    assert_store(subject, &[]);
}

/// A key that is put and deleted before anything is settled leaves nothing.
pub fn a_key_that_came_and_went(subject: &mut dyn Subject) {
    put(subject, b"a", b"1");
    put(subject, b"b", b"1");
    delete(subject, b"a");
    subject.settle();
    assert_eq!(get(subject, b"a"), None);
    assert_store(subject, &[(b"b".to_vec(), b"1".to_vec())]);
}

/// Deletes above that are ahead of the rows below, or belong to none of them, hide exactly their keys.
pub fn b035_deletes_ahead_of_the_rows_below(subject: &mut dyn Subject) {
    with_keys(subject, &[b"3", b"5", b"7", b"9"]);
    subject.settle();
    delete(subject, b"1");
    delete(subject, b"7");
    put(subject, b"6", b"6");
    delete(subject, b"9");
    assert_store(subject, &rows_of(&[b"3", b"5", b"6"]));
    for direction in BOTH {
        let got = range(subject, Included(b"4"), Included(b"8"), direction);
        assert_rows(&got, &expected(&rows_of(&[b"5", b"6"]), Range::ALL, direction), &format!("{direction:?}"));
    }
}

/// New rows before, between, over and behind those below, with the new values.
pub fn rows_above_and_below_are_merged(subject: &mut dyn Subject) {
    for key in [b"b", b"d", b"f"] {
        put(subject, key, b"below");
    }
    subject.settle();
    for key in [b"a", b"d", b"e", b"g"] {
        put(subject, key, b"above");
    }
    let rows: Rows = [("a", "above"), ("b", "below"), ("d", "above"), ("e", "above"), ("f", "below"), ("g", "above")]
        .map(|(k, v)| (k.into(), v.into()))
        .into();
    assert_store(subject, &rows);
    subject.settle();
    assert_store(subject, &rows);
}

/// A seek in a walk over both levels: near, far, backwards, out of the range.
pub fn seeks(subject: &mut dyn Subject) {
    with_keys(subject, &[b"b", b"d", b"f", b"h"]);
    subject.settle();
    with_keys(subject, &[b"c", b"g"]);
    delete(subject, b"f");
    let mut after = |direction, lent: usize, target: &[u8]| {
        view(subject, |store| {
            let mut cursor = store.range(Included(b"b"), Excluded(b"h"), direction).unwrap();
            for _ in 0..lent {
                cursor.next().unwrap();
            }
            cursor.seek(target).unwrap();
            let key = next_key(&mut *cursor);
            assert_eq!(cursor.row().map(|row| row.key.to_vec()), key, "`row` after a seek and `next`");
            key.map(|key| String::from_utf8(key).expect("the case's keys are text"))
        })
    };
    let mut check = |direction, lent, target: &str, want: Option<&str>| {
        assert_eq!(after(direction, lent, target.as_bytes()).as_deref(), want, "{direction:?} {lent} {target}");
    };
    // The rows of the range are b c d g.
    for (lent, target, want) in
        [(0, "a", "b"), (0, "c", "c"), (0, "e", "g"), (1, "a", "c"), (2, "c", "d"), (2, "f", "g"), (3, "d", "g")]
    {
        check(Direction::Forward, lent, target, Some(want));
    }
    for (lent, target, want) in
        [(0, "z", "g"), (0, "f", "d"), (0, "c", "c"), (1, "z", "d"), (2, "d", "c"), (3, "g", "b"), (0, "b", "b")]
    {
        check(Direction::Reverse, lent, target, Some(want));
    }
    check(Direction::Forward, 0, "h", None);
    check(Direction::Forward, 4, "a", None);
    check(Direction::Reverse, 0, "a", None);
    check(Direction::Reverse, 4, "z", None);
}

/// After the end of a walk there is nothing, again and again, and no row.
pub fn the_end_of_a_walk(subject: &mut dyn Subject) {
    with_keys(subject, &[b"a", b"b"]);
    view(subject, |store| {
        for direction in BOTH {
            let mut cursor = store.all(direction).unwrap();
            assert!(cursor.row().is_none());
            assert_eq!(drain(&mut *cursor).len(), 2);
            for _ in 0..3 {
                assert!(cursor.next().unwrap().is_none() && cursor.row().is_none());
            }
        }
    });
}

/// Two walks of one store at once.
pub fn two_walks_at_once(subject: &mut dyn Subject) {
    with_keys(subject, &[b"a", b"b", b"c"]);
    subject.settle();
    put(subject, b"d", b"d");
    view(subject, |store| {
        let mut forward = store.all(Direction::Forward).unwrap();
        let mut reverse = store.all(Direction::Reverse).unwrap();
        for (up, down) in [("a", "d"), ("b", "c"), ("c", "b"), ("d", "a")] {
            assert_eq!(next_key(&mut *forward), Some(up.into()));
            assert_eq!(next_key(&mut *reverse), Some(down.into()));
        }
    });
}

/// A store is emptied while it is walked, a chunk at a time: each row is seen once, a deleted one is gone at once.
pub fn b027_deleting_between_chunks(subject: &mut dyn Subject) {
    for direction in BOTH {
        for i in 0..50_u8 {
            put(subject, &[i], &[i]);
        }
        let mut seen = Rows::new();
        let mut place: Option<Vec<u8>> = None;
        let mut chunk = Chunk::default();
        loop {
            let rest = place.as_deref().map_or(Range::ALL, |key| Range::ALL.after(key, direction));
            view(subject, |store| {
                chunk.fill(&mut *store.range(rest.lower, rest.upper, direction).unwrap(), 7).unwrap();
            });
            let Some(last) = chunk.last() else { break };
            let last = last.key.to_vec();
            for i in 0..chunk.len() {
                let row = chunk.get(i).expect("the chunk is that long");
                seen.push((row.key.to_vec(), row.value.to_vec()));
                delete(subject, row.key);
                assert_eq!(get(subject, row.key), None);
            }
            place = Some(last);
        }
        let rows: Rows = (0..50).map(|i| (vec![i], vec![i])).collect();
        assert_rows(&seen, &expected(&rows, Range::ALL, direction), "the rows seen");
        assert_store(subject, &[]);
    }
}

/// `touch` is a hint: it changes no answer, for keys that are there, absent, deleted, or named twice.
pub fn touch_changes_nothing(subject: &mut dyn Subject) {
    with_keys(subject, &[b"a", b"b", b"c"]);
    subject.settle();
    delete(subject, b"b");
    put(subject, b"c", b"new");
    let keys: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"a", b""];
    subject.with(&mut |space| space.touch(&keys).expect("a hint is no error"));
    assert_store(subject, &[(b"a".to_vec(), b"a".to_vec()), (b"c".to_vec(), b"new".to_vec())]);
    assert_eq!((get(subject, b"b"), get(subject, b"d"), get(subject, b"")), (None, None, None));
    subject.with(&mut |space| space.touch(&[]).expect("a hint is no error"));
}

/// Keys and values longer than whatever is kept in place, and values that grow and shrink.
pub fn sizes(subject: &mut dyn Subject) {
    let mut rows = Rows::new();
    for len in [0, 1, 7, 8, 9, 21, 22, 23, 24, 30, 31, 100, 5_000, 70_000] {
        rows.push((vec![b'k'; len], vec![b'v'; 70_000 - len]));
    }
    for (key, value) in &rows {
        put(subject, key, b"before");
        put(subject, key, value);
    }
    assert_store(subject, &rows);
    for (key, value) in &mut rows {
        value.truncate(key.len() % 50);
        put(subject, key, value);
    }
    assert_store(subject, &rows);
}

/// Numbers written big endian with the sign bit flipped sort as numbers do, negative ones first.
pub fn b028_order_preserving_numbers(subject: &mut dyn Subject) {
    let encode = |n: i64| (n ^ i64::MIN).to_be_bytes();
    let decode = |row: &(Vec<u8>, Vec<u8>)| i64::from_be_bytes(row.0[..].try_into().expect("eight bytes")) ^ i64::MIN;
    for n in [5, -1, 1, i64::MIN, 0, -5, i64::MAX] {
        put(subject, &encode(n), b"v");
    }
    let (low, high) = (encode(-2), encode(2));
    let got = range(subject, Included(&low), Included(&high), Direction::Forward);
    assert_eq!(got.iter().map(decode).collect::<Vec<_>>(), [-1, 0, 1]);
    let got = all(subject, Direction::Reverse);
    assert_eq!(got.iter().map(decode).collect::<Vec<_>>(), [i64::MAX, 5, 1, 0, -1, -5, i64::MIN]);
}

/// Random puts, deletes, gets, ranges and walks with seeks against an ordered map.
pub fn against_a_model(subject: &mut dyn Subject) {
    twin::steps(subject, &mut [RowsTwin::<Plain>::default()], 7, Times::flowing(0), 1_500);
}
