//! How the values of a store's kind lie in its bytes.

use std::sync::Arc;

use millpond_store_api as store;

use crate::error::Result;
use crate::serde::Coder;

/// A value and the event time of its last update.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValueAndTimestamp<V> {
    /// The value.
    pub value: V,
    /// Event time in milliseconds since 1970 (UTC).
    pub timestamp: i64,
}

/// State is business data: the output shows no value.
impl<V> std::fmt::Debug for ValueAndTimestamp<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueAndTimestamp").field("timestamp", &self.timestamp).finish_non_exhaustive()
    }
}

/// How a kind's values become bytes; [`Plain`] or [`Stamped`].
pub trait Values: Send + Sync + super::sealed::Sealed + 'static {
    /// What a processor sees.
    type Value: 'static;

    #[doc(hidden)]
    fn encode(&self, value: &Self::Value, out: &mut Vec<u8>) -> Result<bool>;

    #[doc(hidden)]
    fn decode(&self, bytes: &[u8]) -> Result<Self::Value>;

    /// The value stands for null: writing it deletes.
    #[doc(hidden)]
    fn is_null(&self, value: &Self::Value) -> bool;

    /// The time that the change is logged with, if it is not that of the record at hand.
    #[doc(hidden)]
    fn timestamp(value: &Self::Value) -> Option<i64>;
}

/// The values of a [`KeyValue`](crate::KeyValue) store: the serde's bytes.
pub struct Plain<V>(Coder<V>);

impl<V: 'static> Plain<V> {
    pub(crate) fn new(coder: Coder<V>) -> Self {
        Self(coder)
    }
}

impl<V> std::fmt::Debug for Plain<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Plain")
    }
}

impl<V: 'static> super::sealed::Sealed for Plain<V> {}

impl<V: 'static> Values for Plain<V> {
    type Value = V;

    #[inline]
    fn encode(&self, value: &V, out: &mut Vec<u8>) -> Result<bool> {
        self.0.encode(value, out)
    }

    #[inline]
    fn decode(&self, bytes: &[u8]) -> Result<V> {
        self.0.decode(bytes)
    }

    fn is_null(&self, value: &V) -> bool {
        self.0.is_null(value)
    }

    fn timestamp(_: &V) -> Option<i64> {
        None
    }
}

/// The values of a [`TimestampedKeyValue`](crate::TimestampedKeyValue) store: the time in eight bytes, then the serde's.
pub struct Stamped<V>(Coder<V>);

impl<V: 'static> Stamped<V> {
    pub(crate) fn new(coder: Coder<V>) -> Self {
        Self(coder)
    }

    /// As [`Values::encode`], for a value in pieces.
    #[inline]
    pub(crate) fn write(&self, timestamp: i64, value: &V, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        out.extend_from_slice(&timestamp.to_be_bytes());
        let some = self.0.encode(value, out)?;
        if !some {
            out.truncate(start);
        }
        Ok(some)
    }

    /// The time and the value's own bytes.
    #[inline]
    pub(crate) fn split(bytes: &[u8]) -> Result<(i64, &[u8])> {
        let row = store::ValueAndTimestamp::decode(bytes)?;
        Ok((row.timestamp, row.value))
    }

    /// The serde's side of it.
    pub(crate) fn coder(&self) -> &Coder<V> {
        &self.0
    }
}

impl<V> std::fmt::Debug for Stamped<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stamped")
    }
}

impl<V: 'static> super::sealed::Sealed for Stamped<V> {}

impl<V: 'static> Values for Stamped<V> {
    type Value = ValueAndTimestamp<V>;

    #[inline]
    fn encode(&self, value: &ValueAndTimestamp<V>, out: &mut Vec<u8>) -> Result<bool> {
        self.write(value.timestamp, &value.value, out)
    }

    #[inline]
    fn decode(&self, bytes: &[u8]) -> Result<ValueAndTimestamp<V>> {
        let (timestamp, value) = Self::split(bytes)?;
        Ok(ValueAndTimestamp { value: self.0.decode(value)?, timestamp })
    }

    fn is_null(&self, value: &ValueAndTimestamp<V>) -> bool {
        self.0.is_null(&value.value)
    }

    fn timestamp(value: &ValueAndTimestamp<V>) -> Option<i64> {
        Some(value.timestamp)
    }
}

/// The serdes of a store, shared by everything that has a handle.
pub struct Serdes<K, C>(Arc<Pair<K, C>>);

struct Pair<K, C> {
    key: Coder<K>,
    values: C,
}

impl<K, C> Clone for Serdes<K, C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, C> std::fmt::Debug for Serdes<K, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Serdes")
    }
}

impl<K: 'static, C> Serdes<K, C> {
    pub(crate) fn new(key: Coder<K>, values: C) -> Self {
        Self(Arc::new(Pair { key, values }))
    }

    pub(crate) fn key(&self) -> &Coder<K> {
        &self.0.key
    }

    pub(crate) fn values(&self) -> &C {
        &self.0.values
    }
}
