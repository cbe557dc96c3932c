//! Sources: bytes become records.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::node::{Event, Outs, Root, TaskCx};
use crate::port::{Dropped, NodeIndex, Raw};
use crate::record::Record;
use crate::serde::Coder;

/// Gets a record's event time from its parts, its own time and the partition's.
pub(crate) type ExtractFn<K, V> = Arc<dyn Fn(&K, &V, i64, i64) -> i64 + Send + Sync>;

/// Where event time comes from.
pub(crate) enum Extractor<K, V> {
    /// The record's own; a negative one is an error.
    Fail,
    /// The record's own; a negative one drops it.
    Skip,
    /// The record's own, or the partition's where it is negative.
    PartitionTime,
    /// The user's.
    Custom(ExtractFn<K, V>),
}

impl<K, V> Extractor<K, V> {
    /// True if the event time of every record that is not dropped or refused is its own.
    pub(crate) fn keeps_times(&self) -> bool {
        matches!(self, Self::Fail | Self::Skip)
    }

    /// True if it only checks the record's own time.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self, Self::Fail)
    }
}

impl<K, V> Clone for Extractor<K, V> {
    fn clone(&self) -> Self {
        match self {
            Self::Fail => Self::Fail,
            Self::Skip => Self::Skip,
            Self::PartitionTime => Self::PartitionTime,
            Self::Custom(f) => Self::Custom(f.clone()),
        }
    }
}

/// What a source makes of a value: a stream's and a table's differ in what null is.
pub(crate) trait Reading<V>: Send + 'static {
    type Value: 'static;

    /// `None`: the record is dropped.
    fn read(value: &Coder<V>, bytes: Option<&[u8]>) -> Result<Option<Self::Value>>;
}

/// Nulls are dropped, unless the serde knows them.
pub(crate) struct StreamRoot;

impl<V: 'static> Reading<V> for StreamRoot {
    type Value = V;

    #[inline]
    fn read(value: &Coder<V>, bytes: Option<&[u8]>) -> Result<Option<V>> {
        value.decode_nullable(bytes)
    }
}

/// Nulls are deletes.
pub(crate) struct TableRoot;

impl<V: 'static> Reading<V> for TableRoot {
    type Value = Option<V>;

    #[inline]
    fn read(value: &Coder<V>, bytes: Option<&[u8]>) -> Result<Option<Option<V>>> {
        bytes.map(|bytes| value.decode(bytes)).transpose().map(Some)
    }
}

pub(crate) struct SourceNode<K, V, R: Reading<V>> {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeIndex,
    pub(crate) key: Coder<K>,
    pub(crate) value: Coder<V>,
    pub(crate) extractor: Extractor<K, V>,
    pub(crate) outs: Outs<Record<K, R::Value>>,
    pub(crate) reading: PhantomData<fn() -> R>,
}

impl<K: 'static, V: 'static, R: Reading<V>> SourceNode<K, V, R> {
    /// The record, or why it is dropped.
    #[inline]
    fn read(&self, raw: &Raw<'_>) -> Result<std::result::Result<Record<K, R::Value>, Dropped>> {
        let Some(key) = self.key.decode_nullable(raw.key)? else { return Ok(Err(Dropped::NullKey)) };
        let Some(value) = R::read(&self.value, raw.value)? else { return Ok(Err(Dropped::NullValue)) };
        Ok(Ok(Record { key, value, timestamp: raw.timestamp, headers: raw.headers.clone() }))
    }

    fn extract(&self, raw: &Raw<'_>, partition_time: i64) -> Result<i64> {
        match &self.extractor {
            Extractor::Fail if raw.timestamp < 0 => {
                Err(no_time(raw.timestamp).with("fix", "set a timestamp extractor"))
            }
            Extractor::PartitionTime if raw.timestamp < 0 && partition_time < 0 => {
                Err(no_time(raw.timestamp).with("cause", "no record of the partition has had a time yet"))
            }
            Extractor::Fail | Extractor::Skip => Ok(raw.timestamp),
            Extractor::PartitionTime => Ok(if raw.timestamp < 0 { partition_time } else { raw.timestamp }),
            Extractor::Custom(f) => {
                let (Some(key), Some(bytes)) = (self.key.decode_nullable(raw.key)?, raw.value) else {
                    return Ok(raw.timestamp);
                };
                Ok(f(&key, &self.value.decode(bytes)?, raw.timestamp, partition_time))
            }
        }
    }
}

#[cold]
fn no_time(timestamp: i64) -> Error {
    Error::new(ErrorKind::Processing, "take a record's timestamp").with("timestamp", timestamp)
}

impl<K: 'static, V: 'static, R: Reading<V>> Root for SourceNode<K, V, R> {
    #[inline]
    fn receive(&mut self, cx: &mut TaskCx<'_>, raw: &Raw<'_>) -> Result {
        match self.read(raw) {
            Ok(Ok(record)) => self.outs.forward(cx, record),
            Ok(Err(why)) => {
                cx.port.dropped(self.node, why);
                Ok(())
            }
            Err(e) => Err(e.at(&self.name)),
        }
    }

    fn timestamp(&self, raw: &Raw<'_>, partition_time: i64) -> Result<i64> {
        self.extract(raw, partition_time).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.outs.visit(cx, path, event)
    }
}
