//! From a plan to a topology, as a user would write it.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_topology::{
    BufferConfig, BuildError, Builder, CogroupedStream, Consumed, Deletes, EmitStrategy, Grouped, GroupedStream, I64,
    Materialized, Nullable, Optimization, Produced, Repartitioned, SessionWindows, SlidingWindows, Stream, Suppressed,
    Table, TableKind, TimeWindows, Topology, Upserts, Utf8, Windowed, WindowedStream,
};

use crate::draw::END_OF_TIME;
use crate::plan::{
    Fold, KeyFn, Op, Plan, Pred, RowFold, Shape, StepId, ValueFn, Window, Windows, input_topic, output_topic, row_key,
    store_name,
};

/// What a step has become.
enum Node {
    Stream(Stream<String, i64>),
    Branches(Vec<Option<Stream<String, i64>>>),
    /// A table whose rows are only set.
    Upserts(Table<String, i64, Upserts>),
    /// A table whose rows can go.
    Deletes(Table<String, i64, Deletes>),
    WindowUpserts(Table<Windowed<String>, i64, Upserts>),
    WindowDeletes(Table<Windowed<String>, i64, Deletes>),
}

/// Does the same with a table of whatever kind.
macro_rules! of_table {
    ($node:expr, $table:ident => $body:expr) => {
        match $node {
            Node::Upserts($table) => $body,
            Node::Deletes($table) => $body,
            Node::WindowUpserts($table) => $body,
            Node::WindowDeletes($table) => $body,
            Node::Stream(_) | Node::Branches(_) => panic!("no table"),
        }
    };
}

/// A key of a table.
trait RowKey: Clone + 'static {
    fn parts(&self) -> (&str, Option<Window>);
}

impl RowKey for String {
    fn parts(&self) -> (&str, Option<Window>) {
        (self, None)
    }
}

impl RowKey for Windowed<String> {
    fn parts(&self) -> (&str, Option<Window>) {
        (&self.key, Some((self.start, self.end)))
    }
}

/// What a table is as a stream.
trait Update: Clone + 'static {
    fn value(self) -> Option<i64>;
}

impl Update for i64 {
    fn value(self) -> Option<i64> {
        Some(self)
    }
}

impl Update for Option<i64> {
    fn value(self) -> Self {
        self
    }
}

/// The topology of a plan.
pub(crate) fn topology(plan: &Plan, optimized: bool) -> Result<Topology, BuildError> {
    let mut builder = Topology::builder();
    if optimized {
        builder.optimize(Optimization::ALL);
    }
    let mut build = Build { builder: &mut builder, plan, nodes: Vec::new(), late: BTreeMap::new() };
    for (step, op) in plan.steps.iter().enumerate() {
        let node = build.op(step, op);
        build.nodes.push(node);
    }
    for step in &plan.shown {
        build.show(*step);
    }
    drop(build);
    builder.build()
}

struct Build<'a> {
    builder: &'a mut Builder,
    plan: &'a Plan,
    nodes: Vec<Node>,
    /// The records that are late for the windows of a step.
    late: BTreeMap<StepId, Stream<String, i64>>,
}

impl Build<'_> {
    fn repartition(&self, step: StepId, of: StepId) -> Stream<String, i64> {
        self.stream(of).repartition(Repartitioned::named(format!("r{step}")).key(Utf8).value(I64))
    }

    fn op(&mut self, step: StepId, op: &Op) -> Node {
        match *op {
            Op::Stream => Node::Stream(self.builder.stream(&input_topic(step), Consumed::with(Utf8, I64))),
            Op::Table { .. } => Node::Deletes(self.table(step)),
            Op::Filter { of, pred } => Node::Stream(self.stream(of).filter(move |k, v| pred.holds(k, *v))),
            Op::MapValues { of, f } => Node::Stream(self.stream(of).map_values(move |v| f.of(v))),
            Op::FlatMapValues { of, times } => {
                Node::Stream(self.stream(of).flat_map_values(move |v: i64| (0..times).map(move |n| v.wrapping_add(n))))
            }
            Op::SelectKey { of, key } => Node::Stream(self.stream(of).select_key(move |k, v| key.of(k, None, *v))),
            Op::Map { of, key, f } => Node::Stream(self.stream(of).map(move |k, v| (key.of(&k, None, v), f.of(v)))),
            Op::Merge { left, right } => Node::Stream(self.stream(left).merge(self.stream(right))),
            Op::Split { of, ref preds } => self.split(of, preds),
            Op::Branch { of, nth } => match &mut self.nodes[of] {
                Node::Branches(branches) => Node::Stream(branches[nth].take().expect("a branch is taken once")),
                _ => panic!("step {of} is no split"),
            },
            Op::Repartition { of } => Node::Stream(self.repartition(step, of)),
            Op::Dedup { of, modulus, within } => {
                let seen = Materialized::named(store_name(step)).key(I64).retention(ms(4 * END_OF_TIME));
                let id = move |_: &String, v: &i64| v.rem_euclid(modulus);
                Node::Stream(self.repartition(step, of).dedup_by(id, ms(within), seen))
            }
            Op::ToTable { of, .. } => Node::Upserts(self.stream(of).to_table(self.materialized(step))),
            Op::Aggregate { of, by, fold, .. } => {
                let (grouped, kept) = (self.grouped(of, by), self.materialized(step));
                Node::Upserts(match fold {
                    Fold::Count => grouped.count(kept),
                    Fold::Digest => grouped.aggregate(move || fold.initial(), move |d, _, v| fold.step(d, *v), kept),
                    _ => grouped.reduce(move |so_far, v| fold.step(so_far, v), kept),
                })
            }
            Op::FilterRows { of, pred, .. } => self.filter_rows(step, of, pred),
            Op::MapRows { of, f, .. } => self.map_rows(step, of, f),
            Op::ToStream { of, key: None } => Node::Stream(match &self.nodes[of] {
                Node::Upserts(table) => table.clone().to_stream(),
                Node::Deletes(table) => table.clone().to_stream().flat_map_values(|v: Option<i64>| v),
                _ => panic!("step {of} is no table with keys alone"),
            }),
            Op::ToStream { of, key: Some(key) } => {
                Node::Stream(of_table!(&self.nodes[of], table => rekeyed(table.clone(), key)))
            }
            Op::Regroup { of, by, f, fold, .. } => Node::Upserts(self.regroup(step, of, (by, f), fold)),
            Op::Window { of, by, windows, fold, on_close, .. } => self.window(step, (of, by), windows, fold, on_close),
            Op::Late { of } => Node::Stream(self.late[&of].clone()),
            Op::Cogroup { ref inputs, windows, fold, .. } => self.cogroup(step, inputs, windows, fold),
            Op::Suppress { of, limit: Some(limit) } => {
                let until =
                    Suppressed::until_time_limit(ms(limit), BufferConfig::unbounded()).named(format!("x{step}"));
                match &self.nodes[of] {
                    Node::Upserts(table) => Node::Upserts(table.clone().suppress(until)),
                    Node::Deletes(table) => Node::Deletes(table.clone().suppress(until)),
                    Node::WindowUpserts(table) => Node::WindowUpserts(table.clone().suppress(until)),
                    Node::WindowDeletes(table) => Node::WindowDeletes(table.clone().suppress(until)),
                    _ => panic!("step {of} is no table"),
                }
            }
            Op::Suppress { of, limit: None } => {
                let until = Suppressed::until_window_closes(BufferConfig::unbounded()).named(format!("x{step}"));
                Node::WindowUpserts(match &self.nodes[of] {
                    Node::WindowUpserts(table) => table.clone().suppress(until),
                    Node::WindowDeletes(table) => table.clone().suppress(until),
                    _ => panic!("step {of} has no windows"),
                })
            }
        }
    }

    fn stream(&self, of: StepId) -> Stream<String, i64> {
        match &self.nodes[of] {
            Node::Stream(stream) => stream.clone(),
            _ => panic!("step {of} is no stream"),
        }
    }

    fn table(&mut self, step: StepId) -> Table<String, i64, Deletes> {
        let materialized = self.materialized(step);
        self.builder.table_materialized(&input_topic(step), Consumed::with(Utf8, I64), materialized)
    }

    fn split(&self, of: StepId, preds: &[Pred]) -> Node {
        let mut split = self.stream(of).split();
        let branch = |&pred: &Pred| Some(split.branch(move |k, v| pred.holds(k, *v)));
        let mut branches: Vec<_> = preds.iter().map(branch).collect();
        branches.push(Some(split.rest()));
        Node::Branches(branches)
    }

    fn grouped(&self, of: StepId, by: Option<KeyFn>) -> GroupedStream<String, i64> {
        group(self.stream(of), by, Grouped::with(Utf8, I64))
    }

    fn cogroup(
        &self,
        step: StepId,
        inputs: &[(StepId, Option<KeyFn>, ValueFn)],
        windows: Option<Windows>,
        fold: Fold,
    ) -> Node {
        let add = |f: ValueFn| move |so_far: i64, _: &String, v: &i64| fold.step(so_far, f.of(*v));
        let mut cogrouped: Option<CogroupedStream<String, i64>> = None;
        for (n, (of, by, f)) in inputs.iter().enumerate() {
            let named = Grouped::named(format!("g{step}-{n}")).key(Utf8).value(I64);
            let grouped = group(self.stream(*of), *by, named);
            cogrouped = Some(match cogrouped {
                None => grouped.cogroup(add(*f)),
                Some(before) => before.cogroup(grouped, add(*f)),
            });
        }
        let (cogrouped, kept) = (cogrouped.expect("there are inputs"), self.materialized(step));
        let begin = move || fold.initial();
        match windows {
            None => Node::Upserts(cogrouped.aggregate(begin, kept)),
            Some(Windows { shape: Shape::Time { size, advance }, grace }) => {
                let windows = TimeWindows::of_size_and_grace(ms(size), ms(grace)).advance_by(ms(advance));
                Node::WindowUpserts(cogrouped.windowed_by(windows).aggregate(begin, kept))
            }
            Some(Windows { shape: Shape::Sliding { difference }, grace }) => {
                let windows = SlidingWindows::of_time_difference_and_grace(ms(difference), ms(grace));
                Node::WindowUpserts(cogrouped.windowed_by(windows).aggregate(begin, kept))
            }
            Some(Windows { shape: Shape::Session { gap }, grace }) => {
                let windows = SessionWindows::of_inactivity_gap_and_grace(ms(gap), ms(grace));
                let merge = |_: &String, left: i64, right: i64| left.wrapping_add(right);
                Node::WindowDeletes(cogrouped.windowed_by(windows).aggregate(begin, merge, kept))
            }
        }
    }

    fn filter_rows(&self, step: StepId, of: StepId, pred: Pred) -> Node {
        fn filter<K: RowKey, D: TableKind>(
            table: &Table<K, i64, D>,
            pred: Pred,
            kept: Materialized<K, i64>,
        ) -> Table<K, i64, Deletes> {
            table.clone().filter_materialized(move |k, v| pred.holds(k.parts().0, *v), kept)
        }
        match &self.nodes[of] {
            Node::Upserts(table) => Node::Deletes(filter(table, pred, self.materialized(step))),
            Node::Deletes(table) => Node::Deletes(filter(table, pred, self.materialized(step))),
            Node::WindowUpserts(table) => Node::WindowDeletes(filter(table, pred, Materialized::default())),
            Node::WindowDeletes(table) => Node::WindowDeletes(filter(table, pred, Materialized::default())),
            _ => panic!("step {of} is no table"),
        }
    }

    fn map_rows(&self, step: StepId, of: StepId, f: ValueFn) -> Node {
        let (map, kept) = (move |v| f.of(v), self.materialized(step));
        match &self.nodes[of] {
            Node::Upserts(table) => Node::Upserts(table.clone().map_values_materialized(map, kept)),
            Node::Deletes(table) => Node::Deletes(table.clone().map_values_materialized(map, kept)),
            Node::WindowUpserts(table) => {
                Node::WindowUpserts(table.clone().map_values_materialized(map, Materialized::default().value(I64)))
            }
            Node::WindowDeletes(table) => {
                Node::WindowDeletes(table.clone().map_values_materialized(map, Materialized::default().value(I64)))
            }
            _ => panic!("step {of} is no table"),
        }
    }

    fn regroup(
        &self,
        step: StepId,
        of: StepId,
        (by, f): (KeyFn, ValueFn),
        fold: RowFold,
    ) -> Table<String, i64, Upserts> {
        let grouped = of_table!(&self.nodes[of], table => {
            let group = move |key: &_, v: i64| {
                let (key, window) = RowKey::parts(key);
                (by.of(key, window, v), f.of(v))
            };
            table.clone().group_by(group, Grouped::with(Utf8, I64))
        });
        let kept = self.materialized(step);
        match fold {
            RowFold::Count => grouped.count(kept),
            RowFold::Sum => grouped.reduce(i64::wrapping_add, i64::wrapping_sub, kept),
            RowFold::SumFromZero => {
                grouped.aggregate(|| 0, |sum, _, v| sum.wrapping_add(*v), |sum, _, v| sum.wrapping_sub(*v), kept)
            }
        }
    }

    fn window(
        &mut self,
        step: StepId,
        (of, by): (StepId, Option<KeyFn>),
        Windows { shape, grace }: Windows,
        fold: Fold,
        on_close: Option<u64>,
    ) -> Node {
        let emit = on_close.map_or(EmitStrategy::on_window_update(), |every| {
            EmitStrategy::on_window_close().at_most_every(Duration::from_millis(every))
        });
        let (grouped, grace) = (self.grouped(of, by), ms(grace));
        let wants_late = self.plan.steps.contains(&Op::Late { of: step });
        match shape {
            Shape::Session { gap } => {
                let windows = SessionWindows::of_inactivity_gap_and_grace(ms(gap), grace);
                let mut windowed = grouped.windowed_by(windows).emit_strategy(emit);
                if wants_late {
                    let (rest, late) = windowed.split_late();
                    windowed = rest;
                    self.late.insert(step, late);
                }
                let kept = self.materialized(step);
                Node::WindowDeletes(match fold {
                    Fold::Count => windowed.count(kept),
                    _ => windowed.reduce(move |so_far, v| fold.step(so_far, v), kept),
                })
            }
            Shape::Time { size, advance } => {
                let windows = TimeWindows::of_size_and_grace(ms(size), grace).advance_by(ms(advance));
                self.time_windows(step, grouped.windowed_by(windows).emit_strategy(emit), wants_late, fold)
            }
            Shape::Sliding { difference } => {
                let windows = SlidingWindows::of_time_difference_and_grace(ms(difference), grace);
                self.time_windows(step, grouped.windowed_by(windows).emit_strategy(emit), wants_late, fold)
            }
        }
    }

    fn time_windows(
        &mut self,
        step: StepId,
        mut windowed: WindowedStream<String, i64>,
        wants_late: bool,
        fold: Fold,
    ) -> Node {
        if wants_late {
            let (rest, late) = windowed.split_late();
            windowed = rest;
            self.late.insert(step, late);
        }
        let kept = self.materialized(step);
        Node::WindowUpserts(match fold {
            Fold::Count => windowed.count(kept),
            Fold::Digest => windowed.aggregate(move || fold.initial(), move |d, _, v| fold.step(d, *v), kept),
            _ => windowed.reduce(move |so_far, v| fold.step(so_far, v), kept),
        })
    }

    /// How a step's rows are kept.
    fn materialized(&self, step: StepId) -> Materialized<String, i64> {
        let op = &self.plan.steps[step];
        let mut materialized =
            if op.is_kept() { Materialized::named(store_name(step)) } else { Materialized::default() };
        materialized = materialized.serdes(Utf8, I64);
        if !op.is_cached() {
            materialized = materialized.caching_disabled();
        }
        if let Op::Window { windows, kept_longer: true, .. } = op {
            materialized = materialized.retention(Duration::from_millis(windows.needed().unsigned_abs() + 40));
        }
        materialized
    }

    /// Sends the records of a step to its topic.
    fn show(&self, step: StepId) {
        let topic = output_topic(step);
        match &self.nodes[step] {
            Node::Stream(stream) => stream.clone().to(&topic, Produced::with(Utf8, I64)),
            node => of_table!(node, table => shown(table.clone()).to(&topic, Produced::with(Utf8, Nullable(I64)))),
        }
    }
}

fn ms(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

fn group(stream: Stream<String, i64>, by: Option<KeyFn>, grouped: Grouped<String, i64>) -> GroupedStream<String, i64> {
    match by {
        Some(key) => stream.group_by(move |k, v| key.of(k, None, *v), grouped),
        None => stream.group_by_key_with(grouped),
    }
}

/// The updates of a table under other keys, deletes left out.
fn rekeyed<K: RowKey, D: TableKind<Streamed<i64>: Update>>(table: Table<K, i64, D>, key: KeyFn) -> Stream<String, i64> {
    table.to_stream().flat_map(move |row, update: D::Streamed<i64>| {
        let (of, window) = row.parts();
        update.value().map(|v| (key.of(of, window, v), v))
    })
}

/// The updates of a table, by what rows are called.
fn shown<K: RowKey, D: TableKind<Streamed<i64>: Update>>(table: Table<K, i64, D>) -> Stream<String, Option<i64>> {
    table.to_stream().map(|row, update: D::Streamed<i64>| {
        let (key, window) = row.parts();
        (row_key(key, window), update.value())
    })
}
