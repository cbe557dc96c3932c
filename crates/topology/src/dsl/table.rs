//! Tables: the last value of each key.

use std::any::Any;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

use crate::dsl::at::At;
use crate::dsl::options::Materialized;
use crate::dsl::stream::{Stream, missing};
use crate::dsl::windows::Closing;
use crate::graph::{NodeSpec, OldValues, OnDemand, StorePlace};
use crate::names::prefix;
use crate::node::{Build, Built};
use crate::nodes::{RowFn, TableOpNode, TableSourceNode, TableStore, ToStreamNode};
use crate::record::{Change, Record};
use crate::serde::{AnySerde, Coder, Nullable, Serde};
use crate::store::{Serdes, Stamped, StoreDef, StoreHandle, StoreKind, StoreType, TimestampedKeyValue, sealed};

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
#[must_use = "a table does nothing until something consumes it"]
pub struct Table<K: 'static, V: 'static, D = Deletes> {
    at: At,
    key: Option<AnySerde<K>>,
    value: Option<AnySerde<V>>,
    rows: Option<KeptRows>,
    /// When its windows are closed, if its keys have such.
    closing: Option<Closing>,
    kind: PhantomData<fn() -> D>,
}

/// The store that a table's rows are in, of whatever kind.
#[derive(Clone)]
pub(crate) struct KeptRows {
    name: String,
    /// A [`StoreHandle`] of the store's kind.
    handle: Rc<dyn Any>,
}

impl KeptRows {
    pub(crate) fn new<T: StoreKind>(handle: StoreHandle<T>) -> Self {
        Self { name: handle.name.clone(), handle: Rc::new(handle) }
    }
}

impl<K: Clone + 'static, V: Clone + 'static, D> Clone for Table<K, V, D> {
    fn clone(&self) -> Self {
        self.at.graph().allow_fan_out::<Record<K, Change<V>>>(self.at.node);
        let Self { at, key, value, rows, closing, kind } = self;
        let (key, value, rows) = (key.clone(), value.clone(), rows.clone());
        Self { at: at.clone(), key, value, rows, closing: *closing, kind: *kind }
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
        self.rows.as_ref().map(|rows| rows.name.as_str())
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
        self.rows.as_ref()?.handle.downcast_ref::<StoreHandle<T>>().cloned()
    }
}

impl<K: 'static, V: 'static, D: TableKind> Table<K, V, D> {
    pub(crate) fn of(at: At, store: Option<DeclaredStore<K, V>>) -> Self {
        let (key, value) = match &store {
            Some(store) => (Some(store.key.clone()), Some(store.value.clone())),
            None => (None, None),
        };
        let topology = at.graph().id;
        let handle = |s: DeclaredStore<K, V>| -> StoreHandle<TimestampedKeyValue<K, V>> {
            StoreHandle { topology, index: s.index, name: s.name, serdes: s.serdes }
        };
        let rows = store.map(|store| KeptRows::new(handle(store)));
        Self { at, key, value, rows, closing: None, kind: PhantomData }
    }

    /// The node whose updates these are.
    pub(crate) fn node(&self) -> usize {
        self.at.node
    }

    /// A table of windows or sessions.
    pub(crate) fn of_windows(at: At, key: AnySerde<K>, value: AnySerde<V>, rows: KeptRows, closing: Closing) -> Self {
        Self { at, key: Some(key), value: Some(value), rows: Some(rows), closing: Some(closing), kind: PhantomData }
    }

    /// Names the next operator.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.at.name = Some(name.into());
        self
    }

    /// The rows that the predicate holds for. A row that stops to pass is deleted here.
    ///
    /// If the table that is filtered has no store (nor one above it whose rows it only maps), nobody knows what its rows
    /// were before, and every row that does not pass gives a delete, as in Kafka Streams.
    pub fn filter(self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Table<K, V, Deletes> {
        self.filter_materialized(predicate, Materialized::default())
    }

    /// The rows that the predicate does not hold for; see [`Table::filter`].
    pub fn filter_not(self, predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static) -> Table<K, V, Deletes> {
        self.filter(move |k, v| !predicate(k, v))
    }

    /// As [`Table::filter`], and keeps the rows in a store if `materialized` has a name.
    pub fn filter_materialized(
        self,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
        materialized: Materialized<K, V>,
    ) -> Table<K, V, Deletes> {
        let value = materialized.value.clone().or_else(|| self.value.clone());
        let row: RowFn<K, V, V> = Arc::new(move |k, v| Ok(predicate(k, &v).then_some(v)));
        self.op(prefix::TABLE_FILTER, row, true, Materialized { value, ..materialized })
    }

    /// The same rows with other values.
    pub fn map_values<W: 'static>(self, f: impl Fn(V) -> W + Send + Sync + 'static) -> Table<K, W, D> {
        self.map_values_materialized(f, Materialized::default())
    }

    /// As [`Table::map_values`], and keeps the rows in a store if `materialized` has a name.
    pub fn map_values_materialized<W: 'static>(
        self,
        f: impl Fn(V) -> W + Send + Sync + 'static,
        materialized: Materialized<K, W>,
    ) -> Table<K, W, D> {
        let row: RowFn<K, V, W> = Arc::new(move |_, v| Ok(Some(f(v))));
        self.op(prefix::TABLE_MAP_VALUES, row, false, materialized)
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

    /// Where the table is, and its value's serde if that is known.
    pub(crate) fn into_rows(self) -> (At, Option<AnySerde<V>>) {
        (self.at, self.value)
    }

    fn op<W: 'static, E: TableKind>(
        mut self,
        prefix: &str,
        row: RowFn<K, V, W>,
        filters: bool,
        mut materialized: Materialized<K, W>,
    ) -> Table<K, W, E> {
        let name = self.at.next_name(prefix);
        let (key, value) = (materialized.key.take().or(self.key), materialized.value.take());
        (materialized.key, materialized.value) = (key.clone(), value.clone());
        let store = materialized.name.take().map(|store| declare_store(&self.at, store, &name, materialized));
        let parts = store.as_ref().map(|s| (s.index, s.serdes.clone()));
        let build: Build = Arc::new(move |b| {
            let store = parts.as_ref().map(|(index, serdes)| TableStore::build(b, *index, serdes.clone()));
            let (name, row, has_old, wants_old) = (b.name.clone(), row.clone(), b.has_old, b.wants_old);
            Ok(Built::node(TableOpNode { name, row, store, has_old, wants_old, filters, outs: b.outs()? }))
        });
        let mut spec = NodeSpec::processor(name, vec![self.at.node], build).keeping_key();
        let stored = store.is_some();
        spec.stores = store.iter().map(|s| s.index).collect();
        spec.lookup = store.as_ref().map(|s| (s.index, s.serdes.key().identity()));
        spec.old = OldValues { asks: filters && !stored, passes: !stored, gives: stored };
        let node = self.at.graph().add::<Record<K, Change<V>>, Record<K, Change<W>>>(spec);
        let table = Table { closing: self.closing, ..Table::of(self.at.moved(node), store) };
        if stored { table } else { Table { key, value, ..table } }
    }
}

/// A store that a table keeps its rows in.
pub(crate) struct DeclaredStore<K: 'static, V: 'static> {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) serdes: Serdes<K, Stamped<V>>,
    pub(crate) key: AnySerde<K>,
    pub(crate) value: AnySerde<V>,
}

/// A store that a table's rows could be in.
struct RowStore<K: 'static, V: 'static> {
    def: StoreDef,
    serdes: Serdes<K, Stamped<V>>,
    key: AnySerde<K>,
    value: AnySerde<V>,
}

fn row_store<K: 'static, V: 'static>(at: &At, name: String, materialized: Materialized<K, V>) -> RowStore<K, V> {
    let Materialized { key, value, caching, logging, engine, .. } = materialized;
    let key = at.serde(key, || missing("key", "store", &name, "Materialized"));
    let value = at.serde(value, || missing("value", "store", &name, "Materialized"));
    let serdes = Serdes::new(Coder::key(key.clone()), Stamped::new(Coder::value(value.clone())));
    let kind = StoreType::TimestampedKeyValue;
    let def = StoreDef { name, kind, retention: None, hold: None, sub: 0, caching, logging, engine, owner: None };
    RowStore { def, serdes, key, value }
}

/// Declares the store of the node that is added next.
pub(crate) fn declare_store<K: 'static, V: 'static>(
    at: &At,
    name: String,
    node: &str,
    materialized: Materialized<K, V>,
) -> DeclaredStore<K, V> {
    let RowStore { def, serdes, key, value } = row_store(at, name.clone(), materialized);
    let mut graph = at.graph();
    let index = graph.add_store(def, format!("`{node}`"));
    let owner = graph.nodes.len();
    if let Some(entry) = graph.stores.get_mut(index) {
        entry.owner = Some(owner);
    }
    DeclaredStore { index, name, serdes, key, value }
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
    let (store, on_demand, serdes) = if materialized.name.take().is_some() {
        let store = declare_store(at, names.store, &name, materialized);
        // It is empty: it was made here.
        let _ = place.set(store.index);
        let serdes = store.serdes.clone();
        (Some(store), None, serdes)
    } else {
        let RowStore { def, serdes, .. } = row_store(at, names.store, materialized);
        let on_demand = OnDemand { def, key: serdes.key().identity(), place: place.clone() };
        (None, Some(on_demand), serdes)
    };
    let coder = Coder::key(key.clone());
    let build: Build = Arc::new(move |b| {
        let store = place.get().map(|index| TableStore::build(b, *index, serdes.clone()));
        let (name, node, key) = (b.name.clone(), b.node, coder.clone());
        Ok(Built::node(TableSourceNode::<K, I, V> { name, node, row, store, key, outs: b.outs()? }))
    });
    let mut spec = NodeSpec::processor(name, vec![at.node], build).keeping_key();
    spec.stores = store.iter().map(|s| s.index).collect();
    spec.lookup = store.as_ref().map(|s| (s.index, s.serdes.key().identity()));
    spec.old = OldValues { gives: store.is_some(), ..OldValues::default() };
    spec.on_demand = on_demand;
    let node = at.graph().add::<Record<K, I>, Record<K, Change<V>>>(spec);
    let table = Table::of(at.moved(node), store);
    if table.rows.is_some() { table } else { Table { key: Some(key), value: Some(value), ..table } }
}
