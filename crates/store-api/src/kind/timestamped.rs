//! The timestamped key-value store: a value with the event time of its last update, in Kafka Streams' bytes (KIP-258).

use crate::{Direction, Error, ErrorKind, Range, Result, Row, Space, SpaceMut};

/// A value and the event time of its last update, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValueAndTimestamp<'a> {
    /// Event time in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// The value's bytes.
    pub value: &'a [u8],
}

impl<'a> ValueAndTimestamp<'a> {
    /// How many bytes stand before the value.
    pub const HEADER: usize = 8;

    /// Reads `int64 timestamp (big endian) ‖ value`; shorter bytes are [`ErrorKind::Corrupt`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        match bytes.split_first_chunk() {
            Some((timestamp, value)) => Ok(Self { timestamp: i64::from_be_bytes(*timestamp), value }),
            None => Err(Error::new(ErrorKind::Corrupt, "read a timestamped value").with("bytes", bytes.len())),
        }
    }

    /// Appends `int64 timestamp (big endian) ‖ value`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(self.value);
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for ValueAndTimestamp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueAndTimestamp").field("timestamp", &self.timestamp).field("len", &self.value.len()).finish()
    }
}

/// A row of a timestamped store, lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedRow<'a> {
    /// The row as it lies in the space.
    pub raw: Row<'a>,
    /// Its value, decoded.
    pub value: ValueAndTimestamp<'a>,
}

/// A timestamped key-value store of bytes over a space. Cheap to make: one per access.
pub struct TimestampedKeyValue<'a, S: ?Sized> {
    space: &'a mut S,
    scratch: Vec<u8>,
}

impl<S: ?Sized> std::fmt::Debug for TimestampedKeyValue<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TimestampedKeyValue").finish_non_exhaustive()
    }
}

impl<'a, S: Space + ?Sized> TimestampedKeyValue<'a, S> {
    /// A view over `space`.
    pub fn new(space: &'a mut S) -> Self {
        Self { space, scratch: Vec::new() }
    }

    /// The value of a key, with its time.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<ValueAndTimestamp<'_>>> {
        self.space.get(key)?.map(ValueAndTimestamp::decode).transpose()
    }

    /// Calls `each` for every row of a range, in order, until it answers false.
    pub fn for_each(
        &self,
        range: Range<'_>,
        direction: Direction,
        each: &mut dyn FnMut(TimestampedRow<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut cursor = self.space.scan(range, direction)?;
        while let Some(raw) = cursor.next()? {
            if !each(TimestampedRow { raw, value: ValueAndTimestamp::decode(raw.value)? })? {
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

impl<S: SpaceMut + ?Sized> TimestampedKeyValue<'_, S> {
    /// Sets a key.
    pub fn put(&mut self, key: &[u8], value: ValueAndTimestamp<'_>) -> Result<()> {
        self.scratch.clear();
        value.encode(&mut self.scratch);
        self.space.put(key, Some(&self.scratch))
    }

    /// Sets a key that has no value; answers whether it did.
    pub fn put_if_absent(&mut self, key: &[u8], value: ValueAndTimestamp<'_>) -> Result<bool> {
        let absent = self.space.get(key)?.is_none();
        if absent {
            self.put(key, value)?;
        }
        Ok(absent)
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.space.put(key, None)
    }
}
