//! Regroups a table's rows: each side of a change goes to the key that it belongs to from now on.

use std::sync::Arc;

use crate::error::Result;
use crate::node::{Event, Node, Outs, TaskCx};
use crate::record::{Change, Record};
use crate::serde::Coder;

/// The key and the value that a row counts for.
pub(crate) type SelectFn<K, V, L, W> = Arc<dyn Fn(&K, V) -> Result<(L, W)> + Send + Sync>;

pub(crate) struct TableSelectNode<K, V, L, W> {
    pub(crate) name: Arc<str>,
    pub(crate) select: SelectFn<K, V, L, W>,
    /// The rows' own serde, where it is known: it says which values are null.
    pub(crate) row: Option<Coder<V>>,
    pub(crate) key: Coder<L>,
    pub(crate) value: Coder<W>,
    /// The table is versioned: what is not a row's latest version counts for nothing.
    pub(crate) versioned: bool,
    pub(crate) outs: Outs<Record<L, Change<W>>>,
}

impl<K: 'static, V: 'static, L: 'static, W: 'static> TableSelectNode<K, V, L, W> {
    /// What a side of a change counts for, its key's bytes in `bytes`; nothing if the row, the new key or the new value is null.
    fn side(&self, key: &K, value: Option<V>, bytes: &mut Vec<u8>) -> Result<Option<(L, W)>> {
        bytes.clear();
        let value = value.filter(|value| !Coder::is_known_null(self.row.as_ref(), value));
        let Some(value) = value else { return Ok(None) };
        let (key, value) = (self.select)(key, value)?;
        let counts = !self.value.is_null(&value) && self.key.encode(&key, bytes)?;
        Ok(counts.then_some((key, value)))
    }

    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        if self.versioned && !cx.latest {
            return Ok(());
        }
        let Record { key, value: Change { new, old }, timestamp, headers } = record;
        let [new_key, old_key, ..] = &mut cx.scratch.views;
        let (new_key, old_key) = (&mut new_key.bytes, &mut old_key.bytes);
        let sides = (self.side(&key, old, old_key)?, self.side(&key, new, new_key)?);
        let same_key = new_key == old_key;
        let change = |new, old| Change { new, old };
        let (old, new) = match sides {
            // One record, so that nobody sees the row counted for nothing or twice (KIP-904).
            (Some((_, old)), Some((key, new))) if same_key => (None, Some((key, change(Some(new), Some(old))))),
            (old, new) => (
                old.map(|(key, old)| (key, change(None, Some(old)))),
                new.map(|(key, new)| (key, change(Some(new), None))),
            ),
        };
        if let Some((key, value)) = old {
            self.outs.forward(cx, Record { key, value, timestamp, headers: headers.clone() })?;
        }
        match new {
            Some((key, value)) => self.outs.forward(cx, Record { key, value, timestamp, headers }),
            None => Ok(()),
        }
    }
}

impl<K: 'static, V: 'static, L: 'static, W: 'static> Node<Record<K, Change<V>>> for TableSelectNode<K, V, L, W> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        self.step(cx, record).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        self.outs.visit(cx, path, event)
    }
}
