//! A topic that a test pipes typed records into.

use std::sync::Arc;

use millpond_runtime::{Error, ErrorKind, Result};
use millpond_topology::{Headers, Serde};

use super::Driver;
use super::record::{RawRecord, TestRecord};

/// A topic to write to; [`Driver::input`] makes it.
pub struct InputTopic<K, V> {
    driver: Driver,
    topic: String,
    key: Arc<dyn Serde<K>>,
    value: Arc<dyn Serde<V>>,
    partition: Option<i32>,
}

impl<K, V> Clone for InputTopic<K, V> {
    fn clone(&self) -> Self {
        let Self { driver, topic, key, value, partition } = self;
        Self {
            driver: driver.clone(),
            topic: topic.clone(),
            key: key.clone(),
            value: value.clone(),
            partition: *partition,
        }
    }
}

impl<K: 'static, V: 'static> InputTopic<K, V> {
    pub(super) fn new(driver: Driver, topic: String, key: Arc<dyn Serde<K>>, value: Arc<dyn Serde<V>>) -> Self {
        Self { driver, topic, key, value, partition: None }
    }

    /// The same topic, for records that all go to one partition, whatever their keys.
    ///
    /// # Panics
    ///
    /// If the topic has no such partition.
    #[must_use]
    #[track_caller]
    pub fn partition(&self, partition: i32) -> Self {
        self.driver.process().known_partition(&self.topic, partition);
        Self { partition: Some(partition), ..self.clone() }
    }

    /// Writes a record and lets the topology process it, to its end and commit.
    pub fn pipe(&self, key: impl Into<K>, value: impl Into<V>, timestamp: i64) -> Result {
        self.pipe_record(&TestRecord::new(key.into(), value.into(), timestamp))
    }

    /// As [`InputTopic::pipe`], with headers.
    pub fn pipe_with(&self, key: impl Into<K>, value: impl Into<V>, timestamp: i64, headers: Headers) -> Result {
        self.pipe_record(&TestRecord { headers, ..TestRecord::new(key.into(), value.into(), timestamp) })
    }

    /// As [`InputTopic::pipe`], for a whole record. Where it was read, if it was, does not matter.
    pub fn pipe_record(&self, record: &TestRecord<K, V>) -> Result {
        self.send_record(record)?;
        self.driver.settle()
    }

    /// Pipes a null value: what a table takes as a delete.
    pub fn delete(&self, key: impl Into<K>, timestamp: i64) -> Result {
        let key = encode(&*self.key, &key.into(), "encode a key")?;
        self.driver.pipe(&self.topic, self.partition, &RawRecord::new(key, None, timestamp))
    }

    /// Pipes values of one key, one after the other, all at one time.
    pub fn pipe_values<W: Into<V>>(
        &self,
        key: impl Into<K>,
        values: impl IntoIterator<Item = W>,
        timestamp: i64,
    ) -> Result
    where
        K: Clone,
    {
        let key = key.into();
        values.into_iter().try_for_each(|value| self.pipe(key.clone(), value, timestamp))
    }

    /// Writes a record and processes nothing: [`Driver::run`] and [`Driver::commit`] do. So several records can come
    /// before anything is processed or committed.
    pub fn send(&self, key: impl Into<K>, value: impl Into<V>, timestamp: i64) -> Result {
        self.send_record(&TestRecord::new(key.into(), value.into(), timestamp))
    }

    /// As [`InputTopic::send`], for a whole record.
    pub fn send_record(&self, record: &TestRecord<K, V>) -> Result {
        let raw = RawRecord {
            headers: record.headers.clone(),
            ..RawRecord::new(
                encode(&*self.key, &record.key, "encode a key")?,
                encode(&*self.value, &record.value, "encode a value")?,
                record.timestamp,
            )
        };
        self.driver.send(&self.topic, self.partition, &raw)
    }
}

impl<K, V> std::fmt::Debug for InputTopic<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputTopic")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}

/// A value's bytes; `None` if it stands for null.
pub(super) fn encode<T: 'static>(serde: &dyn Serde<T>, value: &T, op: &'static str) -> Result<Option<Vec<u8>>> {
    if serde.null().is_some() && serde.is_null(value) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    serde.encode(value, &mut bytes).map_err(|e| Error::new(ErrorKind::Record, op).caused_by(e))?;
    Ok(Some(bytes))
}
