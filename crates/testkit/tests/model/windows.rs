//! Windows by their definitions: which windows hold a record, when a window is closed, and what is in it.
//!
//! The time of an operator is the greatest event time that it has got. A window is closed once it has come to the window's end
//! and the grace behind it; a session also stays open for its gap. A record goes into all windows that hold it and are open when
//! it comes; it is late if there is none.

use std::collections::{BTreeMap, BTreeSet};

use crate::naive::{Rec, RowKey, all};
use crate::plan::{Fold, Shape, StepId, Window, Windows};

/// What comes of records in windows.
pub(crate) struct Windowed {
    /// The updates of the windows, in order.
    pub(crate) updates: Vec<Rec>,
    pub(crate) late: Vec<Rec>,
    /// False if the definitions leave something open.
    pub(crate) certain: bool,
}

/// The operator's time when a record has come: of the task that the record is in.
fn time_at(records: &[Rec], n: usize) -> i64 {
    records[..=n].iter().filter(|rec| rec.part == records[n].part).map(|rec| rec.time).max().unwrap_or_default()
}

impl Windows {
    /// Whether a window takes nothing more at this time.
    fn is_closed(self, (_, end): Window, time: i64) -> bool {
        match self.shape {
            Shape::Time { .. } => end + self.grace <= time,
            Shape::Sliding { .. } => end + self.grace < time,
            Shape::Session { gap } => end + gap + self.grace < time,
        }
    }
}

pub(crate) fn windowed(records: &[Rec], windows: Windows, fold: Fold, step: StepId) -> Windowed {
    match windows.shape {
        Shape::Time { size, advance } => time_windows(records, windows, (size, advance), fold, step),
        Shape::Sliding { difference } => sliding_windows(records, windows, difference, fold, step),
        Shape::Session { gap } => sessions(records, windows, gap, fold, step),
    }
}

/// The update of a window with these records in it, which the last one of them has brought about.
fn update(members: &[&Rec], cause: &Rec, window: Window, fold: Fold, at: [usize; 2]) -> Rec {
    let values: Vec<i64> = members.iter().filter_map(|rec| rec.value).collect();
    let time = members.iter().map(|rec| rec.time).max().unwrap_or(cause.time);
    let at = [&cause.at[..], &at].concat();
    Rec { window: Some(window), value: Some(all(fold, &values)), time, at, ..cause.clone() }
}

/// The windows of this size that hold a time, the earliest first.
fn holding(time: i64, size: i64, advance: i64) -> Vec<Window> {
    let starts = (0..=time).filter(|start| start % advance == 0);
    starts.map(|start| (start, start + size)).filter(|(_, end)| time < *end).collect()
}

fn time_windows(records: &[Rec], windows: Windows, shape: (i64, i64), fold: Fold, step: StepId) -> Windowed {
    let (mut updates, mut late) = (Vec::new(), Vec::new());
    let takes = |n: usize, window: Window| {
        let holds = (window.0..window.1).contains(&records[n].time);
        holds && !windows.is_closed(window, time_at(records, n))
    };
    for (n, rec) in records.iter().enumerate() {
        let open: Vec<Window> =
            holding(rec.time, shape.0, shape.1).into_iter().filter(|window| takes(n, *window)).collect();
        for (nth, window) in open.iter().enumerate() {
            let members = (0..=n).filter(|m| records[*m].key == rec.key && takes(*m, *window));
            let members: Vec<&Rec> = members.map(|m| &records[m]).collect();
            updates.push(update(&members, rec, *window, fold, [step, nth]));
        }
        if open.is_empty() {
            late.push(rec.clone());
        }
    }
    Windowed { updates, late, certain: true }
}

/// For each record the window that ends with it, or the first one if that would begin before 1970; and the one that begins
/// right behind it, if anything is in it.
///
/// A record for which the window that it ends is closed may still lie in an open one that a later record has made, or make the
/// one that begins behind it. What becomes of it in windows that come later is not said anywhere: then nothing is certain.
fn sliding_windows(records: &[Rec], windows: Windows, difference: i64, fold: Fold, step: StepId) -> Windowed {
    let (mut updates, mut late, mut certain) = (Vec::new(), Vec::new(), true);
    let left = |time: i64| ((time - difference).max(0), (time - difference).max(0) + difference);
    let is_open = |n: usize, window: Window| !windows.is_closed(window, time_at(records, n));
    let content = |until: usize, key: &str| -> BTreeMap<Window, Vec<&Rec>> {
        let own: Vec<usize> =
            (0..until).filter(|n| records[*n].key == key && is_open(*n, left(records[*n].time))).collect();
        let right = |n: &usize| (records[*n].time + 1, records[*n].time + 1 + difference);
        let made: BTreeSet<Window> = own.iter().flat_map(|n| [left(records[*n].time), right(n)]).collect();
        let members = |window: Window| {
            let holds = |n: &&usize| (window.0..=window.1).contains(&records[**n].time) && is_open(**n, window);
            own.iter().filter(holds).map(|n| &records[*n]).collect::<Vec<_>>()
        };
        made.into_iter().map(|window| (window, members(window))).filter(|(_, members)| !members.is_empty()).collect()
    };
    for (n, rec) in records.iter().enumerate() {
        if !is_open(n, left(rec.time)) {
            late.push(rec.clone());
            certain &= !is_open(n, (rec.time + 1, rec.time + 1 + difference));
        }
        let (before, now) = (content(n, &rec.key), content(n + 1, &rec.key));
        for (nth, (window, members)) in now.iter().filter(|(window, now)| before.get(window) != Some(now)).enumerate() {
            updates.push(update(members, rec, *window, fold, [step, nth]));
        }
    }
    Windowed { updates, late, certain }
}

/// A record joins all open sessions of its key that are not farther away than the gap: they become one. What they were is told
/// first.
///
/// A closed session may be as near, and be in the store still. Whether it is joined as well, where results come with updates, is
/// the store's affair: then nothing is certain.
fn sessions(records: &[Rec], windows: Windows, gap: i64, fold: Fold, step: StepId) -> Windowed {
    let (mut updates, mut late, mut certain) = (Vec::new(), Vec::new(), true);
    let mut all_sessions: Vec<Vec<usize>> = Vec::new();
    let bounds = |session: &[usize]| {
        let times = || session.iter().map(|n| records[*n].time);
        (times().min().unwrap_or_default(), times().max().unwrap_or_default())
    };
    for (n, rec) in records.iter().enumerate() {
        let time = time_at(records, n);
        let touches = |session: &Vec<usize>| {
            let (start, end) = bounds(session);
            let near = start - gap <= rec.time && rec.time <= end + gap;
            near && records[session[0]].key == rec.key
        };
        let is_open = |session: &Vec<usize>| !windows.is_closed(bounds(session), time);
        certain &= all_sessions.iter().filter(|session| touches(session)).all(is_open);
        let near = all_sessions.iter().filter(|session| touches(session) && is_open(session));
        let mut near: Vec<Vec<usize>> = near.cloned().collect();
        near.sort_by_key(|session| bounds(session));
        let mut joined = [&near.concat()[..], &[n]].concat();
        joined.sort_unstable();
        let window = bounds(&joined);
        if windows.is_closed(window, time) {
            late.push(rec.clone());
            continue;
        }
        // One that begins and ends with this very time goes on as what it was.
        let swallowed = near.iter().map(|session| bounds(session)).filter(|_| window.0 != window.1);
        for (nth, old) in swallowed.enumerate() {
            let at = [&rec.at[..], &[step, nth]].concat();
            updates.push(Rec { window: Some(old), value: None, time: old.1, at, ..rec.clone() });
        }
        let members: Vec<&Rec> = joined.iter().map(|n| &records[*n]).collect();
        let row = update(&members, rec, window, fold, [step, near.len()]);
        updates.push(Rec { time: window.1, ..row });
        all_sessions.retain(|session| !near.contains(session));
        all_sessions.push(joined);
    }
    Windowed { updates, late, certain }
}

/// The rows of windows that are open when all records have come, `later` milliseconds later.
pub(crate) fn open(records: &[Rec], updates: &[Rec], windows: Windows, later: i64) -> Vec<RowKey> {
    let is_open = |update: &&Rec| {
        let end = records.iter().rposition(|rec| rec.part == update.part);
        let time = end.map_or(0, |n| time_at(records, n));
        update.window.is_some_and(|window| !windows.is_closed(window, time + later))
    };
    updates.iter().filter(is_open).map(Rec::row).collect()
}

/// The rows of windows that everybody finds in their store: where a window's end belongs to it, only its own operator sees it in
/// its last millisecond.
pub(crate) fn seen(records: &[Rec], updates: &[Rec], windows: Windows) -> Vec<RowKey> {
    open(records, updates, windows, i64::from(!matches!(windows.shape, Shape::Time { .. })))
}

/// The final results of the windows that have closed, each when its time has come: in the order of the windows' times, then of
/// their keys.
pub(crate) fn finals(records: &[Rec], updates: &[Rec], windows: Windows, step: StepId) -> Vec<Rec> {
    let (mut finals, mut first): (Vec<Rec>, Option<&Rec>) = (Vec::new(), None);
    let mut told: BTreeSet<RowKey> = BTreeSet::new();
    for (n, rec) in records.iter().enumerate() {
        let time = time_at(records, n);
        let mut rows: BTreeMap<RowKey, &Rec> = BTreeMap::new();
        // An update's way is that of the record that brought it about, and one step more.
        let is_made = |update: &&Rec| update.at[..update.at.len() - 2] <= rec.at[..];
        for update in updates.iter().filter(|update| update.part == rec.part).filter(is_made) {
            rows.insert(update.row(), update);
        }
        let due = |row: &&Rec| row.value.is_some() && row.window.is_some_and(|window| windows.is_closed(window, time));
        let mut due: Vec<&Rec> = rows.into_values().filter(due).filter(|row| !told.contains(&row.row())).collect();
        if !due.is_empty() {
            first.get_or_insert(rec);
        }
        if records.get(n + 1).is_some_and(|next| next.is_within_that_of(rec)) {
            continue;
        }
        let Some(first) = first.take() else { continue };
        told.extend(due.iter().map(|row| row.row()));
        due.sort_by_key(|row| (row.window.map(|(start, end)| (end, start)), row.key.clone()));
        let due = due.into_iter().cloned().enumerate();
        finals.extend(due.map(|(nth, row)| first.lets_through(row, step, nth)));
    }
    finals
}
