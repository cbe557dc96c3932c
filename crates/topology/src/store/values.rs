//! How the values of a store's kind lie in its bytes.

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

/// How a kind's values become bytes: [`Plain`], [`Stamped`], [`Expiring`], [`StampedWithHeaders`](crate::StampedWithHeaders),
/// [`AggregateWithHeaders`](crate::AggregateWithHeaders) or [`Listed`](crate::Listed).
pub trait Values: Send + Sync + super::sealed::Sealed + 'static {
    /// What a processor sees.
    type Value: 'static;

    /// The rows of the key-value store expire, by the time that their values begin with.
    #[doc(hidden)]
    const EXPIRES: bool = false;

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

/// The values of a [`KeyValue`](crate::KeyValue), [`Window`](crate::Window) or [`Session`](crate::Session) store: the serde's
/// bytes.
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

/// The values of a [`TimestampedKeyValue`](crate::TimestampedKeyValue) or [`TimestampedWindow`](crate::TimestampedWindow)
/// store: the time in eight bytes, then the serde's.
pub struct Stamped<V>(Coder<V>);

impl<V: 'static> Stamped<V> {
    pub(crate) fn new(coder: Coder<V>) -> Self {
        Self(coder)
    }

    /// As [`Values::encode`], for a value in pieces.
    #[inline]
    pub(crate) fn append(timestamp: i64, value: &V, coder: &Coder<V>, out: &mut Vec<u8>) -> Result<bool> {
        let start = out.len();
        out.extend_from_slice(&timestamp.to_be_bytes());
        let some = coder.encode(value, out)?;
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
        Self::append(value.timestamp, &value.value, &self.0, out)
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

/// The values of a [`TtlKeyValue`](crate::TtlKeyValue) store: the bytes of [`Stamped`], there until they expire.
pub struct Expiring<V>(Stamped<V>);

impl<V: 'static> Expiring<V> {
    pub(crate) fn new(coder: Coder<V>) -> Self {
        Self(Stamped::new(coder))
    }
}

impl<V> std::fmt::Debug for Expiring<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Expiring")
    }
}

impl<V: 'static> super::sealed::Sealed for Expiring<V> {}

impl<V: 'static> Values for Expiring<V> {
    type Value = ValueAndTimestamp<V>;

    const EXPIRES: bool = true;

    #[inline]
    fn encode(&self, value: &ValueAndTimestamp<V>, out: &mut Vec<u8>) -> Result<bool> {
        self.0.encode(value, out)
    }

    #[inline]
    fn decode(&self, bytes: &[u8]) -> Result<ValueAndTimestamp<V>> {
        self.0.decode(bytes)
    }

    fn is_null(&self, value: &ValueAndTimestamp<V>) -> bool {
        self.0.is_null(value)
    }

    fn timestamp(value: &ValueAndTimestamp<V>) -> Option<i64> {
        Some(value.timestamp)
    }
}
