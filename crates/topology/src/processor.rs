//! The Processor API: what a processor is, how it is made, and the node around it.

use std::sync::Arc;

use crate::context::{Context, Init};
use crate::error::{Error, ErrorKind, Result};
use crate::node::{BuildCx, Event, Node, Outs, TaskCx};
use crate::port::{NodeIndex, Port, Schedule, TimerId};

/// User code in the middle of the graph, with state of its own and stores.
///
/// # One instance per task
///
/// A processor is made by its supplier, once per build of a task's graph (at start, when a task moves to another thread,
/// after a rollback), and never shared: its fields need no lock and start fresh each time. What must survive goes into a
/// store.
///
/// # Errors
///
/// An error leaves no trace of the record: its store writes and forwards are undone (the processor's own fields are the
/// processor's affair), and the application's handler decides what happens next.
///
/// ```
/// use millpond_topology::*;
///
/// /// Lets the first record of each key through.
/// struct Dedup { seen: StoreRef<KeyValue<String, i64>> }
///
/// impl Processor for Dedup {
///     type In = Record<String, String>;
///     type Out = Record<String, String>;
///
///     fn process(&mut self, cx: &mut Context<'_, Self>, record: Self::In) -> Result {
///         let mut seen = cx.store(&self.seen)?;
///         if seen.get(&record.key)?.is_some() {
///             return Ok(());
///         }
///         seen.put(&record.key, &record.timestamp)?;
///         cx.forward(record)
///     }
/// }
///
/// let mut builder = Topology::builder();
/// let seen = builder.key_value_store("seen", Utf8, I64);
/// builder
///     .stream("orders", Consumed::with(Utf8, Utf8))
///     .process(&seen, |_, seen| Ok(Dedup { seen }))
///     .to("fresh-orders", Produced::with(Utf8, Utf8));
/// # builder.build().unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a processor",
    label = "the supplier makes a `{Self}`, which does not implement `Processor`",
    note = "a supplier answers `Ok(processor)`, where the processor implements `millpond_topology::Processor` and is `Send`"
)]
pub trait Processor: Sized + Send + 'static {
    /// What it receives, such as `Record<String, i64>`.
    type In: 'static;
    /// What it forwards.
    type Out: 'static;

    /// Takes one record.
    fn process(&mut self, cx: &mut Context<'_, Self>, message: Self::In) -> Result;
}

/// A timer of a processor, to [cancel](Context::cancel) it by. Cancelling twice does no harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    pub(crate) id: TimerId,
    pub(crate) slot: u32,
}

/// What a timer calls: the processor, its context and the time (milliseconds since 1970).
pub(crate) type TimerFn<P> = Box<dyn FnMut(&mut P, &mut Context<'_, P>, i64) -> Result + Send>;

/// A node's timers, by slot. A slot is used again once its timer has ended; the id tells them apart.
///
/// What a record or punctuation does to them is provisional until it is over ([`Timers::settle`]): a cancelled timer keeps
/// its slot until then, because the port brings it back if the record fails.
pub(crate) struct Timers<P: Processor>(Vec<Option<Place<P>>>);

struct Place<P: Processor> {
    id: TimerId,
    /// Empty while it runs.
    f: Option<TimerFn<P>>,
    /// Since the last border.
    started: bool,
    cancelled: bool,
}

impl<P: Processor> Timers<P> {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn start(
        &mut self,
        port: &mut dyn Port,
        node: NodeIndex,
        schedule: Schedule,
        f: TimerFn<P>,
    ) -> Result<Timer> {
        if schedule.every_ms < 1 {
            let error = Error::new(ErrorKind::Topology, "schedule a punctuation");
            return Err(error.with("cause", "at least 1 ms").with("every_ms", schedule.every_ms));
        }
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let slot = crate::topology::index(free);
        let id = port.schedule(node, slot, schedule);
        let started = Some(Place { id, f: Some(f), started: true, cancelled: false });
        match self.0.get_mut(free) {
            Some(place) => *place = started,
            None => self.0.push(started),
        }
        Ok(Timer { id, slot })
    }

    /// Ends a timer, even if it is the one that is running.
    pub(crate) fn cancel(&mut self, port: &mut dyn Port, timer: Timer) {
        port.cancel(timer.id);
        if let Some(place) = self.place(timer.slot).filter(|place| place.id == timer.id) {
            place.cancelled = true;
        }
    }

    /// Whether a timer is there and was not cancelled.
    pub(crate) fn runs(&self, timer: Timer) -> bool {
        let place = self.0.get(timer.slot as usize).and_then(Option::as_ref);
        place.is_some_and(|place| place.id == timer.id && !place.cancelled)
    }

    /// The border: keeps what was started and cancelled since the last one, or undoes it. Twice does no harm.
    fn settle(&mut self, keep: bool) {
        for slot in &mut self.0 {
            let Some(place) = slot else { continue };
            let ended = if keep { place.cancelled } else { place.started };
            (place.started, place.cancelled) = (false, false);
            if ended {
                *slot = None;
            }
        }
    }

    fn place(&mut self, slot: u32) -> Option<&mut Place<P>> {
        self.0.get_mut(slot as usize)?.as_mut()
    }

    /// The timer's function, until it is put back.
    fn take(&mut self, slot: u32) -> Option<TimerFn<P>> {
        self.place(slot)?.f.take()
    }

    fn put_back(&mut self, slot: u32, f: TimerFn<P>) {
        if let Some(place) = self.place(slot) {
            place.f = Some(f);
        }
    }
}

/// What a child has done before its error can only be undone with the whole record.
#[cold]
fn not_passed_on(error: Error, by: &str) -> Error {
    error.with("not passed on by", by)
}

/// A processor in a task.
pub(crate) struct ProcessorNode<P: Processor> {
    name: Arc<str>,
    node: NodeIndex,
    processor: P,
    outs: Outs<P::Out>,
    timers: Timers<P>,
}

impl<P: Processor> ProcessorNode<P> {
    pub(crate) fn build(
        b: &mut BuildCx<'_>,
        outs: Outs<P::Out>,
        make: impl FnOnce(&mut Init<'_, P>) -> Result<P>,
    ) -> Result<Self> {
        let mut timers = Timers::new();
        let mut init = Init { node: b.node, children: &b.names, port: &mut *b.port, timers: &mut timers };
        let processor = make(&mut init)?;
        timers.settle(true);
        Ok(Self { name: b.name.clone(), node: b.node, processor, outs, timers })
    }

    #[inline]
    fn run(&mut self, cx: &mut TaskCx<'_>, f: impl FnOnce(&mut P, &mut Context<'_, P>) -> Result) -> Result {
        let (outs, timers) = (&mut self.outs, &mut self.timers);
        let mut context = Context { task: cx.reborrow(), outs, timers, node: self.node, failed: None };
        let done = f(&mut self.processor, &mut context);
        match (done, context.failed) {
            (Ok(()), None) => Ok(()),
            (Err(e), _) => Err(e.at(&self.name)),
            (Ok(()), Some(e)) => Err(not_passed_on(e, &self.name)),
        }
    }
}

impl<P: Processor> Node<P::In> for ProcessorNode<P> {
    fn receive(&mut self, cx: &mut TaskCx<'_>, message: P::In) -> Result {
        self.run(cx, |processor, cx| processor.process(cx, message))
    }

    fn visit(&mut self, cx: &mut TaskCx<'_>, path: &[u16], event: Event<'_>) -> Result {
        if !path.is_empty() {
            return self.outs.visit(cx, path, event);
        }
        match event {
            Event::Punctuate { slot, at } => {
                let Some(mut f) = self.timers.take(slot) else { return Ok(()) };
                let done = self.run(cx, |processor, cx| f(processor, cx, at));
                // Its slot is the same: none is freed before the call is over.
                self.timers.put_back(slot, f);
                done
            }
            Event::SettleTimers { keep } => {
                self.timers.settle(keep);
                Ok(())
            }
            Event::Drained(_) | Event::AllDrained | Event::LetThrough(_) => Err(event.refused(&self.name)),
        }
    }
}
