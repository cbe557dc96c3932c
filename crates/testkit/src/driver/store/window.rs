//! Window stores.

use std::ops::RangeBounds;

use millpond_topology::{Serde, StoreType};

use super::{Look, split_time};
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
        let key = self.0.key_bytes(&key.into());
        let mut rows = self.0.sorted().into_iter();
        let found = rows.rfind(|(stored, _)| split_time(stored, TAIL) == Some((&key, start)));
        found.map(|(_, value)| self.0.value(&value))
    }

    /// The windows of a key that begin in a range of times: starts and values, the earliest first.
    #[track_caller]
    pub fn fetch(&self, key: impl Into<K>, starts: impl RangeBounds<i64>) -> Vec<(i64, V)> {
        let key = self.0.key_bytes(&key.into());
        let rows = self.0.sorted();
        let of_key = rows.iter().filter_map(|(stored, value)| Some((split_time(stored, TAIL)?, value)));
        let wanted = of_key.filter(|((stored, start), _)| *stored == key && starts.contains(start));
        wanted.map(|((_, start), value)| (start, self.0.value(value).0)).collect()
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
            let (key, start) = self.key(key);
            let (value, timestamp) = self.0.value(value);
            (key, start, value, timestamp)
        };
        self.0.sorted().iter().map(row).collect()
    }

    /// What the store's changelog amounts to: all its committed records, read from the start, the last of each key and
    /// window. Rows that have expired in the store may still be there.
    #[track_caller]
    pub fn changelog(&self) -> Vec<(K, i64, V)> {
        let row = |(key, value): (Vec<u8>, V)| {
            let (key, start) = self.key(&key);
            (key, start, value)
        };
        self.0.logged().into_iter().map(row).collect()
    }

    #[track_caller]
    fn key(&self, bytes: &[u8]) -> (K, i64) {
        match split_time(bytes, TAIL) {
            Some((key, start)) => (self.0.key(key), start),
            None => panic!("a key of the store `{}` is too short", self.0.def.name),
        }
    }
}

const KINDS: [StoreType; 3] =
    [StoreType::Window, StoreType::TimestampedWindow, StoreType::TimestampedWindowWithHeaders];
