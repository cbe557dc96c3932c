//! Writing and reading without transactions.

use super::bench::{Bench, flush, header, positions, record, send, texts};
use crate::{Change, Isolation, Outgoing, Source};

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
    let rows: [(Option<&[u8]>, Option<&[u8]>); 5] =
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
    let times = [b.now(), b.now() - 5_000, 1_357_000_000_000, 0, b.now() + 1_000];
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
