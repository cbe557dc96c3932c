//! The simulated application's stores whose rows expire: one of each kind, what its processors do with them, and what has to
//! be in them by the records that came in.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use millpond_topology::{
    Context, Error, I64, Processor, Record, Result, Session, StoreRef, StoreSpec, Stream, TtlKeyValue, Utf8,
    ValueAndTimestamp, Versioned, Window, Windowed,
};

use super::job::DELETE;

/// A record with this value writes to all stores, into the future too, and fails then: it must leave nothing behind.
pub(super) const FAIL: &str = "fail";

/// Milliseconds of a minute.
const MINUTE: i64 = 60_000;
/// The lengths of windows.
const WINDOW: i64 = MINUTE;
const SHORT_WINDOW: i64 = 20_000;
/// A session does not reach over a multiple of this.
const SLOT: i64 = 2 * MINUTE;

/// A store whose rows expire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) sub_topology: u32,
    /// In milliseconds.
    pub(super) retention: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Windows,
    Duplicates,
    Sessions,
    Versions,
    TimeToLive,
}

const fn kept(name: &'static str, kind: Kind, sub_topology: u32, minutes: i64) -> Kept {
    Kept { name, kind, sub_topology, retention: minutes * MINUTE }
}

/// Records by key and minute; of some keys in the minute that comes.
const WINDOWS: Kept = kept("windows", Kind::Windows, 0, 4);
/// The times of all records.
const DUPLICATES: Kept = kept("duplicates", Kind::Duplicates, 0, 3);
/// Records by key and slot, as one session that grows.
const SESSIONS: Kept = kept("sessions", Kind::Sessions, 0, 5);
/// The values of each key.
const VERSIONS: Kept = kept("versions", Kind::Versions, 0, 2);
/// The values of each key and value.
const RECENT: Kept = kept("recent", Kind::TimeToLive, 0, 3);
/// What came out of the counts, which are drained into it where they are cached.
const DRAINED: Kept = kept("drained", Kind::TimeToLive, 1, 1);

pub(super) const ALL: [Kept; 6] = [WINDOWS, DUPLICATES, SESSIONS, VERSIONS, RECENT, DRAINED];

/// Those whose changelogs may be compacted at any time: of versions none may go before it has expired.
pub(super) const COMPACTED: [&str; 5] = [WINDOWS.name, DUPLICATES.name, SESSIONS.name, RECENT.name, DRAINED.name];

/// The number in a value.
fn number_of(value: &str) -> i64 {
    value.trim_start_matches('v').parse().unwrap_or(-1)
}

/// Some windows begin behind their records. None that is deleted does: what a cache holds of it may never be logged, so that
/// the store's time would not come back by its changelog.
fn window_of(key: &str, value: &str, timestamp: i64) -> i64 {
    let ahead = if key.ends_with('7') && value != DELETE { WINDOW } else { 0 };
    timestamp - timestamp % WINDOW + ahead
}

fn recent_key(key: &str, value: &str) -> String {
    // A delete strikes one of a key's rows.
    format!("{key}/{}", if value == DELETE { "v3" } else { value })
}

type InStores = (
    StoreRef<Window<String, i64>>,
    StoreRef<Window<String, i64>>,
    StoreRef<Session<String, i64>>,
    StoreRef<Versioned<String, i64>>,
);

/// Writes to windows, duplicates, sessions and versions.
struct Windows(InStores);

impl Processor for Windows {
    type In = Record<String, String>;
    type Out = Record<String, String>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let Record { key, value, timestamp, .. } = record;
        if value == FAIL {
            return self.fail(cx, &key, timestamp);
        }
        self.windows(cx, &key, &value, timestamp)?;
        if value == DELETE {
            cx.store(&self.0.3)?.put(&key, None, timestamp)?;
        } else {
            cx.store(&self.0.1)?.put(&key, timestamp - timestamp % SHORT_WINDOW, &timestamp)?;
            cx.store(&self.0.3)?.put(&key, Some(&number_of(&value)), timestamp)?;
        }
        self.sessions(cx, key, &value, timestamp)
    }
}

impl Windows {
    fn windows(&self, cx: &mut Context<'_, Self>, key: &String, value: &str, timestamp: i64) -> Result {
        let start = window_of(key, value, timestamp);
        let mut windows = cx.store(&self.0.0)?;
        if value == DELETE {
            return windows.delete(key, start).map(drop);
        }
        let count = windows.get(key, start)?.unwrap_or(0) + 1;
        windows.put(key, start, &count).map(drop)
    }

    fn sessions(&self, cx: &mut Context<'_, Self>, key: String, value: &str, timestamp: i64) -> Result {
        let slot = timestamp - timestamp % SLOT;
        let mut session = Windowed { key, start: timestamp, end: timestamp };
        let mut count = 1;
        let mut before = cx.store(&self.0.2)?.find_sessions(&session.key, slot, slot + SLOT - 1)?;
        while let Some((found, so_far)) = before.next(cx)? {
            (session.start, session.end) = (session.start.min(found.start), session.end.max(found.end));
            count += so_far;
            cx.store(&self.0.2)?.remove(&found)?;
        }
        if value == DELETE { Ok(()) } else { cx.store(&self.0.2)?.put(&session, &count).map(drop) }
    }

    fn fail(&self, cx: &mut Context<'_, Self>, key: &String, timestamp: i64) -> Result {
        let ahead = timestamp + 10 * MINUTE;
        cx.store(&self.0.0)?.put(key, ahead, &-1)?;
        cx.store(&self.0.1)?.put(key, ahead, &-1)?;
        cx.store(&self.0.2)?.put(&Windowed { key: key.clone(), start: timestamp, end: ahead }, &-1)?;
        cx.store(&self.0.3)?.put(key, Some(&-1), timestamp)?;
        cx.store(&self.0.3)?.put(key, Some(&-2), ahead)?;
        Err(Error::other("a record that fails"))
    }
}

/// Puts each value under its key and itself, and deletes.
struct Recent(StoreRef<TtlKeyValue<String, i64>>);

impl Processor for Recent {
    type In = Record<String, String>;
    type Out = Record<String, String>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let Record { key, value, timestamp, .. } = record;
        let mut recent = cx.store(&self.0)?;
        let row = |timestamp| ValueAndTimestamp { value: number_of(&value), timestamp };
        match value.as_str() {
            FAIL => {
                recent.put(&format!("{key}/v3"), &row(timestamp))?;
                recent.put(&format!("{key}/v4"), &row(timestamp + 10 * MINUTE))
            }
            // So that no tombstone follows another one.
            DELETE if recent.get(&recent_key(&key, DELETE))?.is_none() => Ok(()),
            DELETE => recent.delete(&recent_key(&key, DELETE)),
            _ => recent.put(&recent_key(&key, &value), &row(timestamp)),
        }
    }
}

/// Puts what is drained under a key that is seldom the same.
struct Drained(StoreRef<TtlKeyValue<String, i64>>);

impl Processor for Drained {
    type In = Record<String, i64>;
    type Out = Record<String, i64>;

    fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
        let Record { key, value, timestamp, .. } = record;
        let key = format!("{key}/{}", value / 8);
        cx.store(&self.0)?.put(&key, &ValueAndTimestamp { value, timestamp })
    }
}

fn ms(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

/// Adds the stores that the input is put into, some of them cached.
pub(super) fn add_to_input(rng: &mut Rng, builder: &mut millpond_topology::Builder, input: &Stream<String, String>) {
    let recent = StoreSpec::ttl_key_value(RECENT.name, ms(RECENT.retention), Utf8, I64);
    let windows = StoreSpec::window(WINDOWS.name, ms(WINDOWS.retention), ms(WINDOW), Utf8, I64);
    let duplicates = StoreSpec::window(DUPLICATES.name, ms(DUPLICATES.retention), ms(SHORT_WINDOW), Utf8, I64);
    let sessions = StoreSpec::session(SESSIONS.name, ms(SESSIONS.retention), Utf8, I64);
    let versions = StoreSpec::versioned(VERSIONS.name, ms(VERSIONS.retention), Utf8, I64);
    let recent = builder.add_store(if rng.bool() { recent.caching_enabled() } else { recent });
    let windows = builder.add_store(if rng.bool() { windows.caching_enabled() } else { windows });
    let sessions = builder.add_store(if rng.bool() { sessions.caching_enabled() } else { sessions });
    let duplicates = builder.add_store(duplicates.retain_duplicates());
    let versions = builder.add_store(versions);
    let _ = input.clone().process(&recent, |_, recent| Ok(Recent(recent)));
    let _ = input.clone().process((&windows, &duplicates, &sessions, &versions), |_, stores| Ok(Windows(stores)));
}

/// Adds the store that the counts are drained into.
pub(super) fn add_to_counts(rng: &mut Rng, builder: &mut millpond_topology::Builder, counts: &Stream<String, i64>) {
    let drained = StoreSpec::ttl_key_value(DRAINED.name, ms(DRAINED.retention), Utf8, I64);
    let drained = builder.add_store(if rng.bool() { drained.caching_enabled() } else { drained });
    let _ = counts.clone().process(&drained, |_, drained| Ok(Drained(drained)));
}

/// The records of one partition that did not fail, those of each key in their order.
#[derive(Debug, Default)]
pub(super) struct Came(Vec<(String, String, i64)>);

/// What a store has to hold.
#[derive(Debug, Default)]
pub(super) struct Expected {
    /// What it has observed.
    pub(super) observed: i64,
    /// Rows of whose parts none can have been refused, whatever the order in which the inputs were read.
    pub(super) certain: BTreeMap<String, i64>,
}

impl Came {
    pub(super) fn record(&mut self, key: &str, value: &str, timestamp: i64) {
        self.0.push((key.to_owned(), value.to_owned(), timestamp));
    }

    /// What a store has to hold; `None` for one that the input does not say that of.
    pub(super) fn expected(&self, store: Kept) -> Option<Expected> {
        let ahead = |(key, value, time): &(String, String, i64)| {
            if store.kind == Kind::Windows { window_of(key, value, *time).max(*time) } else { *time }
        };
        let observed = self.0.iter().map(ahead).max().unwrap_or(-1);
        let expired = observed - store.retention;
        let certain = match store.kind {
            _ if store.sub_topology > 0 => return None,
            Kind::Windows => self.windows(expired),
            Kind::Duplicates => self.duplicates(expired),
            Kind::Sessions => self.sessions(expired),
            Kind::Versions => self.versions(expired),
            Kind::TimeToLive => self.recent(expired),
        };
        Some(Expected { observed, certain })
    }

    fn windows(&self, expired: i64) -> BTreeMap<String, i64> {
        let mut rows = BTreeMap::new();
        for (key, value, time) in &self.0 {
            let start = window_of(key, value, *time);
            let row = format!("{key}@{start}");
            if value == DELETE {
                rows.remove(&row);
            } else if start > expired {
                *rows.entry(row).or_insert(0) += 1;
            }
        }
        rows
    }

    fn duplicates(&self, expired: i64) -> BTreeMap<String, i64> {
        let mut rows = BTreeMap::new();
        let mut numbers = BTreeMap::new();
        for (key, value, time) in &self.0 {
            let start = time - time % SHORT_WINDOW;
            if value != DELETE && start > expired {
                let number = numbers.entry((key, start)).or_insert(0);
                *number += 1;
                rows.insert(format!("{key}@{start}#{number}"), *time);
            }
        }
        rows
    }

    fn sessions(&self, expired: i64) -> BTreeMap<String, i64> {
        let mut sessions: BTreeMap<(&str, i64), (i64, i64, i64)> = BTreeMap::new();
        for (key, value, time) in &self.0 {
            let slot = (key.as_str(), time - time % SLOT);
            if value == DELETE {
                sessions.remove(&slot);
            } else if slot.1 > expired {
                let (start, end, count) = sessions.entry(slot).or_insert((*time, *time, 0));
                (*start, *end, *count) = ((*start).min(*time), (*end).max(*time), *count + 1);
            }
        }
        sessions.iter().map(|((key, _), (start, end, count))| (format!("{key}@{start}..{end}"), *count)).collect()
    }

    fn versions(&self, expired: i64) -> BTreeMap<String, i64> {
        let mut keys: BTreeMap<&str, Versions> = BTreeMap::new();
        for (key, value, time) in self.0.iter().filter(|(.., time)| *time >= expired) {
            let value = (value != DELETE).then(|| number_of(value));
            keys.entry(key).or_default().0.insert(*time, value);
        }
        keys.iter().flat_map(|(key, versions)| versions.rows(key, i64::MIN)).collect()
    }

    fn recent(&self, expired: i64) -> BTreeMap<String, i64> {
        let mut rows = BTreeMap::new();
        for (key, value, time) in &self.0 {
            rows.insert(recent_key(key, value), (value != DELETE).then(|| (number_of(value), *time)));
        }
        let alive = |(key, row): (String, Option<(i64, i64)>)| {
            row.filter(|(_, time)| *time > expired).map(|(value, time)| (format!("{key}@{time}"), value))
        };
        rows.into_iter().filter_map(alive).collect()
    }
}

/// The versions of a key by their times; `None`: there is no value from then on.
#[derive(Debug, Default)]
pub(super) struct Versions(pub(super) BTreeMap<i64, Option<i64>>);

impl Versions {
    /// Each value with the times it was valid from and to, if that was after `expired`.
    pub(super) fn rows(&self, key: &str, expired: i64) -> Vec<(String, i64)> {
        let ends = self.0.keys().skip(1).map(|end| Some(*end)).chain([None]);
        let row = |((from, value), to): ((&i64, &Option<i64>), Option<i64>)| {
            let is_there = to.is_none_or(|to| to > expired);
            value.filter(|_| is_there).map(|value| (version(key, *from, to), value))
        };
        self.0.iter().zip(ends).filter_map(row).collect()
    }
}

/// How a version is called.
pub(super) fn version(key: &str, from: i64, to: Option<i64>) -> String {
    to.map_or_else(|| format!("{key}@{from}.."), |to| format!("{key}@{from}..{to}"))
}

impl Expected {
    /// Whether the expected rows have to have this one if the store has it: none of it is older than what can have been
    /// refused.
    pub(super) fn decides(&self, store: Kept, row: &str) -> bool {
        let expired = self.observed - store.retention;
        let time = || row.rsplit_once('@')?.1.split(['.', '#']).next()?.parse::<i64>().ok();
        match store.kind {
            Kind::Windows | Kind::Duplicates => true,
            Kind::Sessions => time().is_some_and(|start| start - start % SLOT > expired),
            Kind::Versions => time().is_some_and(|from| from >= expired),
            // A put that was refused has left the one before.
            Kind::TimeToLive => self.certain.contains_key(row),
        }
    }
}
