//! Aggregations of a stream by key: count, reduce, aggregate.

use std::sync::Arc;

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::nodes::table_store::TableStore;
use crate::port::{Dropped, NodeIndex};
use crate::record::{Change, Record};
use crate::serde::Coder;

/// How a value goes into what its key has so far.
pub(crate) trait Fold<K, V, A>: Send + Sync + 'static {
    fn fold(&self, so_far: Option<A>, key: &K, value: V) -> Result<A>;
}

pub(crate) struct Count;
/// The first value is taken as it is.
pub(crate) struct Reduce<F>(pub(crate) F);
/// Initializer and aggregator.
pub(crate) struct Aggregate<I, F>(pub(crate) I, pub(crate) F);

impl<K, V> Fold<K, V, i64> for Count {
    #[inline]
    fn fold(&self, so_far: Option<i64>, _: &K, _: V) -> Result<i64> {
        Ok(so_far.unwrap_or(0).wrapping_add(1))
    }
}

impl<K, V, F: Fn(V, V) -> V + Send + Sync + 'static> Fold<K, V, V> for Reduce<F> {
    #[inline]
    fn fold(&self, so_far: Option<V>, _: &K, value: V) -> Result<V> {
        Ok(match so_far {
            Some(so_far) => (self.0)(so_far, value),
            None => value,
        })
    }
}

impl<K, V, A, I, F> Fold<K, V, A> for Aggregate<I, F>
where
    I: Fn() -> A + Send + Sync + 'static,
    F: Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
{
    #[inline]
    fn fold(&self, so_far: Option<A>, key: &K, value: V) -> Result<A> {
        (self.1)(so_far.unwrap_or_else(&self.0), key, &value)
    }
}

pub(crate) struct AggregateNode<K, V, A, F> {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeIndex,
    pub(crate) fold: Arc<F>,
    pub(crate) store: TableStore<K, A>,
    /// The value's serde, where it is known: it says which values are null.
    pub(crate) value: Option<Coder<V>>,
    pub(crate) outs: Outs<Record<K, Change<A>>>,
}

impl<K: 'static, V: 'static, A: 'static, F: Fold<K, V, A>> AggregateNode<K, V, A, F> {
    #[inline]
    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        if Coder::is_known_null(self.value.as_ref(), &record.value) {
            cx.port.dropped(self.node, Dropped::NullValue);
            return Ok(());
        }
        let Record { key, value, timestamp, headers } = record;
        let fold = |so_far| self.fold.fold(so_far, &key, value).map(Some);
        let updated = self.store.fold(cx, &key, (timestamp, &headers), fold)?;
        updated.forward(cx, self.node, &mut self.outs, key, headers)
    }
}

impl<K: 'static, V: 'static, A: 'static, F: Fold<K, V, A>> Node<Record<K, V>> for AggregateNode<K, V, A, F> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        match self.step(cx, record) {
            Ok(()) => Ok(()),
            Err(e) => Err(e.at(&self.name)),
        }
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        drained_or_on(&self.name, &self.store, &mut self.outs, cx, path, event)
    }
}

/// What every node with a table's store does with an event: forward a drained entry of its own, hand on what is for others.
pub(crate) fn drained_or_on<K: 'static, A: 'static>(
    name: &str,
    store: &TableStore<K, A>,
    outs: &mut Outs<Record<K, Change<A>>>,
    cx: &mut TaskCx<'_>,
    path: &[u16],
    event: Event<'_>,
) -> Result {
    if !path.is_empty() {
        return outs.visit(cx, path, event);
    }
    let Event::Drained(entry) = event else { return Err(event.refused(name)) };
    match store.drained(entry) {
        Ok(Some(drained)) => {
            let mut cx = TaskCx { source_key: drained.source_key, ..cx.reborrow() };
            outs.forward(&mut cx, drained.record)
        }
        Ok(None) => Ok(()),
        Err(e) => Err(e.at(name)),
    }
}
