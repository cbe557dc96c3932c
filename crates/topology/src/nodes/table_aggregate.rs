//! Aggregations of a regrouped table: what a row counted for is taken off before what it counts for now is added.

use std::sync::Arc;

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::nodes::aggregate::{Fold, drained_or_on};
use crate::nodes::table_store::TableStore;
use crate::port::NodeIndex;
use crate::record::{Change, Record};

/// How a value goes out of an aggregate that it is in: the other way of [`Fold`].
pub(crate) trait Subtract<K, V, A>: Send + Sync + 'static {
    fn subtract(&self, so_far: A, key: &K, value: V) -> Result<A>;
}

pub(crate) struct Uncount;
/// The opposite of [`Reduce`](crate::nodes::Reduce).
pub(crate) struct TakeOff<F>(pub(crate) F);
/// The opposite of [`Aggregate`](crate::nodes::Aggregate).
pub(crate) struct RemoveWith<F>(pub(crate) F);

impl<K, V> Subtract<K, V, i64> for Uncount {
    fn subtract(&self, so_far: i64, _: &K, _: V) -> Result<i64> {
        Ok(so_far.wrapping_sub(1))
    }
}

impl<K, V, F: Fn(V, V) -> V + Send + Sync + 'static> Subtract<K, V, V> for TakeOff<F> {
    fn subtract(&self, so_far: V, _: &K, value: V) -> Result<V> {
        Ok((self.0)(so_far, value))
    }
}

impl<K, V, A, F: Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static> Subtract<K, V, A> for RemoveWith<F> {
    fn subtract(&self, so_far: A, key: &K, value: V) -> Result<A> {
        (self.0)(so_far, key, &value)
    }
}

pub(crate) struct TableAggregateNode<K, A, F, S> {
    pub(crate) name: Arc<str>,
    pub(crate) node: NodeIndex,
    pub(crate) add: Arc<F>,
    pub(crate) subtract: Arc<S>,
    pub(crate) store: TableStore<K, A>,
    pub(crate) outs: Outs<Record<K, Change<A>>>,
}

impl<K: 'static, A: 'static, F, S> TableAggregateNode<K, A, F, S> {
    fn step<V>(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result
    where
        F: Fold<K, V, A>,
        S: Subtract<K, V, A>,
    {
        let Record { key, value: change, timestamp, headers } = record;
        let (add, subtract, coder) = (&self.add, &self.subtract, self.store.value());
        let fold = |so_far: Option<A>| {
            let rest = match (so_far, change.old) {
                (Some(so_far), Some(old)) => Some(subtract.subtract(so_far, &key, old)?),
                // What is not there has nothing that could be taken off.
                (so_far, _) => so_far,
            };
            match change.new {
                Some(new) => add.fold(rest.filter(|rest| !coder.is_null(rest)), &key, new).map(Some),
                None => Ok(rest),
            }
        };
        let updated = self.store.fold(cx, &key, (timestamp, &headers), fold)?;
        updated.forward(cx, self.node, &mut self.outs, key, headers)
    }
}

impl<K, V, A, F, S> Node<Record<K, Change<V>>> for TableAggregateNode<K, A, F, S>
where
    K: 'static,
    V: 'static,
    A: 'static,
    F: Fold<K, V, A>,
    S: Subtract<K, V, A>,
{
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        self.step(cx, record).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        drained_or_on(&self.name, &self.store, &mut self.outs, cx, path, event)
    }
}
