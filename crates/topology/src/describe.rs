//! What a topology looks like, in the form of Kafka Streams' `Topology.describe()`.

use std::fmt::Write;

use crate::graph::{NodeDef, NodeKind};
use crate::topology::Topology;

impl Topology {
    /// The topology as text, as Kafka Streams 4.4 prints it.
    ///
    /// Nodes are listed by the number of ways that lead down from them, then by name, as Kafka Streams does.
    pub fn describe(&self) -> String {
        let sizes = self.sizes();
        let mut text = "Topologies:\n ".to_owned();
        for number in 0..self.sub_topologies().len() {
            self.describe_sub(number, &sizes, &mut text).expect("writing to a string does not fail");
        }
        text
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

    fn describe_sub(&self, number: usize, sizes: &[u64], out: &mut String) -> std::fmt::Result {
        writeln!(out, "  Sub-topology: {number}")?;
        let nodes = self.sub_topologies().get(number).map(|s| s.nodes.iter().map(|n| n.0 as usize).collect());
        for at in self.ordered(nodes.unwrap_or_default(), sizes) {
            let Some(node) = self.0.nodes.get(at) else { continue };
            self.describe_node(node, sizes, out)?;
        }
        writeln!(out)
    }

    fn describe_node(&self, node: &NodeDef, sizes: &[u64], out: &mut String) -> std::fmt::Result {
        let stores = || {
            let name = |s: &usize| self.0.stores.get(*s).map(|s| s.name.as_str());
            node.spec.stores.iter().filter_map(name).collect::<Vec<_>>().join(", ")
        };
        match node.spec.kind {
            NodeKind::Source(at) => {
                let source = self.0.sources.get(at);
                let topics: Vec<_> = source.map(|s| s.topics.iter().map(|t| &*t.name).collect()).unwrap_or_default();
                writeln!(out, "    Source: {} (topics: [{}])", node.name, topics.join(", "))?;
            }
            NodeKind::Sink(at) => {
                let topic = self.0.sinks.get(at).map(|s| &*s.topic.name).unwrap_or_default();
                writeln!(out, "    Sink: {} (topic: {topic})", node.name)?;
            }
            NodeKind::Processor => writeln!(out, "    Processor: {} (stores: [{}])", node.name, stores())?,
        }
        if !matches!(node.spec.kind, NodeKind::Sink(_)) {
            writeln!(out, "      --> {}", self.names(&node.below().collect::<Vec<_>>(), sizes))?;
        }
        if !matches!(node.spec.kind, NodeKind::Source(_)) {
            writeln!(out, "      <-- {}", self.names(&node.spec.parents, sizes))?;
        }
        Ok(())
    }

    fn names(&self, nodes: &[usize], sizes: &[u64]) -> String {
        let names: Vec<_> = self
            .ordered(nodes.to_vec(), sizes)
            .into_iter()
            .filter_map(|at| self.0.nodes.get(at))
            .map(|n| &*n.name)
            .collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    fn ordered(&self, mut nodes: Vec<usize>, sizes: &[u64]) -> Vec<usize> {
        let size = |at: &usize| sizes.get(*at).copied().unwrap_or_default();
        let name = |at: &usize| self.0.nodes.get(*at).map(|n| n.name.clone());
        nodes.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| name(a).cmp(&name(b))));
        nodes
    }
}
