//! What stands before a repartition topic: a record without a key belongs to no partition.

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::port::{Dropped, NodeIndex};
use crate::record::Record;
use crate::serde::Coder;

pub(crate) struct NullKeyFilter<K, V> {
    pub(crate) node: NodeIndex,
    pub(crate) key: Coder<K>,
    pub(crate) outs: Outs<Record<K, V>>,
}

impl<K: 'static, V: 'static> Node<Record<K, V>> for NullKeyFilter<K, V> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        if self.key.is_null(&record.key) {
            cx.port.dropped(self.node, Dropped::NullKey);
            return Ok(());
        }
        self.outs.forward(cx, record)
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.outs.visit(cx, path, event)
    }
}
