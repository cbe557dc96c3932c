//! A walk over a store that borrows nothing between two rows, so that its user may write and forward meanwhile.

use std::cmp::Ordering;
use std::ops::Bound;

use millpond_store_api as store;
use store::{Chunk, Direction, Range, Row};

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::node::TaskIdentity;
use crate::port::{StoreAccess, StoreIndex};
use crate::processor::Processor;
use crate::store::{Serdes, Values};

/// The rows of a scan, one by one: **the keys as they were when the scan began, the values as they are now**. A key that has
/// been deleted meanwhile is skipped, a new one is not seen; it is the same on every engine.
///
/// It belongs to the call (of `process`, or of a punctuation) in which it was begun; in a later one it gives an error.
///
/// ```
/// # use millpond_topology::*;
/// # struct Expire { seen: StoreRef<KeyValue<String, i64>> }
/// # impl Processor for Expire {
/// #     type In = Record<String, i64>;
/// #     type Out = Record<String, i64>;
/// #     fn process(&mut self, cx: &mut Context<'_, Self>, _: Self::In) -> Result { self.expire(cx, 0) }
/// # }
/// # impl Expire {
/// fn expire(&mut self, cx: &mut Context<'_, Self>, now: i64) -> Result {
///     let mut rows = cx.store(&self.seen)?.all();
///     while let Some((id, at)) = rows.next(cx)? {
///         if at < now {
///             cx.store(&self.seen)?.delete(&id)?;
///             cx.forward(Record::new(id, at, now))?;
///         }
///     }
///     Ok(())
/// }
/// # }
/// ```
pub struct Rows<K, C> {
    serdes: Serdes<K, C>,
    store: StoreIndex,
    task: TaskIdentity,
    walk: Walk,
}

impl<K, C> std::fmt::Debug for Rows<K, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<K: 'static, C: Values> Rows<K, C> {
    pub(crate) fn new(serdes: Serdes<K, C>, store: StoreIndex, task: TaskIdentity, walk: Walk) -> Self {
        Self { serdes, store, task, walk }
    }

    /// The next row; `None` after the last one, again and again.
    pub fn next<P: Processor>(&mut self, cx: &mut Context<'_, P>) -> Result<Option<(K, C::Value)>> {
        let now = cx.task.task;
        if now.topology != self.task.topology || now.call != self.task.call {
            return Err(
                Error::new(ErrorKind::Topology, "read the next row").with("cause", "the scan began in another call")
            );
        }
        let mut access = cx.task.port.store(self.store)?;
        let serdes = &self.serdes;
        self.walk.step(&mut access, |key, value| Ok((serdes.key().decode(key)?, serdes.values().decode(value)?)))
    }
}

/// Rows in the first chunk read from the shard, and in the largest: a scan that ends early reads little.
const CHUNK: (usize, usize) = (16, 1024);

/// Two sorted lists, merged: the keys that the layer had writes for when the walk began, and the shard's rows. The shard
/// does not change between commits, and a call is never cut by one, so it may be read in chunks.
pub(crate) struct Walk {
    direction: Direction,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    /// Keys with a mark as value: whether the key had a value then.
    written: Chunk,
    next_written: usize,
    base: Chunk,
    next_base: usize,
    base_ended: bool,
    limit: usize,
}

/// The marks in [`Walk::written`].
const LIVE: &[u8] = &[1];
const DEAD: &[u8] = &[];

impl Walk {
    pub(crate) fn begin(
        access: &StoreAccess<'_>,
        lower: Bound<Vec<u8>>,
        upper: Bound<Vec<u8>>,
        direction: Direction,
    ) -> Self {
        let range = Range::new(as_slice(&lower), as_slice(&upper));
        let base_ended = range.is_empty();
        let mut written = Chunk::default();
        if !base_ended {
            let mut keys = Chunk::default();
            access.layer.written(range, direction, &mut keys);
            for row in (0..keys.len()).filter_map(|i| keys.get(i)) {
                let live = access.layer.peek(row.key).flatten().is_some();
                written.push(Row { key: row.key, value: if live { LIVE } else { DEAD } });
            }
        }
        let (limit, _) = CHUNK;
        Self {
            direction,
            lower,
            upper,
            written,
            next_written: 0,
            base: Chunk::default(),
            next_base: 0,
            base_ended,
            limit,
        }
    }

    /// Moves to the next row that is still there, and reads it.
    pub(crate) fn step<R>(
        &mut self,
        access: &mut StoreAccess<'_>,
        read: impl Fn(&[u8], &[u8]) -> Result<R>,
    ) -> Result<Option<R>> {
        loop {
            if self.next_base >= self.base.len() && !self.base_ended {
                self.refill(access)?;
            }
            let (written, base) = (self.written.get(self.next_written), self.base.get(self.next_base));
            let order = match (written, base) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(w), Some(b)) if self.direction == Direction::Forward => w.key.cmp(b.key),
                (Some(w), Some(b)) => b.key.cmp(w.key),
            };
            self.next_written += usize::from(order != Ordering::Greater);
            self.next_base += usize::from(order != Ordering::Less);
            let row = match (order, written, base) {
                (Ordering::Greater, _, Some(row)) => match access.layer.peek(row.key) {
                    Some(Some(value)) => Some(read(row.key, value)?),
                    Some(None) => None,
                    None => Some(read(row.key, row.value)?),
                },
                (_, Some(row), _) if row.value == LIVE => match access.layer.get(access.base, row.key)? {
                    Some(value) => Some(read(row.key, value)?),
                    None => None,
                },
                _ => None,
            };
            if row.is_some() {
                return Ok(row);
            }
        }
    }

    /// Replaces the chunk by the one behind it.
    fn refill(&mut self, access: &StoreAccess<'_>) -> Result {
        let last = self.base.last().map(|row| row.key.to_vec());
        let whole = Range::new(as_slice(&self.lower), as_slice(&self.upper));
        let range = last.as_deref().map_or(whole, |key| whole.after(key, self.direction));
        self.next_base = 0;
        self.base.clear();
        self.base_ended = range.is_empty();
        if !self.base_ended {
            let mut cursor = access.base.scan(access.layer.space(), range, self.direction)?;
            self.base_ended = !self.base.fill(&mut *cursor, self.limit)?;
            let (_, largest) = CHUNK;
            self.limit = (self.limit * 4).min(largest);
        }
        Ok(())
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
