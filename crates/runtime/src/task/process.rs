//! Processing: one record, punctuation or drained entry at a time, each atomic in its task (D14), and the rows that they
//! make due.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millpond_broker_api::{Consumer, Record};
use millpond_changelog::{CUT_HEADER, CutClass, Position};
use millpond_topology::{self as topology, Header, Headers, PunctuationType, Raw, StoreAccess, TaskGraph, Topology};
use smallvec::SmallVec;

use super::punctuate::Due;
use super::settle::Settled;
use super::stores::{Moment, TaskStores};
use super::{Task, TaskState};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::{Failure, RecordInfo, TaskPort, catch};
use crate::instance::Shared;
use crate::output::Collector;
use crate::state::Budget;

/// What processing needs beside the task.
pub(crate) struct Processing<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) collector: &'a mut Collector,
    pub(crate) now: Duration,
    pub(crate) wall: i64,
}

/// The port of a task, out of its disjoint fields.
macro_rules! port {
    ($task:expr, $wall:expr, $timestamp:expr, $record:expr) => {
        TaskPort {
            stores: $task.stores.as_mut().ok_or_else(|| $crate::task::process::not_open($task.id))?,
            outbox: &mut $task.outbox,
            timers: &mut $task.timers,
            routes: &$task.routes,
            record: $record,
            timestamp: $timestamp,
            stream_time: $task.stream_time,
            wall: $wall,
            commit_requested: &mut $task.commit_requested,
            drops: &mut $task.drops,
            times: &mut $task.times,
            held: &mut $task.held,
            idle_since: $task.idle_since,
        }
    };
}

pub(super) use port;

#[cold]
pub(super) fn not_open(task: super::TaskId) -> Error {
    Error::new(ErrorKind::Fatal, "use a task's stores").with("task", task).with("reason", "they are not open")
}

impl Task {
    /// Makes the graph, which calls all suppliers, and its timers.
    pub(crate) fn build_graph(&mut self, topology: &Topology, wall: i64) -> Result {
        self.graph = None;
        self.timers.clear();
        let mut port = port!(self, wall, self.stream_time, None);
        let mut built = None;
        let made = catch(|| {
            built = Some(topology.task(self.id.sub_topology, &mut port)?);
            Ok(())
        });
        // What suppliers have written or sent is no record's: it is not kept.
        if let Some(stores) = &mut self.stores {
            stores.record_failed();
        }
        self.outbox.clear();
        self.timers.built();
        self.graph = built;
        made.map_err(|failure| self.error_of("build a task's graph", failure))
    }

    /// Makes the graph anew after a panic. What its suppliers schedule goes on in the rhythm that it had.
    pub(super) fn rebuild_graph(&mut self, topology: &Topology, wall: i64) -> Result {
        self.timers.carry_over();
        self.build_graph(topology, wall)?;
        // Whose turn it is, is known.
        self.graph.as_mut().map(TaskGraph::take_due);
        Ok(())
    }

    /// Builds the graph over stores that hold nothing.
    pub(crate) fn dry_run(&mut self, topology: &Topology, caching: bool, budget: &Arc<Budget>, wall: i64) -> Result {
        let plans = self.sub_plan().map(|s| s.stores.clone()).unwrap_or_default();
        self.stores = Some(TaskStores::nothing(&plans, caching, budget));
        self.build_graph(topology, wall)
    }

    /// Looks the keys of the next records up in the stores that are asked by them, so that the look-ups overlap (D4).
    pub(crate) fn look_ahead(&mut self, topology: &Topology, records: usize) -> Result {
        let Some(stores) = self.stores.as_mut() else { return Ok(()) };
        for input in &self.inputs {
            let lookups =
                topology.sources().get(input.index.0 as usize).map(|s| s.lookups.as_slice()).unwrap_or_default();
            if lookups.is_empty() || input.queue.is_empty() {
                continue;
            }
            let mut keys: SmallVec<[&[u8]; 32]> = SmallVec::new();
            input.queue.keys(records, &mut |key| keys.push(key));
            for store in lookups {
                let at = Moment { timestamp: self.stream_time, stream_time: self.stream_time };
                if let Some(StoreAccess { layer, base, .. }) = stores.access(*store, at) {
                    layer.touch(base, &keys).map_err(|e| Error::store("look keys up", e).with("task", self.id))?;
                }
            }
        }
        Ok(())
    }

    /// Copies a record into its queue, unless it is a marker or of an unknown kind (D10).
    pub(crate) fn enqueue(&mut self, input: usize, record: &Record<'_>) {
        let Some(input) = self.inputs.get_mut(input) else { return };
        if input.internal && !CutClass::of(record.headers).is_data() {
            self.counts.markers += 1;
            if input.queue.is_empty() {
                input.next = record.offset + 1;
                self.dirty = true;
            }
            return;
        }
        input.idle_since = None;
        input.queue.push(record);
    }

    /// Processes up to `limit` records in the order of their event times; answers how many. Stops early when records may
    /// be missing for that order, and when a commit was asked for.
    pub(crate) fn process(&mut self, cx: &mut Processing<'_>, consumer: &dyn Consumer, limit: usize) -> Result<usize> {
        // What was due when the task stopped, or was somebody else's.
        self.let_through(cx)?;
        let mut done = 0;
        while done < limit && !self.commit_requested {
            let Some(input) = self.choose(cx, consumer) else { break };
            self.process_one(cx, input)?;
            self.let_through(cx)?;
            done += 1;
            self.read_at = cx.wall;
            if self.timers.is_due(PunctuationType::StreamTime, self.stream_time) {
                self.punctuate(cx, PunctuationType::StreamTime)?;
            }
        }
        Ok(done)
    }

    /// The input whose head has the lowest event time, if no earlier record can be missing: an empty input is waited for as
    /// long as it has more to fetch, and then for `max.task.idle.ms` (KIP-695).
    fn choose(&mut self, cx: &Processing<'_>, consumer: &dyn Consumer) -> Option<usize> {
        if let Some(again) = self.again(cx.now) {
            return again.chosen;
        }
        let mut best: Option<(i64, usize)> = None;
        let mut missing = false;
        for at in 0..self.inputs.len() {
            match self.head_time(at) {
                Some(time) if best.is_none_or(|(lowest, _)| time < lowest) => best = Some((time, at)),
                Some(_) => {}
                None => missing = true,
            }
        }
        let (_, at) = best?;
        let mut ready = true;
        for input in self.inputs.iter_mut().filter(|i| missing && i.queue.is_empty()) {
            // All are asked: each waits from its own first time on, not one after the other.
            ready &= idles(input, cx, consumer);
        }
        ready.then_some(at)
    }

    #[inline]
    pub(super) fn head_time(&mut self, at: usize) -> Option<i64> {
        let input = self.inputs.get_mut(at)?;
        if !input.extractor {
            return input.queue.head().map(|(_, time)| time);
        }
        if input.head_time.is_none() && !input.queue.is_empty() {
            self.extract(at);
        }
        self.inputs.get(at).and_then(|i| i.head_time)
    }

    /// The event time of the head, by the user's extractor. A record that it fails on takes its turn at its own time, and
    /// fails then.
    fn extract(&mut self, at: usize) {
        let (Some(input), Some(graph)) = (self.inputs.get_mut(at), self.graph.as_mut()) else { return };
        let Some(record) = input.queue.front() else { return };
        let headers = headers_of(&record);
        let raw = Raw { key: record.key, value: record.value, timestamp: record.timestamp, headers: &headers };
        let mut time = record.timestamp;
        let extracted = catch(|| {
            time = graph.timestamp(input.index, &raw, input.partition_time)?;
            Ok(())
        });
        (input.head_time, input.head_failure) = (Some(time), extracted.err());
    }

    fn process_one(&mut self, cx: &mut Processing<'_>, at: usize) -> Result {
        let Some(input) = self.inputs.get_mut(at) else { return Ok(()) };
        let Some(record) = input.queue.front() else { return Ok(()) };
        let timestamp = input.head_time.unwrap_or(record.timestamp);
        let offset = record.offset;
        let leader_epoch = record.leader_epoch;
        let mut outcome = input.head_failure.take().map_or(Ok(()), Err);
        let stream_time = self.stream_time;
        if outcome.is_err() {
            // It has no event time.
        } else if timestamp < 0 && input.extractor {
            // The extractor's way to say that the record is to be dropped.
            self.counts.dropped += 1;
        } else {
            self.stream_time = self.stream_time.max(timestamp);
            let headers = headers_of(&record);
            let raw = Raw { key: record.key, value: record.value, timestamp, headers: &headers };
            let info = RecordInfo { topic: &input.topic, partition: input.partition, offset };
            let index = input.index;
            let partition_time = input.partition_time;
            let mut port = port!(self, cx.wall, timestamp, Some(info));
            let graph = self.graph.as_mut();
            outcome = run(graph, self.id, |graph| {
                if timestamp < 0 {
                    // Says what is wrong with it.
                    graph.timestamp(index, &raw, partition_time)?;
                }
                graph.receive(&mut port, index, &raw)
            });
        }
        let skipped = outcome.is_err();
        if skipped {
            self.stream_time = stream_time;
        }
        self.note_position(Some((at, offset)));
        if self.settle_record(cx, outcome, at)? == Settled::Again {
            // What is logged while it waits does not stand behind it.
            self.note_position(None);
            return Ok(());
        }
        if let Some(input) = self.inputs.get_mut(at) {
            input.queue.pop();
            input.next = offset + 1;
            input.leader_epoch = leader_epoch;
            input.partition_time = if skipped { input.partition_time } else { input.partition_time.max(timestamp) };
            input.head_time = None;
        }
        self.dirty = true;
        self.counts.processed += 1;
        Ok(())
    }

    /// Writes down how far the inputs were read, if changelog records are to say so. `at_hand`: the input and the offset of a
    /// record that counts as read.
    pub(super) fn note_position(&mut self, at_hand: Option<(usize, i64)>) {
        let Some(bytes) = &mut self.routes.position else { return };
        let mut position = Position::default();
        for (n, input) in self.inputs.iter().enumerate() {
            let read = at_hand.filter(|(at, _)| *at == n).map_or(input.next - 1, |(_, offset)| offset);
            if read >= 0 {
                position.advance(&input.topic, input.partition, read);
            }
        }
        bytes.clear();
        position.encode(bytes);
    }

    /// Calls the punctuations of the wall clock that are due; their nodes can ask for how long nothing was there to read.
    pub(crate) fn punctuate_wall_clock(&mut self, cx: &mut Processing<'_>, consumer: &dyn Consumer) -> Result {
        self.idle_since = Some(self.read_at).filter(|_| self.inputs.iter().all(|i| has_ended(i, consumer)));
        let called = self.punctuate(cx, PunctuationType::WallClockTime);
        self.idle_since = None;
        called
    }

    /// It begins to run, or goes on with it.
    pub(crate) fn begin_reading(&mut self, wall: i64) {
        self.read_at = wall;
        self.routes.look_at(wall);
        self.note_position(None);
    }

    /// Calls all punctuations of a clock that are due. Each is atomic like a record; it has no record to skip, so a failed one
    /// that is skipped is counted and had no effect.
    pub(crate) fn punctuate(&mut self, cx: &mut Processing<'_>, by: PunctuationType) -> Result {
        let now = match by {
            PunctuationType::StreamTime => self.stream_time,
            PunctuationType::WallClockTime => cx.wall,
        };
        while let Some(due) = self.timers.take_due(by, now) {
            let Due { node, slot, at, .. } = due;
            for attempt in 1.. {
                let mut port = port!(self, cx.wall, at, None);
                let outcome = run(self.graph.as_mut(), self.id, |graph| graph.punctuate(&mut port, node, slot, at));
                self.counts.punctuated += 1;
                self.dirty = true;
                let settled = self.settle_punctuation(cx, outcome, at, attempt)?;
                if settled == Settled::Over || !self.timers.has(&due) {
                    break;
                }
            }
            self.let_through(cx)?;
        }
        Ok(())
    }

    /// Takes every pending entry out of the overlays, in topological order, forwards and logs it; what is forwarded may
    /// make others pending, so it goes on until all is quiet, and the nodes that wait for that have nothing more to say. What
    /// forwards nothing comes last, when it has been written for the last time.
    pub(crate) fn drain(&mut self, cx: &mut Processing<'_>) -> Result {
        let mut told = false;
        loop {
            let quiet = self.drain_stores(cx, true)?;
            if quiet && (told || !self.tell_drained(cx)?) {
                break;
            }
            told = quiet;
        }
        self.drain_stores(cx, false).map(drop)
    }

    /// Drains the stores that forward their updates, or those that do not, once around; true if there was nothing.
    fn drain_stores(&mut self, cx: &mut Processing<'_>, forwards: bool) -> Result<bool> {
        let mut quiet = true;
        for place in 0..self.stores.as_ref().map_or(0, |s| s.stores().len()) {
            let drained =
                |s: &super::stores::TaskStores| s.stores().get(place).is_some_and(|s| s.plan.forwards == forwards);
            if !self.stores.as_ref().is_some_and(drained) {
                continue;
            }
            while self.drain_one(cx, place)? {
                quiet = false;
            }
        }
        Ok(quiet)
    }

    /// Tells the nodes that wait for it that nothing is held back; false if there are none.
    fn tell_drained(&mut self, cx: &mut Processing<'_>) -> Result<bool> {
        let awaiting = self.graph.as_ref().map_or(0, |graph| graph.awaiting().len());
        for n in 0..awaiting {
            for attempt in 1.. {
                let mut port = port!(self, cx.wall, self.stream_time, None);
                let outcome = run(self.graph.as_mut(), self.id, |graph| match graph.awaiting().get(n) {
                    Some(node) => graph.all_drained(&mut port, *node),
                    None => Ok(()),
                });
                if self.settle_drained(cx, outcome, attempt)? == Settled::Over {
                    break;
                }
            }
            self.let_through(cx)?;
        }
        Ok(awaiting > 0)
    }

    /// Takes the oldest pending entry of a store out. Its write stays even if forwarding it fails.
    pub(crate) fn drain_one(&mut self, cx: &mut Processing<'_>, place: usize) -> Result<bool> {
        let Some((store, base)) = self.stores.as_mut().and_then(|s| s.at(place)) else { return Ok(false) };
        let read = |e| Error::store("read the value that was forwarded last", e);
        if !store.overlay.next_pending(base, &mut self.drained).map_err(read)? {
            return Ok(false);
        }
        let (index, format, forwards) = (store.plan.index, store.format(), store.plan.forwards);
        self.routes.log(cx.collector, place, format, self.drained.entry(), &mut self.log_key)?;
        if forwards {
            let timestamp = self.drained.entry().timestamp;
            for attempt in 1.. {
                let mut port = port!(self, cx.wall, timestamp, None);
                let drained = self.drained.drained();
                let outcome = run(self.graph.as_mut(), self.id, |graph| graph.drained(&mut port, index, &drained));
                if self.settle_update(cx, outcome, format, attempt)? == Settled::Over {
                    break;
                }
            }
            self.let_through(cx)?;
        }
        Ok(true)
    }

    /// Whether a punctuation of the wall clock is due.
    pub(crate) fn is_punctuation_due(&self, wall: i64) -> bool {
        self.state == TaskState::Running && self.timers.is_due(PunctuationType::WallClockTime, wall)
    }

    /// When a punctuation of the wall clock is due next.
    pub(crate) fn next_punctuation(&self) -> Option<i64> {
        self.timers.next_wall()
    }
}

/// Runs the graph. A task without one is not running, which the caller sees to.
#[inline]
pub(super) fn run(
    graph: Option<&mut TaskGraph>,
    task: super::TaskId,
    body: impl FnOnce(&mut TaskGraph) -> topology::Result,
) -> std::result::Result<(), Failure> {
    match graph {
        Some(graph) => catch(|| body(graph)),
        None => {
            let error = topology::Error::new(topology::ErrorKind::Topology, "run a task's graph");
            Err(Failure::Error(error.with("task", task).with("reason", "it was not built")))
        }
    }
}

/// A record's headers for the graph, without the library's own.
#[inline]
pub(crate) fn headers_of(record: &Record<'_>) -> Headers {
    let mut headers = Headers::default();
    for header in record.headers.iter().filter(|h| h.name != CUT_HEADER) {
        headers.push(Header { name: header.name.into(), value: header.value.map(Bytes::copy_from_slice) });
    }
    headers
}

/// Whether nothing waits of an input and nothing is left to be fetched.
fn has_ended(input: &super::Input, consumer: &dyn Consumer) -> bool {
    let ends = consumer.known_end(input.source).zip(consumer.position(input.source));
    input.queue.is_empty() && ends.is_some_and(|(end, position)| position >= end)
}

/// Whether an empty input need not be waited for.
fn idles(input: &mut super::Input, cx: &Processing<'_>, consumer: &dyn Consumer) -> bool {
    let (Some(end), Some(position)) = (consumer.known_end(input.source), consumer.position(input.source)) else {
        return false;
    };
    if position < end {
        input.idle_since = None;
        return false;
    }
    let since = *input.idle_since.get_or_insert(cx.now);
    cx.now.saturating_sub(since) >= cx.shared.settings.max_task_idle
}
