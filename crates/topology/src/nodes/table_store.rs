//! The store of a table, of whatever kind: one row replaced per update, the key's bytes reused where they can be.

use millpond_store_api as store;
use store::VersionPut;

use crate::error::Result;
use crate::headers::Headers;
use crate::node::{BuildCx, Outs, Scratch, TaskCx};
use crate::port::{Drained, Dropped, NodeIndex, StoreAccess, StoreIndex};
use crate::record::{Change, Record};
use crate::serde::{Coder, SerdeId};
use crate::store::{
    Stamped, earliest_alive, put_expiring, put_version, read_headers, split_with_headers, write_with_headers,
};

/// How a table's rows lie in their store.
pub(crate) struct RowFormat<K, V> {
    pub(crate) key: Coder<K>,
    pub(crate) value: Coder<V>,
    pub(crate) kind: RowKind,
    /// Rows in the format with headers have those of their last update, and none otherwise.
    pub(crate) keeps_headers: bool,
}

/// The kinds of stores that a table can have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    Stamped,
    WithHeaders,
    Expiring,
    Versioned,
}

impl<K, V> Clone for RowFormat<K, V> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), value: self.value.clone(), ..*self }
    }
}

impl<K: 'static, V: 'static> RowFormat<K, V> {
    /// The identity of the key's serde.
    pub(crate) fn lookup(&self) -> SerdeId {
        self.key.identity()
    }

    /// A row's time, and its value's own bytes.
    #[inline]
    fn split<'a>(&self, bytes: &'a [u8]) -> Result<(i64, &'a [u8])> {
        if self.kind == RowKind::WithHeaders { split_with_headers(bytes) } else { Stamped::<V>::split(bytes) }
    }
}

/// A store as a node of a table uses it.
pub(crate) struct TableStore<K, V> {
    rows: RowFormat<K, V>,
    store: StoreIndex,
    /// The source key's bytes are what the key's serde would write.
    reuse: bool,
    /// Updates are forwarded when they are drained, not when they are made.
    cached: bool,
    wants_old: bool,
}

/// What a node does after it has updated its store.
pub(crate) enum Updated<V> {
    Forward {
        change: Change<V>,
        timestamp: i64,
        /// The row is the key's latest version.
        latest: bool,
    },
    /// Nothing: the change comes out later, or there is none.
    Nothing,
    /// Nothing: the key is null.
    NullKey,
}

impl<V: 'static> Updated<V> {
    /// Forwards the change, if there is one to forward.
    #[inline]
    pub(crate) fn forward<K: 'static>(
        self,
        cx: &mut TaskCx<'_>,
        node: NodeIndex,
        outs: &mut Outs<Record<K, Change<V>>>,
        key: K,
        headers: Headers,
    ) -> Result {
        match self {
            Self::Forward { change, timestamp, latest } => {
                let record = Record { key, value: change, timestamp, headers };
                if latest == cx.latest {
                    return outs.forward(cx, record);
                }
                outs.forward(&mut TaskCx { latest, ..cx.reborrow() }, record)
            }
            Self::Nothing => Ok(()),
            Self::NullKey => {
                cx.port.dropped(node, Dropped::NullKey);
                Ok(())
            }
        }
    }
}

/// What became of a row that was to be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Put {
    Latest,
    /// There are later versions.
    Earlier,
    /// It is too old to be kept.
    Refused,
}

/// An update on its way into the store.
struct Update<'a, V> {
    value: Option<&'a V>,
    timestamp: i64,
    headers: &'a Headers,
}

impl<K: 'static, V: 'static> TableStore<K, V> {
    pub(crate) fn build(b: &mut BuildCx<'_>, store: usize, rows: RowFormat<K, V>) -> Self {
        let store = StoreIndex(crate::topology::index(store));
        let reuse = rows.lookup().is_same(b.origin);
        Self { reuse, store, cached: b.port.cached(store), wants_old: b.wants_old, rows }
    }

    pub(crate) fn value(&self) -> &Coder<V> {
        &self.rows.value
    }

    /// Reads the row of a key, lets `fold` make the new value of it, and writes that with the later of both times. Where there
    /// was no row and is none, nothing happens.
    #[inline]
    pub(crate) fn fold(
        &self,
        cx: &mut TaskCx<'_>,
        key: &K,
        (timestamp, headers): (i64, &Headers),
        fold: impl FnOnce(Option<V>) -> Result<Option<V>>,
    ) -> Result<Updated<V>> {
        let TaskCx { port, source_key, scratch, .. } = cx;
        let Scratch { key: key_buffer, value: buffer, views: [view, ..], .. } = &mut **scratch;
        let Some(key) = self.key(*source_key, key_buffer, key)? else { return Ok(Updated::NullKey) };
        let mut access = port.store(self.store)?;
        let (mut taken, mut kept, mut time) = (None, None, timestamp);
        if let Some((old_time, bytes)) = self.read(&mut access, key)? {
            time = timestamp.max(old_time);
            taken = Some(self.value().decode(bytes)?);
            // `fold` takes the old value, so one that goes along with the change is read a second time: that is rare, and
            // asks for no `Clone`.
            kept = if self.wants_old && !self.cached { Some(self.value().decode(bytes)?) } else { None };
        }
        let was_there = taken.is_some();
        let new = fold(taken)?;
        if new.is_none() && !was_there {
            return Ok(Updated::Nothing);
        }
        let update = Update { value: new.as_ref(), timestamp: time, headers };
        let put = self.write(&mut access, key, &update, (buffer, &mut view.row))?;
        Ok(self.updated(put, Change { new, old: kept }, time))
    }

    /// Writes the row of a key, or deletes it. The old value is read only if it is needed. With `skip_absent`, a row that
    /// is not there is not deleted again.
    #[inline]
    pub(crate) fn replace(
        &self,
        cx: &mut TaskCx<'_>,
        key: &K,
        (timestamp, headers): (i64, &Headers),
        new: Option<V>,
        skip_absent: bool,
    ) -> Result<Updated<V>> {
        let TaskCx { port, source_key, scratch, .. } = cx;
        let Scratch { key: key_buffer, value: buffer, views: [view, ..], .. } = &mut **scratch;
        let Some(key) = self.key(*source_key, key_buffer, key)? else { return Ok(Updated::NullKey) };
        let mut access = port.store(self.store)?;
        let mut old = None;
        let keeps_old = self.wants_old && !self.cached;
        if keeps_old || skip_absent {
            match self.read(&mut access, key)? {
                Some((_, bytes)) if keeps_old => old = Some(self.value().decode(bytes)?),
                Some(_) => (),
                None if skip_absent && new.is_none() => return Ok(Updated::Nothing),
                None => (),
            }
        }
        let update = Update { value: new.as_ref(), timestamp, headers };
        let put = self.write(&mut access, key, &update, (buffer, &mut view.row))?;
        Ok(self.updated(put, Change { new, old }, timestamp))
    }

    /// The record that a drained entry stands for, and the key's bytes if nodes further down may use them; none if the
    /// row neither is there nor was when it was forwarded last.
    pub(crate) fn drained<'a>(&self, entry: &Drained<'a>) -> Result<Option<DrainedRecord<'a, K, V>>> {
        if entry.new.is_none() && entry.old.is_none() {
            return Ok(None);
        }
        let key = self.rows.key.decode(entry.key)?;
        let read = |bytes: &[u8]| {
            let (time, value) = self.rows.split(bytes)?;
            Result::Ok((self.value().decode(value)?, time))
        };
        let (new, timestamp) = match entry.new.map(read).transpose()? {
            Some((value, time)) => (Some(value), time),
            None => (self.value().null(), entry.timestamp),
        };
        let old = entry.old.filter(|_| self.wants_old).map(read).transpose()?.map(|(value, _)| value);
        let headers = match entry.new.filter(|_| self.rows.kind == RowKind::WithHeaders) {
            Some(bytes) => read_headers(bytes)?,
            None => Headers::new(),
        };
        let record = Record { key, value: Change { new, old }, timestamp, headers };
        Ok(Some(DrainedRecord { record, source_key: Some(entry.key).filter(|_| self.reuse) }))
    }

    /// The key's bytes; none if it is null.
    #[inline]
    fn key<'b>(&self, source: Option<&'b [u8]>, buffer: &'b mut Vec<u8>, key: &K) -> Result<Option<&'b [u8]>> {
        if let (Some(bytes), true) = (source, self.reuse) {
            return Ok(Some(bytes));
        }
        buffer.clear();
        Ok(self.rows.key.encode(key, buffer)?.then_some(buffer.as_slice()))
    }

    /// The time and the value's bytes of the row that is there; of a versioned one the latest.
    #[inline]
    fn read<'b>(&self, access: &'b mut StoreAccess<'_>, key: &[u8]) -> Result<Option<(i64, &'b [u8])>> {
        let earliest = match &access.expiry {
            Some(expiry) if self.rows.kind == RowKind::Expiring => earliest_alive(expiry),
            _ => i64::MIN,
        };
        let Some(bytes) = access.layer.get(access.base, key)? else { return Ok(None) };
        let (time, value) = self.rows.split(bytes)?;
        Ok((time >= earliest).then_some((time, value)))
    }

    #[inline]
    fn write(
        &self,
        access: &mut StoreAccess<'_>,
        key: &[u8],
        update: &Update<'_, V>,
        (buffer, row): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<Put> {
        if self.rows.kind != RowKind::Stamped {
            return self.write_other(access, key, update, (buffer, row));
        }
        buffer.clear();
        let some = match update.value {
            Some(value) => Stamped::append(update.timestamp, value, &self.rows.value, buffer)?,
            None => false,
        };
        // The change is logged with the row's own time, as Kafka Streams does for timestamped stores.
        access.layer.put(key, some.then_some(buffer.as_slice()), update.timestamp)?;
        Ok(Put::Latest)
    }

    /// Out of line: the common kind does not pay for the others.
    #[inline(never)]
    fn write_other(
        &self,
        access: &mut StoreAccess<'_>,
        key: &[u8],
        update: &Update<'_, V>,
        (buffer, row): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<Put> {
        let Update { value, timestamp, headers } = *update;
        buffer.clear();
        let coder = &self.rows.value;
        let some = match (self.rows.kind, value) {
            (_, None) => false,
            (RowKind::WithHeaders, Some(value)) => {
                let headers = if self.rows.keeps_headers { headers } else { &Headers::new() };
                write_with_headers(headers, timestamp, value, coder, buffer)?
            }
            (RowKind::Versioned, Some(value)) => coder.encode(value, buffer)?,
            (RowKind::Stamped | RowKind::Expiring, Some(value)) => Stamped::append(timestamp, value, coder, buffer)?,
        };
        let bytes = some.then_some(buffer.as_slice());
        match (self.rows.kind, bytes) {
            (RowKind::Versioned, bytes) => Ok(match put_version(access, row, key, bytes, timestamp)? {
                VersionPut::Latest => Put::Latest,
                VersionPut::ValidTo(_) => Put::Earlier,
                VersionPut::TooOld => Put::Refused,
            }),
            (RowKind::Expiring, Some(bytes)) => {
                Ok(if put_expiring(access, row, key, bytes)? { Put::Latest } else { Put::Refused })
            }
            (_, bytes) => {
                access.layer.put(key, bytes, timestamp)?;
                Ok(Put::Latest)
            }
        }
    }

    fn updated(&self, put: Put, change: Change<V>, timestamp: i64) -> Updated<V> {
        if self.cached || put == Put::Refused {
            return Updated::Nothing;
        }
        Updated::Forward { change, timestamp, latest: put == Put::Latest }
    }
}

/// See [`TableStore::drained`].
pub(crate) struct DrainedRecord<'a, K, V> {
    pub(crate) record: Record<K, Change<V>>,
    pub(crate) source_key: Option<&'a [u8]>,
}
