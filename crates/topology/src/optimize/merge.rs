//! One repartition topic in place of several, right behind the operator that changes the key.
//!
//! Kafka Streams' `maybeOptimizeRepartitionOperations`: all repartitions that lead up to one operator that changes the key,
//! through such as change neither keys nor values, become the first of them, moved up to that operator; what stood between goes
//! behind the topic.

use std::collections::{BTreeMap, BTreeSet};

use crate::freeze::order;
use crate::graph::{CutEnds, Effect, Graph, NodeDef, NodeKind};

/// Moves and merges repartitions, and puts the nodes into an order again in which parents come first.
pub(crate) fn merge_repartitions(graph: &mut Graph) {
    let mut behind: BTreeMap<usize, Vec<Way>> = BTreeMap::new();
    for (cut, entry) in graph.repartitions.iter().enumerate() {
        let Some(ends) = entry.ends.filter(|_| entry.mergeable) else { continue };
        if let Some((changer, between)) = way_up(&graph.nodes, ends.filter)
            && (between.is_empty() || !names_children(&graph.nodes, changer))
        {
            behind.entry(changer).or_default().push(Way { cut, ends, between });
        }
    }
    let mut gone = Gone::default();
    for (changer, mut ways) in behind {
        leave_forked(&graph.nodes, &mut ways);
        if ways.len() > 1 || ways.iter().any(|way| !way.between.is_empty()) {
            merge(graph, changer, &ways, &mut gone);
        }
    }
    if gone.moved {
        renumber(graph, &gone);
    }
}

/// A repartition, and the nodes between the operator that changes the key and its first node, from top to bottom.
struct Way {
    cut: usize,
    ends: CutEnds,
    between: Vec<usize>,
}

/// What there is no more, and whether anything has moved.
#[derive(Default)]
struct Gone {
    nodes: Vec<usize>,
    repartitions: Vec<usize>,
    moved: bool,
}

/// The nearest node above that changes the key, or where streams were merged, and what is between; none if a value changes
/// there: nobody knows how to write what it was before.
fn way_up(nodes: &[NodeDef], from: usize) -> Option<(usize, Vec<usize>)> {
    let mut between = Vec::new();
    let mut at = *nodes.get(from)?.spec.parents.first()?;
    loop {
        let spec = &nodes.get(at)?.spec;
        match (spec.effect, spec.parents.as_slice()) {
            (Effect::Key, _) | (Effect::Nothing, [_, _, ..]) => break,
            (Effect::Nothing, [parent]) => {
                between.push(at);
                at = *parent;
            }
            _ => return None,
        }
    }
    between.reverse();
    Some((at, between))
}

/// What moves behind the topic is no child any more: a processor that has asked for it by its name would not find it, and one that
/// chooses among its children would have to choose among the records of one topic.
fn names_children(nodes: &[NodeDef], changer: usize) -> bool {
    nodes.get(changer).is_some_and(|node| node.spec.names_children)
}

/// Leaves those alone on whose way something else begins: behind the topic it would miss the records without a key.
fn leave_forked(nodes: &[NodeDef], ways: &mut Vec<Way>) {
    loop {
        let before = ways.len();
        let leads_on: BTreeSet<usize> =
            ways.iter().flat_map(|way| way.between.iter().copied().chain([way.ends.filter])).collect();
        let forks = |node: &usize| nodes.get(*node).is_some_and(|n| n.below().any(|child| !leads_on.contains(&child)));
        ways.retain(|way| !way.between.iter().any(forks));
        if ways.len() == before {
            return;
        }
    }
}

/// The first repartition moves up, the others go. What stood before a topic stands behind it, and what stood behind follows.
fn merge(graph: &mut Graph, changer: usize, ways: &[Way], gone: &mut Gone) {
    let Some(Way { cut: first, ends: kept, .. }) = ways.first() else { return };
    for way in ways {
        let followers = take_children(graph, way.ends.source);
        let last = match way.between.as_slice() {
            [] => kept.source,
            [.., last] => *last,
        };
        disconnect(graph, way.between.last().copied().unwrap_or(changer), way.ends.filter);
        if let Some(top) = way.between.first() {
            reparent(graph, *top, changer, kept.source);
        }
        for node in followers {
            reparent(graph, node, way.ends.source, last);
        }
        copy_clone(graph, way.ends.source, last);
        if way.cut != *first {
            gone.nodes.extend([way.ends.filter, way.ends.sink, way.ends.source]);
            gone.repartitions.push(way.cut);
        }
    }
    copy_clone(graph, changer, kept.source);
    if let Some(filter) = graph.nodes.get_mut(kept.filter) {
        filter.spec.parents = vec![changer];
    }
    if let Some(node) = graph.nodes.get_mut(changer) {
        node.children.push(kept.filter);
        let name = node.name.to_string();
        graph.repartitions.get_mut(*first).into_iter().for_each(|cut| cut.parent.clone_from(&name));
    }
    gone.moved = true;
}

fn take_children(graph: &mut Graph, node: usize) -> Vec<usize> {
    graph.nodes.get_mut(node).map(|n| std::mem::take(&mut n.children)).unwrap_or_default()
}

fn disconnect(graph: &mut Graph, parent: usize, child: usize) {
    if let Some(parent) = graph.nodes.get_mut(parent) {
        parent.children.retain(|c| *c != child);
    }
}

/// Gives a child another parent, in the place of the former.
fn reparent(graph: &mut Graph, child: usize, from: usize, to: usize) {
    disconnect(graph, from, child);
    if let Some(node) = graph.nodes.get_mut(child) {
        node.spec.parents.iter_mut().filter(|p| **p == from).for_each(|p| *p = to);
    }
    if let Some(node) = graph.nodes.get_mut(to).filter(|n| !n.children.contains(&child)) {
        node.children.push(child);
    }
}

/// A node that gets several children copies messages as the node did that had them before: both forward the same type.
fn copy_clone(graph: &mut Graph, from: usize, to: usize) {
    let clone = graph.nodes.get(from).and_then(|n| n.clone.clone());
    if let Some(node) = graph.nodes.get_mut(to).filter(|n| n.clone.is_none()) {
        node.clone = clone;
    }
}

/// Leaves out what is gone, and numbers the rest so that parents come before their children: otherwise as they were.
fn renumber(graph: &mut Graph, gone: &Gone) {
    let order: Vec<usize> = order(graph).into_iter().filter(|n| !gone.nodes.contains(n)).collect();
    let mut place: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for (new, old) in order.iter().enumerate() {
        if let Some(slot) = place.get_mut(*old) {
            *slot = Some(new);
        }
    }
    let at = |old: usize| place.get(old).copied().flatten();
    let mut old: Vec<Option<NodeDef>> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    graph.nodes = order.iter().filter_map(|o| old.get_mut(*o).and_then(Option::take)).collect();
    graph.sources.retain(|s| at(s.node).is_some());
    graph.sinks.retain(|s| at(s.node).is_some());
    graph.sources.iter_mut().for_each(|s| s.node = at(s.node).unwrap_or(s.node));
    graph.sinks.iter_mut().for_each(|s| s.node = at(s.node).unwrap_or(s.node));
    for (number, source) in graph.sources.iter().enumerate() {
        if let Some(node) = graph.nodes.get_mut(source.node) {
            node.spec.kind = NodeKind::Source(number);
        }
    }
    for (number, sink) in graph.sinks.iter().enumerate() {
        if let Some(node) = graph.nodes.get_mut(sink.node) {
            node.spec.kind = NodeKind::Sink(number);
        }
    }
    for node in &mut graph.nodes {
        node.children = node.children.iter().filter_map(|c| at(*c)).collect();
        node.spec.parents = node.spec.parents.iter().filter_map(|p| at(*p)).collect();
        node.side = node.side.and_then(at);
    }
    graph.stores.iter_mut().for_each(|s| s.owner = s.owner.and_then(at));
    graph.copartitioned.iter_mut().for_each(|group| *group = group.iter().filter_map(|n| at(*n)).collect());
    let mut number = 0..;
    graph.repartitions.retain(|_| number.next().is_some_and(|n| !gone.repartitions.contains(&n)));
}
