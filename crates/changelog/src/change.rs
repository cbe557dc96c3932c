//! A row on its two ways: as a store holds it, and as its changelog holds it.

use millpond_store_api::Headers;

/// What happened to a row of a store: bytes as the store holds them, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The row's key.
    pub key: &'a [u8],
    /// The row's new value; `None`: it was deleted.
    pub value: Option<&'a [u8]>,
    /// The event time of the update, in milliseconds since 1970.
    pub timestamp: i64,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show(f, "Change", self.key, self.value, self.timestamp)
    }
}

/// A record of a changelog, lent. It stands in the partition of the task that wrote it, whatever its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Logged<'a> {
    /// The record's key: the row's key.
    pub key: &'a [u8],
    /// The record's value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The record's timestamp, in milliseconds since 1970.
    pub timestamp: i64,
    /// The record's headers; none but of stores that keep them.
    pub headers: Headers<'a>,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Logged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show(f, "Logged", self.key, self.value, self.timestamp)
    }
}

fn show(
    f: &mut std::fmt::Formatter<'_>,
    name: &str,
    key: &[u8],
    value: Option<&[u8]>,
    timestamp: i64,
) -> std::fmt::Result {
    f.debug_struct(name)
        .field("key_len", &key.len())
        .field("value_len", &value.map(<[u8]>::len))
        .field("timestamp", &timestamp)
        .finish()
}
