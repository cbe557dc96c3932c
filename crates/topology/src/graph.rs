//! The graph as data, while it is being defined: nodes, stores and topics by name, and the mistakes made so far.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::names::{self, Names};
use crate::node::{Build, CloneFn, EdgeFn, edge};
use crate::optimize::{Optimization, ReusedTopic};
use crate::problem::{Problem, ProblemKind};
use crate::serde::SerdeId;
use crate::store::{StoreDef, StoreFormat};
use crate::topology::{OffsetReset, SinkTopic, Topic};

/// A type, to be compared and to be named in a message.
#[derive(Clone, Copy)]
pub(crate) struct Ty {
    id: TypeId,
    name: &'static str,
}

impl Ty {
    fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: std::any::type_name::<T>() }
    }

    fn short(self) -> String {
        names::short_type(self.name)
    }
}

/// What a node is to the outside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Reads the source with this number.
    Source(usize),
    /// Writes to the sink with this number.
    Sink(usize),
    Processor,
}

/// What a table's node does with old values.
#[derive(Clone, Copy, Default)]
pub(crate) struct OldValues {
    /// It needs them of its parent if its parent has them.
    pub(crate) asks: bool,
    /// It has them if its parent has them, and needs them if a child does.
    pub(crate) passes: bool,
    /// It has them from a store of its own.
    pub(crate) gives: bool,
}

/// What a node does to the records that it forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// They are those it has received, or some of them.
    Nothing,
    /// The key may be another one.
    Key,
    /// The key is the same, all else may be different.
    Value,
}

/// A store that a table's node gets as soon as something needs its rows.
pub(crate) struct OnDemand {
    pub(crate) def: StoreDef,
    /// The identity of the key's serde.
    pub(crate) key: SerdeId,
    /// Where the node finds the store, once it has one.
    pub(crate) place: StorePlace,
}

/// The place of a node's store among those of the topology; empty as long as it has none.
pub(crate) type StorePlace = Arc<OnceLock<usize>>;

/// A node, as it is added.
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) parents: Vec<usize>,
    pub(crate) stores: Vec<usize>,
    /// Whatever it forwards has the key of what it received.
    pub(crate) keeps_key: bool,
    pub(crate) effect: Effect,
    /// It looks its store up with the record's key, written by a serde of this identity.
    pub(crate) lookup: Option<(usize, SerdeId)>,
    pub(crate) old: OldValues,
    pub(crate) on_demand: Option<OnDemand>,
    /// It gives each message to one child only.
    pub(crate) routes: bool,
    /// It may ask for its children by their names.
    pub(crate) names_children: bool,
    /// It has to know when caches above it hold nothing back: see [`Event::AllDrained`](crate::node::Event::AllDrained).
    pub(crate) awaits_drain: bool,
    /// It has a time of its own: see [`Port::advance`](crate::Port::advance).
    pub(crate) has_time: bool,
    /// It forwards rows one at a time when they have become due: some may be when a task starts.
    pub(crate) lets_through: bool,
    /// It tells each window once, when that is closed: what made the windows must not take that back.
    pub(crate) tells_finals: bool,
    pub(crate) build: Build,
}

impl NodeSpec {
    pub(crate) fn processor(name: String, parents: Vec<usize>, build: Build) -> Self {
        Self {
            name,
            kind: NodeKind::Processor,
            parents,
            stores: Vec::new(),
            keeps_key: false,
            effect: Effect::Value,
            lookup: None,
            old: OldValues::default(),
            on_demand: None,
            routes: false,
            names_children: false,
            awaits_drain: false,
            has_time: false,
            lets_through: false,
            tells_finals: false,
            build,
        }
    }

    pub(crate) fn keeping_key(mut self) -> Self {
        self.keeps_key = true;
        self
    }

    pub(crate) fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// It keeps a table's rows in this store, under keys that a serde of this identity writes.
    pub(crate) fn keep_rows(&mut self, store: usize, key: SerdeId) {
        self.stores.push(store);
        self.lookup = Some((store, key));
        self.old.gives = true;
    }
}

/// A node in the definition.
pub(crate) struct NodeDef {
    pub(crate) name: Arc<str>,
    pub(crate) spec: NodeSpec,
    pub(crate) output: Ty,
    pub(crate) children: Vec<usize>,
    /// The child that takes what goes another way than the output, such as late records.
    pub(crate) side: Option<usize>,
    /// A [`CloneFn`] of the output's type.
    pub(crate) clone: Option<Arc<dyn Any + Send + Sync>>,
    /// The topic that the node makes a table of, if a store of the rows can be restored from it.
    pub(crate) reusable: Option<ReusedTopic>,
    pub(crate) edge: EdgeFn,
}

pub(crate) struct SourceEntry {
    pub(crate) node: usize,
    pub(crate) topics: Vec<Topic>,
    pub(crate) key: SerdeId,
    pub(crate) timestamp_extractor: bool,
    pub(crate) reset: Option<OffsetReset>,
}

pub(crate) struct SinkEntry {
    pub(crate) node: usize,
    pub(crate) topic: SinkTopic,
    pub(crate) partitioner: bool,
}

pub(crate) struct StoreEntry {
    pub(crate) def: StoreDef,
    /// The node that forwards what the drained store gives.
    pub(crate) owner: Option<usize>,
    /// Who defined it, for messages.
    pub(crate) by: String,
}

pub(crate) struct RepartitionEntry {
    /// Without the application's id.
    pub(crate) name: String,
    pub(crate) partitions: Option<i32>,
    pub(crate) configs: BTreeMap<String, String>,
    /// The stream that is repartitioned, for messages.
    pub(crate) parent: String,
    /// It is there because a key has changed, so it may be anywhere behind that.
    pub(crate) mergeable: bool,
    /// Its nodes, once they are added.
    pub(crate) ends: Option<CutEnds>,
}

/// The nodes of a repartition.
#[derive(Clone, Copy)]
pub(crate) struct CutEnds {
    pub(crate) filter: usize,
    pub(crate) sink: usize,
    pub(crate) source: usize,
}

impl NodeDef {
    /// All nodes that get something of this one: the children, then the one at its side.
    pub(crate) fn below(&self) -> impl Iterator<Item = usize> {
        self.children.iter().copied().chain(self.side)
    }
}

/// The definition of a topology.
pub(crate) struct Graph {
    /// Different for each builder of the process; handles carry it.
    pub(crate) id: u64,
    pub(crate) names: Names,
    pub(crate) format: StoreFormat,
    pub(crate) nodes: Vec<NodeDef>,
    pub(crate) sources: Vec<SourceEntry>,
    pub(crate) sinks: Vec<SinkEntry>,
    pub(crate) stores: Vec<StoreEntry>,
    pub(crate) repartitions: Vec<RepartitionEntry>,
    /// Nodes whose keys must be in the same partitions.
    pub(crate) copartitioned: Vec<Vec<usize>>,
    pub(crate) problems: Vec<Problem>,
    /// State must not have generated names.
    pub(crate) explicit_names: bool,
    pub(crate) optimization: Optimization,
}

impl Default for Graph {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            names: Names::default(),
            format: StoreFormat::default(),
            nodes: Vec::new(),
            sources: Vec::new(),
            sinks: Vec::new(),
            stores: Vec::new(),
            repartitions: Vec::new(),
            copartitioned: Vec::new(),
            problems: Vec::new(),
            explicit_names: false,
            optimization: Optimization::NONE,
        }
    }
}

impl Graph {
    pub(crate) fn problem(&mut self, kind: ProblemKind, message: String) {
        self.problems.push(Problem { kind, message });
    }

    /// Adds a node that takes `I` and forwards `O`.
    pub(crate) fn add<I: 'static, O: 'static>(&mut self, spec: NodeSpec) -> usize {
        let id = self.nodes.len();
        self.check_name("a node", &spec.name);
        if let Some(other) = self.nodes.iter().find(|n| *n.name == *spec.name) {
            let two = if spec.parents.iter().any(|p| self.nodes.get(*p).is_some_and(|n| n.name == other.name)) {
                format!("{} right behind it", self.what_node(&spec))
            } else {
                self.describe_node(&spec)
            };
            let one = self.describe_node(&other.spec);
            let message = if one == two {
                format!("`{}` is given twice: to {one} and to another one there; name them differently", spec.name)
            } else {
                format!("`{}` names both {one} and {two}; name them differently", spec.name)
            };
            self.problem(ProblemKind::Clash, message);
        }
        let (input, output) = (Ty::of::<I>(), Ty::of::<O>());
        for &parent in &spec.parents {
            self.connect(parent, id, &spec.name, input);
        }
        self.nodes.push(NodeDef {
            name: spec.name.as_str().into(),
            spec,
            output,
            children: Vec::new(),
            side: None,
            clone: None,
            reusable: None,
            edge: edge::<I>,
        });
        id
    }

    fn connect(&mut self, parent: usize, child: usize, name: &str, input: Ty) {
        let Some(node) = self.nodes.get_mut(parent) else { return };
        node.children.push(child);
        if node.output.id != input.id {
            let message = format!(
                "processor `{name}` takes `{}`, but its parent `{}` forwards `{}`",
                input.short(),
                node.name,
                node.output.short()
            );
            self.problem(ProblemKind::TypeMismatch, message);
        }
    }

    /// Makes a node that was added without a parent the one that takes what `parent` does not forward but puts aside.
    pub(crate) fn put_aside(&mut self, parent: usize, side: usize) {
        if let Some(node) = self.nodes.get_mut(side) {
            node.spec.parents.push(parent);
        }
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.side = Some(side);
        }
    }

    /// From now on the node may have several children.
    pub(crate) fn allow_fan_out<T: Clone + 'static>(&mut self, node: usize) {
        if let Some(node) = self.nodes.get_mut(node).filter(|n| n.clone.is_none()) {
            let clone: CloneFn<T> = Arc::new(T::clone);
            node.clone = Some(Arc::new(clone));
        }
    }

    /// The parents of a node, by name.
    pub(crate) fn parents(&mut self, child: &str, parents: &[&str]) -> Vec<usize> {
        if parents.is_empty() {
            self.problem(ProblemKind::UnknownParent, format!("`{child}` names no parent, so nothing would reach it"));
        }
        let mut found = Vec::with_capacity(parents.len());
        for parent in parents {
            match self.nodes.iter().position(|n| &*n.name == *parent) {
                Some(at) if found.contains(&at) => {
                    self.problem(ProblemKind::Clash, format!("`{child}` names its parent `{parent}` twice"));
                }
                Some(at) => found.push(at),
                None => self.problem(
                    ProblemKind::UnknownParent,
                    format!(
                        "`{child}` names the parent `{parent}`, which is not there; add parents before their children"
                    ),
                ),
            }
        }
        found
    }

    /// Adds a store; a name that is taken is reported and given once more.
    pub(crate) fn add_store(&mut self, def: StoreDef, by: String) -> usize {
        self.check_name("a store", &def.name);
        if let Some(other) = self.stores.iter().find(|s| s.def.name == def.name) {
            let message = format!("the store `{}` is defined twice: by {} and by {by}", def.name, other.by);
            self.problem(ProblemKind::Clash, message);
        }
        self.stores.push(StoreEntry { def, owner: None, by });
        self.stores.len() - 1
    }

    /// Something needs to know what the rows of a table were. If the table has no store, the ones that it is made of get theirs,
    /// as far as they have none.
    ///
    /// # Errors
    ///
    /// The name of a table at or above this one of which nobody keeps the rows.
    pub(crate) fn keep_rows(&mut self, table: usize) -> std::result::Result<(), Arc<str>> {
        let Some(node) = self.nodes.get_mut(table) else { return Ok(()) };
        let OldValues { gives, passes, .. } = node.spec.old;
        let (name, on_demand) = (node.name.clone(), node.spec.on_demand.take());
        if let Some(OnDemand { def, key, place }) = on_demand {
            let store = self.add_store(def, format!("`{name}`"));
            if let Some(entry) = self.stores.get_mut(store) {
                entry.owner = Some(table);
            }
            if let Some(node) = self.nodes.get_mut(table) {
                node.spec.keep_rows(store, key);
            }
            // It is empty: the node had no store.
            let _ = place.set(store);
            return Ok(());
        }
        match (gives, passes) {
            (true, _) => Ok(()),
            (false, true) => {
                let parents = self.nodes.get(table).map(|n| n.spec.parents.clone()).unwrap_or_default();
                parents.into_iter().try_for_each(|parent| self.keep_rows(parent))
            }
            (false, false) => Err(name),
        }
    }

    /// The aggregation that this table is made of, if it tells of windows only when they are closed. Only it has a store that holds
    /// rows for that.
    pub(crate) fn tells_closed_windows(&self, mut table: usize) -> Option<Arc<str>> {
        loop {
            let node = self.nodes.get(table)?;
            let holds = |store: &usize| self.stores.get(*store).is_some_and(|s| s.def.hold.is_some());
            if node.spec.stores.iter().any(holds) {
                return Some(node.name.clone());
            }
            match &*node.spec.parents {
                [parent] if !node.spec.has_time => table = *parent,
                _ => return None,
            }
        }
    }

    /// Registers a source's topics; the node is added by the caller under the number returned.
    pub(crate) fn add_source(&mut self, entry: SourceEntry) -> usize {
        // Of two repartition topics with one name was told when they were added.
        for topic in entry.topics.iter().filter(|t| !t.internal) {
            self.check_name("a topic", &topic.name);
            let taken = self.sources.iter().find(|s| s.topics.contains(topic)).map(|s| s.node);
            if let Some(other) = taken {
                let other = self.nodes.get(other).map_or("another source", |n| &n.name);
                let message = format!(
                    "the topic `{}` is read by two sources, `{other}` is the first; read it once and clone the stream",
                    topic.name
                );
                self.problem(ProblemKind::Clash, message);
            }
        }
        if entry.topics.is_empty() {
            self.problem(ProblemKind::Shape, "a source reads no topic".to_owned());
        }
        self.sources.push(entry);
        self.sources.len() - 1
    }

    pub(crate) fn add_sink(&mut self, entry: SinkEntry) -> usize {
        if let SinkTopic::Fixed(topic) = &entry.topic {
            self.check_name("a topic", &topic.name);
        }
        self.sinks.push(entry);
        self.sinks.len() - 1
    }

    /// Registers a repartition topic; false if there is one of this name already.
    pub(crate) fn add_repartition(&mut self, entry: RepartitionEntry) -> bool {
        if let Some(n) = entry.partitions.filter(|n| *n < 1) {
            let message =
                format!("the repartition topic `{}` is to have {n} partitions; at least 1 is needed", entry.name);
            self.problem(ProblemKind::Shape, message);
        }
        let Some(other) = self.repartitions.iter().find(|r| r.name == entry.name) else {
            self.repartitions.push(entry);
            return true;
        };
        let made = |r: &RepartitionEntry| match r.partitions {
            Some(n) => format!("behind `{}` with {n} partitions", r.parent),
            None => format!("behind `{}`", r.parent),
        };
        let (one, two) = (made(other), made(&entry));
        let places = if one == two { one } else { format!("{one} and {two}") };
        let message = format!("the repartition topic `{}` is made twice: {places}; name them differently", entry.name);
        self.problem(ProblemKind::Clash, message);
        false
    }

    fn check_name(&mut self, what: &str, name: &str) {
        if let Some(why) = names::illegal(name) {
            self.problem(ProblemKind::IllegalName, format!("{what} cannot be called `{name}`: {why}"));
        }
    }

    /// What a node is and where it is, for messages.
    fn describe_node(&self, spec: &NodeSpec) -> String {
        let what = self.what_node(spec);
        if matches!(spec.kind, NodeKind::Source(_)) {
            return what;
        }
        let parents: Vec<_> = spec.parents.iter().filter_map(|p| self.nodes.get(*p)).collect();
        let place = |n: &&NodeDef| match n.spec.kind {
            // The name may be generated: the topic is what the reader knows.
            NodeKind::Source(_) => format!("`{}` ({})", n.name, self.what_node(&n.spec)),
            _ => format!("`{}`", n.name),
        };
        let places: Vec<_> = parents.iter().map(place).collect();
        format!("{what} behind {}", if places.is_empty() { "nothing".to_owned() } else { places.join(", ") })
    }

    /// What a node is, for messages.
    fn what_node(&self, spec: &NodeSpec) -> String {
        let topic = |topic: &Topic| format!("`{}`", topic.name);
        match spec.kind {
            NodeKind::Source(at) => {
                let topics = self.sources.get(at).map(|s| s.topics.iter().map(topic).collect::<Vec<_>>().join(", "));
                format!("the source of {}", topics.unwrap_or_default())
            }
            NodeKind::Sink(at) => {
                let fixed = self.sinks.get(at).and_then(|s| s.topic.fixed());
                format!("the sink to {}", fixed.map_or_else(|| "a topic of each record".to_owned(), topic))
            }
            NodeKind::Processor => {
                let stores: Vec<_> = spec.stores.iter().filter_map(|s| self.stores.get(*s)).collect();
                let stores: Vec<_> = stores.iter().map(|s| format!("`{}`", s.def.name)).collect();
                match &*stores {
                    [] => "the processor".to_owned(),
                    [one] => format!("the processor with the store {one}"),
                    several => format!("the processor with the stores {}", several.join(", ")),
                }
            }
        }
    }
}
