//! Ranges, prefixes and chunks, against all short keys.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use millpond_store_api::{Chunk, Cursor, Direction, Empty, List, Prefix, Range, Row, SpaceId, Write, Writes};

/// All keys of up to three bytes out of an alphabet with the extremes.
fn keys() -> Vec<Vec<u8>> {
    let alphabet = [0, 1, 0x7F, 0xFE, 0xFF];
    let mut keys = vec![Vec::new()];
    for first in 0.. {
        let Some(key) = keys.get(first).filter(|key| key.len() < 3).cloned() else { break };
        keys.extend(alphabet.map(|byte| [&key[..], &[byte]].concat()));
    }
    keys
}

/// All keys of up to two bytes out of a smaller alphabet, for pairs of pairs.
fn few_keys() -> Vec<Vec<u8>> {
    keys().into_iter().filter(|key| key.len() < 3 && !key.contains(&0x7F) && !key.contains(&0xFE)).collect()
}

fn bounds(keys: &[Vec<u8>]) -> Vec<Bound<&[u8]>> {
    let each = keys.iter().flat_map(|key| [Included(key.as_slice()), Excluded(key.as_slice())]);
    std::iter::once(Unbounded).chain(each).collect()
}

#[test]
fn contains_is_what_the_standard_library_says() {
    use std::ops::RangeBounds;
    let keys = few_keys();
    for &lower in &bounds(&keys) {
        for &upper in &bounds(&keys) {
            for key in &keys {
                let std = <(Bound<&[u8]>, Bound<&[u8]>) as RangeBounds<[u8]>>::contains(&(lower, upper), key);
                assert_eq!(Range::new(lower, upper).contains(key), std, "{lower:?} {upper:?} {key:?}");
            }
        }
    }
}

#[test]
fn is_empty_exactly_if_no_key_lies_in_the_range() {
    let ends = few_keys();
    // A key that lies between two of up to two bytes is found among the ends, their successors and one far behind.
    let mut probes: Vec<Vec<u8>> = ends.iter().flat_map(|key| [key.clone(), [&key[..], &[0]].concat()]).collect();
    probes.extend(ends.iter().map(|key| [&key[..], &[0, 0]].concat()));
    probes.push(vec![0xFF; 5]);
    for &lower in &bounds(&ends) {
        for &upper in &bounds(&ends) {
            let range = Range::new(lower, upper);
            let holds = probes.iter().any(|key| range.contains(key));
            assert_eq!(range.is_empty(), !holds, "{lower:?} {upper:?}");
        }
    }
}

#[test]
fn a_range_that_is_not_empty_does_not_panic_in_a_tree() {
    let ends = few_keys();
    let tree: std::collections::BTreeSet<Vec<u8>> = ends.iter().cloned().collect();
    for &lower in &bounds(&ends) {
        for &upper in &bounds(&ends) {
            let range = Range::new(lower, upper);
            if !range.is_empty() {
                let rows = tree.range::<[u8], _>((lower, upper)).count();
                assert_eq!(rows, ends.iter().filter(|key| range.contains(key)).count());
            }
        }
    }
}

#[test]
fn after_leaves_what_lies_beyond_a_key() {
    let keys = few_keys();
    for at in &keys {
        let forward = Range::ALL.after(at, Direction::Forward);
        let reverse = Range::ALL.after(at, Direction::Reverse);
        for key in &keys {
            assert_eq!((forward.contains(key), reverse.contains(key)), (key > at, key < at));
        }
    }
    let range = Range::new(Included(b"b"), Excluded(b"f"));
    assert_eq!(range.after(b"c", Direction::Forward), Range::new(Excluded(b"c"), Excluded(b"f")));
    assert_eq!(range.after(b"c", Direction::Reverse), Range::new(Included(b"b"), Excluded(b"c")));
}

#[test]
fn a_prefix_holds_exactly_the_keys_that_begin_with_it() {
    let keys = keys();
    for start in &keys {
        let prefix = Prefix::new(start);
        for key in &keys {
            assert_eq!(prefix.range().contains(key), key.starts_with(start), "{start:?} {key:?}");
        }
        assert!(!prefix.range().is_empty());
        let far = [&start[..], &[0xFF; 40]].concat();
        assert!(prefix.range().contains(&far));
    }
}

#[test]
fn the_end_of_a_prefix() {
    for (start, end) in [
        (&b"ab"[..], Some(&b"ac"[..])),
        (b"a\xFF", Some(b"b")),
        (b"a\xFE\xFF\xFF", Some(b"a\xFF")),
        (b"\0", Some(b"\x01")),
        (b"", None),
        (b"\xFF", None),
        (b"\xFF\xFF", None),
    ] {
        assert_eq!(Prefix::new(start).range().upper, end.map_or(Unbounded, Excluded), "{start:?}");
    }
}

/// The rows of a slice.
struct Slice<'a>(&'a [(&'a [u8], &'a [u8])], usize);

impl Cursor for Slice<'_> {
    fn next(&mut self) -> millpond_store_api::Result<Option<Row<'_>>> {
        self.1 += 1;
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.0.get(self.1.checked_sub(1)?).map(|(key, value)| Row { key, value })
    }

    fn seek(&mut self, _: &[u8]) -> millpond_store_api::Result<()> {
        Ok(())
    }
}

#[test]
fn a_chunk_gives_back_what_was_pushed() {
    let rows: [(&[u8], &[u8]); 5] = [(b"a", b"1"), (b"", b"of the empty key"), (b"b", b""), (b"", b""), (b"ccc", b"3")];
    let mut chunk = Chunk::default();
    assert!(chunk.is_empty() && chunk.last().is_none() && chunk.get(0).is_none());
    for (key, value) in rows {
        chunk.push(Row { key, value });
        assert_eq!(chunk.last(), Some(Row { key, value }));
    }
    assert_eq!(chunk.len(), 5);
    for (i, (key, value)) in rows.into_iter().enumerate() {
        assert_eq!(chunk.get(i), Some(Row { key, value }));
    }
    assert_eq!((chunk.get(5), chunk.get(usize::MAX)), (None, None));
    chunk.clear();
    assert!(chunk.is_empty() && chunk.get(0).is_none() && chunk.last().is_none());
    chunk.push(Row { key: b"x", value: b"y" });
    assert_eq!(chunk.get(0), Some(Row { key: b"x", value: b"y" }));
}

#[test]
fn filling_a_chunk_stops_at_its_limit_or_the_end() {
    let rows: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")];
    let mut cursor = Slice(&rows, 0);
    let mut chunk = Chunk::default();
    assert!(chunk.fill(&mut cursor, 2).unwrap());
    assert_eq!((chunk.len(), chunk.last()), (2, Some(Row { key: b"b", value: b"2" })));
    assert!(!chunk.fill(&mut cursor, 2).unwrap());
    assert_eq!((chunk.len(), chunk.get(0)), (1, Some(Row { key: b"c", value: b"3" })));
    assert!(!chunk.fill(&mut cursor, 2).unwrap());
    assert!(chunk.is_empty());
    assert!(!chunk.fill(&mut Empty, 1).unwrap());
    assert!(chunk.fill(&mut Empty, 0).unwrap(), "nothing was asked for, so the end was not met");
}

#[test]
fn the_empty_cursor_has_no_row_wherever_it_stands() {
    let mut cursor = Empty;
    cursor.seek(b"k").unwrap();
    assert!(cursor.row().is_none() && cursor.next().unwrap().is_none() && cursor.next().unwrap().is_none());
}

#[test]
fn a_list_is_pulled_in_order_and_again_after_a_rewind() {
    let writes = [
        Write { space: SpaceId(1), key: b"a", value: Some(b"1") },
        Write { space: SpaceId(2), key: b"a", value: None },
    ];
    let mut list = List::new(&writes);
    assert_eq!(list.next(), Some(writes[0]));
    list.rewind();
    for write in writes {
        assert_eq!(list.next(), Some(write));
    }
    assert!(list.next().is_none() && list.next().is_none());
    list.rewind();
    assert_eq!(list.next(), Some(writes[0]));
}

#[test]
fn debug_output_shows_no_state() {
    let (key, value) = (b"secret-key".as_slice(), b"secret-value".as_slice());
    let mut chunk = Chunk::default();
    chunk.push(Row { key, value });
    let shown = format!(
        "{:?} {:?} {chunk:?} {:?} {:?} {:?}",
        Row { key, value },
        Write { space: SpaceId(1), key, value: Some(value) },
        Prefix::new(key),
        Range::new(Included(key), Excluded(value)),
        List::new(&[Write { space: SpaceId(1), key, value: None }]),
    );
    assert!(!shown.contains("secret") && !shown.contains("115, 101"), "{shown}");
    assert!(shown.contains("key_len: 10") && shown.contains("value_len: 12"), "{shown}");
}
