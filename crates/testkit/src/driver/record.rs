//! Records as tests write and read them.

use std::fmt;

use bytes::Bytes;
use millpond_topology::{Header, Headers};

/// A record of a test. Unlike the library's records it shows all of itself in `Debug`: it is test data, and a failed
/// assertion should say what was there.
///
/// Two records are equal if key, value, time and headers are; where they were read does not matter.
#[derive(Clone)]
pub struct TestRecord<K, V> {
    /// The key.
    pub key: K,
    /// The value.
    pub value: V,
    /// Event time in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// The headers.
    pub headers: Headers,
    /// The partition it was read from; 0 in a record that was not read.
    pub partition: i32,
    /// The offset it was read at; 0 in a record that was not read.
    pub offset: i64,
}

/// A record of bytes; `None` is Kafka's null.
pub type RawRecord = TestRecord<Option<Vec<u8>>, Option<Vec<u8>>>;

impl<K, V> TestRecord<K, V> {
    /// A record without headers.
    pub fn new(key: K, value: V, timestamp: i64) -> Self {
        Self { key, value, timestamp, headers: Headers::new(), partition: 0, offset: 0 }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Bytes>) -> Self {
        self.headers.add(name, value);
        self
    }
}

impl RawRecord {
    /// A record of bytes that are both there.
    pub fn bytes(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, timestamp: i64) -> Self {
        Self::new(Some(key.as_ref().to_vec()), Some(value.as_ref().to_vec()), timestamp)
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for TestRecord<K, V> {
    fn eq(&self, other: &Self) -> bool {
        let same = |r: &Self| r.timestamp == self.timestamp && r.headers == self.headers;
        self.key == other.key && self.value == other.value && same(other)
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for TestRecord<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TestRecord");
        shown.field("key", &self.key).field("value", &self.value).field("timestamp", &self.timestamp);
        if !self.headers.is_empty() {
            shown.field("headers", &self.headers.iter().map(Shown).collect::<Vec<_>>());
        }
        shown.field("partition", &self.partition).field("offset", &self.offset).finish()
    }
}

/// A header with its value, as text where it is text.
struct Shown<'a>(&'a Header);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0.value.as_deref().map(|v| v.escape_ascii().to_string());
        write!(f, "{}={}", self.0.name, value.as_deref().unwrap_or("null"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_all_of_it() {
        let record = TestRecord::new("k", 7, 12).header("h", "x\u{1}");
        let text = format!("{record:?}");
        for part in ["\"k\"", "7", "12", r"h=x\x01"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn where_it_was_read_does_not_matter() {
        let read = TestRecord { partition: 3, offset: 9, ..TestRecord::new("k", 7, 12) };
        assert_eq!(read, TestRecord::new("k", 7, 12));
        assert_ne!(read, TestRecord::new("k", 7, 13));
        assert_ne!(read, TestRecord::new("k", 7, 12).header("a", "b"));
    }
}
