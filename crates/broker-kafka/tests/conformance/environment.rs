//! A real cluster as the cases need it: time passes by waiting, maintenance is provoked and waited for.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millpond_broker_api::conformance::{Ability, Environment};
use millpond_broker_api::{
    At, Broker, Change, Clock, Error, ErrorKind, Isolation, NewTopic, Offset, Outgoing, ProducerOptions, Result, Sent,
    Source, SystemClock,
};
use millpond_broker_kafka::{KafkaBroker, KafkaSettings};

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How long the broker's own maintenance may take.
const MAINTENANCE: Duration = Duration::from_secs(60);

/// A real cluster.
pub(crate) struct Real {
    broker: KafkaBroker,
    clock: SystemClock,
    names: u32,
}

impl Real {
    pub(crate) fn new(settings: KafkaSettings) -> Self {
        Self { broker: KafkaBroker::new(settings), clock: SystemClock::new(), names: 0 }
    }

    /// Writes one record to a partition, and answers with its offset.
    fn append(&self, topic: &str, partition: i32, timestamp: i64, key: &str) -> Result<Offset> {
        let mut producer = self.broker.producer(&ProducerOptions::default())?;
        let topic = producer.topic(topic);
        let record = Outgoing {
            topic,
            partition,
            timestamp,
            key: Some(key.as_bytes()),
            value: Some(b"tick"),
            headers: &[],
            tag: 0,
        };
        assert_eq!(producer.send(&record)?, Sent::Queued);
        let flushed = producer.flush(MAINTENANCE)?;
        assert_eq!((flushed.outstanding, flushed.failed.len()), (0, 0), "{:?}", flushed.failed);
        Ok(flushed.delivered.iter().find_map(|d| d.next).expect("a fresh report has an offset") - 1)
    }

    fn offset(&self, topic: &str, partition: i32, at: At) -> Result<Offset> {
        self.broker.admin()?.offsets(&[(topic, partition, at)])?.remove(0)
    }

    fn partitions(&self, topic: &str) -> Result<i32> {
        let described = self.broker.admin()?.describe(&[topic])?.remove(0);
        described.map(|info| info.partitions).ok_or_else(|| Error::new(ErrorKind::UnknownTopic, "compact"))
    }

    /// How often each key stands in a partition below an offset, transactions aside.
    fn keys_below(&self, topic: &str, partition: i32, end: Offset) -> Result<BTreeMap<Vec<u8>, (usize, Offset)>> {
        let mut consumer = self.broker.consumer(&Isolation::ReadCommitted.into())?;
        let source = Source(0);
        consumer.assign(&[Change::Add { source, topic, partition, from: 0 }])?;
        let mut keys = BTreeMap::<_, (usize, Offset)>::new();
        while consumer.position(source).is_some_and(|position| position < end) {
            for record in consumer.poll(LOOK)?.iter().filter(|record| record.offset < end) {
                let (times, last) = keys.entry(record.key.unwrap_or_default().to_vec()).or_default();
                *times += 1;
                *last = record.offset;
            }
        }
        Ok(keys)
    }

    /// Compacts one partition. Only an append rolls a segment, and only what lies in a rolled one is cleaned: so ticks are
    /// appended, until the first of them is superseded too, and with it all that lies before it. Behind an open transaction
    /// nothing is cleaned; there it is over when no key is left twice below it.
    fn compact_partition(&mut self, topic: &str, partition: i32) -> Result<()> {
        let end = self.offset(topic, partition, At::StableEnd)?;
        let tick = self.unique("tick");
        let first = self.append(topic, partition, self.clock.wall_ms(), &tick)?;
        let over = |this: &Self| -> Result<bool> {
            this.append(topic, partition, this.clock.wall_ms(), &tick)?;
            let stable = this.offset(topic, partition, At::StableEnd)?;
            let keys = this.keys_below(topic, partition, stable)?;
            Ok(match keys.get(tick.as_bytes()) {
                Some(_) => !this.keys_below(topic, partition, first + 1)?.contains_key(tick.as_bytes()),
                None => this.keys_below(topic, partition, end)?.values().all(|(times, _)| *times == 1),
            })
        };
        self.wait(MAINTENANCE, "compaction", over)
    }

    /// Waits for the broker's own doing.
    fn wait(&self, limit: Duration, what: &str, mut over: impl FnMut(&Self) -> Result<bool>) -> Result<()> {
        let until = self.clock.now() + limit;
        while !over(self)? {
            assert!(self.clock.now() < until, "{what} does not come");
            pause(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Environment for Real {
    fn broker(&self) -> &dyn Broker {
        &self.broker
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn can(&self, _: Ability) -> bool {
        true
    }

    fn unique(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}-{}-{:x}-{}", std::process::id(), nanos(), self.names)
    }

    fn pass(&mut self, time: Duration) -> bool {
        pause(time);
        true
    }

    fn until(&mut self, limit: Duration, done: &mut dyn FnMut(&dyn Broker) -> Result<bool>) -> Result<bool> {
        let end = self.clock.now() + limit;
        while !done(&self.broker)? {
            if self.clock.now() >= end {
                return Ok(false);
            }
            pause(LOOK);
        }
        Ok(true)
    }

    fn compact(&mut self, topic: &str) -> Result<()> {
        let partitions = self.partitions(topic)?;
        let soon = [("segment.ms", "100"), ("min.cleanable.dirty.ratio", "0.001"), ("min.compaction.lag.ms", "0")];
        self.broker.admin()?.set_configs(topic, &soon)?;
        (0..partitions).try_for_each(|partition| self.compact_partition(topic, partition))
    }

    /// The broker looks by itself, now and then: when two topics made for it have lost their old records one after the other,
    /// it has looked at all topics in between.
    fn expire(&mut self, _: &str) -> Result<()> {
        for _ in 0..2 {
            let name = self.unique("control");
            let configs = [("retention.ms", "1000")];
            let control = NewTopic { name: &name, partitions: 1, replication: None, configs: &configs };
            self.broker.admin()?.create_topics(&[control])?.remove(0)?;
            self.append(&name, 0, self.clock.wall_ms() - 3_600_000, "old")?;
            self.wait(MAINTENANCE, "expiry", |this| Ok(this.offset(&name, 0, At::Start)? == 1))?;
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a real cluster has no clock that a test could move")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Tells the names of this test from those of all others on the same cluster, also of those with the same process id.
#[expect(clippy::disallowed_methods, reason = "it makes names, nothing is measured")]
fn nanos() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}
