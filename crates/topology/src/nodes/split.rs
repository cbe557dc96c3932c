//! Splits a stream: each record goes to the first branch that takes it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::record::Record;

/// Whether a branch takes a record.
pub(crate) type Predicate<K, V> = Arc<dyn Fn(&K, &V) -> bool + Send + Sync>;

/// The branches of a split, in the order of its children; it grows while the topology is being defined.
pub(crate) struct Predicates<K, V>(Arc<Mutex<Vec<Predicate<K, V>>>>);

impl<K, V> Clone for Predicates<K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, V> Default for Predicates<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, V> Predicates<K, V> {
    pub(crate) fn push(&self, predicate: Predicate<K, V>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(predicate);
    }

    pub(crate) fn list(&self) -> Vec<Predicate<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

pub(crate) struct SplitNode<K, V> {
    pub(crate) predicates: Vec<Predicate<K, V>>,
    pub(crate) outs: Outs<Record<K, V>>,
}

impl<K: 'static, V: 'static> Node<Record<K, V>> for SplitNode<K, V> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        let first = self.predicates.iter().position(|takes| takes(&record.key, &record.value));
        match first.and_then(|at| u16::try_from(at).ok()) {
            Some(child) => self.outs.forward_to(cx, child, record),
            None => Ok(()),
        }
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.outs.visit(cx, path, event)
    }
}
