//! Readers: the committed state for other threads, a chunk at a time.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use millpond_store_api::{
    Chunk, Cursor, Direction, Empty, Error, ErrorKind, Range, Read, Result, Row, ShardReader, SpaceId,
};

use crate::database::Database;
use crate::gate::Pass;
use crate::handle::Handle;

/// Rows of a walk's first chunk; each further one has twice as many.
const FIRST_CHUNK: usize = 16;

/// A chunk ends at this many rows, or past this many bytes.
const LARGEST_CHUNK: usize = 1024;
const CHUNK_BYTES: usize = 256 << 10;

/// A view of a shard from other threads. Each call passes the shard's gate, so that closing waits for a call, never for a
/// walk.
pub(crate) struct RocksReader {
    handle: Arc<Handle>,
}

impl RocksReader {
    pub(crate) const fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }
}

fn enter(handle: &Handle) -> Result<Pass<'_, Database>> {
    handle.gate.enter().ok_or_else(closed)
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::Retry, "read shard").with("reason", "the shard has been closed")
}

impl Read for RocksReader {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        enter(&self.handle)?.get(space, key, &self.handle.low(), found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        enter(&self.handle)?.multi_get(space, keys, &self.handle.low(), found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        enter(&self.handle)?.spaces.place(space)?;
        if range.is_empty() {
            return Ok(Box::new(Empty));
        }
        Ok(Box::new(ReaderCursor::new(&self.handle, space, range, direction)))
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        enter(&self.handle)?.approximate_num_entries(space, &self.handle.low())
    }
}

impl ShardReader for RocksReader {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        // Read from the database like the rows, so it is at least as new as any row that was read before.
        let database = enter(&self.handle)?;
        Ok(database.metadata()?.map(|metadata| Arc::from(&*metadata)))
    }
}

/// Where a walk goes on.
enum Resume {
    /// At the range's beginning.
    Start,
    /// At the first row at or after the key.
    At(Vec<u8>),
    /// At the first row after the key.
    After(Vec<u8>),
    /// Nowhere.
    End,
}

/// A walk that copies chunks of rows and holds nothing of the database between two of them.
struct ReaderCursor<'a> {
    handle: &'a Handle,
    space: SpaceId,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    direction: Direction,
    chunk: Chunk,
    /// The chunk's row that is lent next.
    next: usize,
    /// The row before it is lent now.
    lending: bool,
    /// What comes behind the chunk.
    resume: Resume,
    rows: usize,
    ended: bool,
}

impl<'a> ReaderCursor<'a> {
    fn new(handle: &'a Handle, space: SpaceId, range: Range<'_>, direction: Direction) -> Self {
        Self {
            handle,
            space,
            lower: range.lower.map(<[u8]>::to_vec),
            upper: range.upper.map(<[u8]>::to_vec),
            direction,
            chunk: Chunk::default(),
            next: 0,
            lending: false,
            resume: Resume::Start,
            rows: FIRST_CHUNK,
            ended: false,
        }
    }

    /// How `a` lies to `b` in the direction of the walk.
    fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => a.cmp(b),
            Direction::Reverse => b.cmp(a),
        }
    }

    /// Copies the next chunk.
    fn refill(&mut self) -> Result<()> {
        self.chunk.clear();
        self.next = 0;
        let all = Range::new(self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice));
        let range = match &self.resume {
            Resume::Start | Resume::At(_) => all,
            Resume::After(key) => all.after(key, self.direction),
            Resume::End => return Ok(()),
        };
        let mut complete = true;
        if !range.is_empty() {
            let database = enter(self.handle)?;
            let mut rows = database.scan(self.space, range, self.direction, &self.handle.low())?;
            if let Resume::At(key) = &self.resume {
                rows.seek(key)?;
            }
            let mut bytes = 0;
            while self.chunk.len() < self.rows && bytes < CHUNK_BYTES {
                let Some(row) = rows.next()? else { break };
                bytes += row.key.len() + row.value.len();
                self.chunk.push(row);
            }
            complete = self.chunk.len() < self.rows && bytes < CHUNK_BYTES;
        }
        self.rows = (self.rows * 2).min(LARGEST_CHUNK);
        self.resume = match self.chunk.last() {
            Some(last) if !complete => Resume::After(last.key.to_vec()),
            _ => Resume::End,
        };
        Ok(())
    }
}

impl Cursor for ReaderCursor<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        self.lending = false;
        if self.next == self.chunk.len() && !self.ended {
            self.refill()?;
        }
        self.ended |= self.next == self.chunk.len();
        if self.ended {
            return Ok(None);
        }
        self.next += 1;
        self.lending = true;
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        if self.lending { self.chunk.get(self.next.checked_sub(1)?) } else { None }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        // Never back: not behind a row that was lent, nor behind the one that is next anyway.
        let ahead = |c: &Self, of: &[u8]| c.order(key, of) == Ordering::Greater;
        if self.ended || self.row().is_some_and(|row| !ahead(self, row.key)) {
            return Ok(());
        }
        self.lending = false;
        while self.chunk.get(self.next).is_some_and(|row| ahead(self, row.key)) {
            self.next += 1;
        }
        if self.next == self.chunk.len() {
            // Behind the chunk the next one begins there.
            let further = match &self.resume {
                Resume::Start => true,
                Resume::At(at) | Resume::After(at) => ahead(self, at),
                Resume::End => false,
            };
            if further {
                self.resume = Resume::At(key.to_vec());
            }
        }
        Ok(())
    }
}
