//! What stores that commands are run against have let go of.
//!
//! In Kafka Streams a store's rows expire by the greatest time that was put into it, and caches and engines show some that have.
//! Here they expire by that or the task's stream time, whichever is later, and no row that has is shown. So what a case expects
//! is expected without those rows; nothing else about it changes.

use crate::case::{self, Row, Step};
use crate::value::Val;

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
