//! From a plan to a topology, as a user would write it.

use millpond_topology::{
    BuildError, Builder, Consumed, Deletes, Grouped, I64, Materialized, Nullable, Produced, Repartitioned, Stream,
    Table, TableKind, Topology, Upserts, Utf8,
};

use crate::plan::{Fold, KeyFn, Op, Plan, RowFold, StepId, input_topic, output_topic, store_name};

/// What a step has become.
enum Node {
    Stream(Stream<String, i64>),
    Branches(Vec<Option<Stream<String, i64>>>),
    /// A table whose rows are only set.
    Upserts(Table<String, i64, Upserts>),
    /// A table whose rows can go.
    Deletes(Table<String, i64, Deletes>),
}

/// The topology of a plan.
pub(crate) fn topology(plan: &Plan) -> Result<Topology, BuildError> {
    let mut builder = Topology::builder();
    let mut build = Build { builder: &mut builder, plan, nodes: Vec::new() };
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
}

impl Build<'_> {
    fn op(&mut self, step: StepId, op: &Op) -> Node {
        match *op {
            Op::Stream => Node::Stream(self.builder.stream(&input_topic(step), Consumed::with(Utf8, I64))),
            Op::Table { .. } => Node::Deletes(self.table(step)),
            Op::Filter { of, pred } => Node::Stream(self.stream(of).filter(move |k, v| pred.holds(k, *v))),
            Op::MapValues { of, f } => Node::Stream(self.stream(of).map_values(move |v| f.of(v))),
            Op::FlatMapValues { of, times } => {
                Node::Stream(self.stream(of).flat_map_values(move |v: i64| (0..times).map(move |n| v.wrapping_add(n))))
            }
            Op::SelectKey { of, key } => Node::Stream(self.stream(of).select_key(move |k, v| key.of(k, *v))),
            Op::Map { of, key, f } => Node::Stream(self.stream(of).map(move |k, v| (key.of(&k, v), f.of(v)))),
            Op::Merge { left, right } => Node::Stream(self.stream(left).merge(self.stream(right))),
            Op::Split { of, ref preds } => {
                let mut split = self.stream(of).split();
                let mut branches: Vec<_> =
                    preds.iter().map(|&pred| Some(split.branch(move |k, v| pred.holds(k, *v)))).collect();
                branches.push(Some(split.rest()));
                Node::Branches(branches)
            }
            Op::Branch { of, nth } => match &mut self.nodes[of] {
                Node::Branches(branches) => Node::Stream(branches[nth].take().expect("a branch is taken once")),
                _ => panic!("step {of} is no split"),
            },
            Op::Repartition { of } => {
                Node::Stream(self.stream(of).repartition(Repartitioned::named(format!("r{step}")).key(Utf8).value(I64)))
            }
            Op::ToTable { of, .. } => Node::Upserts(self.stream(of).to_table(self.materialized(step))),
            Op::Aggregate { of, by, fold, .. } => Node::Upserts(self.aggregate(step, of, by, fold)),
            Op::FilterRows { of, pred, .. } => {
                let (holds, kept) = (move |k: &String, v: &i64| pred.holds(k, *v), self.materialized(step));
                Node::Deletes(match &self.nodes[of] {
                    Node::Upserts(table) => table.clone().filter_materialized(holds, kept),
                    Node::Deletes(table) => table.clone().filter_materialized(holds, kept),
                    _ => panic!("step {of} is no table"),
                })
            }
            Op::MapRows { of, f, .. } => {
                let (map, kept) = (move |v| f.of(v), self.materialized(step));
                match &self.nodes[of] {
                    Node::Upserts(table) => Node::Upserts(table.clone().map_values_materialized(map, kept)),
                    Node::Deletes(table) => Node::Deletes(table.clone().map_values_materialized(map, kept)),
                    _ => panic!("step {of} is no table"),
                }
            }
            Op::ToStream { of, key } => Node::Stream(match &self.nodes[of] {
                Node::Upserts(table) => match key {
                    Some(key) => table.clone().to_stream().map(move |k, v| (key.of(&k, v), v)),
                    None => table.clone().to_stream(),
                },
                Node::Deletes(table) => match key {
                    Some(key) => {
                        table.clone().to_stream().flat_map(move |k, v: Option<i64>| v.map(|v| (key.of(&k, v), v)))
                    }
                    None => table.clone().to_stream().flat_map_values(|v: Option<i64>| v),
                },
                _ => panic!("step {of} is no table"),
            }),
            Op::Regroup { of, by, f, fold, .. } => {
                let (group, grouped) = (move |k: &String, v: i64| (by.of(k, v), f.of(v)), Grouped::with(Utf8, I64));
                let grouped = match &self.nodes[of] {
                    Node::Upserts(table) => table.clone().group_by(group, grouped),
                    Node::Deletes(table) => table.clone().group_by(group, grouped),
                    _ => panic!("step {of} is no table"),
                };
                let kept = self.materialized(step);
                Node::Upserts(match fold {
                    RowFold::Count => grouped.count(kept),
                    RowFold::Sum => grouped.reduce(i64::wrapping_add, i64::wrapping_sub, kept),
                    RowFold::SumFromZero => grouped.aggregate(
                        || 0,
                        |sum, _, v| sum.wrapping_add(*v),
                        |sum, _, v| sum.wrapping_sub(*v),
                        kept,
                    ),
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

    fn aggregate(&self, step: StepId, of: StepId, by: Option<KeyFn>, fold: Fold) -> Table<String, i64, Upserts> {
        let (stream, grouped) = (self.stream(of), Grouped::with(Utf8, I64));
        let grouped = match by {
            Some(key) => stream.group_by(move |k, v| key.of(k, *v), grouped),
            None => stream.group_by_key_with(grouped),
        };
        let kept = self.materialized(step);
        match fold {
            Fold::Count => grouped.count(kept),
            Fold::Digest => grouped.aggregate(move || fold.initial(), move |so_far, _, v| fold.step(so_far, *v), kept),
            _ => grouped.reduce(move |so_far, v| fold.step(so_far, v), kept),
        }
    }

    /// The store of a step, if it has one.
    fn materialized(&self, step: StepId) -> Materialized<String, i64> {
        let op = &self.plan.steps[step];
        let materialized = match op.is_kept() {
            true => Materialized::named(store_name(step)),
            false => Materialized::default(),
        };
        let materialized = materialized.serdes(Utf8, I64);
        if op.is_cached() { materialized } else { materialized.caching_disabled() }
    }

    /// Sends the records of a step to its topic.
    fn show(&self, step: StepId) {
        fn rows<D: TableKind<Streamed<i64> = V>, V: Clone + 'static>(
            table: Table<String, i64, D>,
        ) -> Stream<String, V> {
            table.to_stream()
        }
        let topic = output_topic(step);
        match &self.nodes[step] {
            Node::Stream(stream) => stream.clone().to(&topic, Produced::with(Utf8, I64)),
            Node::Upserts(table) => rows(table.clone()).to(&topic, Produced::with(Utf8, I64)),
            Node::Deletes(table) => rows(table.clone()).to(&topic, Produced::with(Utf8, Nullable(I64))),
            Node::Branches(_) => panic!("a split has no records of its own"),
        }
    }
}
