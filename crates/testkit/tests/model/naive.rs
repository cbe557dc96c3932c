//! The model: what each step of a plan gives, computed from the whole input by the definitions, with nothing of the library.
//!
//! A step gives the list of its records in the order in which they come (of a table: its updates). The record that comes
//! of an input is computed from all records before it and itself, anew each time: that is quadratic, and needs no state.

use std::collections::BTreeMap;

use crate::draw::END_OF_TIME;
use crate::known::{Known, World};
use crate::partition::partition;
use crate::plan::{Fold, Input, KeyFn, Op, Plan, RowFold, Shape, StepId, ValueFn, Window, Windows};
use crate::windows::{Windowed, finals, open, windowed};

/// A record of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rec {
    pub(crate) key: String,
    /// Of a row that is one window of its key.
    pub(crate) window: Option<Window>,
    /// None: the row is deleted.
    pub(crate) value: Option<i64>,
    pub(crate) time: i64,
    /// The partition that it is in, as far as that is known.
    pub(crate) part: i32,
    /// When it comes: the number of the input that it is made of, then, for each step on its way, that step and which of
    /// its results it is. An input is done before the next, a parent calls its children in the order of the plan, and a
    /// child is done before the next: so records come in the order of these lists.
    pub(crate) at: Vec<usize>,
}

impl Rec {
    /// What the row is called by.
    pub(crate) fn row(&self) -> RowKey {
        (self.key.clone(), self.window)
    }
}

pub(crate) type RowKey = (String, Option<Window>);

/// Value and time of the rows of a table.
pub(crate) type Rows = BTreeMap<RowKey, (i64, i64)>;

/// What a step gives.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) records: Vec<Rec>,
    pub(crate) known: Known,
    /// The repartition topics on the way, by the steps that made them.
    pub(crate) via: Vec<StepId>,
    /// The key may be another than the one that the partition was chosen by.
    pub(crate) rekeyed: bool,
    /// The records that came too late for the step's windows.
    pub(crate) late: Vec<Rec>,
    pub(crate) known_late: Known,
    /// The rows in the step's store, of a table of windows.
    pub(crate) windows: Option<WindowRows>,
}

/// The rows of a store that drops those of old windows.
#[derive(Clone, Debug)]
pub(crate) struct WindowRows {
    /// All that there have been, as they are in the end.
    pub(crate) rows: Rows,
    /// Those that must be there.
    pub(crate) open: Vec<RowKey>,
    pub(crate) known: Known,
}

impl Seen {
    /// Whether all rows that there have been are there in the end.
    fn all_rows_stay(&self) -> bool {
        let rows = self.rows();
        self.records.iter().all(|rec| rows.contains_key(&rec.row()))
    }

    /// The rows of a table after all records.
    pub(crate) fn rows(&self) -> Rows {
        rows(&self.records)
    }
}

fn rows(updates: &[Rec]) -> Rows {
    let mut rows = BTreeMap::new();
    for rec in updates {
        match rec.value {
            Some(value) => rows.insert(rec.row(), (value, rec.time)),
            None => rows.remove(&rec.row()),
        };
    }
    rows
}

/// What each step of a plan gives.
pub(crate) fn evaluate(plan: &Plan, inputs: &[Input], world: &World) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (step, op) in plan.steps.iter().enumerate() {
        let of = Of { step, plan, world, inputs };
        let next = of.op(op, &seen);
        seen.push(next);
    }
    seen
}

/// One step, while it is evaluated.
struct Of<'a> {
    step: StepId,
    plan: &'a Plan,
    world: &'a World,
    inputs: &'a [Input],
}

impl Of<'_> {
    fn op(&self, op: &Op, seen: &[Seen]) -> Seen {
        match op {
            Op::Stream => self.source(false, Known::Total),
            Op::Table { .. } => self.source(true, self.updates(Known::Total)),
            Op::Filter { of, pred } => {
                let keeps = |rec: &Rec| rec.value.is_some_and(|value| pred.holds(&rec.key, value));
                let known = seen[*of].known.of_some();
                self.each(&seen[*of], known, |rec| if keeps(rec) { vec![rec.clone()] } else { vec![] })
            }
            Op::MapValues { of, f } => self.each(&seen[*of], seen[*of].known, |rec| {
                vec![Rec { value: rec.value.map(|v| f.of(v)), ..rec.clone() }]
            }),
            Op::FlatMapValues { of, times } => {
                let copy = |rec: &Rec, n| Rec { value: rec.value.map(|value| value.wrapping_add(n)), ..rec.clone() };
                let known = seen[*of].known.of_some();
                self.each(&seen[*of], known, |rec| (0..*times).map(|n| copy(rec, n)).collect())
            }
            Op::SelectKey { of, key } => self.under(&seen[*of], *key),
            Op::Map { of, key, f } => {
                let mut mapped = self.under(&seen[*of], *key);
                mapped.records.iter_mut().for_each(|rec| rec.value = rec.value.map(|value| f.of(value)));
                mapped
            }
            Op::Merge { left, right } => self.merge(&seen[*left], &seen[*right]),
            // All of it: a branch takes what is its own.
            Op::Split { of, .. } => self.each(&seen[*of], seen[*of].known, |rec| vec![rec.clone()]),
            Op::Branch { of, nth } => self.branch(&seen[*of], *of, *nth),
            Op::Repartition { of } => self.repartition(&seen[*of]),
            Op::ToTable { of, .. } => {
                let of = self.together(&seen[*of], None);
                Seen { known: self.updates(of.known.latest()), ..of }
            }
            Op::Aggregate { of, by, fold, .. } => self.fold(&self.together(&seen[*of], *by), *fold),
            Op::FilterRows { of, pred, .. } => {
                let known = self.updates(seen[*of].known.of_rows());
                self.each(&seen[*of], known, |rec| {
                    vec![Rec { value: rec.value.filter(|value| pred.holds(&rec.key, *value)), ..rec.clone() }]
                })
            }
            Op::MapRows { of, f, .. } => {
                let known = self.updates(seen[*of].known.of_rows());
                self.each(&seen[*of], known, |rec| vec![Rec { value: rec.value.map(|v| f.of(v)), ..rec.clone() }])
            }
            Op::ToStream { of, key } => {
                let of = &seen[*of];
                // Of a row that is gone, nobody knows what it was before.
                let known = if of.all_rows_stay() { of.known.of_rows() } else { of.known.of_some() };
                let kept = self.each(of, known, |rec| rec.value.map(|_| rec.clone()).into_iter().collect());
                match key {
                    Some(key) => self.under(&kept, *key),
                    None => kept,
                }
            }
            Op::Regroup { of, by, f, fold, .. } => self.regroup(&seen[*of], *by, *f, *fold),
            Op::Window { of, by, windows, fold, on_close, .. } => {
                let of = self.together(&seen[*of], *by);
                match on_close {
                    None => self.windowed(of, *windows, *fold),
                    Some(every) => self.closed(&of, &self.windowed(of.clone(), *windows, *fold), *windows, *every),
                }
            }
            Op::Late { of } => {
                let of = &seen[*of];
                let late = Seen { records: of.late.clone(), known: of.known_late, ..of.clone() };
                self.each(&late, of.known_late, |rec| vec![rec.clone()])
            }
        }
    }

    /// The records of the step's own topic. One without a key is nobody's; one without a value is nothing to a stream, and
    /// deletes a row of a table.
    fn source(&self, table: bool, known: Known) -> Seen {
        let own = self.inputs.iter().enumerate().filter(|(_, input)| input.step == self.step);
        let records = own.filter_map(|(number, input)| {
            let (key, value) = (input.key.clone()?, input.value);
            let part = partition(Some(&key), self.world.partitions);
            (table || value.is_some()).then(|| Rec {
                key,
                window: None,
                value,
                time: input.time,
                part,
                at: vec![number],
            })
        });
        Seen {
            records: records.collect(),
            known,
            via: vec![],
            rekeyed: false,
            late: vec![],
            known_late: Known::Nothing,
            windows: None,
        }
    }

    /// Any number of records for each.
    fn each(&self, of: &Seen, known: Known, make: impl Fn(&Rec) -> Vec<Rec>) -> Seen {
        let mut records = Vec::new();
        for rec in &of.records {
            for (n, made) in make(rec).into_iter().enumerate() {
                records.push(Rec { at: [&rec.at[..], &[self.step, n]].concat(), ..made });
            }
        }
        Seen { records, known, late: vec![], windows: None, ..of.clone() }
    }

    /// The same records under another key.
    fn under(&self, of: &Seen, key: KeyFn) -> Seen {
        let known = of.known.rekeyed();
        let rename = |rec: &Rec| {
            let key = key.of(&rec.key, rec.window, rec.value.unwrap_or_default());
            Rec { key, window: None, ..rec.clone() }
        };
        Seen { rekeyed: true, ..self.each(of, known, |rec| vec![rename(rec)]) }
    }

    /// The records of both, in the order in which they come.
    fn merge(&self, left: &Seen, right: &Seen) -> Seen {
        let mut records: Vec<Rec> = left.records.iter().chain(&right.records).cloned().collect();
        records.iter_mut().for_each(|rec| rec.at.push(self.step));
        records.sort_by(|a, b| a.at.cmp(&b.at));
        let known = Known::merged(left.known, right.known, left.via == right.via);
        Seen {
            records,
            known,
            via: left.via.clone(),
            rekeyed: left.rekeyed || right.rekeyed,
            late: vec![],
            known_late: Known::Nothing,
            windows: None,
        }
    }

    /// The records that no earlier branch takes.
    fn branch(&self, of: &Seen, split: StepId, nth: usize) -> Seen {
        let Op::Split { preds, .. } = &self.plan.steps[split] else { panic!("no split") };
        let takes = |rec: &Rec| {
            let first = preds.iter().position(|pred| pred.holds(&rec.key, rec.value.unwrap_or_default()));
            first.unwrap_or(preds.len()) == nth
        };
        self.each(of, of.known.of_some(), |rec| if takes(rec) { vec![rec.clone()] } else { vec![] })
    }

    /// The same records behind a repartition topic.
    fn repartition(&self, of: &Seen) -> Seen {
        let known = of.known.repartitioned(self.world.partitions, of.rekeyed);
        let via = [&of.via[..], &[self.step]].concat();
        Seen { via, rekeyed: false, ..self.each(of, known, |rec| vec![rec.clone()]) }
    }

    /// The same records, those of one key in one partition; under another key if one is given.
    fn together(&self, of: &Seen, by: Option<KeyFn>) -> Seen {
        let of = by.map_or_else(|| of.clone(), |key| self.under(of, key));
        if of.rekeyed { self.repartition(&of) } else { self.each(&of, of.known, |rec| vec![rec.clone()]) }
    }

    /// A table of what each key's values amount to. A row has the time of the latest record in it.
    fn fold(&self, of: &Seen, fold: Fold) -> Seen {
        let known = self.updates(of.known.folded(fold));
        let update = |n: usize, rec: &Rec| {
            let so_far = || of.records[..=n].iter().filter(|other| other.key == rec.key);
            let values: Vec<i64> = so_far().filter_map(|rec| rec.value).collect();
            let time = so_far().map(|rec| rec.time).max().unwrap_or(rec.time);
            Rec { value: Some(all(fold, &values)), time, ..rec.clone() }
        };
        let records = of.records.iter().enumerate().map(|(n, rec)| update(n, rec)).collect();
        Seen { records, known, ..of.clone() }
    }

    /// A table of what the rows amount to that belong to each group. A change tells the group that the row was in, if it is
    /// another, then the one that it is in. A group has the time of the latest change that it was told of.
    fn regroup(&self, of: &Seen, by: KeyFn, f: ValueFn, fold: RowFold) -> Seen {
        let all_groups = by.is_of_key() && of.all_rows_stay();
        let known = self.updates(of.known.regrouped(self.world.partitions, all_groups));
        let (mut records, mut told) = (Vec::new(), Vec::<(String, i64)>::new());
        for (n, rec) in of.records.iter().enumerate() {
            let (before, now) = (rows(&of.records[..n]), rows(&of.records[..=n]));
            let group_of = |(key, window): &RowKey, value| by.of(key, *window, value);
            let group = |rows: &Rows| rows.get(&rec.row()).map(|(value, _)| group_of(&rec.row(), *value));
            let (old, new) = (group(&before), group(&now));
            for (nth, group) in old.filter(|old| Some(old) != new.as_ref()).into_iter().chain(new).enumerate() {
                let here = now.iter().filter(|(row, (value, _))| group_of(row, *value) == group);
                let values: Vec<i64> = here.map(|(_, (value, _))| f.of(*value)).collect();
                told.push((group.clone(), rec.time));
                let time = told.iter().filter(|(other, _)| *other == group).map(|(_, time)| *time).max();
                let at = [&rec.at[..], &[self.step, nth]].concat();
                let (value, time) = (Some(all_rows(fold, &values)), time.unwrap_or(rec.time));
                records.push(Rec { key: group, window: None, value, time, part: rec.part, at });
            }
        }
        Seen {
            records,
            known,
            via: [&of.via[..], &[self.step]].concat(),
            rekeyed: false,
            late: vec![],
            known_late: Known::Nothing,
            windows: None,
        }
    }

    /// A table of what each key's values amount to in each window.
    fn windowed(&self, of: Seen, windows: Windows, fold: Fold) -> Seen {
        // What is late depends on the order of all records of a task.
        let known = match of.known {
            Known::Total => Known::Total,
            _ if windows.grace < END_OF_TIME => Known::Nothing,
            other => other.folded(fold),
        };
        let Windowed { updates, late, certain } = windowed(&of.records, windows, fold, self.step);
        let certain = |known| if certain { known } else { Known::Nothing };
        let updates_known = match windows.shape {
            // A window that is made in two steps is told of twice.
            Shape::Sliding { .. } => known.min(Known::Last),
            _ => known,
        };
        let late_known = if of.known == Known::Total { Known::Total } else { known.min(Known::PerKey) };
        let (known, known_late) = (self.updates(certain(updates_known)), certain(late_known));
        let rows = WindowRows { rows: rows(&updates), open: open(&of.records, &updates, windows), known };
        Seen { records: updates, known, late, known_late, windows: Some(rows), ..of }
    }

    /// Of all windows those that have closed, each with its final result. `of`: what went into them, which says how time went.
    fn closed(&self, of: &Seen, all: &Seen, windows: Windows, every: u64) -> Seen {
        let known = match of.known {
            Known::Total if all.known == Known::Nothing => Known::Nothing,
            // When results come depends on the wall clock.
            Known::Total if every > 0 => Known::PerKey,
            Known::Total => Known::Total,
            _ if windows.grace < END_OF_TIME => Known::Nothing,
            // None has closed.
            _ => Known::Total,
        };
        let records = finals(&of.records, &all.records, windows, self.step);
        Seen { records, known, ..all.clone() }
    }

    /// What is known of the updates of the step's table.
    fn updates(&self, known: Known) -> Known {
        let cached = self.plan.steps[self.step].is_cached() && self.plan.has_store(self.step);
        if cached { self.world.cached(known) } else { known }
    }
}

/// What the rows of a group amount to.
fn all_rows(fold: RowFold, values: &[i64]) -> i64 {
    match fold {
        RowFold::Count => all(Fold::Count, values),
        RowFold::Sum | RowFold::SumFromZero => all(Fold::Sum, values),
    }
}

/// What values amount to.
pub(crate) fn all(fold: Fold, values: &[i64]) -> i64 {
    match fold {
        Fold::Count => values.len() as i64,
        Fold::Sum => values.iter().fold(0, |sum, value| sum.wrapping_add(*value)),
        Fold::Max => values.iter().copied().max().unwrap_or_default(),
        Fold::Last => values.last().copied().unwrap_or_default(),
        Fold::Digest => values.iter().fold(7, |digest: i64, value| digest.wrapping_mul(31).wrapping_add(*value)),
    }
}
