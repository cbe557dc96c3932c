//! The two ends of a processor that may not change keys: records become fixed-key records before it, and come back behind.

use std::sync::Arc;

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::record::{FixedKeyRecord, Record};

/// The end before: owns the processor's node.
pub(crate) struct FixKey<N>(pub(crate) N);

impl<K: 'static, V: 'static, N: Node<FixedKeyRecord<K, V>>> Node<Record<K, V>> for FixKey<N> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        self.0.receive(cx, FixedKeyRecord(record))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.0.visit(cx, path, event)
    }
}

/// The end behind, around each child.
struct Unfix<K, V>(Box<dyn Node<Record<K, V>>>);

impl<K: 'static, V: 'static> Node<FixedKeyRecord<K, V>> for Unfix<K, V> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: FixedKeyRecord<K, V>) -> Result {
        self.0.receive(cx, record.0)
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.0.visit(cx, path, event)
    }
}

/// The children of a node that forwards fixed-key records, where they themselves take records.
pub(crate) fn fixed_key_outs<K: 'static, V: 'static>(outs: Outs<Record<K, V>>) -> Outs<FixedKeyRecord<K, V>> {
    outs.adapt(
        |child| Box::new(Unfix(child)),
        |clone| Arc::new(move |m: &FixedKeyRecord<K, V>| FixedKeyRecord(clone(&m.0))),
    )
}
