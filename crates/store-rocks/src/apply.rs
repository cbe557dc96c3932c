//! Applying a batch: its rows and its metadata in one write.

use millpond_store_api::{Result, Writes};
use rocksdb::WriteBatch;

use crate::layout::{METADATA, PLAIN};
use crate::shard::RocksShard;

/// What RocksDB puts in front of a row of a batch, at most.
const ROW_OVERHEAD: usize = 24;

impl RocksShard {
    /// Two passes: the first finds unknown spaces before anything is changed, and the size.
    pub(crate) fn write(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        let mut size = metadata.len() + 2 * ROW_OVERHEAD;
        writes.rewind();
        while let Some(write) = writes.next() {
            self.database.spaces.place(write.space)?;
            size += write.key.len() + write.value.map_or(0, <[u8]>::len) + ROW_OVERHEAD;
        }
        let mut batch = WriteBatch::with_capacity_bytes(size);
        writes.rewind();
        while let Some(write) = writes.next() {
            let place = self.database.spaces.place(write.space)?;
            let family = self.database.family(place.family());
            self.key.clear();
            self.key.extend_from_slice(place.prefix());
            self.key.extend_from_slice(write.key);
            match write.value {
                Some(value) => batch.put_cf(family, &self.key, value),
                None => batch.delete_cf(family, &self.key),
            }
        }
        batch.put_cf(self.database.family(PLAIN), METADATA, metadata);
        self.shared.flusher.make_room();
        self.database.write("apply batch", batch)?;
        self.handle.soil(|| self.shared.ports.monotonic());
        self.settled = false;
        let committed = self.committed.get_or_insert_default();
        committed.clear();
        committed.extend_from_slice(metadata);
        Ok(())
    }
}
