//! Sinks: records become bytes and leave the task.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::names;
use crate::node::{Event, Node, TaskCx};
use crate::port::{Out, SinkIndex};
use crate::record::{Record, RecordContext};
use crate::serde::Coder;

/// Chooses a partition from the key, the value and the partition count; `None`: the default partitioner does.
pub(crate) type Partitioner<K, V> = Arc<dyn Fn(&K, &V, i32) -> Option<i32> + Send + Sync>;

/// Chooses a topic from the key, the value and the context, and appends its name.
pub(crate) type TopicChooser<K, V> = Arc<dyn Fn(&K, &V, &RecordContext<'_>, &mut String) -> Result + Send + Sync>;

pub(crate) struct SinkNode<K, V> {
    pub(crate) name: Arc<str>,
    pub(crate) sink: SinkIndex,
    pub(crate) key: Coder<K>,
    pub(crate) value: Coder<V>,
    pub(crate) partitioner: Option<Partitioner<K, V>>,
    /// None: the topic is the sink's.
    pub(crate) topic: Option<TopicChooser<K, V>>,
    /// The source key's bytes are what the key's serde would write.
    pub(crate) reuse: bool,
    /// The default partitioner goes by a part of the key that its serde knows. Not so for repartition topics, as in Kafka Streams.
    pub(crate) by_part: bool,
}

impl<K: 'static, V: 'static> SinkNode<K, V> {
    #[inline]
    fn send(&self, cx: &mut TaskCx<'_>, record: &Record<K, V>) -> Result {
        let TaskCx { port, source_key, scratch, .. } = cx;
        if record.timestamp < 0 {
            return Err(before_1970(record.timestamp));
        }
        let key = match source_key.filter(|_| self.reuse) {
            Some(key) => Some(key),
            None => {
                scratch.key.clear();
                self.key.encode(&record.key, &mut scratch.key)?.then_some(scratch.key.as_slice())
            }
        };
        scratch.value.clear();
        let value = self.value.encode(&record.value, &mut scratch.value)?.then_some(scratch.value.as_slice());
        let (timestamp, headers) = (record.timestamp, &record.headers);
        let topic = match &self.topic {
            None => None,
            Some(choose) => {
                scratch.topic.clear();
                let context = RecordContext { metadata: port.metadata(), timestamp, headers };
                choose(&record.key, &record.value, &context, &mut scratch.topic)?;
                Some(legal(&scratch.topic)?)
            }
        };
        let partition = match &self.partitioner {
            None => None,
            Some(choose) => {
                let count = port.partitions(self.sink, topic)?;
                self.partition(choose(&record.key, &record.value, count), count)?
            }
        };
        let partitioned_by = key.filter(|_| self.by_part).and_then(|key| self.key.partitioned_by(key));
        port.send(&Out { sink: self.sink, topic, partition, partitioned_by, timestamp, key, value, headers })
    }

    fn partition(&self, chosen: Option<i32>, count: i32) -> Result<Option<i32>> {
        match chosen {
            Some(partition) if !(0..count).contains(&partition) => {
                let error = Error::new(ErrorKind::Processing, "choose a partition");
                Err(error.with("partition", partition).with("partitions", count))
            }
            fine => Ok(fine),
        }
    }
}

/// Whoever reads the topic could make nothing of it: a source takes no such record.
#[cold]
fn before_1970(timestamp: i64) -> Error {
    let error = Error::new(ErrorKind::Processing, "write a record");
    error.with("timestamp", timestamp).with("cause", "its time is negative: give it one since 1970")
}

impl<K: 'static, V: 'static> Node<Record<K, V>> for SinkNode<K, V> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        match self.send(cx, &record) {
            Ok(()) => Ok(()),
            Err(e) => Err(e.at(&self.name)),
        }
    }

    fn visit(&mut self, _: &mut TaskCx<'_>, _: &[u16], event: Event<'_>) -> Result {
        Err(event.refused(&self.name))
    }
}

/// A topic's name, if it can be one.
fn legal(topic: &str) -> Result<&str> {
    match names::illegal(topic) {
        None => Ok(topic),
        Some(why) => {
            let error = Error::new(ErrorKind::Processing, "choose a topic");
            Err(error.with("topic", topic).with("cause", why))
        }
    }
}
