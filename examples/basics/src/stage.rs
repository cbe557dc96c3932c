//! A broker in the process, and what stands before an application and behind it.

use std::time::Duration;

use millpond::broker::{
    At, Broker, Change, Consumer, Isolation, NewTopic, Outgoing, ProducerOptions, Record, Sent, Source, Stable,
};
use millpond::prelude::{EmbeddedBroker, Headers, Serde};
use millpond::topology::Header;

/// What the programs answer with.
pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long one question to the broker may take.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How often it is looked whether something has been processed.
const TICK: Duration = Duration::from_millis(10);

/// A broker in this process.
#[derive(Clone, Debug)]
pub struct Stage {
    broker: EmbeddedBroker,
}

impl Stage {
    /// A broker with these topics, of one partition each: they must be there before an application starts.
    ///
    /// # Errors
    ///
    /// The broker's, such as for a name that no topic can have.
    pub fn with_topics(names: &[&str]) -> Result<Self> {
        let broker = EmbeddedBroker::new();
        let topic = |name| NewTopic { name, partitions: 1, replication: None, configs: &[] };
        let topics = names.iter().copied().map(topic).collect::<Vec<_>>();
        for created in broker.admin()?.create_topics(&topics)? {
            created?;
        }
        Ok(Self { broker })
    }

    /// The broker, for the application.
    pub fn broker(&self) -> EmbeddedBroker {
        self.broker.clone()
    }

    /// Writes records with their event times (milliseconds since 1970) to a topic.
    ///
    /// # Errors
    ///
    /// The broker's, or a serde's.
    pub fn write<K: 'static, V: 'static>(
        &self,
        topic: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
        records: impl IntoIterator<Item = (impl Into<K>, impl Into<V>, i64)>,
    ) -> Result {
        let mut producer = self.broker.producer(&ProducerOptions::default())?;
        let topic = producer.topic(topic);
        for (k, v, timestamp) in records {
            let (mut key_bytes, mut value_bytes) = (Vec::new(), Vec::new());
            key.encode(&k.into(), &mut key_bytes)?;
            value.encode(&v.into(), &mut value_bytes)?;
            let (key, value) = (Some(&*key_bytes), Some(&*value_bytes));
            let record = Outgoing { topic, partition: 0, timestamp, key, value, headers: &[], tag: 0 };
            while let Sent::Full = producer.send(&record)? {
                producer.flush(MAX_WAIT)?;
            }
        }
        match producer.flush(MAX_WAIT)?.failed.first() {
            Some(failure) => Err(failure.error.clone().into()),
            None => Ok(()),
        }
    }

    /// Waits until an application has processed and committed all that stands in these topics: the input, and the repartition
    /// topics in the order in which records go through them.
    ///
    /// # Errors
    ///
    /// The broker's.
    #[expect(clippy::disallowed_methods, reason = "a program that has nothing to do but to look now and then")]
    pub fn await_processed(&self, application: &str, topics: &[&str]) -> Result {
        for topic in topics {
            while !self.is_processed(application, topic)? {
                std::thread::sleep(TICK);
            }
        }
        Ok(())
    }

    /// Whether the committed offset is the end. A topic that the application has yet to make is not processed.
    fn is_processed(&self, application: &str, topic: &str) -> Result<bool> {
        let mut admin = self.broker.admin()?;
        let Some(_) = admin.describe(&[topic])?.into_iter().flatten().next() else { return Ok(false) };
        let Stable::Offsets(committed) = self.broker.offsets()?.fetch_stable(application, &[(topic, 0)], MAX_WAIT)?
        else {
            return Ok(false);
        };
        let committed = committed.into_iter().flatten().next().map(|committed| committed.next);
        let end = admin.offsets(&[(topic, 0, At::StableEnd)])?.remove(0)?;
        Ok(committed == Some(end))
    }

    /// A topic to read, from its start.
    ///
    /// # Errors
    ///
    /// The broker's.
    pub fn output<K, V>(&self, topic: &str, key: impl Serde<K>, value: impl Serde<V>) -> Result<Output<K, V>> {
        let mut consumer = self.broker.consumer(&Isolation::ReadCommitted.into())?;
        consumer.assign(&[Change::Add { source: Source(0), topic, partition: 0, from: 0 }])?;
        Ok(Output { consumer, key: Box::new(key), value: Box::new(value) })
    }
}

/// A topic that is read: what is committed, each record once.
pub struct Output<K: 'static, V: 'static> {
    consumer: Box<dyn Consumer>,
    key: Box<dyn Serde<K>>,
    value: Box<dyn Serde<V>>,
}

/// A record that was read.
#[derive(Clone, Debug)]
pub struct Received<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// The event time, in milliseconds since 1970.
    pub timestamp: i64,
    /// The headers.
    pub headers: Headers,
}

impl<K, V> Output<K, V> {
    /// All records that are there and were not read.
    ///
    /// # Errors
    ///
    /// The broker's, or a serde's.
    pub fn ready(&mut self) -> Result<Vec<Received<K, V>>> {
        let mut all = Vec::new();
        while self.read(Duration::ZERO, &mut all)? {}
        Ok(all)
    }

    /// Waits for records.
    ///
    /// # Errors
    ///
    /// As [`Output::ready`].
    pub fn wait(&mut self) -> Result<Vec<Received<K, V>>> {
        let mut all = Vec::new();
        while all.is_empty() {
            self.read(MAX_WAIT, &mut all)?;
        }
        Ok(all)
    }

    fn read(&mut self, max_wait: Duration, all: &mut Vec<Received<K, V>>) -> Result<bool> {
        let batch = self.consumer.poll(max_wait)?;
        if let Some((_, fault)) = batch.faults.first() {
            return Err(fault.clone().into());
        }
        for record in batch.iter() {
            all.push(Received {
                key: decode(&*self.key, record.key)?,
                value: decode(&*self.value, record.value)?,
                timestamp: record.timestamp,
                headers: headers(&record),
            });
        }
        Ok(!batch.is_empty())
    }
}

impl<K, V> std::fmt::Debug for Output<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").finish_non_exhaustive()
    }
}

/// No bytes are a null: some serdes have a value for it.
fn decode<T: 'static>(serde: &dyn Serde<T>, bytes: Option<&[u8]>) -> Result<T> {
    match bytes {
        Some(bytes) => Ok(serde.decode(bytes)?),
        None => serde.null().ok_or_else(|| "a null that its serde has no value for".into()),
    }
}

fn headers(record: &Record<'_>) -> Headers {
    let mut headers = Headers::new();
    for header in record.headers.iter() {
        headers.push(Header { name: header.name.into(), value: header.value.map(|value| value.to_vec().into()) });
    }
    headers
}
