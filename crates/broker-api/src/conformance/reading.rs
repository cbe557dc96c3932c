//! The consumer: positions, changes of its assignment, faults, waking.

use std::time::Duration;

use super::bench::{Bench, positions, texts};
use crate::{Change, Clock, ErrorKind, Isolation, Source};

const A: Source = Source(0);
const B: Source = Source(1);

fn add(source: Source, topic: &str, partition: i32, from: i64) -> Change<'_> {
    Change::Add { source, topic, partition, from }
}

pub(super) fn nothing_assigned_lends_nothing(b: &mut Bench<'_>) {
    let mut consumer = b.broker().consumer(&Isolation::ReadCommitted.into()).unwrap();
    b.take_nothing(&mut *consumer);
    assert_eq!(consumer.position(A), None);
    assert_eq!(consumer.known_end(A), None);
}

pub(super) fn starts_where_it_is_told(b: &mut Bench<'_>) {
    let topic = b.topic("middle", 1);
    b.fill(&topic, 0, &["0", "1", "2", "3"]);
    let seen = b.committed_from(&topic, 0, 2);
    assert_eq!((texts(&seen), positions(&seen)), (vec!["2".to_owned(), "3".to_owned()], vec![2, 3]));
}

pub(super) fn position_is_at_least_the_assigned_one(b: &mut Bench<'_>) {
    let topic = b.topic("position", 1);
    b.fill(&topic, 0, &["0", "1", "2"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 1);
    assert_eq!(consumer.position(A), Some(1), "before the first poll");
    b.drain(&mut *consumer, A, 3);
    assert_eq!(consumer.position(A), Some(3));
}

pub(super) fn position_at_the_very_end(b: &mut Bench<'_>) {
    let topic = b.topic("end", 1);
    b.fill(&topic, 0, &["0", "1"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 2);
    b.take_nothing(&mut *consumer);
    assert_eq!(consumer.position(A), Some(2));
    b.fill(&topic, 0, &["2"]);
    assert_eq!(positions(&b.take(&mut *consumer, 1)), [2]);
    assert_eq!(consumer.position(A), Some(3));
}

pub(super) fn known_end_tells_how_much_there_is(b: &mut Bench<'_>) {
    let topic = b.topic("known-end", 1);
    b.fill(&topic, 0, &["0", "1", "2"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    assert_eq!(consumer.known_end(A), None, "before the first fetch");
    b.drain(&mut *consumer, A, 3);
    assert_eq!(consumer.known_end(A), Some(3));
}

pub(super) fn new_records_come_to_a_waiting_consumer(b: &mut Bench<'_>) {
    let topic = b.topic("new", 1);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    b.take_nothing(&mut *consumer);
    b.fill(&topic, 0, &["0"]);
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["0"]);
    b.fill(&topic, 0, &["1", "2"]);
    assert_eq!(texts(&b.take(&mut *consumer, 2)), ["1", "2"]);
}

pub(super) fn sources_are_the_callers_numbers(b: &mut Bench<'_>) {
    let (one, two) = (b.topic("one", 2), b.topic("two", 1));
    b.fill(&one, 1, &["one/1"]);
    b.fill(&one, 0, &["one/0"]);
    b.fill(&two, 0, &["two/0"]);
    let mut consumer = b.broker().consumer(&Isolation::ReadCommitted.into()).unwrap();
    let changes = [add(Source(900), &one, 0, 0), add(Source(3), &two, 0, 0), add(Source(0), &one, 1, 0)];
    consumer.assign(&changes).unwrap();
    let mut seen: Vec<_> = b.take(&mut *consumer, 3).iter().map(|r| (r.source, r.text())).collect();
    seen.sort();
    let want = [(Source(0), "one/1"), (Source(3), "two/0"), (Source(900), "one/0")];
    assert_eq!(seen, want.map(|(source, text)| (source, text.to_owned())));
}

pub(super) fn seek_goes_back_and_forth(b: &mut Bench<'_>) {
    let topic = b.topic("seek", 1);
    b.fill(&topic, 0, &["0", "1", "2", "3", "4"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    b.drain(&mut *consumer, A, 5);
    consumer.assign(&[Change::Seek(A, 1)]).unwrap();
    assert_eq!(consumer.position(A), Some(1));
    assert_eq!(positions(&b.drain(&mut *consumer, A, 5)), [1, 2, 3, 4]);
    consumer.assign(&[Change::Seek(A, 0), Change::Seek(A, 4)]).unwrap();
    assert_eq!(positions(&b.drain(&mut *consumer, A, 5)), [4], "the last change counts");
}

pub(super) fn paused_partition_goes_on_where_it_was(b: &mut Bench<'_>) {
    let topic = b.topic("pause", 2);
    b.fill(&topic, 0, &["0", "1"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    b.drain(&mut *consumer, A, 2);
    consumer.assign(&[Change::Pause(A), add(B, &topic, 1, 0)]).unwrap();
    b.fill(&topic, 0, &["2", "3"]);
    b.fill(&topic, 1, &["other"]);
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["other"]);
    b.take_nothing(&mut *consumer);
    assert_eq!(consumer.position(A), Some(2));
    consumer.assign(&[Change::Resume(A)]).unwrap();
    assert_eq!(positions(&b.take(&mut *consumer, 2)), [2, 3]);
}

pub(super) fn removed_partition_is_silent(b: &mut Bench<'_>) {
    let topic = b.topic("remove", 2);
    b.fill(&topic, 0, &["a"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    consumer.assign(&[add(B, &topic, 1, 0)]).unwrap();
    b.drain(&mut *consumer, A, 1);
    consumer.assign(&[Change::Remove(A)]).unwrap();
    assert_eq!(consumer.position(A), None);
    b.fill(&topic, 0, &["b"]);
    b.fill(&topic, 1, &["c"]);
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["c"]);
    b.take_nothing(&mut *consumer);
    consumer.assign(&[add(A, &topic, 0, 1)]).unwrap();
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["b"], "added again");
}

pub(super) fn others_go_on_when_one_is_added(b: &mut Bench<'_>) {
    let topic = b.topic("add", 2);
    b.fill(&topic, 0, &["0", "1", "2"]);
    b.fill(&topic, 1, &["other"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    b.drain(&mut *consumer, A, 3);
    consumer.assign(&[add(B, &topic, 1, 0)]).unwrap();
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["other"]);
    assert_eq!(consumer.position(A), Some(3), "not moved");
}

pub(super) fn added_source_replaces_the_former(b: &mut Bench<'_>) {
    let (one, two) = (b.topic("one", 1), b.topic("two", 1));
    b.fill(&one, 0, &["one"]);
    b.fill(&two, 0, &["two"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &one, 0, 0);
    consumer.assign(&[add(A, &two, 0, 0)]).unwrap();
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["two"]);
    b.take_nothing(&mut *consumer);
}

pub(super) fn offset_beyond_the_end_is_a_fault_once(b: &mut Bench<'_>) {
    let topic = b.topic("beyond", 1);
    b.fill(&topic, 0, &["0", "1"]);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 500);
    let (faults, seen) = b.await_fault(&mut *consumer);
    assert_eq!(faults.iter().map(|(s, e)| (*s, e.kind())).collect::<Vec<_>>(), [(A, ErrorKind::OutOfRange)]);
    assert!(seen.is_empty(), "{seen:?}");
    b.fill(&topic, 0, &["2"]);
    b.take_nothing(&mut *consumer);
    consumer.assign(&[Change::Seek(A, 1)]).unwrap();
    assert_eq!(positions(&b.take(&mut *consumer, 2)), [1, 2], "moved, it lives again");
}

pub(super) fn faulty_partition_leaves_others_alone(b: &mut Bench<'_>) {
    let topic = b.topic("fault", 2);
    b.fill(&topic, 0, &["good"]);
    let mut consumer = b.broker().consumer(&Isolation::ReadCommitted.into()).unwrap();
    consumer.assign(&[add(B, &topic, 1, 70), add(A, &topic, 0, 0)]).unwrap();
    let (faults, mut seen) = b.await_fault(&mut *consumer);
    assert_eq!(faults.iter().map(|(s, _)| *s).collect::<Vec<_>>(), [B]);
    if seen.is_empty() {
        seen = b.take(&mut *consumer, 1);
    }
    assert_eq!(texts(&seen), ["good"]);
    consumer.assign(&[Change::Remove(B), add(B, &topic, 1, 0)]).unwrap();
    b.fill(&topic, 1, &["also"]);
    assert_eq!(texts(&b.take(&mut *consumer, 1)), ["also"], "assigned anew, it lives again");
}

pub(super) fn waker_ends_the_next_poll(b: &mut Bench<'_>) {
    let topic = b.topic("wake", 1);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    let before = now(b);
    consumer.waker().wake();
    assert!(consumer.poll(Duration::from_secs(30)).unwrap().is_empty());
    let took = now(b).saturating_sub(before);
    assert!(took < Duration::from_secs(20), "the poll took {took:?}");
}

fn now(b: &mut Bench<'_>) -> Duration {
    let clock: &dyn Clock = b.env().clock();
    clock.now()
}
