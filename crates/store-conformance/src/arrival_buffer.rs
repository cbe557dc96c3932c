//! The time-ordered buffer that keeps every row, over whatever space.

use millpond_store_api::{ArrivalBuffer, BufferTotals, Direction, Error, ErrorKind, Range, SpaceMut};

use crate::expiring::Times;
use crate::kind::with;
use crate::tools::{drain, kind};
use crate::twin::ArrivalTwin;
use crate::{Subject, twin};

/// A row: time, key, value.
type Timed = (i64, Vec<u8>, Vec<u8>);

fn view<T>(subject: &mut dyn Subject, body: impl FnOnce(&mut ArrivalBuffer<'_, dyn SpaceMut + '_>) -> T) -> T {
    with(subject, |space| body(&mut ArrivalBuffer::new(space)))
}

pub(crate) fn put(subject: &mut dyn Subject, time: i64, key: &str, value: &str) {
    view(subject, |buffer| buffer.put(time, key.as_bytes(), value.as_bytes())).expect("the row is put");
}

/// Which rows an eviction takes.
pub(crate) type Due<'a> = dyn FnMut(i64, BufferTotals) -> bool + 'a;

pub(crate) fn evict(subject: &mut dyn Subject, due: &mut Due<'_>) -> Vec<Timed> {
    let mut rows = Vec::new();
    let evicted = view(subject, |buffer| {
        buffer.evict(due, &mut |row| {
            rows.push((row.time, row.key.to_vec(), row.value.to_vec()));
            Ok(())
        })
    });
    assert_eq!(evicted.expect("the rows are taken out"), rows.len() as u64);
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

/// Rows come out by time, those of one time as they arrived; the bound is included; what comes later waits.
pub fn rows_come_out_by_time(subject: &mut dyn Subject) {
    assert_eq!(state(subject), (0, 0, None));
    assert!(evict(subject, &mut up_to(i64::MAX)).is_empty());
    for (time, key, value) in [(20, "b", "1"), (10, "z", "2"), (20, "a", "3"), (10, "a", "4"), (30, "", "5")] {
        put(subject, time, key, value);
    }
    assert_eq!(state(subject), (5, 9, Some(10)));
    assert!(evict(subject, &mut up_to(9)).is_empty());
    assert_eq!(evict(subject, &mut up_to(10)), timed(&[(10, "z", "2"), (10, "a", "4")]));
    assert_eq!(state(subject), (3, 5, Some(20)));
    assert_eq!(evict(subject, &mut up_to(29)), timed(&[(20, "b", "1"), (20, "a", "3")]));
    assert_eq!(evict(subject, &mut up_to(i64::MAX)), timed(&[(30, "", "5")]));
    assert_eq!(state(subject), (0, 0, None));
}

/// Rows of the same time and key are all kept, equal ones too, also when the first are gone or settled.
pub fn equal_rows_are_kept(subject: &mut dyn Subject) {
    for _ in 0..3 {
        put(subject, 5, "k", "same");
    }
    subject.settle();
    put(subject, 5, "k", "other");
    assert_eq!(state(subject), (4, 21, Some(5)));
    let same = (5, "k", "same");
    assert_eq!(evict(subject, &mut up_to(5)), timed(&[same, same, same, (5, "k", "other")]));
    put(subject, 5, "k", "same");
    subject.settle();
    put(subject, 5, "k", "same");
    assert_eq!(evict(subject, &mut up_to(5)), timed(&[same, same]));
}

/// A buffer may be emptied down to a size instead of a time.
pub fn eviction_by_size(subject: &mut dyn Subject) {
    for (time, key) in [(3, "c"), (1, "a"), (2, "b"), (4, "d")] {
        put(subject, time, key, "12");
    }
    assert_eq!(evict(subject, &mut |_, held| held.rows > 2), timed(&[(1, "a", "12"), (2, "b", "12")]));
    assert_eq!(evict(subject, &mut |_, held| held.bytes > 5), timed(&[(3, "c", "12")]));
    assert_eq!(state(subject), (1, 3, Some(4)));
}

/// Times before 1970 and the extremes, in order.
pub fn extreme_times(subject: &mut dyn Subject) {
    let times = [i64::MIN, -1, 0, 1, i64::MAX];
    for time in [0, i64::MAX, i64::MIN, 1, -1] {
        put(subject, time, "k", "v");
    }
    assert_eq!(state(subject).2, Some(i64::MIN));
    let out: Vec<i64> = evict(subject, &mut |_, _| true).iter().map(|row| row.0).collect();
    assert_eq!(out, times);
}

/// A row whose visit fails stays, with those behind it; what was taken out before is gone, and counted so.
pub fn a_failed_visit_keeps_the_row(subject: &mut dyn Subject) {
    for time in 1..=5 {
        put(subject, time, "k", "v");
    }
    let mut seen = 0;
    let failed = view(subject, |buffer| {
        buffer.evict(&mut up_to(9), &mut |_| {
            seen += 1;
            if seen == 3 { Err(Error::new(ErrorKind::Io, "handle a row")) } else { Ok(()) }
        })
    });
    assert_eq!(kind(failed, "an eviction whose visit fails"), ErrorKind::Io);
    assert_eq!(state(subject), (3, 6, Some(3)));
    assert_eq!(evict(subject, &mut up_to(9)).len(), 3);
}

/// Thousands of rows, taken out in one go and in steps; nothing is left in the space but the counter.
pub fn many_rows(subject: &mut dyn Subject) {
    for i in 0..2_000_i64 {
        put(subject, i * 7 % 500, &i.to_string(), "v");
    }
    let mut out = evict(subject, &mut up_to(99));
    assert_eq!(out.len(), 400);
    out.extend(evict(subject, &mut up_to(1_000)));
    assert!(out.len() == 2_000 && out.is_sorted_by_key(|row| row.0));
    let rows = with(subject, |space| drain(&mut *space.scan(Range::ALL, Direction::Forward).unwrap()));
    assert_eq!(rows.len(), 1, "the rows in the space");
}

/// Totals that do not fit the rows are `Corrupt`, not a count below zero or a loop.
pub fn damage_is_corrupt(subject: &mut dyn Subject) {
    put(subject, 1, "k", "v");
    let nothing_and_the_next_number = [[0; 27].as_slice(), &[1]].concat();
    with(subject, |space| space.put(b"\x02", Some(&nothing_and_the_next_number))).unwrap();
    put(subject, 1, "k", "v");
    let evicted = view(subject, |buffer| buffer.evict(&mut up_to(1), &mut |_| Ok(())));
    assert_eq!(kind(evicted, "an eviction of more rows than there are"), ErrorKind::Corrupt);
    with(subject, |space| space.put(b"\x02", Some(b"short"))).unwrap();
    assert_eq!(kind(view(subject, |buffer| buffer.totals()), "the totals"), ErrorKind::Corrupt);
}

/// Random puts and evictions against a sorted list.
pub fn against_a_model(subject: &mut dyn Subject) {
    twin::steps(subject, &mut [ArrivalTwin::default()], 12, Times::flowing(0), 1_200);
}
