//! Streams of records.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::context::Init;
use crate::dsl::at::{At, own_stores};
use crate::dsl::grouped::{GroupedStream, Grouping};
use crate::dsl::options::{Grouped, Materialized, Repartitioned};
use crate::dsl::repartition::{Cut, CutNames};
use crate::dsl::split::Split;
use crate::dsl::table::{Table, UpdateNames, Upserts, table_of_updates};
use crate::error::Result;
use crate::graph::{Effect, NodeSpec};
use crate::names::prefix;
use crate::node::{Build, Built};
use crate::nodes::{
    Filter, FixKey, FlatMap, FlatMapValues, Foreach, Map, MapValues, MapValuesWithKey, Op, OpNode, Pass, Peek,
    SelectKey, TryFilter, TryMap, TryMapValues, TryPeek, fixed_key_outs,
};
use crate::processor::{Processor, ProcessorNode};
use crate::record::{FixedKeyRecord, Record};
use crate::serde::AnySerde;
use crate::store::StoreSet;

/// A stream of records, while a topology is being defined.
///
/// Every operator consumes the stream; **to use it twice, [`clone`](Clone::clone) it**: both get every record. That is the
/// only thing that asks for `Clone` of keys and values.
///
/// An operator is called after Kafka Streams' numbering (`KSTREAM-FILTER-0000000003`), or as
/// [`named`](Stream::named) says. Closures are shared by all tasks; one that must remember something belongs into a
/// [`Processor`]. A closure that can fail goes to the operator's `try_` form.
///
/// A stream knows the serdes it was read with until an operator may have changed what they are for: `map_values`,
/// `flat_map_values` and `process_values` forget the value's, `select_key` the key's, `map`, `flat_map` and `process` both, even
/// if the type stays the same.
///
/// # Mistakes that do not compile
///
/// A closure of another type, a stream used twice, and a clone of what is not `Clone`:
/// ```compile_fail,E0631
/// # use millpond_topology::*;
/// # let mut builder = Topology::builder();
/// builder.stream("in", Consumed::with(Utf8, I64)).map_values(|v: String| v.len());
/// ```
/// ```compile_fail,E0382
/// # use millpond_topology::*;
/// # let mut builder = Topology::builder();
/// let orders = builder.stream("in", Consumed::with(Utf8, I64));
/// orders.filter(|_, v| *v > 0).to("a", Produced::default());
/// orders.filter(|_, v| *v < 0).to("b", Produced::default());
/// ```
/// ```compile_fail,E0599
/// # use millpond_topology::*;
/// # let mut builder = Topology::builder();
/// struct Order(i64);
/// let orders = builder.stream("in", Consumed::with(Utf8, I64)).map_values(Order);
/// orders.clone().map_values(|o| o.0).to("a", Produced::with(Utf8, I64));
/// ```
/// A closure that is not thread-safe, and serdes for another type:
/// ```compile_fail,E0277
/// # use millpond_topology::*;
/// # let mut builder = Topology::builder();
/// let seen = std::rc::Rc::new(std::cell::Cell::new(0));
/// builder.stream("in", Consumed::with(Utf8, I64)).peek(move |_, _| seen.set(1));
/// ```
/// ```compile_fail,E0308
/// # use millpond_topology::*;
/// # let mut builder = Topology::builder();
/// builder.stream("in", Consumed::with(Utf8, I64)).to("out", Produced::with(Utf8, Utf8));
/// ```
#[must_use = "a stream does nothing until something consumes it"]
pub struct Stream<K, V> {
    pub(crate) at: At,
    /// An operator may have changed the key since the last source.
    pub(crate) rekeyed: bool,
    pub(crate) key: Option<AnySerde<K>>,
    pub(crate) value: Option<AnySerde<V>>,
}

impl<K: Clone + 'static, V: Clone + 'static> Clone for Stream<K, V> {
    fn clone(&self) -> Self {
        self.at.graph().allow_fan_out::<Record<K, V>>(self.at.node);
        let Self { at, rekeyed, key, value } = self;
        Self { at: at.clone(), rekeyed: *rekeyed, key: key.clone(), value: value.clone() }
    }
}

impl<K, V> std::fmt::Debug for Stream<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("node", &self.at.node_name())
            .field("rekeyed", &self.rekeyed)
            .finish_non_exhaustive()
    }
}

/// What an operator does to the key.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Key {
    Keeps,
    Changes,
}

impl<K: 'static, V: 'static> Stream<K, V> {
    /// Names the next operator.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.at.name = Some(name.into());
        self
    }

    /// Keeps the records that the predicate holds for.
    pub fn filter(self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        let (key, value) = (self.key.clone(), self.value.clone());
        self.op(prefix::FILTER, Filter(predicate), Key::Keeps).known(key, value)
    }

    /// Drops the records that the predicate holds for.
    pub fn filter_not(self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Self {
        self.filter(move |k, v| !predicate(k, v))
    }

    /// As [`Stream::filter`], with a predicate that can fail.
    pub fn try_filter(self, predicate: impl Fn(&K, &V) -> Result<bool> + Send + Sync + 'static) -> Self {
        let (key, value) = (self.key.clone(), self.value.clone());
        self.op(prefix::FILTER, TryFilter(predicate), Key::Keeps).known(key, value)
    }

    /// Makes another record of each. It may change the key, so what needs grouping behind it is repartitioned;
    /// [`Stream::map_values`] does not.
    pub fn map<L: 'static, W: 'static>(self, f: impl Fn(K, V) -> (L, W) + Send + Sync + 'static) -> Stream<L, W> {
        self.op(prefix::MAP, Map(f), Key::Changes)
    }

    /// As [`Stream::map`], with a closure that can fail.
    pub fn try_map<L: 'static, W: 'static>(
        self,
        f: impl Fn(K, V) -> Result<(L, W)> + Send + Sync + 'static,
    ) -> Stream<L, W> {
        self.op(prefix::MAP, TryMap(f), Key::Changes)
    }

    /// Makes another value of each.
    pub fn map_values<W: 'static>(self, f: impl Fn(V) -> W + Send + Sync + 'static) -> Stream<K, W> {
        let key = self.key.clone();
        self.op(prefix::MAP_VALUES, MapValues(f), Key::Keeps).known(key, None)
    }

    /// As [`Stream::map_values`], with a closure that can fail.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// # let mut builder = Topology::builder();
    /// builder
    ///     .stream("texts", Consumed::with(Utf8, Utf8))
    ///     .try_map_values(|text| Ok(text.parse::<i64>()?))
    ///     .to("numbers", Produced::with(Utf8, I64));
    /// ```
    pub fn try_map_values<W: 'static>(self, f: impl Fn(V) -> Result<W> + Send + Sync + 'static) -> Stream<K, W> {
        let key = self.key.clone();
        self.op(prefix::MAP_VALUES, TryMapValues(f), Key::Keeps).known(key, None)
    }

    /// As [`Stream::map_values`], with a closure that may read the key.
    pub fn map_values_with_key<W: 'static>(self, f: impl Fn(&K, V) -> W + Send + Sync + 'static) -> Stream<K, W> {
        let (key, f) = (self.key.clone(), move |k: &K, v| Ok(f(k, v)));
        self.op(prefix::MAP_VALUES, MapValuesWithKey::<_, false>(f), Key::Keeps).known(key, None)
    }

    /// As [`Stream::map_values_with_key`], with a closure that can fail.
    pub fn try_map_values_with_key<W: 'static>(
        self,
        f: impl Fn(&K, V) -> Result<W> + Send + Sync + 'static,
    ) -> Stream<K, W> {
        let key = self.key.clone();
        self.op(prefix::MAP_VALUES, MapValuesWithKey::<_, true>(f), Key::Keeps).known(key, None)
    }

    /// Makes any number of records of each, with new keys.
    pub fn flat_map<L: 'static, W: 'static, I: IntoIterator<Item = (L, W)> + 'static>(
        self,
        f: impl Fn(K, V) -> I + Send + Sync + 'static,
    ) -> Stream<L, W> {
        self.op(prefix::FLAT_MAP, FlatMap::<_, false>(move |k, v| Ok(f(k, v))), Key::Changes)
    }

    /// As [`Stream::flat_map`], with a closure that can fail.
    pub fn try_flat_map<L: 'static, W: 'static, I: IntoIterator<Item = (L, W)> + 'static>(
        self,
        f: impl Fn(K, V) -> Result<I> + Send + Sync + 'static,
    ) -> Stream<L, W> {
        self.op(prefix::FLAT_MAP, FlatMap::<_, true>(f), Key::Changes)
    }

    /// Makes any number of values of each, under the same key.
    pub fn flat_map_values<I: IntoIterator<Item: 'static> + 'static>(
        self,
        f: impl Fn(V) -> I + Send + Sync + 'static,
    ) -> Stream<K, I::Item>
    where
        K: Clone,
    {
        self.flat_map_values_with_key(move |_, v| f(v))
    }

    /// As [`Stream::flat_map_values`], with a closure that can fail.
    pub fn try_flat_map_values<I: IntoIterator<Item: 'static> + 'static>(
        self,
        f: impl Fn(V) -> Result<I> + Send + Sync + 'static,
    ) -> Stream<K, I::Item>
    where
        K: Clone,
    {
        self.try_flat_map_values_with_key(move |_, v| f(v))
    }

    /// As [`Stream::flat_map_values`], with a closure that may read the key.
    pub fn flat_map_values_with_key<I: IntoIterator<Item: 'static> + 'static>(
        self,
        f: impl Fn(&K, V) -> I + Send + Sync + 'static,
    ) -> Stream<K, I::Item>
    where
        K: Clone,
    {
        let (key, f) = (self.key.clone(), move |k: &K, v| Ok(f(k, v)));
        self.op(prefix::FLAT_MAP_VALUES, FlatMapValues::<_, false>(f), Key::Keeps).known(key, None)
    }

    /// As [`Stream::flat_map_values_with_key`], with a closure that can fail.
    pub fn try_flat_map_values_with_key<I: IntoIterator<Item: 'static> + 'static>(
        self,
        f: impl Fn(&K, V) -> Result<I> + Send + Sync + 'static,
    ) -> Stream<K, I::Item>
    where
        K: Clone,
    {
        let key = self.key.clone();
        self.op(prefix::FLAT_MAP_VALUES, FlatMapValues::<_, true>(f), Key::Keeps).known(key, None)
    }

    /// Gives each record another key.
    pub fn select_key<L: 'static>(self, f: impl Fn(&K, &V) -> L + Send + Sync + 'static) -> Stream<L, V> {
        let (value, f) = (self.value.clone(), move |k: &K, v: &V| Ok(f(k, v)));
        self.op(prefix::KEY_SELECT, SelectKey::<_, false>(f), Key::Changes).known(None, value)
    }

    /// As [`Stream::select_key`], with a closure that can fail.
    pub fn try_select_key<L: 'static>(self, f: impl Fn(&K, &V) -> Result<L> + Send + Sync + 'static) -> Stream<L, V> {
        let value = self.value.clone();
        self.op(prefix::KEY_SELECT, SelectKey::<_, true>(f), Key::Changes).known(None, value)
    }

    /// Looks at each record as it goes by.
    pub fn peek(self, f: impl Fn(&K, &V) + Send + Sync + 'static) -> Self {
        let (key, value) = (self.key.clone(), self.value.clone());
        self.op(prefix::PEEK, Peek(f), Key::Keeps).known(key, value)
    }

    /// As [`Stream::peek`], with a closure that can fail.
    pub fn try_peek(self, f: impl Fn(&K, &V) -> Result + Send + Sync + 'static) -> Self {
        let (key, value) = (self.key.clone(), self.value.clone());
        self.op(prefix::PEEK, TryPeek(f), Key::Keeps).known(key, value)
    }

    /// Looks at each record; the stream ends here.
    pub fn foreach(self, f: impl Fn(&K, &V) + Send + Sync + 'static) {
        let f = move |k: &K, v: &V| {
            f(k, v);
            Ok(())
        };
        let _ = self.op(prefix::FOREACH, Foreach::<_, false>(f), Key::Keeps);
    }

    /// As [`Stream::foreach`], with a closure that can fail.
    pub fn try_foreach(self, f: impl Fn(&K, &V) -> Result + Send + Sync + 'static) {
        let _ = self.op(prefix::FOREACH, Foreach::<_, true>(f), Key::Keeps);
    }

    /// Both streams' records, in the order they come. It knows this stream's serdes, or the other's.
    pub fn merge(mut self, other: Self) -> Self {
        let name = self.at.next_name(prefix::MERGE);
        let parents = vec![self.at.node, other.at.node];
        let spec = NodeSpec::processor(name, parents, op_build::<Record<K, V>, _>(Pass)).keeping_key();
        let spec = spec.with_effect(Effect::Nothing);
        let node = self.at.graph().add::<Record<K, V>, Record<K, V>>(spec);
        Self {
            at: self.at.moved(node),
            rekeyed: self.rekeyed || other.rekeyed,
            key: self.key.or(other.key),
            value: self.value.or(other.value),
        }
    }

    /// Splits the stream: each record goes to the first branch that takes it, or to none.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// # let mut builder = Topology::builder();
    /// let mut split = builder.stream("orders", Consumed::with(Utf8, I64)).split();
    /// split.branch(|_, amount| *amount >= 1000).to("large", Produced::default());
    /// split.rest().to("small", Produced::default());
    /// ```
    pub fn split(mut self) -> Split<K, V> {
        let name = self.at.next_name(prefix::BRANCH);
        Split::new(self, name)
    }

    /// Groups by the key that the records have.
    pub fn group_by_key(self) -> GroupedStream<K, V> {
        self.group_by_key_with(Grouped::default())
    }

    /// Groups by the key that the records have, with a name or serdes.
    pub fn group_by_key_with(self, grouped: Grouped<K, V>) -> GroupedStream<K, V> {
        let (key, value) = (grouped.key.or(self.key), grouped.value.or(self.value));
        GroupedStream::new(Grouping { at: self.at, rekeyed: self.rekeyed, key, value, name: grouped.name })
    }

    /// Groups by another key. The name given is that of the operator, and of the repartition topic behind it.
    pub fn group_by<L: 'static>(
        mut self,
        f: impl Fn(&K, &V) -> L + Send + Sync + 'static,
        grouped: Grouped<L, V>,
    ) -> GroupedStream<L, V> {
        self.at.name = grouped.name.clone().or(self.at.name);
        self.select_key(f).group_by_key_with(grouped)
    }

    /// As [`Stream::group_by`], with a closure that can fail.
    pub fn try_group_by<L: 'static>(
        mut self,
        f: impl Fn(&K, &V) -> Result<L> + Send + Sync + 'static,
        grouped: Grouped<L, V>,
    ) -> GroupedStream<L, V> {
        self.at.name = grouped.name.clone().or(self.at.name);
        self.try_select_key(f).group_by_key_with(grouped)
    }

    /// Sends the records through a topic of the library's own, so that equal keys come together in one task.
    pub fn repartition(mut self, options: Repartitioned<K, V>) -> Self {
        let user = options.name.or(self.at.name.take());
        let base = user.unwrap_or_else(|| self.at.graph().names.generate(prefix::REPARTITION));
        let names = CutNames::generate(&self.at);
        let key = self.at.serde(options.key.or(self.key), || missing("key", "repartition", &base, "Repartitioned"));
        let value =
            self.at.serde(options.value.or(self.value), || missing("value", "repartition", &base, "Repartitioned"));
        let (partitions, configs, partitioner) = (options.partitions, options.configs, options.partitioner);
        let cut =
            Cut { base, key: key.clone(), value: value.clone(), partitions, configs, partitioner, mergeable: false };
        Self { at: cut.add(&self.at, names), rekeyed: false, key: Some(key), value: Some(value) }
    }

    /// Keeps the last value of each key as a table. A value that its serde writes as null (see
    /// [`Nullable`](crate::Nullable)) deletes the row.
    pub fn to_table(mut self, materialized: Materialized<K, V>) -> Table<K, V, Upserts> {
        let name = self.at.next_name(prefix::TO_TABLE);
        let store = materialized.name.clone().unwrap_or_else(|| self.at.graph().names.store(prefix::TO_TABLE));
        let key = materialized.key.clone().or(self.key);
        let key = self.at.serde(key, || missing("key", "to_table", &name, "Materialized"));
        let value = materialized.value.clone().or(self.value);
        let value = self.at.serde(value, || missing("value", "to_table", &name, "Materialized"));
        if self.rekeyed {
            let names = CutNames::generate(&self.at);
            self.at = Cut::of(name.clone(), key.clone(), value.clone()).add(&self.at, names);
        }
        table_of_updates(&self.at, UpdateNames { node: name, store }, Some, (key, value), materialized)
    }

    /// Runs user code on each record, with the stores it declares; see [`Processor`].
    ///
    /// `supplier` makes one processor per task, from the [`Init`] and the stores. It may change the key, so what needs
    /// grouping behind it is repartitioned; [`Stream::process_values`] does not.
    ///
    /// # Mistakes that do not compile
    ///
    /// A processor of another type, and a store of another type:
    /// ```compile_fail,E0271
    /// # use millpond_topology::*;
    /// # struct P;
    /// # impl Processor for P {
    /// #     type In = Record<String, i64>;
    /// #     type Out = Record<String, i64>;
    /// #     fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result { cx.forward(r) }
    /// # }
    /// # let mut builder = Topology::builder();
    /// // `P` takes `Record<String, i64>`.
    /// builder.stream("in", Consumed::with(Utf8, Utf8)).process((), |_, ()| Ok(P));
    /// ```
    /// ```compile_fail,E0308
    /// # use millpond_topology::*;
    /// # struct P(StoreRef<KeyValue<String, i64>>);
    /// # impl Processor for P {
    /// #     type In = Record<String, i64>;
    /// #     type Out = Record<String, i64>;
    /// #     fn process(&mut self, cx: &mut Context<'_, Self>, r: Self::In) -> Result { cx.forward(r) }
    /// # }
    /// # let mut builder = Topology::builder();
    /// let names = builder.key_value_store("names", Utf8, Utf8);
    /// builder.stream("in", Consumed::with(Utf8, I64)).process(&names, |_, names| Ok(P(names)));
    /// ```
    pub fn process<P, L, W, S>(
        mut self,
        stores: S,
        supplier: impl Fn(&mut Init<'_, P>, S::Refs) -> Result<P> + Send + Sync + 'static,
    ) -> Stream<L, W>
    where
        P: Processor<In = Record<K, V>, Out = Record<L, W>>,
        L: 'static,
        W: 'static,
        S: StoreSet,
    {
        let name = self.at.next_name(prefix::PROCESSOR);
        let mut spec = processor_spec(&self.at, name, vec![self.at.node], stores, supplier).with_effect(Effect::Key);
        spec.names_children = true;
        let node = self.at.graph().add::<Record<K, V>, Record<L, W>>(spec);
        Stream { at: self.at.moved(node), rekeyed: true, key: None, value: None }
    }

    /// As [`Stream::process`], with a processor that cannot change keys: it forwards what it makes of a
    /// [`FixedKeyRecord`], so nothing need be repartitioned behind it.
    pub fn process_values<P, W, S>(
        mut self,
        stores: S,
        supplier: impl Fn(&mut Init<'_, P>, S::Refs) -> Result<P> + Send + Sync + 'static,
    ) -> Stream<K, W>
    where
        P: Processor<In = FixedKeyRecord<K, V>, Out = FixedKeyRecord<K, W>>,
        W: 'static,
        S: StoreSet,
    {
        let name = self.at.next_name(prefix::PROCESS_VALUES);
        let (bound, refs) = stores.bind();
        let build: Build = Arc::new(move |b| {
            let outs = fixed_key_outs(b.outs::<Record<K, W>>()?);
            let node = ProcessorNode::build(b, outs, |init| supplier(init, refs.clone()))?;
            Ok(Built::node::<Record<K, V>>(FixKey(node)))
        });
        // The key is one of this task's, but not always that of the record at hand: no `keeping_key`.
        let mut spec = NodeSpec::processor(name, vec![self.at.node], build);
        spec.stores = own_stores(&mut self.at.graph(), &spec.name, bound);
        let node = self.at.graph().add::<Record<K, V>, Record<K, W>>(spec);
        Stream { at: self.at.moved(node), rekeyed: self.rekeyed, key: self.key, value: None }
    }

    /// Adds an operator; the new stream knows no serdes yet.
    pub(crate) fn op<L: 'static, W: 'static, O: Op<Record<K, V>, Out = Record<L, W>>>(
        mut self,
        prefix: &str,
        op: O,
        key: Key,
    ) -> Stream<L, W> {
        let name = self.at.next_name(prefix);
        let mut spec = NodeSpec::processor(name, vec![self.at.node], op_build(op));
        spec.keeps_key = key == Key::Keeps;
        spec.effect = match key {
            Key::Changes => Effect::Key,
            Key::Keeps if O::SAME => Effect::Nothing,
            Key::Keeps => Effect::Value,
        };
        let node = self.at.graph().add::<Record<K, V>, O::Out>(spec);
        Stream { at: self.at.moved(node), rekeyed: self.rekeyed || key == Key::Changes, key: None, value: None }
    }

    fn known(mut self, key: Option<AnySerde<K>>, value: Option<AnySerde<V>>) -> Self {
        (self.key, self.value) = (key, value);
        self
    }
}

/// Makes the node of an operator.
fn op_build<I: 'static, O: Op<I>>(op: O) -> Build {
    let op = Arc::new(op);
    Arc::new(move |b| {
        Ok(Built::node(OpNode::<I, O> { name: b.name.clone(), op: op.clone(), outs: b.outs()?, message: PhantomData }))
    })
}

/// Describes the node of a processor.
pub(crate) fn processor_spec<P: Processor, S: StoreSet>(
    at: &At,
    name: String,
    parents: Vec<usize>,
    stores: S,
    supplier: impl Fn(&mut Init<'_, P>, S::Refs) -> Result<P> + Send + Sync + 'static,
) -> NodeSpec {
    let (bound, refs) = stores.bind();
    let build: Build = Arc::new(move |b| {
        let outs = b.outs()?;
        ProcessorNode::build(b, outs, |init| supplier(init, refs.clone())).map(Built::node)
    });
    let mut spec = NodeSpec::processor(name, parents, build);
    spec.stores = own_stores(&mut at.graph(), &spec.name, bound);
    spec
}

/// What is said when a serde is missing.
pub(crate) fn missing(part: &str, operator: &str, what: &str, options: &str) -> String {
    format!("no serde is known for the {part} at `{operator}` (`{what}`); name it in `{options}`")
}
