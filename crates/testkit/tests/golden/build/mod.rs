//! Builds the topology that a case describes.

mod aggregate;
mod cogroup;
mod kept;
mod process;
mod stream;
mod table;
mod windowed;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use millpond_topology::{
    BuildError, Builder, Consumed, GroupedStream, GroupedTable, Optimization, StoreFormat, Stream, Topology,
};

use crate::case::{self, Config, Extractor};
use crate::op::{Kept, Line, Op};
use crate::value::{Cell, KeyKind, Kind, nullable};
use table::{AnyTable, Tabled, Updates};

/// Why there is no topology.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It needs what is not there yet.
    Waits(&'static str),
    /// There is no way to say it: the program would not compile.
    Refused,
    /// The case is not understood.
    Broken(String),
}

pub(crate) type Result<T = ()> = std::result::Result<T, Stop>;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn broken<T>(why: impl Into<String>) -> Result<T> {
    Err(Stop::Broken(why.into()))
}

/// A topology, and how its topics and stores are read.
pub(crate) struct Built {
    pub(crate) topology: std::result::Result<Topology, BuildError>,
    pub(crate) formats: Formats,
}

/// The kinds of keys and values.
#[derive(Default)]
pub(crate) struct Formats {
    pub(crate) sources: BTreeMap<String, (Kind, Kind)>,
    pub(crate) sinks: BTreeMap<String, (KeyKind, Kind)>,
    pub(crate) stores: BTreeMap<String, (KeyKind, Kind)>,
}

/// What an op leaves behind.
enum Made {
    Stream(Stream<Cell, Cell>, Kind, Kind),
    /// A table's updates, whose types are the table's.
    Updates(Box<dyn Updates>),
    Grouped(GroupedStream<Cell, Cell>, Kind, Kind),
    GroupedTable(GroupedTable<Cell, Cell>, Kind, Kind),
    Table(Box<dyn AnyTable>),
    Nothing,
}

impl Made {
    fn again(&self) -> Self {
        match self {
            Self::Stream(s, k, v) => Self::Stream(s.clone(), *k, *v),
            Self::Updates(s) => Self::Updates(s.again()),
            Self::Grouped(s, k, v) => Self::Grouped(s.clone(), *k, *v),
            Self::GroupedTable(t, k, v) => Self::GroupedTable(t.clone(), *k, *v),
            Self::Table(t) => Self::Table(t.again()),
            Self::Nothing => Self::Nothing,
        }
    }
}

/// What an op is built with: its name and the options of its store, each taken or the case is not understood, and what is
/// noted for the comparison.
struct Cx<'a> {
    name: Option<String>,
    kept: Option<Kept>,
    config: &'a Config,
    formats: &'a mut Formats,
}

/// An op with the ids of what it goes on from.
struct Node<'a> {
    id: String,
    inputs: Vec<String>,
    line: &'a Line,
}

struct Interpreter<'a> {
    case: &'a case::Topology,
    builder: Builder,
    made: HashMap<String, Made>,
    formats: Formats,
}

pub(crate) fn build(case: &case::Topology) -> Result<Built> {
    if case.ops.iter().any(|line| matches!(line.op, Op::Join(_))) {
        return Err(Stop::Waits("joins"));
    }
    let nodes = nodes(&case.ops);
    let mut builder = Topology::builder();
    if case.config.optimize {
        builder.optimize(Optimization::ALL);
    }
    if let Some(case::StoreFormat::Headers) = case.config.store_format {
        builder.store_format(StoreFormat::Headers);
    }
    let mut it = Interpreter { case, builder, made: HashMap::new(), formats: Formats::default() };
    for (at, node) in nodes.iter().enumerate() {
        let later: Vec<&String> = nodes.iter().skip(at + 1).flat_map(|node| &node.inputs).collect();
        it.node(node, &later)?;
    }
    let Interpreter { builder, made, formats, .. } = it;
    // What is left holds the builder's graph.
    drop(made);
    Ok(Built { topology: builder.build(), formats })
}

/// Says of each op what it goes on from: as long as it does not say so itself, from the last one that left something.
fn nodes(ops: &[Line]) -> Vec<Node<'_>> {
    let mut last = String::new();
    let mut nodes = Vec::new();
    for (at, line) in ops.iter().enumerate() {
        let id = line.id.clone().unwrap_or(format!("#{at}"));
        let mut inputs: Vec<String> = match &line.op {
            Op::Stream { .. } | Op::Table { .. } | Op::GlobalTable { .. } => Vec::new(),
            Op::Cogroup { inputs, .. } => inputs.iter().map(|input| input.from.clone()).collect(),
            _ => vec![line.from.clone().unwrap_or(last)],
        };
        last = match &line.op {
            Op::To { .. } | Op::Branch { .. } => inputs.first().cloned().unwrap_or_default(),
            _ => id.clone(),
        };
        if let Op::Merge { with } = &line.op {
            inputs.push(with.clone());
        }
        nodes.push(Node { id, inputs, line });
    }
    nodes
}

impl Interpreter<'_> {
    /// Builds an op; `later` are all ids that later ones ask for.
    fn node(&mut self, node: &Node<'_>, later: &[&String]) -> Result {
        let mut inputs = Vec::new();
        for (at, id) in node.inputs.iter().enumerate() {
            // The thing itself if nobody asks for it again, so that `Clone` says something.
            let again = later.contains(&id) || node.inputs.iter().skip(at + 1).any(|other| other == id);
            let made = if again { self.made.get(id).map(Made::again) } else { self.made.remove(id) };
            inputs.push(made.map_or_else(|| broken(format!("no op has made `{id}`")), Ok)?);
        }
        let mut formats = std::mem::take(&mut self.formats);
        let (name, kept) = (node.line.name.clone(), node.line.kept.clone());
        let mut cx = Cx { name, kept, config: &self.case.config, formats: &mut formats };
        let made = self.op(&mut cx, node, inputs)?;
        if cx.name.is_some() || cx.kept.is_some() {
            return broken(format!("nobody has read the name or the store of `{}`", node.id));
        }
        self.formats = formats;
        if let Made::Table(table) = &made {
            self.formats.stores.extend(table.store());
        }
        self.made.insert(node.id.clone(), made);
        Ok(())
    }

    fn op(&mut self, cx: &mut Cx<'_>, node: &Node<'_>, inputs: Vec<Made>) -> Result<Made> {
        let op = &node.line.op;
        if let Op::Cogroup { inputs: folds, window } = op {
            return cx.cogroup(folds, window.as_ref(), inputs);
        }
        let mut inputs = inputs.into_iter();
        Ok(match (op, inputs.next(), inputs.next()) {
            (Op::Stream { topic, key, value }, None, None) => {
                let consumed = self.consumed(cx, *key, *value);
                cx.formats.sources.insert(topic.clone(), (*key, *value));
                Made::Stream(self.builder.stream(topic, consumed), *key, *value)
            }
            (Op::Table { topic, key, value }, None, None) => {
                let consumed = self.consumed(cx, *key, *value);
                cx.formats.sources.insert(topic.clone(), (*key, *value));
                let kind = KeyKind::Plain(*key);
                let table = match cx.kept {
                    Some(_) => self.builder.table_materialized(topic, consumed, cx.materialized(kind, *value)?),
                    None => self.builder.table(topic, consumed),
                };
                Made::Table(Tabled::boxed(table, kind, *value))
            }
            // Nothing that reads a topic as a whole takes a versioned store.
            (Op::GlobalTable { .. }, ..) if cx.kept.as_ref().is_some_and(|kept| kept.history_ms.is_some()) => {
                return Err(Stop::Refused);
            }
            (Op::GlobalTable { .. }, ..) => return Err(Stop::Waits("global tables")),
            (Op::Merge { .. }, Some(Made::Stream(s, k, v)), Some(Made::Stream(other, ..))) => {
                Made::Stream(cx.named(s).merge(other), k, v)
            }
            (Op::Branch { fns, default }, Some(Made::Stream(s, k, v)), None) => {
                let mut split = cx.named(s).split();
                for (at, f) in fns.iter().enumerate() {
                    let f = f.clone();
                    let stream = split.named(format!("-{at}")).branch(move |k, v| f.holds(k, v).is_ok_and(|yes| yes));
                    self.made.insert(format!("{}-{at}", node.id), Made::Stream(stream, k, v));
                }
                if default.unwrap_or(true) {
                    let stream = split.named("-rest").rest();
                    self.made.insert(format!("{}-rest", node.id), Made::Stream(stream, k, v));
                }
                Made::Nothing
            }
            (Op::Process(process), Some(Made::Stream(s, k, v)), None) => {
                let s = cx.named(s);
                Made::Stream(self.process(cx.formats, process, s)?, k, v)
            }
            (Op::To { topic }, Some(made), None) => {
                cx.to(made, topic)?;
                Made::Nothing
            }
            (op, Some(Made::Stream(s, k, v)), None) => cx.stream_op(op, s, (k, v))?,
            (op, Some(Made::Updates(updates)), None) => updates.op(cx, op)?,
            (op, Some(Made::Grouped(s, k, v)), None) => cx.grouped_op(op, s, (k, v))?,
            (op, Some(Made::GroupedTable(t, k, v)), None) => cx.grouped_table_op(op, t, (k, v))?,
            (op, Some(Made::Table(table)), None) => table.op(cx, op)?,
            _ => return broken(format!("`{}` does not go with what it goes on from", node.id)),
        })
    }

    fn consumed(&self, cx: &mut Cx<'_>, key: Kind, value: Kind) -> Consumed<Cell, Cell> {
        let consumed = Consumed::with(nullable(key), nullable(value));
        let consumed = match cx.name.take() {
            Some(name) => consumed.named(name),
            None => consumed,
        };
        match self.case.config.timestamp_extractor {
            None | Some(Extractor::Fail) => consumed,
            Some(Extractor::Skip) => consumed.skip_invalid_timestamps(),
            Some(Extractor::PartitionTime) => consumed.partition_time_on_invalid_timestamps(),
        }
    }
}
