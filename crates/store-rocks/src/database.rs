//! An open database: the calls of RocksDB that a shard and its readers share.

use std::path::{Path, PathBuf};

use millpond_store_api::{Cursor, Direction, Empty, Range, Result, SpaceId};
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBPinnableSlice, FlushOptions, Options, ReadOptions, ReadTier,
    WriteBatch, WriteOptions, properties,
};

use crate::cursor::RocksCursor;
use crate::directory::{self, Found};
use crate::error::{opening, rocks};
use crate::layout::{Bounds, CATALOGUE, EXPIRING, METADATA, PLAIN, Place, Spaces};

/// Rows that are looked up at a time: their blocks are pinned meanwhile.
const LOOKED_UP_AT_ONCE: usize = 256;

/// A shard's database.
pub(crate) struct Database {
    db: DB,
    pub(crate) dir: PathBuf,
    pub(crate) spaces: Spaces,
    /// Writes go to a write-ahead log, too.
    pub(crate) wal: bool,
    read: ReadOptions,
    read_durable: ReadOptions,
    write: WriteOptions,
}

impl Database {
    /// Opens the database of a directory, or makes it.
    ///
    /// What an earlier opening left in its log is in tables when this returns, so this one may have a log or none.
    pub(crate) fn open(
        (mut options, families): (Options, Vec<ColumnFamilyDescriptor>),
        dir: &Path,
        spaces: Spaces,
        wal: bool,
    ) -> Result<Self> {
        let op = "open shard";
        let found = directory::inspect(dir)?;
        if found == Found::Nothing {
            directory::make_database(op, dir)?;
            options.create_if_missing(true);
        }
        let db =
            DB::open_cf_descriptors(&options, directory::database(dir), families).map_err(|e| opening(op, dir, e))?;
        let mut read_durable = ReadOptions::default();
        read_durable.set_read_tier(ReadTier::Persisted);
        let mut write = WriteOptions::default();
        write.disable_wal(!wal);
        let read = ReadOptions::default();
        let database = Self { db, dir: dir.to_owned(), spaces, wal, read, read_durable, write };
        database.catalogue()?;
        if found == Found::Nothing {
            directory::mark(op, dir)?;
        }
        Ok(database)
    }

    /// Notes the spaces in the files, or fails because the files have them otherwise.
    fn catalogue(&self) -> Result<()> {
        let stored = self.reserved(CATALOGUE, &self.read)?;
        if let Some(merged) =
            self.spaces.merge(stored.as_deref().unwrap_or_default()).map_err(|e| e.with("dir", self.dir.display()))?
        {
            let mut batch = WriteBatch::default();
            batch.put_cf(self.family(PLAIN), CATALOGUE, merged);
            self.write("open shard", batch)?;
        }
        Ok(())
    }

    pub(crate) fn family(&self, name: &str) -> &ColumnFamily {
        self.db.cf_handle(name).expect("both families were opened")
    }

    pub(crate) fn get(&self, space: SpaceId, key: &[u8], low: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let place = self.spaces.place(space)?;
        if place == Place::Expiring && key < low {
            return Ok(false);
        }
        let family = self.family(place.family());
        let value = place
            .with_key(key, |stored| self.db.get_pinned_cf_opt(family, stored, &self.read))
            .map_err(|e| rocks("get row", e))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    pub(crate) fn multi_get(
        &self,
        space: SpaceId,
        keys: &[&[u8]],
        low: &[u8],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<()> {
        let place = self.spaces.place(space)?;
        let mut first = 0;
        for keys in keys.chunks(LOOKED_UP_AT_ONCE) {
            for (i, value) in self.look_up(place, keys)?.into_iter().enumerate() {
                let expired = place == Place::Expiring && keys.get(i).is_some_and(|key| *key < low);
                match value.map_err(|e| rocks("get rows", e))? {
                    Some(value) if !expired => found(first + i, &value),
                    _ => {}
                }
            }
            first += keys.len();
        }
        Ok(())
    }

    fn look_up(
        &self,
        place: Place,
        keys: &[&[u8]],
    ) -> Result<Vec<std::result::Result<Option<DBPinnableSlice<'_>>, rocksdb::Error>>> {
        let family = self.family(place.family());
        let prefix = place.prefix();
        if prefix.is_empty() {
            return Ok(self.db.batched_multi_get_cf_opt(family, keys.iter().copied(), false, &self.read));
        }
        let mut bytes = Vec::with_capacity(keys.iter().map(|key| prefix.len() + key.len()).sum());
        for key in keys {
            bytes.extend_from_slice(prefix);
            bytes.extend_from_slice(key);
        }
        let mut rest = bytes.as_slice();
        let stored = keys.iter().map(|key| {
            let (stored, behind) = rest.split_at(prefix.len() + key.len());
            rest = behind;
            stored
        });
        Ok(self.db.batched_multi_get_cf_opt(family, stored, false, &self.read))
    }

    pub(crate) fn scan(
        &self,
        space: SpaceId,
        range: Range<'_>,
        direction: Direction,
        low: &[u8],
    ) -> Result<Box<dyn Cursor + '_>> {
        let place = self.spaces.place(space)?;
        let bounds = place.bounds(range, low);
        if bounds.is_empty() {
            return Ok(Box::new(Empty));
        }
        Ok(Box::new(self.walk(ReadOptions::default(), place, bounds, direction)))
    }

    /// A walk over stored keys; the bounds are not empty.
    pub(crate) fn walk(
        &self,
        options: ReadOptions,
        place: Place,
        bounds: Bounds,
        direction: Direction,
    ) -> RocksCursor<'_> {
        let rows = |options| self.db.raw_iterator_cf_opt(self.family(place.family()), options);
        RocksCursor::new(rows, options, place, bounds, direction)
    }

    /// About how many bytes stored keys from, including, and to, excluding, take in files, with their values.
    pub(crate) fn bytes_in_files(&self, place: Place, from: &[u8], to: &[u8]) -> u64 {
        let range = rocksdb::Range::new(from, to);
        self.db.get_approximate_sizes_cf(self.family(place.family()), &[range]).iter().sum()
    }

    /// The metadata of the last applied batch.
    pub(crate) fn metadata(&self) -> Result<Option<DBPinnableSlice<'_>>> {
        self.reserved(METADATA, &self.read)
    }

    /// The metadata of the last batch that survives a kill, found by a read that skips what is in memory only.
    pub(crate) fn durable_metadata(&self) -> Result<Option<DBPinnableSlice<'_>>> {
        self.reserved(METADATA, &self.read_durable)
    }

    fn reserved(&self, key: &[u8], options: &ReadOptions) -> Result<Option<DBPinnableSlice<'_>>> {
        self.db.get_pinned_cf_opt(self.family(PLAIN), key, options).map_err(|e| rocks("read metadata", e))
    }

    pub(crate) fn write(&self, op: &'static str, batch: WriteBatch) -> Result<()> {
        self.db.write_opt(batch, &self.write).map_err(|e| rocks(op, e))
    }

    /// Flushes *all* families: a flush of one would tear the spaces apart from the metadata, in spite of atomic flush. To wait is
    /// no promise, see [`Database::flush_to_the_end`].
    pub(crate) fn flush(&self, wait: bool) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(wait);
        self.db
            .flush_cfs_opt(&[self.family(PLAIN), self.family(EXPIRING)], &options)
            .map_err(|e| rocks("flush shard", e))
    }

    /// Flushes all families, and returns when everything that was written is in tables. Nobody writes meanwhile.
    ///
    /// RocksDB's own wait may end too early (seen in 11.8, mostly where the families' memtables have different numbers): of a
    /// flush that follows a running one it compares one family's memtables with the number for the other. So what counts is
    /// what is left in memory. Each turn waits for a flush at least, and the last one has a single family left to mix up.
    pub(crate) fn flush_to_the_end(&self) -> Result<()> {
        loop {
            self.flush(true)?;
            let mut left = 0;
            for family in [PLAIN, EXPIRING] {
                for property in [properties::NUM_IMMUTABLE_MEM_TABLE, properties::NUM_ENTRIES_ACTIVE_MEM_TABLE] {
                    let number = self.db.property_int_value_cf(self.family(family), property);
                    left += number.map_err(|e| rocks("flush shard", e))?.unwrap_or(0);
                }
            }
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Syncs the write-ahead log.
    pub(crate) fn flush_wal(&self) -> Result<()> {
        self.db.flush_wal(true).map_err(|e| rocks("flush shard", e))
    }

    /// Deletes the files of the expiring family that hold nothing above `end`.
    pub(crate) fn delete_files_up_to(&self, end: &[u8]) -> Result<()> {
        self.db.delete_file_in_range_cf(self.family(EXPIRING), &[][..], end).map_err(|e| rocks("drop expired rows", e))
    }

    pub(crate) fn checkpoint(&self, to: &Path) -> Result<()> {
        let op = "checkpoint";
        directory::make(op, to)?;
        rocksdb::checkpoint::Checkpoint::new(&self.db)
            .and_then(|checkpoint| checkpoint.create_checkpoint(directory::database(to)))
            .map_err(|e| rocks(op, e).with("to", to.display()))?;
        directory::mark(op, to)
    }

    /// Bytes in memtables that no flush has written yet.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        [PLAIN, EXPIRING].map(|family| self.number(family, properties::CUR_SIZE_ALL_MEM_TABLES)).iter().sum()
    }

    /// Bytes in tables on disk.
    pub(crate) fn file_bytes(&self) -> u64 {
        [PLAIN, EXPIRING].map(|family| self.number(family, properties::TOTAL_SST_FILES_SIZE)).iter().sum()
    }

    /// How often work in the background has failed since the opening.
    pub(crate) fn background_errors(&self) -> u64 {
        self.number(PLAIN, properties::BACKGROUND_ERRORS)
    }

    fn number(&self, family: &str, property: &rocksdb::properties::PropName) -> u64 {
        self.db.property_int_value_cf(self.family(family), property).ok().flatten().unwrap_or(0)
    }

    /// Deletes all files of a directory whose database is closed.
    pub(crate) fn destroy(dir: &Path) -> Result<()> {
        let op = "destroy shard";
        DB::destroy(&Options::default(), directory::database(dir))
            .map_err(|e| rocks(op, e).with("dir", dir.display()))?;
        directory::clear(op, dir)
    }
}
