//! Walks over the overlay and its base.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::*;

/// What a user of a real store met (KAFKA-18326): deletes that lie ahead of the shard's cursor.
#[test]
fn deletes_ahead_of_the_base_hide_their_keys() {
    let base = Base::of(&[("3", "s"), ("5", "s"), ("7", "s"), ("9", "s")]);
    let mut overlay = overlay(true, false);
    for (key, value) in [("1", None), ("7", None), ("6", Some("c")), ("9", None)] {
        write(&mut overlay, key, value);
    }
    let keys = |range, direction| {
        let rows = scan(&overlay, &base, range, direction);
        rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>().join(",")
    };
    assert_eq!(keys(Range::ALL, Direction::Forward), "3,5,6");
    assert_eq!(keys(Range::ALL, Direction::Reverse), "6,5,3");
    let middle = Range::new(Included(b"4"), Included(b"8"));
    assert_eq!(keys(middle, Direction::Forward), "5,6");
    assert_eq!(keys(middle, Direction::Reverse), "6,5");
}

#[test]
fn the_index_follows_writes_until_the_commit() {
    let (mut overlay, mut base) = (overlay(false, false), Base::of(&[("b", "1")]));
    assert_eq!(scan(&overlay, &base, Range::ALL, Direction::Forward).len(), 1);
    let bytes = overlay.uncommitted_bytes();
    put(&mut overlay, "a key of more than 22 bytes", Some("2"));
    put(&mut overlay, "c", Some("3"));
    assert!(overlay.uncommitted_bytes() > bytes + 2 * Slot::FIXED, "the index is counted");
    assert_eq!(scan(&overlay, &base, Range::ALL, Direction::Reverse).len(), 3);
    overlay.record_failed();
    assert_eq!(scan(&overlay, &base, Range::ALL, Direction::Forward).len(), 1);
    assert_eq!(overlay.uncommitted_bytes(), bytes);
    write(&mut overlay, "b", None);
    assert_eq!(scan(&overlay, &base, Range::ALL, Direction::Forward), []);
    commit(&mut overlay, &mut base);
    assert!(overlay.index.get().is_none(), "a commit drops the index");
    assert_eq!(scan(&overlay, &base, Range::ALL, Direction::Forward), []);
}

#[test]
fn seeks_stay_in_the_range_and_the_last_one_counts() {
    let base = Base::of(&[("b", "s"), ("d", "s"), ("f", "s"), ("h", "s")]);
    let mut overlay = overlay(false, false);
    ["c", "e", "g", "a", "i"].iter().for_each(|key| write(&mut overlay, key, Some("o")));
    let inner = Range::new(Included(b"b"), Excluded(b"h"));
    let mut cursor = overlay.scan(&base, inner, Direction::Forward).unwrap();
    let next = |cursor: &mut Box<dyn Cursor + '_>| cursor.next().unwrap().map(|row| text(row.key)).unwrap_or_default();
    cursor.seek(b"a").unwrap();
    assert_eq!(next(&mut cursor), "b", "a key before the range does not widen it");
    cursor.seek(b"g").unwrap();
    cursor.seek(b"d").unwrap();
    assert_eq!(next(&mut cursor), "d", "seeks do not add up");
    cursor.seek(b"a").unwrap();
    assert_eq!(next(&mut cursor), "e", "a seek never goes back");
    cursor.seek(b"z").unwrap();
    assert_eq!((next(&mut cursor), next(&mut cursor)), (String::new(), String::new()));

    let mut cursor = overlay.scan(&base, Range::new(Unbounded, Included(b"g")), Direction::Reverse).unwrap();
    cursor.seek(b"z").unwrap();
    assert_eq!(next(&mut cursor), "g");
    cursor.seek(b"c").unwrap();
    assert_eq!((next(&mut cursor), next(&mut cursor), next(&mut cursor)), ("c".into(), "b".into(), "a".into()));
}

#[test]
fn an_error_of_the_base_ends_no_walk() {
    struct Shaky<'a>(Walk<'a>, Cell<bool>);
    impl Cursor for Shaky<'_> {
        fn next(&mut self) -> Result<Option<Row<'_>>> {
            // Every other call fails.
            if self.1.replace(!self.1.get()) { Err(Error::new(ErrorKind::Retry, "read")) } else { self.0.next() }
        }
        fn row(&self) -> Option<Row<'_>> {
            self.0.row()
        }
        fn seek(&mut self, key: &[u8]) -> Result<()> {
            self.0.seek(key)
        }
    }
    struct ShakyBase(Base);
    impl Read for ShakyBase {
        fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
            self.0.get(space, key, found)
        }
        fn scan(&self, _: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
            Ok(Box::new(Shaky(Walk::new(&self.0.map, range, direction), Cell::new(true))))
        }
    }
    let base = ShakyBase(Base::of(&[("b", "s"), ("d", "s")]));
    let mut overlay = overlay(false, false);
    ["a", "c", "d"].iter().for_each(|key| write(&mut overlay, key, Some("o")));
    let mut cursor = overlay.scan(&base, Range::ALL, Direction::Forward).unwrap();
    let (mut keys, mut errors) = (String::new(), 0);
    loop {
        match cursor.next() {
            Ok(Some(row)) => keys += &text(row.key),
            Ok(None) => break,
            Err(_) => errors += 1,
        }
    }
    assert_eq!((keys.as_str(), errors), ("abcd", 3));
}
