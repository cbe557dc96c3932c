//! Aggregations of a stream by key and window.

mod finals;
mod fold;
mod format;
mod sessions;
mod sliding;
mod time;
mod window_rows;

use std::sync::Arc;

pub(crate) use self::finals::Finals;
pub(crate) use self::fold::{FoldRef, Merge, SessionAggregate};
pub(crate) use self::format::WindowFormat;
pub(crate) use self::sessions::SessionRows;
pub(crate) use self::window_rows::WindowRows;
use crate::dsl::{Closing, EmitStrategy, WindowSpec};
use crate::error::Result;
use crate::headers::Headers;
use crate::millis::whole;
use crate::node::{BuildCx, Child, Event, Node, Outs, TaskCx, Turn};
use crate::port::{Drained, Dropped, NodeIndex, Schedule, StoreIndex};
use crate::record::{Change, Record};
use crate::round::HeldBack;
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

    /// Whether there may be windows that close up to `close` and were not told of.
    fn may_close(&self, close: i64) -> bool;

    /// The rows of the windows that close behind `released` and up to `close`, in the order of their times, then of their
    /// keys' bytes.
    fn closed(&mut self, cx: &mut TaskCx<'_>, released: Option<i64>, close: i64) -> Result<Finals>;

    /// The key and the value that a final row's bytes stand for.
    fn read(&self, key: &[u8], value: &[u8]) -> Result<(K, A)>;

    /// Makes of a key's bytes those of the key with its window, as a topic has them.
    fn add_window(window: (i64, i64), key: &mut Vec<u8>);

    /// What a drained entry of the store stands for; none if its row neither is there nor was when it was forwarded last.
    fn drained(&self, entry: &Drained<'_>) -> Result<Option<Record<Windowed<K>, Change<A>>>>;
}

/// When results come, in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Emission {
    /// At most once in so much wall-clock time, of windows that are closed; `None`: with each update.
    on_close: Option<i64>,
}

impl Emission {
    pub(crate) fn of(strategy: EmitStrategy) -> Self {
        // An interval that is not whole milliseconds was reported.
        Self { on_close: strategy.on_close.map(|interval| whole(interval).unwrap_or_default()) }
    }
}

/// The longest time between two looks at the wall clock (milliseconds).
const LOOK: i64 = 1000;

/// Aggregates by key and window.
///
/// All that must outlive it is with the port: its time, the greatest event time that it has got; its rows; and where final
/// results are forwarded, up to which close they were.
pub(crate) struct WindowedNode<K, V, A, R> {
    name: Arc<str>,
    node: NodeIndex,
    store: StoreIndex,
    rows: R,
    value: Option<Coder<V>>,
    closing: Closing,
    emission: Emission,
    /// From when on (wall clock) closed windows are looked for again.
    next_look: i64,
    windowed_key: Vec<u8>,
    late: Option<Child<Record<K, V>>>,
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
        let (late, outs) = (b.side()?, b.outs()?);
        let (name, node) = (b.name.clone(), b.node);
        let (next_look, windowed_key) = (i64::MIN, Vec::new());
        Ok(Self { name, node, store, rows, value, closing, emission, next_look, windowed_key, late, outs })
    }

    fn step(&mut self, cx: &mut TaskCx<'_>, record: Record<K, V>) -> Result {
        let dropped = if self.rows.key().is_null(&record.key) {
            Some(Dropped::NullKey)
        } else if Coder::is_known_null(self.value.as_ref(), &record.value) {
            Some(Dropped::NullValue)
        } else {
            (record.timestamp < 0).then_some(Dropped::NegativeTimestamp)
        };
        if let Some(why) = dropped {
            cx.port.dropped(self.node, why);
            return Ok(());
        }
        let time = cx.port.advance(self.node, record.timestamp);
        let close = self.close_at(cx, time);
        let to = if self.emission.on_close.is_some() { None } else { Some(&mut self.outs) };
        if !self.rows.take(cx, to, &record, close)? {
            cx.port.dropped(self.node, Dropped::Late);
            if let Some(late) = &mut self.late {
                late.receive(cx, record)?;
            }
        }
        if self.emission.on_close.is_some() && cx.port.wall_time() >= self.next_look {
            self.look(cx, close);
        }
        Ok(())
    }

    /// The window close at a time of the node; not before what it has told of, if its time was committed by somebody else.
    fn close_at(&self, cx: &TaskCx<'_>, time: i64) -> i64 {
        let close = self.closing.close_at(time);
        match self.emission.on_close {
            Some(_) => close.max(cx.port.released(self.store).unwrap_or(close)),
            None => close,
        }
    }

    /// Looks whether there are windows that are closed and were not told of.
    fn look(&mut self, cx: &mut TaskCx<'_>, close: i64) {
        if self.emission.on_close.is_none() || cx.port.released(self.store).is_some_and(|released| released >= close) {
            return;
        }
        if self.rows.may_close(close) {
            cx.has_due(self.node);
        } else {
            self.release(cx, close);
        }
    }

    /// All final results up to `close` are forwarded.
    fn release(&mut self, cx: &mut TaskCx<'_>, close: i64) {
        self.next_look = cx.port.wall_time().saturating_add(self.emission.on_close.unwrap_or(0));
        cx.port.release(self.store, close);
    }

    /// Forwards the final result whose turn it is. Where the last one has had its turn, all were told of.
    fn let_through(&mut self, cx: &mut TaskCx<'_>, turn: Turn) -> Result {
        let Some(time) = cx.port.node_time(self.node) else { return Ok(()) };
        let close = self.close_at(cx, time);
        let finals = match cx.scratch.memory.take().and_then(|memory| memory.downcast::<Finals>().ok()) {
            Some(finals) => finals,
            None => Arc::new(self.rows.closed(cx, cx.port.released(self.store), close)?),
        };
        cx.scratch.memory = Some(finals.clone());
        if finals.has_more(turn.had) {
            cx.has_due(self.node);
        } else {
            self.release(cx, close);
        }
        if turn.pass_over { Ok(()) } else { self.tell(cx, &finals, turn.had) }
    }

    fn tell(&mut self, cx: &mut TaskCx<'_>, finals: &Finals, n: u64) -> Result {
        let Some((row, key, value)) = finals.get(n) else { return Ok(()) };
        self.windowed_key.clear();
        self.windowed_key.extend_from_slice(key);
        R::add_window((row.start, row.end), &mut self.windowed_key);
        let (headers, timestamp) = (Headers::default(), row.timestamp);
        cx.port.lets_through(&HeldBack { key: &self.windowed_key, value: Some(value), headers: &headers, timestamp });
        let (key, value) = self.rows.read(key, value)?;
        let key = Windowed { key, start: row.start, end: row.end };
        let value = Change { new: Some(value), old: None };
        self.outs.forward(cx, Record { key, value, timestamp, headers })
    }

    /// Looks at the wall clock: time goes on where nothing comes, and what was put off is made up for.
    fn tick(&mut self, cx: &mut TaskCx<'_>) {
        let wall = cx.port.wall_time();
        if let (Some(limit), Some(since)) = (self.closing.idle_after, cx.port.idle_since())
            && wall.saturating_sub(since) >= limit
        {
            cx.port.advance(self.node, wall.saturating_sub(limit));
        }
        // Not yet when it is just due: a record of this very moment would do.
        if wall > self.next_look
            && let Some(time) = cx.port.node_time(self.node)
        {
            let close = self.close_at(cx, time);
            self.look(cx, close);
        }
    }

    fn event(&mut self, cx: &mut TaskCx<'_>, event: Event<'_>) -> Result {
        match event {
            Event::Drained(entry) => match self.rows.drained(entry)? {
                // The entry's key has its window's time in it: no other node may take its bytes for those of a key.
                Some(record) => self.outs.forward(&mut TaskCx { source_key: None, ..cx.reborrow() }, record),
                None => Ok(()),
            },
            Event::Punctuate { .. } => {
                self.tick(cx);
                Ok(())
            }
            Event::LetThrough(turn) => self.let_through(cx, turn),
            Event::SettleTimers { .. } | Event::AllDrained => Err(event.refused(&self.name)),
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

/// A lower bound of the ends of the windows that are to be told of: most records do not make one close, and need not look. A
/// record that fails may leave it lower than need be.
#[derive(Clone, Copy, Debug)]
struct FirstEnd(i64);

impl FirstEnd {
    /// Nothing is known: the first look is at all that may be there.
    const UNKNOWN: Self = Self(i64::MIN);

    fn put(&mut self, end: i64) {
        self.0 = self.0.min(end);
    }
}
