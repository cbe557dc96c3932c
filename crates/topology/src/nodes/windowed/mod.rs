//! Aggregations of a stream by key and window.

mod fold;
mod format;
mod sessions;
mod sliding;
mod time;
mod window_rows;

use std::sync::Arc;

pub(crate) use self::fold::{FoldRef, Merge, SessionAggregate};
pub(crate) use self::format::WindowFormat;
pub(crate) use self::sessions::SessionRows;
pub(crate) use self::window_rows::WindowRows;
use crate::dsl::{Closing, EmitStrategy, WindowSpec, millis};
use crate::error::{Error, ErrorKind, Result};
use crate::headers::Headers;
use crate::node::{BuildCx, Child, Event, Node, Outs, TaskCx};
use crate::port::{Drained, Dropped, NodeIndex, Schedule, StoreIndex};
use crate::record::{Change, Record};
use crate::serde::{Coder, Windowed};

/// What a windowed aggregation forwards.
pub(crate) type Updates<K, A> = Outs<Record<Windowed<K>, Change<A>>>;

/// The rows of a windowed aggregation: how a record changes them, and which of them are final.
pub(crate) trait WindowedAggregation<K, V, A>: Send + 'static {
    /// The serde of the key without its window.
    fn key(&self) -> &Coder<K>;

    /// Puts a record into its windows that are open at `close`; false if none took it. Forwards updates if they are wanted.
    fn take(
        &mut self,
        cx: &mut TaskCx<'_>,
        to: Option<&mut Updates<K, A>>,
        record: &Record<K, V>,
        close: i64,
    ) -> Result<bool>;

    /// The rows of the windows that close behind `released` and up to `close`, in the order of their times, then of their
    /// keys' bytes. Reads nothing if there can be none.
    fn closed(&mut self, cx: &mut TaskCx<'_>, released: Option<i64>, close: i64) -> Result<Vec<Final<K, A>>>;

    /// What it remembers of its rows may be wrong, since a record has failed.
    fn forget(&mut self);

    /// What a drained entry of the store stands for; none if its row neither is there nor was when it was forwarded last.
    fn drained(&self, entry: &Drained<'_>) -> Result<Option<Record<Windowed<K>, Change<A>>>>;
}

/// A final result.
pub(crate) struct Final<K, A> {
    pub(crate) key: Windowed<K>,
    pub(crate) value: A,
    pub(crate) timestamp: i64,
}

/// When results come, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Emission {
    /// At most once in so much wall-clock time, of windows that are closed; `None`: with each update.
    on_close: Option<i64>,
}

impl Emission {
    pub(crate) fn of(strategy: EmitStrategy) -> Self {
        Self { on_close: strategy.on_close.map(millis) }
    }
}

/// See [`WindowedNode`].
#[derive(Clone, Copy)]
struct Before {
    call: u64,
    close: i64,
    next_look: i64,
}

/// The longest time between two looks at the wall clock (milliseconds).
const LOOK: i64 = 1000;

/// Aggregates by key and window.
///
/// Its time, the greatest that it has got, stands in `close`: less what windows stay open behind their end. So much of it as
/// must outlive the node is kept by the port as released: where results come with updates all of it, where final results
/// are forwarded what has been.
pub(crate) struct WindowedNode<K, V, A, R> {
    name: Arc<str>,
    node: NodeIndex,
    store: StoreIndex,
    rows: R,
    value: Option<Coder<V>>,
    closing: Closing,
    close: i64,
    emission: Emission,
    /// From when on (wall clock) closed windows are looked for again.
    next_look: i64,
    /// The last call in which one of these two moved, and what they were before.
    before: Before,
    late: Option<Child<Record<K, V>>>,
    /// Other nodes put into the same store, each at a time of its own. So the time of this one does not outlive it.
    shares_store: bool,
    outs: Updates<K, A>,
}

impl<K: 'static, V: 'static, A: 'static, R: WindowedAggregation<K, V, A>> WindowedNode<K, V, A, R> {
    pub(crate) fn build(
        b: &mut BuildCx<'_>,
        store: usize,
        rows: R,
        spec: &WindowSpec,
        emission: Emission,
        value: Option<Coder<V>>,
    ) -> Result<Self> {
        let store = StoreIndex(crate::topology::index(store));
        let closing = spec.closing;
        let looks = [closing.idle_after, emission.on_close.filter(|interval| *interval > 0)];
        if let Some(every) = looks.into_iter().flatten().min() {
            b.port.schedule(b.node, 0, Schedule::wall_clock_ms(every.clamp(1, LOOK)));
        }
        let close = b.port.released(store).unwrap_or(i64::MIN);
        let (late, outs) = (b.side()?, b.outs()?);
        let (name, node) = (b.name.clone(), b.node);
        let (next_look, shares_store) = (i64::MIN, false);
        let before = Before { call: 0, close, next_look };
        Ok(Self {
            name,
            node,
            store,
            rows,
            value,
            closing,
            close,
            emission,
            next_look,
            before,
            late,
            shares_store,
            outs,
        })
    }

    pub(crate) fn sharing_its_store(self) -> Self {
        Self { shares_store: true, close: i64::MIN, ..self }
    }

    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        let dropped = if self.rows.key().is_null(&record.key) {
            Some(Dropped::NullKey)
        } else if self.value.as_ref().is_some_and(|value| value.is_null(&record.value)) {
            Some(Dropped::NullValue)
        } else {
            (record.timestamp < 0).then_some(Dropped::NegativeTimestamp)
        };
        if let Some(why) = dropped {
            cx.port.dropped(self.node, why);
            return Ok(());
        }
        self.move_time(cx, record.timestamp);
        let to = if self.emission.on_close.is_some() { None } else { Some(&mut self.outs) };
        if !self.rows.take(cx, to, &record, self.close)? {
            cx.port.dropped(self.node, Dropped::Late);
            if let Some(late) = &mut self.late {
                late.receive(cx, record)?;
            }
        }
        if self.emission.on_close.is_some() && cx.port.wall_time() >= self.next_look {
            self.emit(cx)?;
        }
        Ok(())
    }

    /// Before something of this call is noted: how it was, should the call fail.
    #[inline]
    fn remember(&mut self, cx: &mut TaskCx<'_>) {
        let call = cx.task.call;
        if self.before.call != call {
            self.before = Before { call, close: self.close, next_look: self.next_look };
            cx.changed(self.node);
        }
    }

    /// The operator's time is at least this.
    #[inline]
    fn move_time(&mut self, cx: &mut TaskCx<'_>, time: i64) {
        let close = self.closing.close_at(time);
        if close > self.close {
            self.remember(cx);
            self.close = close;
            if self.emission.on_close.is_none() && !self.shares_store {
                cx.port.release(self.store, close);
            }
        }
    }

    /// Forwards the final results of all windows that are closed and were not told of.
    fn emit(&mut self, cx: &mut TaskCx<'_>) -> Result {
        let Some(interval) = self.emission.on_close else { return Ok(()) };
        let released = cx.port.released(self.store);
        if self.close == i64::MIN || released.is_some_and(|released| released >= self.close) {
            return Ok(());
        }
        self.remember(cx);
        self.next_look = cx.port.wall_time().saturating_add(interval);
        for Final { key, value, timestamp } in self.rows.closed(cx, released, self.close)? {
            let value = Change { new: Some(value), old: None };
            self.outs.forward(cx, Record { key, value, timestamp, headers: Headers::default() })?;
        }
        cx.port.release(self.store, self.close);
        Ok(())
    }

    /// Looks at the wall clock: time goes on where nothing comes, and what was put off is made up for.
    fn tick(&mut self, cx: &mut TaskCx<'_>) -> Result {
        let wall = cx.port.wall_time();
        if let (Some(limit), Some(since)) = (self.closing.idle_after, cx.port.idle_since())
            && wall.saturating_sub(since) >= limit
        {
            self.move_time(cx, wall.saturating_sub(limit));
        }
        // Not yet when it is just due: a record of this very moment would do.
        if wall > self.next_look { self.emit(cx) } else { Ok(()) }
    }

    fn event(&mut self, cx: &mut TaskCx<'_>, event: Event<'_>) -> Result {
        match event {
            Event::Drained(entry) => match self.rows.drained(entry)? {
                // The entry's key has its window's time in it: no other node may take its bytes for those of a key.
                Some(record) => self.outs.forward(&mut TaskCx { source_key: None, ..cx.reborrow() }, record),
                None => Ok(()),
            },
            Event::Punctuate { .. } => self.tick(cx),
            Event::TakeBack => {
                (self.close, self.next_look) = (self.before.close, self.before.next_look);
                self.rows.forget();
                Ok(())
            }
            Event::SettleTimers { .. } | Event::AllDrained => Err(Error::new(ErrorKind::Topology, "take an event")),
        }
    }
}

impl<K, V, A, R> Node<Record<K, V>> for WindowedNode<K, V, A, R>
where
    K: Clone + 'static,
    V: 'static,
    A: 'static,
    R: WindowedAggregation<K, V, A>,
{
    fn receive(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        match self.step(cx, record) {
            Ok(()) => Ok(()),
            Err(e) => Err(e.at(&self.name)),
        }
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        if !path.is_empty() {
            return self.outs.visit_with_side(&mut self.late, cx, path, event);
        }
        self.event(cx, event).map_err(|e| e.at(&self.name))
    }
}

/// The bytes of a record's key; `reuse`: those of the source's key are what the serde would write.
fn write_key<K: 'static>(cx: &TaskCx<'_>, reuse: bool, serde: &Coder<K>, key: &K, to: &mut Vec<u8>) -> Result {
    to.clear();
    match cx.source_key.filter(|_| reuse) {
        Some(bytes) => to.extend_from_slice(bytes),
        None => drop(serde.encode(key, to)?),
    }
    Ok(())
}

/// Forwards an update of a window under the record that made it.
fn forward<K: Clone + 'static, V, A: 'static>(
    to: &mut Updates<K, A>,
    cx: &mut TaskCx<'_>,
    record: &Record<K, V>,
    (start, end): (i64, i64),
    value: Change<A>,
    timestamp: i64,
) -> Result {
    let key = Windowed { key: record.key.clone(), start, end };
    // The bytes of the source's key are not those of the windowed one.
    let cx = &mut TaskCx { source_key: None, ..cx.reborrow() };
    to.forward(cx, Record { key, value, timestamp, headers: record.headers.clone() })
}

/// A lower bound of the ends of the windows that are to be told of: most records do not make one close, and need not look.
#[derive(Clone, Copy, Debug)]
struct FirstEnd(i64);

impl FirstEnd {
    /// Nothing is known: the first look is at all that may be there.
    const UNKNOWN: Self = Self(i64::MIN);

    fn put(&mut self, end: i64) {
        self.0 = self.0.min(end);
    }
}
