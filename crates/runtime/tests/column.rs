//! The whole column over the in-process broker: records in, counts out, for both guarantees.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Broker, Change, ErrorKind, Isolation, NewTopic, Outgoing, ProducerOptions, Source};
use millpond_broker_mem::{EmbeddedBroker, ManualClock, OpKind, Verdict};
use millpond_runtime::{Guarantee, Instance, InstanceSpec, Ports, Settings};
use millpond_store_mem::MemEngine;
use millpond_topology::{Consumed, Grouped, I64, Materialized, Produced, Topology, Utf8};

fn topology() -> Topology {
    let mut builder = Topology::builder();
    builder
        .stream("in", Consumed::with(Utf8, Utf8))
        .group_by(|_, value: &String| value.clone(), Grouped::named("by-value").key(Utf8).value(Utf8))
        .count(Materialized::named("counts").key(Utf8))
        .to_stream()
        .to("out", Produced::with(Utf8, I64));
    builder.build().unwrap()
}

fn create(broker: &EmbeddedBroker) {
    let configs = [("retention.ms", "-1")];
    let topic = |name, partitions| NewTopic { name, partitions, replication: None, configs: &configs };
    for made in broker.admin().unwrap().create_topics(&[topic("in", 3), topic("out", 2)]).unwrap() {
        made.unwrap();
    }
}

fn produce(broker: &EmbeddedBroker, records: u32) {
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let topic = producer.topic("in");
    for n in 0..records {
        let (key, value) = (n.to_string(), format!("v{}", n % 10));
        let record = Outgoing {
            topic,
            partition: (n % 3) as i32,
            timestamp: i64::from(n),
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[],
            tag: 0,
        };
        assert_eq!(producer.send(&record).unwrap(), millpond_broker_api::Sent::Queued);
    }
    producer.flush(Duration::from_secs(1)).unwrap();
}

fn read_out(broker: &EmbeddedBroker) -> BTreeMap<String, i64> {
    let mut consumer = broker.consumer(&Isolation::ReadCommitted.into()).unwrap();
    let changes: Vec<_> =
        (0..2).map(|p| Change::Add { source: Source(p), topic: "out", partition: p as i32, from: 0 }).collect();
    consumer.assign(&changes).unwrap();
    let mut counts = BTreeMap::new();
    loop {
        let batch = consumer.poll(Duration::ZERO).unwrap();
        if batch.is_empty() {
            return counts;
        }
        for record in batch.iter() {
            let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
            counts.insert(key, i64::from_be_bytes(record.value.unwrap().try_into().unwrap()));
        }
    }
}

fn run(guarantee: Guarantee, workers: usize, cache: u64, faults: &[(OpKind, Verdict)]) {
    let clock = ManualClock::new();
    let broker = EmbeddedBroker::with_clock(clock.clone());
    create(&broker);
    produce(&broker, 1_000);
    faults.iter().for_each(|(op, verdict)| broker.plan(*op, *verdict));
    let settings = Settings { guarantee, workers, cache_max: Some(cache), ..Settings::new("app") };
    let spec = InstanceSpec {
        settings,
        topology: topology(),
        broker: Arc::new(broker.clone()),
        engines: vec![Arc::new(MemEngine::default())],
        ports: Ports { clock: Arc::new(clock.clone()), ..Ports::default() },
    };
    let mut instance = Instance::new(spec).unwrap();
    for _ in 0..3_000 {
        instance.step_member().unwrap();
        for worker in 0..workers {
            instance.step_worker(worker).unwrap();
        }
        clock.advance(Duration::from_millis(20));
    }
    assert!(instance.is_running());
    instance.request_stop();
    for _ in 0..100 {
        instance.step_member().unwrap();
        for worker in 0..workers {
            instance.step_worker(worker).unwrap();
        }
    }
    assert!(instance.is_stopped());
    let want: BTreeMap<String, i64> = (0..10).map(|v| (format!("v{v}"), 100)).collect();
    assert_eq!(read_out(&broker), want);
}

#[test]
fn counts_are_right_for_both_guarantees_with_and_without_a_cache() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        for workers in [1, 2] {
            for cache in [0, 1 << 20] {
                run(guarantee, workers, cache, &[]);
            }
        }
    }
}

#[test]
fn input_offsets_that_did_not_get_through_are_committed_later_and_nothing_counts_twice() {
    for verdict in [Verdict::DropRequest, Verdict::DropReply, Verdict::Fail(ErrorKind::Retriable)] {
        run(Guarantee::AtLeastOnce, 1, 0, &[(OpKind::OffsetCommit, verdict); 2]);
    }
}
