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
use millpond_example_flights::show::results;
use millpond_example_flights::topology::{hours, sessions};

use crate::expected;

const HOUR: i64 = 3_600_000;

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

/// Writes to a topic of results, in a transaction that is committed or left open.
fn write(broker: &EmbeddedBroker, id: &str, topic: &str, records: &[(&[u8], Option<&str>)], commit: bool) {
    let mut producer = broker.producer(&ProducerOptions::transactional(id)).unwrap();
    producer.init(Duration::from_secs(1)).unwrap();
    let topic = producer.topic(topic);
    for (key, value) in records {
        let record = Outgoing {
            topic,
            partition: partition_for_key(key, 4),
            timestamp: 0,
            key: Some(key),
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

/// The key of a window, as the application writes it.
fn window(serde: impl Serde<Windowed<String>>, key: &str, start: i64, end: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    serde.encode(&Windowed { key: key.to_owned(), start, end }, &mut bytes).unwrap();
    bytes
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

    let mut seen = BTreeMap::<u32, usize>::new();
    read(&broker, "flights", 4, |record| {
        let flight: Flight = serde_json::from_slice(record.value.unwrap()).unwrap();
        assert_eq!(record.key.unwrap(), flight.number().as_bytes());
        assert_eq!(record.timestamp, flight.event_time());
        assert_eq!(record.source.0, partition_for_key(flight.number().as_bytes(), 4).unsigned_abs());
        *seen.entry(record.source.0).or_default() += 1;
    });
    assert_eq!(seen.values().sum::<usize>(), 27_004);
    assert!(seen.len() == 4 && seen.values().all(|records| *records > 5_000), "spread over all: {seen:?}");
}

#[test]
fn the_ordered_copy_is_the_file_by_origin() {
    let broker = EmbeddedBroker::new();
    create_topics(&broker).unwrap();
    replay_all(&broker, &options(None, 1), &Ports::default(), &Replayed::default()).unwrap();
    let mut file = Input::find(&Data::January).unwrap().flights().unwrap();
    read(&broker, "flights-ordered", 1, |record| {
        let flight: Flight = serde_json::from_slice(record.value.unwrap()).unwrap();
        assert_eq!(record.key.unwrap(), flight.origin.as_bytes());
        assert_eq!(record.timestamp, flight.event_time());
        assert_eq!(flight, file.next().unwrap().unwrap());
    });
    assert!(file.next().is_none(), "all of it");
}

/// All records that are committed in a topic's partitions.
fn read(broker: &EmbeddedBroker, topic: &str, partitions: i32, mut take: impl FnMut(millpond::broker::Record<'_>)) {
    let mut consumer = broker.consumer(&Isolation::ReadCommitted.into()).unwrap();
    let ends = (0..partitions).map(|partition| (topic, partition, At::StableEnd)).collect::<Vec<_>>();
    let ends = broker.admin().unwrap().offsets(&ends).unwrap().into_iter().map(|end| end.unwrap());
    let mut left = ends.sum::<i64>();
    for partition in 0..partitions {
        let source = Source(partition.unsigned_abs());
        consumer.assign(&[Change::Add { source, topic, partition, from: 0 }]).unwrap();
    }
    while left > 0 {
        for record in consumer.poll(Duration::from_secs(1)).unwrap().iter() {
            take(record);
            left -= 1;
        }
    }
}

#[test]
fn the_lag_counts_what_no_group_has_committed() {
    let broker = EmbeddedBroker::new();
    create_topics(&broker).unwrap();
    replay_all(&broker, &options(None, 1), &Ports::default(), &Replayed::default()).unwrap();
    let mut meter = LagMeter::open(&broker).unwrap();
    assert_eq!(meter.measure().unwrap(), Lag::default(), "not known while a source is yet to be created");

    create(&broker, "flights-by-carrier-repartition", 4, &[]);
    create(&broker, "flights-by-plane-repartition", 1, &[]);
    assert_eq!(meter.measure().unwrap(), Lag { processed: 0, remaining: 2 * 27_004, is_complete: false });
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
    let error = results(&broker, &Ports::default().stop).unwrap_err().report();
    assert!(error.contains("topic=`carrier-totals`") && error.contains("replay the flights first"), "{error}");
    let error = replay_all(&broker, &options(None, 1), &Ports::default(), &Replayed::default()).unwrap_err().report();
    assert!(error.contains("topics=`flights,flights-ordered`"), "{error}");
}

#[test]
fn results_are_the_last_committed_values_in_order() {
    let (broker, stop) = (EmbeddedBroker::new(), Ports::default().stop);
    create_topics(&broker).unwrap();
    let empty = "{\n  \"carriers\": {},\n  \"hourly\": {},\n  \"legs\": {},\n  \"late\": 0\n}\n";
    assert_eq!(results(&broker, &stop).unwrap().to_json().unwrap(), empty);

    let [one, two, three] = [1, 2, 3].map(value);
    let records: [(&[u8], _); 4] =
        [(b"UA", Some(&*one)), (b"AA", Some(&*one)), (b"XX", Some(&*one)), (b"UA", Some(&*two))];
    write(&broker, "a", "carrier-totals", &records, true);
    write(&broker, "b", "carrier-totals", &[(b"XX", None)], true);
    write(&broker, "c", "carrier-totals", &[(b"UA", Some(&three))], false);

    let [ten, eleven] = [10, 11]
        .map(|hour| window(hours(), "EWR", 1_356_998_400_000 + hour * HOUR, 1_356_998_400_000 + (hour + 1) * HOUR));
    let departures = r#"{"departures":2,"delay_min_sum":-3}"#;
    write(&broker, "d", "hourly-departures", &[(&eleven, Some(departures)), (&ten, Some(departures))], true);

    // Of two sessions that became one the parts are deleted, wherever that stands.
    let [first, second, both] = [(5, 5), (9, 9), (5, 9)].map(|(from, to)| window(sessions(), "N1", from, to));
    let (leg, legs) = (r#"{"legs":1,"miles":10}"#, r#"{"legs":2,"miles":20}"#);
    write(&broker, "e", "plane-legs", &[(&first, Some(leg)), (&second, Some(leg))], true);
    write(&broker, "f", "plane-legs", &[(&both, Some(legs)), (&first, None), (&second, None)], true);
    write(&broker, "g", "late-flights", &[(b"EWR", Some("{}")), (b"EWR", Some("{}"))], true);

    let expected = format!(
        r#"{{
  "carriers": {{
    "AA": {one},
    "UA": {two}
  }},
  "hourly": {{
    "EWR": {{
      "2013-01-01T10:00:00Z": {departures},
      "2013-01-01T11:00:00Z": {departures}
    }}
  }},
  "legs": {{
    "N1": [{{"from":5,"to":9,"legs":2,"miles":20}}]
  }},
  "late": 2
}}
"#
    );
    let results = results(&broker, &stop).unwrap();
    assert_eq!(results.to_json().unwrap(), expected);
    assert_eq!(results.summary(), "2 carriers; 2 hours at 1 airports; 1 sessions of 1 planes; 2 late flights");
}

#[test]
fn a_foreign_record_is_named_by_its_place_alone() {
    for (topic, key) in [("carrier-totals", &b"UA"[..]), ("hourly-departures", b"UA"), ("plane-legs", b"UA")] {
        let broker = EmbeddedBroker::new();
        create_topics(&broker).unwrap();
        write(&broker, "a", topic, &[(key, Some("secret"))], true);
        let error = results(&broker, &Ports::default().stop).unwrap_err().report();
        let partition = partition_for_key(key, 4);
        assert!(error.contains(&format!("topic=`{topic}` partition=`{partition}` offset=`0`")), "{error}");
        assert!(!error.contains("secret") && !error.contains("UA"), "{error}");
    }
}
