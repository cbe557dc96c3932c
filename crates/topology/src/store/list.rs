//! Stores with a list of values under each key.

use millpond_store_api as store;
use store::{ListValue, ListValues};

use crate::error::{Error, ErrorKind, Result};
use crate::serde::Coder;
use crate::store::{StoreView, Values};

/// The values of a [`ListValue`](crate::ListValue) store: a list in the bytes of Kafka's list serializer for byte arrays. An
/// empty list stands for none.
pub struct Listed<V>(Coder<V>);

impl<V: 'static> Listed<V> {
    pub(crate) fn new(coder: Coder<V>) -> Self {
        Self(coder)
    }
}

impl<V> std::fmt::Debug for Listed<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listed")
    }
}

impl<V: 'static> super::sealed::Sealed for Listed<V> {}

impl<V: 'static> Values for Listed<V> {
    type Value = Vec<V>;

    fn encode(&self, values: &Vec<V>, out: &mut Vec<u8>) -> Result<bool> {
        if values.is_empty() {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(values.len());
        for value in values {
            if !self.0.encode(value, &mut bytes)? {
                return Err(null_element());
            }
            ends.push(bytes.len());
        }
        let mut start = 0;
        let elements = ends.iter().map(|end| {
            let element = bytes.get(start..*end).unwrap_or_default();
            start = *end;
            element
        });
        ListValues::encode(elements, out)?;
        Ok(true)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<V>> {
        ListValues::decode(bytes)?.map(|value| self.0.decode(value?)).collect()
    }

    fn is_null(&self, values: &Vec<V>) -> bool {
        values.is_empty()
    }

    fn timestamp(_: &Vec<V>) -> Option<i64> {
        None
    }
}

impl<K: 'static, V: 'static> StoreView<'_, K, Listed<V>> {
    /// Appends a value to the list of a key, which is read and written as a whole: lists are meant to be short. A value that
    /// stands for null deletes the list, as in Kafka Streams.
    pub fn append(&mut self, key: &K, value: &V) -> Result {
        self.write_key(key)?;
        let end = self.bytes.len();
        let some = self.serdes.values().0.encode(value, self.bytes)?;
        let (key, value) = self.bytes.split_at(end);
        let mut space = self.access.space();
        let mut lists = ListValue::new(&mut space).with_buffer(std::mem::take(self.row));
        if some {
            lists.append(key, value)?;
        } else {
            lists.delete(key)?;
        }
        *self.row = lists.into_buffer();
        Ok(())
    }
}

#[cold]
fn null_element() -> Error {
    Error::new(ErrorKind::Serialization, "encode the value").with("cause", "a value in a list cannot be null")
}
