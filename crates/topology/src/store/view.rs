//! A key-value store for one access: typed, over the task's bytes.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use millpond_store_api as store;
use store::{Direction, Space as _};

use crate::error::{Error, ErrorKind, Result};
use crate::node::TaskIdentity;
use crate::port::{StoreAccess, StoreIndex};
use crate::serde::Serde;
use crate::store::expiry::{earliest, is_alive};
use crate::store::kind::Opened;
use crate::store::rows::{Between, Rows};
use crate::store::{Mode, Serdes, Values, Writable, ttl};

/// Reads and writes a store, or [reads it only](crate::ReadOnly). It borrows the processor's context, so it ends before anything is forwarded.
///
/// A write is seen by all later reads of the task, and becomes durable with the task's next commit. A value that stands for
/// null (see [`Nullable`](crate::Nullable)) deletes the key. A null key is an error.
///
/// # Time to live
///
/// A row of a store [with a time to live](crate::TtlKeyValue) is there exactly while its time is greater than what the store
/// has observed minus the time to live; no function shows one that has expired. The store has observed the greatest event time
/// that its task has seen, or that was put. What has expired already is not put: that is counted as a dropped record, and is
/// no error. So [`StoreView::update`] and [`StoreView::put_all`] may come back without having written;
/// [`StoreView::is_alive`] tells beforehand.
pub struct StoreView<'a, K, C, M = Writable> {
    pub(super) access: StoreAccess<'a>,
    /// The key at hand, and a value behind it.
    pub(super) bytes: &'a mut Vec<u8>,
    /// Lent to views of bytes.
    pub(super) row: &'a mut Vec<u8>,
    pub(super) serdes: &'a Serdes<K, C>,
    pub(super) store: StoreIndex,
    pub(super) task: TaskIdentity,
    mode: PhantomData<M>,
}

impl<K, C, M> std::fmt::Debug for StoreView<'_, K, C, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreView").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<'a, K: 'static, C: Values, M: Mode> StoreView<'a, K, C, M> {
    pub(crate) fn new(opened: Opened<'a>, serdes: &'a Serdes<K, C>) -> Self {
        let Opened { access, buffers, store, task } = opened;
        Self { access, bytes: &mut buffers.bytes, row: &mut buffers.row, serdes, store, task, mode: PhantomData }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&mut self, key: &K) -> Result<Option<C::Value>> {
        self.write_key(key)?;
        let earliest = earliest::<C>(&self.access);
        match self.access.layer.get(self.access.base, self.bytes)? {
            Some(value) if is_alive::<C>(value, earliest)? => self.serdes.values().decode(value).map(Some),
            _ => Ok(None),
        }
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
        let [lower, upper] = self.serdes.bounds(&range)?;
        Ok(self.rows(lower, upper, Direction::Forward))
    }

    /// The rows between two keys, the last first; see [`StoreView::range`].
    pub fn reverse_range(&mut self, range: impl RangeBounds<K>) -> Result<Rows<K, C>> {
        let [lower, upper] = self.serdes.bounds(&range)?;
        Ok(self.rows(lower, upper, Direction::Reverse))
    }

    /// The rows whose keys' *bytes* begin with the bytes of `prefix`, in order. Sensible where the key's serde writes a
    /// prefix first, as text does.
    pub fn prefix<P>(&mut self, prefix: &P, serde: &impl Serde<P>) -> Result<Rows<K, C>> {
        let mut bytes = Vec::new();
        serde.encode(prefix, &mut bytes).map_err(|e| e.in_serde::<P>(ErrorKind::Serialization, "encode a prefix"))?;
        let prefix = store::Prefix::new(&bytes);
        let store::Range { lower, upper } = prefix.range();
        Ok(self.rows(lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec), Direction::Forward))
    }

    /// About how many rows the store has: exact for up to a thousand as far as they are committed, an estimate above that on some
    /// engines, and where more than 256 writes are not committed yet. Rows that have expired count until they are deleted.
    pub fn approximate_num_entries(&mut self) -> Result<u64> {
        Ok(self.access.space().approximate_num_entries()?)
    }

    fn rows(&mut self, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>, direction: Direction) -> Rows<K, C> {
        let between = Between::new([lower, upper], direction);
        Rows::new(self.serdes.clone(), &self.access, (self.store, self.task), between)
    }

    /// Puts the key's bytes, and nothing else, into the buffer.
    #[inline]
    pub(super) fn write_key(&mut self, key: &K) -> Result {
        self.bytes.clear();
        if self.serdes.key().encode(key, self.bytes)? { Ok(()) } else { Err(null_key()) }
    }
}

impl<K: 'static, C: Values> StoreView<'_, K, C> {
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
        Ok(layer.put(self.bytes, None, *timestamp)?)
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
        if C::EXPIRES {
            ttl::observe(&mut self.access, C::timestamp(value));
        }
        let old = self.get(key)?;
        if old.is_none() && !self.serdes.values().is_null(value) {
            self.write(value)?;
        }
        Ok(old)
    }

    /// Sets several keys, in order.
    ///
    /// # Errors
    ///
    /// As [`StoreView::put`]: the rows before the one that is at fault are put. An error that is passed on undoes them with the
    /// record.
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
                layer.put(self.bytes, None, *timestamp)?;
            }
        }
        Ok(new)
    }

    /// Sets the key in the buffer.
    #[inline]
    fn write(&mut self, value: &C::Value) -> Result {
        let end = self.bytes.len();
        let some = self.serdes.values().encode(value, self.bytes)?;
        let timestamp = C::timestamp(value).unwrap_or(self.access.timestamp);
        let (key, value) = self.bytes.split_at(end);
        if C::EXPIRES && some {
            let _put = ttl::put(&mut self.access, self.row, key, value)?;
        } else {
            self.access.layer.put(key, some.then_some(value), timestamp)?;
        }
        self.bytes.truncate(end);
        Ok(())
    }
}

#[cold]
fn null_key() -> Error {
    Error::new(ErrorKind::Serialization, "encode the key").with("cause", "a store's key cannot be null")
}
