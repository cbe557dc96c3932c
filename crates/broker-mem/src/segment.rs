//! Records in one arena: their bytes back to back, an index beside them.

use millpond_broker_api::Header;

/// Where a record lies in its segment.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) timestamp: i64,
    /// The first byte of the key; value and headers follow.
    at: u32,
    /// The key's length; -1 for null.
    key: i32,
    /// The value's length; -1 for null.
    value: i32,
    /// How many bytes the headers take.
    headers: u32,
    /// The record's offset, counted from the base of its batch.
    pub(crate) delta: u32,
}

impl Entry {
    pub(crate) fn has_null_key(&self) -> bool {
        self.key < 0
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        self.value < 0
    }

    pub(crate) fn has_headers(&self) -> bool {
        self.headers > 0
    }

    /// How many bytes key, value and headers take.
    pub(crate) fn size(&self) -> usize {
        (self.key.max(0) + self.value.max(0)) as usize + self.headers as usize
    }
}

/// A batch of records: built by one producer, then frozen and shared.
#[derive(Default)]
pub(crate) struct Segment {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// What the topic's rules look at, so that a good batch needs no second walk.
    pub(crate) facts: Facts,
}

/// The extremes of a segment's records.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) newest: i64,
    pub(crate) oldest: i64,
    pub(crate) largest: usize,
    pub(crate) null_key: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self { newest: i64::MIN, oldest: i64::MAX, largest: 0, null_key: false }
    }
}

impl Segment {
    /// Room for so much that a like segment does not grow.
    pub(crate) fn like(records: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), entries: Vec::with_capacity(records), facts: Facts::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Gives back what was reserved and not used, if it is much.
    pub(crate) fn freeze(&mut self) {
        if self.bytes.capacity() / 2 > self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
        if self.entries.capacity() / 2 > self.entries.len() {
            self.entries.shrink_to_fit();
        }
    }

    /// Adds a record whose offset follows the last one's; answers with its size in bytes.
    pub(crate) fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> usize {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key.unwrap_or_default());
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let header_bytes = if headers.is_empty() { 0 } else { self.push_headers(headers) };
        let size = self.bytes.len() - at;
        let len = |part: Option<&[u8]>| part.map_or(-1, |bytes| bytes.len() as i32);
        self.index(Entry {
            timestamp,
            at: at as u32,
            key: len(key),
            value: len(value),
            headers: header_bytes as u32,
            delta: self.entries.len() as u32,
        });
        size
    }

    /// Adds a record of another segment, under a given offset.
    pub(crate) fn copy(&mut self, from: &Segment, entry: &Entry, delta: u32) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(from.body(entry));
        self.index(Entry { at: at as u32, delta, ..*entry });
    }

    fn index(&mut self, entry: Entry) {
        let facts = &mut self.facts;
        facts.newest = facts.newest.max(entry.timestamp);
        facts.oldest = facts.oldest.min(entry.timestamp);
        facts.largest = facts.largest.max(entry.size());
        facts.null_key |= entry.has_null_key();
        self.entries.push(entry);
    }

    #[inline(never)]
    fn push_headers(&mut self, headers: &[Header<'_>]) -> usize {
        let before = self.bytes.len();
        for header in headers {
            let value_len = header.value.map_or(-1, |value| value.len() as i32);
            self.bytes.extend_from_slice(&(header.name.len() as u32).to_le_bytes());
            self.bytes.extend_from_slice(&value_len.to_le_bytes());
            self.bytes.extend_from_slice(header.name.as_bytes());
            self.bytes.extend_from_slice(header.value.unwrap_or_default());
        }
        self.bytes.len() - before
    }

    fn body(&self, entry: &Entry) -> &[u8] {
        let at = entry.at as usize;
        self.bytes.get(at..at + entry.size()).expect("an entry lies within its own segment")
    }

    /// Key and value of a record.
    #[inline]
    pub(crate) fn key_value(&self, entry: &Entry) -> (Option<&[u8]>, Option<&[u8]>) {
        let (key, rest) = self.body(entry).split_at(entry.key.max(0) as usize);
        let (value, _) = rest.split_at(entry.value.max(0) as usize);
        ((entry.key >= 0).then_some(key), (entry.value >= 0).then_some(value))
    }

    /// Header `n` of a record.
    pub(crate) fn header(&self, entry: &Entry, n: usize) -> Option<Header<'_>> {
        let (_, mut rest) = self.body(entry).split_at(entry.size() - entry.headers as usize);
        for at in 0.. {
            let (name_len, tail) = rest.split_first_chunk::<4>()?;
            let (value_len, tail) = tail.split_first_chunk::<4>()?;
            let value_len = i32::from_le_bytes(*value_len);
            let (name, tail) = tail.split_at_checked(u32::from_le_bytes(*name_len) as usize)?;
            let (value, tail) = tail.split_at_checked(value_len.max(0) as usize)?;
            if at == n {
                return Some(Header { name: str::from_utf8(name).ok()?, value: (value_len >= 0).then_some(value) });
            }
            rest = tail;
        }
        None
    }
}
