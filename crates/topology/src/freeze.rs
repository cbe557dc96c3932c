//! From a definition to a finished topology: the checks that need all of it, and what each node learns from its place.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, NodeDef, NodeKind};
use crate::optimize::{ReusedTopic, merge_repartitions};
use crate::port::{NodeIndex, SinkIndex, SourceIndex, StoreIndex};
use crate::problem::{BuildError, ProblemKind};
use crate::serde::SerdeId;
use crate::store::{Logging, StoreDef};
use crate::topology::{Facts, Inner, InternalTopic, InternalTopicKind, SinkDef, SourceDef, SubTopology, Topic, index};

/// How many nodes a record may pass in one task. A record goes down the stack, and the stack of a thread is 2 MiB at least.
const MAX_DEPTH: usize = 500;

/// Checks a definition as a whole and freezes it.
pub(crate) fn freeze(mut graph: Graph) -> Result<Inner, BuildError> {
    let defined = order(&graph);
    check_shape(&mut graph, &defined);
    check_fan_out(&mut graph);
    check_parents(&mut graph);
    let users = store_users(&graph);
    check_stores(&mut graph, &users);
    check_names(&mut graph);
    if !graph.problems.is_empty() {
        return Err(BuildError::new(graph.problems));
    }
    if graph.optimization.merge {
        merge_repartitions(&mut graph);
    }
    let (order, users) = (order(&graph), store_users(&graph));
    let node_subs = number(&graph);
    let origins = origins(&graph);
    let facts = facts(&graph, &origins);
    let stores = stores(&graph, &users, &node_subs);
    let sources = sources(&graph, &node_subs, &origins);
    let sinks = graph.sinks.iter().map(|s| sink(&graph, s, &node_subs)).collect();
    let subs = sub_topologies(&graph, &node_subs, &users, &order);
    let reused = reused(&graph);
    let internal = internal_topics(&graph, &stores, &reused);
    let copartitioned = copartitioned(&graph);
    Ok(Inner { id: graph.id, nodes: graph.nodes, facts, sources, sinks, stores, reused, subs, internal, copartitioned })
}

/// The nodes, parents before their children: in the order they were added, but for those that take what windows defined later
/// put aside.
pub(crate) fn order(graph: &Graph) -> Vec<usize> {
    let mut waits_for: Vec<usize> = graph.nodes.iter().map(|n| n.spec.parents.len()).collect();
    let mut ready: BTreeSet<usize> = waits_for.iter().enumerate().filter(|(_, n)| **n == 0).map(|(at, _)| at).collect();
    let mut order = Vec::with_capacity(graph.nodes.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for child in graph.nodes.get(at).into_iter().flat_map(|n| n.below()) {
            let Some(waits) = waits_for.get_mut(child) else { continue };
            *waits = waits.saturating_sub(1);
            if *waits == 0 {
                ready.insert(child);
            }
        }
    }
    order
}

fn check_shape(graph: &mut Graph, order: &[usize]) {
    if graph.sources.is_empty() {
        graph.problem(ProblemKind::Shape, "the topology reads no topic".to_owned());
    }
    let mut depths = vec![0; graph.nodes.len()];
    let mut too_deep = None;
    for (at, node) in order.iter().filter_map(|at| Some((*at, graph.nodes.get(*at)?))) {
        let above = node.spec.parents.iter().filter_map(|p| depths.get(*p)).max().copied().unwrap_or(0);
        if let Some(depth) = depths.get_mut(at) {
            *depth = above + 1;
        }
        if above >= MAX_DEPTH && too_deep.is_none() {
            too_deep = Some(node.name.clone());
        }
    }
    if let Some(name) = too_deep {
        let message =
            format!("`{name}` is more than {MAX_DEPTH} nodes away from its source; put a repartition between");
        graph.problem(ProblemKind::Shape, message);
    }
}

/// The late records of windows that were never aggregated come from nowhere.
fn check_parents(graph: &mut Graph) {
    let lost = |n: &&crate::graph::NodeDef| n.spec.kind == NodeKind::Processor && n.spec.parents.is_empty();
    // A parent that was not found was reported already.
    if graph.problems.is_empty()
        && let Some(name) = graph.nodes.iter().find(lost).map(|n| n.name.clone())
    {
        let message = format!("`{name}` takes the late records of windows that nothing is made of; aggregate them");
        graph.problem(ProblemKind::Shape, message);
    }
}

/// Streams ask for `Clone` where they are cloned; parents that are named by strings can only be checked here.
fn check_fan_out(graph: &mut Graph) {
    let several = |n: &&crate::graph::NodeDef| n.children.len() > 1 && n.clone.is_none() && !n.spec.routes;
    let names: Vec<_> = graph.nodes.iter().filter(several).map(|n| n.name.clone()).collect();
    for name in names {
        let message =
            format!("`{name}` has several children, so its output must be `Clone`; fan out by cloning the stream");
        graph.problem(ProblemKind::TypeMismatch, message);
    }
}

/// For each store the nodes that use it, in order.
fn store_users(graph: &Graph) -> Vec<Vec<usize>> {
    let uses = |store: usize| move |(_, n): &(usize, &crate::graph::NodeDef)| n.spec.stores.contains(&store);
    (0..graph.stores.len())
        .map(|store| graph.nodes.iter().enumerate().filter(uses(store)).map(|(at, _)| at).collect())
        .collect()
}

fn check_stores(graph: &mut Graph, users: &[Vec<usize>]) {
    // Of a name that is taken twice was told when it was taken; both are one store to the reader.
    let twice = |name: &str| graph.stores.iter().filter(|s| s.def.name == name).count() > 1;
    let unused = graph.stores.iter().zip(users).filter(|(s, users)| users.is_empty() && !twice(&s.def.name));
    let unused: Vec<_> = unused.map(|(s, _)| s.def.name.clone()).collect();
    for name in unused {
        graph
            .problem(ProblemKind::Store, format!("no processor uses the store `{name}`; connect one, or leave it out"));
    }
}

fn check_names(graph: &mut Graph) {
    if !graph.explicit_names {
        return;
    }
    let store = |store: &crate::graph::StoreEntry| {
        let (name, by) = (&store.def.name, &store.by);
        let message = format!(
            "the store `{name}` of {by} has a generated name, which shifts when operators are added before it; name it, \
             for example in `Materialized`"
        );
        graph.names.is_made(name).then_some(message)
    };
    let topic = |topic: &crate::graph::RepartitionEntry| {
        let (name, parent) = (&topic.name, &topic.parent);
        let message = format!(
            "the repartition topic `{name}` behind `{parent}` has a generated name, which shifts when operators are added \
             before it; name the grouping (`Grouped`), the repartition (`Repartitioned`) or the operator (`named`) behind it"
        );
        graph.names.is_made(name).then_some(message)
    };
    let found: Vec<_> =
        graph.stores.iter().filter_map(store).chain(graph.repartitions.iter().filter_map(topic)).collect();
    found.into_iter().for_each(|message| graph.problem(ProblemKind::GeneratedName, message));
}

/// The sub-topology of each node: connected by edges or stores, numbered by first appearance.
fn number(graph: &Graph) -> Vec<u32> {
    let nodes = graph.nodes.len();
    let mut roots: Vec<usize> = (0..nodes + graph.stores.len()).collect();
    for (at, node) in graph.nodes.iter().enumerate() {
        let stores = node.spec.stores.iter().map(|s| nodes + s);
        for other in node.spec.parents.iter().copied().chain(stores) {
            let (a, b) = (find(&mut roots, at), find(&mut roots, other));
            if let Some(root) = roots.get_mut(a.max(b)) {
                *root = a.min(b);
            }
        }
    }
    let mut numbers = BTreeMap::new();
    let mut number_of = |root: usize| {
        let next = index(numbers.len());
        *numbers.entry(root).or_insert(next)
    };
    (0..nodes).map(|at| number_of(find(&mut roots, at))).collect()
}

fn find(roots: &mut [usize], mut at: usize) -> usize {
    while let Some(&up) = roots.get(at)
        && up != at
    {
        at = up;
    }
    at
}

/// For each node: the identity of the serde that wrote the source key's bytes, while the key is the source's on all ways.
fn origins(graph: &Graph) -> Vec<SerdeId> {
    let mut forwards: Vec<SerdeId> = Vec::with_capacity(graph.nodes.len());
    let mut receives = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let mut parents = node.spec.parents.iter().filter_map(|p| forwards.get(*p).copied());
        let origin = match node.spec.kind {
            NodeKind::Source(at) => graph.sources.get(at).map_or(SerdeId::UNKNOWN, |s| s.key),
            _ => match parents.next() {
                Some(first) if parents.all(|p| p.is_same(first)) => first,
                _ => SerdeId::UNKNOWN,
            },
        };
        receives.push(origin);
        forwards.push(if node.spec.keeps_key { origin } else { SerdeId::UNKNOWN });
    }
    receives
}

fn facts(graph: &Graph, origins: &[SerdeId]) -> Vec<Facts> {
    let mut wants = vec![false; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate().rev() {
        let asked = node.children.iter().any(|c| {
            let old = graph.nodes.get(*c).map(|n| n.spec.old).unwrap_or_default();
            old.asks || (old.passes && wants.get(*c).copied().unwrap_or(false))
        });
        if let Some(want) = wants.get_mut(at) {
            *want = asked;
        }
    }
    let finals = finals(graph);
    let mut gives: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    let mut all = Vec::with_capacity(graph.nodes.len());
    for (((node, &origin), &wants_old), &tells_finals) in graph.nodes.iter().zip(origins).zip(&wants).zip(&finals) {
        let mut parents = node.spec.parents.iter().map(|p| gives.get(*p).copied().unwrap_or(false)).peekable();
        let has_old = parents.peek().is_some() && parents.all(|p| p);
        gives.push(node.spec.old.gives || (node.spec.old.passes && has_old));
        let caches = if node.spec.awaits_drain { caches_above(graph, node) } else { Vec::new() };
        all.push(Facts { origin, wants_old, tells_finals, has_old, caches });
    }
    all
}

/// For each node whether the windows of its table are told of once, when they are closed: by a node behind it, with nothing but
/// operators of tables between.
fn finals(graph: &Graph) -> Vec<bool> {
    let mut finals = vec![false; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate().rev() {
        let told = node.children.iter().any(|c| {
            let behind = finals.get(*c).copied().unwrap_or(false);
            let is_table = |n: &crate::graph::NodeDef| n.spec.old.passes || n.spec.old.gives;
            graph.nodes.get(*c).is_some_and(|n| n.spec.tells_finals || (behind && is_table(n)))
        });
        if let Some(place) = finals.get_mut(at) {
            *place = told;
        }
    }
    finals
}

/// The stores of the nodes above this one, up to their sources, which forward updates when they are drained.
fn caches_above(graph: &Graph, node: &NodeDef) -> Vec<StoreIndex> {
    let mut found = Vec::new();
    for_each_above(graph, &node.spec.parents, |at, _| {
        // Asked of the stores: the owner of several streams' aggregation is where they meet, which uses none itself.
        let holds_back = graph.stores.iter().map(|s| s.owner == Some(at) && s.def.caching);
        found.extend(indices(holds_back).map(StoreIndex));
    });
    found
}

/// These nodes and all above them, each once.
fn for_each_above(graph: &Graph, from: &[usize], mut visit: impl FnMut(usize, &NodeDef)) {
    let mut todo = from.to_vec();
    let mut seen = vec![false; graph.nodes.len()];
    while let Some(at) = todo.pop() {
        let (Some(node), Some(seen)) = (graph.nodes.get(at), seen.get_mut(at)) else { continue };
        if !std::mem::replace(seen, true) {
            visit(at, node);
            todo.extend(&node.spec.parents);
        }
    }
}

fn sub_of(subs: &[u32], node: usize) -> u32 {
    subs.get(node).copied().unwrap_or_default()
}

fn stores(graph: &Graph, users: &[Vec<usize>], subs: &[u32]) -> Vec<StoreDef> {
    let finish = |(entry, users): (&crate::graph::StoreEntry, &Vec<usize>)| {
        let mut def = entry.def.clone();
        def.sub = users.first().map_or(0, |user| sub_of(subs, *user));
        let has_children = |node: &usize| graph.nodes.get(*node).is_some_and(|n| !n.children.is_empty());
        def.owner = entry.owner.filter(has_children).map(index).map(NodeIndex);
        def
    };
    graph.stores.iter().zip(users).map(finish).collect()
}

fn sources(graph: &Graph, subs: &[u32], origins: &[SerdeId]) -> Vec<SourceDef> {
    let source = |entry: &crate::graph::SourceEntry| SourceDef {
        name: graph.nodes.get(entry.node).map_or_else(|| "".into(), |n| n.name.clone()),
        topics: entry.topics.clone(),
        sub: sub_of(subs, entry.node),
        timestamp_extractor: entry.timestamp_extractor,
        reset: entry.reset,
        lookups: Vec::new(),
    };
    let mut sources: Vec<_> = graph.sources.iter().map(source).collect();
    for (node, origin) in graph.nodes.iter().zip(origins) {
        let Some((store, _)) = node.spec.lookup.filter(|(_, id)| id.is_same(*origin)) else { continue };
        for at in key_sources(graph, &node.spec.parents) {
            let Some(source) = sources.get_mut(at) else { continue };
            let store = StoreIndex(index(store));
            if !source.lookups.contains(&store) {
                source.lookups.push(store);
            }
        }
    }
    sources
}

/// The sources above these nodes; called only where the key is unchanged on all ways.
fn key_sources(graph: &Graph, from: &[usize]) -> Vec<usize> {
    let mut found = Vec::new();
    for_each_above(graph, from, |_, node| {
        if let NodeKind::Source(source) = node.spec.kind {
            found.push(source);
        }
    });
    found
}

/// The topics whose partition counts must be the same: each is in one group, since groups that share a topic are one.
fn copartitioned(graph: &Graph) -> Vec<Vec<Topic>> {
    let topics = |nodes: &Vec<usize>| -> Vec<Topic> {
        let sources = key_sources(graph, nodes).into_iter().filter_map(|source| graph.sources.get(source));
        sources.flat_map(|source| source.topics.iter().cloned()).collect()
    };
    let mut groups: Vec<Vec<Topic>> = Vec::new();
    for mut group in graph.copartitioned.iter().map(topics) {
        let shared = |other: &mut Vec<Topic>| other.iter().any(|topic| group.contains(topic));
        let mut joined: Vec<Topic> = groups.extract_if(.., shared).flatten().collect();
        group.retain(|topic| !joined.contains(topic));
        joined.append(&mut group);
        groups.push(joined);
    }
    groups
}

fn sink(graph: &Graph, entry: &crate::graph::SinkEntry, subs: &[u32]) -> SinkDef {
    SinkDef {
        name: graph.nodes.get(entry.node).map_or_else(|| "".into(), |n| n.name.clone()),
        topic: entry.topic.clone(),
        sub: sub_of(subs, entry.node),
        partitioner: entry.partitioner,
    }
}

fn sub_topologies(graph: &Graph, subs: &[u32], users: &[Vec<usize>], nodes: &[usize]) -> Vec<SubTopology> {
    let count = subs.iter().max().map_or(0, |last| last + 1);
    let of = |sub: u32, node: usize| sub_of(subs, node) == sub;
    let mut order: Vec<usize> = (0..graph.stores.len()).collect();
    // A drained store's entries go out at its owner, so the owners' order is the stores'; the others forward nothing.
    let place = |store: &usize| {
        let owner = graph.stores.get(*store).and_then(|s| s.owner);
        owner.or_else(|| users.get(*store).and_then(|u| u.last().copied()))
    };
    order.sort_by_key(place);
    let sub = |sub: u32| SubTopology {
        sources: indices(graph.sources.iter().map(|s| of(sub, s.node))).map(SourceIndex).collect(),
        sinks: indices(graph.sinks.iter().map(|s| of(sub, s.node))).map(SinkIndex).collect(),
        stores: order
            .iter()
            .filter(|s| place(s).is_some_and(|node| of(sub, node)))
            .map(|s| StoreIndex(index(*s)))
            .collect(),
        nodes: nodes.iter().filter(|n| of(sub, **n)).map(|n| NodeIndex(index(*n))).collect(),
    };
    (0..count).map(sub).collect()
}

fn indices(chosen: impl Iterator<Item = bool>) -> impl Iterator<Item = u32> {
    chosen.enumerate().filter(|(_, yes)| *yes).map(|(at, _)| index(at))
}

/// For each store the source topic that is its changelog.
fn reused(graph: &Graph) -> Vec<Option<ReusedTopic>> {
    let of = |store: &crate::graph::StoreEntry| {
        let is_logged = matches!(store.def.logging, Logging::Enabled { .. });
        let owner = store.owner.filter(|_| graph.optimization.reuse && is_logged)?;
        graph.nodes.get(owner)?.reusable.clone()
    };
    graph.stores.iter().map(of).collect()
}

fn internal_topics(graph: &Graph, stores: &[StoreDef], reused: &[Option<ReusedTopic>]) -> Vec<InternalTopic> {
    let repartition = |entry: &crate::graph::RepartitionEntry| InternalTopic {
        topic: Topic { name: entry.name.clone(), internal: true },
        kind: InternalTopicKind::Repartition,
        partitions: entry.partitions,
        configs: entry.configs.clone(),
    };
    let changelog = |(at, store): (usize, &StoreDef)| match &store.logging {
        _ if reused.get(at).is_some_and(Option::is_some) => None,
        Logging::Disabled => None,
        Logging::Enabled { topic_configs } => Some(InternalTopic {
            topic: Topic { name: format!("{}-changelog", store.name), internal: true },
            kind: InternalTopicKind::Changelog(StoreIndex(index(at))),
            partitions: None,
            configs: topic_configs.clone(),
        }),
    };
    graph.repartitions.iter().map(repartition).chain(stores.iter().enumerate().filter_map(changelog)).collect()
}
