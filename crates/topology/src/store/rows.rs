//! A walk over a store that borrows nothing between two rows, so that its user may write and forward meanwhile.

use std::ops::Bound;

use millpond_store_api as store;
use store::{Chunk, Direction, Range};

use crate::context::Context;
use crate::error::Result;
use crate::node::TaskIdentity;
use crate::port::{StoreAccess, StoreIndex};
use crate::processor::Processor;
use crate::store::expiry::{earliest, is_alive};
use crate::store::walk::{Stretch, Walk, marked};
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
    /// The earliest time of a row that was there when the scan began.
    earliest: i64,
    walk: Walk<Between>,
}

impl<K, C> std::fmt::Debug for Rows<K, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("store", &self.store).finish_non_exhaustive()
    }
}

impl<K: 'static, C: Values> Rows<K, C> {
    pub(crate) fn new(
        serdes: Serdes<K, C>,
        access: &StoreAccess<'_>,
        (store, task): (StoreIndex, TaskIdentity),
        between: Between,
    ) -> Self {
        let earliest = earliest::<C>(access);
        let walk = between.walk(access, |value| is_alive::<C>(value, earliest));
        Self { serdes, store, task, earliest, walk }
    }

    /// The next row; `None` after the last one, again and again.
    pub fn next<P: Processor>(&mut self, cx: &mut Context<'_, P>) -> Result<Option<(K, C::Value)>> {
        self.task.same_call(cx.task.task)?;
        let mut access = cx.task.port.store(self.store)?;
        let (serdes, began, now) = (&self.serdes, self.earliest, earliest::<C>(&access));
        self.walk.step(
            &mut access,
            |value| is_alive::<C>(value, began),
            |key, value| {
                if !is_alive::<C>(value, now)? {
                    return Ok(None);
                }
                Ok(Some((serdes.key().decode(key)?, serdes.values().decode(value)?)))
            },
        )
    }
}

/// The rows between two keys.
pub(crate) struct Between {
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    direction: Direction,
}

impl Between {
    pub(crate) fn new([lower, upper]: [Bound<Vec<u8>>; 2], direction: Direction) -> Self {
        Self { lower, upper, direction }
    }

    fn range(&self) -> Range<'_> {
        Range::new(self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice))
    }

    /// A walk over them; `was_there` as for [`Walk::step`].
    pub(crate) fn walk(self, access: &StoreAccess<'_>, was_there: impl Fn(&[u8]) -> Result<bool>) -> Walk<Self> {
        let range = self.range();
        let ended = range.is_empty();
        // What cannot be read is there: whoever reads it is told.
        let live = |value: &[u8]| was_there(value).unwrap_or(true);
        let written = if ended { Chunk::default() } else { marked(access.layer, range, self.direction, live) };
        Walk::new(self, written, Chunk::default(), ended)
    }
}

impl Stretch for Between {
    const HEAD: usize = 0;

    fn direction(&self) -> Direction {
        self.direction
    }

    fn read(&self, access: &StoreAccess<'_>, after: Option<&[u8]>, limit: usize, rows: &mut Chunk) -> Result<bool> {
        let whole = self.range();
        let range = after.map_or(whole, |key| whole.after(key, self.direction));
        rows.clear();
        if range.is_empty() {
            return Ok(false);
        }
        let mut cursor = access.base.scan(access.layer.space(), range, self.direction)?;
        Ok(rows.fill(&mut *cursor, limit)?)
    }
}
