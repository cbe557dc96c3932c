//! A run's outcome beside the model's, as far as the model knows it.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::known::{Known, World};
use crate::naive::Seen;
use crate::plan::{Plan, Shape, StepId};
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
    for (step, rows) in &outcome.stores {
        let seen = &seen[*step];
        *compared.stores.entry(seen.known).or_default() += 1;
        let right = seen.rows();
        let got = rows.iter().map(|(key, row)| (key.as_str(), *row)).collect();
        match seen.known {
            Known::Nothing => {}
            Known::Loose => {
                same(*step, "rows that amount to something", &values(something(right)), &values(something(got)))?
            }
            Known::Values => same(*step, "values of rows", &values(right), &values(got))?,
            _ => same(*step, "store", &right, &got)?,
        }
    }
    Ok(compared)
}

/// Compares the records of a step's topic; how much was known of them.
fn shown(step: StepId, plan: &Plan, seen: &Seen, records: &[Out], world: &World) -> Result<Known, String> {
    let right: Vec<Out> =
        seen.records.iter().map(|r| Out { key: r.key.clone(), value: r.value, time: r.time }).collect();
    let (right, records) = match plan.steps[step].shape() {
        Shape::Table => (without_idle_deletes(&right), without_idle_deletes(records)),
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

/// Value and time of rows, by key.
type Rows<'a> = BTreeMap<&'a str, (i64, i64)>;

/// The last record of each key; a row that is gone is as one that never was.
fn last_rows(records: &[Out]) -> Rows<'_> {
    let last: BTreeMap<&str, &Out> = records.iter().map(|out| (out.key.as_str(), out)).collect();
    last.into_iter().filter_map(|(key, out)| Some((key, (out.value?, out.time)))).collect()
}

fn something(rows: Rows<'_>) -> Rows<'_> {
    rows.into_iter().filter(|(_, (value, _))| *value != 0).collect()
}

fn values(rows: Rows<'_>) -> BTreeMap<&str, i64> {
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
