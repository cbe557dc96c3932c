//! Suppression: updates of a table wait in a buffer until they are due.

mod buffer;
mod wait;

use std::sync::Arc;

use bytes::Bytes;
use millpond_store_api as store;
use store::{BufferTotals, BufferValue};

use self::buffer::{Buffer, Waiting};
pub(crate) use self::wait::{Room, Wait, WhenFull};
use crate::error::{Error, ErrorKind, Result};
use crate::headers::Header;
use crate::node::{BuildCx, Event, Node, Outs, TaskCx};
use crate::port::{Dropped, NodeIndex, Schedule, StoreIndex};
use crate::record::{Change, Record};
use crate::serde::Coder;

/// Holds updates of a table back. Its buffer is a store: all it knows is there, and beside the input offsets up to where it has
/// let through ([`Port::release`](crate::Port::release)).
pub(crate) struct SuppressNode<K, V> {
    name: Arc<str>,
    node: NodeIndex,
    wait: Wait,
    room: Room,
    /// Where the window of a key ends, of a table of windows.
    window_end: fn(&K) -> Option<i64>,
    key: Coder<K>,
    value: Coder<V>,
    buffer: Buffer,
    wants_old: bool,
    /// Updates come when caches above are drained, in the order of their first writes and not of their times. So only when all
    /// are through it is known what is due.
    behind_cache: bool,
    /// Behind a cache: the greatest event time of the updates that came since.
    seen: Option<i64>,
    /// The last call in which that changed, and what it was before.
    seen_before: (u64, Option<i64>),
    outs: Outs<Record<K, Change<V>>>,
}

/// What the definition says of a node.
pub(crate) struct SuppressSpec<K, V> {
    pub(crate) wait: Wait,
    pub(crate) room: Room,
    pub(crate) window_end: fn(&K) -> Option<i64>,
    pub(crate) key: Coder<K>,
    pub(crate) value: Coder<V>,
    pub(crate) store: usize,
    /// Stores keep headers.
    pub(crate) with_headers: bool,
}

impl<K: 'static, V: 'static> SuppressNode<K, V> {
    pub(crate) fn build(spec: &SuppressSpec<K, V>, b: &mut BuildCx<'_>) -> Result<Self> {
        const SECOND: i64 = 1000;
        if let Some(idle) = spec.wait.idle_after() {
            b.port.schedule(b.node, 0, Schedule::wall_clock_ms(idle.clamp(1, SECOND)));
        }
        Ok(Self {
            name: b.name.clone(),
            node: b.node,
            wait: spec.wait,
            room: spec.room,
            window_end: spec.window_end,
            key: spec.key.clone(),
            value: spec.value.clone(),
            buffer: Buffer::new(StoreIndex(crate::topology::index(spec.store)), spec.with_headers),
            wants_old: b.wants_old,
            behind_cache: b.behind_cache,
            seen: None,
            seen_before: (0, None),
            outs: b.outs()?,
        })
    }

    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        let time = (self.window_end)(&record.key).unwrap_or(record.timestamp);
        let released = cx.port.released(self.buffer.store);
        if self.wait.is_final() && released.is_some_and(|reached| self.wait.is_due(time, reached)) {
            cx.port.dropped(self.node, Dropped::Late);
            return Ok(());
        }
        if !self.hold(cx, time, &record)? {
            cx.port.dropped(self.node, Dropped::NullKey);
            return Ok(());
        }
        if self.behind_cache {
            self.see(cx, self.seen.max(Some(record.timestamp)));
            return Ok(());
        }
        let reached = self.wait.reached(record.timestamp).max(released.unwrap_or(i64::MIN));
        self.let_through(cx, reached)
    }

    /// Notes what has been seen, so that it can be taken back.
    fn see(&mut self, cx: &mut TaskCx<'_>, seen: Option<i64>) {
        let call = cx.task.call;
        if self.seen_before.0 != call {
            self.seen_before = (call, self.seen);
            cx.changed(self.node);
        }
        self.seen = seen;
    }

    /// Puts an update into the buffer; false if its key is null.
    fn hold(&mut self, cx: &mut TaskCx<'_>, time: i64, record: &Record<K, Change<V>>) -> Result<bool> {
        let TaskCx { port, scratch, .. } = cx;
        let (key, values) = (&mut scratch.key, &mut scratch.value);
        key.clear();
        values.clear();
        if !self.key.encode(&record.key, key)? {
            return Ok(false);
        }
        let encode = |side: &Option<V>, values: &mut Vec<u8>| match side {
            Some(value) => self.value.encode(value, values),
            None => Ok(false),
        };
        let is_new = encode(&record.value.new, values)?;
        let end = values.len();
        let is_old = encode(&record.value.old, values)?;
        let (new, old) = values.split_at(end);
        let (new, old) = (is_new.then_some(new), is_old.then_some(old));
        self.buffer.put(&mut **port, Waiting { time, key, old, new, timestamp: record.timestamp }, &record.headers)?;
        Ok(true)
    }

    /// Forwards what is due, and what there is no room for.
    fn let_through(&mut self, cx: &mut TaskCx<'_>, reached: i64) -> Result {
        let wait = self.wait;
        self.emit(cx, &|time, _| wait.is_due(time, reached))?;
        cx.port.release(self.buffer.store, reached);
        let room = self.room;
        if room.when_full == WhenFull::Spill {
            return Ok(());
        }
        let held = self.buffer.totals(cx.port)?;
        match room.when_full {
            _ if !room.is_exceeded(held) => Ok(()),
            WhenFull::ShutDown => Err(room.exceeded(held)),
            WhenFull::EmitEarly | WhenFull::Spill => self.emit(cx, &|_, held| room.is_exceeded(held)),
        }
    }

    /// Takes rows out of the buffer, oldest first, as long as `due` holds, and forwards them.
    fn emit(&mut self, cx: &mut TaskCx<'_>, due: &dyn Fn(i64, BufferTotals) -> bool) -> Result {
        loop {
            self.buffer.take(cx.port, due)?;
            if self.buffer.taken.rows.is_empty() {
                return Ok(());
            }
            let mut at = 0;
            for n in 0..self.buffer.taken.rows.len() {
                let Some((key, value)) = self.buffer.taken.get(n, &mut at) else { continue };
                if let Some(record) = self.record(key, value)? {
                    let mut cx = TaskCx { source_key: None, ..cx.reborrow() };
                    self.outs.forward(&mut cx, record)?;
                }
            }
        }
    }

    /// The update that a row of the buffer stands for: from what those behind have heard of last to what it is now, with its own
    /// time and headers.
    fn record(&self, key: &[u8], row: &[u8]) -> Result<Option<Record<K, Change<V>>>> {
        let BufferValue { context, prior, new, .. } = BufferValue::decode_row(row)?;
        if new.is_none() && self.wait.is_final() {
            return Ok(None);
        }
        let old = prior.filter(|_| self.wants_old).map(|old| self.value.decode(old)).transpose()?;
        let change = Change { new: self.value.decode_nullable(new)?, old };
        let mut record = Record::new(self.key.decode(key)?, change, context.timestamp);
        for store::Header { key, value } in context.headers.iter() {
            record.headers.push(Header { name: key.into(), value: value.map(Bytes::copy_from_slice) });
        }
        Ok(Some(record))
    }

    /// All updates that caches held back are here.
    fn settle(&mut self, cx: &mut TaskCx<'_>) -> Result {
        let Some(seen) = self.seen else { return Ok(()) };
        let released = cx.port.released(self.buffer.store).unwrap_or(i64::MIN);
        self.let_through(cx, self.wait.reached(seen).max(released))?;
        self.see(cx, None);
        Ok(())
    }

    /// The wall clock has moved: time goes on without records, if there have been none for long enough.
    fn silence(&mut self, cx: &mut TaskCx<'_>) -> Result {
        let (Some(limit), Some(since)) = (self.wait.idle_after(), cx.port.idle_since()) else { return Ok(()) };
        let now = cx.port.wall_time();
        if now.saturating_sub(since) < limit {
            return Ok(());
        }
        let time = now.saturating_sub(limit);
        let reached = self.wait.reached(time);
        if !self.buffer.earliest(cx.port)?.is_some_and(|earliest| self.wait.is_due(earliest, reached)) {
            return Ok(());
        }
        if self.behind_cache {
            // Caches may hold back what belongs to it.
            self.see(cx, self.seen.max(Some(time)));
            cx.port.request_commit();
            return Ok(());
        }
        self.let_through(cx, reached)
    }
}

impl<K: 'static, V: 'static> Node<Record<K, Change<V>>> for SuppressNode<K, V> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, Change<V>>) -> Result {
        self.step(cx, record).map_err(|e| e.at(&self.name))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        if !path.is_empty() {
            return self.outs.visit(cx, path, event);
        }
        let done = match event {
            Event::Punctuate { .. } => self.silence(cx),
            Event::AllDrained => self.settle(cx),
            Event::TakeBack => {
                self.seen = self.seen_before.1;
                Ok(())
            }
            Event::Drained(_) | Event::SettleTimers { .. } => {
                Err(Error::new(ErrorKind::Topology, "take an event").with("cause", "it is for another node"))
            }
        };
        done.map_err(|e| e.at(&self.name))
    }
}
