//! Key-value stores.

use millpond_topology::{Serde, StoreType};

use super::{Look, RawRow, Result, told};
use crate::driver::Driver;

/// A key-value store of the topology: a table's, an aggregation's, or one of a processor; [`Driver::store`] makes it. It shows
/// what tasks see now, writes that are not committed included, and goes on over restarts. While nothing runs it is empty.
///
/// Rows that have expired are not there. The value of a list-value store is the whole list
/// ([`List`](millpond_topology::List)); that of a suppression buffer is what the row is by the update that waits, nothing if it
/// is gone.
///
/// # Panics
///
/// All functions that read rows do if they do not fit the serdes.
#[derive(Debug)]
pub struct Store<K, V>(Look<K, V>);

impl<K: 'static, V: 'static> Store<K, V> {
    #[track_caller]
    pub(crate) fn new(driver: &Driver, name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self(Look::new(driver, name, &KINDS, key, value))
    }

    /// The value of a key, whichever task has it.
    #[track_caller]
    pub fn get(&self, key: impl Into<K>) -> Option<V> {
        self.get_with_timestamp(key).map(|(value, _)| value)
    }

    /// As [`Store::get`], with the event time of the last update; -1 if the store keeps none.
    #[track_caller]
    pub fn get_with_timestamp(&self, key: impl Into<K>) -> Option<(V, i64)> {
        told(self.find(&key.into()))
    }

    /// All rows of all tasks, in the order of the keys' bytes.
    #[track_caller]
    pub fn all(&self) -> Vec<(K, V)> {
        self.all_with_timestamps().into_iter().map(|(key, value, _)| (key, value)).collect()
    }

    /// As [`Store::all`], with the event time of each row's last update; -1 if the store keeps none.
    #[track_caller]
    pub fn all_with_timestamps(&self) -> Vec<(K, V, i64)> {
        let rows = told(self.0.sorted());
        told(rows.iter().map(|(key, value)| self.row(key, value)).collect())
    }

    /// All rows of one partition's task, in the order of the keys' bytes.
    #[track_caller]
    pub fn in_partition(&self, partition: i32) -> Vec<(K, V)> {
        let rows = self.raw().into_iter().filter(|(at, ..)| *at == partition);
        told(rows.map(|(_, key, value)| self.row(&key, &value).map(|(key, value, _)| (key, value))).collect())
    }

    /// All rows as bytes, with their partition; sorted by partition, then as the store sorts them.
    #[track_caller]
    pub fn raw(&self) -> Vec<RawRow> {
        told(self.0.raw())
    }

    /// What the store's changelog amounts to: all its committed records, read from the start, the last of each key. Equal
    /// to [`Store::all`] whenever everything is committed. Empty if the store has no changelog.
    #[track_caller]
    pub fn changelog(&self) -> Vec<(K, V)> {
        let rows = told(self.0.logged());
        told(rows.into_iter().map(|(key, value)| Ok((self.0.key(&key)?, value))).collect())
    }

    fn find(&self, key: &K) -> Result<Option<(V, i64)>> {
        let key = self.0.key_bytes(key)?;
        let found = self.0.raw()?.into_iter().find(|(_, stored, _)| *stored == key);
        found.map(|(.., value)| self.0.value(&value)).transpose()
    }

    fn row(&self, key: &[u8], value: &[u8]) -> Result<(K, V, i64)> {
        let (value, timestamp) = self.0.value(value)?;
        Ok((self.0.key(key)?, value, timestamp))
    }
}

const KINDS: [StoreType; 6] = [
    StoreType::KeyValue,
    StoreType::TimestampedKeyValue,
    StoreType::TimestampedKeyValueWithHeaders,
    StoreType::TtlKeyValue,
    StoreType::ListValue,
    StoreType::SuppressionBuffer,
];
