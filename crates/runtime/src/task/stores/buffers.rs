//! What waits in a task's suppression buffers, for metrics.

use millpond_changelog::RowLayout;
use millpond_store_api::{self as store, BufferTotals, KeyBuffer, Read};
use millpond_topology::{LayerSpace, StoreIndex};

use super::{TaskStore, TaskStores};
use crate::metrics::{Gauge, Metrics, Scope};
use crate::task::Task;

impl TaskStores {
    /// How much waits in each suppression buffer, and the time of the row that is due first.
    fn waiting(&mut self, each: &mut dyn FnMut(StoreIndex, BufferTotals, Option<i64>)) -> store::Result<()> {
        for TaskStore { plan, overlay, shard, rows, .. } in &mut self.stores {
            let (RowLayout::Buffer { .. }, Some(shard)) = (*rows, self.shards.get(*shard)) else { continue };
            let base: &dyn Read = &*shard.shard;
            let mut space = LayerSpace { layer: overlay, base, timestamp: -1 };
            let mut buffer = KeyBuffer::new(&mut space);
            let held = buffer.totals()?;
            each(plan.index, held, buffer.earliest()?);
        }
        Ok(())
    }
}

impl Task {
    /// Notes what waits in its suppression buffers: two reads for each, so once per commit.
    pub(crate) fn tell_buffers(&mut self, metrics: &dyn Metrics) {
        let (Some(stores), task) = (&mut self.stores, self.id) else { return };
        let told = stores.waiting(&mut |store, held, earliest| {
            let scope = Scope::Store { task, store };
            metrics.set(Gauge::SuppressionBufferCount, scope, held.rows);
            metrics.set(Gauge::SuppressionBufferSize, scope, held.bytes);
            let oldest = earliest.and_then(|time| u64::try_from(time).ok()).unwrap_or(0);
            metrics.set(Gauge::SuppressionBufferOldest, scope, oldest);
        });
        if let Err(error) = told {
            // Whoever needs the rows meets it again, and does what has to be done.
            tracing::warn!(task = %task, "suppression buffers are not measured: {error}");
        }
    }
}
