//! A shard with what its last batch stands for, and when it was made durable.

use std::time::Duration;

use millpond_changelog::{RowLayout, ShardMetadata, clear_store};
use millpond_store_api::{Engine, Flush, List, Poison, Shard, ShardSpec, schema::Buckets};

use super::spaces::WINDOWED;
use crate::error::{Error, ErrorKind, Result};

/// A shard of a task.
pub(crate) struct TaskShard {
    pub(crate) engine: &'static str,
    pub(crate) shard: Box<dyn Shard>,
    pub(crate) metadata: ShardMetadata,
    /// Where a batch's metadata is encoded; kept for its memory.
    encoded: Vec<u8>,
    /// Rows of the windowed space below this minute are gone.
    dropped_below: Option<[u8; 4]>,
    /// When the oldest batch that is not durable was applied.
    unflushed_since: Option<Duration>,
    /// A flush was begun that may not be over.
    flushing: bool,
    /// What is known to be durable.
    durable: Option<ShardMetadata>,
}

impl TaskShard {
    pub(super) fn open(engine: &dyn Engine, spec: &ShardSpec<'_>) -> Result<Self> {
        let dir = || spec.dir.map_or_else(|| "in memory".to_owned(), |d| d.display().to_string());
        let shard = engine.open(spec).map_err(|e| {
            let corrupt = e.kind() == millpond_store_api::ErrorKind::Corrupt;
            let error = Error::store("open a shard", e).with("engine", engine.name()).with("directory", dir());
            if corrupt { error.remedy("it is set aside and restored from the changelog") } else { error }
        })?;
        let shard: Box<dyn Shard> = Box::new(Poison::new(shard));
        let metadata = match shard.committed() {
            Some(bytes) => ShardMetadata::decode(bytes).map_err(|e| {
                Error::new(ErrorKind::StateDir, "read a shard's metadata").with("directory", dir()).caused_by(e)
            })?,
            None => ShardMetadata::default(),
        };
        Ok(Self {
            engine: engine.name(),
            shard,
            metadata,
            encoded: Vec::new(),
            dropped_below: None,
            unflushed_since: None,
            flushing: false,
            durable: None,
        })
    }

    /// A shard that holds nothing and takes nothing.
    pub(super) fn nothing() -> Self {
        Self {
            engine: "none",
            shard: Box::new(crate::task::nothing::Nothing),
            metadata: ShardMetadata::default(),
            encoded: Vec::new(),
            dropped_below: None,
            unflushed_since: None,
            flushing: false,
            durable: None,
        }
    }

    /// Deletes a store's rows, all of its rows and positions, for good.
    pub(super) fn clear(&mut self, rows: RowLayout) -> Result {
        let failed = |e| Error::store("clear a store", e).with("engine", self.engine);
        self.metadata.encode(&mut self.encoded);
        clear_store(&mut *self.shard, rows, &self.encoded).map_err(failed)?;
        self.shard.apply(&mut List::new(&[]), &self.encoded).map_err(failed)?;
        self.shard.flush(Flush::Wait).map_err(failed)
    }

    /// Whether there is a minute more of rows that had expired by a time (milliseconds).
    pub(super) fn has_expired(&self, time: i64) -> bool {
        let bound = Buckets::dead_below(time);
        self.dropped_below.is_none_or(|dropped| dropped < bound)
    }

    /// What the shard stands for after a kill; `None` if nothing of it is left then.
    pub(super) fn durable_times(&mut self) -> Result<Option<ShardMetadata>> {
        if !self.shard.capabilities().persistent {
            return Ok(None);
        }
        let durable = self.shard.durable().map_err(|e| Error::store("flush a shard", e).with("engine", self.engine))?;
        // What cannot be read is taken for a new shard's: nothing has expired by it.
        Ok(Some(durable.and_then(|bytes| ShardMetadata::decode(bytes).ok()).unwrap_or_default()))
    }

    /// All rows of the windowed space that had expired by a time (milliseconds) are never asked for again: drops them, a
    /// minute at a time.
    pub(super) fn drop_expired(&mut self, time: i64) -> Result {
        if self.has_expired(time) {
            let bound = Buckets::dead_below(time);
            let failed = |e| Error::store("drop expired rows", e).with("engine", self.engine);
            self.shard.drop_below(WINDOWED, &bound).map_err(failed)?;
            self.dropped_below = Some(bound);
        }
        Ok(())
    }

    /// Applies a batch with the metadata as it stands.
    pub(crate) fn apply(&mut self, writes: &mut dyn millpond_store_api::Writes, now: Duration) -> Result {
        self.metadata.encode(&mut self.encoded);
        self.shard
            .apply(writes, &self.encoded)
            .map_err(|e| Error::store("apply a batch", e).with("engine", self.engine))?;
        self.unflushed_since.get_or_insert(now);
        Ok(())
    }

    /// The restore has applied a batch.
    pub(crate) fn applied(&mut self, now: Duration) {
        self.unflushed_since.get_or_insert(now);
    }

    /// Begins a flush if the oldest batch that is not durable is older than `interval`; answers whether it did.
    pub(crate) fn flush_if_due(&mut self, now: Duration, interval: Duration) -> Result<bool> {
        let due = self.unflushed_since.is_some_and(|since| now.saturating_sub(since) >= interval);
        if due {
            let failed = |e| Error::store("flush a shard", e).with("engine", self.engine);
            self.shard.flush(Flush::Start).map_err(failed)?;
            (self.unflushed_since, self.flushing) = (None, true);
        }
        Ok(due)
    }

    /// Picks up a flush that has ended: what the shard stands for after a kill, if that has moved.
    pub(crate) fn take_durable(&mut self) -> Result<Option<ShardMetadata>> {
        if !self.flushing {
            return Ok(None);
        }
        let durable = self.shard.durable().map_err(|e| Error::store("flush a shard", e).with("engine", self.engine))?;
        let Some(metadata) = durable.and_then(|bytes| ShardMetadata::decode(bytes).ok()) else { return Ok(None) };
        if self.durable.as_ref() == Some(&metadata) {
            return Ok(None);
        }
        self.flushing = false;
        self.durable = Some(metadata.clone());
        Ok(Some(metadata))
    }
}
