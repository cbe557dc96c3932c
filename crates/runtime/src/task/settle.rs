//! The border of a record, punctuation, drained entry or row that is let through (D14): what it did becomes part of the
//! interval; or none of it remains, and the handler is asked, once.

use std::time::Duration;

use millpond_broker_api::Offset;
use millpond_topology::{self as topology, Drained, Headers, Topology};

use super::Task;
use super::process::Processing;
use super::stores::LogFormat;
use crate::error::{Error, ErrorKind, FIX, Result};
use crate::exec::Failure;
use crate::handler::{Decision, ErrorStage, Failed, Of, Origin, Subject};
use crate::ports::Bug;
use crate::topics::{UNKNOWN_TOPIC, failed_to_ask};

/// Whether something is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Over,
    Again,
}

/// A record that has failed and is to be tried again, before any other of its task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    input: usize,
    offset: Offset,
    /// How often it has failed.
    attempts: u32,
    /// Not before.
    at: Duration,
}

/// The input of a record that is tried again; none while it waits for its time.
pub(super) struct Again {
    pub(super) chosen: Option<usize>,
}

type Outcome = std::result::Result<(), Failure>;

impl Task {
    /// The record that is to be tried again, if there is one.
    #[inline]
    pub(super) fn again(&mut self, now: Duration) -> Option<Again> {
        let retry = self.retry?;
        if self.attempts(retry.input) == 0 {
            // What was read is no more in the log.
            self.retry = None;
            return None;
        }
        let _extracted = self.head_time(retry.input);
        Some(Again { chosen: (now >= retry.at).then_some(retry.input) })
    }

    /// How often the front record of an input has failed.
    fn attempts(&self, input: usize) -> u32 {
        let front = || self.inputs.get(input).and_then(|i| i.queue.head()).map(|(offset, _)| offset);
        let same = |retry: &Retry| retry.input == input && Some(retry.offset) == front();
        self.retry.filter(same).map_or(0, |retry| retry.attempts)
    }

    /// The border of the front record of an input.
    pub(super) fn settle_record(&mut self, cx: &mut Processing<'_>, outcome: Outcome, at: usize) -> Result<Settled> {
        let Err(mut failure) = outcome else {
            self.keep(cx, Of::Front(at))?;
            self.retry = None;
            return Ok(Settled::Over);
        };
        if cx.shared.planted(Bug::FailedRecordKept) {
            self.keep(cx, Of::Front(at))?;
        }
        self.undo();
        let attempt = self.attempts(at) + 1;
        let (node, stage) = (failure.node(), stage_of(&cx.shared.topology, &failure));
        let fix = stage.and_then(|_| take_fix(&mut failure));
        let panicked = matches!(failure, Failure::Panic(_));
        let error = self.error_of("process a record", failure);
        let Some(input) = self.inputs.get(at) else { return Err(error) };
        let Some(subject) = Subject::of_front(self.id, input) else { return Err(error) };
        let error = match subject.source {
            Some(s) => error.with("topic", s.topic).with("partition", s.partition).with("offset", s.offset),
            None => error,
        };
        let Some(stage) = stage else { return Err(error) };
        let failed = Failed { node: node.as_deref(), attempt, ..subject.failed(stage, &cx.shared.handlers) };
        let answered = answer(cx, &failed, error, fix);
        let offset = subject.source.map_or(input.next, |s| s.offset);
        if panicked {
            // Even if it stops with that: what was done before is committed, by a graph that is whole.
            self.rebuild_graph(&cx.shared.topology, cx.wall)?;
        }
        let at_pause = |pause| Retry { input: at, offset, attempts: attempt, at: cx.now.saturating_add(pause) };
        self.retry = answered?.map(at_pause);
        if self.retry.is_none() {
            return Ok(Settled::Over);
        }
        if let Some(input) = self.inputs.get_mut(at) {
            // An extractor is asked again, too.
            input.head_time = None;
        }
        Ok(Settled::Again)
    }

    /// The border of a punctuation.
    pub(super) fn settle_punctuation(
        &mut self,
        cx: &mut Processing<'_>,
        outcome: Outcome,
        at: i64,
        attempt: u32,
    ) -> Result<Settled> {
        let Err(failure) = outcome else { return self.keep(cx, Of::Other(at)).map(|()| Settled::Over) };
        let subject = Subject::nobody(self.id, at);
        self.settle_other(cx, failure, "run a punctuation", subject, attempt)
    }

    /// The border of a row that a node lets through. If it is skipped, the row is to be passed over.
    pub(super) fn settle_held(&mut self, cx: &mut Processing<'_>, outcome: Outcome, attempt: u32) -> Result<Settled> {
        let held = std::mem::take(&mut self.held);
        let settled =
            self.settle_row(cx, outcome, "forward what was held back", (held.drained(), held.headers()), attempt);
        self.held = held;
        settled
    }

    /// The border of what a node does when all caches above it are drained.
    pub(super) fn settle_drained(
        &mut self,
        cx: &mut Processing<'_>,
        outcome: Outcome,
        attempt: u32,
    ) -> Result<Settled> {
        let at = self.stream_time;
        let Err(failure) = outcome else { return self.keep(cx, Of::Other(at)).map(|()| Settled::Over) };
        let subject = Subject::nobody(self.id, at);
        self.settle_other(cx, failure, "look for what was held back", subject, attempt)
    }

    /// The border of an entry that came out of a cache, whose rows have this format. Its write stays.
    pub(super) fn settle_update(
        &mut self,
        cx: &mut Processing<'_>,
        outcome: Outcome,
        format: LogFormat,
        attempt: u32,
    ) -> Result<Settled> {
        // Taken out while they are lent: the task is needed beside them.
        let (entry, mut key) = (std::mem::take(&mut self.drained), std::mem::take(&mut self.row_key));
        let row = format.as_in_a_topic(entry.drained(), &mut key);
        let settled = self.settle_row(cx, outcome, "forward an update", (row, entry.headers()), attempt);
        (self.drained, self.row_key) = (entry, key);
        settled
    }

    fn settle_row(
        &mut self,
        cx: &mut Processing<'_>,
        outcome: Outcome,
        op: &'static str,
        (row, headers): (Drained<'_>, &Headers),
        attempt: u32,
    ) -> Result<Settled> {
        let Err(failure) = outcome else { return self.keep(cx, Of::Update(row, headers)).map(|()| Settled::Over) };
        self.settle_other(cx, failure, op, Subject::of_update(self.id, &row, headers), attempt)
    }

    fn settle_other(
        &mut self,
        cx: &mut Processing<'_>,
        mut failure: Failure,
        op: &'static str,
        subject: Subject<'_>,
        attempt: u32,
    ) -> Result<Settled> {
        self.undo();
        let (node, stage) = (failure.node(), stage_of(&cx.shared.topology, &failure));
        let fix = stage.and_then(|_| take_fix(&mut failure));
        let panicked = matches!(failure, Failure::Panic(_));
        let error = self.error_of(op, failure);
        let Some(stage) = stage else { return Err(error) };
        let failed = Failed { node: node.as_deref(), attempt, ..subject.failed(stage, &cx.shared.handlers) };
        let answered = answer(cx, &failed, error, fix);
        if panicked {
            self.rebuild_graph(&cx.shared.topology, cx.wall)?;
        }
        Ok(if answered?.is_some() { Settled::Again } else { Settled::Over })
    }

    /// Keeps what was done: store writes into the interval, changes and outputs to the producer. `of`: what did it, an input by
    /// its number.
    pub(super) fn keep(&mut self, cx: &mut Processing<'_>, of: Of<'_, usize>) -> Result {
        self.timers.record_done();
        self.drops.record_done();
        self.times.record_done();
        let collector = &mut *cx.collector;
        let (routes, key, mut logged) = (&mut self.routes, &mut self.log_key, Ok(()));
        if !self.outbox.is_empty() {
            let of = match of {
                Of::Front(at) => self.inputs.get(at).map_or(Of::Other(-1), Of::Front),
                Of::Update(drained, headers) => Of::Update(drained, headers),
                Of::Other(at) => Of::Other(at),
            };
            let origin = Origin { task: self.id, of };
            if let Err(error) = self.outbox.hand_over(collector, routes, origin) {
                // Some of it is with the producer: nothing of the interval is committed any more.
                self.undo();
                return Err(error);
            }
            self.commit_requested |= collector.take_met();
        }
        if let Some(stores) = &mut self.stores {
            self.counts.dropped += stores.record_done(&mut |store, format, entry| {
                if logged.is_ok() {
                    logged = routes.log(collector, store, format, entry, key);
                }
            });
        }
        logged
    }

    pub(super) fn undo(&mut self) {
        self.timers.record_failed();
        self.drops.record_failed();
        self.times.record_failed();
        if let Some(stores) = &mut self.stores {
            stores.record_failed();
        }
        self.outbox.clear();
    }

    #[cold]
    pub(super) fn error_of(&self, op: &'static str, failure: Failure) -> Error {
        if let Failure::Error(e) = &failure
            && let Some(own) = failed_to_ask(e)
        {
            return own.clone().with("task", self.id);
        }
        let unknown = match &failure {
            Failure::Error(e) => e.context().find(|(key, _)| *key == UNKNOWN_TOPIC).map(|(_, topic)| topic.to_owned()),
            Failure::Panic(_) => None,
        };
        let (kind, source): (_, Box<dyn std::error::Error + Send + Sync>) = match failure {
            Failure::Panic(text) => (ErrorKind::Record, format!("panic: {text}").into()),
            Failure::Error(e) => match e.kind() {
                topology::ErrorKind::Store => (ErrorKind::Store, e.into()),
                topology::ErrorKind::Topology => (ErrorKind::Config, e.into()),
                topology::ErrorKind::Full => return self.full(op, e),
                _ => (ErrorKind::Record, e.into()),
            },
        };
        let error = Error::new(kind, op).with("task", self.id);
        let error = match unknown {
            Some(topic) => error.with(UNKNOWN_TOPIC, topic),
            None => error,
        };
        error.caused_by(source)
    }

    #[cold]
    fn full(&self, op: &'static str, error: topology::Error) -> Error {
        Error::new(ErrorKind::Config, op)
            .with("task", self.id)
            .caused_by(error)
            .remedy("let the buffer spill when it is full, or raise its limit")
    }
}

/// Asks what becomes of it, and does that, but for a retry: then the answer is the pause before it.
#[cold]
fn answer(cx: &mut Processing<'_>, failed: &Failed<'_>, error: Error, fix: Option<String>) -> Result<Option<Duration>> {
    match cx.shared.handlers.decide(failed, error, remedy(failed.stage, fix)) {
        Decision::Fail(error) => Err(error),
        Decision::Skip => Ok(None),
        Decision::DeadLetter(to, error) => cx.collector.post(to, failed, &error).map(|()| None),
        Decision::Retry(pause) => Ok(Some(pause)),
    }
}

/// Whose handler is asked; none for what is not the record's fault. Serdes of stores belong to the processing.
#[cold]
fn stage_of(topology: &Topology, failure: &Failure) -> Option<ErrorStage> {
    let Failure::Error(error) = failure else { return Some(ErrorStage::Processing) };
    if failed_to_ask(error).is_some() {
        return None;
    }
    let at = error.node();
    match error.kind() {
        topology::ErrorKind::Deserialization if topology.sources().iter().any(|s| Some(&*s.name) == at) => {
            Some(ErrorStage::Deserialization)
        }
        topology::ErrorKind::Serialization if topology.sinks().iter().any(|s| Some(&*s.name) == at) => {
            Some(ErrorStage::Production)
        }
        topology::ErrorKind::Store | topology::ErrorKind::Topology | topology::ErrorKind::Full => None,
        _ => Some(ErrorStage::Processing),
    }
}

/// What the error itself knows to be done about it; it is said in one place, behind all else.
#[cold]
fn take_fix(failure: &mut Failure) -> Option<String> {
    match failure {
        Failure::Error(error) => error.take(FIX),
        Failure::Panic(_) => None,
    }
}

/// What can be done about an error that stops the application.
#[cold]
fn remedy(stage: ErrorStage, fix: Option<String>) -> String {
    let (mend, handler) = match stage {
        ErrorStage::Deserialization => (
            "compare the serde in `Consumed` with what the topic's producer writes, and mend the one that is wrong",
            "deserialization.exception.handler",
        ),
        ErrorStage::Processing => ("mend the function", "processing.exception.handler"),
        ErrorStage::Production => ("mend the serde or what it is given", "production.exception.handler"),
    };
    format!("{}, or let `{handler}` be `continue` or `dead-letter`", fix.as_deref().unwrap_or(mend))
}
