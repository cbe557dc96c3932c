//! Tables: the source that keeps rows, operators on rows, and the way back to a stream.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::dsl::TableKind;
use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::nodes::aggregate::drained_or_on;
use crate::nodes::table_store::{TableStore, Updated};
use crate::port::NodeIndex;
use crate::record::{Change, Record};
use crate::serde::Coder;
use crate::transform::{RowContext, ValueTransformer};

/// What becomes of the updates that make a table.
pub(crate) struct TableSourceNode<K, I, V> {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeIndex,
    /// The row's new value; `None`: the row is deleted.
    pub(crate) row: fn(I) -> Option<V>,
    /// None: nobody needs the rows.
    pub(crate) store: Option<TableStore<K, V>>,
    pub(crate) key: Coder<K>,
    pub(crate) outs: Outs<Record<K, Change<V>>>,
}

impl<K: 'static, I: 'static, V: 'static> TableSourceNode<K, I, V> {
    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, I>) -> Result {
        let Record { key, value, timestamp, headers } = record;
        let value = (self.row)(value);
        let updated = match &self.store {
            _ if self.key.is_null(&key) => Updated::NullKey,
            // The newest arrival wins, even if it is older; a versioned store puts it in its place.
            Some(store) => store.replace(cx, &key, (timestamp, &headers), value, false)?,
            None => Updated::Forward { change: Change { new: value, old: None }, timestamp, latest: true },
        };
        updated.forward(cx, self.node, &mut self.outs, key, headers)
    }
}

impl<K: 'static, I: 'static, V: 'static> Node<Record<K, I>> for TableSourceNode<K, I, V> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, I>) -> Result {
        self.step(cx, record).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        match &self.store {
            Some(store) => drained_or_on(&self.name, store, &mut self.outs, cx, path, event),
            None => self.outs.visit(cx, path, event),
        }
    }
}

/// Makes the value of one row from that of another; `None`: there is no such row.
pub(crate) type RowFn<K, V, W> = Arc<dyn Fn(&K, V) -> Result<Option<W>> + Send + Sync>;

/// Filters or maps the rows of a table, with or without a store of its own.
pub(crate) struct TableOpNode<K, V, W> {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeIndex,
    pub(crate) row: RowFn<K, V, W>,
    pub(crate) store: Option<TableStore<K, W>>,
    /// The parent says what rows were before.
    pub(crate) has_old: bool,
    /// A child needs to know.
    pub(crate) wants_old: bool,
    /// Rows may go that the parent keeps.
    pub(crate) filters: bool,
    /// The parent is versioned, so a row that does not pass may be an earlier version that is told of late.
    pub(crate) versioned: bool,
    pub(crate) outs: Outs<Record<K, Change<W>>>,
}

impl<K: 'static, V: 'static, W: 'static> TableOpNode<K, V, W> {
    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        let Record { key, value, timestamp, headers } = record;
        let row = |value: Option<V>| match value {
            Some(value) => (self.row)(&key, value),
            None => Ok(None),
        };
        let new = row(value.new)?;
        // Nobody is told of a row that was not here before either.
        let skip_absent = self.filters && self.has_old && !self.versioned;
        let updated = match &self.store {
            Some(store) => store.replace(cx, &key, (timestamp, &headers), new, skip_absent)?,
            None => {
                let old = if self.has_old && (self.wants_old || self.filters) { row(value.old)? } else { None };
                if skip_absent && new.is_none() && old.is_none() {
                    return Ok(());
                }
                Updated::Forward { change: Change { new, old }, timestamp, latest: cx.latest }
            }
        };
        updated.forward(cx, self.node, &mut self.outs, key, headers)
    }
}

impl<K: 'static, V: 'static, W: 'static> Node<Record<K, Change<V>>> for TableOpNode<K, V, W> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        self.step(cx, record).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        match &self.store {
            Some(store) => drained_or_on(&self.name, store, &mut self.outs, cx, path, event),
            None => self.outs.visit(cx, path, event),
        }
    }
}

/// Makes the rows of another table by user code that has stores.
pub(crate) struct TransformNode<K, V, W, T> {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeIndex,
    pub(crate) transformer: T,
    /// The rows' own serde, where it is known: it says which values are null.
    pub(crate) row: Option<Coder<V>>,
    pub(crate) store: Option<TableStore<K, W>>,
    pub(crate) outs: Outs<Record<K, Change<W>>>,
}

impl<K: 'static, V: 'static, W: 'static, T: ValueTransformer<K, V, W>> TransformNode<K, V, W, T> {
    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        let Record { key, value, timestamp, headers } = record;
        let mut row = RowContext { task: cx.reborrow(), timestamp, headers: &headers };
        let value = value.new.filter(|value| !Coder::is_known_null(self.row.as_ref(), value));
        let new = self.transformer.transform(&mut row, &key, value)?;
        let updated = match &self.store {
            Some(store) => store.replace(cx, &key, (timestamp, &headers), new, false)?,
            // What the row was is not worked out again: that would be another time, and the stores have changed since.
            None => Updated::Forward { change: Change { new, old: None }, timestamp, latest: cx.latest },
        };
        updated.forward(cx, self.node, &mut self.outs, key, headers)
    }
}

impl<K: 'static, V: 'static, W: 'static, T: ValueTransformer<K, V, W>> Node<Record<K, Change<V>>>
    for TransformNode<K, V, W, T>
{
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        self.step(cx, record).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        match &self.store {
            Some(store) => drained_or_on(&self.name, store, &mut self.outs, cx, path, event),
            None => self.outs.visit(cx, path, event),
        }
    }
}

/// Forwards what rows are now.
pub(crate) struct ToStreamNode<K, V: 'static, D: TableKind> {
    pub(crate) outs: Outs<Record<K, D::Streamed<V>>>,
    pub(crate) table: PhantomData<fn(V)>,
}

impl<K: 'static, V: 'static, D: TableKind> Node<Record<K, Change<V>>> for ToStreamNode<K, V, D> {
    #[inline]
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        let Record { key, value, timestamp, headers } = record;
        match D::streamed(value.new) {
            Some(value) => self.outs.forward(cx, Record { key, value, timestamp, headers }),
            None => Ok(()),
        }
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.outs.visit(cx, path, event)
    }
}
