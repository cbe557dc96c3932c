//! Records that go: on demand, by compaction, by age.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bench::{Bench, Seen, abort, commit, flush, positions, record, send, texts};
use crate::{At, Change, ErrorKind, Isolation, Offset, Result, Source};

const COMPACTED: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("segment.ms", "500"),
    ("min.cleanable.dirty.ratio", "0.001"),
    ("delete.retention.ms", "100"),
];

fn delete(b: &Bench<'_>, topic: &str, below: Offset) -> Result<Offset> {
    b.broker().admin().unwrap().delete_records(&[(topic, 0, below)]).unwrap().remove(0)
}

pub(super) fn deleted_records_move_the_start(b: &mut Bench<'_>) {
    let topic = b.topic("delete", 1);
    b.fill(&topic, 0, &["0", "1", "2", "3"]);
    assert_eq!(delete(b, &topic, 3).unwrap(), 3);
    assert_eq!(b.offset(&topic, 0, At::Start), 3);
    assert_eq!(b.offset(&topic, 0, At::End), 4);
    assert_eq!(b.offset(&topic, 0, At::Time(0)), 3);
    assert_eq!(texts(&b.committed_from(&topic, 0, 3)), ["3"]);
}

pub(super) fn reading_below_the_start_is_a_fault(b: &mut Bench<'_>) {
    let topic = b.topic("below", 1);
    b.fill(&topic, 0, &["0", "1", "2"]);
    delete(b, &topic, 2).unwrap();
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    let (faults, seen) = b.await_fault(&mut *consumer);
    assert_eq!(faults.iter().map(|(s, e)| (*s, e.kind())).collect::<Vec<_>>(), [(Source(0), ErrorKind::OutOfRange)]);
    assert!(seen.is_empty(), "{seen:?}");
    b.take_nothing(&mut *consumer);
    consumer.assign(&[Change::Seek(Source(0), 2)]).unwrap();
    assert_eq!(positions(&b.take(&mut *consumer, 1)), [2]);
}

pub(super) fn minus_one_deletes_all(b: &mut Bench<'_>) {
    let topic = b.topic("all", 1);
    b.fill(&topic, 0, &["0", "1", "2"]);
    assert_eq!(delete(b, &topic, -1).unwrap(), 3);
    assert_eq!((b.offset(&topic, 0, At::Start), b.offset(&topic, 0, At::End)), (3, 3));
    b.fill(&topic, 0, &["3"]);
    assert_eq!(positions(&b.committed_from(&topic, 0, 3)), [3], "offsets are not used again");
}

pub(super) fn deletion_beyond_the_end_is_out_of_range(b: &mut Bench<'_>) {
    let topic = b.topic("beyond", 1);
    b.fill(&topic, 0, &["0", "1"]);
    assert_eq!(delete(b, &topic, 3).unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(b.offset(&topic, 0, At::Start), 0);
    assert_eq!(delete(b, &topic, 2).unwrap(), 2, "the end itself will do");
}

pub(super) fn deletion_does_not_go_back(b: &mut Bench<'_>) {
    let topic = b.topic("back", 1);
    b.fill(&topic, 0, &["0", "1", "2"]);
    assert_eq!(delete(b, &topic, 2).unwrap(), 2);
    assert_eq!(delete(b, &topic, 1).unwrap(), 2);
    assert_eq!(b.offset(&topic, 0, At::Start), 2);
}

pub(super) fn deletion_depends_on_the_policy(b: &mut Bench<'_>) {
    for (policy, allowed) in [("delete", true), ("compact", false), ("compact,delete", true), ("", true)] {
        let topic = b.topic_with("policy", 1, &[("cleanup.policy", policy), ("retention.ms", "-1")]);
        b.fill(&topic, 0, &["0", "1"]);
        match delete(b, &topic, 1) {
            Ok(start) => assert!(allowed && start == 1, "policy `{policy}`: {start}"),
            Err(e) => assert!(!allowed && e.kind() == ErrorKind::Refused, "policy `{policy}`: {e:?}"),
        }
    }
}

pub(super) fn deletion_answers_each_item(b: &mut Bench<'_>) {
    let (topic, unknown) = (b.topic("items", 2), b.name("unknown"));
    b.fill(&topic, 1, &["0", "1"]);
    let mut admin = b.broker().admin().unwrap();
    let answers = admin.delete_records(&[(&unknown, 0, 1), (&topic, 1, 1), (&topic, 0, 7), (&topic, 2, 0)]).unwrap();
    let kinds: Vec<_> = answers.iter().map(|a| a.as_ref().map_err(crate::Error::kind).copied()).collect();
    let (unknown, range) = (Err(ErrorKind::UnknownTopic), Err(ErrorKind::OutOfRange));
    assert_eq!(kinds, [unknown, Ok(1), range, unknown]);
}

/// What a reader makes of a compacted topic, without what the environment may have added.
fn fold(seen: &[Seen]) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for record in seen {
        let key = String::from_utf8_lossy(record.key.as_ref().unwrap()).into_owned();
        match &record.value {
            Some(_) => rows.insert(key, record.text()),
            None => rows.remove(&key),
        };
    }
    rows.retain(|key, _| !key.starts_with("tick"));
    rows
}

fn own(seen: Vec<Seen>) -> Vec<Seen> {
    seen.into_iter().filter(|r| !r.key.as_ref().unwrap().starts_with(b"tick")).collect()
}

pub(super) fn compaction_keeps_the_last_of_each_key(b: &mut Bench<'_>) {
    let topic = b.topic_with("compact", 1, COMPACTED);
    b.fill_keyed(&topic, &[("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("c", Some("4")), ("a", Some("5"))]);
    b.env().compact(&topic).unwrap();
    let seen = own(b.committed(&topic, 0));
    assert_eq!(texts(&seen), ["2", "4", "5"]);
    assert_eq!(positions(&seen), [1, 3, 4], "offsets stay");
}

pub(super) fn compaction_moves_neither_start_nor_end(b: &mut Bench<'_>) {
    let topic = b.topic_with("compact", 1, COMPACTED);
    let rows: Vec<_> = (0..50).map(|_| ("k", Some("v"))).collect();
    b.fill_keyed(&topic, &rows);
    b.env().compact(&topic).unwrap();
    assert_eq!(b.offset(&topic, 0, At::Start), 0);
    assert!(b.offset(&topic, 0, At::End) >= 50);
    b.fill_keyed(&topic, &[("k", Some("w"))]);
    let last = own(b.committed(&topic, 0)).pop().unwrap();
    assert!(last.text() == "w" && last.offset >= 50, "{last:?}");
}

pub(super) fn reading_starts_inside_a_hole(b: &mut Bench<'_>) {
    let topic = b.topic_with("hole", 1, COMPACTED);
    b.fill_keyed(&topic, &[("a", Some("0")), ("b", Some("1")), ("b", Some("2")), ("b", Some("3")), ("b", Some("4"))]);
    b.env().compact(&topic).unwrap();
    for from in [1, 2, 4] {
        let first = b.committed_from(&topic, 0, from).remove(0);
        assert_eq!((first.offset, first.text()), (4, "4".to_owned()), "from {from}");
    }
}

pub(super) fn tombstones_stay_then_go(b: &mut Bench<'_>) {
    let configs: Vec<_> =
        COMPACTED.iter().map(|&(k, v)| if k == "delete.retention.ms" { (k, "86400000") } else { (k, v) }).collect();
    let topic = b.topic_with("tombstones", 1, &configs);
    b.fill_keyed(&topic, &[("a", Some("1")), ("b", Some("2")), ("a", None)]);
    b.env().compact(&topic).unwrap();
    assert_eq!(texts(&own(b.committed(&topic, 0))), ["2", "null"], "as long as delete.retention.ms says");
    let quick = b.topic_with("tombstones", 1, COMPACTED);
    b.fill_keyed(&quick, &[("a", Some("1")), ("b", Some("2")), ("a", None)]);
    for _ in 0..10 {
        b.env().compact(&quick).unwrap();
        if texts(&own(b.committed(&quick, 0))) == ["2"] {
            return;
        }
        b.pass(Duration::from_secs(1));
    }
    panic!("the tombstone stays: {:?}", b.committed(&quick, 0));
}

pub(super) fn compaction_of_transactions(b: &mut Bench<'_>) {
    let topic = b.topic_with("changelog", 1, COMPACTED);
    let mut producer = b.transactional_alone();
    let mut want = BTreeMap::new();
    for round in 0..6 {
        let keep = round % 3 != 2;
        for k in 0..20 {
            let (key, value) = (format!("k{k}"), format!("{round}"));
            let dead = round == 4 && k % 5 == 0;
            b.put_keyed(&mut *producer, &topic, &[(&key, (!dead).then_some(&value))]);
            match (keep, dead) {
                (true, true) => drop(want.remove(&key)),
                (true, false) => drop(want.insert(key, value)),
                _ => {}
            }
        }
        flush(&mut *producer);
        if keep { commit(&mut *producer) } else { abort(&mut *producer) }
    }
    b.settled(&topic, 0);
    assert_eq!(fold(&b.committed(&topic, 0)), want);
    b.env().compact(&topic).unwrap();
    // Reading to the end: whatever is left there, the position gets past it.
    let seen = b.committed(&topic, 0);
    assert_eq!(fold(&seen), want);
    assert!(own(seen).len() <= 20, "superseded records are gone");
}

pub(super) fn compaction_leaves_open_transactions_alone(b: &mut Bench<'_>) {
    let topic = b.topic_with("open", 1, COMPACTED);
    b.fill_keyed(&topic, &[("a", Some("old"))]);
    let mut producer = b.transactional_alone();
    b.put_keyed(&mut *producer, &topic, &[("a", Some("open"))]);
    flush(&mut *producer);
    b.env().compact(&topic).unwrap();
    abort(&mut *producer);
    assert_eq!(texts(&own(b.committed(&topic, 0))), ["old"], "an aborted record supersedes nothing");
}

/// Writes values that are so old.
fn fill_aged(b: &Bench<'_>, topic: &str, age_ms: i64, values: &[&str]) {
    let mut producer = b.plain();
    for value in values {
        let old = record(&mut *producer, topic, b.now() - age_ms, value);
        send(&mut *producer, &old);
    }
    flush(&mut *producer);
}

pub(super) fn old_records_expire(b: &mut Bench<'_>) {
    let topic = b.topic_with("expire", 1, &[("retention.ms", "3600000")]);
    fill_aged(b, &topic, 7_200_000, &["0", "1"]);
    b.env().expire(&topic).unwrap();
    assert_eq!((b.offset(&topic, 0, At::Start), b.offset(&topic, 0, At::End)), (2, 2));
    fill_aged(b, &topic, 0, &["2"]);
    b.env().expire(&topic).unwrap();
    assert_eq!(b.offset(&topic, 0, At::Start), 2, "a young one stays");
    assert_eq!(positions(&b.committed_from(&topic, 0, 2)), [2]);
}

pub(super) fn expiry_under_a_reader_is_a_fault(b: &mut Bench<'_>) {
    let topic = b.topic_with("expire", 1, &[("retention.ms", "3600000")]);
    fill_aged(b, &topic, 7_200_000, &["0", "1", "2"]);
    b.env().expire(&topic).unwrap();
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 1);
    let (faults, seen) = b.await_fault(&mut *consumer);
    assert_eq!(faults[0].1.kind(), ErrorKind::OutOfRange);
    assert!(seen.is_empty(), "{seen:?}");
}

pub(super) fn records_without_retention_stay(b: &mut Bench<'_>) {
    let topic = b.topic("for-ever", 1);
    fill_aged(b, &topic, 400_000_000_000, &["0", "1"]);
    b.env().expire(&topic).unwrap();
    assert_eq!(texts(&b.committed(&topic, 0)), ["0", "1"]);
}

pub(super) fn compacted_topics_do_not_expire(b: &mut Bench<'_>) {
    let topic = b.topic_with("kept", 1, &[("cleanup.policy", "compact"), ("retention.ms", "1000")]);
    fill_aged(b, &topic, 7_200_000, &["0"]);
    b.env().expire(&topic).unwrap();
    assert_eq!(texts(&b.committed(&topic, 0)), ["0"]);
}
