//! The store of a table: one row replaced per update, the key's bytes reused where they can be.

use crate::error::Result;
use crate::node::{BuildCx, TaskCx};
use crate::port::{Drained, StoreAccess, StoreIndex};
use crate::record::{Change, Record};
use crate::serde::Coder;
use crate::store::{Serdes, Stamped};

/// A timestamped store as a node of a table uses it.
pub(crate) struct TableStore<K, V> {
    serdes: Serdes<K, Stamped<V>>,
    store: StoreIndex,
    /// The source key's bytes are what the key's serde would write.
    reuse: bool,
    /// Updates are forwarded when they are drained, not when they are made.
    cached: bool,
    wants_old: bool,
}

/// What a node does after it has updated its store.
pub(crate) enum Updated<V> {
    /// Forward the change, at this time.
    Forward(Change<V>, i64),
    /// Nothing: the change comes out later, or there is none.
    Nothing,
    /// Nothing: the key is null.
    NullKey,
}

impl<K: 'static, V: 'static> TableStore<K, V> {
    pub(crate) fn build(b: &mut BuildCx<'_>, store: usize, serdes: Serdes<K, Stamped<V>>) -> Self {
        let store = StoreIndex(crate::topology::index(store));
        let reuse = serdes.key().identity().is_same(b.origin);
        Self { reuse, store, cached: b.port.cached(store), wants_old: b.wants_old, serdes }
    }

    pub(crate) fn value(&self) -> &Coder<V> {
        self.serdes.values().coder()
    }

    /// Reads the row of a key, lets `fold` make the new value of it, and writes that with the later of both times. Where there
    /// was no row and is none, nothing happens.
    #[inline]
    pub(crate) fn fold(
        &self,
        cx: &mut TaskCx<'_>,
        key: &K,
        timestamp: i64,
        fold: impl FnOnce(Option<V>) -> Result<Option<V>>,
    ) -> Result<Updated<V>> {
        let TaskCx { port, source_key, scratch, .. } = cx;
        let Some(key) = self.key(*source_key, &mut scratch.key, key)? else { return Ok(Updated::NullKey) };
        let mut access = port.store(self.store)?;
        let (mut taken, mut kept, mut time) = (None, None, timestamp);
        let mut was_there = false;
        if let Some(bytes) = access.layer.get(access.base, key)? {
            let (old_time, bytes) = Stamped::<V>::split(bytes)?;
            (was_there, time) = (true, timestamp.max(old_time));
            taken = Some(self.value().decode(bytes)?);
            // `fold` takes the old value, so one that goes along with the change is read a second time: that is rare, and
            // asks for no `Clone`.
            kept = if self.wants_old && !self.cached { Some(self.value().decode(bytes)?) } else { None };
        }
        let new = fold(taken)?;
        if new.is_none() && !was_there {
            return Ok(Updated::Nothing);
        }
        self.write(&mut access, key, new.as_ref(), time, &mut scratch.value)?;
        Ok(self.updated(new, kept, time))
    }

    /// Writes the row of a key, or deletes it. The old value is read only if it is needed. With `skip_absent`, a row that
    /// is not there is not deleted again.
    #[inline]
    pub(crate) fn replace(
        &self,
        cx: &mut TaskCx<'_>,
        key: &K,
        timestamp: i64,
        new: Option<V>,
        skip_absent: bool,
    ) -> Result<Updated<V>> {
        let TaskCx { port, source_key, scratch, .. } = cx;
        let Some(key) = self.key(*source_key, &mut scratch.key, key)? else { return Ok(Updated::NullKey) };
        let mut access = port.store(self.store)?;
        let mut kept = None;
        let keeps_old = self.wants_old && !self.cached;
        if keeps_old || skip_absent {
            match access.layer.get(access.base, key)? {
                Some(bytes) if keeps_old => {
                    let (_, bytes) = Stamped::<V>::split(bytes)?;
                    kept = Some(self.value().decode(bytes)?);
                }
                Some(_) => (),
                None if skip_absent && new.is_none() => return Ok(Updated::Nothing),
                None => (),
            }
        }
        self.write(&mut access, key, new.as_ref(), timestamp, &mut scratch.value)?;
        Ok(self.updated(new, kept, timestamp))
    }

    /// The record that a drained entry stands for, and the key's bytes if nodes further down may use them; none if the
    /// row neither is there nor was when it was forwarded last.
    pub(crate) fn drained<'a>(&self, entry: &Drained<'a>) -> Result<Option<DrainedRecord<'a, K, V>>> {
        if entry.new.is_none() && entry.old.is_none() {
            return Ok(None);
        }
        let key = self.serdes.key().decode(entry.key)?;
        let read = |bytes: &[u8]| {
            let (time, bytes) = Stamped::<V>::split(bytes)?;
            Result::Ok((self.value().decode(bytes)?, time))
        };
        let (new, timestamp) = match entry.new.map(read).transpose()? {
            Some((value, time)) => (Some(value), time),
            None => (self.value().null(), entry.timestamp),
        };
        let old = entry.old.filter(|_| self.wants_old).map(read).transpose()?.map(|(value, _)| value);
        let record = Record::new(key, Change { new, old }, timestamp);
        Ok(Some(DrainedRecord { record, source_key: Some(entry.key).filter(|_| self.reuse) }))
    }

    /// The key's bytes; none if it is null.
    #[inline]
    fn key<'b>(&self, source: Option<&'b [u8]>, buffer: &'b mut Vec<u8>, key: &K) -> Result<Option<&'b [u8]>> {
        if let (Some(bytes), true) = (source, self.reuse) {
            return Ok(Some(bytes));
        }
        buffer.clear();
        Ok(self.serdes.key().encode(key, buffer)?.then_some(buffer.as_slice()))
    }

    #[inline]
    fn write(
        &self,
        access: &mut StoreAccess<'_>,
        key: &[u8],
        new: Option<&V>,
        time: i64,
        buffer: &mut Vec<u8>,
    ) -> Result {
        buffer.clear();
        let some = match new {
            Some(value) => self.serdes.values().write(time, value, buffer)?,
            None => false,
        };
        // The change is logged with the row's own time, as Kafka Streams does for timestamped stores.
        Ok(access.layer.put(key, some.then_some(buffer.as_slice()), time)?)
    }

    fn updated(&self, new: Option<V>, old: Option<V>, time: i64) -> Updated<V> {
        if self.cached { Updated::Nothing } else { Updated::Forward(Change { new, old }, time) }
    }
}

/// See [`TableStore::drained`].
pub(crate) struct DrainedRecord<'a, K, V> {
    pub(crate) record: Record<K, Change<V>>,
    pub(crate) source_key: Option<&'a [u8]>,
}
