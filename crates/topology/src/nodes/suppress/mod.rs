//! Suppression: updates of a table wait in a buffer until they are due.

mod buffer;
mod wait;

use std::sync::Arc;

use bytes::Bytes;
use millpond_store_api as store;
use store::BufferValue;

use self::buffer::{Buffer, Taken, Waiting};
use self::wait::Due;
pub(crate) use self::wait::{Room, Wait, WhenFull};
use crate::error::Result;
use crate::headers::{Header, Headers};
use crate::node::{BuildCx, Event, Node, Outs, TaskCx, Turn};
use crate::port::{Dropped, NodeIndex, Schedule, StoreIndex};
use crate::record::{Change, Record};
use crate::round::HeldBack;
use crate::serde::Coder;

/// Holds updates of a table back. Its buffer is a store: all it knows is there, and beside the input offsets up to where rows
/// have become due ([`Port::release`](crate::Port::release)). These are let through one at a time, when the record is done.
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
    /// are through it is known what is due. Until then the port keeps the greatest of their times.
    behind_cache: bool,
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
            cx.port.advance(self.node, record.timestamp);
            return Ok(());
        }
        self.reach(cx, record.timestamp)
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

    /// The time is at least this: notes what is due by it, and what there is no room for.
    fn reach(&mut self, cx: &mut TaskCx<'_>, time: i64) -> Result {
        let store = self.buffer.store;
        let reached = self.wait.reached(time).max(cx.port.released(store).unwrap_or(i64::MIN));
        cx.port.release(store, reached);
        let due = self.due(reached);
        if self.buffer.may_be_due(cx.port, due)? {
            cx.has_due(self.node);
        }
        if self.room.when_full == WhenFull::ShutDown { self.check_room(cx, due) } else { Ok(()) }
    }

    /// What is due makes room.
    fn check_room(&mut self, cx: &mut TaskCx<'_>, due: Due) -> Result {
        if !self.room.is_exceeded(self.buffer.totals(cx.port)?) {
            return Ok(());
        }
        let held = self.buffer.totals_without(cx.port, due)?;
        if self.room.is_exceeded(held) { Err(self.room.exceeded(held)) } else { Ok(()) }
    }

    fn due(&self, reached: i64) -> Due {
        let room = Some(self.room).filter(|room| room.when_full == WhenFull::EmitEarly);
        Due { wait: self.wait, reached, room }
    }

    /// Takes the oldest row that is due out of the buffer, and forwards it.
    fn let_through(&mut self, cx: &mut TaskCx<'_>, turn: Turn) -> Result {
        let due = self.due(cx.port.released(self.buffer.store).unwrap_or(i64::MIN));
        if !self.buffer.take(cx.port, due, turn)? {
            return Ok(());
        }
        cx.has_due(self.node);
        if turn.pass_over {
            return Ok(());
        }
        let Taken { key, value } = &self.buffer.taken;
        let row = BufferValue::decode_row(value)?;
        if row.new.is_none() && self.wait.is_final() {
            return Ok(());
        }
        let headers = headers_of(row);
        cx.port.lets_through(&HeldBack { key, value: row.new, headers: &headers, timestamp: row.context.timestamp });
        let record = self.record(key, row, headers)?;
        self.outs.forward(&mut TaskCx { source_key: None, ..cx.reborrow() }, record)
    }

    /// The update that a row of the buffer stands for: from what those behind have heard of last to what it is now, with its own
    /// time and headers.
    fn record(&self, key: &[u8], row: BufferValue<'_>, headers: Headers) -> Result<Record<K, Change<V>>> {
        let BufferValue { context, prior, new, .. } = row;
        let old = prior.filter(|_| self.wants_old).map(|old| self.value.decode(old)).transpose()?;
        let change = Change { new: self.value.decode_nullable(new)?, old };
        Ok(Record { key: self.key.decode(key)?, value: change, timestamp: context.timestamp, headers })
    }

    /// All updates that caches held back are here.
    fn settle(&mut self, cx: &mut TaskCx<'_>) -> Result {
        match cx.port.node_time(self.node) {
            Some(time) => self.reach(cx, time),
            None => Ok(()),
        }
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
            cx.port.advance(self.node, time);
            cx.port.request_commit();
            return Ok(());
        }
        self.reach(cx, time)
    }
}

/// The headers of the last update of a row.
fn headers_of(row: BufferValue<'_>) -> Headers {
    let mut headers = Headers::new();
    for store::Header { key, value } in row.context.headers.iter() {
        headers.push(Header { name: key.into(), value: value.map(Bytes::copy_from_slice) });
    }
    headers
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
            Event::LetThrough(turn) => self.let_through(cx, turn),
            Event::Drained(_) | Event::SettleTimers { .. } => Err(event.refused(&self.name)),
        };
        done.map_err(|e| e.at(&self.name))
    }
}
