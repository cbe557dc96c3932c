//! The shard: one database, one writer.

use std::path::Path;
use std::sync::Arc;

use millpond_store_api::{
    Capabilities, Cursor, Direction, Error, ErrorKind, Flush, Isolation, Range, Read, Result, Shard, ShardReader,
    ShardSpec, SpaceId, Writes,
};

use crate::database::Database;
use crate::directory;
use crate::engine::Shared;
use crate::handle::Handle;
use crate::layout::Spaces;
use crate::reader::RocksReader;
use crate::setter::RocksConfigSetter;

/// A shard on RocksDB.
///
/// Dropping it releases the files after the running calls of readers and a running flush have ended; it flushes nothing.
pub(crate) struct RocksShard {
    pub(crate) database: Arc<Database>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) committed: Option<Vec<u8>>,
    durable: Option<Vec<u8>>,
    /// [`RocksShard::durable`] is known to be what was committed.
    pub(crate) settled: bool,
    /// Rows of the expiring space below this are gone.
    pub(crate) low: Arc<[u8]>,
    /// Failures in the background that have been looked into.
    background_errors: u64,
    /// A stored key; kept for its memory.
    pub(crate) key: Vec<u8>,
}

impl RocksShard {
    pub(crate) fn open(
        shared: Arc<Shared>,
        setter: Option<&dyn RocksConfigSetter>,
        spec: &ShardSpec<'_>,
    ) -> Result<Self> {
        let Some(dir) = spec.dir else {
            return Err(Error::new(ErrorKind::Invalid, "open shard")
                .with("reason", "this engine keeps its shards in files and was given no directory")
                .with("remedy", "set a state directory, or use the memory engine"));
        };
        let spaces = Spaces::new(spec.spaces).map_err(|e| e.with("dir", dir.display()))?;
        let open = shared.flusher.shards().len() as u64 + 1;
        let families = shared.pool.families(setter, spec)?;
        let options = shared.pool.options(&shared.settings, open, families)?;
        let database = Arc::new(Database::open(options, dir, spaces, spec.unlogged)?);
        // What was found was read from files, or from the log that stands for them.
        let committed = database.metadata()?.map(|metadata| metadata.to_vec());
        let handle = Arc::new(Handle::new(Arc::clone(&database), shared.settings.flush_interval));
        shared.flusher.add(Arc::clone(&handle));
        Ok(Self {
            background_errors: database.background_errors(),
            database,
            low: handle.low(),
            handle,
            shared,
            durable: committed.clone(),
            committed,
            settled: true,
            key: Vec::new(),
        })
    }

    /// Fails if something in the background has.
    pub(crate) fn check_background(&mut self) -> Result<()> {
        self.handle.check()?;
        let errors = self.database.background_errors();
        if errors == self.background_errors {
            return Ok(());
        }
        self.background_errors = errors;
        // The count does not say what it was, and RocksDB may have recovered by itself. An empty batch tells.
        self.database.write("look into a failure in the background", rocksdb::WriteBatch::default())
    }

    fn settle(&mut self) {
        self.durable.clone_from(&self.committed);
        self.settled = true;
    }
}

impl Drop for RocksShard {
    fn drop(&mut self) {
        self.shared.flusher.remove(&self.handle);
        // From here on nobody else holds the database: it closes with the last field that refers to it.
        self.handle.gate.shut();
    }
}

impl Read for RocksShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.database.get(space, key, &self.low, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.database.multi_get(space, keys, &self.low, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.database.scan(space, range, direction, &self.low)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.database.approximate_num_entries(space, &self.low)
    }
}

impl Shard for RocksShard {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: true,
            // A batch of look-ups shares its work in RocksDB, but measured it is no faster than one after the other.
            overlapped_reads: false,
            cheap_checkpoint: true,
            shared_open: false,
            isolation: Isolation::Chunk,
        }
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        self.handle.check()?;
        self.write(writes, metadata)
    }

    fn committed(&self) -> Option<&[u8]> {
        self.committed.as_deref()
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        self.check_background()?;
        if !self.settled && self.database.wal {
            self.settle();
        } else if !self.settled {
            let durable = self.database.durable_metadata()?.map(|metadata| metadata.to_vec());
            self.settled = durable == self.committed;
            self.durable = durable;
        }
        Ok(self.durable.as_deref())
    }

    fn flush(&mut self, how: Flush) -> Result<()> {
        self.check_background()?;
        if self.database.wal {
            self.database.flush_wal()?;
            self.settle();
            return Ok(());
        }
        self.handle.clean();
        match how {
            Flush::Start => self.database.flush(false)?,
            Flush::Wait => {
                self.database.flush_to_the_end()?;
                self.settle();
            }
        }
        Ok(())
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        self.expire(space, key)
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        Arc::new(RocksReader::new(Arc::clone(&self.handle)))
    }

    fn close(self: Box<Self>) -> Result<()> {
        // An earlier failure is of no interest any more: what counts is whether everything is flushed now.
        self.database.flush_to_the_end()
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        let dir = self.database.dir.clone();
        drop(self);
        Database::destroy(&dir)
    }

    fn checkpoint(&mut self, to: &Path) -> Result<()> {
        self.check_background()?;
        let refuse = |reason| Err(directory::refused("checkpoint", to, reason));
        match std::fs::symlink_metadata(to) {
            Ok(_) => return refuse("it exists already"),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(crate::error::files("checkpoint", to, e)),
        }
        self.handle.clean();
        // The checkpoint flushes as well, and waits no better than RocksDB does.
        self.database.flush_to_the_end()?;
        self.database.checkpoint(to).inspect_err(|_| {
            // Half a copy is of no use to anybody, and without its marker it is refused should this fail too.
            _ = std::fs::remove_dir_all(to);
        })?;
        self.settle();
        Ok(())
    }
}
