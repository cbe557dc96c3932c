//! Records as a client lends them: no copy, headers read when asked for.

use crate::Source;

/// A position in a partition. Always the *next* one (exclusive) where it stands for progress.
pub type Offset = i64;

/// A record header. Names need not be unique.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a str,
    /// The value's bytes; `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
}

/// Header values are business data: the output shows their size only.
impl std::fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").field("name", &self.name).field("len", &self.value.map(<[u8]>::len)).finish()
    }
}

/// A record of a batch, lent until the next call on the consumer.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// The partition, by the number that the caller gave it.
    pub source: Source,
    /// The leader's epoch when the record was written; -1 if unknown.
    pub leader_epoch: i32,
    /// The record's own position (the next offset is one more).
    pub offset: Offset,
    /// Milliseconds since 1970 (UTC), by the topic's `message.timestamp.type`.
    pub timestamp: i64,
    /// The key's bytes; `None` is Kafka's null.
    pub key: Option<&'a [u8]>,
    /// The value's bytes; `None` is Kafka's null, a tombstone in compacted topics.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("source", &self.source)
            .field("offset", &self.offset)
            .field("timestamp", &self.timestamp)
            .field("key_len", &self.key.map(<[u8]>::len))
            .field("value_len", &self.value.map(<[u8]>::len))
            .finish_non_exhaustive()
    }
}

/// The headers of a record; read from the client's memory when asked for.
#[derive(Clone, Copy)]
pub struct Headers<'a> {
    of: &'a dyn Records,
    record: usize,
}

impl<'a> Headers<'a> {
    /// The headers of record `record` of a batch.
    pub fn new(of: &'a dyn Records, record: usize) -> Self {
        Self { of, record }
    }

    /// No headers.
    pub fn none() -> Headers<'static> {
        Headers { of: &NoHeaders, record: 0 }
    }

    /// All headers, in order.
    pub fn iter(self) -> impl Iterator<Item = Header<'a>> {
        (0..).map_while(move |n| self.of.header(self.record, n))
    }

    /// The last header of a name, as Kafka's `Headers.lastHeader`.
    pub fn last(self, name: &str) -> Option<Header<'a>> {
        self.iter().filter(|h| h.name == name).last()
    }
}

impl std::fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A batch as its client holds it, read by index.
pub trait Records {
    /// How many records there are.
    fn len(&self) -> usize;

    /// True if there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Record `i`, if it is below [`Records::len`].
    fn get(&self, i: usize) -> Option<Record<'_>>;

    /// Header `n` of record `i`, both counted from 0.
    fn header(&self, i: usize, n: usize) -> Option<Header<'_>>;
}

/// An empty batch: what [`Headers::none`] refers to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeaders;

impl Records for NoHeaders {
    fn len(&self) -> usize {
        0
    }

    fn get(&self, _: usize) -> Option<Record<'_>> {
        None
    }

    fn header(&self, _: usize, _: usize) -> Option<Header<'_>> {
        None
    }
}
