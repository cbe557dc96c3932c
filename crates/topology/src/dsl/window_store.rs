//! The stores of windowed aggregations.

use std::sync::Arc;

use crate::dsl::at::At;
use crate::dsl::emit::EmitStrategy;
use crate::dsl::options::{Kept, Materialized};
use crate::dsl::row_store::KeptRows;
use crate::dsl::stream::missing;
use crate::dsl::windows::{Shape, WindowSpec};
use crate::millis::counted;
use crate::nodes::WindowFormat;
use crate::problem::ProblemKind;
use crate::serde::{AnySerde, Coder, SessionWindowed, TimeWindowed, Windowed};
use crate::store::{
    AggregateWithHeaders, Plain, Retention, Serdes, Session, SessionWithHeaders, Stamped, StampedWithHeaders, StoreDef,
    StoreFormat, StoreHandle, StoreKind, StoreType, TimestampedWindow, TimestampedWindowWithHeaders, WindowSerdes,
    Windows,
};

/// A store that a windowed aggregation keeps its rows in.
pub(crate) struct DeclaredWindows<K: 'static, A: 'static> {
    pub(crate) index: usize,
    pub(crate) format: WindowFormat<K, A>,
    /// Of the table's keys.
    pub(crate) key: AnySerde<Windowed<K>>,
    pub(crate) value: AnySerde<A>,
    pub(crate) rows: KeptRows,
}

/// Declares the store of time windows or sliding windows, for the node that is added next.
pub(crate) fn declare_windows<K: 'static, A: 'static>(
    at: &At,
    name: String,
    node: &str,
    materialized: Materialized<K, A>,
    spec: &WindowSpec,
    emit: EmitStrategy,
) -> DeclaredWindows<K, A> {
    let has_headers = at.graph().format != StoreFormat::Plain;
    let kind = if has_headers { StoreType::TimestampedWindowWithHeaders } else { StoreType::TimestampedWindow };
    let Declared { index, key, value, format } = declare(at, &name, node, kind, materialized, spec, emit);
    let size = spec.shape.length();
    let windows = Windows { size, duplicates: false };
    let (key_coder, value_coder) = (format.key.clone(), format.value.clone());
    let rows = if has_headers {
        let serdes = Serdes::new(key_coder, StampedWithHeaders::new(value_coder));
        kept::<TimestampedWindowWithHeaders<K, A>>(at, index, name, WindowSerdes { serdes, windows })
    } else {
        let serdes = Serdes::new(key_coder, Stamped::new(value_coder));
        kept::<TimestampedWindow<K, A>>(at, index, name, WindowSerdes { serdes, windows })
    };
    DeclaredWindows { index, format, key: Arc::new(TimeWindowed::new(key, size)), value, rows }
}

/// Declares the store of sessions, for the node that is added next.
pub(crate) fn declare_sessions<K: 'static, A: 'static>(
    at: &At,
    name: String,
    node: &str,
    materialized: Materialized<K, A>,
    spec: &WindowSpec,
    emit: EmitStrategy,
) -> DeclaredWindows<K, A> {
    let has_headers = at.graph().format != StoreFormat::Plain;
    let kind = if has_headers { StoreType::SessionWithHeaders } else { StoreType::Session };
    let Declared { index, key, value, format } = declare(at, &name, node, kind, materialized, spec, emit);
    let (key_coder, value_coder) = (format.key.clone(), format.value.clone());
    let rows = if has_headers {
        let serdes = Serdes::new(key_coder, AggregateWithHeaders::new(value_coder));
        kept::<SessionWithHeaders<K, A>>(at, index, name, serdes)
    } else {
        kept::<Session<K, A>>(at, index, name, Serdes::new(key_coder, Plain::new(value_coder)))
    };
    DeclaredWindows { index, format, key: Arc::new(SessionWindowed(key)), value, rows }
}

fn kept<T: StoreKind>(at: &At, index: usize, name: String, serdes: T::Serdes) -> KeptRows {
    let topology = at.graph().id;
    KeptRows::new::<T>(StoreHandle { topology, index, name, serdes })
}

/// What any such store is.
struct Declared<K: 'static, A: 'static> {
    index: usize,
    key: AnySerde<K>,
    value: AnySerde<A>,
    format: WindowFormat<K, A>,
}

fn declare<K: 'static, A: 'static>(
    at: &At,
    name: &str,
    node: &str,
    kind: StoreType,
    materialized: Materialized<K, A>,
    spec: &WindowSpec,
    emit: EmitStrategy,
) -> Declared<K, A> {
    let Materialized { key, value, caching, logging, engine, kept, .. } = materialized;
    let key = at.serde(key, || missing("key", "store", name, "Materialized"));
    let value = at.serde(value, || missing("value", "store", name, "Materialized"));
    let mut graph = at.graph();
    let millis = retention(name, kept, spec).unwrap_or_else(|mistake| {
        graph.problem(ProblemKind::Store, mistake);
        spec.needed
    });
    let emits_on_close = emit.on_close.is_some();
    let def = StoreDef {
        name: name.to_owned(),
        kind,
        retention: Some(kept_for(millis, spec, emits_on_close)),
        hold: emits_on_close.then_some(spec.closing.delay),
        sub: 0,
        caching,
        logging,
        engine,
        owner: None,
    };
    let index = graph.add_store(def, format!("`{node}`"));
    let owner = graph.nodes.len();
    // What is drained of an aggregation that forwards final results was forwarded already, or is not final.
    if let Some(entry) = graph.stores.get_mut(index).filter(|_| !emits_on_close) {
        entry.owner = Some(owner);
    }
    let (key_coder, value_coder) = (Coder::key(key.clone()), Coder::value(value.clone()));
    let format = WindowFormat { key: key_coder, value: value_coder, format: graph.format };
    drop(graph);
    Declared { index, key, value, format }
}

/// A store's time is what was put alone, so that a window is there as long as the operator calls it open, whose time may be
/// behind the task's. What others see expires as in Kafka Streams; what the operator sees does not until it is done with it,
/// where Kafka Streams hides sessions that a record in time belongs to.
fn kept_for(millis: i64, spec: &WindowSpec, emits_on_close: bool) -> Retention {
    let kept_inside = match spec.shape {
        Shape::Time { .. } => millis,
        // The end belongs to it: without a difference it is open when the retention is over.
        Shape::Sliding { .. } => spec.closing.delay.saturating_add(1),
        // A record that makes the close by its own time may belong to a session that ended a gap before.
        Shape::Session { gap } => spec.needed.saturating_add(gap).saturating_add(1),
    };
    let longer_inside = kept_inside.saturating_sub(millis).max(0);
    Retention { millis, duplicates: false, inclusive: emits_on_close, longer_inside, by_puts: true }
}

/// For how long the store keeps its rows (milliseconds), or what is wrong with what was asked for.
fn retention(name: &str, kept: Kept, spec: &WindowSpec) -> Result<i64, String> {
    let WindowSpec { shape, closing, needed } = *spec;
    let millis = match kept {
        Kept::AsNeeded => return Ok(needed),
        Kept::Retention(asked) => {
            counted(asked, 0).map_err(|wrong| format!("the store `{name}` has a retention of {wrong}"))?
        }
        Kept::History(_) | Kept::TimeToLive(_) => {
            return Err(format!(
                "the store `{name}` keeps windows, which have a retention; it can have neither a history nor a time to live"
            ));
        }
    };
    if millis >= needed {
        return Ok(millis.min(i64::MAX - 1));
    }
    let grace = closing.delay;
    let parts = match shape {
        Shape::Time { size, .. } => format!("a size of {size} ms and a grace of {grace} ms"),
        Shape::Sliding { difference } => {
            format!("twice a time difference of {difference} ms and a grace of {grace} ms")
        }
        Shape::Session { gap } => format!("a gap of {gap} ms and a grace of {} ms", grace.saturating_sub(gap)),
    };
    Err(format!(
        "the store `{name}` has a retention of {millis} ms, but windows with {parts} need {needed} ms: records in time would \
         find their window gone; make it at least {needed} ms, or leave it out"
    ))
}
