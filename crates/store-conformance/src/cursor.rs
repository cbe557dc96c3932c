//! Walks: bounds, both directions, and what `next`, `row` and `seek` promise to each other.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use millpond_store_api::{Cursor, Direction, Flush, Isolation, Prefix, Range, Read, Shard, ShardSpace, Space};

use crate::tools::{
    BOTH, Bounds, Rows, all, apply, assert_rows, delete, drain, expected, fill, get, next_key, numbered, put, rows_of,
    scan,
};
use crate::{A, B, Harness, Rig};

/// A shard whose first space holds rows with these keys; flushed to wherever an engine keeps old rows, if `flushed`.
fn with_keys(rig: &Rig<'_>, keys: &[&[u8]], flushed: bool) -> Box<dyn Shard> {
    let mut shard = rig.open();
    fill(&mut *shard, A, &rows_of(keys), b"m");
    if flushed {
        shard.flush(Flush::Wait).expect("the shard is flushed");
    }
    shard
}

fn open<'a>(
    shard: &'a dyn Shard,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    direction: Direction,
) -> Box<dyn Cursor + 'a> {
    shard.scan(A, Range::new(lower, upper), direction).expect("the scan opens")
}

const B_D_F_H: [&[u8]; 4] = [b"b", b"d", b"f", b"h"];

/// Forward is ascending, reverse descending, by bytes as unsigned numbers, a prefix before what it begins.
pub fn rows_come_in_key_order(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut keys: Vec<&[u8]> = vec![b"b", b"", b"a\xFF", b"\xFF", b"a", b"\x80", b"\x7F", b"ab", b"a\0", b"\0", b"B"];
    let shard = with_keys(&rig, &keys, false);
    keys.sort_unstable();
    assert_rows(&scan(&*shard, A, Range::ALL, Direction::Forward), &rows_of(&keys), "forward");
    keys.reverse();
    assert_rows(&scan(&*shard, A, Range::ALL, Direction::Reverse), &rows_of(&keys), "reverse");
}

/// Each pair of bounds, of each kind, in both directions, on keys and between them.
pub fn every_kind_of_bounds(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let rows = rows_of(&B_D_F_H);
    for flushed in [false, true] {
        let shard = with_keys(&rig, &B_D_F_H, flushed);
        let ends: Vec<Vec<u8>> = (b'a'..=b'i').map(|c| vec![c]).collect();
        let bounds = || {
            let each = ends.iter().flat_map(|k| [Included(k.as_slice()), Excluded(k.as_slice())]);
            std::iter::once(Unbounded).chain(each)
        };
        for lower in bounds() {
            for upper in bounds() {
                let range = Range::new(lower, upper);
                for direction in BOTH {
                    let got = scan(&*shard, A, range, direction);
                    assert_rows(
                        &got,
                        &expected(&rows, range, direction),
                        &format!("{lower:?} .. {upper:?} {direction:?}"),
                    );
                }
            }
        }
        shard.destroy().unwrap();
    }
}

/// A reverse walk gives the rows of the forward walk, backwards, over any range of 300 rows.
pub fn reverse_is_the_mirror_of_forward(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    fill(&mut *shard, A, &numbered(300), b"m");
    let mut random = fastrand::Rng::with_seed(4);
    for _ in 0..60 {
        let ends = [random.u32(..310).to_be_bytes(), random.u32(..310).to_be_bytes()];
        let bound = |random: &mut fastrand::Rng, end| match random.u8(..5) {
            0 => Unbounded,
            1 | 2 => Excluded(end),
            _ => Included(end),
        };
        let range = Range::new(bound(&mut random, &ends[0][..]), bound(&mut random, &ends[1][..]));
        let forward = scan(&*shard, A, range, Direction::Forward);
        let mut reverse = scan(&*shard, A, range, Direction::Reverse);
        reverse.reverse();
        assert_rows(&reverse, &forward, "the reversed reverse walk");
    }
}

/// A range that holds one key, and ranges that hold none but are not empty as such.
pub fn narrow_ranges(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, true);
    for direction in BOTH {
        let keys = |lower, upper| drain(&mut *open(&*shard, lower, upper, direction)).len();
        assert_eq!(keys(Included(b"d"), Included(b"d")), 1);
        assert_eq!(keys(Included(b"c"), Included(b"c")), 0);
        assert_eq!(keys(Excluded(b"d"), Excluded(b"f")), 0);
        assert_eq!(keys(Excluded(b"b"), Excluded(b"f")), 1);
        assert_eq!(keys(Excluded(b"h"), Unbounded), 0);
        assert_eq!(keys(Unbounded, Excluded(b"b")), 0);
        assert_eq!(keys(Included(b"d"), Excluded(b"d\0")), 1);
        assert_eq!(keys(Unbounded, Included(b"")), 0);
    }
}

/// Through a [`ShardSpace`] an inverted range is a walk over nothing, and a seek in it is no error.
pub fn inverted_ranges_are_empty(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    let space = ShardSpace::new(&*shard, A);
    let pairs: [Bounds<'_>; 5] = [
        (Included(b"f"), Included(b"d")),
        (Excluded(b"d"), Included(b"d")),
        (Included(b"d"), Excluded(b"d")),
        (Excluded(b"d"), Excluded(b"d")),
        (Unbounded, Excluded(b"")),
    ];
    for (lower, upper) in pairs {
        for direction in BOTH {
            let mut cursor = space.scan(Range::new(lower, upper), direction).unwrap();
            cursor.seek(b"d").unwrap();
            assert!(cursor.next().unwrap().is_none() && cursor.row().is_none());
        }
    }
}

/// After the end `next` answers `None` again and again, in any range.
pub fn next_after_the_end(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    for direction in BOTH {
        for (lower, upper) in [(Unbounded, Unbounded), (Excluded(&b"b"[..]), Included(&b"f"[..]))] {
            let mut cursor = open(&*shard, lower, upper, direction);
            drain(&mut *cursor);
            for _ in 0..3 {
                assert!(cursor.next().unwrap().is_none(), "a row after the end, {direction:?}");
            }
        }
    }
}

/// `row` is what `next` lent last: nothing before the first row and after the end.
pub fn row_is_what_next_lent(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(100);
    fill(&mut *shard, A, &rows, b"m");
    for direction in BOTH {
        let mut cursor = shard.scan(A, Range::ALL, direction).unwrap();
        assert!(cursor.row().is_none(), "`row` before the first `next`");
        for (key, value) in expected(&rows, Range::ALL, direction) {
            assert_eq!(cursor.next().unwrap().map(|row| row.key.to_vec()), Some(key.clone()));
            for _ in 0..2 {
                let row = cursor.row().expect("a row is lent");
                assert_eq!((row.key, row.value), (&key[..], &value[..]));
            }
        }
        assert!(cursor.next().unwrap().is_none());
        assert!(cursor.row().is_none(), "`row` after the end");
        assert!(cursor.next().unwrap().is_none() && cursor.row().is_none());
    }
}

/// `row` is right again after a seek and a `next`.
pub fn row_after_seek_and_next(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, true);
    let mut cursor = open(&*shard, Unbounded, Unbounded, Direction::Forward);
    cursor.next().unwrap();
    cursor.seek(b"e").unwrap();
    assert_eq!(next_key(&mut *cursor), Some(b"f".to_vec()));
    assert_eq!(cursor.row().map(|row| row.value.to_vec()), Some(b"f".to_vec()));
    cursor.seek(b"z").unwrap();
    assert_eq!(next_key(&mut *cursor), None);
    assert!(cursor.row().is_none());
}

/// A seek before the first `next` goes to the first row at or after the key.
pub fn seek_before_the_first_next(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    for (target, forward, reverse) in [
        ("a", Some("b"), None),
        ("b", Some("b"), Some("b")),
        ("c", Some("d"), Some("b")),
        ("d", Some("d"), Some("d")),
        ("h", Some("h"), Some("h")),
        ("i", None, Some("h")),
    ] {
        for (direction, want) in [(Direction::Forward, forward), (Direction::Reverse, reverse)] {
            let mut cursor = open(&*shard, Unbounded, Unbounded, direction);
            cursor.seek(target.as_bytes()).unwrap();
            assert_eq!(next_key(&mut *cursor), want.map(|k| k.as_bytes().to_vec()), "{target} {direction:?}");
        }
    }
}

/// A seek to a key that lies before the range does not leave the range.
pub fn seek_before_the_range_stays_in_it(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    for (lower, upper, first) in [
        (Included(&b"d"[..]), Included(&b"f"[..]), (b"d", b"f")),
        (Excluded(b"b"), Excluded(b"h"), (b"d", b"f")),
        (Included(b"c"), Included(b"g"), (b"d", b"f")),
    ] {
        let mut cursor = open(&*shard, lower, upper, Direction::Forward);
        cursor.seek(b"a").unwrap();
        assert_eq!(next_key(&mut *cursor), Some(first.0.to_vec()));
        let mut cursor = open(&*shard, lower, upper, Direction::Reverse);
        cursor.seek(b"z").unwrap();
        assert_eq!(next_key(&mut *cursor), Some(first.1.to_vec()));
    }
}

/// A seek to the very bound of a range: an excluded bound stays excluded.
pub fn seek_to_an_excluded_bound(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    let mut cursor = open(&*shard, Excluded(b"d"), Unbounded, Direction::Forward);
    cursor.seek(b"d").unwrap();
    assert_eq!(next_key(&mut *cursor), Some(b"f".to_vec()));
    let mut cursor = open(&*shard, Unbounded, Excluded(b"f"), Direction::Reverse);
    cursor.seek(b"f").unwrap();
    assert_eq!(next_key(&mut *cursor), Some(b"d".to_vec()));
    let mut cursor = open(&*shard, Unbounded, Excluded(b"f"), Direction::Forward);
    cursor.seek(b"f").unwrap();
    assert_eq!(next_key(&mut *cursor), None);
    let mut cursor = open(&*shard, Excluded(b"d"), Unbounded, Direction::Reverse);
    cursor.seek(b"d").unwrap();
    assert_eq!(next_key(&mut *cursor), None);
}

/// A seek past the end of the range ends the walk, although there are rows behind it.
pub fn seek_past_the_end(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    for (direction, target) in [(Direction::Forward, b"g"), (Direction::Reverse, b"c")] {
        let mut cursor = open(&*shard, Included(b"d"), Included(b"f"), direction);
        cursor.seek(target).unwrap();
        assert_eq!(next_key(&mut *cursor), None);
        assert_eq!(next_key(&mut *cursor), None);
    }
}

/// After the end a seek brings nothing back, and is no error.
pub fn seek_after_the_end(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, true);
    for direction in BOTH {
        let mut cursor = open(&*shard, Unbounded, Unbounded, direction);
        drain(&mut *cursor);
        for target in [&b"a"[..], b"d", b"z", b""] {
            cursor.seek(target).unwrap();
            assert_eq!(next_key(&mut *cursor), None, "{direction:?}");
        }
    }
}

/// A seek never goes back behind a row that was lent, not even to that row itself.
pub fn seek_does_not_go_back(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    for (direction, behind, third) in [(Direction::Forward, b"a", b"f"), (Direction::Reverse, b"z", b"d")] {
        for _ in 0..2 {
            let mut cursor = open(&*shard, Unbounded, Unbounded, direction);
            cursor.next().unwrap();
            let second = next_key(&mut *cursor).unwrap();
            for target in [&behind[..], &second] {
                cursor.seek(target).unwrap();
            }
            assert_eq!(next_key(&mut *cursor), Some(third.to_vec()), "{direction:?}");
        }
    }
}

/// A seek to a key behind the row that `next` would lend anyway (and has not yet) changes nothing.
pub fn seek_behind_an_unlent_head(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = with_keys(&rig, &B_D_F_H, false);
    for (direction, to, behind, head) in
        [(Direction::Forward, b"e", b"c", b"f"), (Direction::Reverse, b"e", b"g", b"d")]
    {
        let mut cursor = open(&*shard, Unbounded, Unbounded, direction);
        cursor.seek(to).unwrap();
        cursor.seek(behind).unwrap();
        assert_eq!(next_key(&mut *cursor), Some(head.to_vec()), "{direction:?}");
    }
}

/// Seeks that leap over rows of a long walk, near and far, in both directions: the rows met are the model's.
pub fn seeks_through_a_long_walk(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(5_000);
    fill(&mut *shard, A, &rows, b"m");
    let mut random = fastrand::Rng::with_seed(5);
    for direction in BOTH {
        let model = expected(&rows, Range::ALL, direction);
        for largest_step in [3, 40, 900] {
            let mut cursor = shard.scan(A, Range::ALL, direction).unwrap();
            let mut at = 0;
            while at < model.len() {
                if random.bool() {
                    let to = at + random.usize(..largest_step);
                    let Some((key, _)) = model.get(to) else { break };
                    cursor.seek(key).unwrap();
                    at = to;
                }
                assert_eq!(next_key(&mut *cursor).as_ref(), Some(&model[at].0), "row {at} {direction:?}");
                at += 1;
            }
        }
    }
}

/// Each target of a seek, from each row of a walk, in both directions.
pub fn every_seek_from_every_row(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let keys: Vec<Vec<u8>> = (1..=12_u8).map(|i| vec![i * 2]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let shard = with_keys(&rig, &keys, true);
    let rows = rows_of(&keys);
    for direction in BOTH {
        let model = expected(&rows, Range::ALL, direction);
        for lent in 0..=model.len() {
            for target in 0..=26_u8 {
                let mut cursor = shard.scan(A, Range::ALL, direction).unwrap();
                for _ in 0..lent {
                    cursor.next().unwrap();
                }
                cursor.seek(&[target]).unwrap();
                let reached = |key: &[u8]| match direction {
                    Direction::Forward => key >= &[target][..],
                    Direction::Reverse => key <= &[target][..],
                };
                let want: Rows = model[lent..].iter().filter(|(key, _)| reached(key)).cloned().collect();
                assert_rows(&drain(&mut *cursor), &want, &format!("from row {lent} to {target}, {direction:?}"));
            }
        }
    }
}

/// A walk over 6,000 rows, in the middle of more, loses and repeats none, wherever the engine's blocks or chunks end.
pub fn a_walk_over_thousands_of_rows(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(7_000);
    for (i, part) in rows.chunks(1_000).enumerate() {
        fill(&mut *shard, A, part, b"m");
        if i % 3 == 0 {
            shard.flush(Flush::Wait).unwrap();
        }
    }
    let (lower, upper) = (500_u32.to_be_bytes(), 6_500_u32.to_be_bytes());
    let range = Range::new(Included(&lower), Excluded(&upper));
    for direction in BOTH {
        let got = scan(&*shard, A, range, direction);
        assert_eq!(got.len(), 6_000);
        assert_rows(&got, &expected(&rows, range, direction), &format!("{direction:?}"));
        assert_rows(&scan(&*shard, A, Range::ALL, direction), &expected(&rows, Range::ALL, direction), "all");
    }
}

/// A walk over a few rows of a megabyte each.
pub fn a_walk_over_large_rows(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows: Rows = (0..8_u8).map(|i| (vec![i], vec![i; 1 << 20])).collect();
    fill(&mut *shard, A, &rows, b"m");
    for direction in BOTH {
        assert_rows(&scan(&*shard, A, Range::ALL, direction), &expected(&rows, Range::ALL, direction), "large rows");
    }
}

/// Several cursors over one space and over two go on independently, and gets are answered in between.
pub fn several_open_cursors(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(600);
    fill(&mut *shard, A, &rows, b"m");
    let other: Rows = rows.iter().map(|(k, _)| (k.clone(), b"other".to_vec())).collect();
    fill(&mut *shard, B, &other, b"m");
    let read: &dyn Read = &*shard;
    let mut forward = read.scan(A, Range::ALL, Direction::Forward).unwrap();
    let mut reverse = read.scan(A, Range::ALL, Direction::Reverse).unwrap();
    let mut beside = read.scan(B, Range::ALL, Direction::Forward).unwrap();
    for i in 0..rows.len() {
        assert_eq!(next_key(&mut *forward).as_ref(), Some(&rows[i].0));
        assert_eq!(next_key(&mut *reverse).as_ref(), Some(&rows[rows.len() - 1 - i].0));
        let row = beside.next().unwrap().expect("the other space has as many rows");
        assert_eq!((row.key, row.value), (&rows[i].0[..], &b"other"[..]));
        assert_eq!(get(read, A, &rows[i].0).as_ref(), Some(&rows[i].1));
    }
    assert!(forward.next().unwrap().is_none() && reverse.next().unwrap().is_none() && beside.next().unwrap().is_none());
}

/// Two shards are walked side by side.
pub fn cursors_of_two_shards(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let (mut one, mut two) = (rig.open_named("one"), rig.open_named("two"));
    fill(&mut *one, A, &numbered(100), b"m");
    fill(&mut *two, A, &numbered(50), b"m");
    let mut long = one.scan(A, Range::ALL, Direction::Forward).unwrap();
    let mut short = two.scan(A, Range::ALL, Direction::Forward).unwrap();
    let mut both = 0;
    while let Some(row) = short.next().unwrap() {
        assert_eq!(long.next().unwrap(), Some(row));
        both += 1;
    }
    assert_eq!((both, drain(&mut *long).len()), (50, 50));
}

/// A range by a prefix: `FF`, `FF FF` and the empty prefix have no key that follows them.
pub fn prefixes_without_a_successor(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let keys: [&[u8]; 8] =
        [b"\x7F", b"\xFE", b"\xFE\xFF", b"\xFF", b"\xFF\x01", b"\xFF\x7F", b"\xFF\xFF", b"\xFF\xFF\xFF"];
    let shard = with_keys(&rig, &keys, true);
    for prefix in [&b"\xFF"[..], b"\xFF\xFF", b"\xFF\xFF\xFF", b"\xFF\xFF\xFF\xFF", b"\xFE", b"\x7F", b"", b"\x00"] {
        let want: Vec<&[u8]> = keys.iter().copied().filter(|k| k.starts_with(prefix)).collect();
        for direction in BOTH {
            let prefix_range = Prefix::new(prefix);
            let got = scan(&*shard, A, prefix_range.range(), direction);
            assert_rows(
                &got,
                &expected(&rows_of(&want), Range::ALL, direction),
                &format!("{prefix:02x?} {direction:?}"),
            );
        }
    }
}

/// B145: of a key that was written several times, before and after flushes, a walk shows the last version once, in both
/// directions; a deleted key not at all. A reader's walk that began earlier is of its moment, if the engine declares that, and
/// shows no key twice in any case.
pub fn b145_only_the_last_version_of_a_key(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let check = |shard: &dyn Shard, rows: &[(&[u8], &[u8])]| {
        let rows: Rows = rows.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
        for direction in BOTH {
            assert_rows(
                &scan(shard, A, Range::ALL, direction),
                &expected(&rows, Range::ALL, direction),
                "last versions",
            );
        }
    };
    apply(&mut *shard, &[put(A, b"k", b"1")], b"1");
    apply(&mut *shard, &[put(A, b"k", b"2"), put(A, b"m", b"1"), put(A, b"n", b"1")], b"2");
    check(&*shard, &[(b"k", b"2"), (b"m", b"1"), (b"n", b"1")]);
    shard.flush(Flush::Wait).unwrap();
    check(&*shard, &[(b"k", b"2"), (b"m", b"1"), (b"n", b"1")]);
    let reader = shard.reader();
    let mut walks = BOTH.map(|direction| reader.scan(A, Range::ALL, direction).unwrap());
    apply(&mut *shard, &[put(A, b"k", b"3"), delete(A, b"m"), delete(A, b"n")], b"3");
    check(&*shard, &[(b"k", b"3")]);
    apply(&mut *shard, &[put(A, b"m", b"4")], b"4");
    check(&*shard, &[(b"k", b"3"), (b"m", b"4")]);
    for (walk, direction) in walks.iter_mut().zip(BOTH) {
        let rows = drain(&mut **walk);
        if shard.capabilities().isolation == Isolation::Scan {
            let before = [(b"k", b"2"), (b"m", b"1"), (b"n", b"1")].map(|(k, v)| (k.to_vec(), v.to_vec()));
            assert_rows(&rows, &expected(&before, Range::ALL, direction), "a walk of an earlier moment");
        }
    }
    drop(walks);
    shard.flush(Flush::Wait).unwrap();
    apply(&mut *shard, &[delete(A, b"k")], b"5");
    check(&*shard, &[(b"m", b"4")]);
    shard.flush(Flush::Wait).unwrap();
    check(&*shard, &[(b"m", b"4")]);
}

/// A long run of deleted rows between two that are left is passed in both directions, by walks and by seeks.
pub fn a_walk_over_a_run_of_deleted_rows(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(3_000);
    fill(&mut *shard, A, &rows, b"1");
    shard.flush(Flush::Wait).unwrap();
    let deletes: Vec<_> = rows[1..2_999].iter().map(|(k, _)| delete(A, k)).collect();
    apply(&mut *shard, &deletes, b"2");
    let left = [rows[0].clone(), rows[2_999].clone()];
    assert_rows(&all(&*shard, A), &left, "the rows that are left");
    for (direction, first, last) in [(Direction::Forward, 0, 1), (Direction::Reverse, 1, 0)] {
        let mut cursor = shard.scan(A, Range::ALL, direction).unwrap();
        assert_eq!(next_key(&mut *cursor).as_ref(), Some(&left[first].0));
        cursor.seek(&1_500_u32.to_be_bytes()).unwrap();
        assert_eq!(next_key(&mut *cursor).as_ref(), Some(&left[last].0));
        assert_eq!(next_key(&mut *cursor), None);
    }
}

/// A cursor that is dropped in the middle leaves nothing behind: writes and walks go on.
pub fn a_cursor_may_be_dropped_anywhere(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(400);
    fill(&mut *shard, A, &rows, b"1");
    for lent in [0, 1, 2, 399, 400] {
        let mut cursor = shard.scan(A, Range::ALL, Direction::Forward).unwrap();
        for _ in 0..lent {
            cursor.next().unwrap();
        }
        drop(cursor);
        apply(&mut *shard, &[put(A, b"new", b"v")], b"2");
        assert_eq!(all(&*shard, A).len(), 401);
        apply(&mut *shard, &[delete(A, b"new")], b"3");
    }
}
