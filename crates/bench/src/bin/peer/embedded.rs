//! An embedded broker with the topics of a measurement, made in this process.

use millpond_broker_api::{Broker, NewTopic, Outgoing, ProducerOptions, Sent};
use millpond_broker_mem::EmbeddedBroker;
use millpond_changelog::partition_for_key;
use std::time::Duration;

use crate::args::Args;
use crate::error::Result;
use crate::job::STORE;
use crate::workload::{self, Generated};

const PARTITIONS: i32 = 4;

/// A broker with the input and the output that the arguments name; with `versions=N` also a changelog of the store.
pub(crate) fn filled(args: &Args) -> Result<EmbeddedBroker> {
    let broker = EmbeddedBroker::new();
    let keys = args.number("keys", 1_000_000)?;
    let records = args.number::<i64>("records", 0)?;
    create(&broker, args.get("output")?, &[("retention.ms", "-1")])?;
    create(&broker, args.get("input")?, &[("retention.ms", "-1")])?;
    write(&broker, args.get("input")?, workload::uniform(keys).take(usize::try_from(records).unwrap_or(0)))?;
    if args.find("versions").is_some() {
        let changelog = format!("{}-{STORE}-changelog", args.get("app")?);
        create(&broker, &changelog, &[("cleanup.policy", "compact")])?;
        let records = keys as usize * args.number::<usize>("versions", 1)?;
        write(&broker, &changelog, workload::each(keys).take(records))?;
    }
    Ok(broker)
}

fn create(broker: &EmbeddedBroker, name: &str, configs: &[(&str, &str)]) -> Result {
    let topic = NewTopic { name, partitions: PARTITIONS, replication: None, configs };
    broker.admin()?.create_topics(&[topic])?.into_iter().try_for_each(|made| Ok(made?))
}

fn write(broker: &EmbeddedBroker, topic: &str, records: impl Iterator<Item = Generated>) -> Result {
    let mut producer = broker.producer(&ProducerOptions::default())?;
    let topic = producer.topic(topic);
    for record in records {
        let outgoing = Outgoing {
            topic,
            partition: partition_for_key(&record.key, PARTITIONS),
            timestamp: record.timestamp,
            key: Some(&record.key),
            value: Some(&record.value),
            headers: &[],
            tag: 0,
        };
        while producer.send(&outgoing)? == Sent::Full {
            producer.flush(Duration::ZERO)?;
        }
    }
    producer.flush(Duration::ZERO)?;
    Ok(())
}
