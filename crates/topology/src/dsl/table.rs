//! Tables: the last value of each key.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::dsl::at::{At, own_stores};
use crate::dsl::options::Materialized;
use crate::dsl::row_store::{DeclaredStore, KeptRows, RowStore, declare_store};
use crate::dsl::stream::Stream;
use crate::dsl::windows::Closing;
use crate::error::Result;
use crate::graph::{NodeSpec, OldValues, OnDemand, StorePlace};
use crate::names::{Names, prefix};
use crate::node::{Build, Built};
use crate::nodes::{RowFn, RowFormat, TableOpNode, TableSourceNode, TableStore, ToStreamNode, TransformNode};
use crate::record::{Change, Record};
use crate::serde::{AnySerde, Coder, Nullable, Serde};
use crate::store::{StoreHandle, StoreKind, StoreSet, sealed};
use crate::transform::ValueTransformer;

/// Whether a table's rows can go: [`Upserts`] or [`Deletes`]. It decides what the table is as a stream.
pub trait TableKind: sealed::Sealed + 'static {
    /// The value of a record that tells of a row.
    type Streamed<V: 'static>: 'static;

    #[doc(hidden)]
    fn streamed<V: 'static>(new: Option<V>) -> Option<Self::Streamed<V>>;

    #[doc(hidden)]
    fn serde<V: 'static>(serde: Arc<dyn Serde<V>>) -> Arc<dyn Serde<Self::Streamed<V>>>;
}

/// The mark of a table whose rows are only set, such as an aggregation: as a stream it has values.
#[derive(Clone, Copy, Debug)]
pub struct Upserts;

/// The mark of a table whose rows can go: as a stream it has optional values, and `None` is a delete.
#[derive(Clone, Copy, Debug)]
pub struct Deletes;

impl sealed::Sealed for Upserts {}

impl TableKind for Upserts {
    type Streamed<V: 'static> = V;

    fn streamed<V: 'static>(new: Option<V>) -> Option<V> {
        new
    }

    fn serde<V: 'static>(serde: Arc<dyn Serde<V>>) -> Arc<dyn Serde<V>> {
        serde
    }
}

impl sealed::Sealed for Deletes {}

impl TableKind for Deletes {
    type Streamed<V: 'static> = Option<V>;

    fn streamed<V: 'static>(new: Option<V>) -> Option<Option<V>> {
        Some(new)
    }

    fn serde<V: 'static>(serde: Arc<dyn Serde<V>>) -> Arc<dyn Serde<Option<V>>> {
        Arc::new(Nullable(serde))
    }
}

/// A table: the last value of each key, and a record for every update of one.
///
/// As with a stream, every operator consumes the table; clone it to use it twice.
///
/// # Nulls
///
/// Kafka Streams has a table whose values may be null, and null means "deleted". Here the type says whether that can
/// happen: closures never see a null, and [`Table::to_stream`] of a table whose rows can go ([`Deletes`], the default) has
/// `Option<V>` as its value, of one whose rows cannot ([`Upserts`]: aggregations) `V`.
pub struct Table<K: 'static, V: 'static, D = Deletes> {
    at: At,
    key: Option<AnySerde<K>>,
    value: Option<AnySerde<V>>,
    rows: Option<KeptRows>,
    versioned: bool,
    /// When its windows are closed, if its keys have such.
    closing: Option<Closing>,
    maps_nulls: bool,
    kind: PhantomData<fn() -> D>,
}

/// What operators need of a table.
pub(crate) struct TableParts<K: 'static, V: 'static> {
    pub(crate) at: At,
    /// The serdes, as far as they are known.
    pub(crate) key: Option<AnySerde<K>>,
    pub(crate) value: Option<AnySerde<V>>,
    /// Earlier versions of rows are told of, too: only the latest one is what the row is now.
    pub(crate) versioned: bool,
    /// When its windows are closed, if its keys have such.
    pub(crate) closing: Option<Closing>,
    /// A closure makes rows of nulls, which nobody keeps: what a row was before is not known when that was a null.
    pub(crate) maps_nulls: bool,
}

impl<K: Clone + 'static, V: Clone + 'static, D> Clone for Table<K, V, D> {
    fn clone(&self) -> Self {
        self.at.graph().allow_fan_out::<Record<K, Change<V>>>(self.at.node);
        let Self { at, key, value, rows, versioned, closing, maps_nulls, kind } = self;
        let (at, key, value, rows) = (at.clone(), key.clone(), value.clone(), rows.clone());
        let (versioned, closing, maps_nulls, kind) = (*versioned, *closing, *maps_nulls, *kind);
        Self { at, key, value, rows, versioned, closing, maps_nulls, kind }
    }
}

impl<K: 'static, V: 'static, D> std::fmt::Debug for Table<K, V, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("node", &self.at.node_name())
            .field("store", &self.store_name())
            .finish_non_exhaustive()
    }
}

impl<K: 'static, V: 'static, D> Table<K, V, D> {
    /// The name of the table's store, if it has one.
    pub fn store_name(&self) -> Option<&str> {
        self.rows.as_ref().map(KeptRows::name)
    }

    /// The table's store, if it has one of this kind: processors may read it.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// # let mut builder = Topology::builder();
    /// let prices = builder.table_materialized("prices", Consumed::with(Utf8, I64), Materialized::named("prices"));
    /// let store: StoreHandle<TimestampedKeyValue<String, i64>> = prices.store().unwrap();
    /// ```
    pub fn store<T: StoreKind>(&self) -> Option<StoreHandle<T>> {
        self.rows.as_ref()?.handle()
    }
}

impl<K: 'static, V: 'static, D: TableKind> Table<K, V, D> {
    /// A table whose rows are kept.
    pub(crate) fn of(at: At, store: DeclaredStore<K, V>) -> Self {
        let versioned = store.is_versioned();
        let DeclaredStore { key, value, rows, .. } = store;
        Self { rows: Some(rows), versioned, ..Self::unkept(at, Some(key), Some(value)) }
    }

    /// A table whose rows nobody keeps.
    fn unkept(at: At, key: Option<AnySerde<K>>, value: Option<AnySerde<V>>) -> Self {
        Self { at, key, value, rows: None, versioned: false, closing: None, maps_nulls: false, kind: PhantomData }
    }

    /// The node whose updates these are.
    pub(crate) fn node(&self) -> usize {
        self.at.node
    }

    /// A table of windows or sessions.
    pub(crate) fn of_windows(at: At, key: AnySerde<K>, value: AnySerde<V>, rows: KeptRows, closing: Closing) -> Self {
        Self { rows: Some(rows), closing: Some(closing), ..Self::unkept(at, Some(key), Some(value)) }
    }

    /// Names the next operator.
    #[must_use = "it names the next operator"]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.at.name = Some(name.into());
        self
    }

    /// The rows that the predicate holds for. A row that stops to pass is deleted here.
    ///
    /// If the table that is filtered has no store (nor one above it whose rows it only maps), nobody knows what its rows
    /// were before, and every row that does not pass gives a delete, as in Kafka Streams.
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn filter(self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Table<K, V, Deletes> {
        self.filtered(Arc::new(move |k, v| Ok(predicate(k, &v).then_some(v))), None)
    }

    /// The rows that the predicate does not hold for; see [`Table::filter`].
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn filter_not(self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Table<K, V, Deletes> {
        self.filter(move |k, v| !predicate(k, v))
    }

    /// As [`Table::filter`], with a predicate that can fail.
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn try_filter(
        self,
        predicate: impl Fn(&K, &V) -> Result<bool> + Send + Sync + 'static,
    ) -> Table<K, V, Deletes> {
        self.filtered(Arc::new(move |k, v| Ok(predicate(k, &v)?.then_some(v))), None)
    }

    /// As [`Table::filter`], and keeps the rows in a store if `materialized` has a name.
    pub fn filter_materialized(
        self,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
        materialized: Materialized<K, V>,
    ) -> Table<K, V, Deletes> {
        self.filtered(Arc::new(move |k, v| Ok(predicate(k, &v).then_some(v))), Some(materialized))
    }

    /// As [`Table::filter_not`], and keeps the rows in a store if `materialized` has a name.
    pub fn filter_not_materialized(
        self,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
        materialized: Materialized<K, V>,
    ) -> Table<K, V, Deletes> {
        self.filter_materialized(move |k, v| !predicate(k, v), materialized)
    }

    /// The same rows with other values.
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn map_values<W: 'static>(self, f: impl Fn(V) -> W + Send + Sync + 'static) -> Table<K, W, D> {
        self.map_values_with_key(move |_, v| f(v))
    }

    /// As [`Table::map_values`], with a closure that sees the key.
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn map_values_with_key<W: 'static>(self, f: impl Fn(&K, V) -> W + Send + Sync + 'static) -> Table<K, W, D> {
        self.mapped(Arc::new(move |k, v| Ok(Some(f(k, v)))), None)
    }

    /// As [`Table::map_values`], with a closure that can fail.
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn try_map_values<W: 'static>(self, f: impl Fn(V) -> Result<W> + Send + Sync + 'static) -> Table<K, W, D> {
        self.try_map_values_with_key(move |_, v| f(v))
    }

    /// As [`Table::map_values_with_key`], with a closure that can fail.
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn try_map_values_with_key<W: 'static>(
        self,
        f: impl Fn(&K, V) -> Result<W> + Send + Sync + 'static,
    ) -> Table<K, W, D> {
        self.mapped(Arc::new(move |k, v| f(k, v).map(Some)), None)
    }

    /// As [`Table::map_values`], and keeps the rows in a store if `materialized` has a name.
    pub fn map_values_materialized<W: 'static>(
        self,
        f: impl Fn(V) -> W + Send + Sync + 'static,
        materialized: Materialized<K, W>,
    ) -> Table<K, W, D> {
        self.map_values_with_key_materialized(move |_, v| f(v), materialized)
    }

    /// As [`Table::map_values_with_key`], and keeps the rows in a store if `materialized` has a name.
    pub fn map_values_with_key_materialized<W: 'static>(
        self,
        f: impl Fn(&K, V) -> W + Send + Sync + 'static,
        materialized: Materialized<K, W>,
    ) -> Table<K, W, D> {
        self.mapped(Arc::new(move |k, v| Ok(Some(f(k, v)))), Some(materialized))
    }

    /// The rows that a [`ValueTransformer`] makes of these, with stores of its own. `supplier` makes one per task, from the stores.
    ///
    /// What it has made is not made again: if something further down has to know what a row was (a
    /// [`group_by`](Table::group_by)), the rows have to be kept by [`Table::transform_values_materialized`], and `build` says so.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// let mut builder = Topology::builder();
    /// builder
    ///     .table("prices", Consumed::with(Utf8, I64))
    ///     .transform_values((), |()| {
    ///         Ok(|cx: &mut RowContext<'_>, _: &String, price: Option<i64>| {
    ///             Ok(price.map(|price| format!("{price} since {}", cx.timestamp())))
    ///         })
    ///     })
    ///     .to_stream()
    ///     .to("texts", Produced::with(Utf8, Nullable(Utf8)));
    /// # builder.build().unwrap();
    /// ```
    #[must_use = "a table without a store does nothing until something consumes it"]
    pub fn transform_values<W: 'static, T: ValueTransformer<K, V, W>, S: StoreSet>(
        self,
        stores: S,
        supplier: impl Fn(S::Refs) -> Result<T> + Send + Sync + 'static,
    ) -> Table<K, W, Deletes> {
        self.transformed(stores, supplier, None)
    }

    /// As [`Table::transform_values`], and keeps the rows in a store if `materialized` has a name.
    pub fn transform_values_materialized<W: 'static, T: ValueTransformer<K, V, W>, S: StoreSet>(
        self,
        stores: S,
        supplier: impl Fn(S::Refs) -> Result<T> + Send + Sync + 'static,
        materialized: Materialized<K, W>,
    ) -> Table<K, W, Deletes> {
        self.transformed(stores, supplier, Some(materialized))
    }

    /// Every update of a row as a record: of its new value, or of `None` for a delete if rows can go.
    pub fn to_stream(mut self) -> Stream<K, D::Streamed<V>> {
        let name = self.at.next_name(prefix::TO_STREAM);
        let build: Build =
            Arc::new(|b| Ok(Built::node(ToStreamNode::<K, V, D> { outs: b.outs()?, table: PhantomData })));
        let spec = NodeSpec::processor(name, vec![self.at.node], build).keeping_key();
        let node = self.at.graph().add::<Record<K, Change<V>>, Record<K, D::Streamed<V>>>(spec);
        Stream { at: self.at.moved(node), rekeyed: false, key: self.key, value: self.value.map(D::serde) }
    }

    /// What operators need of a table.
    pub(crate) fn into_parts(self) -> TableParts<K, V> {
        let Self { at, key, value, versioned, closing, maps_nulls, .. } = self;
        TableParts { at, key, value, versioned, closing, maps_nulls }
    }

    /// A table of which nobody keeps the rows.
    pub(crate) fn of_parts(parts: TableParts<K, V>) -> Self {
        let TableParts { at, key, value, versioned, closing, maps_nulls } = parts;
        Self { at, key, value, rows: None, versioned, closing, maps_nulls, kind: PhantomData }
    }

    fn filtered(self, row: RowFn<K, V, V>, materialized: Option<Materialized<K, V>>) -> Table<K, V, Deletes> {
        let value = self.value.clone();
        let with_serde = |m: Materialized<K, V>| Materialized { value: m.value.or_else(|| value.clone()), ..m };
        let filtered = self.op(prefix::TABLE_FILTER, row, true, materialized.map(with_serde));
        Table { value: filtered.value.or(value), ..filtered }
    }

    fn mapped<W: 'static>(self, row: RowFn<K, V, W>, materialized: Option<Materialized<K, W>>) -> Table<K, W, D> {
        let is_nullable = self.value.clone().is_some_and(|serde| Coder::value(serde).null().is_some());
        let mut mapped = self.op(prefix::TABLE_MAP_VALUES, row, false, materialized);
        mapped.maps_nulls |= is_nullable && mapped.rows.is_none();
        mapped
    }

    fn op<W: 'static, E: TableKind>(
        mut self,
        prefix: &str,
        row: RowFn<K, V, W>,
        filters: bool,
        materialized: Option<Materialized<K, W>>,
    ) -> Table<K, W, E> {
        // Kafka Streams uses up a number here, to keep the names of old programs.
        let unnamed = materialized.as_ref().is_some_and(|m| m.name.is_none());
        let store = unnamed.then(|| self.at.graph().names.store(prefix));
        let (name, versioned) = (self.at.next_name(prefix), self.versioned);
        let kept = self.kept(&name, materialized, |names| store.unwrap_or_else(|| names.store(prefix)));
        let parts = kept.parts();
        let build: Build = Arc::new(move |b| {
            let store = parts.as_ref().map(|(index, format)| TableStore::build(b, *index, format.clone()));
            let (name, node, row) = (b.name.clone(), b.node, row.clone());
            let (has_old, wants_old, outs) = (b.has_old, b.wants_old, b.outs()?);
            Ok(Built::node(TableOpNode { name, node, row, store, has_old, wants_old, filters, versioned, outs }))
        });
        let spec = NodeSpec::processor(name, vec![self.at.node], build).keeping_key();
        let stored = kept.store.is_some();
        self.derived(kept, spec, OldValues { asks: filters && !stored, passes: !stored, gives: false })
    }

    fn transformed<W: 'static, T: ValueTransformer<K, V, W>, S: StoreSet>(
        mut self,
        stores: S,
        supplier: impl Fn(S::Refs) -> Result<T> + Send + Sync + 'static,
        materialized: Option<Materialized<K, W>>,
    ) -> Table<K, W, Deletes> {
        let name = self.at.next_name(prefix::TABLE_TRANSFORM_VALUES);
        let kept = self.kept(&name, materialized, |names| names.store(prefix::TABLE_TRANSFORM_VALUES));
        let (parts, (bound, refs)) = (kept.parts(), stores.bind());
        let row = self.value.clone().map(Coder::value);
        let build: Build = Arc::new(move |b| {
            let store = parts.as_ref().map(|(index, format)| TableStore::build(b, *index, format.clone()));
            let (name, node, transformer, row) = (b.name.clone(), b.node, supplier(refs.clone())?, row.clone());
            Ok(Built::node(TransformNode { name, node, transformer, row, store, outs: b.outs()? }))
        });
        let mut spec = NodeSpec::processor(name, vec![self.at.node], build).keeping_key();
        spec.stores = own_stores(&mut self.at.graph(), &spec.name, bound);
        self.derived(kept, spec, OldValues::default())
    }

    /// The serdes of a table that is made of this one's rows, and its store if it is to have one.
    fn kept<W: 'static>(
        &mut self,
        node: &str,
        materialized: Option<Materialized<K, W>>,
        generate: impl FnOnce(&mut Names) -> String,
    ) -> Derived<K, W> {
        let key = self.key.take();
        let Some(mut m) = materialized else { return Derived { key, value: None, store: None } };
        m.key = m.key.or(key);
        if m.name.is_none() && !m.kept.asks_for_store() {
            return Derived { key: m.key, value: m.value, store: None };
        }
        let name = m.name.take().unwrap_or_else(|| generate(&mut self.at.graph().names));
        let store = declare_store(&self.at, name, node, m);
        Derived { key: Some(store.key.clone()), value: Some(store.value.clone()), store: Some(store) }
    }

    /// Adds the node of a table that is made of this one's rows.
    fn derived<W: 'static, E: TableKind>(
        self,
        kept: Derived<K, W>,
        mut spec: NodeSpec,
        old: OldValues,
    ) -> Table<K, W, E> {
        spec.old = old;
        let versioned = kept.store.as_ref().map_or(self.versioned, DeclaredStore::is_versioned);
        if let Some(store) = &kept.store {
            spec.keep_rows(store.index, store.format.lookup());
        }
        let node = self.at.graph().add::<Record<K, Change<V>>, Record<K, Change<W>>>(spec);
        let Derived { key, value, store } = kept;
        let (at, rows, closing) = (self.at.moved(node), store.map(|store| store.rows), self.closing);
        let maps_nulls = self.maps_nulls && rows.is_none();
        Table { at, key, value, rows, versioned, closing, maps_nulls, kind: PhantomData }
    }
}

/// What is known of a table that is made of another one's rows.
struct Derived<K: 'static, V: 'static> {
    key: Option<AnySerde<K>>,
    value: Option<AnySerde<V>>,
    store: Option<DeclaredStore<K, V>>,
}

impl<K: 'static, V: 'static> Derived<K, V> {
    /// What the node is made with.
    fn parts(&self) -> Option<(usize, RowFormat<K, V>)> {
        self.store.as_ref().map(|store| (store.index, store.format.clone()))
    }
}

/// How the node of a table's updates is called, and its store.
pub(crate) struct UpdateNames {
    pub(crate) node: String,
    pub(crate) store: String,
}

/// Adds the node that makes a table of the updates that come out of `at`; `row` says what a value makes of its row. A table
/// whose store the user has not named has one only if something needs it.
pub(crate) fn table_of_updates<K: 'static, I: 'static, V: 'static, D: TableKind>(
    at: &At,
    names: UpdateNames,
    row: fn(I) -> Option<V>,
    (key, value): (AnySerde<K>, AnySerde<V>),
    mut materialized: Materialized<K, V>,
) -> Table<K, V, D> {
    let name = names.node;
    materialized.key = materialized.key.or(Some(key.clone()));
    materialized.value = materialized.value.or(Some(value.clone()));
    let place = StorePlace::default();
    let wanted = materialized.name.take().is_some() || materialized.kept.asks_for_store();
    let store = RowStore::new(at, names.store, materialized);
    let (format, coder) = (store.format.clone(), Coder::key(key.clone()));
    let in_place = place.clone();
    let build: Build = Arc::new(move |b| {
        let store = in_place.get().map(|index| TableStore::build(b, *index, format.clone()));
        let (name, node, key) = (b.name.clone(), b.node, coder.clone());
        Ok(Built::node(TableSourceNode::<K, I, V> { name, node, row, store, key, outs: b.outs()? }))
    });
    let mut spec = NodeSpec::processor(name, vec![at.node], build).keeping_key();
    if !wanted {
        spec.on_demand = Some(OnDemand { key: store.format.lookup(), def: store.def, place });
        let node = at.graph().add::<Record<K, I>, Record<K, Change<V>>>(spec);
        return Table::unkept(at.moved(node), Some(key), Some(value));
    }
    let store = store.declare(at, &spec.name);
    spec.keep_rows(store.index, store.format.lookup());
    // It is empty: it was made here.
    let _ = place.set(store.index);
    let node = at.graph().add::<Record<K, I>, Record<K, Change<V>>>(spec);
    Table::of(at.moved(node), store)
}
