//! The stores that tables keep their rows in, and which kind a table needs.

use std::any::Any;
use std::rc::Rc;

use crate::dsl::at::At;
use crate::dsl::options::{Kept, Materialized};
use crate::dsl::stream::missing;
use crate::nodes::{RowFormat, RowKind};
use crate::problem::ProblemKind;
use crate::serde::{AnySerde, Coder};
use crate::store::{
    Expiring, Serdes, Stamped, StampedWithHeaders, StoreDef, StoreFormat, StoreHandle, StoreKind, StoreSpec,
    TimestampedKeyValue, TimestampedKeyValueWithHeaders, TtlKeyValue, Versioned,
};

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

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The store, if it is of this kind.
    pub(crate) fn handle<T: StoreKind>(&self) -> Option<StoreHandle<T>> {
        self.handle.downcast_ref::<StoreHandle<T>>().cloned()
    }
}

/// A store that a table keeps its rows in.
pub(crate) struct DeclaredStore<K: 'static, V: 'static> {
    pub(crate) index: usize,
    pub(crate) format: RowFormat<K, V>,
    pub(crate) key: AnySerde<K>,
    pub(crate) value: AnySerde<V>,
    pub(crate) rows: KeptRows,
}

/// A store that a table's rows could be in.
pub(crate) struct RowStore<K: 'static, V: 'static> {
    pub(crate) def: StoreDef,
    pub(crate) format: RowFormat<K, V>,
    key: AnySerde<K>,
    value: AnySerde<V>,
    rows: InPlace,
}

/// Makes the handle of a store in its place.
type InPlace = Box<dyn FnOnce(&At, usize) -> KeptRows>;

impl<K: 'static, V: 'static> RowStore<K, V> {
    pub(crate) fn new(at: &At, name: String, materialized: Materialized<K, V>) -> Self {
        let Materialized { key, value, caching, logging, engine, kept, .. } = materialized;
        let key = at.serde(key, || missing("key", "store", &name, "Materialized"));
        let value = at.serde(value, || missing("value", "store", &name, "Materialized"));
        let coders = (Coder::key(key.clone()), Coder::value(value.clone()));
        let in_format = at.graph().format;
        let keeps_headers = in_format == StoreFormat::LastHeaders;
        let format = |kind| RowFormat { key: coders.0.clone(), value: coders.1.clone(), kind, keeps_headers };
        let (kind, (mut def, rows)) = match (kept, in_format) {
            (Kept::History(history), _) => {
                let serdes = Serdes::new(coders.0.clone(), Stamped::new(coders.1.clone()));
                let spec = StoreSpec::<Versioned<K, V>>::new(&name, serdes);
                (RowKind::Versioned, parts(at, spec.kept_for("history retention", history)))
            }
            (Kept::TimeToLive(time_to_live), _) => {
                let serdes = Serdes::new(coders.0.clone(), Expiring::new(coders.1.clone()));
                let spec = StoreSpec::<TtlKeyValue<K, V>>::new(&name, serdes);
                (RowKind::Expiring, parts(at, spec.kept_for("time to live", time_to_live)))
            }
            (_, StoreFormat::Headers | StoreFormat::LastHeaders) => {
                let serdes = Serdes::new(coders.0.clone(), StampedWithHeaders::new(coders.1.clone()));
                let spec = StoreSpec::<TimestampedKeyValueWithHeaders<K, V>>::new(&name, serdes);
                (RowKind::WithHeaders, parts(at, spec))
            }
            (_, StoreFormat::Plain) => {
                let serdes = Serdes::new(coders.0.clone(), Stamped::new(coders.1.clone()));
                (RowKind::Stamped, parts(at, StoreSpec::<TimestampedKeyValue<K, V>>::new(&name, serdes)))
            }
        };
        if matches!(kept, Kept::Retention(_)) {
            at.graph().problem(ProblemKind::Store, no_windows(&name));
        }
        // The log of a versioned store has every put, and what expires is told to nobody: neither can be held back.
        def.caching = caching && matches!(kind, RowKind::Stamped | RowKind::WithHeaders);
        (def.logging, def.engine) = (logging, engine);
        Self { def, format: format(kind), key, value, rows }
    }

    /// Declares the store of the node that is added next.
    pub(crate) fn declare(self, at: &At, node: &str) -> DeclaredStore<K, V> {
        let Self { def, format, key, value, rows } = self;
        let mut graph = at.graph();
        let index = graph.add_store(def, format!("`{node}`"));
        let owner = graph.nodes.len();
        if let Some(entry) = graph.stores.get_mut(index) {
            entry.owner = Some(owner);
        }
        drop(graph);
        DeclaredStore { index, format, key, value, rows: rows(at, index) }
    }
}

impl<K: 'static, V: 'static> DeclaredStore<K, V> {
    pub(crate) fn is_versioned(&self) -> bool {
        self.format.kind == RowKind::Versioned
    }
}

/// What the graph needs of a specification, and how its handle is made.
fn parts<T: StoreKind>(at: &At, spec: StoreSpec<T>) -> (StoreDef, InPlace) {
    let mut graph = at.graph();
    for mistake in spec.mistakes() {
        graph.problem(ProblemKind::Store, mistake);
    }
    let StoreSpec { def, serdes, .. } = spec;
    let name = def.name.clone();
    let rows = move |at: &At, index| {
        let topology = at.graph().id;
        KeptRows::new::<T>(StoreHandle { topology, index, name, serdes })
    };
    (def, Box::new(rows))
}

fn no_windows(store: &str) -> String {
    format!(
        "the store `{store}` keeps no windows, so it has no retention; use `history_retention` to keep earlier versions of rows, \
         or `time_to_live` to let rows go"
    )
}

/// Declares the store of the node that is added next.
pub(crate) fn declare_store<K: 'static, V: 'static>(
    at: &At,
    name: String,
    node: &str,
    materialized: Materialized<K, V>,
) -> DeclaredStore<K, V> {
    RowStore::new(at, name, materialized).declare(at, node)
}
