//! The shard: the single writer of one database.

use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use millpond_store_api::{
    Capabilities, Cursor, Direction, Flush, Isolation, Range, Read, Result, Shard, ShardReader, ShardSpec, SpaceId,
    Write, Writes,
};
use redb::{Builder, Database, Durability, WriteTransaction};

use crate::directory::Directory;
use crate::error;
use crate::reader::CustomReader;
use crate::shared::Shared;
use crate::snapshot::{METADATA, Snapshot, unknown, with_table};

/// A shard over one file of redb.
pub(crate) struct CustomShard {
    directory: Directory,
    database: Option<Database>,
    spaces: Vec<SpaceId>,
    shared: Arc<Shared>,
    committed: Option<Arc<[u8]>>,
    durable: Option<Arc<[u8]>>,
    /// Every batch is made durable.
    unlogged: bool,
    flush_bytes: usize,
    /// What was applied since the last flush.
    unflushed_bytes: usize,
}

impl CustomShard {
    pub(crate) fn open(
        directory: Directory,
        spec: &ShardSpec<'_>,
        cache_bytes: usize,
        flush_bytes: usize,
    ) -> Result<Self> {
        let op = "open shard";
        // Checks every page, so that what is damaged is an error here and never a wrong answer later.
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes).set_check_integrity_on_open(true);
        let database =
            builder.create(directory.rows()).map_err(|e| error::of(op, e).with("dir", directory.path().display()))?;
        let spaces: Vec<_> = spec.spaces.iter().map(|space| space.id).collect();
        make_tables(&database, &spaces)?;
        directory.mark()?;
        let snapshot = Snapshot::take(&database, &spaces)?;
        // What was found came from a file, so it is durable.
        let committed = snapshot.metadata().cloned();
        Ok(Self {
            directory,
            database: Some(database),
            spaces,
            shared: Arc::new(Shared::new(snapshot)),
            durable: committed.clone(),
            committed,
            unlogged: spec.unlogged,
            flush_bytes,
            unflushed_bytes: 0,
        })
    }

    fn database(&self) -> &Database {
        self.database.as_ref().expect("only `close`, `destroy` and `drop` take it, which end the shard")
    }

    fn begin(&self, op: &'static str, durability: Durability) -> Result<WriteTransaction> {
        let mut transaction = self.database().begin_write().map_err(|e| error::of(op, e))?;
        transaction.set_durability(durability).map_err(|e| error::of(op, e))?;
        Ok(transaction)
    }

    /// Commits, and lets readers see it.
    fn commit(&self, op: &'static str, transaction: WriteTransaction) -> Result<()> {
        transaction.commit().map_err(|e| error::of(op, e))?;
        self.shared.set(Some(Snapshot::take(self.database(), &self.spaces)?));
        Ok(())
    }

    /// An empty commit makes those before it durable.
    fn make_durable(&mut self, op: &'static str) -> Result<()> {
        let transaction = self.begin(op, Durability::Immediate)?;
        transaction.commit().map_err(|e| error::of(op, e))?;
        self.durable.clone_from(&self.committed);
        self.unflushed_bytes = 0;
        Ok(())
    }

    /// Ends the shard for its readers, then closes the file; a walk that goes on is told by redb.
    fn end(&mut self) -> Result<()> {
        self.shared.set(None);
        match self.database.take() {
            Some(database) => database.close().map_err(|e| error::of("close shard", e)),
            None => Ok(()),
        }
    }
}

/// Makes the tables that are missing, durably.
fn make_tables(database: &Database, spaces: &[SpaceId]) -> Result<()> {
    let op = "open shard";
    let transaction = database.begin_write().map_err(|e| error::of(op, e))?;
    transaction.open_table(METADATA).map(drop).map_err(|e| error::of(op, e))?;
    for space in spaces {
        with_table(*space, |table| transaction.open_table(table).map(drop)).map_err(|e| error::of(op, e))?;
    }
    transaction.commit().map_err(|e| error::of(op, e))
}

/// Writes a batch into a transaction; answers how many bytes of keys and values it has.
fn write(
    op: &'static str,
    transaction: &WriteTransaction,
    spaces: &[SpaceId],
    writes: &mut dyn Writes,
    metadata: &[u8],
) -> Result<usize> {
    // Opened when the first write asks: a batch rarely goes to all spaces.
    let mut tables = BTreeMap::new();
    let mut bytes = 0;
    while let Some(Write { space, key, value }) = writes.next() {
        if !spaces.contains(&space) {
            return Err(unknown(op, space));
        }
        let table = match tables.entry(space) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(closed) => {
                let table = with_table(space, |table| transaction.open_table(table));
                closed.insert(table.map_err(|e| error::of(op, e))?)
            }
        };
        match value {
            Some(value) => table.insert(key, value).map(drop),
            None => table.remove(key).map(drop),
        }
        .map_err(|e| error::of(op, e))?;
        bytes += key.len() + value.map_or(0, <[u8]>::len);
    }
    let mut table = transaction.open_table(METADATA).map_err(|e| error::of(op, e))?;
    table.insert((), metadata).map_err(|e| error::of(op, e))?;
    Ok(bytes)
}

/// Dropping a shard ends it for its readers, as everything else does.
impl Drop for CustomShard {
    fn drop(&mut self) {
        // Whoever drops a shard without `close` takes what a crash would leave, so an error changes nothing.
        _ = self.end();
    }
}

impl Read for CustomShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.shared.now("get")?.get(space, key, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.shared.now("get")?.multi_get(space, keys, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.shared.now("scan")?.scan(space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.shared.now("count rows")?.count(space)
    }
}

impl Shard for CustomShard {
    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: true, isolation: Isolation::Scan, ..Capabilities::default() }
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        let op = "apply batch";
        let is_durable = self.unlogged || self.unflushed_bytes >= self.flush_bytes;
        let durability = if is_durable { Durability::Immediate } else { Durability::None };
        let transaction = self.begin(op, durability)?;
        // A transaction that is dropped without a commit has changed nothing: a refused batch needs no more care.
        let bytes = write(op, &transaction, &self.spaces, writes, metadata)?;
        self.commit(op, transaction)?;
        self.committed = Some(metadata.into());
        self.unflushed_bytes += bytes;
        if is_durable {
            self.durable.clone_from(&self.committed);
            self.unflushed_bytes = 0;
        }
        Ok(())
    }

    fn committed(&self) -> Option<&[u8]> {
        self.committed.as_deref()
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        Ok(self.durable.as_deref())
    }

    fn flush(&mut self, _: Flush) -> Result<()> {
        // redb has no thread that could go on with a flush that was only started.
        self.make_durable("flush shard")
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        let op = "drop expired rows";
        if !self.spaces.contains(&space) {
            return Err(unknown(op, space));
        }
        let transaction = self.begin(op, Durability::None)?;
        let drop_rows = || -> std::result::Result<(), redb::Error> {
            let mut table = with_table(space, |table| transaction.open_table(table))?;
            Ok(table.retain_in::<&[u8], _>(..key, |_, _| false)?)
        };
        drop_rows().map_err(|e| error::of(op, e))?;
        self.commit(op, transaction)
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        Arc::new(CustomReader(Arc::clone(&self.shared)))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.make_durable("close shard")?;
        self.end()
    }

    fn destroy(mut self: Box<Self>) -> Result<()> {
        // Its rows are not wanted any more, so it does not matter whether they could be written.
        _ = self.end();
        self.directory.remove()
    }
}
