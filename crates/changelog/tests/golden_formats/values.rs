//! Values of stores, and changes of tables on their way through a topic.

use millpond_broker_api as broker;
use millpond_changelog::{Change as Row, RowScratch, ValueFormat};
use millpond_store_api::{AggregationWithHeaders, ErrorKind, Headers, ValueAndTimestamp, ValueTimestampHeaders};
use millpond_topology::{Change, ChangeSerde, ErrorKind as SerdeErrorKind, Serde, Utf8};

use crate::case::{Case, Header, Outcome, ensure, said, same, text_of};
use crate::damage;

/// Headers as their owner hands them to the store's codec.
fn encoded(headers: &[Header]) -> Outcome<Vec<u8>> {
    let headers: Vec<_> =
        headers.iter().map(|(key, value)| millpond_store_api::Header { key, value: value.as_deref() }).collect();
    let mut out = Vec::new();
    Headers::encode(&headers, &mut out).map_err(said)?;
    Ok(out)
}

pub(crate) fn owned(headers: Headers<'_>) -> Outcome<Vec<Header>> {
    let own = |h: millpond_store_api::Header<'_>| (h.key.to_owned(), h.value.map(<[u8]>::to_vec));
    headers.iter().map(|h| h.map(own).inspect_err(|e| assert_eq!(e.kind(), ErrorKind::Corrupt)).map_err(said)).collect()
}

/// A row to its changelog record and back.
fn through_the_log(format: ValueFormat, row: &[u8], value: &[u8], ts: i64, headers: &[Header]) -> Outcome {
    let change = Row { key: b"k", value: Some(row), timestamp: ts };
    let logged = format.to_log(change).map_err(said)?;
    same("logged value", logged.value, Some(value))?;
    same("logged time", logged.timestamp, ts)?;
    same("logged headers", owned(logged.headers)?.as_slice(), headers)?;
    let headers = headers.iter().map(|(name, value)| broker::Header { name, value: value.as_deref() });
    let mut scratch = RowScratch::default();
    same("restored row", format.to_store(Some(value), ts, headers, &mut scratch), Some(row))
}

pub(crate) fn value_and_timestamp(case: &Case<'_>) -> Outcome {
    let (timestamp, value, hex) = (case.int("ts")?, case.bytes("value_hex")?, case.bytes("hex")?);
    let again = |bytes: &[u8]| {
        let row = ValueAndTimestamp::decode(bytes).ok()?;
        let mut out = Vec::new();
        row.encode(&mut out);
        Some(out)
    };
    same("value", ValueAndTimestamp::decode(&hex).map_err(said)?, ValueAndTimestamp { timestamp, value: &value })?;
    same("bytes", again(&hex), Some(hex.clone()))?;
    through_the_log(ValueFormat::Timestamped, &hex, &value, timestamp, &[])?;
    damage::canonical(&hex, &again)
}

pub(crate) fn headers(case: &Case<'_>) -> Outcome {
    let (headers, hex) = (case.headers("headers")?, case.bytes("hex")?);
    same("headers", owned(Headers::from_bytes(&hex))?, headers.clone())?;
    same("bytes", encoded(&headers)?, hex.clone())?;
    damage::readable(&hex, &|bytes| encoded(&owned(Headers::from_bytes(bytes)).ok()?).ok())
}

pub(crate) fn value_timestamp_headers(case: &Case<'_>) -> Outcome {
    let (headers, hex) = (case.headers("headers")?, case.bytes("hex")?);
    let (timestamp, value) = (case.int("ts")?, case.bytes("value_hex")?);
    let row = ValueTimestampHeaders::decode(&hex).map_err(said)?;
    same("headers", owned(row.headers)?, headers.clone())?;
    same("time and value", (row.timestamp, row.value), (timestamp, value.as_slice()))?;
    let (list, mut out) = (encoded(&headers)?, Vec::new());
    let row = ValueTimestampHeaders { headers: Headers::from_bytes(&list), timestamp, value: &value };
    row.encode(&mut out).map_err(said)?;
    same("bytes", &out, &hex)?;
    through_the_log(ValueFormat::TimestampedWithHeaders, &hex, &value, timestamp, &headers)?;
    damage::readable(&hex, &|bytes| {
        let row =
            ValueTimestampHeaders::decode(bytes).inspect_err(|e| assert_eq!(e.kind(), ErrorKind::Corrupt)).ok()?;
        let mut out = Vec::new();
        row.encode(&mut out).ok()?;
        Some(out)
    })
}

pub(crate) fn aggregation_with_headers(case: &Case<'_>) -> Outcome {
    let (headers, hex) = (case.headers("headers")?, case.bytes("hex")?);
    let aggregation = case.bytes("value_hex")?;
    let row = AggregationWithHeaders::decode(&hex).map_err(said)?;
    same("headers", owned(row.headers)?, headers.clone())?;
    same("aggregation", row.aggregation, &aggregation)?;
    let (list, mut out) = (encoded(&headers)?, Vec::new());
    let row = AggregationWithHeaders { headers: Headers::from_bytes(&list), aggregation: &aggregation };
    row.encode(&mut out).map_err(said)?;
    same("bytes", &out, &hex)?;
    through_the_log(ValueFormat::AggregationWithHeaders, &hex, &aggregation, 5, &headers)?;
    damage::readable(&hex, &|bytes| {
        let row =
            AggregationWithHeaders::decode(bytes).inspect_err(|e| assert_eq!(e.kind(), ErrorKind::Corrupt)).ok()?;
        let mut out = Vec::new();
        row.encode(&mut out).ok()?;
        Some(out)
    })
}

pub(crate) fn change(case: &Case<'_>) -> Outcome {
    let change = Change { new: case.nullable("new", text_of)?, old: case.nullable("old", text_of)? };
    let serde = if case.flag("upgrade_from_3_4")? { ChangeSerde::one_sided(Utf8) } else { ChangeSerde::new(Utf8) };
    let mut out = Vec::new();
    let written = serde.encode(&change, &mut out);
    if case.error() {
        let error = written.err().ok_or("it is written")?;
        return ensure(error.kind() == SerdeErrorKind::Serialization, "the error is one of writing");
    }
    written.map_err(said)?;
    let hex = case.bytes("hex")?;
    same("bytes", &out, &hex)?;
    let sides = |change: Change<String>| (change.new, change.old);
    same("change", sides(serde.decode(&hex).map_err(said)?), sides(change))?;
    damage::readable(&hex, &|bytes| {
        let mut out = Vec::new();
        ChangeSerde::new(Utf8).encode(&ChangeSerde::new(Utf8).decode(bytes).ok()?, &mut out).ok()?;
        Some(out)
    })
}

pub(crate) fn change_read(case: &Case<'_>) -> Outcome {
    let hex = case.bytes("hex")?;
    let read = ChangeSerde::new(Utf8).read::<String>(&hex);
    if case.error() {
        let error = read.err().ok_or("it is read")?;
        return ensure(error.kind() == SerdeErrorKind::Deserialization, "the error is one of reading");
    }
    let (change, is_latest) = read.map_err(said)?;
    same("new", change.new, case.nullable("new", text_of)?)?;
    same("old", change.old, case.nullable("old", text_of)?)?;
    same("is latest", is_latest, case.flag("is_latest")?)
}
