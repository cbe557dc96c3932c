//! A look into a store, across all tasks that have a part of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_topology::{Serde, StoreDef};

use super::Driver;
use super::input::encode;
use super::output::decode;
use super::rows;

/// A store of the topology; [`Driver::store`] makes it. It shows what tasks see now, writes that are not committed
/// included, and goes on over restarts. While nothing runs it is empty.
///
/// Keys of window and session stores are those of their changelogs: their serdes are
/// [`TimeWindowed::of_changelog`](millpond_topology::TimeWindowed::of_changelog) and
/// [`SessionWindowed`](millpond_topology::SessionWindowed). A versioned store shows the latest versions. The value of a list-value
/// store is the whole list ([`List`](millpond_topology::List)); that of a suppression buffer is what the row is by the update that waits,
/// nothing if it is gone. Rows that have expired are not there.
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
        let found = self.raw().into_iter().find(|(_, stored, _)| *stored == key);
        found.map(|(.., value)| self.decode_value(&value))
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

    /// All rows as bytes, with their partition; sorted by partition, then as the store sorts them. Keys are as in the
    /// changelog, values as in the store.
    #[track_caller]
    pub fn raw(&self) -> Vec<(i32, Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        self.driver.process().with_store(&self.def, &mut |partition, access| {
            let read = rows::each(&self.def, access, &mut |row| {
                rows.push((partition, row.key.to_vec(), row.value.to_vec()));
            });
            if let Err(e) = read {
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
            let value = match rows::logged_value(self.def.kind, value) {
                Ok(value) => value,
                Err(e) => panic!("cannot read the changelog of `{}`: {e:?}", self.def.name),
            };
            (decode(&*self.key, Some(key), &what("key")), decode(&*self.value, Some(value), &what("value")))
        };
        rows.iter().map(row).collect()
    }

    #[track_caller]
    fn decode_row(&self, key: &[u8], value: &[u8]) -> (K, V, i64) {
        let (value, timestamp) = self.decode_value(value);
        (decode(&*self.key, Some(key), &|| format!("a key of the store `{}`", self.def.name)), value, timestamp)
    }

    #[track_caller]
    fn decode_value(&self, bytes: &[u8]) -> (V, i64) {
        let what = || format!("a value of the store `{}`", self.def.name);
        let (bytes, timestamp) = match rows::value(self.def.kind, bytes) {
            Ok(value) => value,
            Err(e) => panic!("{} is damaged: {e:?}", what()),
        };
        (decode(&*self.value, Some(bytes), &what), timestamp)
    }
}

impl<K, V> std::fmt::Debug for Store<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("name", &self.def.name).finish_non_exhaustive()
    }
}
