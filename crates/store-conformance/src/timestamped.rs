//! The timestamped key-value store, over whatever space.

use std::ops::Bound::{Excluded, Included};

use millpond_store_api::{Direction, ErrorKind, Prefix, Range, SpaceMut, TimestampedKeyValue, ValueAndTimestamp};

use crate::Subject;
use crate::kind::with;
use crate::tools::{BOTH, kind};

/// A row: key, time, value.
pub(crate) type Timed = (Vec<u8>, i64, Vec<u8>);

pub(crate) fn view<T>(
    subject: &mut dyn Subject,
    body: impl FnOnce(&mut TimestampedKeyValue<'_, dyn SpaceMut + '_>) -> T,
) -> T {
    with(subject, |space| body(&mut TimestampedKeyValue::new(space)))
}

pub(crate) fn put(subject: &mut dyn Subject, key: &[u8], timestamp: i64, value: &[u8]) {
    view(subject, |store| store.put(key, ValueAndTimestamp { timestamp, value })).expect("the row is put");
}

pub(crate) fn try_put(subject: &mut dyn Subject, key: &[u8], timestamp: i64, value: &[u8]) -> bool {
    view(subject, |store| store.put_if_absent(key, ValueAndTimestamp { timestamp, value })).expect("the row is put")
}

pub(crate) fn get(subject: &mut dyn Subject, key: &[u8]) -> Option<(i64, Vec<u8>)> {
    view(subject, |store| store.get(key).map(|found| found.map(|v| (v.timestamp, v.value.to_vec()))))
        .expect("the key is read")
}

pub(crate) fn rows(subject: &mut dyn Subject, range: Range<'_>, direction: Direction) -> Vec<Timed> {
    let mut rows = Vec::new();
    let walk = view(subject, |store| {
        store.for_each(range, direction, &mut |row| {
            rows.push((row.raw.key.to_vec(), row.value.timestamp, row.value.value.to_vec()));
            Ok(true)
        })
    });
    walk.expect("the walk goes through");
    rows
}

/// A value comes back with its time; a put replaces both, whichever time is later.
pub fn a_value_keeps_its_time(subject: &mut dyn Subject) {
    assert_eq!(get(subject, b"k"), None);
    put(subject, b"k", 20, b"first");
    assert_eq!(get(subject, b"k"), Some((20, b"first".to_vec())));
    put(subject, b"k", 10, b"second");
    assert_eq!(get(subject, b"k"), Some((10, b"second".to_vec())));
    view(subject, |store| store.delete(b"k")).unwrap();
    assert_eq!(get(subject, b"k"), None);
    assert!(rows(subject, Range::ALL, Direction::Forward).is_empty());
}

/// Times before 1970, unknown ones (-1) and the extremes.
pub fn extreme_times(subject: &mut dyn Subject) {
    let times = [i64::MIN, -1, 0, 1, 1_357_034_400_000, i64::MAX];
    for (i, time) in (0_u8..).zip(times) {
        put(subject, &[i], time, b"v");
    }
    for (i, time) in (0_u8..).zip(times) {
        assert_eq!(get(subject, &[i]), Some((time, b"v".to_vec())));
    }
}

/// An empty value with a time is not absent.
pub fn an_empty_value_is_a_value(subject: &mut dyn Subject) {
    put(subject, b"k", 5, b"");
    assert_eq!(get(subject, b"k"), Some((5, Vec::new())));
    assert_eq!(rows(subject, Range::ALL, Direction::Reverse), [(b"k".to_vec(), 5, Vec::new())]);
}

/// `put_if_absent` writes value and time where there is nothing, and says so; a later time does not matter.
pub fn put_if_absent(subject: &mut dyn Subject) {
    let try_put = |subject: &mut dyn Subject, timestamp| try_put(subject, b"k", timestamp, b"v");
    assert!(try_put(subject, 5));
    assert!(!try_put(subject, 9));
    assert_eq!(get(subject, b"k"), Some((5, b"v".to_vec())));
    view(subject, |store| store.delete(b"k")).unwrap();
    assert!(try_put(subject, 3));
    assert_eq!(get(subject, b"k"), Some((3, b"v".to_vec())));
}

/// The bytes in the space are Kafka Streams': eight bytes of time, big endian, then the value.
pub fn the_bytes_are_those_of_kafka_streams(subject: &mut dyn Subject) {
    put(subject, b"k", 0x0102_0304_0506_0708, b"value");
    put(subject, b"l", -1, b"");
    subject.with(&mut |space| {
        assert_eq!(space.get(b"k").unwrap(), Some(&b"\x01\x02\x03\x04\x05\x06\x07\x08value"[..]));
        assert_eq!(space.get(b"l").unwrap(), Some(&[0xFF; 8][..]));
        space.put(b"m", Some(b"\0\0\0\0\0\0\x01\0x")).unwrap();
    });
    assert_eq!(get(subject, b"m"), Some((256, b"x".to_vec())));
}

/// Bytes that are too short for a time are `Corrupt`, in a get and in a walk, and not a value.
pub fn short_bytes_are_corrupt(subject: &mut dyn Subject) {
    put(subject, b"a", 1, b"good");
    subject.with(&mut |space| space.put(b"b", Some(b"\0\0\0\0\0\0\0")).unwrap());
    assert_eq!(kind(view(subject, |store| store.get(b"b").map(drop)), "get"), ErrorKind::Corrupt);
    let walk = view(subject, |store| store.for_each(Range::ALL, Direction::Forward, &mut |_| Ok(true)));
    assert_eq!(kind(walk, "a walk"), ErrorKind::Corrupt);
    assert_eq!(get(subject, b"a"), Some((1, b"good".to_vec())));
}

/// Walks are in key order, whatever the times; ranges and prefixes are those of the keys; reverse is the mirror.
pub fn walks_are_in_key_order(subject: &mut dyn Subject) {
    for (key, time) in [("b", 3), ("a", 9), ("d", 1), ("c", 7)] {
        put(subject, key.as_bytes(), time, key.as_bytes());
    }
    subject.settle();
    put(subject, b"c", 2, b"C");
    put(subject, b"ca", 0, b"ca");
    let all: Vec<Timed> = [("a", 9, "a"), ("b", 3, "b"), ("c", 2, "C"), ("ca", 0, "ca"), ("d", 1, "d")]
        .map(|(k, t, v)| (k.into(), t, v.into()))
        .into();
    for direction in BOTH {
        let mut check = |range: Range<'_>, want: &[Timed]| {
            let mut want = want.to_vec();
            if direction == Direction::Reverse {
                want.reverse();
            }
            assert_eq!(rows(subject, range, direction), want, "{direction:?}");
        };
        check(Range::ALL, &all);
        check(Range::new(Included(b"b"), Excluded(b"ca")), &all[1..3]);
        check(Prefix::new(b"c").range(), &all[2..4]);
        check(Range::new(Included(b"c"), Included(b"b")), &[]);
    }
    assert_eq!(view(subject, |store| store.approximate_num_entries()).unwrap(), 5);
}

/// A walk ends when it is told to, and hands an error on.
pub fn a_walk_may_be_ended(subject: &mut dyn Subject) {
    for i in 0..10_u8 {
        put(subject, &[i], i64::from(i), b"v");
    }
    let mut seen = Vec::new();
    view(subject, |store| {
        store.for_each(Range::ALL, Direction::Reverse, &mut |row| {
            seen.push(row.value.timestamp);
            Ok(seen.len() < 3)
        })
    })
    .unwrap();
    assert_eq!(seen, [9, 8, 7]);
    let failed = view(subject, |store| {
        store.for_each(Range::ALL, Direction::Forward, &mut |_| {
            Err(millpond_store_api::Error::new(ErrorKind::Io, "handle a row"))
        })
    });
    assert_eq!(kind(failed, "a walk whose visitor fails"), ErrorKind::Io);
}
