//! The timestamped key-value store with headers, over whatever space.

use std::ops::Bound::{Excluded, Included};

use millpond_store_api::{
    Direction, ErrorKind, Header, Headers, Range, SpaceMut, TimestampedKeyValueWithHeaders, ValueTimestampHeaders,
};

use crate::Subject;
use crate::kind::with;
use crate::tools::{BOTH, kind};

pub(crate) type View<'a> = TimestampedKeyValueWithHeaders<'a, dyn SpaceMut + 'a>;

/// A value: headers, time, bytes.
pub(crate) type Stored = (Vec<(String, Option<Vec<u8>>)>, i64, Vec<u8>);

pub(crate) fn view<T>(subject: &mut dyn Subject, body: impl FnOnce(&mut View<'_>) -> T) -> T {
    with(subject, |space| body(&mut TimestampedKeyValueWithHeaders::new(space)))
}

fn encoded(headers: &[Header<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Headers::encode(headers, &mut bytes).expect("the headers are short");
    bytes
}

pub(crate) fn put(subject: &mut dyn Subject, key: &[u8], headers: &[Header<'_>], timestamp: i64, value: &[u8]) {
    let bytes = encoded(headers);
    let value = ValueTimestampHeaders { headers: Headers::from_bytes(&bytes), timestamp, value };
    view(subject, |store| store.put(key, value)).expect("the row is put");
}

pub(crate) fn try_put(
    subject: &mut dyn Subject,
    key: &[u8],
    headers: &[Header<'_>],
    timestamp: i64,
    value: &[u8],
) -> bool {
    let bytes = encoded(headers);
    let value = ValueTimestampHeaders { headers: Headers::from_bytes(&bytes), timestamp, value };
    view(subject, |store| store.put_if_absent(key, value)).expect("the row is put")
}

fn stored(value: ValueTimestampHeaders<'_>) -> Stored {
    let headers = value.headers.iter().map(|header| {
        let header = header.expect("the headers are as they were put");
        (header.key.to_owned(), header.value.map(<[u8]>::to_vec))
    });
    (headers.collect(), value.timestamp, value.value.to_vec())
}

pub(crate) fn get(subject: &mut dyn Subject, key: &[u8]) -> Option<Stored> {
    view(subject, |store| store.get(key).map(|found| found.map(stored))).expect("the key is read")
}

pub(crate) fn rows(subject: &mut dyn Subject, range: Range<'_>, direction: Direction) -> Vec<(Vec<u8>, Stored)> {
    let mut rows = Vec::new();
    let walk = view(subject, |store| {
        store.for_each(range, direction, &mut |row| {
            rows.push((row.raw.key.to_vec(), stored(row.value)));
            Ok(true)
        })
    });
    walk.expect("the walk goes through");
    rows
}

/// Headers come back in their order, with repeated names, without values and with empty ones.
pub fn headers_come_back(subject: &mut dyn Subject) {
    let headers = [("b", Some(&b"1"[..])), ("a", None), ("b", Some(b"")), ("", Some(b"\xFF\0")), ("größe", Some(b"x"))]
        .map(|(key, value)| Header { key, value });
    put(subject, b"k", &headers, 20, b"value");
    put(subject, b"none", &[], -1, b"");
    let want = headers.map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)));
    assert_eq!(get(subject, b"k"), Some((want.into(), 20, b"value".to_vec())));
    assert_eq!(get(subject, b"none"), Some((Vec::new(), -1, Vec::new())));
    assert_eq!(get(subject, b"other"), None);
}

/// A put replaces headers, time and value together; after a delete nothing is left of them.
pub fn a_put_replaces_everything(subject: &mut dyn Subject) {
    put(subject, b"k", &[Header { key: "h", value: Some(b"1") }], 20, b"a long value");
    put(subject, b"k", &[], 10, b"v");
    assert_eq!(get(subject, b"k"), Some((Vec::new(), 10, b"v".to_vec())));
    put(subject, b"k", &[Header { key: "other", value: None }], 11, b"");
    assert_eq!(get(subject, b"k"), Some((vec![("other".into(), None)], 11, Vec::new())));
    view(subject, |store| store.delete(b"k")).unwrap();
    assert_eq!(get(subject, b"k"), None);
}

/// `put_if_absent` writes where there is nothing, and says so.
pub fn put_if_absent(subject: &mut dyn Subject) {
    let try_put = |subject: &mut dyn Subject, timestamp| try_put(subject, b"k", &[], timestamp, b"v");
    assert!(try_put(subject, 1));
    assert!(!try_put(subject, 2));
    assert_eq!(get(subject, b"k").map(|value| value.1), Some(1));
    view(subject, |store| store.delete(b"k")).unwrap();
    assert!(try_put(subject, 3));
    assert_eq!(get(subject, b"k").map(|value| value.1), Some(3));
}

/// The bytes in the space are Kafka Streams': the headers' size and the headers, eight bytes of time, the value.
pub fn the_bytes_are_those_of_kafka_streams(subject: &mut dyn Subject) {
    put(subject, b"k", &[Header { key: "a", value: Some(b"\x01") }], 1_700_000_000_000, b"v");
    put(subject, b"l", &[], -1, b"");
    with(subject, |space| {
        assert_eq!(space.get(b"k").unwrap(), Some(&b"\x0A\x02\x02a\x02\x01\0\0\x01\x8B\xCF\xE5\x68\0v"[..]));
        assert_eq!(space.get(b"l").unwrap(), Some(&b"\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"[..]));
        space.put(b"m", Some(b"\x08\x02\x02a\x01\0\0\0\0\0\0\x01\0x")).unwrap();
    });
    assert_eq!(get(subject, b"m"), Some((vec![("a".into(), None)], 256, b"x".to_vec())));
}

/// Bytes that end before the value are `Corrupt`; damaged headers are so when they are asked for, and hurt nothing else.
pub fn damage_is_corrupt(subject: &mut dyn Subject) {
    for (key, bytes) in [(&b"a"[..], &b""[..]), (b"b", b"\0\0\0\0\0\0\0\0"), (b"c", b"\x0A\x02"), (b"d", b"\x01")] {
        with(subject, |space| space.put(key, Some(bytes))).unwrap();
        assert_eq!(kind(view(subject, |store| store.get(key).map(drop)), "a get of damage"), ErrorKind::Corrupt);
    }
    let walk = view(subject, |store| store.for_each(Range::ALL, Direction::Forward, &mut |_| Ok(true)));
    assert_eq!(kind(walk, "a walk over damage"), ErrorKind::Corrupt);
    with(subject, |space| space.put(b"h", Some(b"\x04\x02\x08\0\0\0\0\0\0\0\x07value"))).unwrap();
    view(subject, |store| {
        let value = store.get(b"h").unwrap().expect("the row is there");
        assert_eq!((value.timestamp, value.value), (7, &b"value"[..]));
        let first = value.headers.iter().next().expect("there is something");
        assert_eq!(kind(first, "a walk over damaged headers"), ErrorKind::Corrupt);
    });
}

/// Walks are in key order in both directions, over the range, and end when they are told to.
pub fn walks_are_in_key_order(subject: &mut dyn Subject) {
    for (key, time) in [("b", 3), ("a", 9), ("d", 1), ("c", 7)] {
        put(subject, key.as_bytes(), &[Header { key, value: None }], time, key.as_bytes());
    }
    let walk = |subject: &mut dyn Subject, range: Range<'_>, direction, limit: usize| {
        let mut seen = String::new();
        let walk = view(subject, |store| {
            store.for_each(range, direction, &mut |row| {
                let header = row.value.headers.iter().next().expect("each has one")?;
                assert_eq!(header.key.as_bytes(), row.raw.key);
                seen.push_str(header.key);
                Ok(seen.len() < limit)
            })
        });
        walk.expect("the walk goes through");
        seen
    };
    for direction in BOTH {
        let mut got = [walk(subject, Range::ALL, direction, 9), {
            walk(subject, Range::new(Included(b"b"), Excluded(b"d")), direction, 9)
        }];
        if direction == Direction::Reverse {
            got = got.map(|keys| keys.chars().rev().collect());
        }
        assert_eq!(got, ["abcd", "bc"], "{direction:?}");
    }
    assert_eq!(view(subject, |store| store.approximate_num_entries()).unwrap(), 4);
    assert_eq!(walk(subject, Range::ALL, Direction::Reverse, 2), "dc");
}
