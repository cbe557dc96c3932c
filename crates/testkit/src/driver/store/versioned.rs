//! Versioned stores.

use millpond_store_api::{self as store, Versioned};
use millpond_topology::{LayerSpace, Serde, StoreAccess, StoreType, VersionedRecord};

use super::{Look, Result, told};
use crate::driver::Driver;
use crate::driver::output::try_decode;

/// A versioned store of the topology; [`Driver::versioned_store`] makes it. It shows what tasks see now, writes that are not
/// committed included, and goes on over restarts. While nothing runs it is empty.
///
/// # Panics
///
/// All functions that read rows do if they do not fit the serdes.
#[derive(Debug)]
pub struct VersionedStore<K, V>(Look<K, V>);

impl<K: 'static, V: 'static> VersionedStore<K, V> {
    #[track_caller]
    pub(crate) fn new(driver: &Driver, name: &str, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self(Look::new(driver, name, &[StoreType::VersionedKeyValue], key, value))
    }

    /// The latest version of a key; `None` if that is a tombstone.
    #[track_caller]
    pub fn get(&self, key: impl Into<K>) -> Option<VersionedRecord<V>> {
        self.get_as_of(key, i64::MAX)
    }

    /// The version of a key that was valid at a time, as
    /// [`VersionedView::get_as_of`](millpond_topology::VersionedView::get_as_of).
    #[track_caller]
    pub fn get_as_of(&self, key: impl Into<K>, as_of: i64) -> Option<VersionedRecord<V>> {
        told(self.find(&key.into(), as_of))
    }

    /// The latest version of every key that has a value: key, value, and from when on it is valid; in the order of the keys'
    /// bytes.
    #[track_caller]
    pub fn all(&self) -> Vec<(K, V, i64)> {
        let row = |(key, value): &(Vec<u8>, Vec<u8>)| {
            let (value, timestamp) = self.0.value(value)?;
            Ok((self.0.key(key)?, value, timestamp))
        };
        told(told(self.0.sorted()).iter().map(row).collect())
    }

    fn find(&self, key: &K, as_of: i64) -> Result<Option<VersionedRecord<V>>> {
        let key = self.0.key_bytes(key)?;
        let (mut found, mut failed) = (None, None);
        self.0.driver.process().with_store(&self.0.def, &mut |_, access| match as_of_in(access, &key, as_of) {
            Ok(version) => found = found.take().or(version),
            Err(e) => failed = Some(e),
        });
        if let Some(e) = failed {
            return Err(format!("cannot read the store `{}`: {e:?}", self.0.def.name));
        }
        let what = || format!("a value of the store `{}`", self.0.def.name);
        let version = |(value, timestamp, valid_to): Found| {
            Ok(VersionedRecord { value: try_decode(&*self.0.value, Some(&value), &what)?, timestamp, valid_to })
        };
        found.map(version).transpose()
    }
}

/// A version's value, and from when until when it is valid.
type Found = (Vec<u8>, i64, Option<i64>);

fn as_of_in(access: &mut StoreAccess<'_>, key: &[u8], as_of: i64) -> store::Result<Option<Found>> {
    let StoreAccess { layer, base, timestamp, expiry } = access;
    let (base, timestamp) = (*base, *timestamp);
    let Some(expiry) = expiry else { return Ok(None) };
    let Some(windowed) = &mut expiry.windowed else { return Ok(None) };
    let mut latest = LayerSpace { layer: &mut **layer, base, timestamp };
    let mut history = LayerSpace { layer: &mut **windowed, base, timestamp };
    let mut view = Versioned::new(&mut latest, &mut history, expiry.store, expiry.retention, *expiry.observed);
    let found = view.get_as_of(key, as_of)?;
    Ok(found.map(|version| (version.value.to_vec(), version.timestamp, version.valid_to)))
}
