//! Going back to what is committed: after an abort, a refused commit, or one of unknown outcome (D2). Never a wipe.
//!
//! All ways back are one: the transaction is brought to an end, what is not committed is forgotten, and the tasks are taken
//! over again from step 2 on, as if they were new here: committed offsets, changelog ends, the difference restored. That is
//! right whatever has become of the commit, so an unknown outcome needs no guess.

use std::time::Duration;

use millpond_broker_api::Change;

use super::{TaskId, TaskState};
use crate::error::{Disposition, Error, ErrorKind, Result};
use crate::metrics::{Counter, Scope};
use crate::output::Collector;
use crate::ports::FailPoint;
use crate::worker::{ToMember, Worker};

/// How a worker's transaction is brought to an end. Each is at least as thorough as those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// Abort.
    Abort,
    /// At-least-once: wait until every record that was sent has an answer, since it can still reach the log.
    Flush,
    /// Take over the transactional id: what is open is aborted, what is being committed is completed.
    Init,
    /// As `Init`, with a new producer: the former one is fenced, or holds records back that must not be written any more.
    Anew,
}

/// What has to be done before a worker goes on; tried again until it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovery {
    ending: Ending,
    retry_at: Duration,
}

/// The pause before something is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

impl Recovery {
    /// What a worker begins with under exactly-once.
    pub(crate) const fn init() -> Self {
        Self { ending: Ending::Init, retry_at: Duration::ZERO }
    }
}

impl Worker {
    /// Does what an error asks for. What cannot be mended here comes back.
    pub(crate) fn recover(&mut self, error: Error) -> Result {
        match error.disposition() {
            Disposition::Shutdown => return Err(error),
            _ => tracing::warn!(worker = self.number, "goes back to what is committed: {}", error.chain()),
        }
        match error.disposition() {
            Disposition::Rejoin => {
                let generation = self.member.as_ref().map_or(-1, |m| m.generation);
                self.roll_back(Ending::Abort);
                // The tasks are kept, still, until the member knows whose they are now; none of them can commit.
                self.member = None;
                self.tell(ToMember::MembershipLost { worker: self.number, generation });
            }
            _ if error.kind() == ErrorKind::ProducerFenced => self.roll_back(Ending::Anew),
            _ if error.kind() == ErrorKind::UnknownOutcome => self.roll_back(Ending::Init),
            _ => self.roll_back(Ending::Abort),
        }
        if error.disposition() == Disposition::RestoreTask
            && let Some(id) = self.at_work
        {
            self.reopen(id);
        }
        Ok(())
    }

    /// A task's shard failed: it is opened again at what was durable, and restored.
    pub(crate) fn reopen(&mut self, id: TaskId) {
        self.shared.ports.metrics.add(Counter::ShardReopenedTotal, Scope::Task(id), 1);
        let now = self.shared.ports.clock.now();
        if let Some(task) = self.task(id) {
            task.drop_shards();
            task.takeover.pause(now);
        }
        self.retake(id, TaskState::Created);
    }

    /// Gives up what was done since the last commit, because this worker may not commit it any more. Under at-least-once
    /// what the producer still holds back must not reach the log either.
    pub(crate) fn give_up_interval(&mut self) {
        self.roll_back(if self.exactly_once() { Ending::Abort } else { Ending::Anew });
    }

    /// Forgets what is not committed and begins to end the transaction; [`Worker::continue_recovery`] goes on from there.
    fn roll_back(&mut self, ending: Ending) {
        self.shared.ports.metrics.add(Counter::RollbackTotal, Scope::Worker(self.number), 1);
        self.interval = 0;
        let ending = match ending {
            Ending::Anew => ending,
            _ if self.exactly_once() => ending,
            _ => Ending::Flush,
        };
        if self.recovery.is_none_or(|under_way| under_way.ending < ending) {
            self.recovery = Some(Recovery { ending, retry_at: Duration::ZERO });
        }
        for id in self.tasks.iter().map(|t| t.id).collect::<Vec<_>>() {
            self.retake(id, TaskState::Offsets);
        }
    }

    /// Sends a task back on its way of takeover.
    fn retake(&mut self, id: TaskId, to: TaskState) {
        let Some(task) = self.tasks.iter_mut().find(|t| t.id == id) else { return };
        if task.state() == TaskState::Created || task.state() == to || !task.state().may_become(to) {
            return;
        }
        let removed: Vec<_> = task.inputs.iter().map(|i| Change::Remove(i.source)).collect();
        task.forget_uncommitted();
        let restoring = task.takeover.abandon();
        // Removing what is not assigned is harmless, and a removal cannot fail for good: nothing is read any more.
        let removed = self.consumer.assign(&removed);
        let stopped: Vec<_> = restoring.iter().map(|s| Change::Remove(*s)).collect();
        let removed = removed.and(self.restore_consumer.assign(&stopped));
        if let Err(e) = removed {
            tracing::warn!(task = %id, "could not stop reading: {e}");
        }
        if let Some(task) = self.task(id)
            && let Err(e) = task.become_state(to)
        {
            tracing::error!("{}", e.chain());
        }
        self.index_sources();
    }

    /// Ends the transaction that was given up. False: not done yet.
    pub(crate) fn continue_recovery(&mut self) -> Result<bool> {
        let now = self.shared.ports.clock.now();
        let Some(Recovery { ending, retry_at }) = self.recovery else { return Ok(true) };
        if now < retry_at {
            return Ok(false);
        }
        // What is held back must not be written any more when the work may be another's by now.
        let ending = if ending == Ending::Flush && !self.shared.is_exclusive() { Ending::Anew } else { ending };
        match self.end_transaction(ending) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::ProducerFenced => return self.retry_recovery(Ending::Anew, &e),
            Err(e) if e.disposition() == Disposition::Shutdown => return Err(e),
            Err(e) => return self.retry_recovery(if ending == Ending::Abort { Ending::Init } else { ending }, &e),
        }
        self.recovery = None;
        let at = if ending == Ending::Init { FailPoint::OutcomeResolved } else { FailPoint::RollbackAborted };
        self.shared.pass(at)?;
        Ok(true)
    }

    fn retry_recovery(&mut self, ending: Ending, error: &Error) -> Result<bool> {
        tracing::debug!(worker = self.number, "tries again: {}", error.chain());
        self.recovery = Some(Recovery { ending, retry_at: self.shared.ports.clock.now() + PAUSE });
        Ok(false)
    }

    fn end_transaction(&mut self, ending: Ending) -> Result {
        match ending {
            Ending::Abort => self.collector.abort(),
            Ending::Init => self.collector.init(),
            Ending::Anew => {
                let mut collector: Collector = self.shared.collector(self.number)?;
                if self.exactly_once() {
                    collector.init()?;
                }
                let wall = self.shared.ports.clock.wall_ms();
                self.tasks.iter_mut().for_each(|t| t.reroute(&mut collector, wall));
                self.collector = collector;
                Ok(())
            }
            Ending::Flush => {
                match self.collector.flush() {
                    // A record that could not be written is not in the log: there is nothing to wait for.
                    Err(e) if e.kind() != ErrorKind::Record => return Err(e),
                    _ => self.collector.forget(),
                }
                Ok(())
            }
        }
    }
}
