//! A handler of an application that runs: asked by workers on their threads, with pauses of the real clock.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_broker_api::{
    Broker, Change, Isolation, NewTopic, Outgoing, Producer, ProducerOptions, Record, Sent, Source,
};
use millpond_broker_mem::EmbeddedBroker;
use millpond_runtime::{App, Counter, Error, ErrorAnswer, ErrorHandler, ErrorStage, Failed, Guarantee};
use millpond_store_mem::MemEngine;
use millpond_topology::{self as topology, Consumed, I64, Produced, Topology, Utf8};

const PARTITIONS: i32 = 4;

/// Tries again what may pass, and puts bad bytes aside in a topic of its own.
struct Patient(Mutex<Vec<u32>>);

impl ErrorHandler for Patient {
    fn handle(&self, failed: &Failed<'_>, _: &Error) -> ErrorAnswer {
        if failed.stage == ErrorStage::Deserialization {
            return ErrorAnswer::DeadLetterTo("unreadable".to_owned());
        }
        self.0.lock().unwrap().push(failed.attempt);
        ErrorAnswer::RetryAfter(Duration::from_millis(20))
    }

    fn dead_letter_topics(&self) -> Vec<String> {
        vec!["unreadable".to_owned()]
    }
}

/// So that the test can ask it later.
struct Shared(Arc<Patient>);

impl ErrorHandler for Shared {
    fn handle(&self, failed: &Failed<'_>, error: &Error) -> ErrorAnswer {
        self.0.handle(failed, error)
    }

    fn dead_letter_topics(&self) -> Vec<String> {
        self.0.dead_letter_topics()
    }
}

fn send(producer: &mut dyn Producer, partition: i32, value: &[u8]) {
    let topic = producer.topic("in");
    let record = Outgoing { topic, partition, timestamp: 1, key: Some(b"k"), value: Some(value), headers: &[], tag: 0 };
    assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
}

/// Reads committed records of a topic until there are so many.
fn await_records<T>(broker: &EmbeddedBroker, topic: &str, many: usize, read: impl Fn(&Record<'_>) -> T) -> Vec<T> {
    let mut consumer = broker.consumer(&Isolation::ReadCommitted.into()).unwrap();
    for partition in 0..PARTITIONS {
        let source = Source(partition as u32);
        consumer.assign(&[Change::Add { source, topic, partition, from: 0 }]).unwrap();
    }
    let mut found = Vec::new();
    while found.len() < many {
        found.extend(consumer.poll(Duration::from_millis(20)).unwrap().iter().map(|r| read(&r)));
    }
    found
}

#[test]
fn workers_ask_the_applications_handler() {
    let broker = EmbeddedBroker::new();
    let topic = |name| NewTopic { name, partitions: PARTITIONS, replication: None, configs: &[] };
    let made = broker.admin().unwrap().create_topics(&[topic("in"), topic("out"), topic("unreadable")]).unwrap();
    made.into_iter().for_each(|made| made.unwrap());

    let left = Arc::new(AtomicU32::new(2));
    let failures = left.clone();
    let mut builder = Topology::builder();
    builder
        .stream("in", Consumed::with(Utf8, I64))
        .try_peek(move |_, n| {
            let fails = *n == 0 && failures.load(Ordering::Relaxed) > 0;
            if fails {
                failures.fetch_sub(1, Ordering::Relaxed);
                return Err(topology::Error::other("not yet"));
            }
            Ok(())
        })
        .to("out", Produced::default());

    let patient = Arc::new(Patient(Mutex::default()));
    let app = App::builder("patient")
        .broker(broker.clone())
        .engine(MemEngine::default())
        .threads(2)
        .guarantee(Guarantee::ExactlyOnce)
        .error_handler(Shared(patient.clone()))
        .start(builder.build().unwrap())
        .unwrap();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    for partition in 0..PARTITIONS {
        for n in 0..3_i64 {
            // One record waits for its time, with those behind it.
            send(&mut *producer, partition, &(n + i64::from(partition) * 10).to_be_bytes());
        }
        send(&mut *producer, partition, b"bad");
    }
    producer.flush(Duration::from_secs(1)).unwrap();

    let mut numbers = await_records(&broker, "out", 3 * PARTITIONS as usize, |r| {
        i64::from_be_bytes(r.value.unwrap().try_into().unwrap())
    });
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]);
    let letters = await_records(&broker, "unreadable", PARTITIONS as usize, |r| r.value.unwrap().to_vec());
    assert_eq!(letters, vec![b"bad".to_vec(); PARTITIONS as usize]);
    assert_eq!(*patient.0.lock().unwrap(), [1, 2]);
    let metrics = app.metrics().clone();
    app.shutdown().unwrap();
    assert_eq!((metrics.total(Counter::ProcessingRetriedTotal), metrics.total(Counter::DeadLetterTotal)), (2, 4));
}
