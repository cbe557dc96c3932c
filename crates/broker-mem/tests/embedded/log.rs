//! The log: what a poll lends, search by time, holes, topics that come and go.

use crate::common::*;
use millpond_broker_api::{
    At, Broker, Change, CommitOutcome, Consumer, ErrorKind, Isolation, NewTopic, Offset, Outgoing, Producer,
    ProducerOptions, Source, Stable,
};
use millpond_broker_mem::{Dumped, EmbeddedBroker, Options, Visibility};

/// Writes values of partition 0 with times, in batches of one.
fn write_at(broker: &EmbeddedBroker, topic: &str, times: &[i64]) {
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let topic = producer.topic(topic);
    for timestamp in times {
        let (timestamp, key) = (*timestamp, Some(&b"k"[..]));
        let record = Outgoing { topic, partition: 0, timestamp, key, value: key, headers: &[], tag: 0 };
        let _ = producer.send(&record).unwrap();
        assert!(producer.flush(NOW).unwrap().failed.is_empty());
    }
}

fn offset(broker: &EmbeddedBroker, topic: &str, at: At) -> Offset {
    broker.admin().unwrap().offsets(&[(topic, 0, at)]).unwrap().remove(0).unwrap()
}

#[test]
fn search_by_time_finds_the_first_in_any_order() {
    let (broker, _) = broker();
    write_at(&broker, "t", &[10, 50, 30, 40, 20, 60]);
    for (time, want) in [(0, 0), (10, 0), (11, 1), (50, 1), (51, 5), (60, 5), (61, 6)] {
        assert_eq!(offset(&broker, "t", At::Time(time)), want, "time {time}");
    }
    broker.admin().unwrap().delete_records(&[("t", 0, 2)]).unwrap().remove(0).unwrap();
    for (time, want) in [(0, 2), (30, 2), (35, 3), (45, 5), (61, 6)] {
        assert_eq!(offset(&broker, "t", At::Time(time)), want, "time {time}, behind the start");
    }
}

#[test]
fn poll_lends_no_more_than_its_bounds() {
    let (broker, _) = broker_with(Options { max_poll_records: 3, max_poll_bytes: 100, ..Options::default() });
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    for value in ["0", "1", "2", "3", "4"] {
        send(&mut *producer, 0, value);
    }
    let (large, larger) = ("x".repeat(45), "y".repeat(500));
    for value in [&large, &large, &larger, &large] {
        send(&mut *producer, 0, value);
    }
    producer.flush(NOW).unwrap();
    let mut consumer = consumer(&broker, Isolation::ReadCommitted, 0);
    let mut lens = || poll(&mut *consumer).iter().map(String::len).collect::<Vec<_>>();
    assert_eq!((lens(), lens()), (vec![1, 1, 1], vec![1, 1, 45]));
    assert_eq!((lens(), lens(), lens(), lens()), (vec![45], vec![500], vec![45], vec![]));
}

#[test]
fn full_partition_does_not_starve_the_others() {
    let (broker, _) = broker_with(Options { max_poll_records: 4, ..Options::default() });
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    (0..100).for_each(|n| send(&mut *producer, 0, &n.to_string()));
    send(&mut *producer, 1, "other");
    producer.flush(NOW).unwrap();
    let mut consumer = consumer(&broker, Isolation::ReadCommitted, 0);
    consumer.assign(&[Change::Add { source: Source(1), topic: "t", partition: 1, from: 0 }]).unwrap();
    assert_eq!(poll(&mut *consumer), ["0", "1", "2", "3"]);
    assert_eq!(poll(&mut *consumer), ["other", "4", "5", "6"]);
}

#[test]
fn large_records_do_not_starve_the_others() {
    let (broker, _) = broker_with(Options { max_poll_bytes: 1_000, ..Options::default() });
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let (zero, one) = ("0".repeat(300), "1".repeat(300));
    (0..10).for_each(|_| send(&mut *producer, 0, &zero));
    send(&mut *producer, 1, &one);
    producer.flush(NOW).unwrap();
    let mut consumer = consumer(&broker, Isolation::ReadCommitted, 0);
    consumer.assign(&[Change::Add { source: Source(1), topic: "t", partition: 1, from: 0 }]).unwrap();
    assert_eq!(poll(&mut *consumer), [zero.as_str()]);
    assert_eq!(poll(&mut *consumer), [one.as_str()]);
}

#[test]
fn producer_writes_by_itself_when_its_buffer_is_full() {
    let (broker, _) = broker();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let value = "v".repeat(1_000);
    (0..100).for_each(|_| send(&mut *producer, 0, &value));
    assert_eq!(offset(&broker, "t", At::End), 99);
    let flushed = producer.flush(NOW).unwrap();
    assert_eq!((flushed.outstanding, flushed.delivered[0].records), (0, 100));
    assert_eq!(offset(&broker, "t", At::End), 100);
}

#[test]
fn tombstones_stay_for_their_retention() {
    let (broker, clock) = broker();
    create(&broker, "c", 1, &[("cleanup.policy", "compact"), ("delete.retention.ms", "1000")]);
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let topic = producer.topic("c");
    for value in [Some(&b"v"[..]), None] {
        let record = Outgoing { topic, partition: 0, timestamp: 0, key: Some(b"k"), value, headers: &[], tag: 0 };
        let _ = producer.send(&record).unwrap();
    }
    producer.flush(NOW).unwrap();
    let left = |broker: &EmbeddedBroker| {
        broker.compact("c").unwrap();
        broker.dump("c", 0).unwrap().iter().map(|(offset, _)| *offset).collect::<Vec<_>>()
    };
    assert_eq!(left(&broker), [1]);
    clock.advance(SECOND - MS);
    assert_eq!(left(&broker), [1]);
    clock.advance(MS);
    assert_eq!(left(&broker), [0; 0]);
    assert_eq!((offset(&broker, "c", At::Start), offset(&broker, "c", At::End)), (0, 2));
}

#[test]
fn retention_of_a_week_is_the_default_and_waits_to_be_asked() {
    let (broker, clock) = broker();
    let now = broker.clock().wall_ms();
    let week = 7 * 24 * 3_600_000;
    write_at(&broker, "t", &[0, now - week + 1_000, 0]);
    assert_eq!(offset(&broker, "t", At::Start), 0);
    broker.expire("t").unwrap();
    assert_eq!(offset(&broker, "t", At::Start), 1);
    clock.advance(2 * SECOND);
    assert_eq!(offset(&broker, "t", At::Start), 1);
    broker.expire("t").unwrap();
    assert_eq!(offset(&broker, "t", At::Start), 3);
    assert_eq!(broker.expire("none").unwrap_err().kind(), ErrorKind::UnknownTopic);
    assert_eq!(broker.compact("none").unwrap_err().kind(), ErrorKind::UnknownTopic);
}

#[test]
fn open_transactions_do_not_expire() {
    let (broker, _) = broker();
    let mut producer = transactional(&broker, "tx");
    broker.admin().unwrap().set_configs("t", &[("retention.ms", "0")]).unwrap();
    write_at(&broker, "t", &[0]);
    let topic = producer.topic("t");
    let record = Outgoing { topic, partition: 0, timestamp: 0, key: None, value: None, headers: &[], tag: 0 };
    let _ = producer.send(&record).unwrap();
    producer.flush(NOW).unwrap();
    broker.expire("t").unwrap();
    assert_eq!(offset(&broker, "t", At::Start), 1);
    is_committed(&producer.commit(&alone("g"), &[], NOW));
    broker.expire("t").unwrap();
    assert_eq!(offset(&broker, "t", At::Start), 3);
}

#[test]
fn timestamps_may_be_limited_in_both_directions() {
    let (broker, _) = broker();
    let limits = [("message.timestamp.before.max.ms", "1000"), ("message.timestamp.after.max.ms", "2000")];
    broker.admin().unwrap().set_configs("t", &limits).unwrap();
    let now = broker.clock().wall_ms();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let topic = producer.topic("t");
    for (tag, timestamp) in [now - 1_001, now - 1_000, now, now + 2_000, now + 2_001].into_iter().enumerate() {
        let record = Outgoing {
            topic,
            partition: 0,
            timestamp,
            key: Some(b"k"),
            value: Some(b"v"),
            headers: &[],
            tag: tag as u64,
        };
        let _ = producer.send(&record).unwrap();
    }
    let flushed = producer.flush(NOW).unwrap();
    let failed: Vec<_> = flushed.failed.iter().map(|f| (f.tag, f.error.kind())).collect();
    assert_eq!(failed, [(0, ErrorKind::Refused), (4, ErrorKind::Refused)]);
    assert_eq!((flushed.delivered[0].records, flushed.delivered[0].next), (3, Some(3)));
}

#[test]
fn deleted_topic_takes_its_offsets_along() {
    let (broker, _) = broker();
    let mut offsets = broker.offsets().unwrap();
    let mut producer = transactional(&broker, "tx");
    is_committed(&offsets.commit(&alone("g"), &at(5), NOW));
    broker.admin().unwrap().delete_topics(&["t"]).unwrap().remove(0).unwrap();
    create(&broker, "t", 1, &[]);
    assert_eq!(offsets.fetch_stable("g", &[("t", 0)], NOW).unwrap(), Stable::Offsets(vec![None]));
    send(&mut *producer, 0, "a");
    is_committed(&producer.commit(&alone("g"), &at(1), NOW));
    assert_eq!(committed(&broker, 0), ["a"]);
}

#[test]
fn topic_that_goes_under_its_clients() {
    let (broker, _) = broker();
    let (mut producer, mut reader) =
        (broker.producer(&ProducerOptions::default()).unwrap(), consumer(&broker, Isolation::ReadCommitted, 0));
    send(&mut *producer, 0, "a");
    producer.flush(NOW).unwrap();
    assert_eq!(poll(&mut *reader), ["a"]);
    broker.admin().unwrap().delete_topics(&["t"]).unwrap().remove(0).unwrap();
    let faults = reader.poll(NOW).unwrap().faults.to_vec();
    assert_eq!(faults.iter().map(|(s, e)| (*s, e.kind())).collect::<Vec<_>>(), [(Source(0), ErrorKind::UnknownTopic)]);
    assert!(reader.poll(NOW).unwrap().faults.is_empty(), "told once");
    send(&mut *producer, 0, "b");
    let failed = producer.flush(NOW).unwrap().failed.to_vec();
    assert_eq!(failed.iter().map(|f| (f.tag, f.error.kind())).collect::<Vec<_>>(), [(7, ErrorKind::UnknownTopic)]);
    create(&broker, "t", 1, &[]);
    send(&mut *producer, 0, "c");
    assert!(producer.flush(NOW).unwrap().failed.is_empty());
    assert_eq!(poll(&mut *reader), [""; 0], "dead until it is moved");
    reader.assign(&[Change::Seek(Source(0), 0)]).unwrap();
    assert_eq!(poll(&mut *reader), ["c"]);
}

#[test]
fn settings_without_sense_are_refused() {
    let (broker, _) = broker();
    let bad = |name, partitions, replication, configs| {
        let topic = NewTopic { name, partitions, replication, configs };
        broker.admin().unwrap().create_topics(&[topic]).unwrap().remove(0).unwrap_err().kind()
    };
    let configs: [&[(&str, &str)]; 5] = [
        &[("retention.m", "1")],
        &[("retention.ms", "-2")],
        &[("retention.ms", "soon")],
        &[("cleanup.policy", "compress")],
        &[("message.timestamp.type", "Now")],
    ];
    for config in configs {
        assert_eq!(bad("n", 1, None, config), ErrorKind::Fatal, "{config:?}");
    }
    let long = "x".repeat(250);
    for name in ["", ".", "..", "a b", "a/b", &long] {
        assert_eq!(bad(name, 1, None, &[]), ErrorKind::Fatal, "`{name}`");
    }
    assert_eq!(bad("n", 0, None, &[]), ErrorKind::Fatal);
    assert_eq!(bad("n", 1, Some(3), &[]), ErrorKind::Fatal);
    let error = broker.admin().unwrap().set_configs("t", &[("retention.ms", "1"), ("nonsense", "1")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fatal);
    let info = broker.admin().unwrap().describe(&["t"]).unwrap().remove(0).unwrap();
    assert_eq!(info.configs, [], "all or nothing");
}

#[test]
fn dump_shows_no_keys_and_values_in_its_text() {
    let (broker, _) = broker();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    send(&mut *producer, 0, "secret");
    producer.flush(NOW).unwrap();
    let text = format!("{:?}", broker.dump("t", 0).unwrap());
    assert!(!text.contains("secret") && !text.contains("115"), "{text}");
}

/// A generator of the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What a reader has to see, by the dump.
fn want(dump: &[(Offset, Dumped)], isolation: Isolation, from: Offset, end: Offset) -> Vec<Offset> {
    let visible = |dumped: &Dumped| match (dumped, isolation) {
        (Dumped::Marker { .. }, _) => false,
        (Dumped::Record(_), Isolation::ReadUncommitted) => true,
        (Dumped::Record(r), Isolation::ReadCommitted) => {
            matches!(r.visibility, Visibility::Plain | Visibility::Committed)
        }
    };
    let rows = dump.iter().filter(|(offset, dumped)| (from..end).contains(offset) && visible(dumped));
    rows.map(|(offset, _)| *offset).collect()
}

/// All offsets that a reader sees from an offset on, and where it ends.
fn seen(broker: &EmbeddedBroker, isolation: Isolation, from: Offset) -> (Vec<Offset>, Option<Offset>) {
    let mut consumer: Box<dyn Consumer> = broker.consumer(&isolation.into()).unwrap();
    consumer.assign(&[Change::Add { source: Source(0), topic: "c", partition: 0, from }]).unwrap();
    let mut all = Vec::new();
    loop {
        let batch = consumer.poll(NOW).unwrap();
        assert!(batch.faults.is_empty(), "{:?}", batch.faults);
        if batch.is_empty() {
            return (all, consumer.position(Source(0)));
        }
        all.extend(batch.iter().map(|r| r.offset));
    }
}

/// Writes, ends transactions, compacts and deletes at random, and checks what readers see from everywhere.
#[test]
fn readers_see_what_the_log_holds() {
    for seed in 0..40 {
        let options = Options { max_poll_records: 3 + seed as usize % 5, ..Options::default() };
        let (broker, _) = broker_with(options);
        create(&broker, "c", 1, &[("cleanup.policy", "compact,delete"), ("retention.ms", "-1")]);
        let mut dice = Dice(seed);
        let mut producers: Vec<Box<dyn Producer>> = vec![broker.producer(&ProducerOptions::default()).unwrap()];
        producers.extend(["a", "b"].map(|id| transactional(&broker, id)));
        for _ in 0..60 {
            let who = dice.below(3) as usize;
            let producer = &mut producers[who];
            match dice.below(12) {
                0..=6 => {
                    let topic = producer.topic("c");
                    for _ in 0..=dice.below(4) {
                        let key = [dice.below(6) as u8];
                        let value = (dice.below(4) > 0).then_some(&b"v"[..]);
                        let record = Outgoing {
                            topic,
                            partition: 0,
                            timestamp: 0,
                            key: Some(&key),
                            value,
                            headers: &[],
                            tag: 0,
                        };
                        let _ = producer.send(&record).unwrap();
                    }
                    assert_eq!(producer.flush(NOW).unwrap().outstanding, 0);
                }
                7 | 8 if who > 0 => is_committed(&producer.commit(&alone("g"), &[], NOW)),
                9 if who > 0 => producer.abort(NOW).unwrap(),
                10 => broker.compact("c").unwrap(),
                11 => {
                    let below = offset(&broker, "c", At::Start) + dice.below(4) as Offset;
                    let below = below.min(offset(&broker, "c", At::End));
                    broker.admin().unwrap().delete_records(&[("c", 0, below)]).unwrap().remove(0).unwrap();
                }
                _ => {}
            }
            let dump = broker.dump("c", 0).unwrap();
            assert!(dump.windows(2).all(|w| w[0].0 < w[1].0), "each offset once, in order");
            assert!(offset(&broker, "c", At::Start) <= offset(&broker, "c", At::StableEnd));
            for (isolation, end) in [(Isolation::ReadCommitted, At::StableEnd), (Isolation::ReadUncommitted, At::End)] {
                let end = offset(&broker, "c", end);
                for from in offset(&broker, "c", At::Start)..=end {
                    let (offsets, position) = seen(&broker, isolation, from);
                    assert_eq!(offsets, want(&dump, isolation, from, end), "seed {seed} {isolation:?} from {from}");
                    assert_eq!(position, Some(end));
                }
            }
        }
    }
}

#[test]
fn same_calls_give_the_same_broker() {
    let run = || {
        let (broker, clock) = broker();
        for id in ["b", "a", "c"] {
            let mut producer = transactional(&broker, id);
            send(&mut *producer, 0, id);
            producer.flush(NOW).unwrap();
            std::mem::forget(producer);
        }
        clock.advance(60 * SECOND);
        let mut fenced = broker.producer(&ProducerOptions::transactional("a")).unwrap();
        fenced.init(NOW).unwrap();
        send(&mut *fenced, 0, "again");
        let outcome = fenced.commit(&alone("g"), &at(9), NOW);
        assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
        (broker.dump("t", 0).unwrap(), broker.group("g"))
    };
    let (dump, group) = run();
    assert_eq!(dump.len(), 8);
    assert_eq!((dump, group), run());
}
