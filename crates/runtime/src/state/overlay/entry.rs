//! What leaves the overlay for the log: entries lent at a record border, and the buffers of a drained one.

use millpond_topology::{Drained, Headers, HeldBack};

/// A write on its way to the changelog, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// The new value's bytes; `None` deletes.
    pub value: Option<&'a [u8]>,
    /// Event time of the write (milliseconds since 1970).
    pub timestamp: i64,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("key_len", &self.key.len())
            .field("value_len", &self.value.map(<[u8]>::len))
            .field("timestamp", &self.timestamp)
            .finish()
    }
}

/// An entry that was drained from an overlay: buffers of its own, used again for the next one, so that the overlay is free
/// to be written while the entry is forwarded.
#[derive(Default)]
pub struct DrainedEntry {
    pub(super) key: Vec<u8>,
    pub(super) new: Buffer,
    pub(super) old: Buffer,
    /// Of a row that a node has held back.
    pub(super) headers: Headers,
    pub(super) timestamp: i64,
}

impl DrainedEntry {
    /// For the graph: the change, new and old.
    pub fn drained(&self) -> Drained<'_> {
        Drained { key: &self.key, new: self.new.get(), old: self.old.get(), timestamp: self.timestamp }
    }

    /// Takes a row over that a node has held back.
    pub fn hold(&mut self, row: &HeldBack<'_>) {
        self.key.clear();
        self.key.extend_from_slice(row.key);
        self.new.set(row.value);
        self.old.set(None);
        self.headers.clone_from(row.headers);
        self.timestamp = row.timestamp;
    }

    /// The headers that it is forwarded with, as far as they are known before.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// For the changelog: the new value.
    pub fn entry(&self) -> Entry<'_> {
        Entry { key: &self.key, value: self.new.get(), timestamp: self.timestamp }
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for DrainedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("DrainedEntry").field(&self.drained()).finish()
    }
}

/// An optional value in a buffer that keeps its memory.
#[derive(Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    there: bool,
}

impl Buffer {
    pub(super) fn get(&self) -> Option<&[u8]> {
        self.there.then_some(self.bytes.as_slice())
    }

    pub(super) fn set(&mut self, value: Option<&[u8]>) {
        self.bytes.clear();
        self.there = value.is_some();
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }
}
