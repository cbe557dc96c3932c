//! The timestamped key-value store whose values have record headers, in Kafka Streams' bytes (KIP-1271).

use super::headers::put_len;
use crate::varint::take_varint;
use crate::{Direction, Error, ErrorKind, Headers, Range, Result, Row, Space, SpaceMut};

/// A value with the event time and the headers of its last update, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValueTimestampHeaders<'a> {
    /// The headers; not decoded yet.
    pub headers: Headers<'a>,
    /// Event time in milliseconds since 1970 (UTC); −1 is an unknown one.
    pub timestamp: i64,
    /// The value's bytes.
    pub value: &'a [u8],
}

impl<'a> ValueTimestampHeaders<'a> {
    /// Reads `varint headers' size ‖ headers ‖ int64 timestamp (big endian) ‖ value`; the headers are not looked at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the bytes are too short.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let read = || {
            let (headers, rest) = split_headers(bytes)?;
            let (timestamp, value) = rest.split_first_chunk()?;
            Some(Self { headers, timestamp: i64::from_be_bytes(*timestamp), value })
        };
        read().ok_or_else(|| damaged(bytes))
    }

    /// Appends the bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the headers have 2 GiB or more.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_headers(self.headers, out)?;
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(self.value);
        Ok(())
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for ValueTimestampHeaders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueTimestampHeaders")
            .field("headers", &self.headers)
            .field("timestamp", &self.timestamp)
            .field("len", &self.value.len())
            .finish()
    }
}

/// A session's aggregate with the headers of its last update, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AggregationWithHeaders<'a> {
    /// The headers; not decoded yet.
    pub headers: Headers<'a>,
    /// The aggregate's bytes.
    pub aggregation: &'a [u8],
}

impl<'a> AggregationWithHeaders<'a> {
    /// Reads `varint headers' size ‖ headers ‖ aggregate`; the headers are not looked at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the bytes are too short.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let (headers, aggregation) = split_headers(bytes).ok_or_else(|| damaged(bytes))?;
        Ok(Self { headers, aggregation })
    }

    /// Appends the bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if the headers have 2 GiB or more.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_headers(self.headers, out)?;
        out.extend_from_slice(self.aggregation);
        Ok(())
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for AggregationWithHeaders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AggregationWithHeaders")
            .field("headers", &self.headers)
            .field("len", &self.aggregation.len())
            .finish()
    }
}

fn put_headers(headers: Headers<'_>, out: &mut Vec<u8>) -> Result<()> {
    put_len(headers.bytes().len(), out)?;
    out.extend_from_slice(headers.bytes());
    Ok(())
}

fn split_headers(mut bytes: &[u8]) -> Option<(Headers<'_>, &[u8])> {
    let size = usize::try_from(take_varint(&mut bytes)?).ok()?;
    let (headers, rest) = bytes.split_at_checked(size)?;
    Some((Headers::from_bytes(headers), rest))
}

#[cold]
fn damaged(bytes: &[u8]) -> Error {
    Error::new(ErrorKind::Corrupt, "read a value with headers").with("bytes", bytes.len())
}

/// A row of a store with headers, lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadersRow<'a> {
    /// The row as it lies in the space.
    pub raw: Row<'a>,
    /// Its value; the headers are not decoded yet.
    pub value: ValueTimestampHeaders<'a>,
}

/// A timestamped key-value store of bytes with headers, over a space. Cheap to make: one per access.
pub struct TimestampedKeyValueWithHeaders<'a, S: ?Sized> {
    space: &'a mut S,
    scratch: Vec<u8>,
}

impl<S: ?Sized> std::fmt::Debug for TimestampedKeyValueWithHeaders<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimestampedKeyValueWithHeaders").finish_non_exhaustive()
    }
}

impl<'a, S: Space + ?Sized> TimestampedKeyValueWithHeaders<'a, S> {
    /// A view over `space`.
    pub fn new(space: &'a mut S) -> Self {
        Self { space, scratch: Vec::new() }
    }

    /// The value of a key, with its time and headers.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<ValueTimestampHeaders<'_>>> {
        self.space.get(key)?.map(ValueTimestampHeaders::decode).transpose()
    }

    /// Calls `each` for every row of a range, in order, until it answers false.
    pub fn for_each(
        &self,
        range: Range<'_>,
        direction: Direction,
        each: &mut dyn FnMut(HeadersRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut cursor = self.space.scan(range, direction)?;
        while let Some(raw) = cursor.next()? {
            if !each(HeadersRow { raw, value: ValueTimestampHeaders::decode(raw.value)? })? {
                break;
            }
        }
        Ok(())
    }

    /// About how many rows there are: what the shard says, by estimate, and what was written since. See
    /// [`Read::approximate_num_entries`](crate::Read::approximate_num_entries).
    pub fn approximate_num_entries(&self) -> Result<u64> {
        self.space.approximate_num_entries()
    }
}

impl<S: SpaceMut + ?Sized> TimestampedKeyValueWithHeaders<'_, S> {
    /// Sets a key; reads nothing.
    pub fn put(&mut self, key: &[u8], value: ValueTimestampHeaders<'_>) -> Result<()> {
        self.scratch.clear();
        value.encode(&mut self.scratch)?;
        self.space.put(key, Some(&self.scratch))
    }

    /// Sets a key that has no value; answers whether it did.
    pub fn put_if_absent(&mut self, key: &[u8], value: ValueTimestampHeaders<'_>) -> Result<bool> {
        let absent = self.space.get(key)?.is_none();
        if absent {
            self.put(key, value)?;
        }
        Ok(absent)
    }

    /// Deletes a key; reads nothing.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.space.put(key, None)
    }
}
