//! A walk over a window or session store that borrows nothing between two rows.

use std::ops::Bound;

use millpond_store_api as store;
use store::schema::{ExpiringKey, SuffixKind};
use store::{Chunk, Cursor, Direction, Empty, Keys, Range, Row, Session, Sessions, ShardSpace, Space, Window};

use crate::context::Context;
use crate::error::Result;
use crate::node::TaskIdentity;
use crate::port::{Expiry, Layer, LayerSpace, StoreAccess, StoreIndex};
use crate::processor::Processor;
use crate::serde::Windowed;
use crate::store::expiry::{earliest_alive, expiring};
use crate::store::walk::{CHUNK, Stretch, Walk, marked};
use crate::store::{Serdes, StoreView, Values};

/// The rows of a scan of a window or session store, one by one, each with its window.
///
/// As for [`Rows`](crate::Rows): **the keys as they were when the scan began, the values as they are now**. A row that has
/// been deleted or has expired meanwhile is skipped. One that is put meanwhile is not seen, wherever it stands; so a walk
/// ends even if each of its rows leads to a new one. It is the same on every engine.
///
/// Rows come in the order of their keys' bytes, those of one key in the order of their times: of windows the starts, of
/// sessions the ends, then the starts. A walk backward is the exact mirror.
///
/// It belongs to the call (of `process`, or of a punctuation) in which it was begun; in a later one it gives an error.
pub struct WindowedRows<K, C> {
    serdes: Serdes<K, C>,
    store: StoreIndex,
    task: TaskIdentity,
    walk: Walk<Span>,
    /// For a key that does not lie in the row as it is.
    key: Vec<u8>,
}

impl<K, C> std::fmt::Debug for WindowedRows<K, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowedRows").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<K: 'static, C: Values> WindowedRows<K, C> {
    pub(super) fn new(
        serdes: Serdes<K, C>,
        access: &mut StoreAccess<'_>,
        (store, task): (StoreIndex, TaskIdentity),
        span: Span,
    ) -> Result<Self> {
        Ok(Self { serdes, store, task, walk: span.walk(access)?, key: Vec::new() })
    }

    /// The next row; `None` after the last one, again and again.
    pub fn next<P: Processor>(&mut self, cx: &mut Context<'_, P>) -> Result<Option<(Windowed<K>, C::Value)>> {
        self.task.same_call(cx.task.task)?;
        let mut access = cx.task.port.store(self.store)?;
        let earliest = access.expiry.as_ref().map_or(i64::MAX, earliest_alive);
        let Self { serdes, walk, key, .. } = self;
        let layout = walk.stretch().layout;
        walk.step(
            &mut access,
            |_| Ok(true),
            |row, value| {
                let row = ExpiringKey::decode(layout.suffix(), row, key)?;
                if row.suffix.time() < earliest {
                    return Ok(None);
                }
                let (start, end) = match layout {
                    Layout::Windows { size, .. } => (row.suffix.time(), row.suffix.time().saturating_add(size)),
                    Layout::Sessions => (row.suffix.second(), row.suffix.time()),
                };
                let key = serdes.key().decode(row.key)?;
                Ok(Some((Windowed { key, start, end }, serdes.values().decode(value)?)))
            },
        )
    }
}

/// What the views of window and session stores do alike.
impl<K: 'static, C: Values> StoreView<'_, K, C> {
    pub(super) fn windowed_rows(&mut self, span: Span) -> Result<WindowedRows<K, C>> {
        WindowedRows::new(self.serdes.clone(), &mut self.access, (self.store, self.task), span)
    }

    /// Encodes a row and has it written, marked with the value's time if it has one of its own; `None`, and a value that
    /// stands for null, deletes. Counts what has expired.
    pub(super) fn write_expiring(
        &mut self,
        key: &K,
        value: Option<&C::Value>,
        write: impl FnOnce(&mut LayerSpace<'_>, &mut Expiry<'_>, &mut Vec<u8>, &[u8], Option<&[u8]>) -> store::Result<bool>,
    ) -> Result<bool> {
        self.write_key(key)?;
        let end = self.bytes.len();
        let some = value.map_or(Ok(false), |value| self.serdes.values().encode(value, self.bytes))?;
        let (key, bytes) = self.bytes.split_at(end);
        let (mut space, expiry) = expiring(&mut self.access)?;
        space.timestamp = value.and_then(C::timestamp).unwrap_or(space.timestamp);
        let put = write(&mut space, expiry, self.row, key, some.then_some(bytes))?;
        *expiry.refused += u64::from(!put);
        Ok(put)
    }
}

/// How the rows of a store lie in the windowed space.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// By start; `size` in milliseconds.
    Windows { size: i64, duplicates: bool },
    /// By end, then start.
    Sessions,
}

impl Layout {
    fn suffix(self) -> SuffixKind {
        match self {
            Self::Windows { duplicates: false, .. } => SuffixKind::Time,
            Self::Windows { duplicates: true, .. } => SuffixKind::Sequence,
            Self::Sessions => SuffixKind::Times,
        }
    }
}

/// The keys of a scan.
pub(super) enum SpanKeys {
    One(Vec<u8>),
    Between([Bound<Vec<u8>>; 2]),
}

impl SpanKeys {
    pub(super) const ALL: Self = Self::Between([Bound::Unbounded, Bound::Unbounded]);

    fn keys(&self) -> Keys<'_> {
        match self {
            Self::One(key) => Keys::One(key),
            Self::Between([lower, upper]) => {
                Keys::Between(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice))
            }
        }
    }

    /// The same keys, so that each bucket is asked for nothing but their rows.
    fn by_bucket(&self) -> Keys<'_> {
        match self {
            Self::One(key) => Keys::Between(Bound::Included(key), Bound::Included(key)),
            Self::Between(_) => self.keys(),
        }
    }
}

/// What a scan of a window or session store is asked for.
pub(super) struct Span {
    pub(super) layout: Layout,
    pub(super) keys: SpanKeys,
    /// The times by which rows expire, both included: of windows the starts, of sessions the ends.
    pub(super) from: i64,
    pub(super) to: i64,
    /// No session that starts after.
    pub(super) latest_start: i64,
    pub(super) direction: Direction,
}

impl Span {
    /// A walk. Most scans end with the first chunk: that is one of the layer and the shard together. Only what goes on
    /// needs to know which keys the layer has behind it.
    fn walk(self, access: &mut StoreAccess<'_>) -> Result<Walk<Self>> {
        let (mut space, expiry) = expiring(access)?;
        let (mut first, mut written) = (Chunk::default(), Chunk::default());
        let (limit, _) = CHUNK;
        let more = self.fill(&mut space, expiry, self.keys.keys(), None, limit, &mut first)?;
        if more {
            let mut layer = Written(&*space.layer);
            let behind = first.last().map(|row| row.key);
            self.fill(&mut layer, expiry, self.keys.by_bucket(), behind, usize::MAX, &mut written)?;
        }
        Ok(Walk::new(self, written, first, !more))
    }

    /// Replaces the rows by up to `limit` of a space's, those behind a row; false if there are no more.
    fn fill<S: Space>(
        &self,
        space: &mut S,
        expiry: &Expiry<'_>,
        keys: Keys<'_>,
        behind: Option<&[u8]>,
        limit: usize,
        rows: &mut Chunk,
    ) -> Result<bool> {
        let Self { from, to, direction, latest_start, .. } = *self;
        let (store, retention, now) = (expiry.store, expiry.retention, *expiry.observed);
        let place = behind.and_then(|key| key.get(ExpiringKey::HEAD..));
        rows.clear();
        match self.layout {
            Layout::Windows { duplicates, .. } => {
                let window = Window::new(space, store, retention, duplicates, now);
                let mut scan = match place {
                    None => window.scan(keys, from, to, direction)?,
                    Some(place) => window.resume(keys, from, to, direction, place)?,
                };
                while rows.len() < limit {
                    scan.next()?;
                    let Some(row) = scan.raw() else { return Ok(false) };
                    rows.push(row);
                }
            }
            Layout::Sessions => {
                let session = Session::new(space, store, retention, now);
                let sessions = Sessions { keys, earliest_end: from, latest_end: to, latest_start };
                let mut scan = match place {
                    None => session.scan(sessions, direction)?,
                    Some(place) => session.resume(sessions, direction, place)?,
                };
                while rows.len() < limit {
                    scan.next()?;
                    let Some(row) = scan.raw() else { return Ok(false) };
                    rows.push(row);
                }
            }
        }
        Ok(true)
    }
}

impl Stretch for Span {
    /// The buckets' order is not that of the rows.
    const HEAD: usize = ExpiringKey::HEAD;

    fn direction(&self) -> Direction {
        self.direction
    }

    fn read(&self, access: &StoreAccess<'_>, after: Option<&[u8]>, limit: usize, rows: &mut Chunk) -> Result<bool> {
        let Some(expiry) = &access.expiry else { return Ok(false) };
        let mut shard = ShardSpace::new(access.base, access.layer.space());
        self.fill(&mut shard, expiry, self.keys.keys(), after, limit, rows)
    }
}

/// What the layer alone has writes for, as a space that is only scanned; a row's value is a mark.
struct Written<'a>(&'a dyn Layer);

impl Space for Written<'_> {
    fn get(&mut self, _: &[u8]) -> store::Result<Option<&[u8]>> {
        Ok(None)
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> store::Result<Box<dyn Cursor + '_>> {
        if range.is_empty() {
            return Ok(Box::new(Empty));
        }
        let keys = marked(self.0, range, direction, |_| true);
        Ok(Box::new(Marks { keys, direction, next: 0 }))
    }

    fn touch(&mut self, _: &[&[u8]]) -> store::Result<()> {
        Ok(())
    }
}

/// A cursor over keys that the layer has writes for.
struct Marks {
    keys: Chunk,
    direction: Direction,
    /// The number of the row behind the one that was lent last.
    next: usize,
}

impl Cursor for Marks {
    fn next(&mut self) -> store::Result<Option<Row<'_>>> {
        self.next = (self.next + 1).min(self.keys.len() + 1);
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.keys.get(self.next.checked_sub(1)?)
    }

    fn seek(&mut self, key: &[u8]) -> store::Result<()> {
        let before = |row: &Row<'_>| match self.direction {
            Direction::Forward => row.key < key,
            Direction::Reverse => row.key > key,
        };
        while self.keys.get(self.next).as_ref().is_some_and(before) {
            self.next += 1;
        }
        Ok(())
    }
}
