//! The cut between two sub-topologies: a null-key filter and a sink on one side, a source on the other.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::dsl::at::At;
use crate::graph::{CutEnds, NodeKind, NodeSpec, RepartitionEntry, SinkEntry, SourceEntry};
use crate::names::{self, prefix};
use crate::node::{Build, Built};
use crate::nodes::{Extractor, NullKeyFilter, Partitioner, SinkNode, SourceNode, StreamRoot, TopicChooser};
use crate::port::SinkIndex;
use crate::record::Record;
use crate::serde::{AnySerde, Coder};
use crate::topology::{SinkTopic, Topic};

/// A repartition topic and its two ends.
pub(crate) struct Cut<K, V> {
    /// What the topic is called after.
    pub(crate) base: String,
    pub(crate) key: AnySerde<K>,
    pub(crate) value: AnySerde<V>,
    pub(crate) partitions: Option<i32>,
    pub(crate) configs: BTreeMap<String, String>,
    pub(crate) partitioner: Option<Partitioner<K, V>>,
    /// Repartitions behind one change of the key may be one.
    pub(crate) mergeable: bool,
}

/// The numbers that Kafka Streams uses up for the three nodes, in its order.
pub(crate) struct CutNames {
    sink: String,
    filter: String,
    source: String,
}

impl CutNames {
    pub(crate) fn generate(at: &At) -> Self {
        let names = &mut at.graph().names;
        let sink = names.generate(prefix::STREAM_SINK);
        let filter = names.generate(prefix::FILTER);
        let source = names.generate(prefix::STREAM_SOURCE);
        Self { sink, filter, source }
    }
}

impl<K: 'static, V: 'static> Cut<K, V> {
    pub(crate) fn of(base: String, key: AnySerde<K>, value: AnySerde<V>) -> Self {
        Self { base, key, value, partitions: None, configs: BTreeMap::new(), partitioner: None, mergeable: true }
    }

    /// Adds the nodes behind `at`; the answer is the new source.
    pub(crate) fn add(self, at: &At, generated: CutNames) -> At {
        let (topic, fresh) = self.register(at);
        let names = if names::is_generated(&self.base) || !fresh {
            generated
        } else {
            let [sink, filter, source] = ["sink", "filter", "source"].map(|end| format!("{topic}-{end}"));
            CutNames { sink, filter, source }
        };
        let topic = Topic { name: topic, internal: true };
        let filter = self.filter(at, names.filter);
        let sink = self.sink(&at.moved(filter), names.sink, topic.clone());
        let source = self.source(at, names.source, topic);
        if let Some(entry) = at.graph().repartitions.last_mut().filter(|_| fresh) {
            entry.ends = Some(CutEnds { filter, sink, source });
        }
        at.moved(source)
    }

    /// Adds a sink and a source only, behind what forwards no null keys.
    pub(crate) fn add_unfiltered(self, at: &At, sink: String, source: String) -> At {
        let (topic, _) = self.register(at);
        let topic = Topic { name: topic, internal: true };
        self.sink(at, sink, topic.clone());
        at.moved(self.source(at, source, topic))
    }

    /// The topic's name; false if it is that of another one.
    fn register(&self, at: &At) -> (String, bool) {
        const SUFFIX: &str = "-repartition";
        let name = if self.base.ends_with(SUFFIX) { self.base.clone() } else { format!("{}{SUFFIX}", self.base) };
        let entry = RepartitionEntry {
            name: name.clone(),
            partitions: self.partitions,
            configs: self.configs.clone(),
            parent: at.node_name(),
            mergeable: self.mergeable,
            ends: None,
        };
        let fresh = at.graph().add_repartition(entry);
        (name, fresh)
    }

    fn filter(&self, at: &At, name: String) -> usize {
        let key = Coder::key(self.key.clone());
        let build: Build = Arc::new(move |b| {
            Ok(Built::node(NullKeyFilter::<K, V> { node: b.node, key: key.clone(), outs: b.outs()? }))
        });
        let spec = NodeSpec::processor(name, vec![at.node], build).keeping_key();
        at.graph().add::<Record<K, V>, Record<K, V>>(spec)
    }

    fn sink(&self, at: &At, name: String, topic: Topic) -> usize {
        add_sink(at, name, topic, self.key.clone(), self.value.clone(), self.partitioner.clone())
    }

    fn source(&self, at: &At, name: String, topic: Topic) -> usize {
        let (key, value) = (Coder::key(self.key.clone()), Coder::value(self.value.clone()));
        let build: Build = Arc::new(move |b| {
            let (key, value, extractor) = (key.clone(), value.clone(), Extractor::Fail);
            let (name, node, outs, reading) = (b.name.clone(), b.node, b.outs()?, PhantomData::<fn() -> StreamRoot>);
            Ok(Built::Root(Box::new(SourceNode { name, node, key, value, extractor, outs, reading })))
        });
        let mut graph = at.graph();
        let node = graph.nodes.len();
        let source = graph.add_source(SourceEntry {
            node,
            topics: vec![topic],
            key: self.key.identity(),
            timestamp_extractor: false,
            reset: None,
        });
        let mut spec = NodeSpec::processor(name, Vec::new(), build).keeping_key();
        spec.kind = NodeKind::Source(source);
        graph.add::<(), Record<K, V>>(spec)
    }
}

/// Adds a sink to one topic behind `at`; the answer is its node.
pub(crate) fn add_sink<K: 'static, V: 'static>(
    at: &At,
    name: String,
    topic: Topic,
    key: AnySerde<K>,
    value: AnySerde<V>,
    partitioner: Option<Partitioner<K, V>>,
) -> usize {
    let coders = (Coder::key(key), Coder::value(value));
    add_sink_to(&mut at.graph(), name, SinkTopic::Fixed(topic), vec![at.node], coders, partitioner.into())
}

/// What a sink lets the user choose for each record.
pub(crate) struct Choice<K, V> {
    pub(crate) partitioner: Option<Partitioner<K, V>>,
    pub(crate) topic: Option<TopicChooser<K, V>>,
}

impl<K, V> From<Option<Partitioner<K, V>>> for Choice<K, V> {
    fn from(partitioner: Option<Partitioner<K, V>>) -> Self {
        Self { partitioner, topic: None }
    }
}

/// Adds a sink.
pub(crate) fn add_sink_to<K: 'static, V: 'static>(
    graph: &mut crate::graph::Graph,
    name: String,
    topic: SinkTopic,
    parents: Vec<usize>,
    (key, value): (Coder<K>, Coder<V>),
    choice: Choice<K, V>,
) -> usize {
    let by_part = !matches!(&topic, SinkTopic::Fixed(topic) if topic.internal);
    let node = graph.nodes.len();
    let at = graph.add_sink(SinkEntry { node, topic, partitioner: choice.partitioner.is_some() });
    let Choice { partitioner, topic } = choice;
    let build: Build = Arc::new(move |b| {
        let (name, sink, key, value) = (b.name.clone(), SinkIndex(b.number), key.clone(), value.clone());
        let (partitioner, topic) = (partitioner.clone(), topic.clone());
        let reuse = key.identity().is_same(b.origin);
        Ok(Built::node(SinkNode { name, sink, key, value, partitioner, topic, reuse, by_part }))
    });
    let mut spec = NodeSpec::processor(name, parents, build);
    spec.kind = NodeKind::Sink(at);
    graph.add::<Record<K, V>, ()>(spec)
}
