//! Keys with windows, in topics, changelogs and Kafka Streams' own stores.

use millpond_changelog::{ErrorKind, KeyOrder, SessionKey, WindowKey, partition_for_key};
use millpond_topology::{ByteArray, Nullable, Serde, SessionWindowed, TimeWindowed, Utf8, Windowed};
use serde_json::Value;

use crate::case::{Case, Outcome, ensure, said, same, text_of};
use crate::damage;

fn window_key(order: KeyOrder, key: WindowKey<'_>, hex: &[u8]) -> Outcome {
    let again = |bytes: &[u8]| {
        let key = WindowKey::decode(order, bytes).inspect_err(|e| assert_eq!(e.kind(), ErrorKind::Corrupt)).ok()?;
        let mut out = Vec::new();
        key.encode(order, &mut out);
        Some(out)
    };
    same("key", WindowKey::decode(order, hex).map_err(said)?, key)?;
    same("bytes", again(hex).as_deref(), Some(hex))?;
    damage::canonical(hex, &again)
}

fn session_key(order: KeyOrder, key: SessionKey<'_>, hex: &[u8]) -> Outcome {
    let again = |bytes: &[u8]| {
        let key = SessionKey::decode(order, bytes).inspect_err(|e| assert_eq!(e.kind(), ErrorKind::Corrupt)).ok()?;
        let mut out = Vec::new();
        key.encode(order, &mut out);
        Some(out)
    };
    same("key", SessionKey::decode(order, hex).map_err(said)?, key)?;
    same("bytes", again(hex).as_deref(), Some(hex))?;
    damage::canonical(hex, &again)
}

pub(crate) fn window_store(case: &Case<'_>) -> Outcome {
    let (key, hex) = (case.bytes("key_hex")?, case.bytes("hex")?);
    let (start, seqnum) = (case.int("window_start")?, case.int("seqnum")?);
    window_key(KeyOrder::Plain, WindowKey { key: &key, start, seqnum }, &hex)?;
    // Who reads the changelog as an input has this serde for it.
    let serde = TimeWindowed::new(ByteArray, 10).of_changelog();
    let read: Windowed<Vec<u8>> = serde.decode(&hex).map_err(said)?;
    same("key read by its serde", (read.key, read.start), (key, start))
}

pub(crate) fn prefixed(case: &Case<'_>) -> Outcome {
    let (key, hex) = (case.bytes("key_hex")?, case.bytes("hex")?);
    let window =
        || Ok::<_, String>(WindowKey { key: &key, start: case.int("window_start")?, seqnum: case.int("seqnum")? });
    let session = || Ok::<_, String>(SessionKey { key: &key, start: case.int("start")?, end: case.int("end")? });
    match case.text("schema")? {
        "window_time_first" => window_key(KeyOrder::TimeFirst, window()?, &hex),
        "window_key_first" => window_key(KeyOrder::KeyFirst, window()?, &hex),
        "session_time_first" => session_key(KeyOrder::TimeFirst, session()?, &hex),
        "session_key_first" => session_key(KeyOrder::KeyFirst, session()?, &hex),
        other => Err(format!("unknown schema {other}")),
    }
}

pub(crate) fn session(case: &Case<'_>) -> Outcome {
    let (key, hex) = (case.text("key")?, case.bytes("hex")?);
    let (start, end) = (case.int("start")?, case.int("end")?);
    session_key(KeyOrder::Plain, SessionKey { key: key.as_bytes(), start, end }, &hex)?;
    let windowed = Windowed { key: key.to_owned(), start, end };
    let again = |bytes: &[u8]| {
        let mut out = Vec::new();
        SessionWindowed(Utf8).encode(&SessionWindowed(Utf8).decode(bytes).ok()?, &mut out).ok()?;
        Some(out)
    };
    same("session", shown(SessionWindowed(Utf8).decode(&hex).map_err(said)?), shown(windowed))?;
    same("bytes", again(&hex).as_deref(), Some(hex.as_slice()))?;
    same("inner key", SessionWindowed(Utf8).inner_key(&hex).map_err(said)?, key.as_bytes())?;
    damage::canonical(&hex, &again)
}

pub(crate) fn time_windowed(case: &Case<'_>) -> Outcome {
    let Some(key) = case.nullable("key", text_of)? else {
        let none = [case.get("window_start")?, case.get("window_end")?, case.get("hex")?];
        ensure(none.iter().all(|value| value.is_null()), "a null key has null bytes")?;
        return ensure(Nullable(TimeWindowed::new(Utf8, 10)).is_null(&None), "a null key is written as null");
    };
    let (start, end): (i64, i64) = (case.int("window_start")?, case.int("window_end")?);
    let hex = case.bytes("hex")?;
    let serde = TimeWindowed::new(Utf8, end - start);
    let again = |bytes: &[u8]| {
        let mut out = Vec::new();
        serde.encode(&serde.decode(bytes).ok()?, &mut out).ok()?;
        Some(out)
    };
    same("window", shown(serde.decode(&hex).map_err(said)?), shown(Windowed { key, start, end }))?;
    same("bytes", again(&hex).as_deref(), Some(hex.as_slice()))?;
    damage::canonical(&hex, &again)
}

pub(crate) fn time_windowed_read(case: &Case<'_>) -> Outcome {
    let hex = case.bytes("hex")?;
    let serde = match case.nullable("window_size", Value::as_i64)? {
        Some(size) => TimeWindowed::new(Utf8, size),
        None => TimeWindowed::of_unknown_size(Utf8),
    };
    let serde = if case.flag("changelog_topic")? { serde.of_changelog() } else { serde };
    let read = serde.read::<String>(&hex);
    if case.error() {
        let error = read.err().ok_or("it is read")?;
        return ensure(error.kind() == millpond_topology::ErrorKind::Deserialization, "the error is one of reading");
    }
    let expected = match case.nullable("key", text_of)? {
        Some(key) => Some((key, case.int("window_start")?, case.int("window_end")?)),
        None => None,
    };
    same("window", read.map_err(said)?.map(shown), expected)
}

pub(crate) fn windowed_partition(case: &Case<'_>) -> Outcome {
    let start = case.int("window_start")?;
    let serde = TimeWindowed::new(Utf8, 10);
    let mut bytes = Vec::new();
    let key = Windowed { key: case.text("key")?.to_owned(), start, end: start + 10 };
    serde.encode(&key, &mut bytes).map_err(said)?;
    for (partitions, expected) in case.map("partition_of")? {
        let partition = partition_for_key(serde.inner_key(&bytes).map_err(said)?, partitions.parse().map_err(said)?);
        same("partition", Some(i64::from(partition)), expected.as_i64())?;
    }
    Ok(())
}

/// `Debug` shows no keys, a test has to.
fn shown(windowed: Windowed<String>) -> (String, i64, i64) {
    (windowed.key, windowed.start, windowed.end)
}
