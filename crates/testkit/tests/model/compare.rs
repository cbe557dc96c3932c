//! A run's outcome beside the model's, as far as the model knows it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::known::{Known, World};
use crate::naive::{Rows, Seen, WindowRows};
use crate::plan::{Kind, Plan, StepId, kinds, row_key};
use crate::run::{Out, Outcome};

/// How often something was compared, by how much was known of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compared {
    pub(crate) shown: BTreeMap<Known, u64>,
    pub(crate) stores: BTreeMap<Known, u64>,
}

impl Compared {
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.shown, &other.shown), (&mut self.stores, &other.stores)] {
            for (known, n) in theirs {
                *mine.entry(*known).or_default() += n;
            }
        }
    }
}

/// Compares all that is known. An error is the first difference.
pub(crate) fn compare(plan: &Plan, seen: &[Seen], outcome: &Outcome, world: &World) -> Result<Compared, String> {
    let mut compared = Compared::default();
    for (step, records) in &outcome.shown {
        let known = shown(*step, plan, &seen[*step], records, world)?;
        *compared.shown.entry(known).or_default() += 1;
    }
    for (step, got) in &outcome.stores {
        let (seen, got) = (&seen[*step], as_rows(got));
        let known = seen.windows.as_ref().map_or(seen.known, |windows| windows.known);
        *compared.stores.entry(known).or_default() += 1;
        let right = match &seen.windows {
            Some(windows) => those_to_be_there(windows, &got),
            None => shown_rows(&seen.rows()),
        };
        match known {
            Known::Nothing => {}
            Known::Loose => same(
                *step,
                "rows that amount to something",
                &values(something(as_rows(&right))),
                &values(something(got)),
            )?,
            Known::Values => same(*step, "values of rows", &values(as_rows(&right)), &values(got))?,
            _ => same(*step, "store", &as_rows(&right), &got)?,
        }
    }
    Ok(compared)
}

/// Rows by what they are called.
fn shown_rows(rows: &Rows) -> BTreeMap<String, (i64, i64)> {
    rows.iter().map(|((key, window), row)| (row_key(key, *window), *row)).collect()
}

fn as_rows(rows: &BTreeMap<String, (i64, i64)>) -> BTreeMap<&str, (i64, i64)> {
    rows.iter().map(|(key, row)| (key.as_str(), *row)).collect()
}

/// All rows of open windows; those of closed ones that are there still, for as long as the store likes.
fn those_to_be_there(windows: &WindowRows, got: &BTreeMap<&str, (i64, i64)>) -> BTreeMap<String, (i64, i64)> {
    let mut right = windows.rows.clone();
    right.retain(|row, _| windows.open.contains(row) || got.contains_key(row_key(&row.0, row.1).as_str()));
    shown_rows(&right)
}

/// Compares the records of a step's topic; how much was known of them.
fn shown(step: StepId, plan: &Plan, seen: &Seen, records: &[Out], world: &World) -> Result<Known, String> {
    let right: Vec<Out> =
        seen.records.iter().map(|r| Out { key: row_key(&r.key, r.window), value: r.value, time: r.time }).collect();
    let (right, records) = match kinds(&plan.steps)[step] {
        Kind::Table | Kind::Windows => (without_idle_deletes(&right), without_idle_deletes(records)),
        _ => (right, records.to_vec()),
    };
    // An output topic has no order between its partitions, and none between the tasks that write to one.
    let known = match seen.known {
        Known::Total if world.partitions == 1 => Known::Total,
        Known::Total if seen.rekeyed => Known::Bag,
        known => known.min(Known::PerKey),
    };
    match known {
        Known::Nothing => {}
        Known::Loose => {
            let (right, got) = (something(last_rows(&right)), something(last_rows(&records)));
            same(step, "last values that amount to something", &values(right), &values(got))?;
        }
        Known::Values => {
            same(step, "last value of each key", &values(last_rows(&right)), &values(last_rows(&records)))?
        }
        Known::Last => same(step, "last record of each key", &last_rows(&right), &last_rows(&records))?,
        Known::Bag => same(step, "records, sorted", &sorted(&right), &sorted(&records))?,
        Known::PerKey => same(step, "records of each key", &per_key(&right), &per_key(&records))?,
        Known::Total => same(step, "records", &right, &records)?,
    }
    Ok(known)
}

/// Leaves out deletes of rows that are not there: a filter that does not know what a row was before tells of them.
fn without_idle_deletes(updates: &[Out]) -> Vec<Out> {
    let mut there = BTreeMap::new();
    let says_something = |out: &&Out| {
        let was_there = there.insert(out.key.clone(), out.value.is_some()).unwrap_or(false);
        was_there || out.value.is_some()
    };
    updates.iter().filter(says_something).cloned().collect()
}

/// Value and time of rows, by what they are called.
type Last<'a> = BTreeMap<&'a str, (i64, i64)>;

/// The last record of each key; a row that is gone is as one that never was.
fn last_rows(records: &[Out]) -> Last<'_> {
    let last: BTreeMap<&str, &Out> = records.iter().map(|out| (out.key.as_str(), out)).collect();
    last.into_iter().filter_map(|(key, out)| Some((key, (out.value?, out.time)))).collect()
}

fn something(rows: Last<'_>) -> Last<'_> {
    rows.into_iter().filter(|(_, (value, _))| *value != 0).collect()
}

fn values(rows: Last<'_>) -> BTreeMap<&str, i64> {
    rows.into_iter().map(|(key, (value, _))| (key, value)).collect()
}

fn sorted(records: &[Out]) -> Vec<&Out> {
    let mut sorted: Vec<&Out> = records.iter().collect();
    sorted.sort();
    sorted
}

fn per_key(records: &[Out]) -> BTreeMap<&str, Vec<&Out>> {
    let mut keys: BTreeMap<&str, Vec<&Out>> = BTreeMap::new();
    for out in records {
        keys.entry(out.key.as_str()).or_default().push(out);
    }
    keys
}

fn same<T: PartialEq + Debug>(step: StepId, what: &str, right: &T, got: &T) -> Result<(), String> {
    if right == got {
        return Ok(());
    }
    Err(format!("step {step}, {what}:\n    right: {right:?}\n      got: {got:?}"))
}
