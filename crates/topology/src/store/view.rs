//! A key-value store for one access: typed, over the task's bytes.

use std::ops::{Bound, RangeBounds};

use millpond_store_api as store;
use store::Direction;

use crate::error::{Error, ErrorKind, Result};
use crate::node::TaskIdentity;
use crate::port::{StoreAccess, StoreIndex};
use crate::serde::Serde;
use crate::store::kind::Opened;
use crate::store::rows::{Rows, Walk};
use crate::store::{Serdes, Values};

/// Reads and writes a store. It borrows the processor's context, so it ends before anything is forwarded.
///
/// A write is seen by all later reads of the task, and becomes durable with the task's next commit. A value that stands for
/// null (see [`Nullable`](crate::Nullable)) deletes the key. A null key is an error.
pub struct StoreView<'a, K, C> {
    access: StoreAccess<'a>,
    scratch: &'a mut Vec<u8>,
    serdes: &'a Serdes<K, C>,
    store: StoreIndex,
    task: TaskIdentity,
}

impl<K, C> std::fmt::Debug for StoreView<'_, K, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreView").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<'a, K: 'static, C: Values> StoreView<'a, K, C> {
    pub(crate) fn new(opened: Opened<'a>, serdes: &'a Serdes<K, C>) -> Self {
        let Opened { access, scratch, store, task } = opened;
        Self { access, scratch, serdes, store, task }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&mut self, key: &K) -> Result<Option<C::Value>> {
        self.write_key(key)?;
        let found = self.access.layer.get(self.access.base, self.scratch)?;
        found.map(|bytes| self.serdes.values().decode(bytes)).transpose()
    }

    /// Sets a key; reads nothing.
    #[inline]
    pub fn put(&mut self, key: &K, value: &C::Value) -> Result {
        self.write_key(key)?;
        self.write(value)
    }

    /// Deletes a key; reads nothing.
    pub fn delete(&mut self, key: &K) -> Result {
        self.write_key(key)?;
        let StoreAccess { layer, timestamp, .. } = &mut self.access;
        Ok(layer.put(self.scratch, None, *timestamp)?)
    }

    /// Deletes a key and gives back the value it had.
    pub fn remove(&mut self, key: &K) -> Result<Option<C::Value>> {
        let old = self.get(key)?;
        if old.is_some() {
            self.delete(key)?;
        }
        Ok(old)
    }

    /// Sets a key that has no value; gives back the value of one that has, and leaves it alone.
    pub fn put_if_absent(&mut self, key: &K, value: &C::Value) -> Result<Option<C::Value>> {
        let old = self.get(key)?;
        if old.is_none() && !self.serdes.values().is_null(value) {
            self.write(value)?;
        }
        Ok(old)
    }

    /// Sets several keys, in order.
    pub fn put_all(&mut self, rows: impl IntoIterator<Item = (K, C::Value)>) -> Result {
        rows.into_iter().try_for_each(|(key, value)| self.put(&key, &value))
    }

    /// Reads, changes and writes a key; `None` in either direction is no value. Gives back the new value.
    #[inline]
    pub fn update(
        &mut self,
        key: &K,
        change: impl FnOnce(Option<C::Value>) -> Option<C::Value>,
    ) -> Result<Option<C::Value>> {
        let old = self.get(key)?;
        let new = change(old);
        match &new {
            Some(value) => self.write(value)?,
            None => {
                let StoreAccess { layer, timestamp, .. } = &mut self.access;
                layer.put(self.scratch, None, *timestamp)?;
            }
        }
        Ok(new)
    }

    /// All rows, in the order of their keys' bytes.
    pub fn all(&mut self) -> Rows<K, C> {
        self.rows(Bound::Unbounded, Bound::Unbounded, Direction::Forward)
    }

    /// All rows, the last first.
    pub fn reverse_all(&mut self) -> Rows<K, C> {
        self.rows(Bound::Unbounded, Bound::Unbounded, Direction::Reverse)
    }

    /// The rows between two keys. A range whose ends are the wrong way round is empty.
    ///
    /// An error if the key's serde does not sort as the keys do (such as [`I64`](crate::I64), where negative numbers come
    /// last): the rows would not be those between the keys.
    pub fn range(&mut self, range: impl RangeBounds<K>) -> Result<Rows<K, C>> {
        let [lower, upper] = self.bounds(&range)?;
        Ok(self.rows(lower, upper, Direction::Forward))
    }

    /// The rows between two keys, the last first; see [`StoreView::range`].
    pub fn reverse_range(&mut self, range: impl RangeBounds<K>) -> Result<Rows<K, C>> {
        let [lower, upper] = self.bounds(&range)?;
        Ok(self.rows(lower, upper, Direction::Reverse))
    }

    /// The rows whose keys' *bytes* begin with the bytes of `prefix`, in order. Sensible where the key's serde writes a
    /// prefix first, as text does.
    pub fn prefix<P>(&mut self, prefix: &P, serde: &impl Serde<P>) -> Result<Rows<K, C>> {
        let mut bytes = Vec::new();
        serde.encode(prefix, &mut bytes).map_err(|e| e.in_serde(ErrorKind::Serialization, "encode a prefix"))?;
        let prefix = store::Prefix::new(&bytes);
        let store::Range { lower, upper } = prefix.range();
        Ok(self.rows(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec), Direction::Forward))
    }

    fn rows(&mut self, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>, direction: Direction) -> Rows<K, C> {
        let walk = Walk::begin(&self.access, lower, upper, direction);
        Rows::new(self.serdes.clone(), self.store, self.task, walk)
    }

    fn bounds(&self, range: &impl RangeBounds<K>) -> Result<[Bound<Vec<u8>>; 2]> {
        if !self.serdes.key().ordered() {
            let cause =
                "the bytes of this key's serde do not sort as the keys do; use an ordered one, or scan all rows";
            return Err(Error::new(ErrorKind::Topology, "scan a range").with("cause", cause));
        }
        let bytes = |bound: Bound<&K>| -> Result<Bound<Vec<u8>>> {
            let mut out = Vec::new();
            let encoded = match bound {
                Bound::Included(key) | Bound::Excluded(key) => self.serdes.key().encode(key, &mut out)?,
                Bound::Unbounded => return Ok(Bound::Unbounded),
            };
            Ok(match bound {
                // A null end is an open end, as in Kafka Streams.
                _ if !encoded => Bound::Unbounded,
                Bound::Included(_) => Bound::Included(out),
                _ => Bound::Excluded(out),
            })
        };
        Ok([bytes(range.start_bound())?, bytes(range.end_bound())?])
    }

    /// Puts the key's bytes, and nothing else, into the buffer.
    #[inline]
    fn write_key(&mut self, key: &K) -> Result {
        self.scratch.clear();
        if self.serdes.key().encode(key, self.scratch)? { Ok(()) } else { Err(null_key()) }
    }

    /// Sets the key in the buffer.
    #[inline]
    fn write(&mut self, value: &C::Value) -> Result {
        let end = self.scratch.len();
        let some = self.serdes.values().encode(value, self.scratch)?;
        let timestamp = C::timestamp(value).unwrap_or(self.access.timestamp);
        let (key, value) = self.scratch.split_at(end);
        self.access.layer.put(key, some.then_some(value), timestamp)?;
        self.scratch.truncate(end);
        Ok(())
    }
}

#[cold]
fn null_key() -> Error {
    Error::new(ErrorKind::Serialization, "encode the key").with("cause", "a store's key cannot be null")
}
