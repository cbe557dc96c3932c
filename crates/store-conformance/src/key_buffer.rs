//! The time-ordered buffer that keeps the last value of each key, over whatever space.

use millpond_store_api::{
    BufferTotals, Buffered, Direction, Error, ErrorKind, KeyBuffer, OldestFirst, Range, SpaceMut,
};

use crate::expiring::Times;
use crate::kind::with;
use crate::tools::{drain, kind};
use crate::twin::KeyTwin;
use crate::{Subject, twin};

/// A row: time, key, value.
type Timed = (i64, Vec<u8>, Vec<u8>);

fn view<T>(subject: &mut dyn Subject, body: impl FnOnce(&mut KeyBuffer<'_, dyn SpaceMut + '_>) -> T) -> T {
    with(subject, |space| body(&mut KeyBuffer::new(space)))
}

pub(crate) fn put(subject: &mut dyn Subject, time: i64, key: &str, value: &str) -> i64 {
    view(subject, |buffer| buffer.put(time, key.as_bytes(), value.as_bytes())).expect("the row is put")
}

pub(crate) fn remove_row(subject: &mut dyn Subject, key: &str) -> bool {
    view(subject, |buffer| buffer.remove(key.as_bytes())).expect("the row is removed")
}

pub(crate) fn get(subject: &mut dyn Subject, key: &str) -> Option<(i64, String)> {
    view(subject, |buffer| {
        let found = buffer.get(key.as_bytes()).expect("the key is read")?;
        Some((found.timestamp, String::from_utf8(found.value.to_vec()).expect("the case's values are text")))
    })
}

pub(crate) fn evict(subject: &mut dyn Subject, due: &mut dyn FnMut(i64, BufferTotals) -> bool) -> Vec<Timed> {
    let mut rows = Vec::new();
    let mut taken = |row: Buffered<'_>| {
        rows.push((row.time, row.key.to_vec(), row.value.to_vec()));
        Ok(())
    };
    let mut walk = OldestFirst::default();
    while view(subject, |buffer| buffer.take_oldest(&mut walk, due, &mut taken)).expect("a row is taken out") {}
    rows
}

pub(crate) fn up_to(bound: i64) -> impl FnMut(i64, BufferTotals) -> bool {
    move |time, _| time <= bound
}

pub(crate) fn state(subject: &mut dyn Subject) -> (u64, u64, Option<i64>) {
    view(subject, |buffer| {
        let totals = buffer.totals().expect("the totals are read");
        (totals.rows, totals.bytes, buffer.earliest().expect("the oldest row is found"))
    })
}

fn timed(rows: &[(i64, &str, &str)]) -> Vec<Timed> {
    rows.iter().map(|(time, key, value)| (*time, (*key).into(), (*value).into())).collect()
}

/// B075: a key keeps the time at which it came, whatever comes for it later; it comes out once, with the last value.
pub fn b075_a_key_keeps_its_first_time(subject: &mut dyn Subject) {
    assert_eq!(put(subject, 0, "k1", "a"), 0);
    assert_eq!(put(subject, 4, "k1", "b"), 0);
    assert_eq!(put(subject, 5, "k2", "c"), 5);
    assert_eq!(get(subject, "k1"), Some((0, "b".into())));
    assert_eq!(evict(subject, &mut up_to(0)), timed(&[(0, "k1", "b")]));
    assert_eq!(get(subject, "k1"), None);
    assert_eq!(put(subject, 9, "k3", "d"), 9);
    assert!(evict(subject, &mut up_to(4)).is_empty());
    assert_eq!(put(subject, 2, "k2", "earlier"), 5, "an earlier time does not shorten the wait either");
    assert_eq!(evict(subject, &mut up_to(9)), timed(&[(5, "k2", "earlier"), (9, "k3", "d")]));
    assert_eq!(put(subject, 11, "k1", "again"), 11);
}

/// B075: with room for two rows, the one that came first goes, with its latest value.
pub fn b075_the_oldest_row_goes_when_there_is_no_room(subject: &mut dyn Subject) {
    for (time, key, value) in [(0, "k1", "old"), (1, "k2", "2"), (2, "k1", "new"), (3, "k3", "3")] {
        put(subject, time, key, value);
    }
    assert_eq!(evict(subject, &mut |_, held| held.rows > 2), timed(&[(0, "k1", "new")]));
    assert_eq!(state(subject), (2, 6, Some(1)));
}

/// Rows come out by time, those of one time by key, the empty key among them; the bound is included.
pub fn rows_come_out_by_time_and_key(subject: &mut dyn Subject) {
    for (time, key) in [(20, "b"), (10, "z"), (20, "a"), (10, "a-"), (10, "")] {
        put(subject, time, key, "v");
    }
    assert_eq!(evict(subject, &mut up_to(10)), timed(&[(10, "", "v"), (10, "a-", "v"), (10, "z", "v")]));
    assert_eq!(state(subject), (2, 4, Some(20)));
    assert_eq!(evict(subject, &mut up_to(20)), timed(&[(20, "a", "v"), (20, "b", "v")]));
    assert_eq!(state(subject), (0, 0, None));
}

/// A removed row does not come out, and the oldest is the next one; removing what is not there changes nothing.
pub fn remove(subject: &mut dyn Subject) {
    put(subject, 1, "a", "1");
    put(subject, 2, "b", "22");
    assert!(remove_row(subject, "a"));
    assert!(!remove_row(subject, "a"));
    assert!(!remove_row(subject, "c"));
    assert_eq!(state(subject), (1, 3, Some(2)));
    put(subject, 3, "a", "new");
    assert_eq!(evict(subject, &mut up_to(9)), timed(&[(2, "b", "22"), (3, "a", "new")]));
    put(subject, 4, "a", "last");
    assert!(remove_row(subject, "a"));
    assert_eq!(state(subject), (0, 0, None));
}

/// Nothing is left in the space of rows that came out, were removed or replaced.
pub fn an_empty_buffer_has_no_rows(subject: &mut dyn Subject) {
    for i in 0..1_000_i64 {
        put(subject, i % 50, &(i % 300).to_string(), "value");
    }
    assert!(remove_row(subject, "7"));
    assert_eq!(evict(subject, &mut up_to(i64::MAX)).len(), 299);
    let rows = with(subject, |space| drain(&mut *space.scan(Range::ALL, Direction::Forward).unwrap()));
    assert!(rows.is_empty(), "{} rows are left", rows.len());
}

/// A row whose visit fails stays, with those behind it; what was taken out before is gone, and counted so.
pub fn a_failed_visit_keeps_the_row(subject: &mut dyn Subject) {
    for (time, key) in [(1, "a"), (2, "b"), (3, "c")] {
        put(subject, time, key, "v");
    }
    let mut visit = |row: Buffered<'_>| match row.time {
        1 => Ok(()),
        _ => Err(Error::new(ErrorKind::Io, "handle a row")),
    };
    let mut walk = OldestFirst::default();
    let mut take = || view(subject, |buffer| buffer.take_oldest(&mut walk, &mut up_to(9), &mut visit));
    assert!(take().expect("the first row is taken out"));
    assert_eq!(kind(take(), "an eviction whose visit fails"), ErrorKind::Io);
    assert_eq!(state(subject), (2, 4, Some(2)));
    assert_eq!(get(subject, "b"), Some((2, "v".into())));
}

/// What would be held without what is due is told without taking it out.
pub fn totals_without_what_is_due(subject: &mut dyn Subject) {
    for (time, key, value) in [(1, "a", "1"), (2, "b", "22"), (3, "c", "333")] {
        put(subject, time, key, value);
    }
    let without = |subject: &mut dyn Subject, due: &mut dyn FnMut(i64, BufferTotals) -> bool| {
        view(subject, |buffer| buffer.totals_without(due)).expect("the totals are counted")
    };
    assert_eq!(without(subject, &mut up_to(2)), BufferTotals { rows: 1, bytes: 4 });
    assert_eq!(without(subject, &mut |_, held| held.rows > 2), BufferTotals { rows: 2, bytes: 7 });
    assert_eq!(without(subject, &mut up_to(9)), BufferTotals::default());
    assert_eq!(state(subject), (3, 9, Some(1)));
    assert_eq!(evict(subject, &mut up_to(9)).len(), 3);
}

/// An order without its row, or with one of another time, is `Corrupt`.
pub fn damage_is_corrupt(subject: &mut dyn Subject) {
    put(subject, 1, "k", "v");
    for row in [None, Some(&b"v\0\0\0\0\0\0\0\x02"[..])] {
        with(subject, |space| space.put(b"\x01k", row)).unwrap();
        let mut walk = OldestFirst::default();
        let evicted = view(subject, |buffer| buffer.take_oldest(&mut walk, &mut up_to(9), &mut |_| Ok(())));
        assert_eq!(kind(evicted, "an eviction of a row that is not there"), ErrorKind::Corrupt);
    }
}

/// Random puts, removals, gets and evictions against a map.
pub fn against_a_model(subject: &mut dyn Subject) {
    twin::steps(subject, &mut [KeyTwin::default()], 13, Times::flowing(0), 1_200);
}
