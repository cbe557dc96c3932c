//! A finished topology: shared by all threads, and what the runtime asks of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::builder::Builder;
use crate::graph::NodeDef;
use crate::optimize::ReusedTopic;
use crate::port::{NodeIndex, SinkIndex, SourceIndex, StoreIndex};
use crate::serde::SerdeId;
use crate::store::StoreDef;

/// A topic of a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic {
    /// The name; of an internal topic without the application's id.
    pub name: String,
    /// The library makes and owns it: a repartition topic.
    pub internal: bool,
}

impl Topic {
    pub(crate) fn external(name: &str) -> Self {
        Self { name: name.to_owned(), internal: false }
    }

    /// The name on the broker: `<application id>-<name>` for an internal topic, as Kafka Streams calls it.
    pub fn full_name(&self, application_id: &str) -> String {
        if self.internal { format!("{application_id}-{}", self.name) } else { self.name.clone() }
    }
}

/// Where a source starts in a partition without a committed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffsetReset {
    /// With the first record there is.
    Earliest,
    /// With the next record to come.
    Latest,
}

/// A source: topics that are read with one pair of serdes.
#[derive(Clone, Debug)]
pub struct SourceDef {
    /// The node's name.
    pub name: Arc<str>,
    /// The topics.
    pub topics: Vec<Topic>,
    /// The number of its sub-topology.
    pub sub: u32,
    /// Its timestamps come from an extractor: ask [`TaskGraph::timestamp`](crate::TaskGraph::timestamp) for each record. Without
    /// one that only checks that the time is not negative.
    pub timestamp_extractor: bool,
    /// Where to start without a committed offset; `None`: as the application is configured.
    pub reset: Option<OffsetReset>,
    /// The stores that will be looked up with exactly the bytes of the record's key: what is worth prefetching.
    pub lookups: Vec<StoreIndex>,
}

/// Where a sink writes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkTopic {
    /// To one topic.
    Fixed(Topic),
    /// To the topic that a function chooses for each record; this is the name of the function's type.
    Chosen(&'static str),
}

impl SinkTopic {
    /// The topic, if it is always the same.
    pub const fn fixed(&self) -> Option<&Topic> {
        match self {
            Self::Fixed(topic) => Some(topic),
            Self::Chosen(_) => None,
        }
    }
}

/// A sink: where records leave a task.
#[derive(Clone, Debug)]
pub struct SinkDef {
    /// The node's name.
    pub name: Arc<str>,
    /// The topic.
    pub topic: SinkTopic,
    /// The number of its sub-topology.
    pub sub: u32,
    /// It asks for the topic's partition count, to choose the partition itself.
    pub partitioner: bool,
}

/// A part of a topology that is connected by edges or stores: what a task is an instance of.
#[derive(Clone, Debug)]
pub struct SubTopology {
    /// Its sources.
    pub sources: Vec<SourceIndex>,
    /// Its sinks.
    pub sinks: Vec<SinkIndex>,
    /// Its stores, in the order to drain them: what one gives when drained can only reach later ones.
    pub stores: Vec<StoreIndex>,
    /// Its nodes, parents before children.
    pub nodes: Vec<NodeIndex>,
}

/// What an internal topic is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalTopicKind {
    /// Carries records from one sub-topology to another.
    Repartition,
    /// Holds the history of a store.
    Changelog(StoreIndex),
}

/// A topic that the library makes and owns.
#[derive(Clone, Debug)]
pub struct InternalTopic {
    /// The name, without the application's id.
    pub topic: Topic,
    /// What it is for.
    pub kind: InternalTopicKind,
    /// The partition count the user asked for; `None`: see [`Topology::partitions`].
    pub partitions: Option<i32>,
    /// Topic configs that the user set.
    pub configs: BTreeMap<String, String>,
}

/// A finished topology: immutable, `Send + Sync`, cloned by reference. [`Builder::build`] makes it.
///
/// Everything in it is addressed by its place: [`SourceIndex`], [`SinkIndex`], [`StoreIndex`], [`NodeIndex`].
#[derive(Clone)]
pub struct Topology(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) id: u64,
    pub(crate) nodes: Vec<NodeDef>,
    /// What is known of each node from the others.
    pub(crate) facts: Vec<Facts>,
    pub(crate) sources: Vec<SourceDef>,
    pub(crate) sinks: Vec<SinkDef>,
    pub(crate) stores: Vec<StoreDef>,
    /// By store.
    pub(crate) reused: Vec<Option<ReusedTopic>>,
    pub(crate) subs: Vec<SubTopology>,
    pub(crate) internal: Vec<InternalTopic>,
    /// Topics whose partition counts must be the same.
    pub(crate) copartitioned: Vec<Vec<Topic>>,
}

/// What a node's place in the graph says about it.
pub(crate) struct Facts {
    pub(crate) origin: SerdeId,
    pub(crate) wants_old: bool,
    /// The windows of this table are told of once, when they are closed.
    pub(crate) tells_finals: bool,
    /// The parents all know the rows' old values.
    pub(crate) has_old: bool,
    /// The stores above a node that awaits the drain which may hold updates back.
    pub(crate) caches: Vec<StoreIndex>,
}

impl Topology {
    /// Starts a new topology.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The sources, by [`SourceIndex`].
    pub fn sources(&self) -> &[SourceDef] {
        &self.0.sources
    }

    /// The sinks, by [`SinkIndex`].
    pub fn sinks(&self) -> &[SinkDef] {
        &self.0.sinks
    }

    /// The stores, by [`StoreIndex`].
    pub fn stores(&self) -> &[StoreDef] {
        &self.0.stores
    }

    /// The sub-topologies, by number; in Kafka Streams' order.
    pub fn sub_topologies(&self) -> &[SubTopology] {
        &self.0.subs
    }

    /// The repartition topics, then the changelogs in the order of the stores.
    pub fn internal_topics(&self) -> &[InternalTopic] {
        &self.0.internal
    }

    /// The source topic that is the changelog of a store, too, which then has none of its own.
    pub fn reused_topic(&self, store: StoreIndex) -> Option<&ReusedTopic> {
        self.0.reused.get(store.0 as usize).and_then(Option::as_ref)
    }

    /// The name of a node.
    pub fn node_name(&self, node: NodeIndex) -> Option<&str> {
        self.0.nodes.get(node.0 as usize).map(|n| &*n.name)
    }

    /// Under which name the [time](crate::Port::advance) of a node is to be committed beside the input offsets; `None` if it has
    /// none: `time:` and the name of its store, of the second and later ones of a store (a cogroup's inputs) `:` and their number.
    /// So it is kept as long as the store is called the same; and no store is called so, since `:` has no place in a topic's name.
    pub fn time_name(&self, node: NodeIndex) -> Option<String> {
        let has_time = |node: &&NodeDef| node.spec.has_time;
        let store = *self.0.nodes.get(node.0 as usize).filter(has_time)?.spec.stores.first()?;
        let name = &self.0.stores.get(store)?.name;
        let before = self.0.nodes.iter().take(node.0 as usize).filter(has_time);
        Some(match before.filter(|other| other.spec.stores.first() == Some(&store)).count() {
            0 => format!("time:{name}"),
            nth => format!("time:{name}:{nth}"),
        })
    }

    /// The place of the store with this name.
    pub fn store_index(&self, name: &str) -> Option<StoreIndex> {
        self.0.stores.iter().position(|s| s.name == name).map(index).map(StoreIndex)
    }
}

impl std::fmt::Debug for Topology {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Topology")
            .field("sub_topologies", &self.0.subs.len())
            .field("nodes", &self.0.nodes.len())
            .field("stores", &self.0.stores.len())
            .finish_non_exhaustive()
    }
}

/// A place as the port counts it. Definitions are far smaller than four billion.
pub(crate) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
