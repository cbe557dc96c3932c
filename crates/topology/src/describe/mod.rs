//! What a topology looks like: as text in the form of Kafka Streams' `Topology.describe()`, as a Mermaid chart and as JSON.

mod mermaid;
mod text;

use serde::Serialize;

use crate::graph::{NodeDef, NodeKind};
use crate::topology::{SinkTopic, Topology};

/// What a topology looks like, as data. It prints as Kafka Streams prints it, and as [Mermaid](Description::mermaid) and
/// [JSON](Description::json).
///
/// ```
/// # use millpond_topology::*;
/// let mut builder = Topology::builder();
/// builder.stream("in", Consumed::with(Utf8, Utf8)).to("out", Produced::default());
/// let description = builder.build()?.describe();
/// assert!(description.to_string().starts_with("Topologies:"));
/// assert!(description.mermaid().starts_with("flowchart TD"));
/// assert!(description.json().contains(r#""name": "KSTREAM-SOURCE-0000000000""#));
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The sub-topologies, by number.
    pub sub_topologies: Vec<SubTopologyDescription>,
}

/// A part of a topology that a task is an instance of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubTopologyDescription {
    /// Its number.
    pub id: u32,
    /// Its nodes: by the number of ways that lead down from them, then by name, as Kafka Streams lists them.
    pub nodes: Vec<NodeDescription>,
}

/// A node and its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeDescription {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(flatten)]
    pub role: NodeRole,
    /// The names of the nodes that it takes records from, in the order of the list.
    pub predecessors: Vec<String>,
    /// The names of the nodes that it forwards to, in the order of the list.
    pub successors: Vec<String>,
}

/// What a node is, and what it touches outside of the graph. Internal topics are named without the application's id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NodeRole {
    /// Reads topics.
    Source {
        /// Their names.
        topics: Vec<String>,
    },
    /// Takes records and forwards others.
    Processor {
        /// The names of the stores that it uses.
        stores: Vec<String>,
    },
    /// Writes a topic.
    Sink {
        /// Its name; `None`: it is chosen for each record.
        topic: Option<String>,
        /// The name of the type that chooses it.
        #[serde(skip_serializing_if = "Option::is_none")]
        extractor: Option<String>,
    },
}

impl Description {
    /// As a [Mermaid](https://mermaid.js.org) flow chart: a box per sub-topology, nodes in it, and the topics and stores that
    /// they read and write.
    pub fn mermaid(&self) -> String {
        mermaid::chart(self)
    }

    /// As JSON, indented: `{"sub_topologies": [{"id", "nodes": [{"name", "type": "source" | "processor" | "sink", "topics" |
    /// "stores" | "topic", "predecessors", "successors"}]}]}`. A sink that [chooses](crate::Stream::to_topic_of) its topics has null
    /// as `topic`, and beside it `extractor`, the name of the type that chooses.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl Topology {
    /// What the topology looks like.
    pub fn describe(&self) -> Description {
        let sizes = self.sizes();
        let sub = |(id, sub): (u32, &crate::topology::SubTopology)| {
            let nodes = self.ordered(sub.nodes.iter().map(|n| n.0 as usize).collect(), &sizes);
            let nodes = nodes.into_iter().filter_map(|at| self.0.nodes.get(at));
            SubTopologyDescription { id, nodes: nodes.map(|node| self.describe_node(node, &sizes)).collect() }
        };
        Description { sub_topologies: (0..).zip(self.sub_topologies()).map(sub).collect() }
    }

    fn describe_node(&self, node: &NodeDef, sizes: &[u64]) -> NodeDescription {
        NodeDescription {
            name: node.name.to_string(),
            role: self.role(node),
            predecessors: self.names(&node.spec.parents, sizes),
            successors: self.names(&node.below().collect::<Vec<_>>(), sizes),
        }
    }

    fn role(&self, node: &NodeDef) -> NodeRole {
        match node.spec.kind {
            NodeKind::Source(at) => {
                let topics = self.0.sources.get(at).map(|s| s.topics.iter().map(|t| t.name.clone()).collect());
                NodeRole::Source { topics: topics.unwrap_or_default() }
            }
            NodeKind::Sink(at) => match self.0.sinks.get(at).map(|s| &s.topic) {
                Some(SinkTopic::Fixed(topic)) => NodeRole::Sink { topic: Some(topic.name.clone()), extractor: None },
                Some(SinkTopic::Chosen(by)) => NodeRole::Sink { topic: None, extractor: Some((*by).to_owned()) },
                None => NodeRole::Sink { topic: None, extractor: None },
            },
            NodeKind::Processor => {
                let stores = node.spec.stores.iter().filter_map(|s| self.0.stores.get(*s));
                NodeRole::Processor { stores: stores.map(|s| s.name.clone()).collect() }
            }
        }
    }

    /// For each node the number of ways down, itself included.
    fn sizes(&self) -> Vec<u64> {
        let mut sizes = vec![1_u64; self.0.nodes.len()];
        for (at, node) in self.0.nodes.iter().enumerate().rev() {
            let below = node.below().filter_map(|c| sizes.get(c)).fold(0_u64, |sum, n| sum.saturating_add(*n));
            if let Some(size) = sizes.get_mut(at) {
                *size = size.saturating_add(below);
            }
        }
        sizes
    }

    fn names(&self, nodes: &[usize], sizes: &[u64]) -> Vec<String> {
        let nodes = self.ordered(nodes.to_vec(), sizes);
        nodes.into_iter().filter_map(|at| self.0.nodes.get(at)).map(|n| n.name.to_string()).collect()
    }

    fn ordered(&self, mut nodes: Vec<usize>, sizes: &[u64]) -> Vec<usize> {
        let size = |at: &usize| sizes.get(*at).copied().unwrap_or_default();
        let name = |at: &usize| self.0.nodes.get(*at).map(|n| n.name.clone());
        nodes.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| name(a).cmp(&name(b))));
        nodes
    }
}
