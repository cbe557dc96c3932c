//! The messages of the group member, and what they change about a worker's tasks.

use std::collections::BTreeSet;
use std::sync::mpsc::TryRecvError;

use millpond_broker_api::{Change, Member};

use super::{ToMember, ToWorker, Worker};
use crate::error::{Error, Result};
use crate::metrics::{Counter, Gauge, Scope};
use crate::ports::FailPoint;
use crate::task::{Task, TaskId, TaskState};

impl Worker {
    /// Takes what the member has said since the last step. A member that is gone without a word has panicked.
    pub(super) fn receive(&mut self) -> Result {
        let mut messages = Vec::new();
        let gone = loop {
            match self.inbox.try_recv() {
                Ok(message) => messages.push(message),
                Err(e) => break e == TryRecvError::Disconnected,
            }
        };
        let decided = messages.iter().rposition(|m| matches!(m, ToWorker::Assign { .. } | ToWorker::Lost));
        for (at, message) in messages.into_iter().enumerate() {
            match message {
                // The rebalance is over already: what was not committed for it is another's by now.
                ToWorker::Prepare if decided.is_some_and(|later| at < later) => self.give_up_interval(),
                ToWorker::Prepare => self.prepare()?,
                ToWorker::Assign { member, tasks } => self.assign(member, &tasks)?,
                ToWorker::Lost => self.lose()?,
                ToWorker::Stop => self.stop()?,
            }
        }
        if gone && !self.stopped { self.stop() } else { Ok(()) }
    }

    /// A rebalance was announced: commits with the old generation for the last time. If that fails there is nothing left
    /// that would have to be committed.
    fn prepare(&mut self) -> Result {
        self.commit_or_recover()?;
        self.holding_since = Some(self.shared.ports.clock.now());
        self.tell(ToMember::Committed { worker: self.number });
        Ok(())
    }

    /// Takes a new set of tasks, between two commits. What was done since the last commit for tasks that go away cannot be
    /// committed by this worker any more, and shares a transaction with the rest: all of it is given up.
    fn assign(&mut self, member: Member, tasks: &BTreeSet<TaskId>) -> Result {
        let revoked: Vec<TaskId> = self.tasks.iter().map(|t| t.id).filter(|id| !tasks.contains(id)).collect();
        let running = |t: &&Task| t.is_running() && revoked.contains(&t.id);
        if self.tasks.iter().any(|t| running(&t)) && self.has_uncommitted() {
            self.give_up_interval();
        }
        revoked.iter().try_for_each(|id| self.close_task(*id))?;
        let generation = member.generation;
        self.member = Some(member);
        self.holding_since = None;
        for id in tasks {
            if self.task(*id).is_none() {
                let task = Task::new(*id, &self.shared, &mut self.collector, &mut self.last_source)?;
                self.tasks.push(task);
                self.shared.ports.metrics.add(Counter::TaskCreatedTotal, Scope::Task(*id), 1);
            }
        }
        self.tasks.sort_by_key(|t| t.id);
        self.index_sources();
        self.shared.ports.metrics.set(Gauge::Tasks, Scope::Worker(self.number), self.tasks.len() as u64);
        self.tell(ToMember::Acknowledged { worker: self.number, generation });
        Ok(())
    }

    /// The membership is gone: others may own the tasks by now.
    fn lose(&mut self) -> Result {
        self.give_up_interval();
        self.member = None;
        self.holding_since = None;
        self.close_all()
    }

    /// Commits and closes. What could not be committed is done again by the next owner.
    fn stop(&mut self) -> Result {
        let committed = self.commit_or_recover()?;
        if self.exactly_once() && self.collector.is_dirty() {
            self.give_up_interval();
        }
        // A transaction that is left open holds its readers back until its timeout.
        let ended = self.recovery.is_none() || (self.exactly_once() && self.continue_recovery()?);
        if !(committed && ended) {
            self.shared.closing.fall_short();
        }
        self.close_all()?;
        self.stopped = true;
        self.tell(ToMember::Stopped { worker: self.number });
        Ok(())
    }

    /// The application has failed, or has no time left: gives up what is not committed, closes everything, does nothing
    /// more. Its transaction is ended by its timeout, or by the next start.
    pub(crate) fn abandon(&mut self) {
        self.shared.closing.fall_short();
        if self.exactly_once() && self.collector.abort().is_err() {
            tracing::warn!(worker = self.number, "could not abort its transaction: the broker does after its timeout");
        }
        while let Some(mut task) = self.tasks.pop() {
            if let Err(e) = task.close() {
                tracing::warn!("{}", e.chain());
            }
        }
        self.stopped = true;
        self.tell(ToMember::Stopped { worker: self.number });
    }

    fn close_all(&mut self) -> Result {
        let all: Vec<TaskId> = self.tasks.iter().map(|t| t.id).collect();
        all.into_iter().try_for_each(|id| self.close_task(id))
    }

    /// Closes a task's shards at what is committed, and stops reading for it. That its flush failed is no loss: the next
    /// owner restores a little more.
    fn close_task(&mut self, id: TaskId) -> Result {
        let Some(at) = self.tasks.iter().position(|t| t.id == id) else { return Ok(()) };
        let mut task = self.tasks.remove(at);
        let removed = |e| Error::broker("stop reading", e).with("task", id);
        if task.state() == TaskState::Running {
            let inputs: Vec<_> = task.inputs.iter().map(|i| Change::Remove(i.source)).collect();
            self.consumer.assign(&inputs).map_err(removed)?;
        }
        let restoring: Vec<_> = task.takeover.abandon().into_iter().map(Change::Remove).collect();
        self.restore_consumer.assign(&restoring).map_err(removed)?;
        if let Err(e) = task.close() {
            tracing::warn!("{}", e.chain());
        }
        self.shared.ports.metrics.add(Counter::TaskClosedTotal, Scope::Task(id), 1);
        self.index_sources();
        self.shared.pass(FailPoint::TaskClosed)
    }
}
