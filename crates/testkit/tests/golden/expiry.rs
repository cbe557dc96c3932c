//! What stores have let go of: [`Easing::Expired`], where commands are run against a store, [`Easing::ExpiredPuts`] and
//! [`Easing::DuplicatesStay`].
//!
//! In Kafka Streams a store's rows expire by the greatest time that was put into it, and caches and engines show some that have.
//! Here they expire by that or the task's stream time, whichever is later, and no row that has is shown. So what a case expects
//! is expected without those rows; nothing else about it changes.

use millpond_topology::{InternalTopic, InternalTopicKind, StoreDef, StoreIndex, StoreType, Topology};

use crate::case::{self, RawRecord, Row, Step};
use crate::compare::tail_of_keys;
use crate::hex::unhex;
use crate::value::Val;

/// The records of a store's changelog that we write as well; and how many are left out because they had expired when they were
/// put.
pub(crate) fn puts(store: &StoreDef, records: &[RawRecord]) -> (Vec<RawRecord>, usize) {
    // Windows of aggregations are not put when they are closed, in Kafka Streams neither.
    let Some(retention) = store.retention.filter(|retention| !retention.by_puts) else { return (records.to_vec(), 0) };
    let does_something = |record: &&RawRecord| !retention.duplicates || record.value_hex.is_some();
    let records: Vec<_> = records.iter().filter(does_something).collect();
    // A version is there as long as it is exactly as old as the history.
    let is_versioned = store.kind == StoreType::VersionedKeyValue;
    let gone_after = retention.gone_after().saturating_add(i64::from(is_versioned));
    let mut now = -1;
    let is_kept = |record: &&&RawRecord| {
        let put_at = record.ts.unwrap_or(now);
        let time = time_of_key(record, tail_of_keys(Some(store))).unwrap_or(put_at);
        now = now.max(put_at).max(time);
        time > now.saturating_sub(gone_after)
    };
    let kept: Vec<_> = records.iter().filter(is_kept).map(|record| (*record).clone()).collect();
    let expired = records.len() - kept.len();
    (kept, expired)
}

/// Whether all puts that are refused are in golden changelogs.
pub(crate) fn is_told_by_changelogs(topology: &Topology) -> bool {
    let is_logged = |at: usize| {
        let is_its_own = |topic: &InternalTopic| topic.kind == InternalTopicKind::Changelog(StoreIndex(at as u32));
        topology.internal_topics().iter().any(is_its_own)
    };
    let expiring = || topology.stores().iter().enumerate().filter_map(|(at, store)| Some((at, store.retention?)));
    expiring().next().is_some() && expiring().all(|(at, retention)| !retention.by_puts && is_logged(at))
}

/// The start of a window, the end of a session.
fn time_of_key(record: &RawRecord, tail: usize) -> Option<i64> {
    let key = unhex(record.key_hex.as_ref()?)?;
    let tail = key.get(key.len().checked_sub(tail)?..)?;
    tail.first_chunk().map(|time| i64::from_be_bytes(*time))
}

/// The time of a window or session store.
#[derive(Clone)]
pub(crate) struct Expiry {
    sessions: bool,
    retention: i64,
    now: i64,
}

impl Expiry {
    /// That of the only store of a case, if its rows expire by a window's start or a session's end.
    pub(crate) fn of(stores: &[case::Store]) -> Option<Self> {
        let (sessions, retention) = match stores {
            [case::Store::Window(w) | case::Store::TimestampedWindow(w) | case::Store::HeadersWindow(w)] => {
                (false, w.retention_ms)
            }
            [case::Store::Session(s) | case::Store::HeadersSession(s)] => (true, s.retention_ms),
            _ => return None,
        };
        Some(Self { sessions, retention: i64::try_from(retention).unwrap_or(i64::MAX), now: -1 })
    }

    /// A step is processed; answers its command.
    pub(crate) fn observe<'a>(&mut self, step: &'a Step) -> Option<&'a str> {
        self.now = self.now.max(step.ts?);
        let Some(Val::Text(command)) = &step.value else { return None };
        let words: Vec<&str> = command.split(' ').collect();
        // A window's start, a session's end.
        if let ["put" | "remove", _, _, time, ..] = words[..] {
            self.now = self.now.max(number(time)?);
        }
        Some(command)
    }

    fn is_gone(&self, time: i64) -> bool {
        time <= self.now.saturating_sub(self.retention)
    }

    /// An answer to a command without the rows that are gone.
    pub(crate) fn answer(&self, command: &str, answer: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["get", _, start] if !self.sessions => self.value(number(start), answer),
            ["get", _, _, end] if self.sessions => self.value(number(end), answer),
            ["put" | "remove", ..] => answer.to_owned(),
            _ => {
                let rows = crate::compare::answer(answer);
                let alive =
                    rows.into_iter().filter(|row| !time_of(row, self.sessions).is_some_and(|t| self.is_gone(t)));
                alive.collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn value(&self, time: Option<i64>, answer: &str) -> String {
        let gone = !answer.starts_with("error") && time.is_some_and(|time| self.is_gone(time));
        if gone { "null" } else { answer }.to_owned()
    }

    /// Rows at the end without those that are gone.
    pub(crate) fn rows(&self, rows: Vec<Row>) -> Vec<Row> {
        let time = |row: &Row| if self.sessions { row.end } else { row.start };
        rows.into_iter().filter(|row| !time(row).is_some_and(|time| self.is_gone(time))).collect()
    }
}

fn number(word: &str) -> Option<i64> {
    match word {
        "max" => Some(i64::MAX),
        "min" => Some(i64::MIN),
        word => word.parse().ok(),
    }
}

/// The time that a row expires by: of `key[start,end]=value` or, where one key was asked for, `start=value`.
fn time_of(row: &str, sessions: bool) -> Option<i64> {
    let (key, _) = row.split_once('=')?;
    match key.split_once('[') {
        Some((_, window)) => {
            let (start, end) = window.strip_suffix(']')?.split_once(',')?;
            number(if sessions { end } else { start })
        }
        None => number(key),
    }
}
