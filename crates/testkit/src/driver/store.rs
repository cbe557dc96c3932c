//! A look into a store, across all tasks that have a part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_store_api::{Direction, Range, ValueAndTimestamp};
use millpond_topology::{Serde, StoreDef, StoreType};

use super::Driver;
use super::input::encode;
use super::output::decode;

/// A store of the topology; [`Driver::store`] makes it. It shows what tasks see now, writes that are not committed
/// included, and goes on over restarts. While nothing runs it is empty.
///
/// # Panics
///
/// All functions that read rows do if they do not fit the serdes.
pub struct Store<K, V> {
    driver: Driver,
    def: StoreDef,
    key: Arc<dyn Serde<K>>,
    value: Arc<dyn Serde<V>>,
}

impl<K: 'static, V: 'static> Store<K, V> {
    pub(super) fn new(driver: Driver, def: StoreDef, key: Arc<dyn Serde<K>>, value: Arc<dyn Serde<V>>) -> Self {
        Self { driver, def, key, value }
    }

    /// The value of a key, whichever task has it.
    #[track_caller]
    pub fn get(&self, key: impl Into<K>) -> Option<V> {
        self.get_with_timestamp(key).map(|(value, _)| value)
    }

    /// As [`Store::get`], with the event time of the last update; -1 if the store keeps none.
    #[track_caller]
    pub fn get_with_timestamp(&self, key: impl Into<K>) -> Option<(V, i64)> {
        let key = match encode(&*self.key, &key.into(), "encode a key") {
            Ok(Some(key)) => key,
            Ok(None) => panic!("the store `{}` has no row with a null key", self.def.name),
            Err(e) => panic!("the key does not fit the test's serde: {e:?}"),
        };
        let mut found = None;
        self.each_task(&mut |_, space| {
            let value = space.get(&key).map(|value| value.map(<[u8]>::to_vec));
            match value {
                Ok(Some(value)) => found = found.take().or(Some(value)),
                Ok(None) => {}
                Err(e) => panic!("cannot read the store `{}`: {e:?}", self.def.name),
            }
        });
        found.map(|bytes| self.decode_value(&bytes))
    }

    /// All rows of all tasks, in the order of the keys' bytes.
    #[track_caller]
    pub fn all(&self) -> Vec<(K, V)> {
        self.all_with_timestamps().into_iter().map(|(key, value, _)| (key, value)).collect()
    }

    /// As [`Store::all`], with the event time of each row's last update; -1 if the store keeps none.
    #[track_caller]
    pub fn all_with_timestamps(&self) -> Vec<(K, V, i64)> {
        let mut rows: Vec<_> = self.raw().into_iter().map(|(_, key, value)| (key, value)).collect();
        rows.sort();
        rows.iter().map(|(key, value)| self.decode_row(key, value)).collect()
    }

    /// All rows of one partition's task, in the order of the keys' bytes.
    #[track_caller]
    pub fn in_partition(&self, partition: i32) -> Vec<(K, V)> {
        let rows = self.raw().into_iter().filter(|(at, ..)| *at == partition);
        let row = |(key, value, _)| (key, value);
        rows.map(|(_, key, value)| row(self.decode_row(&key, &value))).collect()
    }

    /// All rows as bytes (of a timestamped store with the time in front), with their partition; sorted by partition, then
    /// key.
    #[track_caller]
    pub fn raw(&self) -> Vec<(i32, Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        self.each_task(&mut |partition, space| {
            let mut read = || {
                let mut cursor = space.scan(Range::ALL, Direction::Forward)?;
                while let Some(row) = cursor.next()? {
                    rows.push((partition, row.key.to_vec(), row.value.to_vec()));
                }
                Ok(())
            };
            if let Err(e) = read() {
                let e: millpond_store_api::Error = e;
                panic!("cannot read the store `{}`: {e:?}", self.def.name);
            }
        });
        rows
    }

    /// What the store's changelog amounts to: all its committed records, read from the start, the last of each key. Equal
    /// to [`Store::all`] whenever everything is committed. Empty if the store has no changelog.
    #[track_caller]
    pub fn changelog(&self) -> Vec<(K, V)> {
        let Some(topic) = self.driver.process().changelog(&self.def.name) else { return Vec::new() };
        let mut rows = BTreeMap::new();
        for record in self.driver.records(&topic) {
            let Some(key) = record.key else { panic!("topic=`{topic}` offset=`{}` has no key", record.offset) };
            match record.value {
                Some(value) => rows.insert((key, record.partition), value),
                None => rows.remove(&(key, record.partition)),
            };
        }
        let what = |part: &'static str| move || format!("a changelog's {part}");
        let row = |((key, _), value): (&(Vec<u8>, i32), &Vec<u8>)| {
            (decode(&*self.key, Some(key), &what("key")), decode(&*self.value, Some(value), &what("value")))
        };
        rows.iter().map(row).collect()
    }

    fn each_task(&self, read: &mut dyn FnMut(i32, &mut dyn millpond_store_api::Space)) {
        self.driver.process().with_store(&self.def, read);
    }

    #[track_caller]
    fn decode_row(&self, key: &[u8], value: &[u8]) -> (K, V, i64) {
        let (value, timestamp) = self.decode_value(value);
        (decode(&*self.key, Some(key), &|| format!("a key of the store `{}`", self.def.name)), value, timestamp)
    }

    #[track_caller]
    fn decode_value(&self, bytes: &[u8]) -> (V, i64) {
        let what = || format!("a value of the store `{}`", self.def.name);
        let (bytes, timestamp) = match self.def.kind {
            StoreType::TimestampedKeyValue => match ValueAndTimestamp::decode(bytes) {
                Ok(row) => (row.value, row.timestamp),
                Err(e) => panic!("{} is damaged: {e:?}", what()),
            },
            _ => (bytes, -1),
        };
        (decode(&*self.value, Some(bytes), &what), timestamp)
    }
}

impl<K, V> std::fmt::Debug for Store<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("name", &self.def.name).finish_non_exhaustive()
    }
}
