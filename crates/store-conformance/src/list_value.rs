//! The list-value store, over whatever space.

use std::ops::Bound::{Excluded, Included};

use millpond_store_api::{Direction, ErrorKind, ListValue, Range, SpaceMut};

use crate::expiring::Times;
use crate::kind::with;
use crate::tools::{BOTH, Rows, kind};
use crate::twin::ListTwin;
use crate::{Subject, twin};

fn view<T>(subject: &mut dyn Subject, body: impl FnOnce(&mut ListValue<'_, dyn SpaceMut + '_>) -> T) -> T {
    with(subject, |space| body(&mut ListValue::new(space)))
}

pub(crate) fn append(subject: &mut dyn Subject, key: &[u8], value: &[u8]) {
    view(subject, |store| store.append(key, value)).expect("the value is appended");
}

pub(crate) fn delete(subject: &mut dyn Subject, key: &[u8]) {
    view(subject, |store| store.delete(key)).expect("the list is deleted");
}

pub(crate) fn get(subject: &mut dyn Subject, key: &[u8]) -> Option<Vec<Vec<u8>>> {
    view(subject, |store| {
        let values = store.get(key).expect("the key is read")?;
        Some(values.map(|value| value.expect("the list is sound").to_vec()).collect())
    })
}

pub(crate) fn walk(subject: &mut dyn Subject, range: Range<'_>, direction: Direction) -> Rows {
    let mut rows = Rows::new();
    let walk = view(subject, |store| {
        store.for_each(range, direction, &mut |row| {
            rows.push((row.key.to_vec(), row.value.to_vec()));
            Ok(true)
        })
    });
    walk.expect("the walk goes through");
    rows
}

/// Values are kept in the order of the appends, equal and empty ones too; a delete takes all of a key, and of no other.
pub fn append_and_delete(subject: &mut dyn Subject) {
    assert_eq!(get(subject, b"k"), None);
    for value in [&b"2"[..], b"", b"1", b"2"] {
        append(subject, b"k", value);
    }
    append(subject, b"", b"of the empty key");
    assert_eq!(get(subject, b"k"), Some(vec![b"2".to_vec(), Vec::new(), b"1".to_vec(), b"2".to_vec()]));
    delete(subject, b"k");
    assert_eq!(get(subject, b"k"), None);
    append(subject, b"k", b"again");
    assert_eq!(get(subject, b"k"), Some(vec![b"again".to_vec()]));
    assert_eq!(get(subject, b""), Some(vec![b"of the empty key".to_vec()]));
}

/// The bytes in the space are those of Kafka's list serializer: strategy, count, then each value behind its length.
pub fn the_bytes_are_those_of_kafka(subject: &mut dyn Subject) {
    append(subject, b"k", b"a");
    append(subject, b"k", b"bc");
    append(subject, b"k", b"");
    with(subject, |space| {
        assert_eq!(space.get(b"k").unwrap(), Some(&b"\x01\0\0\0\x03\0\0\0\x01a\0\0\0\x02bc\0\0\0\0"[..]));
        space.put(b"l", Some(b"\x01\0\0\0\x01\0\0\0\x02\0\xFF")).unwrap();
    });
    assert_eq!(get(subject, b"l"), Some(vec![b"\0\xFF".to_vec()]));
}

/// A walk goes value by value, in the order of the keys and of the appends; reverse is the mirror of it.
pub fn walks_are_flat(subject: &mut dyn Subject) {
    for (key, value) in [("b", "1"), ("a", "2"), ("b", "3"), ("c", "4"), ("b", "5"), ("a", "6")] {
        append(subject, key.as_bytes(), value.as_bytes());
    }
    let flat = |rows: &Rows| rows.iter().flat_map(|(k, v)| [k, v]).flatten().map(|b| *b as char).collect::<String>();
    for direction in BOTH {
        let mut all = walk(subject, Range::ALL, direction);
        let mut some = walk(subject, Range::new(Excluded(b"a"), Included(b"b")), direction);
        if direction == Direction::Reverse {
            all.reverse();
            some.reverse();
        }
        assert_eq!((flat(&all).as_str(), flat(&some).as_str()), ("a2a6b1b3b5c4", "b1b3b5"), "{direction:?}");
    }
    let mut seen = 0;
    view(subject, |store| {
        store.for_each(Range::ALL, Direction::Forward, &mut |_| {
            seen += 1;
            Ok(seen < 3)
        })
    })
    .unwrap();
    assert_eq!(seen, 3, "a walk ends when it is told to, in the middle of a key");
}

/// What is no list is `Corrupt`: for a get, an append and a walk. Nothing is appended to it.
pub fn damage_is_corrupt(subject: &mut dyn Subject) {
    let head: [&[u8]; 5] = [b"", b"\x01\0\0\0", b"\0\0\0\0\0\0\0\0\0", b"\x01\xFF\xFF\xFF\xFF", b"\x02\0\0\0\0"];
    for bytes in head {
        with(subject, |space| space.put(b"k", Some(bytes))).unwrap();
        assert_eq!(kind(view(subject, |store| store.get(b"k").map(drop)), "a get"), ErrorKind::Corrupt);
        assert_eq!(kind(view(subject, |store| store.append(b"k", b"v")), "an append"), ErrorKind::Corrupt);
        with(subject, |space| assert_eq!(space.get(b"k").unwrap(), Some(bytes)));
    }
    let tail: [&[u8]; 4] = [
        b"\x01\0\0\0\x01",
        b"\x01\0\0\0\x01\0\0\0\x02v",
        b"\x01\0\0\0\x01\0\0\0\x01vv",
        b"\x01\0\0\0\x01\xFF\xFF\xFF\xFF",
    ];
    for bytes in tail {
        with(subject, |space| space.put(b"k", Some(bytes))).unwrap();
        for direction in BOTH {
            let walk = view(subject, |store| store.for_each(Range::ALL, direction, &mut |_| Ok(true)));
            assert_eq!(kind(walk, "a walk over damage"), ErrorKind::Corrupt, "{bytes:02x?}");
        }
    }
}

/// Random appends, deletes and walks against lists in a map.
pub fn against_a_model(subject: &mut dyn Subject) {
    twin::steps(subject, &mut [ListTwin::default()], 11, Times::flowing(0), 600);
}
