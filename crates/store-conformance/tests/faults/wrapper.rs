//! An engine around another one that breaks the rule it is told to break.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is how a test reports")]

use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use millpond_store_api::{
    Capabilities, Cursor, Direction, Empty, Engine, EngineMemory, Error, ErrorKind, Flush, Isolation, List, Range,
    Read, Result, Row, Shard, ShardReader, ShardSpec, SpaceId, SpaceSpec, Write, Writes,
};
use millpond_store_mem::MemEngine;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    FirstWriteWins,
    HalfABatch,
    EmptyBatchesIgnored,
    EmptyMetadataIsNone,
    EmptyValueDeletes,
    DeleteWritesEmpty,
    LongKeysCut,
    KeysCutAt24,
    OneSpace,
    SpaceNumbersAreBytes,
    UnknownSpaceIsEmpty,
    MultiGetOnce,
    CountsAllSpaces,
    CountsOneMore,
    VisitorTwice,
    ReverseIsForward,
    ExcludedIsIncluded,
    RowAfterTheEnd,
    LastRowAgain,
    SeekGoesBack,
    SeekLeavesTheRange,
    SeekIgnored,
    LostAtChunkEnd,
    RepeatedAtChunkEnd,
    DropBelowInclusive,
    DropBelowEverywhere,
    DropBelowTakesTheBucket,
    ReaderStandsStill,
    ReaderOutlives,
    IsolationOverstated,
    DurableAtOnce,
    FlushIgnored,
    CloseDoesNotFlush,
    MetadataLags,
    OpensTwice,
    NoDirectoryNeeded,
    DestroyLeaves,
    SpacesByPlace,
    SpacesByName,
    OtherSpacesDeleted,
    CheckpointRefused,
    CheckpointUndeclared,
    CheckpointStale,
    AbilitiesChange,
    UnloggedIgnored,
    UnloggedPromised,
    UnloggedApart,
}

pub(crate) struct Faulty {
    inner: MemEngine,
    fault: Fault,
}

impl Faulty {
    pub(crate) fn new(inner: MemEngine, fault: Fault) -> Self {
        Self { inner, fault }
    }
}

/// What the files call a space: outer and inner numbers.
type Names = Vec<(SpaceId, SpaceId)>;

fn names(fault: Fault, spaces: &[SpaceSpec]) -> Names {
    let inner = |(place, space): (usize, &SpaceSpec)| {
        let number = match fault {
            Fault::OneSpace => 1,
            Fault::SpaceNumbersAreBytes => space.id.0 & 0xFF,
            Fault::SpacesByPlace => u16::try_from(place).unwrap(),
            Fault::SpacesByName => space.name.bytes().fold(0_u16, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into())),
            _ => space.id.0,
        };
        (space.id, SpaceId(number))
    };
    spaces.iter().enumerate().map(inner).collect()
}

impl Engine for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn persistent(&self) -> bool {
        self.inner.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        let names = names(self.fault, spec.spaces);
        let mut spaces: Vec<SpaceSpec> = Vec::new();
        for (_, id) in &names {
            if spaces.iter().all(|space| space.id != *id) {
                spaces.push(SpaceSpec { id: *id, name: String::new(), expires: false });
            }
        }
        if self.fault == Fault::NoDirectoryNeeded && spec.dir.is_none() {
            return MemEngine::default().open(&ShardSpec { dir: None, spaces: &spaces, unlogged: false });
        }
        if self.fault == Fault::OtherSpacesDeleted {
            self.delete_others(spec)?;
        }
        let unlogged = spec.unlogged && !matches!(self.fault, Fault::UnloggedIgnored | Fault::UnloggedPromised);
        let apart = spec.dir.filter(|_| unlogged && self.fault == Fault::UnloggedApart).map(|dir| dir.join("log"));
        let mut opened = self.inner.open(&ShardSpec { dir: apart.as_deref().or(spec.dir), spaces: &spaces, unlogged });
        if self.fault == Fault::OpensTwice && opened.is_err() {
            let elsewhere = spec.dir.map(|dir| dir.join("second"));
            opened = self.inner.open(&ShardSpec { dir: elsewhere.as_deref(), spaces: &spaces, unlogged });
        }
        let inner = opened?;
        let metadata = inner.committed().map(<[u8]>::to_vec);
        let promised = spec.unlogged && self.fault == Fault::UnloggedPromised;
        Ok(Box::new(FaultyShard { inner, fault: self.fault, names, promised, metadata, batches: 0 }))
    }

    fn set_memory(&self, bytes: u64) {
        self.inner.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.inner.memory()
    }
}

impl Faulty {
    fn delete_others(&self, spec: &ShardSpec<'_>) -> Result<()> {
        let known = [1, 2].map(|id| SpaceSpec { id: SpaceId(id), name: String::new(), expires: false });
        let mut all = self.inner.open(&ShardSpec { spaces: &known, ..*spec })?;
        for other in known.iter().filter(|space| spec.spaces.iter().all(|asked| asked.id != space.id)) {
            all.drop_below(other.id, &[0xFF; 64])?;
        }
        all.close()
    }
}

/// Reads through a fault.
struct Through<'a> {
    inner: &'a dyn Read,
    fault: Fault,
    names: &'a Names,
}

impl<'a> Through<'a> {
    fn space(&self, space: SpaceId) -> SpaceId {
        inner_space(self.names, space)
    }

    fn key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        cut(self.fault, key)
    }

    /// An error that the fault hides.
    fn hides(&self, e: &Error) -> bool {
        match self.fault {
            Fault::UnknownSpaceIsEmpty => e.kind() == ErrorKind::Invalid,
            Fault::ReaderOutlives => e.kind() == ErrorKind::Retry,
            _ => false,
        }
    }

    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let answer = self.inner.get(self.space(space), self.key(key), &mut |value| {
            found(value);
            if self.fault == Fault::VisitorTwice {
                found(value);
            }
        });
        answer.or_else(|e| if self.hides(&e) { Ok(false) } else { Err(e) })
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let keys: Vec<&[u8]> = keys.iter().map(|key| self.key(key)).collect();
        let answer = self.inner.multi_get(self.space(space), &keys, &mut |i, value| {
            let again = keys.iter().take(i).any(|key| *key == keys[i]);
            if !(again && self.fault == Fault::MultiGetOnce) {
                found(i, value);
            }
        });
        answer.or_else(|e| if self.hides(&e) { Ok(()) } else { Err(e) })
    }

    fn count(&self, space: SpaceId) -> Result<u64> {
        let answer = self.inner.approximate_num_entries(self.space(space)).and_then(|counted| match self.fault {
            Fault::CountsAllSpaces => {
                self.names.iter().map(|(_, inner)| self.inner.approximate_num_entries(*inner)).sum()
            }
            Fault::CountsOneMore => Ok(counted + 1),
            _ => Ok(counted),
        });
        answer.or_else(|e| if self.hides(&e) { Ok(0) } else { Err(e) })
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + 'a>> {
        let wider = |bound| match bound {
            Bound::Excluded(key) if self.fault == Fault::ExcludedIsIncluded => Bound::Included(key),
            other => other,
        };
        let range = Range::new(wider(range.lower), wider(range.upper));
        let direction = if self.fault == Fault::ReverseIsForward { Direction::Forward } else { direction };
        let inner = match self.inner.scan(self.space(space), range, direction) {
            Err(e) if self.hides(&e) => Box::new(Empty),
            other => other?,
        };
        let own = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
        Ok(Box::new(FaultyCursor {
            inner,
            fault: self.fault,
            read: self.inner,
            space: self.space(space),
            range: (own(range.lower), own(range.upper)),
            direction,
            last: None,
            rows: 0,
            ended: false,
        }))
    }
}

fn inner_space(names: &Names, space: SpaceId) -> SpaceId {
    // An unknown number stays one: no case uses the greatest but one.
    names.iter().find(|(outer, _)| *outer == space).map_or(SpaceId(u16::MAX - 1), |(_, inner)| *inner)
}

fn cut(fault: Fault, key: &[u8]) -> &[u8] {
    let most = match fault {
        Fault::LongKeysCut => 32 << 10,
        Fault::KeysCutAt24 => 24,
        _ => usize::MAX,
    };
    &key[..key.len().min(most)]
}

struct FaultyCursor<'a> {
    inner: Box<dyn Cursor + 'a>,
    fault: Fault,
    read: &'a dyn Read,
    space: SpaceId,
    range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    direction: Direction,
    last: Option<(Vec<u8>, Vec<u8>)>,
    rows: usize,
    ended: bool,
}

impl Cursor for FaultyCursor<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        self.rows += 1;
        let border = self.rows.is_multiple_of(1024);
        if self.fault == Fault::RepeatedAtChunkEnd && border {
            return Ok(self.row());
        }
        if self.fault == Fault::LostAtChunkEnd && border {
            self.inner.next()?;
        }
        let row = self.inner.next()?;
        self.ended = row.is_none();
        if let Some(row) = row {
            self.last = Some((row.key.to_vec(), row.value.to_vec()));
        }
        if self.ended && self.fault != Fault::LastRowAgain {
            return Ok(None);
        }
        Ok(self.last.as_ref().map(|(key, value)| Row { key, value }))
    }

    fn row(&self) -> Option<Row<'_>> {
        if self.ended && self.fault != Fault::RowAfterTheEnd {
            return None;
        }
        self.last.as_ref().map(|(key, value)| Row { key, value })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let lend = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) => Bound::Included(key.clone()),
            Bound::Excluded(key) => Bound::Excluded(key.clone()),
            Bound::Unbounded => Bound::Unbounded,
        };
        match self.fault {
            Fault::SeekIgnored => return Ok(()),
            Fault::SeekGoesBack => {
                let (lower, upper) = (lend(&self.range.0), lend(&self.range.1));
                let range = Range::new(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
                self.inner = self.read.scan(self.space, range, self.direction)?;
            }
            Fault::SeekLeavesTheRange => self.inner = self.read.scan(self.space, Range::ALL, self.direction)?,
            _ => {}
        }
        self.inner.seek(key)
    }
}

struct FaultyShard {
    inner: Box<dyn Shard>,
    fault: Fault,
    names: Names,
    /// `durable` says that the last batch is.
    promised: bool,
    /// Of the last batch.
    metadata: Option<Vec<u8>>,
    batches: u32,
}

impl FaultyShard {
    fn through(&self) -> Through<'_> {
        Through { inner: &*self.inner, fault: self.fault, names: &self.names }
    }
}

impl Read for FaultyShard {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.through().get(space, key, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.through().multi_get(space, keys, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.through().scan(space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.through().count(space)
    }
}

impl Shard for FaultyShard {
    fn capabilities(&self) -> Capabilities {
        let mut declared = self.inner.capabilities();
        match self.fault {
            Fault::IsolationOverstated => declared.isolation = Isolation::Scan,
            Fault::CheckpointUndeclared => declared.cheap_checkpoint = false,
            Fault::AbilitiesChange => declared.overlapped_reads = self.batches > 0,
            _ => {}
        }
        declared
    }

    fn apply(&mut self, writes: &mut dyn Writes, metadata: &[u8]) -> Result<()> {
        let mut batch = Vec::new();
        while let Some(Write { space, key, value }) = writes.next() {
            let value = match value {
                Some(b"") if self.fault == Fault::EmptyValueDeletes => None,
                None if self.fault == Fault::DeleteWritesEmpty => Some(&b""[..]),
                other => other,
            };
            let space = inner_space(&self.names, space);
            batch.push((space, cut(self.fault, key).to_vec(), value.map(<[u8]>::to_vec)));
        }
        if batch.is_empty() && self.fault == Fault::EmptyBatchesIgnored {
            return Ok(());
        }
        if self.fault == Fault::FirstWriteWins {
            batch.reverse();
        }
        let batch: Vec<_> =
            batch.iter().map(|(space, key, value)| Write { space: *space, key, value: value.as_deref() }).collect();
        let before = self.metadata.clone().unwrap_or_default();
        match self.fault {
            Fault::HalfABatch => {
                for write in &batch {
                    self.inner.apply(&mut List::new(&[*write]), &before)?;
                }
                self.inner.apply(&mut List::new(&[]), metadata)?;
            }
            Fault::MetadataLags => self.inner.apply(&mut List::new(&batch), &before)?,
            _ => self.inner.apply(&mut List::new(&batch), metadata)?,
        }
        self.metadata = Some(metadata.to_vec());
        self.batches += 1;
        Ok(())
    }

    fn committed(&self) -> Option<&[u8]> {
        match self.fault {
            Fault::EmptyMetadataIsNone => self.inner.committed().filter(|m| !m.is_empty()),
            Fault::MetadataLags => self.metadata.as_deref(),
            _ => self.inner.committed(),
        }
    }

    fn durable(&mut self) -> Result<Option<&[u8]>> {
        let at_once = self.promised || self.fault == Fault::DurableAtOnce;
        if at_once { Ok(self.inner.committed()) } else { self.inner.durable() }
    }

    fn flush(&mut self, how: Flush) -> Result<()> {
        if self.fault == Fault::FlushIgnored { Ok(()) } else { self.inner.flush(how) }
    }

    fn drop_below(&mut self, space: SpaceId, key: &[u8]) -> Result<()> {
        let own = inner_space(&self.names, space);
        match self.fault {
            Fault::DropBelowInclusive => self.inner.drop_below(own, &[key, b"\0"].concat()),
            Fault::DropBelowTakesTheBucket => self.inner.drop_below(own, &[key, &[0xFF; 64]].concat()),
            Fault::DropBelowEverywhere => {
                self.names.iter().try_for_each(|(_, inner)| self.inner.drop_below(*inner, key))
            }
            _ => self.inner.drop_below(own, key),
        }
    }

    fn reader(&self) -> Arc<dyn ShardReader> {
        let (inner, fault, names) = (self.inner.reader(), self.fault, self.names.clone());
        let first = Mutex::new(None);
        Arc::new(FaultyReader { inner, fault, names, first })
    }

    fn close(self: Box<Self>) -> Result<()> {
        if self.fault == Fault::CloseDoesNotFlush { Ok(()) } else { self.inner.close() }
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        if self.fault == Fault::DestroyLeaves { self.inner.close() } else { self.inner.destroy() }
    }

    fn checkpoint(&mut self, to: &Path) -> Result<()> {
        match self.fault {
            Fault::CheckpointRefused => Err(Error::new(ErrorKind::Unsupported, "checkpoint")),
            Fault::CheckpointStale => {
                // The copy gets the rows, and the metadata of an earlier moment.
                let now = self.metadata.clone().unwrap_or_default();
                self.inner.apply(&mut List::new(&[]), b"stale")?;
                let made = self.inner.checkpoint(to);
                self.inner.apply(&mut List::new(&[]), &now)?;
                made
            }
            _ => self.inner.checkpoint(to),
        }
    }
}

struct FaultyReader {
    inner: Arc<dyn ShardReader>,
    fault: Fault,
    names: Names,
    /// What `committed` answered first.
    first: Mutex<Option<Option<Arc<[u8]>>>>,
}

impl FaultyReader {
    fn through(&self) -> Through<'_> {
        Through { inner: &*self.inner, fault: self.fault, names: &self.names }
    }
}

impl Read for FaultyReader {
    fn get(&self, space: SpaceId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.through().get(space, key, found)
    }

    fn multi_get(&self, space: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        self.through().multi_get(space, keys, found)
    }

    fn scan(&self, space: SpaceId, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        self.through().scan(space, range, direction)
    }

    fn approximate_num_entries(&self, space: SpaceId) -> Result<u64> {
        self.through().count(space)
    }
}

impl ShardReader for FaultyReader {
    fn committed(&self) -> Result<Option<Arc<[u8]>>> {
        let now = match self.inner.committed() {
            Err(e) if self.through().hides(&e) => None,
            other => other?,
        };
        if self.fault != Fault::ReaderStandsStill {
            return Ok(now);
        }
        Ok(self.first.lock().unwrap().get_or_insert(now).clone())
    }
}
