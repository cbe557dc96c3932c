//! Streams grouped by key, and what can be made of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::dsl::at::At;
use crate::dsl::options::Materialized;
use crate::dsl::repartition::{Cut, CutNames};
use crate::dsl::row_store::declare_store;
use crate::dsl::stream::missing;
use crate::dsl::table::{Table, Upserts};
use crate::dsl::windowed::Windowing;
use crate::error::Result;
use crate::graph::{Graph, NodeSpec};
use crate::names::prefix;
use crate::node::{Build, Built};
use crate::nodes::{Aggregate, AggregateNode, Count, Fold, Reduce, TableStore};
use crate::record::{Change, Record};
use crate::serde::{AnySerde, Coder, I64};

/// A stream whose records are taken together by key; [`Stream::group_by`](crate::Stream::group_by) makes it.
///
/// If an operator may have changed the key, records go through a repartition topic first, so that equal keys come together
/// in one task. The topic is called after the grouping, or after the store if the grouping has no name.
///
/// # Semantics
///
/// Kafka Streams': a record with a null key or value is dropped and counted; a result carries the latest event time of
/// all records in it; each update of a row is forwarded, unless the store's cache holds it back for a later one.
#[must_use = "a grouping does nothing until something is made of it"]
pub struct GroupedStream<K, V> {
    grouping: Grouping<K, V>,
    shared: Rc<RefCell<SharedCut>>,
}

/// What a grouping is made of.
pub(crate) struct Grouping<K, V> {
    pub(crate) at: At,
    pub(crate) rekeyed: bool,
    pub(crate) key: Option<AnySerde<K>>,
    pub(crate) value: Option<AnySerde<V>>,
    /// The user's, for the repartition topic.
    pub(crate) name: Option<String>,
}

/// Clones of a named grouping share one repartition topic.
#[derive(Default)]
pub(crate) struct SharedCut {
    source: Option<usize>,
    /// Known once the grouping has been cloned.
    allow_fan_out: Option<fn(&mut Graph, usize)>,
}

impl SharedCut {
    /// The grouping of messages of the type `T` is cloned.
    pub(crate) fn cloned<T: Clone + 'static>(&mut self, at: &At) {
        let allow: fn(&mut Graph, usize) = Graph::allow_fan_out::<T>;
        let mut graph = at.graph();
        allow(&mut graph, at.node);
        self.allow_fan_out = Some(allow);
        if let Some(source) = self.source {
            allow(&mut graph, source);
        }
    }

    /// The source behind the repartition topic; a named grouping makes one only once.
    pub(crate) fn source(&mut self, at: &At, named: bool, add: impl FnOnce() -> At) -> At {
        if let Some(source) = self.source.filter(|_| named) {
            return at.moved(source);
        }
        let source = add();
        if let Some(allow) = self.allow_fan_out {
            allow(&mut at.graph(), source.node);
        }
        self.source = Some(source.node);
        source
    }
}

impl<K: Clone + 'static, V: Clone + 'static> Clone for GroupedStream<K, V> {
    fn clone(&self) -> Self {
        let Grouping { at, rekeyed, key, value, name } = &self.grouping;
        self.shared.borrow_mut().cloned::<Record<K, V>>(at);
        let (key, value, name) = (key.clone(), value.clone(), name.clone());
        let grouping = Grouping { at: at.clone(), rekeyed: *rekeyed, key, value, name };
        Self { grouping, shared: self.shared.clone() }
    }
}

impl<K, V> std::fmt::Debug for GroupedStream<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Grouping { at, rekeyed, name, .. } = &self.grouping;
        f.debug_struct("GroupedStream")
            .field("node", &at.node_name())
            .field("rekeyed", rekeyed)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

impl<K: 'static, V: 'static> GroupedStream<K, V> {
    pub(crate) fn new(grouping: Grouping<K, V>) -> Self {
        Self { grouping, shared: Rc::default() }
    }

    /// Names the next operator.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.grouping.at.name = Some(name.into());
        self
    }

    /// Cuts the groups into windows of event time: [`TimeWindows`](crate::TimeWindows),
    /// [`SlidingWindows`](crate::SlidingWindows) or [`SessionWindows`](crate::SessionWindows).
    pub fn windowed_by<W: Windowing>(self, windows: W) -> W::Stream<K, V> {
        windows.cut(self)
    }

    /// Counts the records of each key. The value's serde is [`I64`] unless another is given.
    pub fn count(self, materialized: Materialized<K, i64>) -> Table<K, i64, Upserts> {
        let materialized = self.counting(materialized);
        self.aggregation(prefix::AGGREGATE, Count, materialized)
    }

    /// Combines the values of each key, pairwise from left to right; the first one is taken as it is.
    pub fn reduce(
        self,
        f: impl Fn(V, V) -> V + Send + Sync + 'static,
        materialized: Materialized<K, V>,
    ) -> Table<K, V, Upserts> {
        let materialized = self.reducing(materialized);
        self.aggregation(prefix::REDUCE, Reduce(f), materialized)
    }

    /// Puts the values of each key into an aggregate that begins as `initializer` makes it.
    ///
    /// An aggregate of the type `Option<A>` with a [`Nullable`](crate::Nullable) serde can delete its row.
    pub fn aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(A, &K, &V) -> A + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<K, A, Upserts> {
        self.try_aggregate(initializer, move |so_far, key, value| Ok(aggregator(so_far, key, value)), materialized)
    }

    /// As [`GroupedStream::aggregate`], with an aggregator that can fail.
    pub fn try_aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<K, A, Upserts> {
        self.aggregation(prefix::AGGREGATE, Aggregate(initializer, aggregator), materialized)
    }

    fn aggregation<A: 'static, F: Fold<K, V, A>>(
        self,
        prefix: &str,
        fold: F,
        materialized: Materialized<K, A>,
    ) -> Table<K, A, Upserts> {
        let Placed { at, store, name, materialized, value } = self.place(prefix, materialized);
        let store = declare_store(&at, store, &name, materialized);
        let (fold, format, value) = (Arc::new(fold), store.format.clone(), value.map(Coder::value));
        let (index, identity) = (store.index, format.lookup());
        let build: Build = Arc::new(move |b| {
            let store = TableStore::build(b, index, format.clone());
            let (name, node, fold, value) = (b.name.clone(), b.node, fold.clone(), value.clone());
            Ok(Built::node(AggregateNode::<K, V, A, F> { name, node, fold, store, value, outs: b.outs()? }))
        });
        let mut spec = NodeSpec::processor(name, vec![at.node], build).keeping_key();
        spec.keep_rows(index, identity);
        let node = at.graph().add::<Record<K, V>, Record<K, Change<A>>>(spec);
        Table::of(at.moved(node), store)
    }
}

/// Where equal keys are together, and the serdes of key and value as far as they are known.
type Gathered<K, V> = (At, Option<AnySerde<K>>, Option<AnySerde<V>>);

/// Where an aggregation goes, and what it needs there.
pub(crate) struct Placed<K, V, A> {
    /// The parent: behind the repartition topic, if one is needed.
    pub(crate) at: At,
    pub(crate) store: String,
    pub(crate) name: String,
    pub(crate) materialized: Materialized<K, A>,
    pub(crate) value: Option<AnySerde<V>>,
}

impl<K: 'static, V: 'static> GroupedStream<K, V> {
    pub(crate) fn at(&self) -> &At {
        &self.grouping.at
    }

    /// The serdes of key and value, as far as they are known.
    pub(crate) fn serdes(&self) -> (Option<AnySerde<K>>, Option<AnySerde<V>>) {
        (self.grouping.key.clone(), self.grouping.value.clone())
    }

    /// For a count.
    pub(crate) fn counting(&self, materialized: Materialized<K, i64>) -> Materialized<K, i64> {
        if materialized.name.is_none() {
            // Kafka Streams uses up a number here, to keep the names of old programs.
            self.grouping.at.graph().names.store(prefix::AGGREGATE);
        }
        let value = materialized.value.clone().unwrap_or_else(|| Arc::new(I64));
        Materialized { value: Some(value), ..materialized }
    }

    /// For a reduction, whose result has the type of the values.
    pub(crate) fn reducing(&self, materialized: Materialized<K, V>) -> Materialized<K, V> {
        let value = materialized.value.clone().or_else(|| self.grouping.value.clone());
        Materialized { value, ..materialized }
    }

    /// Chooses the names, and adds the repartition topic if one is needed.
    pub(crate) fn place<A: 'static>(mut self, prefix: &str, mut materialized: Materialized<K, A>) -> Placed<K, V, A> {
        let at = &mut self.grouping.at;
        let store = materialized.name.take().unwrap_or_else(|| at.graph().names.store(prefix));
        let name = at.next_name(prefix);
        let (at, key, value) = self.gathered(&store, materialized.key.clone());
        materialized.key = materialized.key.or(key);
        Placed { at, store, name, materialized, value }
    }

    /// Where records of equal keys are in one task: here, or behind a repartition topic, which is called after the grouping, or
    /// after the store if the grouping has no name. Answers with the serdes; `key` is taken where the grouping knows none.
    pub(crate) fn gathered(self, store: &str, key: Option<AnySerde<K>>) -> Gathered<K, V> {
        let Grouping { at, rekeyed, key: own, value, name: group } = self.grouping;
        let key = own.or(key);
        if !rekeyed {
            return (at, key, value);
        }
        let names = CutNames::generate(&at);
        let base = group.clone().unwrap_or_else(|| store.to_owned());
        let key = at.serde(key, || missing("key", "group", &base, "Grouped"));
        let known = at.serde(value.clone(), || missing("value", "group", &base, "Grouped"));
        let cut = Cut::of(base, key.clone(), known);
        let at = self.shared.borrow_mut().source(&at, group.is_some(), || cut.add(&at, names));
        (at, Some(key), value)
    }
}
