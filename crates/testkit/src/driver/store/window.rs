//! Window stores.

use std::ops::RangeBounds;

use millpond_topology::{Serde, StoreType};

use super::{Look, Result, split_time, told};
use crate::driver::Driver;

/// A window store of the topology, such as a windowed aggregation's; [`Driver::window_store`] makes it. It shows what tasks see
/// now, writes that are not committed included, and goes on over restarts. While nothing runs it is empty.
///
/// Windows go by their starts, in milliseconds of event time. Rows that have expired are not there.
///
/// # Panics
///
/// All functions that read rows do if they do not fit the serdes.
#[derive(Debug)]
pub struct WindowStore<K, V>(Look<K, V>);

/// Behind the key: when the window starts, and the number of a duplicate.
const TAIL: usize = 8 + 4;

impl<K: 'static, V: 'static> WindowStore<K, V> {
    #[track_caller]
    pub(crate) fn new(driver: &Driver, name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self(Look::new(driver, name, &KINDS, key, value))
    }

    /// The value of a key in the window that begins at `start`; of duplicates the one that was put last.
    #[track_caller]
    pub fn get(&self, key: impl Into<K>, start: i64) -> Option<V> {
        self.get_with_timestamp(key, start).map(|(value, _)| value)
    }

    /// As [`WindowStore::get`], with the event time of the last update; -1 if the store keeps none.
    #[track_caller]
    pub fn get_with_timestamp(&self, key: impl Into<K>, start: i64) -> Option<(V, i64)> {
        told(self.find(&key.into(), start))
    }

    /// The windows of a key that begin in a range of times: starts and values, the earliest first.
    #[track_caller]
    pub fn fetch(&self, key: impl Into<K>, starts: impl RangeBounds<i64>) -> Vec<(i64, V)> {
        let rows = told(self.of_key(&key.into()));
        let wanted = rows.into_iter().filter(|(start, _)| starts.contains(start));
        told(wanted.map(|(start, value)| Ok((start, self.0.value(&value)?.0))).collect())
    }

    /// All rows of all tasks: key, start and value, in the order of the keys' bytes, then of the starts.
    #[track_caller]
    pub fn all(&self) -> Vec<(K, i64, V)> {
        self.all_with_timestamps().into_iter().map(|(key, start, value, _)| (key, start, value)).collect()
    }

    /// As [`WindowStore::all`], with the event time of each row's last update; -1 if the store keeps none.
    #[track_caller]
    pub fn all_with_timestamps(&self) -> Vec<(K, i64, V, i64)> {
        let row = |(key, value): &(Vec<u8>, Vec<u8>)| {
            let (key, start) = self.split(key)?;
            let (value, timestamp) = self.0.value(value)?;
            Ok((self.0.key(key)?, start, value, timestamp))
        };
        told(told(self.0.sorted()).iter().map(row).collect())
    }

    /// What the store's changelog amounts to: all its committed records, read from the start, the last of each key and
    /// window. Rows that have expired in the store may still be there.
    #[track_caller]
    pub fn changelog(&self) -> Vec<(K, i64, V)> {
        let row = |(key, value): (Vec<u8>, V)| {
            let (key, start) = self.split(&key)?;
            Ok((self.0.key(key)?, start, value))
        };
        told(told(self.0.logged()).into_iter().map(row).collect())
    }

    fn find(&self, key: &K, start: i64) -> Result<Option<(V, i64)>> {
        let found = self.of_key(key)?.into_iter().rfind(|(at, _)| *at == start);
        found.map(|(_, value)| self.0.value(&value)).transpose()
    }

    /// The starts of a key's windows, with the values' bytes.
    fn of_key(&self, key: &K) -> Result<Vec<(i64, Vec<u8>)>> {
        let key = self.0.key_bytes(key)?;
        let mut of_key = Vec::new();
        for (stored, value) in self.0.sorted()? {
            let (stored, start) = self.split(&stored)?;
            if *stored == key {
                of_key.push((start, value));
            }
        }
        Ok(of_key)
    }

    fn split<'a>(&self, bytes: &'a [u8]) -> Result<(&'a [u8], i64)> {
        split_time(bytes, TAIL).ok_or_else(|| format!("a key of the store `{}` is too short", self.0.def.name))
    }
}

const KINDS: [StoreType; 3] =
    [StoreType::Window, StoreType::TimestampedWindow, StoreType::TimestampedWindowWithHeaders];
