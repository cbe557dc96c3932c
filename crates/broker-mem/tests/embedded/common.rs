//! What the tests share: a broker on a clock that stands still, writing and reading in one line.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{
    Broker, Change, CommitOutcome, Consumer, GroupOffset, Isolation, Member, NewTopic, Outgoing, Producer,
    ProducerOptions, Sent, Source,
};
use millpond_broker_mem::{EmbeddedBroker, ManualClock, Options};

pub(crate) const NOW: Duration = Duration::ZERO;
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// A broker with the topic `t` of two partitions.
pub(crate) fn broker() -> (EmbeddedBroker, ManualClock) {
    broker_with(Options::default())
}

pub(crate) fn broker_with(options: Options) -> (EmbeddedBroker, ManualClock) {
    let clock = ManualClock::new();
    let broker = EmbeddedBroker::with_options(Options { clock: Some(clock.clone()), ..options });
    create(&broker, "t", 2, &[]);
    (broker, clock)
}

pub(crate) fn create(broker: &EmbeddedBroker, name: &str, partitions: i32, configs: &[(&str, &str)]) {
    let topic = NewTopic { name, partitions, replication: None, configs };
    broker.admin().unwrap().create_topics(&[topic]).unwrap().remove(0).unwrap();
}

pub(crate) fn send(producer: &mut dyn Producer, partition: i32, value: &str) {
    let topic = producer.topic("t");
    let (key, value) = (Some(value.as_bytes()), Some(value.as_bytes()));
    let timestamp = 1_767_225_600_000;
    let record = Outgoing { topic, partition, timestamp, key, value, headers: &[], tag: 7 };
    assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
}

pub(crate) fn transactional(broker: &EmbeddedBroker, id: &str) -> Box<dyn Producer> {
    let mut producer = broker.producer(&ProducerOptions::transactional(id)).unwrap();
    producer.init(NOW).unwrap();
    producer
}

pub(crate) fn consumer(broker: &EmbeddedBroker, isolation: Isolation, partition: i32) -> Box<dyn Consumer> {
    let mut consumer = broker.consumer(&isolation.into()).unwrap();
    consumer.assign(&[Change::Add { source: Source(0), topic: "t", partition, from: 0 }]).unwrap();
    consumer
}

/// The values that one poll lends.
pub(crate) fn poll(consumer: &mut dyn Consumer) -> Vec<String> {
    let batch = consumer.poll(NOW).unwrap();
    batch.iter().map(|r| String::from_utf8(r.value.unwrap().to_vec()).unwrap()).collect()
}

/// All committed values of a partition.
pub(crate) fn committed(broker: &EmbeddedBroker, partition: i32) -> Vec<String> {
    poll(&mut *consumer(broker, Isolation::ReadCommitted, partition))
}

/// A member of a group that has no members.
pub(crate) fn alone(group: &str) -> Member {
    Member { group: Arc::from(group), member_id: Arc::from(""), instance_id: None, generation: -1 }
}

pub(crate) fn at(next: i64) -> [GroupOffset<'static>; 1] {
    [GroupOffset { topic: "t", partition: 0, next, leader_epoch: -1, metadata: "" }]
}

#[track_caller]
pub(crate) fn is_committed(outcome: &CommitOutcome) {
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
}

#[track_caller]
pub(crate) fn is_unknown(outcome: &CommitOutcome) {
    assert!(matches!(outcome, CommitOutcome::Unknown(_)), "{outcome:?}");
}
