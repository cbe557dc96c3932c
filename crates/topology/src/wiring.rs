//! From a finished topology to the graph of one task: children first, one downcast per edge.

use std::any::Any;

use crate::error::{Error, ErrorKind, Result};
use crate::graph::NodeKind;
use crate::node::{BuildCx, Built, Root, Slot};
use crate::port::{NodeIndex, Port};
use crate::task::{TaskGraph, Way};
use crate::topology::{Topology, index};

impl Topology {
    /// Builds the graph of a task of this sub-topology: calls the processors' suppliers and starts their timers at `port`.
    ///
    /// The graph is `Send`: it belongs to one thread at a time.
    ///
    /// # Errors
    ///
    /// What a supplier gives back, with the node's name; [`ErrorKind::Topology`] for a number that is no sub-topology.
    pub fn task(&self, sub: u32, port: &mut dyn Port) -> Result<TaskGraph> {
        let Some(part) = self.sub_topologies().get(sub as usize) else {
            return Err(Error::new(ErrorKind::Topology, "build a task").with("sub_topology", sub));
        };
        let mut wiring = Wiring::new(self);
        for node in part.nodes.iter().rev() {
            wiring.build(node.0 as usize, port)?;
        }
        let ways = wiring.ways(&part.nodes);
        let owners = self.stores().iter().map(|s| s.owner.filter(|_| s.sub == sub)).collect();
        let awaits = |n: &&NodeIndex| self.0.facts.get(n.0 as usize).is_some_and(|facts| !facts.caches.is_empty());
        let awaiting = part.nodes.iter().filter(awaits).copied().collect();
        let lets_through = |n: &&NodeIndex| self.0.nodes.get(n.0 as usize).is_some_and(|node| node.spec.lets_through);
        let due = part.nodes.iter().filter(lets_through).copied().collect();
        Ok(TaskGraph::new(self.0.id, wiring.roots, ways, owners, (awaiting, due), wiring.shared))
    }
}

struct Wiring<'a> {
    topology: &'a Topology,
    built: Vec<Slot>,
    /// For nodes with several parents: where they lie.
    slots: Vec<Option<usize>>,
    shared: Vec<Slot>,
    roots: Vec<Option<Box<dyn Root>>>,
}

impl<'a> Wiring<'a> {
    fn new(topology: &'a Topology) -> Self {
        let count = topology.0.nodes.len();
        Self {
            topology,
            built: (0..count).map(|_| None).collect(),
            slots: vec![None; count],
            shared: Vec::new(),
            roots: topology.sources().iter().map(|_| None).collect(),
        }
    }

    fn build(&mut self, at: usize, port: &mut dyn Port) -> Result {
        let topology = self.topology;
        let (Some(node), Some(facts)) = (topology.0.nodes.get(at), topology.0.facts.get(at)) else {
            return Err(broken("no such node"));
        };
        let mut children = Vec::with_capacity(node.children.len());
        for child in &node.children {
            children.push(self.edge(*child)?);
        }
        let side = node.side.map(|side| self.edge(side)).transpose()?;
        let names = node.children.iter().filter_map(|c| topology.0.nodes.get(*c)).map(|n| &*n.name).collect();
        let mut cx = BuildCx {
            name: &node.name,
            node: NodeIndex(index(at)),
            names,
            children,
            side,
            clone: node.clone.as_deref(),
            origin: facts.origin,
            wants_old: facts.wants_old,
            has_old: facts.has_old,
            number: match node.spec.kind {
                NodeKind::Source(number) | NodeKind::Sink(number) => index(number),
                NodeKind::Processor => 0,
            },
            tells_finals: facts.tells_finals,
            behind_cache: facts.caches.iter().any(|store| port.cached(*store)),
            port,
        };
        let built = (node.spec.build)(&mut cx).map_err(|e| e.at(&node.name))?;
        match (built, node.spec.kind) {
            (Built::Root(root), NodeKind::Source(source)) => {
                let place = self.roots.get_mut(source).ok_or_else(|| broken("no such source"))?;
                *place = Some(root);
            }
            (Built::Node(node), _) => {
                let place = self.built.get_mut(at).ok_or_else(|| broken("no such node"))?;
                *place = Some(node);
            }
            (Built::Root(_), _) => return Err(broken("a source that is none")),
        }
        Ok(())
    }

    /// What a parent owns of a child: the child itself, or the edge to a shared one.
    fn edge(&mut self, child: usize) -> Result<Box<dyn Any + Send>> {
        let node = self.topology.0.nodes.get(child).ok_or_else(|| broken("no such child"))?;
        let built = self.built.get_mut(child).and_then(Option::take);
        if node.spec.parents.len() == 1 {
            return built.ok_or_else(|| broken("a child was not built"));
        }
        let slot = self.slots.get_mut(child).ok_or_else(|| broken("no such child"))?;
        if built.is_some() {
            *slot = Some(self.shared.len());
            self.shared.push(built);
        }
        slot.map(node.edge).ok_or_else(|| broken("a shared child was not built"))
    }

    /// The way to each node from one of its sources, by child numbers; what lies at a node's side comes after its children.
    fn ways(&self, nodes: &[NodeIndex]) -> Vec<Option<Way>> {
        let all = &self.topology.0.nodes;
        let mut ways: Vec<Option<Way>> = vec![None; all.len()];
        for at in nodes.iter().map(|n| n.0 as usize) {
            let Some(node) = all.get(at) else { continue };
            if let (NodeKind::Source(source), Some(way)) = (node.spec.kind, ways.get_mut(at)) {
                *way = Some(Way { source, path: Vec::new() });
            }
            let Some(here) = ways.get(at).cloned().flatten() else { continue };
            for (number, child) in node.below().enumerate() {
                let Ok(number) = u16::try_from(number) else { continue };
                if let Some(way) = ways.get_mut(child) {
                    let mut next = here.clone();
                    next.path.push(number);
                    *way = Some(next);
                }
            }
        }
        ways
    }
}

#[cold]
fn broken(cause: &'static str) -> Error {
    Error::new(ErrorKind::Topology, "build a task").with("cause", cause)
}
