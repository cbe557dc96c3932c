//! The model: what each step of a plan gives, computed from the whole input by the definitions, with nothing of the library.
//!
//! A step gives the list of its records in the order in which they come (of a table: its updates). The record that comes
//! of an input is computed from all records before it and itself, anew each time: that is quadratic, and needs no state.

use std::collections::BTreeMap;

use crate::draw::END_OF_TIME;
use crate::known::{Known, World};
use crate::partition::partition;
use crate::plan::{Fold, Input, KeyFn, Op, Plan, Pred, RowFold, Shape, StepId, ValueFn, Window, Windows, closing};
use crate::windows::{Windowed, finals, open, seen, windowed};

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
    /// child is done before the next: so records come in the order of these lists. What has waited comes behind all else.
    pub(crate) at: Vec<usize>,
    /// So much of that list says what the task was at when this came: an input, a record of a repartition topic, or a row that
    /// was let through.
    pub(crate) border: usize,
}

impl Rec {
    /// What is made of it in another task.
    fn in_another_task(self) -> Self {
        Self { border: self.at.len(), ..self }
    }

    /// Whether the task is at the same thing.
    pub(crate) fn is_within_that_of(&self, other: &Self) -> bool {
        self.part == other.part && self.at[..self.border] == other.at[..other.border]
    }

    /// A row that a step lets through when what the task is at is done. It was this record that made the step's first row due.
    pub(crate) fn lets_through(&self, row: Self, step: StepId, nth: usize) -> Self {
        let (whole, rest) = self.at.split_at(self.border);
        let at = [whole, &[usize::MAX], rest, &[step, nth]].concat();
        Self { border: at.len(), at, ..row }
    }

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
    /// The repartition topics on the way, by the steps that made them, and the number of the steps' input.
    pub(crate) via: Vec<(StepId, usize)>,
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
            Op::Repartition { of } => self.repartition(&seen[*of], 0),
            Op::Dedup { of, modulus, within } => self.dedup(&self.repartition(&seen[*of], 0), *modulus, *within),
            Op::ToTable { of, .. } => {
                let of = self.together(&seen[*of], None, 0);
                Seen { known: self.updates(of.known.latest()), ..of }
            }
            Op::Aggregate { of, by, fold, .. } => self.fold(&self.together(&seen[*of], *by, 0), *fold),
            Op::FilterRows { of, pred, .. } => self.filter_rows(&seen[*of], *pred, self.plan.knows_old(*of)),
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
                let of = self.together(&seen[*of], *by, 0);
                let all = self.windowed(of.clone(), *windows, *fold);
                match on_close {
                    None => all,
                    Some(every) => self.closed(&of, &all, *windows, *every),
                }
            }
            Op::Cogroup { inputs, windows, fold, .. } => {
                let inputs = inputs.iter().enumerate().map(|(n, (of, by, f))| {
                    let mut input = self.together(&seen[*of], *by, n);
                    for rec in &mut input.records {
                        rec.value = rec.value.map(|value| f.of(value));
                        rec.at.push(n);
                    }
                    input
                });
                let all = inputs.reduce(|left, right| self.merge(&left, &right)).expect("there are inputs");
                match windows {
                    None => self.fold(&all, *fold),
                    Some(windows) => self.windowed(all, *windows, *fold),
                }
            }
            Op::Suppress { of, limit: Some(limit) } => self.held_back(&seen[*of], *limit),
            Op::Suppress { of, limit: None } => {
                let windows = closing(&self.plan.steps, *of).expect("a table of windows");
                self.held_until_closed(&seen[*of], windows)
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
                border: 1,
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
    fn repartition(&self, of: &Seen, nth: usize) -> Seen {
        let known = of.known.repartitioned(self.world.partitions, of.rekeyed);
        let via = [&of.via[..], &[(self.step, nth)]].concat();
        let mut moved = self.each(of, known, |rec| vec![rec.clone()]);
        moved.records = moved.records.into_iter().map(Rec::in_another_task).collect();
        Seen { via, rekeyed: false, ..moved }
    }

    /// The records that come first: no other of the same key and the same id was let through that is so near in time.
    fn dedup(&self, of: &Seen, modulus: i64, within: i64) -> Seen {
        let known = if of.known >= Known::PerKey { of.known } else { Known::Nothing };
        let id = |rec: &Rec| (rec.key.clone(), rec.value.map(|value| value.rem_euclid(modulus)));
        let mut first: Vec<Rec> = Vec::new();
        for rec in &of.records {
            if !first.iter().any(|other| id(other) == id(rec) && (other.time - rec.time).abs() <= within) {
                first.push(rec.clone());
            }
        }
        let first = Seen { records: first, ..of.clone() };
        self.each(&first, known, |rec| vec![rec.clone()])
    }

    /// The same records, those of one key in one partition; under another key if one is given.
    fn together(&self, of: &Seen, by: Option<KeyFn>, nth: usize) -> Seen {
        let of = by.map_or_else(|| of.clone(), |key| self.under(of, key));
        if of.rekeyed { self.repartition(&of, nth) } else { self.each(&of, of.known, |rec| vec![rec.clone()]) }
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

    /// The rows that the predicate holds for; the others are deleted. If it is known what rows were before, nothing is said of
    /// those that were not there before either.
    fn filter_rows(&self, of: &Seen, pred: Pred, knows_old: bool) -> Seen {
        let known = self.updates(of.known.of_rows());
        let holds = |rec: &Rec| rec.value.filter(|value| pred.holds(&rec.key, *value));
        let mut filtered = self.each(of, known, |rec| vec![Rec { value: holds(rec), ..rec.clone() }]);
        if knows_old {
            let all = filtered.records.clone();
            let says_something = |n: usize| all[n].value.is_some() || rows(&all[..n]).contains_key(&all[n].row());
            filtered.records = (0..all.len()).filter(|n| says_something(*n)).map(|n| all[n].clone()).collect();
        }
        filtered
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
                let border = at.len();
                records.push(Rec { key: group, window: None, value, time, part: rec.part, at, border });
            }
        }
        Seen {
            records,
            known,
            via: [&of.via[..], &[(self.step, 0)]].concat(),
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
        let rows = WindowRows { rows: rows(&updates), open: seen(&of.records, &updates, windows), known };
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

    /// Of the windows of a table those that have closed, each with its final result. Time is what the updates bring, and comes to
    /// the same as that of the records behind them.
    fn held_until_closed(&self, of: &Seen, windows: Windows) -> Seen {
        // The last updates come even through a cache; only when is not known.
        let known = if of.known <= Known::Values { Known::Nothing } else { Known::PerKey };
        let (rows, open) = (of.rows(), open(&of.records, &of.records, windows, 0));
        let is_final = |(n, rec): &(usize, &Rec)| {
            let is_last = !of.records[n + 1..].iter().any(|later| later.row() == rec.row());
            is_last && rows.contains_key(&rec.row()) && !open.contains(&rec.row())
        };
        let finals = of.records.iter().enumerate().filter(is_final).map(|(_, rec)| rec.clone()).collect();
        let finals = Seen { records: finals, ..of.clone() };
        self.each(&finals, known, |rec| vec![rec.clone()])
    }

    /// A row's updates wait until so much time has passed since the first of those that have not come out. Then the last comes.
    fn held_back(&self, of: &Seen, limit: i64) -> Seen {
        let known = if of.known == Known::Total { Known::Total } else { Known::Nothing };
        let (mut records, mut waiting, mut first) = (Vec::new(), Vec::<(i64, Rec)>::new(), None);
        for (n, rec) in of.records.iter().enumerate() {
            let same_task = |other: &Rec| other.part == rec.part;
            let time = of.records[..=n].iter().filter(|other| same_task(other)).map(|other| other.time).max();
            match waiting.iter_mut().find(|(_, other)| same_task(other) && other.row() == rec.row()) {
                Some((_, waits)) => *waits = rec.clone(),
                None => waiting.push((rec.time, rec.clone())),
            }
            let is_due = |since: i64, other: &Rec| same_task(other) && time.is_some_and(|time| since + limit <= time);
            if waiting.iter().any(|(since, other)| is_due(*since, other)) {
                first.get_or_insert(rec);
            }
            if of.records.get(n + 1).is_some_and(|next| next.is_within_that_of(rec)) {
                continue;
            }
            let Some(first) = first.take() else { continue };
            let mut due: Vec<(i64, Rec)> =
                waiting.iter().filter(|(since, other)| is_due(*since, other)).cloned().collect();
            waiting.retain(|(since, other)| !is_due(*since, other));
            due.sort_by_key(|(since, rec)| (*since, rec.row()));
            records.extend(due.into_iter().enumerate().map(|(nth, (_, row))| first.lets_through(row, self.step, nth)));
        }
        Seen { records, known, late: vec![], windows: None, ..of.clone() }
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
