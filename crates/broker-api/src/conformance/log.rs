//! Writing and reading without transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bench::{Bench, LIMIT, flush, header, positions, record, send, texts};
use crate::{Change, ErrorKind, Isolation, Outgoing, Source};

pub(super) fn order_is_kept(b: &mut Bench<'_>) {
    let topic = b.topic("order", 1);
    let values: Vec<_> = (0..50).map(|i| i.to_string()).collect();
    let mut producer = b.plain();
    for value in &values {
        b.put(&mut *producer, &topic, 0, &[value]);
    }
    flush(&mut *producer);
    let seen = b.committed(&topic, 0);
    assert_eq!(texts(&seen), values);
    assert_eq!(positions(&seen), (0..50).collect::<Vec<_>>());
}

pub(super) fn keys_and_values_may_be_null_or_empty(b: &mut Bench<'_>) {
    let topic = b.topic("nulls", 1);
    type Bytes = Option<&'static [u8]>;
    let rows: [(Bytes, Bytes); 5] =
        [(None, None), (Some(b""), Some(b"")), (None, Some(b"v")), (Some(b"k"), None), (Some(&[0, 255]), Some(&[0]))];
    let mut producer = b.plain();
    for (key, value) in rows {
        let base = record(&mut *producer, &topic, b.now(), "");
        send(&mut *producer, &Outgoing { key, value, ..base });
    }
    flush(&mut *producer);
    let seen = b.committed(&topic, 0);
    let read: Vec<_> = seen.iter().map(|r| (r.key.as_deref(), r.value.as_deref())).collect();
    assert_eq!(read, rows);
}

pub(super) fn headers_keep_order_duplicates_and_nulls(b: &mut Bench<'_>) {
    let topic = b.topic("headers", 1);
    let headers = [header("b", Some(b"1")), header("a", None), header("b", Some(b"")), header("", Some(b"2"))];
    let mut producer = b.plain();
    let base = record(&mut *producer, &topic, b.now(), "with");
    send(&mut *producer, &Outgoing { headers: &headers, ..base });
    b.put(&mut *producer, &topic, 0, &["without"]);
    flush(&mut *producer);
    let seen = b.committed(&topic, 0);
    let sent: Vec<_> = headers.iter().map(|h| (h.name.to_owned(), h.value.map(<[u8]>::to_vec))).collect();
    assert_eq!(seen[0].headers, sent);
    assert_eq!(seen[1].headers, []);
}

pub(super) fn timestamps_are_kept(b: &mut Bench<'_>) {
    let topic = b.topic("timestamps", 1);
    let times = [b.now(), b.now() - 5_000, 1_357_000_000_000, b.now() + 1_000];
    let mut producer = b.plain();
    for time in times {
        let base = record(&mut *producer, &topic, time, "v");
        send(&mut *producer, &base);
    }
    flush(&mut *producer);
    let read: Vec<_> = b.committed(&topic, 0).iter().map(|r| r.timestamp).collect();
    assert_eq!(read, times);
}

pub(super) fn partitions_are_independent(b: &mut Bench<'_>) {
    let topic = b.topic("partitions", 3);
    b.fill(&topic, 2, &["c0", "c1"]);
    b.fill(&topic, 0, &["a0"]);
    b.fill(&topic, 2, &["c2"]);
    let read: Vec<_> = (0..3).map(|p| b.committed(&topic, p)).collect();
    assert_eq!(texts(&read[0]), ["a0"]);
    assert_eq!(texts(&read[1]), [""; 0]);
    assert_eq!(texts(&read[2]), ["c0", "c1", "c2"]);
    assert_eq!(positions(&read[2]), [0, 1, 2]);
}

pub(super) fn more_than_one_poll_lends(b: &mut Bench<'_>) {
    let topic = b.topic("many", 2);
    let mut producer = b.plain();
    let values: Vec<_> = (0..12_000).map(|i| i.to_string()).collect();
    for (i, value) in values.iter().enumerate() {
        b.put(&mut *producer, &topic, i32::from(i % 3 == 0), &[value]);
    }
    flush(&mut *producer);
    let mut consumer = b.consumer(Isolation::ReadCommitted, &topic, 0, 0);
    consumer.assign(&[Change::Add { source: Source(7), topic: &topic, partition: 1, from: 0 }]).unwrap();
    let seen = b.take(&mut *consumer, values.len());
    for (source, keep) in [(Source(0), false), (Source(7), true)] {
        let of: Vec<_> = seen.iter().filter(|r| r.source == source).cloned().collect();
        let want: Vec<_> =
            values.iter().enumerate().filter(|(i, _)| (i % 3 == 0) == keep).map(|(_, v)| v.clone()).collect();
        assert_eq!(texts(&of), want);
    }
}

pub(super) fn large_values_come_whole(b: &mut Bench<'_>) {
    let topic = b.topic("large", 1);
    let large: Vec<u8> = (0..600_000u32).map(|i| (i % 251) as u8).collect();
    let mut producer = b.plain();
    for size in [600_000, 1, 500_000] {
        let base = record(&mut *producer, &topic, b.now(), "");
        send(&mut *producer, &Outgoing { value: Some(&large[..size]), ..base });
    }
    flush(&mut *producer);
    let seen = b.committed(&topic, 0);
    let sizes: Vec<_> = seen.iter().map(|r| r.value.as_ref().unwrap().len()).collect();
    assert_eq!(sizes, [600_000, 1, 500_000]);
    assert!(seen.iter().all(|r| large.starts_with(r.value.as_ref().unwrap())), "other bytes");
}

pub(super) fn append_time_is_the_brokers(b: &mut Bench<'_>) {
    let configs = [("retention.ms", "-1"), ("message.timestamp.type", "LogAppendTime")];
    let topic = b.topic_with("append-time", 1, &configs);
    let mut producer = b.plain();
    let sent = b.now() - 3_600_000;
    let base = record(&mut *producer, &topic, sent, "v");
    send(&mut *producer, &base);
    flush(&mut *producer);
    let seen = b.committed(&topic, 0);
    assert!(seen[0].timestamp > sent + 1_800_000, "{} is what was sent", seen[0].timestamp);
}

pub(super) fn producers_keep_their_own_order(b: &mut Bench<'_>) {
    let topic = b.topic("two-writers", 1);
    let (mut first, mut second) = (b.plain(), b.plain());
    for i in 0..40 {
        b.put(&mut *first, &topic, 0, &[&format!("a{i}")]);
        b.put(&mut *second, &topic, 0, &[&format!("b{i}")]);
        if i % 7 == 0 {
            flush(&mut *first);
        }
    }
    flush(&mut *first);
    flush(&mut *second);
    let texts = texts(&b.committed(&topic, 0));
    for writer in ["a", "b"] {
        let of: Vec<_> = texts.iter().filter(|t| t.starts_with(writer)).cloned().collect();
        assert_eq!(of, (0..40).map(|i| format!("{writer}{i}")).collect::<Vec<_>>());
    }
}

pub(super) fn topics_have_one_number_per_name(b: &mut Bench<'_>) {
    let (one, two) = (b.topic("one", 1), b.topic("two", 1));
    let mut producer = b.plain();
    let ids = [producer.topic(&one), producer.topic(&two), producer.topic(&one)];
    assert_eq!(ids[0], ids[2]);
    assert_ne!(ids[0], ids[1]);
    b.put(&mut *producer, &one, 0, &["1"]);
    b.put(&mut *producer, &two, 0, &["2"]);
    flush(&mut *producer);
    assert_eq!(texts(&b.committed(&one, 0)), ["1"]);
    assert_eq!(texts(&b.committed(&two, 0)), ["2"]);
}

pub(super) fn flush_reports_a_row_per_partition(b: &mut Bench<'_>) {
    let topic = b.topic("reports", 3);
    let mut producer = b.plain();
    let id = producer.topic(&topic);
    b.put(&mut *producer, &topic, 2, &["a", "b", "c"]);
    b.put(&mut *producer, &topic, 0, &["d"]);
    let flushed = flush(&mut *producer);
    let mut rows: Vec<_> = flushed.delivered.iter().map(|d| (d.topic, d.partition, d.records)).collect();
    rows.sort_by_key(|row| row.1);
    assert_eq!(rows, [(id, 0, 1), (id, 2, 3)]);
    assert!(flushed.delivered.iter().all(|d| d.next.is_none_or(|next| next == [1, 0, 3][d.partition as usize])));
    b.put(&mut *producer, &topic, 2, &["e"]);
    let flushed = flush(&mut *producer);
    let rows: Vec<_> = flushed.delivered.iter().map(|d| (d.partition, d.records)).collect();
    assert_eq!(rows, [(2, 1)], "since the last flush that left nothing");
    assert!(flushed.delivered[0].next.is_none_or(|next| next == 4));
}

/// One record is refused, by `send` or by the flush; the others are written.
fn refused(b: &mut Bench<'_>, topic: &str, bad: &Outgoing<'_>) {
    let mut producer = b.plain();
    b.put(&mut *producer, topic, 0, &["before"]);
    let bad = Outgoing { topic: producer.topic(topic), tag: 77, ..*bad };
    let at_once = producer.send(&bad).err();
    b.put(&mut *producer, topic, 0, &["after"]);
    let flushed = producer.flush(LIMIT).unwrap();
    assert_eq!(flushed.outstanding, 0);
    let error = match at_once {
        Some(error) => {
            assert!(flushed.failed.is_empty(), "said twice: {:?}", flushed.failed);
            error
        }
        None => {
            assert_eq!(flushed.failed.iter().map(|f| f.tag).collect::<Vec<_>>(), [77]);
            flushed.failed[0].error.clone()
        }
    };
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    assert_eq!(texts(&b.committed(topic, 0)), ["before", "after"]);
}

/// A topic that takes small records only.
fn small(b: &mut Bench<'_>) -> String {
    b.topic_with("small", 1, &[("retention.ms", "-1"), ("max.message.bytes", "2000")])
}

/// A value that is too large there. No repetition: the size is meant after compression, too.
fn noise() -> Vec<u8> {
    (0..3_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

pub(super) fn record_over_the_topics_size_is_refused(b: &mut Bench<'_>) {
    let topic = small(b);
    let mut any = b.plain();
    let base = record(&mut *any, &topic, b.now(), "");
    refused(b, &topic, &Outgoing { value: Some(&noise()), ..base });
}

pub(super) fn record_from_the_future_is_refused(b: &mut Bench<'_>) {
    let topic = b.topic("future", 1);
    let mut any = b.plain();
    let base = record(&mut *any, &topic, b.now() + 7_200_000, "v");
    refused(b, &topic, &base);
}

pub(super) fn null_key_is_refused_where_compacted(b: &mut Bench<'_>) {
    let topic = b.topic_with("compacted", 1, &[("cleanup.policy", "compact")]);
    let mut any = b.plain();
    let base = record(&mut *any, &topic, b.now(), "v");
    refused(b, &topic, &Outgoing { key: None, ..base });
}

/// A record is refused, and later ones of its partition are written: it is named at once, or when all is written again.
pub(super) fn refused_record_amid_others_is_named(b: &mut Bench<'_>) {
    const BAD: u64 = 77;
    let (topic, noise) = (small(b), noise());
    let mut producer = b.plain();
    b.put(&mut *producer, &topic, 0, &["so that the client knows the topic"]);
    flush(&mut *producer);
    for round in 1..=2 {
        b.put(&mut *producer, &topic, 0, &["before"]);
        let base = record(&mut *producer, &topic, b.now(), "");
        send(&mut *producer, &Outgoing { value: Some(&noise), tag: BAD, ..base });
        b.put(&mut *producer, &topic, 0, &["with it"]);
        let mut failed = BTreeMap::new();
        // Flushed in between, so that they are batches of their own.
        for (more, wait) in [("after", Duration::ZERO), ("later", Duration::ZERO), ("last", LIMIT)] {
            b.pass(Duration::from_millis(50));
            b.put(&mut *producer, &topic, 0, &[more]);
            let flushed = producer.flush(wait).unwrap();
            failed.extend(flushed.failed.iter().map(|f| (f.tag, f.error.kind())));
            assert!(wait.is_zero() || flushed.outstanding == 0);
        }
        assert!(!failed.is_empty(), "round {round}: nothing was refused");
        failed.retain(|_, kind| *kind == ErrorKind::Refused);
        if !failed.is_empty() {
            assert_eq!(failed.into_keys().collect::<Vec<_>>(), [BAD]);
            // And everything goes on as before.
            b.put(&mut *producer, &topic, 0, &["next"]);
            flush(&mut *producer);
            assert_eq!(texts(&b.committed(&topic, 0)).last().map(String::as_str), Some("next"));
            return;
        }
    }
    panic!("it was not named");
}

pub(super) fn send_refuses_what_no_broker_takes(b: &mut Bench<'_>) {
    let topic = b.topic("huge", 1);
    let mut producer = b.plain();
    let huge = vec![7; 20 << 20];
    let base = record(&mut *producer, &topic, b.now(), "");
    let error = producer.send(&Outgoing { value: Some(&huge), ..base }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error:?}");
    b.put(&mut *producer, &topic, 0, &["small"]);
    flush(&mut *producer);
    assert_eq!(texts(&b.committed(&topic, 0)), ["small"]);
}

pub(super) fn record_for_an_unknown_partition_fails(b: &mut Bench<'_>) {
    let topic = b.topic("one-partition", 1);
    b.fill(&topic, 0, &["known"]);
    let mut producer = b.plain();
    b.put(&mut *producer, &topic, 0, &["so that the client knows the topic"]);
    flush(&mut *producer);
    let base = record(&mut *producer, &topic, b.now(), "v");
    let at_once = producer.send(&Outgoing { partition: 5, ..base }).err();
    let later = producer.flush(LIMIT).unwrap();
    let error = at_once.unwrap_or_else(|| later.failed[0].error.clone());
    assert_eq!(error.kind(), ErrorKind::UnknownTopic, "{error:?}");
}

pub(super) fn old_timestamps_are_taken(b: &mut Bench<'_>) {
    let topic = b.topic("old", 1);
    let mut producer = b.plain();
    let base = record(&mut *producer, &topic, 1_357_034_400_000, "2013");
    send(&mut *producer, &base);
    flush(&mut *producer);
    assert_eq!(b.committed(&topic, 0)[0].timestamp, 1_357_034_400_000);
}
