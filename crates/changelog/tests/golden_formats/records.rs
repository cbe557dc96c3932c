//! Changelog records of each kind of store, from live runs.

use millpond_broker_api as broker;
use millpond_changelog::{Change, KeyOrder, RowScratch, SessionKey, ValueFormat, WindowKey};
use serde_json::Value;

use crate::case::{Case, Outcome, bytes_of, said, same};
use crate::commands::{Key, Store, Update};
use crate::values::owned;

pub(crate) fn changelog_records(case: &Case<'_>) -> Outcome {
    let description = Case::new(case.get("store")?)?;
    let mut store = Store::new(&description)?;
    description.done()?;
    let mut updates = Vec::new();
    for command in case.list("commands")? {
        let command = Case::new(command)?;
        updates.extend(store.updates(&command)?);
        command.done()?;
    }
    let records = case.list("changelog")?;
    same("number of records", records.len(), updates.len())?;
    updates.iter().zip(records).try_for_each(|(update, record)| compare(store.kind, update, record))
}

fn format(kind: &str) -> Outcome<ValueFormat> {
    Ok(match kind {
        "kv" | "window" | "session" | "versioned_kv" => ValueFormat::Plain,
        "timestamped_kv" | "timestamped_window" => ValueFormat::Timestamped,
        "headers_kv" | "headers_window" => ValueFormat::TimestampedWithHeaders,
        "headers_session" => ValueFormat::AggregationWithHeaders,
        other => return Err(format!("unknown kind {other}")),
    })
}

/// The update's record is the one that is stated, and what a store makes of that one is logged as it again.
fn compare(kind: &str, update: &Update, record: &Value) -> Outcome {
    let (format, record) = (format(kind)?, Case::new(record)?);
    let key = record.bytes("key_hex")?;
    same("key", &encode(&update.key), &key)?;
    same("key read", &decode(kind, &key)?, &update.key)?;

    let value = record.nullable("value_hex", bytes_of)?;
    let (ts, headers) = (record.int("ts")?, record.headers("headers")?);
    record.done()?;
    same("value", &update.value, &value)?;
    let kept = matches!(format, ValueFormat::TimestampedWithHeaders | ValueFormat::AggregationWithHeaders);
    same("headers", if kept && value.is_some() { update.headers.as_slice() } else { &[] }, headers.as_slice())?;

    same("time", update.ts, ts)?;
    for headers in [&update.headers, &headers] {
        let list = headers.iter().map(|(name, value)| broker::Header { name, value: value.as_deref() });
        let mut scratch = RowScratch::default();
        let row = format.to_store(value.as_deref(), ts, list, &mut scratch);
        let logged = format.to_log(Change { key: &key, value: row, timestamp: ts }).map_err(said)?;
        same("logged", (logged.key, logged.value, logged.timestamp), (&key, value.as_deref(), ts))?;
        same("logged headers", owned(logged.headers)?, record.headers("headers")?)?;
    }
    Ok(())
}

fn encode(key: &Key) -> Vec<u8> {
    let mut out = Vec::new();
    match key {
        Key::Plain(key) => out.extend_from_slice(key),
        Key::Window { key, start, seqnum } => {
            WindowKey { key, start: *start, seqnum: *seqnum }.encode(KeyOrder::Plain, &mut out);
        }
        Key::Session { key, start, end } => {
            SessionKey { key, start: *start, end: *end }.encode(KeyOrder::Plain, &mut out);
        }
    }
    out
}

fn decode(kind: &str, bytes: &[u8]) -> Outcome<Key> {
    Ok(if kind.ends_with("window") {
        let WindowKey { key, start, seqnum } = WindowKey::decode(KeyOrder::Plain, bytes).map_err(said)?;
        Key::Window { key: key.to_vec(), start, seqnum }
    } else if kind.ends_with("session") {
        let SessionKey { key, start, end } = SessionKey::decode(KeyOrder::Plain, bytes).map_err(said)?;
        Key::Session { key: key.to_vec(), start, end }
    } else {
        Key::Plain(bytes.to_vec())
    })
}
