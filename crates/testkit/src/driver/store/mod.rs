//! Looks into stores, across all tasks that have a part of them.

mod key_value;
mod session;
mod versioned;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_topology::{Serde, StoreDef, StoreType};

pub use key_value::Store;
pub use session::SessionStore;
pub use versioned::VersionedStore;
pub use window::WindowStore;

use super::Driver;
use super::input::encode;
use super::output::try_decode;
use super::rows;

/// A row as bytes: its partition, its key as in the changelog, its value as in the store.
type RawRow = (i32, Vec<u8>, Vec<u8>);

/// What cannot be read, in words: the test's own line panics with it.
type Result<T> = std::result::Result<T, String>;

/// The answer, or a panic at the line that asked.
#[track_caller]
fn told<T>(answer: Result<T>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(why) => panic!("{why}"),
    }
}

/// What all looks into a store have in common.
struct Look<K, V> {
    driver: Driver,
    def: StoreDef,
    key: Arc<dyn Serde<K>>,
    value: Arc<dyn Serde<V>>,
}

impl<K: 'static, V: 'static> Look<K, V> {
    /// # Panics
    ///
    /// If there is no such store, or it is of none of these kinds.
    #[track_caller]
    fn new(driver: &Driver, name: &str, kinds: &[StoreType], key: impl Serde<K>, value: impl Serde<V>) -> Self {
        let def = driver.process().known_store(name);
        assert!(kinds.contains(&def.kind), "`{name}` is a {}; look into it with `{}`", def.kind.name(), door(def.kind));
        Self { driver: driver.clone(), def, key: Arc::new(key), value: Arc::new(value) }
    }

    fn key_bytes(&self, key: &K) -> Result<Vec<u8>> {
        match encode(&*self.key, key, "encode a key") {
            Ok(Some(key)) => Ok(key),
            Ok(None) => Err(format!("the store `{}` has no row with a null key", self.def.name)),
            Err(e) => Err(format!("the key does not fit the test's serde: {}", e.chain())),
        }
    }

    fn key(&self, bytes: &[u8]) -> Result<K> {
        try_decode(&*self.key, Some(bytes), &|| format!("a key of the store `{}`", self.def.name))
    }

    /// A value, and the event time of its last update; -1 if the store keeps none.
    fn value(&self, bytes: &[u8]) -> Result<(V, i64)> {
        let what = || format!("a value of the store `{}`", self.def.name);
        let (bytes, timestamp) =
            rows::value(self.def.kind, bytes).map_err(|e| format!("{} is damaged: {e:?}", what()))?;
        Ok((try_decode(&*self.value, Some(bytes), &what)?, timestamp))
    }

    /// All rows, by partition, then as the store sorts them.
    fn raw(&self) -> Result<Vec<RawRow>> {
        raw(&self.driver, &self.def)
    }

    /// As [`Look::raw`], in the order of the keys' bytes.
    fn sorted(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut rows: Vec<_> = self.raw()?.into_iter().map(|(_, key, value)| (key, value)).collect();
        rows.sort();
        Ok(rows)
    }

    /// What the changelog amounts to: all its committed records, the last of each key, in the order of the keys' bytes.
    fn logged(&self) -> Result<Vec<(Vec<u8>, V)>> {
        let Some(topic) = self.driver.process().changelog(&self.def.name) else { return Ok(Vec::new()) };
        let mut rows = BTreeMap::new();
        for record in self.driver.records(&topic) {
            let key = record.key.ok_or_else(|| format!("topic=`{topic}` offset=`{}` has no key", record.offset))?;
            match record.value {
                Some(value) => rows.insert((key, record.partition), value),
                None => rows.remove(&(key, record.partition)),
            };
        }
        let what = || format!("a value of topic=`{topic}`");
        let row = |((key, _), value): ((Vec<u8>, i32), Vec<u8>)| {
            let bytes =
                rows::logged_value(self.def.kind, &value).map_err(|e| format!("{} is damaged: {e:?}", what()))?;
            Ok((key, try_decode(&*self.value, Some(bytes), &what)?))
        };
        rows.into_iter().map(row).collect()
    }
}

/// The rows of a store of any kind.
fn raw(driver: &Driver, def: &StoreDef) -> Result<Vec<RawRow>> {
    let (mut rows, mut failed) = (Vec::new(), None);
    driver.process().with_store(def, &mut |partition, access| {
        let read = rows::each(def, access, &mut |row| rows.push((partition, row.key.to_vec(), row.value.to_vec())));
        failed = failed.take().or(read.err());
    });
    failed.map_or(Ok(rows), |e| Err(format!("cannot read the store `{}`: {e:?}", def.name)))
}

/// As [`Driver::raw_store`].
#[track_caller]
pub(super) fn raw_of(driver: &Driver, name: &str) -> Vec<RawRow> {
    let def = driver.process().known_store(name);
    told(raw(driver, &def))
}

/// The function of a driver that opens stores of this kind.
fn door(kind: StoreType) -> &'static str {
    match kind {
        StoreType::Window | StoreType::TimestampedWindow | StoreType::TimestampedWindowWithHeaders => "window_store",
        StoreType::Session | StoreType::SessionWithHeaders => "session_store",
        StoreType::VersionedKeyValue => "versioned_store",
        StoreType::SuppressionBuffer => "raw_store",
        _ => "store",
    }
}

/// A key of a changelog whose last bytes are numbers: what stands before them, and the first number.
fn split_time(key: &[u8], tail: usize) -> Option<(&[u8], i64)> {
    let (key, tail) = key.split_at_checked(key.len().checked_sub(tail)?)?;
    Some((key, i64::from_be_bytes(*tail.first_chunk()?)))
}

impl<K, V> std::fmt::Debug for Look<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("name", &self.def.name).field("kind", &self.def.kind).finish_non_exhaustive()
    }
}
