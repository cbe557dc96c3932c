//! Tables grouped by another key, and what can be made of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::dsl::at::At;
use crate::dsl::grouped::SharedCut;
use crate::dsl::options::{Grouped, Materialized};
use crate::dsl::repartition::Cut;
use crate::dsl::row_store::declare_store;
use crate::dsl::stream::missing;
use crate::dsl::table::{Table, TableKind, TableParts, Upserts};
use crate::error::Result;
use crate::graph::{NodeSpec, OldValues};
use crate::names::prefix;
use crate::node::{Build, Built};
use crate::nodes::{
    Aggregate, Count, Fold, Reduce, RemoveWith, SelectFn, Subtract, TableAggregateNode, TableSelectNode, TableStore,
    TakeOff, Uncount,
};
use crate::problem::ProblemKind;
use crate::record::{Change, Record};
use crate::serde::{AnySerde, ChangeSerde, Coder, I64};

/// A table whose rows are taken together by another key; [`Table::group_by`] makes it.
///
/// Rows always go through a repartition topic, so that those that count for one key come together in one task. The topic is
/// called after the grouping, or after the store if the grouping has no name.
///
/// # Semantics
///
/// Kafka Streams': when a row changes, what it counted for is taken off, then what it counts for now is added. If both have the
/// same key, that is one record and one update of the aggregate (KIP-904), so nobody ever sees it with the row missing. If the
/// row moves to another key, the old key is told first. A result carries the latest event time of what went into it.
///
/// A row whose new key or value is null (as their serdes see it) counts for nothing.
#[must_use = "a grouping does nothing until something is made of it"]
pub struct GroupedTable<K: 'static, V: 'static> {
    at: At,
    key: AnySerde<K>,
    value: AnySerde<V>,
    /// The user's, for the repartition topic.
    name: Option<String>,
    shared: Rc<RefCell<SharedCut>>,
}

impl<K: Clone + 'static, V: Clone + 'static> Clone for GroupedTable<K, V> {
    fn clone(&self) -> Self {
        self.shared.borrow_mut().cloned::<Record<K, Change<V>>>(&self.at);
        let Self { at, key, value, name, shared } = self;
        Self { at: at.clone(), key: key.clone(), value: value.clone(), name: name.clone(), shared: shared.clone() }
    }
}

impl<K: 'static, V: 'static> std::fmt::Debug for GroupedTable<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupedTable")
            .field("node", &self.at.node_name())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: 'static, V: 'static, D: TableKind> Table<K, V, D> {
    /// Groups the rows by another key: `f` says which key a row counts for, and as which value. The name given is that of the
    /// operator, and of the repartition topic behind it.
    ///
    /// What a row was before has to be known for that. So a table that would keep no rows gets a store, with a generated name: the
    /// table of a topic, or of a stream, that this one filters or maps.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// let mut builder = Topology::builder();
    /// // How many people live in each city.
    /// builder
    ///     .table("homes", Consumed::with(Utf8, Utf8))
    ///     .group_by(|_person, city| (city, 1), Grouped::with(Utf8, I64))
    ///     .count(Materialized::named("inhabitants"))
    ///     .to_stream()
    ///     .to("inhabitants", Produced::with(Utf8, I64));
    /// # builder.build().unwrap();
    /// ```
    pub fn group_by<L: 'static, W: 'static>(
        self,
        f: impl Fn(&K, V) -> (L, W) + Send + Sync + 'static,
        grouped: Grouped<L, W>,
    ) -> GroupedTable<L, W> {
        self.grouped(Arc::new(move |key, value| Ok(f(key, value))), grouped)
    }

    /// As [`Table::group_by`], with a closure that can fail.
    pub fn try_group_by<L: 'static, W: 'static>(
        self,
        f: impl Fn(&K, V) -> Result<(L, W)> + Send + Sync + 'static,
        grouped: Grouped<L, W>,
    ) -> GroupedTable<L, W> {
        self.grouped(Arc::new(f), grouped)
    }

    fn grouped<L: 'static, W: 'static>(
        self,
        select: SelectFn<K, V, L, W>,
        grouped: Grouped<L, W>,
    ) -> GroupedTable<L, W> {
        let TableParts { mut at, value: row, versioned, maps_nulls, .. } = self.into_parts();
        at.name = grouped.name.clone().or(at.name);
        let name = at.next_name(prefix::TABLE_SELECT);
        let key = at.serde(grouped.key, || missing("key", "group_by", &name, "Grouped"));
        let value = at.serde(grouped.value, || missing("value", "group_by", &name, "Grouped"));
        let kept = at.graph().keep_rows(at.node);
        if let Err(table) = kept {
            let message = format!(
                "`{name}` has to know what rows were before, but nobody keeps those of `{table}`; give that table a store \
                 by `Materialized::named`"
            );
            at.graph().problem(ProblemKind::Store, message);
        }
        if maps_nulls {
            let message = format!(
                "`{name}` groups what `map_values` has made of rows that may be null: what it made of a null would be counted, and \
                 not taken off again; keep its rows by `map_values_materialized` with a name, or group the rows before"
            );
            at.graph().problem(ProblemKind::Store, message);
        }
        let (row, coders) = (row.map(Coder::value), (Coder::key(key.clone()), Coder::value(value.clone())));
        let build: Build = Arc::new(move |b| {
            let (name, select, row, (key, value)) = (b.name.clone(), select.clone(), row.clone(), coders.clone());
            Ok(Built::node(TableSelectNode { name, select, row, key, value, versioned, outs: b.outs()? }))
        });
        let mut spec = NodeSpec::processor(name, vec![at.node], build);
        spec.old = OldValues { asks: true, ..OldValues::default() };
        let node = at.graph().add::<Record<K, Change<V>>, Record<L, Change<W>>>(spec);
        GroupedTable { at: at.moved(node), key, value, name: grouped.name, shared: Rc::default() }
    }
}

impl<K: 'static, V: 'static> GroupedTable<K, V> {
    /// Names the next operator.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.at.name = Some(name.into());
        self
    }

    /// Counts the rows of each key. The value's serde is [`I64`] unless another is given.
    pub fn count(self, materialized: Materialized<K, i64>) -> Table<K, i64, Upserts> {
        let value = materialized.value.clone().unwrap_or_else(|| Arc::new(I64));
        let materialized = Materialized { value: Some(value), ..materialized };
        self.aggregation(prefix::TABLE_AGGREGATE, (Count, Uncount), materialized)
    }

    /// Combines the values of each key, pairwise: `adder` puts a value into what there is, `subtractor` takes one off it. The first
    /// value is taken as it is.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// let mut builder = Topology::builder();
    /// // What all orders of a customer come to; an order may change, also its customer.
    /// builder
    ///     .table("orders", Consumed::with(Utf8, Json::<(String, i64)>::default()))
    ///     .group_by(|_order, (customer, amount)| (customer, amount), Grouped::with(Utf8, I64))
    ///     .reduce(|sum, amount| sum + amount, |sum, amount| sum - amount, Materialized::named("sums"));
    /// # builder.build().unwrap();
    /// ```
    pub fn reduce(
        self,
        adder: impl Fn(V, V) -> V + Send + Sync + 'static,
        subtractor: impl Fn(V, V) -> V + Send + Sync + 'static,
        materialized: Materialized<K, V>,
    ) -> Table<K, V, Upserts> {
        let value = materialized.value.clone().unwrap_or_else(|| self.value.clone());
        let materialized = Materialized { value: Some(value), ..materialized };
        self.aggregation(prefix::TABLE_REDUCE, (Reduce(adder), TakeOff(subtractor)), materialized)
    }

    /// Puts the values of each key into an aggregate that begins as `initializer` makes it, and takes off it what rows counted for
    /// before they changed.
    ///
    /// An aggregate of the type `Option<A>` with a [`Nullable`](crate::Nullable) serde can delete its row.
    pub fn aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        adder: impl Fn(A, &K, &V) -> A + Send + Sync + 'static,
        subtractor: impl Fn(A, &K, &V) -> A + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<K, A, Upserts> {
        let adder = move |so_far, key: &K, value: &V| Ok(adder(so_far, key, value));
        let subtractor = move |so_far, key: &K, value: &V| Ok(subtractor(so_far, key, value));
        self.try_aggregate(initializer, adder, subtractor, materialized)
    }

    /// As [`GroupedTable::aggregate`], with closures that can fail.
    pub fn try_aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        adder: impl Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
        subtractor: impl Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<K, A, Upserts> {
        let folds = (Aggregate(initializer, adder), RemoveWith(subtractor));
        self.aggregation(prefix::TABLE_AGGREGATE, folds, materialized)
    }

    fn aggregation<A: 'static, F: Fold<K, V, A>, S: Subtract<K, V, A>>(
        self,
        prefix: &str,
        (add, subtract): (F, S),
        mut materialized: Materialized<K, A>,
    ) -> Table<K, A, Upserts> {
        let Self { mut at, key, value, name: group, shared } = self;
        // Kafka Streams calls the store of a reduction so, too.
        let named = materialized.name.take();
        let store_name = named.unwrap_or_else(|| at.graph().names.store(prefix::TABLE_AGGREGATE));
        let sink = at.graph().names.generate(prefix::STREAM_SINK);
        let source = at.graph().names.generate(prefix::STREAM_SOURCE);
        let name = at.next_name(prefix);
        materialized.key = Some(materialized.key.take().unwrap_or_else(|| key.clone()));
        let base = group.clone().unwrap_or_else(|| store_name.clone());
        let changes: AnySerde<Change<V>> = Arc::new(ChangeSerde::new(value));
        let cut = Cut::of(base, key, changes);
        let at = shared.borrow_mut().source(&at, group.is_some(), || cut.add_unfiltered(&at, sink, source));
        let store = declare_store(&at, store_name, &name, materialized);
        let (add, subtract, format) = (Arc::new(add), Arc::new(subtract), store.format.clone());
        let (index, identity) = (store.index, format.lookup());
        let build: Build = Arc::new(move |b| {
            let store = TableStore::build(b, index, format.clone());
            let (name, node, add, subtract) = (b.name.clone(), b.node, add.clone(), subtract.clone());
            let node = TableAggregateNode { name, node, add, subtract, store, outs: b.outs()? };
            Ok(Built::node::<Record<K, Change<V>>>(node))
        });
        let mut spec = NodeSpec::processor(name, vec![at.node], build).keeping_key();
        spec.keep_rows(index, identity);
        let node = at.graph().add::<Record<K, Change<V>>, Record<K, Change<A>>>(spec);
        Table::of(at.moved(node), store)
    }
}
