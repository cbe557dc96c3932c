//! Comparisons, with the freedoms that `behaviour/README.md` gives and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use millpond_store_api::{AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders};
use millpond_testkit::Driver;
use millpond_topology::{Error, InternalTopicKind, Result, Serde as _, StoreDef, StoreType, Topology};

use crate::case::{AsOf, Contents, KvRow, Output, RawRecord, Row, Step, StoreRows, Version, Versions};
use crate::easings::Easing;
use crate::expiry::Expiry;
use crate::hex::{hex, unhex};
use crate::value::{Cell, Dynamic, Key, KeyKind, Kind, Val, nullable};

/// All that was found, and which easings had something to change.
#[derive(Default)]
pub(crate) struct Differences {
    text: String,
    easings: BTreeSet<Easing>,
}

impl Differences {
    pub(crate) fn say(&mut self, what: impl fmt::Display) {
        let _ = writeln!(self.text, "    {what}");
    }

    pub(crate) fn ease(&mut self, easing: Easing, changes: bool) {
        if changes {
            self.easings.insert(easing);
        }
    }

    /// What was expected, and what came, line by line; lines that are not on the other side are marked.
    fn sides<T: fmt::Debug>(&mut self, place: &str, expected: &[T], got: &[T]) {
        let lines = |side: &[T]| side.iter().map(|line| format!("{line:?}")).collect::<Vec<_>>();
        let (expected, got) = (lines(expected), lines(got));
        self.say(place);
        for (title, side, other) in [("expected", &expected, &got), ("got", &got, &expected)] {
            let _ = writeln!(self.text, "      {title}{}", if side.is_empty() { " nothing" } else { "" });
            for line in side {
                let _ = writeln!(self.text, "      {} {line}", if other.contains(line) { ' ' } else { '*' });
            }
        }
    }

    pub(crate) fn into_parts(self) -> (String, BTreeSet<Easing>) {
        (self.text, self.easings)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.topic, self.ts) {
            (Some(topic), Some(ts)) => write!(f, "({topic} {:?}={:?}@{ts})", self.key, self.value),
            _ => write!(f, "(advance {} ms)", self.advance_ms.unwrap_or_default()),
        }
    }
}

/// The parts of a sequence by their keys: order between different keys is free.
fn by_key<K: Ord, T>(all: &[T], key: impl Fn(&T) -> K) -> BTreeMap<K, Vec<&T>> {
    let mut parts: BTreeMap<K, Vec<&T>> = BTreeMap::new();
    all.iter().for_each(|one| parts.entry(key(one)).or_default().push(one));
    parts
}

fn same<K: Ord, T>(a: &[T], b: &[T], key: impl Fn(&T) -> K, equal: impl Fn(&T, &T) -> bool) -> bool {
    let (a, b) = (by_key(a, &key), by_key(b, &key));
    a.len() == b.len()
        && a.iter()
            .all(|(key, a)| b.get(key).is_some_and(|b| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))))
}

/// Records that have come out in one step: in order per topic and key.
pub(crate) fn outputs(place: &str, accepted: &[Vec<Output>], got: &[Output], found: &mut Differences) {
    let place_of = |output: &Output| (output.topic.clone(), output.key.inner().clone());
    if !accepted.iter().any(|expected| same(expected, got, place_of, same_output)) {
        found.sides(place, accepted.first().map_or(&[][..], Vec::as_slice), got);
    }
}

fn same_output(expected: &Output, got: &Output) -> bool {
    let Output { topic, key, value, ts, headers } = expected;
    *topic == got.topic
        && *key == got.key
        && same_value(value, &got.value)
        && (ts.is_none() || *ts == got.ts)
        && *headers == got.headers
}

/// Equal, or the answers of a scan with equal rows.
fn same_value(expected: &Cell, got: &Cell) -> bool {
    let (Some(Val::Text(a)), Some(Val::Text(b))) = (expected, got) else { return expected == got };
    a == b || {
        let (a, b) = (answer(a), answer(b));
        a.iter().all(|row| row.contains('=')) && same(&a, &b, |row| key_of(row).to_owned(), |a, b| a == b)
    }
}

/// The rows of an answer. What a row holds may have spaces, too, but then no `=`.
pub(crate) fn answer(text: &str) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match rows.last_mut() {
            Some(row) if !word.contains('=') => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}

fn key_of(row: &str) -> &str {
    row.split(['[', '=']).next().unwrap_or_default()
}

/// The store whose changelog a topic is.
pub(crate) fn store_of<'a>(topology: &'a Topology, topic: &str) -> Option<&'a StoreDef> {
    let found = topology.internal_topics().iter().find(|t| t.topic.full_name("app") == topic)?;
    match found.kind {
        InternalTopicKind::Changelog(at) => topology.stores().get(at.0 as usize),
        _ => None,
    }
}

/// How many bytes stand behind the key in the keys of a changelog: those of a window or session.
pub(crate) fn tail_of_keys(store: Option<&StoreDef>) -> usize {
    match store.map(|store| store.kind) {
        Some(StoreType::Window | StoreType::TimestampedWindow | StoreType::TimestampedWindowWithHeaders) => 12,
        Some(StoreType::Session | StoreType::SessionWithHeaders) => 16,
        _ => 0,
    }
}

fn inner_key(record: &RawRecord, tail: usize) -> Option<String> {
    let key = record.key_hex.as_ref()?;
    Some(key.get(..key.len().saturating_sub(2 * tail)).unwrap_or_default().to_owned())
}

fn same_raw(expected: &RawRecord, got: &RawRecord) -> bool {
    let RawRecord { key_hex, value_hex, ts, headers } = expected;
    *key_hex == got.key_hex
        && *value_hex == got.value_hex
        && (ts.is_none() || *ts == got.ts)
        && headers.len() == got.headers.len()
        && headers.iter().zip(&got.headers).all(same_header)
}

/// Zeros behind a position are room that Kafka Streams has left.
fn same_header((expected, got): (&crate::case::Header, &crate::case::Header)) -> bool {
    let room = || match (&expected.1, &got.1) {
        (Some(expected), Some(got)) => {
            expected.strip_prefix(got.as_str()).is_some_and(|rest| rest.chars().all(|c| c == '0'))
        }
        _ => false,
    };
    expected == got || (expected.0 == "c" && got.0 == "c" && room())
}

/// The records of an internal topic: in order, and within a step in order per key. `ends` says how many there were after
/// each step.
pub(crate) fn internal(
    (topic, ends): (&str, &[usize]),
    expected: &[RawRecord],
    got: &[RawRecord],
    tail: usize,
    found: &mut Differences,
) {
    let mut from = 0;
    let mut equal = expected.len() == got.len();
    for end in ends.iter().copied().chain([got.len()]) {
        let part = |all: &[RawRecord]| all.get(from..end.min(all.len())).unwrap_or_default().to_vec();
        equal &= same(&part(expected), &part(got), |record| inner_key(record, tail), same_raw);
        from = end.max(from);
    }
    if !equal {
        found.sides(&format!("records of `{topic}`"), expected, got);
    }
}

/// What a store holds: rows of one key in order.
pub(crate) fn store(
    driver: &Driver,
    topology: &Topology,
    (name, (key, value)): (&str, (KeyKind, Kind)),
    (contents, expiry, logged): (&Contents, Option<&Expiry>, &[RawRecord]),
    found: &mut Differences,
) {
    let place = format!("store `{name}`");
    let rows = match contents {
        Contents::Unreadable { .. } => return,
        Contents::Rows(StoreRows::VersionedKv(expected)) => {
            let got: Vec<_> = expected.iter().map(|row| versions(driver, name, (key, value), row)).collect();
            if *expected != got {
                found.sides(&place, expected, &got);
            }
            return;
        }
        Contents::Rows(StoreRows::Kv(rows)) => rows
            .iter()
            .map(|row| match row {
                KvRow::Plain(row) => Some(row.clone()),
                KvRow::OfJoin(_) => None,
            })
            .collect(),
        Contents::Rows(StoreRows::Window(rows) | StoreRows::Session(rows)) => Some(rows.clone()),
    };
    let Some(expected) = rows else { return found.say(format!("{place} is that of a join")) };
    let def = topology.store_index(name).and_then(|at| topology.stores().get(at.0 as usize));
    let bytes = |hex: &Option<String>| hex.as_ref().and_then(|hex| unhex(hex));
    let read = def.ok_or_else(|| Error::other("there is no such store"));
    let golden = expected.clone();
    let expected = expiry.map_or(expected.clone(), |expiry| expiry.rows(expected));
    let (expected, easing) = match def.and_then(|def| def.retention.map(|retention| (def.kind, retention))) {
        Some((kind, retention)) if retention.by_puts && !logged.is_empty() => {
            (alive(expected, kind, retention.gone_after(), key, logged), Easing::Expired)
        }
        Some(_) | None if driver.tasks().is_empty() && !logged.is_empty() => {
            let records = logged.iter().map(|r| (bytes(&r.key_hex), bytes(&r.value_hex), r.ts.unwrap_or_default()));
            let folded = def.and_then(|def| fold(def.kind, (key, value), records).ok());
            (folded.unwrap_or(expected), Easing::FailedRecord)
        }
        _ => (expected, Easing::Expired),
    };
    let key_of = |row: &Row| row.key.inner().clone();
    found.ease(easing, !same(&golden, &expected, key_of, |a, b| a == b));
    match read.and_then(|def| read_rows(driver, name, def.kind, (key, value))) {
        Ok(got) if same(&expected, &got, key_of, |a, b| a == b) => {}
        Ok(got) => found.sides(&place, &expected, &got),
        Err(e) => found.say(format!("{place} cannot be read: {e:?}")),
    }
}

fn versions(driver: &Driver, name: &str, (key, value): (KeyKind, Kind), row: &Versions) -> Versions {
    let store = driver.versioned_store(name, Dynamic(key.inner()), Dynamic(value));
    let version =
        |found: millpond_topology::VersionedRecord<Val>| Version { value: Some(found.value), ts: found.timestamp };
    let at = |as_of: &AsOf| AsOf {
        as_of: as_of.as_of,
        found: store.get_as_of(Val::text(&row.key), as_of.as_of).map(version),
    };
    Versions {
        key: row.key.clone(),
        latest: store.get(Val::text(&row.key)).map(version),
        as_of: row.as_of.iter().map(at).collect(),
    }
}

/// The rows of a store that runs; of one that does not, those that its changelog amounts to.
fn read_rows(driver: &Driver, name: &str, kind: StoreType, format: (KeyKind, Kind)) -> Result<Vec<Row>> {
    if driver.tasks().is_empty() {
        return logged_rows(driver, name, kind, format);
    }
    let rows = driver.raw_store(name).into_iter();
    rows.map(|(_, key, value)| row(kind, format, &key, &value)).collect()
}

fn logged_rows(driver: &Driver, name: &str, kind: StoreType, format: (KeyKind, Kind)) -> Result<Vec<Row>> {
    let records = driver.records(&format!("{name}-changelog"));
    fold(kind, format, records.into_iter().map(|record| (record.key, record.value, record.timestamp)))
}

/// The rows of a windowed aggregation without those that have expired by what was put, as its changelog tells: Kafka Streams' caches
/// show some of these (B005).
fn alive(mut rows: Vec<Row>, kind: StoreType, gone_after: i64, key: KeyKind, logged: &[RawRecord]) -> Vec<Row> {
    let time = |row: &Row| row.end.or(row.start).unwrap_or_default();
    let keys = logged.iter().filter_map(|r| unhex(r.key_hex.as_ref()?));
    let now = keys.filter_map(|bytes| key_of_row(kind, key, &bytes).ok()).map(|row| time(&row)).max();
    rows.retain(|row| now.is_none_or(|now| time(row) > now.saturating_sub(gone_after)));
    rows
}

type Logged = (Option<Vec<u8>>, Option<Vec<u8>>, i64);

/// The rows that a changelog amounts to.
fn fold(kind: StoreType, format: (KeyKind, Kind), records: impl Iterator<Item = Logged>) -> Result<Vec<Row>> {
    let mut last = BTreeMap::new();
    for (key, value, timestamp) in records {
        match value {
            Some(value) => last.insert(key, (value, timestamp)),
            None => last.remove(&key),
        };
    }
    let rows = last.into_iter().map(|(key, (bytes, timestamp))| {
        // In the log a value's time is that of its record.
        let (plain, ts) = match kind {
            StoreType::TimestampedKeyValue => (StoreType::KeyValue, Some(timestamp)),
            StoreType::TimestampedWindow => (StoreType::Window, Some(timestamp)),
            kind => (kind, None),
        };
        Ok(Row { ts, ..row(plain, format, &key.unwrap_or_default(), &bytes)? })
    });
    rows.collect()
}

/// A row of a store: its key as in the changelog, its value as in the store.
fn row(kind: StoreType, (key_kind, value_kind): (KeyKind, Kind), key: &[u8], value: &[u8]) -> Result<Row> {
    let mut row = key_of_row(kind, key_kind, key)?;
    let value = match kind {
        StoreType::TimestampedKeyValue | StoreType::TimestampedWindow => {
            let stamped = ValueAndTimestamp::decode(value)?;
            row.ts = Some(stamped.timestamp);
            stamped.value
        }
        StoreType::TimestampedKeyValueWithHeaders | StoreType::TimestampedWindowWithHeaders => {
            let stamped = ValueTimestampHeaders::decode(value)?;
            row.ts = Some(stamped.timestamp);
            row.headers = Some(headers(stamped.headers)?);
            stamped.value
        }
        StoreType::SessionWithHeaders => {
            let aggregation = AggregationWithHeaders::decode(value)?;
            row.headers = Some(headers(aggregation.headers)?);
            aggregation.aggregation
        }
        _ => value,
    };
    row.value = nullable(value_kind).decode(value)?;
    Ok(row)
}

/// A row with its key and no value.
fn key_of_row(kind: StoreType, key_kind: KeyKind, key: &[u8]) -> Result<Row> {
    let short = || Error::other("a key is too short");
    let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| i64::from_be_bytes(*bytes)).ok_or_else(short);
    let split = |tail: usize| key.split_at_checked(key.len().wrapping_sub(tail)).ok_or_else(short);
    let mut row = Row::default();
    match kind {
        StoreType::Window | StoreType::TimestampedWindow | StoreType::TimestampedWindowWithHeaders => {
            let (key, tail) = split(12)?;
            row.key = Key::read(KeyKind::Plain(key_kind.inner()), Some(key))?;
            row.start = Some(number(tail)?);
        }
        StoreType::Session | StoreType::SessionWithHeaders => {
            let (key, tail) = split(16)?;
            row.key = Key::read(KeyKind::Plain(key_kind.inner()), Some(key))?;
            (row.end, row.start) = (Some(number(tail)?), Some(number(tail.get(8..).unwrap_or_default())?));
        }
        _ => row.key = Key::read(key_kind, Some(key))?,
    }
    Ok(row)
}

fn headers(stored: millpond_store_api::Headers<'_>) -> Result<Vec<crate::case::Header>> {
    let header = |header: millpond_store_api::Result<millpond_store_api::Header<'_>>| {
        let header = header?;
        Ok((header.key.to_owned(), header.value.map(hex)))
    };
    stored.iter().map(header).collect()
}
