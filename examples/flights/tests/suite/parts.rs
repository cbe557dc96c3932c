//! The parts that need no application: topics and replay, lag, totals; each on a broker of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use millpond::broker::{
    At, Broker, Change, CommitOutcome, Isolation, Member, NewTopic, Outgoing, ProducerOptions, Sent, Source,
};
use millpond::changelog::partition_for_key;
use millpond::prelude::*;
use millpond_example_flights::data::{Data, Input};
use millpond_example_flights::error::{ErrorKind, Result};
use millpond_example_flights::flight::Flight;
use millpond_example_flights::lag::{Lag, LagMeter};
use millpond_example_flights::load::{Replayed, create_topics, replay};
use millpond_example_flights::options::ReplayOptions;
use millpond_example_flights::ports::Ports;
use millpond_example_flights::show::{to_json, totals};

use crate::expected;

fn options(rate: Option<u32>, repeat: u32) -> ReplayOptions {
    ReplayOptions { data: Data::January, repeat, rate }
}

fn replay_all(broker: &EmbeddedBroker, options: &ReplayOptions, ports: &Ports, replayed: &Replayed) -> Result<()> {
    replay(broker, &Input::find(&options.data)?, options, ports, replayed)
}

fn create(broker: &EmbeddedBroker, name: &str, partitions: i32, configs: &[(&str, &str)]) {
    let topic = NewTopic { name, partitions, replication: None, configs };
    broker.admin().unwrap().create_topics(&[topic]).unwrap().remove(0).unwrap();
}

/// Writes to `carrier-totals`, in a transaction that is committed or left open.
fn write_totals(broker: &EmbeddedBroker, id: &str, records: &[(&str, Option<&str>)], commit: bool) {
    let mut producer = broker.producer(&ProducerOptions::transactional(id)).unwrap();
    producer.init(Duration::from_secs(1)).unwrap();
    let topic = producer.topic("carrier-totals");
    for (key, value) in records {
        let record = Outgoing {
            topic,
            partition: partition_for_key(key.as_bytes(), 4),
            timestamp: 0,
            key: Some(key.as_bytes()),
            value: value.map(str::as_bytes),
            headers: &[],
            tag: 0,
        };
        assert!(matches!(producer.send(&record).unwrap(), Sent::Queued));
    }
    assert_eq!(producer.flush(Duration::from_secs(1)).unwrap().outstanding, 0);
    if commit {
        let nobody = Member { group: "none".into(), member_id: "".into(), instance_id: None, generation: 0 };
        let outcome = producer.commit(&nobody, &[], Duration::from_secs(1));
        assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
    }
}

fn value(flights: u64) -> String {
    format!(r#"{{"flights":{flights},"cancelled":0,"dep_delay_min_sum":-{flights},"distance_mi_sum":1}}"#)
}

#[test]
fn january_arrives_whole_by_flight_number_and_at_its_time() {
    let broker = EmbeddedBroker::new();
    create_topics(&broker).unwrap();
    let replayed = Replayed::default();
    replay_all(&broker, &options(None, 1), &Ports::default(), &replayed).unwrap();
    assert_eq!((replayed.records(), replayed.is_complete()), (27_004, true));

    let mut consumer = broker.consumer(&Isolation::ReadCommitted.into()).unwrap();
    let ends = (0..4).map(|partition| ("flights", partition, At::StableEnd)).collect::<Vec<_>>();
    let ends = broker.admin().unwrap().offsets(&ends).unwrap().into_iter().map(|end| end.unwrap());
    let mut left = ends.sum::<i64>();
    assert_eq!(left, 27_004);
    for partition in 0..4_i32 {
        let source = Source(partition.unsigned_abs());
        consumer.assign(&[Change::Add { source, topic: "flights", partition, from: 0 }]).unwrap();
    }
    let mut seen = BTreeMap::<u32, usize>::new();
    while left > 0 {
        for record in consumer.poll(Duration::from_secs(1)).unwrap().iter() {
            let flight: Flight = serde_json::from_slice(record.value.unwrap()).unwrap();
            assert_eq!(record.key.unwrap(), flight.number().as_bytes());
            assert_eq!(record.timestamp, flight.event_time());
            assert_eq!(record.source.0, partition_for_key(flight.number().as_bytes(), 4).unsigned_abs());
            *seen.entry(record.source.0).or_default() += 1;
            left -= 1;
        }
    }
    assert!(seen.len() == 4 && seen.values().all(|records| *records > 5_000), "spread over all: {seen:?}");
}

#[test]
fn the_lag_counts_what_no_group_has_committed() {
    let broker = EmbeddedBroker::new();
    create_topics(&broker).unwrap();
    replay_all(&broker, &options(None, 1), &Ports::default(), &Replayed::default()).unwrap();
    let mut meter = LagMeter::open(&broker).unwrap();
    assert_eq!(meter.measure().unwrap(), Lag::default(), "not known while a source is yet to be created");

    create(&broker, "flights-by-carrier-repartition", 4, &[]);
    assert_eq!(meter.measure().unwrap(), Lag { processed: 0, remaining: 27_004, is_complete: false });
}

#[test]
fn topics_that_exist_are_taken_if_they_are_right() {
    let broker = EmbeddedBroker::new();
    create_topics(&broker).unwrap();
    create_topics(&broker).unwrap();

    let broker = EmbeddedBroker::new();
    create(&broker, "flights", 3, &[("retention.ms", "-1")]);
    let error = create_topics(&broker).unwrap_err().report();
    assert!(error.contains("topic=`flights` partitions=`3` expected=`4`"), "{error}");

    let broker = EmbeddedBroker::new();
    create(&broker, "carrier-totals", 4, &[]);
    let error = create_topics(&broker).unwrap_err().report();
    assert!(error.contains("topic=`carrier-totals` config=`retention.ms=-1`"), "{error}");
}

#[test]
fn a_rate_is_kept() {
    let (broker, ports) = (EmbeddedBroker::new(), Ports::default());
    create_topics(&broker).unwrap();
    let start = ports.clock.now();
    replay_all(&broker, &options(Some(100_000), 1), &ports, &Replayed::default()).unwrap();
    let took = ports.clock.now().saturating_sub(start);
    assert!(took >= Duration::from_millis(260), "27,004 records at 100,000/s, less the shortest wait: {took:?}");
}

#[test]
fn a_replay_into_the_future_is_refused_with_the_remedy() {
    let broker = EmbeddedBroker::new();
    create_topics(&broker).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let head = expected::text(Path::new(expected::JANUARY)).lines().take(11).collect::<Vec<_>>().join("\n");
    std::fs::write(file.path(), head).unwrap();
    let replayed = Replayed::default();
    let many = ReplayOptions { data: Data::Path(file.path().into()), ..options(None, 1_000) };
    let error = replay_all(&broker, &many, &Ports::default(), &replayed).unwrap_err();
    assert!(error.report().contains("lower --repeat"), "{}", error.report());
    assert!(replayed.records() >= 100 && replayed.records() % 10 == 0, "the years that are over are there");
    assert!(!replayed.is_complete());
}

#[test]
fn a_signal_ends_a_slow_replay() {
    let (broker, ports) = (EmbeddedBroker::new(), Ports::default());
    create_topics(&broker).unwrap();
    let replayed = Replayed::default();
    std::thread::scope(|scope| {
        // At one record a second, only the signal ends this within the test's time.
        let running = scope.spawn(|| replay_all(&broker, &options(Some(1), 1), &ports, &replayed));
        while replayed.records() == 0 {
            std::thread::yield_now();
        }
        ports.stop.stop();
        assert_eq!(running.join().unwrap().unwrap_err().kind(), ErrorKind::Interrupted);
    });
    assert!(!replayed.is_complete());
}

#[test]
fn a_missing_topic_is_named() {
    let broker = EmbeddedBroker::new();
    let error = totals(&broker, &Ports::default().stop).unwrap_err().report();
    assert!(error.contains("topic=`carrier-totals`") && error.contains("replay the flights first"), "{error}");
    let error = replay_all(&broker, &options(None, 1), &Ports::default(), &Replayed::default()).unwrap_err().report();
    assert!(error.contains("topic=`flights`"), "{error}");
}

#[test]
fn totals_are_the_last_committed_values_in_order() {
    let (broker, stop) = (EmbeddedBroker::new(), Ports::default().stop);
    create_topics(&broker).unwrap();
    assert_eq!(to_json(&totals(&broker, &stop).unwrap()).unwrap(), "{\n}\n");

    let [one, two, three] = [1, 2, 3].map(value);
    write_totals(&broker, "a", &[("UA", Some(&one)), ("AA", Some(&one)), ("XX", Some(&one)), ("UA", Some(&two))], true);
    write_totals(&broker, "b", &[("XX", None)], true);
    write_totals(&broker, "c", &[("UA", Some(&three))], false);
    let json = to_json(&totals(&broker, &stop).unwrap()).unwrap();
    assert_eq!(json, format!("{{\n  \"AA\": {one},\n  \"UA\": {two}\n}}\n"));
}

#[test]
fn a_foreign_record_is_named_by_its_place_alone() {
    let broker = EmbeddedBroker::new();
    create_topics(&broker).unwrap();
    write_totals(&broker, "a", &[("UA", Some("secret"))], true);
    let error = totals(&broker, &Ports::default().stop).unwrap_err().report();
    let partition = partition_for_key(b"UA", 4);
    assert!(error.contains(&format!("topic=`carrier-totals` partition=`{partition}` offset=`0`")), "{error}");
    assert!(!error.contains("secret") && !error.contains("UA"), "{error}");
}
