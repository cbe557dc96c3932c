//! Where a topology is defined: sources, stores, and the Processor API with parents by name.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::context::Init;
use crate::dsl::{
    At, Consumed, Deletes, Kept, Materialized, Produced, Shared, Stream, Table, UpdateNames, add_sink_to, declare,
    processor_spec, table_of_updates,
};
use crate::error::Result;
use crate::freeze::freeze;
use crate::graph::{NodeKind, NodeSpec, SourceEntry};
use crate::names::prefix;
use crate::node::{Build, Built};
use crate::nodes::{Reading, SourceNode, StreamRoot, TableRoot};
use crate::optimize::{Optimization, ReusedTopic};
use crate::problem::{BuildError, ProblemKind};
use crate::processor::Processor;
use crate::record::Record;
use crate::serde::{Coder, Serde};
use crate::store::{KeyValue, StoreFormat, StoreHandle, StoreKind, StoreSet, StoreSpec, TimestampedKeyValue};
use crate::topology::{SinkTopic, Topic, Topology};

/// Defines a topology. Mistakes are collected and reported together by [`Builder::build`].
///
/// ```
/// use millpond_topology::*;
///
/// let mut topology = Topology::builder();
/// topology
///     .stream("words", Consumed::with(Utf8, Utf8))
///     .group_by(|_, word| word.clone(), Grouped::named("by-word").key(Utf8))
///     .count(Materialized::named("counts"))
///     .to_stream()
///     .to("word-counts", Produced::with(Utf8, I64));
/// let topology = topology.build()?;
/// assert_eq!(topology.sub_topologies().len(), 2);
/// # Ok::<(), BuildError>(())
/// ```
#[derive(Default)]
pub struct Builder(Shared);

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let graph = self.0.borrow();
        f.debug_struct("Builder").field("nodes", &graph.nodes.len()).field("problems", &graph.problems.len()).finish()
    }
}

impl Builder {
    /// In which format the DSL's stores keep their rows: `dsl.store.format`. To be said before the first source is added.
    ///
    /// With [`StoreFormat::Headers`], the rows of tables and aggregations are in the format with headers and have none, as Kafka
    /// Streams documents it for `HEADERS` (KIP-1285). With [`StoreFormat::LastHeaders`] a row keeps the headers of its last
    /// update; they are in the changelog as well, and results that a cache holds back come with them. Either format has the
    /// buffers of suppressions log the headers of old values. Versioned tables and those with a time to live are in the plain
    /// format always.
    pub fn store_format(&mut self, format: StoreFormat) -> &mut Self {
        let mut graph = self.0.borrow_mut();
        if let Some(first) = graph.nodes.first().map(|node| node.name.clone()) {
            let message = format!("the format of stores is set after `{first}` was added; set it before all else");
            graph.problem(ProblemKind::Store, message);
        }
        graph.format = format;
        drop(graph);
        self
    }

    /// Reads a topic as a stream of records.
    pub fn stream<K: 'static, V: 'static>(&mut self, topic: &str, consumed: Consumed<K, V>) -> Stream<K, V> {
        self.stream_of(&[topic], consumed)
    }

    /// Reads several topics as one stream of records.
    pub fn stream_of<K: 'static, V: 'static>(&mut self, topics: &[&str], mut consumed: Consumed<K, V>) -> Stream<K, V> {
        let name = self.0.borrow_mut().names.choose(consumed.name.take(), prefix::STREAM_SOURCE);
        self.add_stream(name, topics, consumed)
    }

    /// Reads a topic as a table: the last value of each key; a null value deletes the row.
    ///
    /// The table has no store, since nothing here needs its rows; see [`Builder::table_materialized`].
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn table<K: 'static, V: 'static>(&mut self, topic: &str, consumed: Consumed<K, V>) -> Table<K, V, Deletes> {
        self.table_materialized(topic, consumed, Materialized::default())
    }

    /// As [`Builder::table`], and keeps the rows in a store if `materialized` has a name. Of several updates the one that
    /// comes last wins, even if its event time is earlier.
    pub fn table_materialized<K: 'static, V: 'static>(
        &mut self,
        topic: &str,
        mut consumed: Consumed<K, V>,
        materialized: Materialized<K, V>,
    ) -> Table<K, V, Deletes> {
        let user = consumed.name.take();
        let (source, table) = {
            let names = &mut self.0.borrow_mut().names;
            let store = materialized.name.clone().unwrap_or_else(|| names.store(&format!("{topic}-")));
            let source = names.choose(user.as_ref().map(|name| format!("{name}-source")), prefix::STREAM_SOURCE);
            (source, UpdateNames { node: names.choose(user, prefix::TABLE_SOURCE), store })
        };
        let serdes = (consumed.key.clone(), consumed.value.clone());
        let reusable = reusable(topic, &consumed, &materialized);
        let node = self.add_source::<K, V, TableRoot>(source, &[topic], consumed);
        let table = table_of_updates(&self.at(node), table, |value: Option<V>| value, serdes, materialized);
        if let Some(node) = self.0.borrow_mut().nodes.get_mut(table.node()) {
            node.reusable = reusable;
        }
        table
    }

    /// Declares a store of keys and values for processors; [`Builder::add_store`] has more to set.
    pub fn key_value_store<K: 'static, V: 'static>(
        &mut self,
        name: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> StoreHandle<KeyValue<K, V>> {
        self.add_store(StoreSpec::key_value(name, key, value))
    }

    /// Declares a store of keys and values with their event times for processors.
    pub fn timestamped_key_value_store<K: 'static, V: 'static>(
        &mut self,
        name: &str,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> StoreHandle<TimestampedKeyValue<K, V>> {
        self.add_store(StoreSpec::timestamped_key_value(name, key, value))
    }

    /// Declares a store for processors.
    pub fn add_store<T: StoreKind>(&mut self, spec: StoreSpec<T>) -> StoreHandle<T> {
        declare(&mut self.0.borrow_mut(), spec, format!("the builder, as a {}", T::TYPE.name()))
    }

    /// Adds a source with a name, for children that name it.
    pub fn source<K: Clone + 'static, V: Clone + 'static>(
        &mut self,
        name: &str,
        topics: &[&str],
        consumed: Consumed<K, V>,
    ) -> &mut Self {
        // Nobody sees here how many children there will be.
        let _ = self.add_stream(name.to_owned(), topics, consumed).clone();
        self
    }

    /// Adds a processor behind parents that are named; parents come before their children. What the parents forward is
    /// compared with what the processor takes when the topology is built.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// # struct Double;
    /// # impl Processor for Double {
    /// #     type In = Record<String, i64>;
    /// #     type Out = Record<String, i64>;
    /// #     fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result { cx.forward(r.map(|k, v| (k, v * 2))) }
    /// # }
    /// let mut builder = Topology::builder();
    /// builder
    ///     .source("numbers", &["numbers"], Consumed::with(Utf8, I64))
    ///     .processor("double", &["numbers"], (), |_, ()| Ok(Double))
    ///     .sink("doubled", "doubled", &["double"], Utf8, I64);
    /// builder.build().unwrap();
    /// ```
    pub fn processor<P, S>(
        &mut self,
        name: &str,
        parents: &[&str],
        stores: S,
        supplier: impl Fn(&mut Init<'_, P>, S::Refs) -> Result<P> + Send + Sync + 'static,
    ) -> &mut Self
    where
        P: Processor<Out: Clone>,
        S: StoreSet,
    {
        let parents = self.0.borrow_mut().parents(name, parents);
        let spec = processor_spec(&self.at(0), name.to_owned(), parents, stores, supplier);
        let mut graph = self.0.borrow_mut();
        let node = graph.add::<P::In, P::Out>(spec);
        graph.allow_fan_out::<P::Out>(node);
        drop(graph);
        self
    }

    /// Adds a sink behind parents that are named.
    pub fn sink<K: 'static, V: 'static>(
        &mut self,
        name: &str,
        topic: &str,
        parents: &[&str],
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> &mut Self {
        self.sink_with(name, topic, parents, Produced::with(key, value))
    }

    /// As [`Builder::sink`], with all that can be said of one; its serdes must be given, a name in `produced` is ignored.
    pub fn sink_with<K: 'static, V: 'static>(
        &mut self,
        name: &str,
        topic: &str,
        parents: &[&str],
        produced: Produced<K, V>,
    ) -> &mut Self {
        let Produced { key, value, partitioner, .. } = produced;
        let mut graph = self.0.borrow_mut();
        let parents = graph.parents(name, parents);
        let (Some(key), Some(value)) = (key, value) else {
            graph.problem(
                ProblemKind::MissingSerde,
                format!("the sink `{name}` has no serdes; name them in `Produced`"),
            );
            drop(graph);
            return self;
        };
        let (topic, coders) = (SinkTopic::Fixed(Topic::external(topic)), (Coder::key(key), Coder::value(value)));
        add_sink_to(&mut graph, name.to_owned(), topic, parents, coders, partitioner.into());
        drop(graph);
        self
    }

    /// Does without some topics; see [`Optimization`]. The last call counts, wherever it stands.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// let mut builder = Topology::builder();
    /// builder.optimize(Optimization::ALL);
    /// builder.table_materialized("prices", Consumed::with(Utf8, I64), Materialized::named("prices"));
    /// assert!(builder.build()?.internal_topics().is_empty());
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn optimize(&mut self, optimization: Optimization) -> &mut Self {
        self.0.borrow_mut().optimization = optimization;
        self
    }

    /// Makes [`Builder::build`] refuse generated names of state: of stores, and with them of changelogs, and of repartition
    /// topics. A generated name holds a number that shifts with each operator that is added before it; the program would
    /// start with empty state under another name. Names of operators may be generated: nothing is kept under them.
    ///
    /// It is Kafka Streams' `ensure.explicit.internal.resource.naming` (KIP-1111).
    pub fn ensure_explicit_names(&mut self) -> &mut Self {
        self.0.borrow_mut().explicit_names = true;
        self
    }

    /// Checks and finishes the topology.
    ///
    /// # Errors
    ///
    /// All mistakes together, each naming both sides and, where there is one, the remedy.
    pub fn build(self) -> std::result::Result<Topology, BuildError> {
        let graph = std::mem::take(&mut *self.0.borrow_mut());
        freeze(graph).map(|inner| Topology(Arc::new(inner)))
    }

    fn at(&self, node: usize) -> At {
        At { graph: self.0.clone(), node, name: None }
    }

    fn add_stream<K: 'static, V: 'static>(
        &mut self,
        name: String,
        topics: &[&str],
        consumed: Consumed<K, V>,
    ) -> Stream<K, V> {
        let (key, value) = (Some(consumed.key.clone()), Some(consumed.value.clone()));
        let node = self.add_source::<K, V, StreamRoot>(name, topics, consumed);
        Stream { at: self.at(node), rekeyed: false, key, value }
    }

    fn add_source<K: 'static, V: 'static, R: Reading<V>>(
        &mut self,
        name: String,
        topics: &[&str],
        consumed: Consumed<K, V>,
    ) -> usize {
        let Consumed { key, value, reset, extractor, .. } = consumed;
        let mut graph = self.0.borrow_mut();
        let node = graph.nodes.len();
        let source = graph.add_source(SourceEntry {
            node,
            topics: topics.iter().map(|topic| Topic::external(topic)).collect(),
            key: key.identity(),
            timestamp_extractor: !extractor.is_default(),
            reset,
        });
        let (key, value) = (Coder::key(key), Coder::value(value));
        let build: Build = Arc::new(move |b| {
            let (key, value, extractor) = (key.clone(), value.clone(), extractor.clone());
            let (name, node, outs, reading) = (b.name.clone(), b.node, b.outs()?, PhantomData::<fn() -> R>);
            Ok(Built::Root(Box::new(SourceNode { name, node, key, value, extractor, outs, reading })))
        });
        let mut spec = NodeSpec::processor(name, Vec::new(), build).keeping_key();
        spec.kind = NodeKind::Source(source);
        graph.add::<(), Record<K, R::Value>>(spec)
    }
}

/// The topic of a table as a changelog, if its bytes are those of the store's rows.
fn reusable<K: 'static, V: 'static>(
    topic: &str,
    consumed: &Consumed<K, V>,
    materialized: &Materialized<K, V>,
) -> Option<ReusedTopic> {
    let (key, value) = (consumed.key.identity(), consumed.value.identity());
    let same_key = key.is_same(materialized.key.as_ref().map_or(key, |k| k.identity()));
    let same_value = materialized.value.as_ref().is_none_or(|v| v.identity().is_same(value));
    let all = materialized.kept == Kept::AsNeeded;
    if !(same_key && same_value && all && consumed.extractor.keeps_times()) {
        return None;
    }
    let (key, value) = (Coder::key(consumed.key.clone()), Coder::value(consumed.value.clone()));
    Some(ReusedTopic::new(Topic::external(topic), move |k, v, timestamp| {
        timestamp >= 0 && key.decode(k).is_ok() && v.is_none_or(|v| value.decode(v).is_ok())
    }))
}
