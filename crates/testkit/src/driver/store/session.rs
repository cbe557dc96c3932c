//! Session stores.

use millpond_topology::{Serde, StoreType, Windowed};

use super::{Look, Result, split_time, told};
use crate::driver::Driver;

/// A session store of the topology; [`Driver::session_store`] makes it. It shows what tasks see now, writes that are not
/// committed included, and goes on over restarts. While nothing runs it is empty.
///
/// A session is a key with the times of its first and its last record. Sessions that have expired are not there.
///
/// # Panics
///
/// All functions that read rows do if they do not fit the serdes.
#[derive(Debug)]
pub struct SessionStore<K, V>(Look<K, V>);

impl<K: 'static, V: 'static> SessionStore<K, V> {
    #[track_caller]
    pub(crate) fn new(driver: &Driver, name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self(Look::new(driver, name, &KINDS, key, value))
    }

    /// The value of exactly this session.
    #[track_caller]
    pub fn get(&self, key: impl Into<K>, start: i64, end: i64) -> Option<V> {
        let found = self.fetch(key).into_iter().find(|(from, to, _)| (*from, *to) == (start, end));
        found.map(|(.., value)| value)
    }

    /// The sessions of a key: start, end and value, in the order of their ends.
    #[track_caller]
    pub fn fetch(&self, key: impl Into<K>) -> Vec<(i64, i64, V)> {
        told(self.of_key(&key.into()))
    }

    /// All sessions of all tasks, in the order of the keys' bytes, then of the ends.
    #[track_caller]
    pub fn all(&self) -> Vec<(Windowed<K>, V)> {
        let rows = told(self.0.sorted());
        told(rows.iter().map(|(key, value)| Ok((self.key(key)?, self.0.value(value)?.0))).collect())
    }

    /// What the store's changelog amounts to: all its committed records, read from the start, the last of each session.
    /// Sessions that have expired in the store may still be there.
    #[track_caller]
    pub fn changelog(&self) -> Vec<(Windowed<K>, V)> {
        let rows = told(self.0.logged());
        told(rows.into_iter().map(|(key, value)| Ok((self.key(&key)?, value))).collect())
    }

    fn of_key(&self, key: &K) -> Result<Vec<(i64, i64, V)>> {
        let key = self.0.key_bytes(key)?;
        let mut of_key = Vec::new();
        for (stored, value) in self.0.sorted()? {
            let (stored, start, end) = self.split(&stored)?;
            if *stored == key {
                of_key.push((start, end, self.0.value(&value)?.0));
            }
        }
        Ok(of_key)
    }

    fn key(&self, bytes: &[u8]) -> Result<Windowed<K>> {
        let (key, start, end) = self.split(bytes)?;
        Ok(Windowed { key: self.0.key(key)?, start, end })
    }

    /// The key's own bytes, start and end.
    fn split<'a>(&self, bytes: &'a [u8]) -> Result<(&'a [u8], i64, i64)> {
        let split = || {
            let (rest, start) = split_time(bytes, 8)?;
            let (key, end) = split_time(rest, 8)?;
            Some((key, start, end))
        };
        split().ok_or_else(|| format!("a key of the store `{}` is too short", self.0.def.name))
    }
}

const KINDS: [StoreType; 2] = [StoreType::Session, StoreType::SessionWithHeaders];
