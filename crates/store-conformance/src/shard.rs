//! Batches, metadata, gets: what every shard owes its single writer.

use std::collections::BTreeMap;

use millpond_store_api::{Direction, ErrorKind, Flush, List, Range, SpaceId, Write, Writes};

use crate::harness::spec;
use crate::tools::{
    BOTH, all, apply, assert_bytes, assert_rows, delete, fill, get, kind, numbered, put, rows_of, scan,
};
use crate::{A, B, Harness, Rig};

/// A new shard has no metadata and no rows, and an empty space is walked to its end at once.
pub fn a_new_shard_is_empty(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    assert_eq!(shard.committed(), None);
    assert_eq!(shard.durable().unwrap(), None);
    assert_eq!(get(&*shard, A, b"k"), None);
    for direction in BOTH {
        assert!(shard.scan(A, Range::ALL, direction).unwrap().next().unwrap().is_none());
    }
}

/// After `apply` the writer reads the batch's rows, and `committed` is the batch's metadata.
pub fn a_batch_is_visible_with_its_metadata(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"a", b"1"), put(B, b"b", b"2")], b"offset 7");
    assert_eq!(get(&*shard, A, b"a"), Some(b"1".to_vec()));
    assert_eq!(get(&*shard, B, b"b"), Some(b"2".to_vec()));
    assert_eq!(shard.committed(), Some(&b"offset 7"[..]));
}

/// Metadata is a blob: any bytes, up to 1 MiB at least, shorter and longer than the one before.
pub fn metadata_is_opaque(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let large: Vec<u8> = (0..1 << 20).map(|i: u32| i.to_be_bytes()[2]).collect();
    for metadata in [&every_byte[..], b"\0", &large, b"x", b"\0\0\xFF", &large[..4096]] {
        apply(&mut *shard, &[put(A, b"k", b"v")], metadata);
        assert_bytes(shard.committed(), Some(metadata), "committed");
    }
    assert_rows(&all(&*shard, A), &[(b"k".to_vec(), b"v".to_vec())], "the rows beside the metadata");
    assert!(all(&*shard, B).is_empty(), "metadata is not a row");
}

/// A batch with empty metadata was applied: `committed` is empty bytes, not `None`.
pub fn empty_metadata_is_not_none(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[], b"");
    assert_eq!(shard.committed(), Some(&b""[..]));
    apply(&mut *shard, &[], b"x");
    apply(&mut *shard, &[put(A, b"k", b"v")], b"");
    assert_eq!(shard.committed(), Some(&b""[..]));
}

/// A batch without a write still replaces the metadata: an interval that only read or filtered moves the offsets.
pub fn an_empty_batch_moves_the_metadata(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"v")], b"100");
    apply(&mut *shard, &[], b"120");
    assert_eq!(shard.committed(), Some(&b"120"[..]));
    assert_eq!(get(&*shard, A, b"k"), Some(b"v".to_vec()));
}

/// A put replaces the value of an earlier batch, whatever the sizes; one version is left.
pub fn a_later_batch_replaces_values(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let long = vec![7; 3000];
    for value in [&b"first"[..], b"", &long, b"x", &long[..2999]] {
        apply(&mut *shard, &[put(A, b"k", value)], b"m");
        assert_bytes(get(&*shard, A, b"k").as_deref(), Some(value), "the value");
        assert_rows(&all(&*shard, A), &[(b"k".to_vec(), value.to_vec())], "the space");
    }
}

/// Writes of a batch are applied in order: of two puts of a key the later wins.
pub fn the_later_write_of_a_key_in_a_batch_wins(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"1"), put(B, b"k", b"other"), put(A, b"k", b"2"), put(A, b"k", b"3")], b"m");
    assert_rows(&all(&*shard, A), &[(b"k".to_vec(), b"3".to_vec())], "the space");
    assert_eq!(get(&*shard, B, b"k"), Some(b"other".to_vec()));
}

/// B147: deletes and puts of one key in one batch are applied in order too, for keys that were there and keys that were not:
/// the last of them is what is left, of the others nothing. (No write is anything else: batches know neither merges nor times
/// to live.)
pub fn b147_conflicting_writes_of_a_key_in_one_batch(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"old-1", b"1"), put(A, b"old-2", b"1")], b"m");
    let writes = [
        delete(A, b"old-1"),
        put(A, b"old-1", b"2"),
        put(A, b"old-2", b"2"),
        delete(A, b"old-2"),
        delete(A, b"new-1"),
        put(A, b"new-1", b"2"),
        put(A, b"new-2", b"2"),
        delete(A, b"new-2"),
        put(A, b"new-3", b"1"),
        put(A, b"new-3", b"2"),
        delete(A, b"new-3"),
        put(A, b"new-3", b"3"),
    ];
    apply(&mut *shard, &writes, b"n");
    let left = [("new-1", "2"), ("new-3", "3"), ("old-1", "2")].map(|(key, value)| (key.into(), value.into()));
    assert_rows(&all(&*shard, A), &left, "the space");
    assert_eq!((get(&*shard, A, b"old-2"), get(&*shard, A, b"new-2")), (None, None));
}

/// A delete of a key that is not there is no error and leaves nothing behind.
pub fn deleting_an_absent_key_is_fine(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[delete(A, b"k")], b"1");
    apply(&mut *shard, &[put(A, b"k", b"v"), put(A, b"l", b"v")], b"2");
    apply(&mut *shard, &[delete(A, b"k"), delete(A, b"k")], b"3");
    apply(&mut *shard, &[delete(A, b"k")], b"4");
    assert_rows(&all(&*shard, A), &[(b"l".to_vec(), b"v".to_vec())], "the space");
    assert_eq!(shard.committed(), Some(&b"4"[..]));
}

/// A batch that names a space which the shard does not have is refused as a whole, wherever in the batch it stands.
pub fn an_unknown_space_in_a_batch_changes_nothing(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"before")], b"before");
    let unknown = put(SpaceId(77), b"k", b"x");
    for at in 0..3 {
        let mut writes = vec![put(A, b"k", b"after"), put(B, b"new", b"after"), delete(A, b"k")];
        writes.insert(at, unknown);
        let answer = shard.apply(&mut List::new(&writes), b"after");
        assert_eq!(kind(answer, "a batch with an unknown space"), ErrorKind::Invalid);
        assert_rows(&all(&*shard, A), &[(b"k".to_vec(), b"before".to_vec())], "the first space");
        assert!(all(&*shard, B).is_empty(), "the second space is written by a refused batch");
        assert_eq!(shard.committed(), Some(&b"before"[..]));
    }
}

/// A refused batch leaves a working shard. (The library's `Poison` is stricter; an engine need not be.)
pub fn a_refused_batch_does_not_stop_the_next(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    assert!(shard.apply(&mut List::new(&[put(A, b"a", b"1"), put(SpaceId(9), b"k", b"x")]), b"1").is_err());
    apply(&mut *shard, &[put(A, b"k", b"v")], b"2");
    assert_rows(&all(&*shard, A), &[(b"k".to_vec(), b"v".to_vec())], "the space");
    assert_eq!(shard.committed(), Some(&b"2"[..]));
}

/// Reads of a space that the shard does not have are `Invalid`, not empty.
pub fn reads_of_an_unknown_space_are_invalid(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = rig.open();
    let unknown = SpaceId(3);
    assert_eq!(kind(shard.get(unknown, b"k", &mut |_| ()), "get"), ErrorKind::Invalid);
    assert_eq!(kind(shard.multi_get(unknown, &[b"k"], &mut |_, _| ()), "multi_get"), ErrorKind::Invalid);
    assert_eq!(kind(shard.scan(unknown, Range::ALL, Direction::Forward).map(drop), "scan"), ErrorKind::Invalid);
    assert_eq!(kind(shard.approximate_num_entries(unknown), "a count"), ErrorKind::Invalid);
}

/// A write is lent until the next one is asked for: the engine copies, since the batch may use one buffer for all.
pub fn lent_writes_are_copied(harness: &dyn Harness) {
    /// Fifty rows, all lent from the same two buffers.
    struct OneBuffer {
        at: u8,
        key: Vec<u8>,
        value: Vec<u8>,
    }
    impl Writes for OneBuffer {
        fn rewind(&mut self) {
            self.at = 0;
        }

        fn next(&mut self) -> Option<Write<'_>> {
            self.key.fill(0xEE);
            self.value.fill(0xEE);
            (self.at < 50).then(|| {
                self.at += 1;
                self.key = vec![self.at; 40];
                self.value.fill(self.at);
                put(if self.at.is_multiple_of(2) { A } else { B }, &self.key, &self.value)
            })
        }
    }
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    shard.apply(&mut OneBuffer { at: 0, key: Vec::new(), value: vec![0; 100] }, b"m").unwrap();
    let rows = |odd: bool| -> Vec<_> {
        (1..=50).filter(|i| i % 2 == u8::from(odd)).map(|i: u8| (vec![i; 40], vec![i; 100])).collect()
    };
    assert_rows(&all(&*shard, A), &rows(false), "the first space");
    assert_rows(&all(&*shard, B), &rows(true), "the second space");
}

/// The same key bytes in neighbouring spaces are two keys; a walk never leaves its space.
pub fn spaces_are_separate(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let keys: [&[u8]; 5] = [b"", b"\0", b"k", b"\xFF", b"\xFF\xFF\xFF\xFF"];
    let in_a: Vec<_> = keys.iter().map(|k| (k.to_vec(), b"a".to_vec())).collect();
    let in_b: Vec<_> = keys.iter().map(|k| (k.to_vec(), b"b".to_vec())).collect();
    fill(&mut *shard, A, &in_a, b"1");
    fill(&mut *shard, B, &in_b, b"2");
    assert_rows(&all(&*shard, A), &in_a, "the first space");
    assert_rows(&all(&*shard, B), &in_b, "the second space");
    let deletes: Vec<_> = keys.iter().map(|k| delete(A, k)).collect();
    apply(&mut *shard, &deletes, b"3");
    assert!(all(&*shard, A).is_empty());
    assert_rows(&all(&*shard, B), &in_b, "the second space after the first is emptied");
}

/// Keys that begin with the bytes of a space's number stay in the space that they were written to.
pub fn keys_that_look_like_space_numbers(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let spaces: Vec<_> = [0, 1, 2, 256, 257, 258, 513].map(|id| spec(SpaceId(id))).into();
    let mut shard = rig.try_open("shard", &spaces).unwrap();
    let mut keys = vec![Vec::new()];
    for space in &spaces {
        keys.push(space.id.0.to_be_bytes().to_vec());
        keys.push(space.id.0.to_le_bytes().to_vec());
        keys.push([&space.id.0.to_be_bytes()[..], b"k"].concat());
    }
    keys.sort();
    keys.dedup();
    for space in &spaces {
        let rows: Vec<_> = keys.iter().map(|k| (k.clone(), space.id.0.to_string().into_bytes())).collect();
        fill(&mut *shard, space.id, &rows, b"m");
    }
    for space in &spaces {
        let rows: Vec<_> = keys.iter().map(|k| (k.clone(), space.id.0.to_string().into_bytes())).collect();
        for direction in BOTH {
            let mut got = scan(&*shard, space.id, Range::ALL, direction);
            if direction == Direction::Reverse {
                got.reverse();
            }
            assert_rows(&got, &rows, &space.name);
        }
    }
}

/// Space numbers go up to 65,535, and need be neither dense nor in order.
pub fn the_greatest_space_number(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let spaces = [u16::MAX, 0, 255, 65_280].map(SpaceId);
    let mut shard = rig.try_open("shard", &spaces.map(spec)).unwrap();
    let values = spaces.map(|space| space.0.to_string());
    for (space, value) in spaces.iter().zip(&values) {
        apply(&mut *shard, &[put(*space, b"\xFF\xFF", value.as_bytes())], b"m");
    }
    for (space, value) in spaces.iter().zip(&values) {
        assert_rows(&all(&*shard, *space), &[(b"\xFF\xFF".to_vec(), value.clone().into())], value);
    }
}

/// The empty key is a key: the lowest one.
pub fn the_empty_key(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    assert_eq!(get(&*shard, A, b""), None);
    apply(&mut *shard, &[put(A, b"\0", b"zero"), put(A, b"", b"empty")], b"m");
    assert_eq!(get(&*shard, A, b""), Some(b"empty".to_vec()));
    let rows = [(Vec::new(), b"empty".to_vec()), (b"\0".to_vec(), b"zero".to_vec())];
    assert_rows(&all(&*shard, A), &rows, "the space");
    apply(&mut *shard, &[delete(A, b"")], b"n");
    assert_rows(&all(&*shard, A), &rows[1..], "the space without the empty key");
}

/// Keys of 64 KiB are kept in full: they differ in the last byte.
pub fn a_key_of_64_kib(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let key = |last: u8| {
        let mut key = vec![b'k'; 64 << 10];
        *key.last_mut().unwrap() = last;
        key
    };
    let (one, two) = (key(1), key(2));
    let rows = rows_of(&[&one, &two]);
    fill(&mut *shard, A, &rows, b"m");
    assert_rows(&all(&*shard, A), &rows, "the space");
    apply(&mut *shard, &[delete(A, &one)], b"n");
    assert!(get(&*shard, A, &one).is_none(), "the deleted key is there");
    assert_bytes(get(&*shard, A, &two).as_deref(), Some(&two), "the other key's value");
}

/// Values of 1 MiB are kept in full.
pub fn a_value_of_1_mib(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let mut random = fastrand::Rng::with_seed(1);
    let rows: Vec<_> =
        (0..3_u8).map(|i| (vec![i], std::iter::repeat_with(|| random.u8(..)).take(1 << 20).collect())).collect();
    fill(&mut *shard, A, &rows, b"m");
    assert_rows(&all(&*shard, A), &rows, "the space");
    assert_bytes(get(&*shard, A, &[1]).as_deref(), Some(&rows[1].1), "a value");
}

/// A key with an empty value is there: for `get`, `multi_get` and walks.
pub fn an_empty_value_is_not_absent(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"")], b"m");
    assert_eq!(get(&*shard, A, b"k"), Some(Vec::new()));
    let mut found = 0;
    shard.multi_get(A, &[b"k"], &mut |_, value| found += 1 + value.len()).unwrap();
    assert_eq!(found, 1);
    assert_rows(&all(&*shard, A), &[(b"k".to_vec(), Vec::new())], "the space");
}

/// Values and keys of each size from 0 to 300 bytes come back as they were: no size is a special one.
pub fn values_of_every_small_size(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows: Vec<_> = (0..300_usize).map(|n| (vec![b'k'; n], vec![n.to_le_bytes()[0]; 299 - n])).collect();
    fill(&mut *shard, A, &rows, b"m");
    assert_rows(&all(&*shard, A), &rows, "the space");
    for (key, value) in &rows {
        assert_bytes(get(&*shard, A, key).as_deref(), Some(value), "a value");
    }
}

/// `multi_get` calls once per index whose key is there, with that key's value: a key asked for twice is found twice.
pub fn multi_get_calls_once_per_key_that_is_there(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(
        &mut *shard,
        &[put(A, b"a", b"1"), put(A, b"b", b""), put(A, b"c", b"3"), put(B, b"x", b"other space")],
        b"m",
    );
    let keys: [&[u8]; 8] = [b"c", b"absent", b"a", b"b", b"a", b"x", b"", b"c"];
    let mut found = Vec::new();
    shard.multi_get(A, &keys, &mut |i, value| found.push((i, value.to_vec()))).unwrap();
    found.sort();
    let want: Vec<(usize, Vec<u8>)> =
        [(0, "3"), (2, "1"), (3, ""), (4, "1"), (7, "3")].map(|(i, v)| (i, v.into())).into();
    assert_eq!(found, want);
    shard.multi_get(A, &[], &mut |_, _| panic!("nothing was asked for")).unwrap();
}

/// `multi_get` of a thousand keys answers what a thousand gets do.
pub fn multi_get_of_many_keys(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    fill(&mut *shard, A, &numbered(1000), b"m");
    shard.flush(Flush::Wait).unwrap();
    let even: Vec<_> = (0..1000_u32).step_by(2).map(u32::to_be_bytes).collect();
    let deletes: Vec<_> = even.iter().map(|k| delete(A, k)).collect();
    apply(&mut *shard, &deletes, b"n");
    let keys: Vec<_> = (0..1000_u32).rev().map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|k| &k[..]).collect();
    let mut found = BTreeMap::new();
    shard.multi_get(A, &keys, &mut |i, v| assert!(found.insert(keys[i].to_vec(), v.to_vec()).is_none())).unwrap();
    assert_rows(&found.into_iter().collect::<Vec<_>>(), &all(&*shard, A), "the rows that were found");
}

/// A batch of 10,000 rows over two spaces, out of order, is applied in full.
pub fn a_batch_of_ten_thousand_rows(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let mut rows = numbered(5_000);
    let sorted = rows.clone();
    fastrand::Rng::with_seed(2).shuffle(&mut rows);
    let writes: Vec<_> = rows.iter().flat_map(|(k, v)| [put(A, k, v), put(B, k, k)]).collect();
    apply(&mut *shard, &writes, b"m");
    assert_rows(&all(&*shard, A), &sorted, "the first space");
    assert_eq!(all(&*shard, B).len(), 5_000);
}

/// Three hundred batches, with a flush now and then: each is visible at once, with its metadata.
pub fn many_small_batches(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    for i in 0..300_u32 {
        let number = i.to_be_bytes();
        apply(&mut *shard, &[put(A, &number[3..], &number), put(B, b"last", &number)], &number);
        assert_eq!(get(&*shard, A, &number[3..]), Some(number.to_vec()));
        assert_eq!(get(&*shard, B, b"last"), Some(number.to_vec()));
        assert_eq!(shard.committed(), Some(&number[..]));
        if i % 64 == 9 {
            shard.flush(if i % 128 == 9 { Flush::Wait } else { Flush::Start }).unwrap();
        }
    }
    assert_eq!(all(&*shard, A).len(), 256);
}

/// When every row is deleted, walks find nothing, although there was much.
pub fn deleting_everything_leaves_an_empty_space(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(2_000);
    fill(&mut *shard, A, &rows, b"1");
    shard.flush(Flush::Wait).unwrap();
    let deletes: Vec<_> = rows.iter().map(|(k, _)| delete(A, k)).collect();
    apply(&mut *shard, &deletes, b"2");
    for direction in BOTH {
        assert!(scan(&*shard, A, Range::ALL, direction).is_empty());
    }
    apply(&mut *shard, &[put(A, b"k", b"again")], b"3");
    assert_eq!(all(&*shard, A).len(), 1);
}

/// `drop_below` takes nothing at or above its key and nothing of other spaces, and may be repeated.
pub fn drop_below_keeps_what_is_not_below(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(100);
    fill(&mut *shard, B, &rows, b"m");
    fill(&mut *shard, A, &rows, b"m");
    for cut in [0_u32, 40, 40, 10, 70] {
        shard.drop_below(B, &cut.to_be_bytes()).unwrap();
        let from = cut.max(if cut == 10 { 40 } else { 0 });
        let lower = from.to_be_bytes();
        let range = Range::new(std::ops::Bound::Included(&lower[..]), std::ops::Bound::Unbounded);
        assert_rows(
            &scan(&*shard, B, range, Direction::Forward),
            &rows[from as usize..],
            "the rows that are not below",
        );
        assert_rows(&all(&*shard, A), &rows, "the other space");
        assert_eq!(get(&*shard, B, &lower).as_ref(), Some(&rows[from as usize].1), "the row at the key itself");
    }
    shard.drop_below(B, b"\xFF\xFF\xFF\xFF\xFF").unwrap();
    apply(&mut *shard, &[put(B, b"\xFF\xFF\xFF\xFF\xFF", b"v")], b"n");
    assert_eq!(get(&*shard, B, b"\xFF\xFF\xFF\xFF\xFF"), Some(b"v".to_vec()));
    assert_eq!(shard.committed(), Some(&b"n"[..]));
}

/// Two shards of one engine share nothing.
pub fn two_shards_are_separate(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let (mut one, mut two) = (rig.open_named("one"), rig.open_named("two"));
    apply(&mut *one, &[put(A, b"k", b"1")], b"first");
    assert_eq!((get(&*two, A, b"k"), two.committed()), (None, None));
    apply(&mut *two, &[put(A, b"k", b"2")], b"second");
    assert_eq!((get(&*one, A, b"k"), one.committed()), (Some(b"1".to_vec()), Some(&b"first"[..])));
    one.destroy().unwrap();
    assert_eq!((get(&*two, A, b"k"), two.committed()), (Some(b"2".to_vec()), Some(&b"second"[..])));
}

/// After `destroy` the same place holds a new shard.
pub fn destroy_then_open_is_a_new_shard(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"v"), put(B, b"k", b"v")], b"m");
    shard.flush(Flush::Wait).unwrap();
    shard.destroy().unwrap();
    let shard = rig.open();
    assert_eq!(shard.committed(), None);
    assert!(all(&*shard, A).is_empty() && all(&*shard, B).is_empty());
}

/// A shard is `Send`: one thread fills it, another reads and writes on, a third closes it.
pub fn a_shard_moves_between_threads(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"1")], b"1");
    let shard = std::thread::scope(|threads| {
        let elsewhere = threads.spawn(move || {
            assert_eq!(get(&*shard, A, b"k"), Some(b"1".to_vec()));
            apply(&mut *shard, &[put(A, b"k", b"2")], b"2");
            shard
        });
        elsewhere.join().expect("the other thread ends well")
    });
    assert_eq!((get(&*shard, A, b"k"), shard.committed()), (Some(b"2".to_vec()), Some(&b"2"[..])));
    std::thread::scope(|threads| threads.spawn(move || shard.close()).join().expect("the other thread ends well"))
        .unwrap();
}
