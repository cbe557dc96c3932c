//! Short forms for cases: apply, get, scan, and compare without printing megabytes.

use std::ops::Bound;

use millpond_store_api::{Cursor, Direction, List, Range, Read, Result, Shard, ShardSpace, Space, SpaceId, Write};

/// Rows, copied out.
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Two bounds.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Both directions.
pub(crate) const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// A write that sets a key.
pub(crate) fn put<'a>(space: SpaceId, key: &'a [u8], value: &'a [u8]) -> Write<'a> {
    Write { space, key, value: Some(value) }
}

/// A write that deletes a key.
pub(crate) fn delete(space: SpaceId, key: &[u8]) -> Write<'_> {
    Write { space, key, value: None }
}

/// Applies a batch.
#[track_caller]
pub(crate) fn apply(shard: &mut dyn Shard, writes: &[Write<'_>], metadata: &[u8]) {
    shard.apply(&mut List::new(writes), metadata).expect("the batch is applied");
}

/// Applies rows to one space, as one batch.
#[track_caller]
pub(crate) fn fill(shard: &mut dyn Shard, space: SpaceId, rows: &[(Vec<u8>, Vec<u8>)], metadata: &[u8]) {
    let writes: Vec<_> = rows.iter().map(|(k, v)| put(space, k, v)).collect();
    apply(shard, &writes, metadata);
}

/// The value of a key; the visitor must be called once if the answer is true, and not at all otherwise.
#[track_caller]
pub(crate) fn get<R: Read + ?Sized>(read: &R, space: SpaceId, key: &[u8]) -> Option<Vec<u8>> {
    let mut values = Vec::new();
    let found = read.get(space, key, &mut |value| values.push(value.to_vec())).expect("the key is read");
    assert_eq!(values.len(), usize::from(found), "`get` answers {found}, but has called the visitor otherwise");
    values.pop()
}

/// What is left of a cursor. Keys must go strictly one way, so a walk that never ends is noticed.
#[track_caller]
pub(crate) fn drain(cursor: &mut dyn Cursor) -> Rows {
    let mut rows = Rows::new();
    let mut way = None;
    while let Some(row) = cursor.next().expect("the cursor moves") {
        if let Some((before, _)) = rows.last() {
            let step = before.as_slice().cmp(row.key);
            assert!(step.is_ne(), "row {} of a walk has the key of the row before", rows.len());
            assert!(*way.get_or_insert(step) == step, "row {} of a walk turns back", rows.len());
        }
        rows.push((row.key.to_vec(), row.value.to_vec()));
    }
    rows
}

/// All rows of a range.
#[track_caller]
pub(crate) fn scan(read: &dyn Read, space: SpaceId, range: Range<'_>, direction: Direction) -> Rows {
    drain(&mut *ShardSpace::new(read, space).scan(range, direction).expect("the scan opens"))
}

/// All rows of a space, in key order.
#[track_caller]
pub(crate) fn all(shard: &dyn Shard, space: SpaceId) -> Rows {
    drain(&mut *shard.scan(space, Range::ALL, Direction::Forward).expect("the scan opens"))
}

/// The next key of a cursor.
#[track_caller]
pub(crate) fn next_key(cursor: &mut dyn Cursor) -> Option<Vec<u8>> {
    cursor.next().expect("the cursor moves").map(|row| row.key.to_vec())
}

/// Rows with these keys, whose values are the keys.
pub(crate) fn rows_of(keys: &[&[u8]]) -> Rows {
    keys.iter().map(|k| (k.to_vec(), k.to_vec())).collect()
}

/// `n` rows in key order: the number, four bytes; values of several sizes.
pub(crate) fn numbered(n: u32) -> Rows {
    (0..n).map(|i| (i.to_be_bytes().to_vec(), vec![i.to_le_bytes()[0]; (i % 40) as usize])).collect()
}

/// The rows of a model that lie in a range, in the order of the direction.
pub(crate) fn expected(model: &[(Vec<u8>, Vec<u8>)], range: Range<'_>, direction: Direction) -> Rows {
    let mut rows: Rows = model.iter().filter(|(k, _)| range.contains(k)).cloned().collect();
    rows.sort();
    if direction == Direction::Reverse {
        rows.reverse();
    }
    rows
}

/// Compares rows; says where they differ and how, by sizes and a few bytes.
#[track_caller]
pub(crate) fn assert_rows(got: &[(Vec<u8>, Vec<u8>)], want: &[(Vec<u8>, Vec<u8>)], what: &str) {
    if let Some(i) = (0..got.len().max(want.len())).find(|&i| got.get(i) != want.get(i)) {
        let show = |rows: &[(Vec<u8>, Vec<u8>)]| {
            rows.get(i).map_or_else(
                || "the end".to_owned(),
                |(k, v)| {
                    format!("key {:02x?} ({} bytes), value {:02x?} ({} bytes)", head(k), k.len(), head(v), v.len())
                },
            )
        };
        panic!(
            "{what}: {} rows instead of {}; row {i} is {}, expected {}",
            got.len(),
            want.len(),
            show(got),
            show(want)
        );
    }
}

/// Compares two byte strings without printing all of them.
#[track_caller]
pub(crate) fn assert_bytes(got: Option<&[u8]>, want: Option<&[u8]>, what: &str) {
    if got != want {
        let show = |b: Option<&[u8]>| b.map(|b| format!("{} bytes {:02x?}", b.len(), head(b)));
        panic!("{what}: {:?} instead of {:?}", show(got), show(want));
    }
}

fn head(bytes: &[u8]) -> &[u8] {
    bytes.get(..24).unwrap_or(bytes)
}

/// A bound over bytes that something else owns.
pub(crate) fn lend(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// The kind of an error.
#[track_caller]
pub(crate) fn kind<T>(result: Result<T>, what: &str) -> millpond_store_api::ErrorKind {
    match result {
        Ok(_) => panic!("{what} must fail"),
        Err(e) => e.kind(),
    }
}
