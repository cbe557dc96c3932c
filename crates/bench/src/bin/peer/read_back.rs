//! Reads the store when the application is over, from the files that it has left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use millpond_store_api::{Direction, Engine, EngineMemory, Range, Result, Shard, ShardSpec, SpaceSpec};
use millpond_store_rocks::RocksEngine;

/// An engine that remembers which shards it has opened. The shards themselves are RocksDB's, without anything in between.
#[derive(Clone)]
pub(crate) struct ReadBack {
    engine: Arc<RocksEngine>,
    opened: Arc<Mutex<BTreeMap<PathBuf, Vec<SpaceSpec>>>>,
}

/// What is in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) entries: u64,
    /// Of all values that are counts.
    pub(crate) sum: i64,
}

impl ReadBack {
    pub(crate) fn new(engine: RocksEngine) -> Self {
        Self { engine: Arc::new(engine), opened: Arc::default() }
    }

    /// Opens all shards again, which the application must have closed, and reads them from end to end.
    pub(crate) fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (dir, spaces) in &opened {
            let shard = self.engine.open(&ShardSpec { dir: Some(dir), spaces, unlogged: false })?;
            for space in spaces {
                let mut rows = shard.scan(space.id, Range::ALL, Direction::Forward)?;
                while let Some(row) = rows.next()? {
                    contents.entries += 1;
                    contents.sum += count(row.value).unwrap_or(0);
                }
            }
            shard.close()?;
        }
        Ok(contents)
    }
}

/// The count in a row of a timestamped store: 8 bytes of time, 8 bytes of number.
fn count(value: &[u8]) -> Option<i64> {
    let (_, count) = value.split_at_checked(8)?;
    Some(i64::from_be_bytes(count.try_into().ok()?))
}

#[deny(clippy::missing_trait_methods, reason = "what a wrapper leaves out is lost")]
impl Engine for ReadBack {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn persistent(&self) -> bool {
        self.engine.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        let shard = self.engine.open(spec)?;
        if let Some(dir) = spec.dir {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            opened.insert(dir.to_owned(), spec.spaces.to_vec());
        }
        Ok(shard)
    }

    fn set_memory(&self, bytes: u64) {
        self.engine.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.engine.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_stands_behind_its_time_and_anything_else_is_none() {
        let row = [7_i64.to_be_bytes(), 3_i64.to_be_bytes()].concat();
        assert_eq!(count(&row), Some(3));
        assert_eq!(count(&[0; 108]), None);
        assert_eq!(count(&[0; 7]), None);
    }
}
