//! Plain consumers of whole topics: what is committed, from the start.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond::broker::{self, Admin, At, Broker, Change, Consumer, Isolation, Offset, Source};
use millpond::prelude::Serde;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::ports::Stop;

/// How long a poll waits before it looks for the signal to stop.
const POLL_WAIT: Duration = Duration::from_millis(200);

/// Follows a topic as a table: the last value of each key.
pub struct TableReader<K: 'static, V> {
    topic: TopicReader,
    key: Box<dyn Serde<K>>,
    rows: BTreeMap<K, V>,
}

impl<K: Ord + 'static, V: DeserializeOwned> TableReader<K, V> {
    /// Begins at the start of all partitions.
    ///
    /// # Errors
    ///
    /// The broker's, or there is no such topic.
    pub fn open(broker: &dyn Broker, topic: &'static str, key: impl Serde<K>) -> Result<Self> {
        Ok(Self { topic: TopicReader::open(broker, topic)?, key: Box::new(key), rows: BTreeMap::new() })
    }

    /// The table as far as it was read.
    pub fn rows(&self) -> &BTreeMap<K, V> {
        &self.rows
    }

    /// Takes all that is there.
    ///
    /// # Errors
    ///
    /// The broker's, or a record that is none of ours.
    pub fn catch_up(&mut self) -> Result<()> {
        let Self { topic, key, rows } = self;
        topic.catch_up(&mut |record| take(record, &**key, rows))
    }

    /// The table as it stands at the ends that the partitions have now.
    ///
    /// # Errors
    ///
    /// As [`TableReader::catch_up`], and the signal to stop.
    pub fn read_to_end(mut self, stop: &Stop) -> Result<BTreeMap<K, V>> {
        let Self { topic, key, rows } = &mut self;
        topic.read_to_end(stop, &mut |record| take(record, &**key, rows))?;
        Ok(self.rows)
    }
}

impl<K, V> std::fmt::Debug for TableReader<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows = self.rows.len();
        f.debug_struct("TableReader").field("topic", &self.topic).field("rows", &rows).finish_non_exhaustive()
    }
}

/// A record sets a row, or deletes it.
fn take<K: Ord + 'static, V: DeserializeOwned>(
    record: &broker::Record<'_>,
    key: &dyn Serde<K>,
    rows: &mut BTreeMap<K, V>,
) -> Result<()> {
    let bytes = record.key.ok_or_else(|| Error::failed("a record has no key"))?;
    let key = key.decode(bytes).map_err(|_| Error::failed("a record's key is none of ours"))?;
    match record.value {
        Some(value) => {
            let value = serde_json::from_slice(value).map_err(|_| Error::failed("a record's value is none of ours"))?;
            rows.insert(key, value);
        }
        None => drop(rows.remove(&key)),
    }
    Ok(())
}

/// Follows all partitions of a topic.
pub struct TopicReader {
    topic: &'static str,
    consumer: Box<dyn Consumer>,
    admin: Box<dyn Admin>,
    partitions: i32,
}

impl TopicReader {
    /// Begins at the start of all partitions.
    ///
    /// # Errors
    ///
    /// The broker's, or there is no such topic.
    pub fn open(broker: &dyn Broker, topic: &'static str) -> Result<Self> {
        let unreadable = |error| unreadable(topic, error);
        let mut admin = broker.admin().map_err(unreadable)?;
        let Some(found) = admin.describe(&[topic]).map_err(unreadable)?.into_iter().flatten().next() else {
            let error = Error::failed("a topic of the results does not exist").with("topic", topic);
            return Err(error.with("broker", broker.name()).with("remedy", "replay the flights first"));
        };
        let consumer = broker.consumer(&Isolation::ReadCommitted.into()).map_err(unreadable)?;
        let mut reader = Self { topic, consumer, admin, partitions: found.partitions };
        for (partition, from) in reader.offsets(At::Start)? {
            let add = Change::Add { source: source(partition), topic, partition, from };
            reader.consumer.assign(&[add]).map_err(unreadable)?;
        }
        Ok(reader)
    }

    /// Takes all that is there.
    ///
    /// # Errors
    ///
    /// The broker's, and those of `take`, with the record's place.
    pub fn catch_up(&mut self, take: &mut dyn FnMut(&broker::Record<'_>) -> Result<()>) -> Result<()> {
        while self.poll(Duration::ZERO, take)? > 0 {}
        Ok(())
    }

    /// Takes all up to the ends that the partitions have now.
    ///
    /// # Errors
    ///
    /// As [`TopicReader::catch_up`], and the signal to stop.
    pub fn read_to_end(&mut self, stop: &Stop, take: &mut dyn FnMut(&broker::Record<'_>) -> Result<()>) -> Result<()> {
        let ends = self.offsets(At::StableEnd)?;
        while ends.iter().any(|(partition, end)| self.consumer.position(source(*partition)) < Some(*end)) {
            stop.wait(Duration::ZERO)?;
            self.poll(POLL_WAIT, take)?;
        }
        Ok(())
    }

    /// Takes a batch, or waits for one that long; how many records it had.
    fn poll(&mut self, max_wait: Duration, take: &mut dyn FnMut(&broker::Record<'_>) -> Result<()>) -> Result<usize> {
        let batch = self.consumer.poll(max_wait).map_err(|error| unreadable(self.topic, error))?;
        if let Some((source, error)) = batch.faults.first() {
            return Err(unreadable(self.topic, error.clone()).with("partition", source.0));
        }
        for record in batch.iter() {
            let at_its_place = |error: Error| {
                error.with("topic", self.topic).with("partition", record.source.0).with("offset", record.offset)
            };
            take(&record).map_err(at_its_place)?;
        }
        Ok(batch.len())
    }

    fn offsets(&mut self, at: At) -> Result<Vec<(i32, Offset)>> {
        let of = (0..self.partitions).map(|partition| (self.topic, partition, at)).collect::<Vec<_>>();
        let unreadable = |error| unreadable(self.topic, error);
        let answers = self.admin.offsets(&of).map_err(unreadable)?;
        (0..).zip(answers).map(|(partition, offset)| Ok((partition, offset.map_err(unreadable)?))).collect()
    }
}

impl std::fmt::Debug for TopicReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicReader").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// A partition's number is never negative.
fn source(partition: i32) -> Source {
    Source(partition.unsigned_abs())
}

fn unreadable(topic: &'static str, error: millpond::broker::Error) -> Error {
    Error::failed("cannot read results").with("topic", topic).caused_by(error)
}
