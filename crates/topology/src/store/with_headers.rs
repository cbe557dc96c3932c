//! Values that are kept with the headers of the record that they come from (KIP-1271).

use millpond_store_api as store;

use crate::error::Result;
use crate::headers::{Header, Headers};
use crate::serde::Coder;
use crate::store::Values;

/// A value with the event time and the headers of its last update.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueTimestampHeaders<V> {
    /// The value.
    pub value: V,
    /// Event time in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// The headers.
    pub headers: Headers,
}

/// State is business data: the output shows no value.
impl<V> std::fmt::Debug for ValueTimestampHeaders<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueTimestampHeaders")
            .field("timestamp", &self.timestamp)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// A session's aggregate with the headers of its last update.
#[derive(Clone, PartialEq, Eq)]
pub struct AggregationWithHeaders<V> {
    /// The aggregate.
    pub aggregation: V,
    /// The headers.
    pub headers: Headers,
}

/// State is business data: the output shows no value.
impl<V> std::fmt::Debug for AggregationWithHeaders<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AggregationWithHeaders").field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// The values of a [`TimestampedKeyValueWithHeaders`](crate::TimestampedKeyValueWithHeaders) or
/// [`TimestampedWindowWithHeaders`](crate::TimestampedWindowWithHeaders) store: headers, time, the serde's bytes.
pub struct StampedWithHeaders<V>(Coder<V>);

impl<V: 'static> StampedWithHeaders<V> {
    pub(crate) fn new(coder: Coder<V>) -> Self {
        Self(coder)
    }
}

impl<V> std::fmt::Debug for StampedWithHeaders<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StampedWithHeaders")
    }
}

impl<V: 'static> super::sealed::Sealed for StampedWithHeaders<V> {}

impl<V: 'static> Values for StampedWithHeaders<V> {
    type Value = ValueTimestampHeaders<V>;

    fn encode(&self, value: &ValueTimestampHeaders<V>, out: &mut Vec<u8>) -> Result<bool> {
        write_with_headers(&value.headers, value.timestamp, &value.value, &self.0, out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<ValueTimestampHeaders<V>> {
        let row = store::ValueTimestampHeaders::decode(bytes)?;
        let (value, headers) = (self.0.decode(row.value)?, decoded(row.headers)?);
        Ok(ValueTimestampHeaders { value, timestamp: row.timestamp, headers })
    }

    fn is_null(&self, value: &ValueTimestampHeaders<V>) -> bool {
        self.0.is_null(&value.value)
    }

    fn timestamp(value: &ValueTimestampHeaders<V>) -> Option<i64> {
        Some(value.timestamp)
    }
}

/// The values of a [`SessionWithHeaders`](crate::SessionWithHeaders) store: headers, then the serde's bytes.
pub struct AggregateWithHeaders<V>(Coder<V>);

impl<V: 'static> AggregateWithHeaders<V> {
    pub(crate) fn new(coder: Coder<V>) -> Self {
        Self(coder)
    }
}

impl<V> std::fmt::Debug for AggregateWithHeaders<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AggregateWithHeaders")
    }
}

impl<V: 'static> super::sealed::Sealed for AggregateWithHeaders<V> {}

impl<V: 'static> Values for AggregateWithHeaders<V> {
    type Value = AggregationWithHeaders<V>;

    fn encode(&self, value: &AggregationWithHeaders<V>, out: &mut Vec<u8>) -> Result<bool> {
        write_aggregate(&value.headers, &value.aggregation, &self.0, out)
    }

    fn decode(&self, bytes: &[u8]) -> Result<AggregationWithHeaders<V>> {
        let row = store::AggregationWithHeaders::decode(bytes)?;
        Ok(AggregationWithHeaders { aggregation: self.0.decode(row.aggregation)?, headers: decoded(row.headers)? })
    }

    fn is_null(&self, value: &AggregationWithHeaders<V>) -> bool {
        self.0.is_null(&value.aggregation)
    }

    fn timestamp(_: &AggregationWithHeaders<V>) -> Option<i64> {
        None
    }
}

/// As [`Values::encode`] of [`StampedWithHeaders`], for a value in pieces.
pub(crate) fn write_with_headers<V: 'static>(
    headers: &Headers,
    timestamp: i64,
    value: &V,
    coder: &Coder<V>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let headers = encoded(headers)?;
    let headers = store::Headers::from_bytes(&headers);
    let head = store::ValueTimestampHeaders { headers, timestamp, value: &[] };
    behind(out, |out| Ok(head.encode(out)?), |out| coder.encode(value, out))
}

/// The time and the value's own bytes of a value with headers.
pub(crate) fn split_with_headers(bytes: &[u8]) -> Result<(i64, &[u8])> {
    let row = store::ValueTimestampHeaders::decode(bytes)?;
    Ok((row.timestamp, row.value))
}

/// The headers of a value with headers.
pub(crate) fn read_headers(bytes: &[u8]) -> Result<Headers> {
    decoded(store::ValueTimestampHeaders::decode(bytes)?.headers)
}

/// As [`Values::encode`] of [`AggregateWithHeaders`], for a value in pieces.
pub(crate) fn write_aggregate<V: 'static>(
    headers: &Headers,
    value: &V,
    coder: &Coder<V>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    let headers = encoded(headers)?;
    let head = store::AggregationWithHeaders { headers: store::Headers::from_bytes(&headers), aggregation: &[] };
    behind(out, |out| Ok(head.encode(out)?), |out| coder.encode(value, out))
}

/// The own bytes of an aggregate with headers.
pub(crate) fn split_aggregate(bytes: &[u8]) -> Result<&[u8]> {
    Ok(store::AggregationWithHeaders::decode(bytes)?.aggregation)
}

/// The headers of an aggregate with headers.
pub(crate) fn read_aggregate_headers(bytes: &[u8]) -> Result<Headers> {
    decoded(store::AggregationWithHeaders::decode(bytes)?.headers)
}

/// Writes a head and the value behind it, or for a null value nothing.
fn behind(
    out: &mut Vec<u8>,
    head: impl FnOnce(&mut Vec<u8>) -> Result,
    value: impl FnOnce(&mut Vec<u8>) -> Result<bool>,
) -> Result<bool> {
    let start = out.len();
    head(out)?;
    let some = value(out)?;
    if !some {
        out.truncate(start);
    }
    Ok(some)
}

/// No headers are no bytes, and allocate nothing.
fn encoded(headers: &Headers) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let lent: Vec<_> = headers.iter().map(|h| store::Header { key: &h.name, value: h.value.as_deref() }).collect();
    store::Headers::encode(&lent, &mut bytes)?;
    Ok(bytes)
}

fn decoded(headers: store::Headers<'_>) -> Result<Headers> {
    let header = |header: store::Result<store::Header<'_>>| {
        let store::Header { key, value } = header?;
        Ok(Header { name: key.into(), value: value.map(bytes::Bytes::copy_from_slice) })
    };
    headers.iter().map(header).collect()
}
