//! The state at one moment: what every read goes to, the writer's and the readers'.

use std::ops::Bound;
use std::sync::Arc;

use millpond_store_api::{Cursor, Direction, Empty, Error, ErrorKind, Range, Result, SpaceId};
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use crate::cursor::SnapshotCursor;
use crate::error;

/// A row's key or value, as redb names its type.
pub(crate) type Bytes = &'static [u8];

/// The one row of this table is the metadata; no row: no batch was applied yet.
pub(crate) const METADATA: TableDefinition<'_, (), Bytes> = TableDefinition::new("metadata");

/// A space's table, by its number: the name of a space may change.
pub(crate) fn with_table<T>(space: SpaceId, body: impl FnOnce(TableDefinition<'_, Bytes, Bytes>) -> T) -> T {
    body(TableDefinition::new(&format!("space {}", space.0)))
}

#[cold]
pub(crate) fn unknown(op: &'static str, space: SpaceId) -> Error {
    Error::new(ErrorKind::Invalid, op).with("unknown space", space.0)
}

/// All spaces and the metadata as one batch has left them. It stays as it is while batches go on, and needs no lock.
pub(crate) struct Snapshot {
    /// A handful, so a search from the start beats a tree.
    tables: Vec<(SpaceId, ReadOnlyTable<Bytes, Bytes>)>,
    metadata: Option<Arc<[u8]>>,
}

impl Snapshot {
    /// The state as it was committed last.
    pub(crate) fn take(database: &Database, spaces: &[SpaceId]) -> Result<Self> {
        let op = "read committed state";
        let moment = database.begin_read().map_err(|e| error::of(op, e))?;
        let open = |space: &SpaceId| {
            let table = with_table(*space, |table| moment.open_table(table)).map_err(|e| error::of(op, e))?;
            Ok((*space, table))
        };
        let metadata = moment.open_table(METADATA).map_err(|e| error::of(op, e))?;
        let metadata = metadata.get(()).map_err(|e| error::of(op, e))?;
        Ok(Self {
            tables: spaces.iter().map(open).collect::<Result<_>>()?,
            metadata: metadata.map(|found| found.value().into()),
        })
    }

    pub(crate) fn metadata(&self) -> Option<&Arc<[u8]>> {
        self.metadata.as_ref()
    }

    fn table(&self, space: SpaceId, op: &'static str) -> Result<&ReadOnlyTable<Bytes, Bytes>> {
        let found = self.tables.iter().find(|(id, _)| *id == space);
        found.map(|(_, table)| table).ok_or_else(|| unknown(op, space))
    }

    pub(crate) fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = ReadableTable::get(self.table(space, "get")?, key).map_err(|e| error::of("get", e))?;
        Ok(value.map(|value| found(value.value())).is_some())
    }

    pub(crate) fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        // Asked here too, for a batch of no keys.
        self.table(space, "get")?;
        for (i, key) in keys.iter().enumerate() {
            self.get(space, key, &mut |value| found(i, value))?;
        }
        Ok(())
    }

    /// A walk over this moment. It shares the snapshot, and so may outlive whatever it was opened by.
    pub(crate) fn scan(
        self: &Arc<Self>,
        space: SpaceId,
        range: Range<'_>,
        direction: Direction,
    ) -> Result<Box<dyn Cursor + 'static>> {
        self.table(space, "scan")?;
        if range.is_empty() {
            return Ok(Box::new(Empty));
        }
        Ok(Box::new(SnapshotCursor::open(Arc::clone(self), space, range, direction)?))
    }

    /// How many rows a space has, exactly: redb keeps count.
    pub(crate) fn count(&self, space: SpaceId) -> Result<u64> {
        self.table(space, "count rows")?.len().map_err(|e| error::of("count rows", e))
    }

    /// redb's own walk, which goes both ways.
    pub(crate) fn rows(
        &self,
        space: SpaceId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<redb::OwnedRange<Bytes, Bytes>> {
        self.table(space, "scan")?.range_owned::<&[u8]>(bounds).map_err(|e| error::of("scan", e))
    }
}
