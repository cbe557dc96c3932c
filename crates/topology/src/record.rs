//! What travels along the edges of a graph: records, records with a fixed key, and changes of table rows.

use crate::headers::Headers;
use crate::port::RecordMetadata;

/// A typed record.
#[derive(Clone, PartialEq, Eq)]
pub struct Record<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// Event time in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// The headers.
    pub headers: Headers,
}

impl<K, V> Record<K, V> {
    /// A record without headers.
    pub const fn new(key: K, value: V, timestamp: i64) -> Self {
        Self { key, value, timestamp, headers: Headers::new() }
    }

    /// The same record with another key and value.
    #[inline]
    pub fn map<L, W>(self, f: impl FnOnce(K, V) -> (L, W)) -> Record<L, W> {
        let (key, value) = f(self.key, self.value);
        Record { key, value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record with another key.
    #[inline]
    pub fn with_key<L>(self, key: L) -> Record<L, V> {
        Record { key, value: self.value, timestamp: self.timestamp, headers: self.headers }
    }

    /// The same record with another value.
    #[inline]
    pub fn with_value<W>(self, value: W) -> Record<K, W> {
        Record { key: self.key, value, timestamp: self.timestamp, headers: self.headers }
    }
}

/// Records are business data: the output shows no key and no value.
impl<K, V> std::fmt::Debug for Record<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("timestamp", &self.timestamp)
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

/// What is known of a record beside its key and value.
#[derive(Clone, Copy, Debug)]
pub struct RecordContext<'a> {
    /// Where the input record comes from that the task is at; none in a punctuation, and for an update that a cache held back.
    pub metadata: Option<RecordMetadata<'a>>,
    /// Event time in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// The headers.
    pub headers: &'a Headers,
}

/// A record whose key cannot be changed: what [`process_values`](crate::Stream::process_values) takes and gives, so that
/// no repartition is needed behind it. There is no way to make one but from another one.
#[derive(Clone, PartialEq, Eq)]
pub struct FixedKeyRecord<K, V>(pub(crate) Record<K, V>);

impl<K, V> FixedKeyRecord<K, V> {
    /// The key.
    pub const fn key(&self) -> &K {
        &self.0.key
    }

    /// The value.
    pub const fn value(&self) -> &V {
        &self.0.value
    }

    /// Event time in milliseconds since 1970 (UTC).
    pub const fn timestamp(&self) -> i64 {
        self.0.timestamp
    }

    /// The headers.
    pub const fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// The headers, to change them.
    pub const fn headers_mut(&mut self) -> &mut Headers {
        &mut self.0.headers
    }

    /// The same record with another value.
    pub fn with_value<W>(self, value: W) -> FixedKeyRecord<K, W> {
        FixedKeyRecord(self.0.with_value(value))
    }

    /// The same record with a value made from its own.
    pub fn map_value<W>(self, f: impl FnOnce(V) -> W) -> FixedKeyRecord<K, W> {
        FixedKeyRecord(self.0.map(|k, v| (k, f(v))))
    }

    /// The same record at another time (milliseconds since 1970).
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: i64) -> Self {
        self.0.timestamp = timestamp;
        self
    }
}

/// Records are business data: the output shows no key and no value.
impl<K, V> std::fmt::Debug for FixedKeyRecord<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FixedKeyRecord").field(&self.0).finish()
    }
}

/// An update of a table's row: what it is now, and what it was.
///
/// `old` is filled in only where something downstream needs it and a store knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Change<V> {
    /// The row's value now; `None`: the row is gone.
    pub new: Option<V>,
    /// The row's value before; `None`: there was no row, or nobody knows.
    pub old: Option<V>,
}

/// Rows are business data: the output shows only which sides there are.
impl<V> std::fmt::Debug for Change<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change").field("new", &self.new.is_some()).field("old", &self.old.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_data() {
        let record = Record::new("secret-key", "secret-value", 7);
        let change = Change { new: Some("secret"), old: None };
        let text = format!("{record:?} {:?} {change:?}", FixedKeyRecord(record.clone()));
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("timestamp: 7") && text.contains("new: true"), "{text}");
    }
}
