//! The commit of a worker, start to end: drain, flush, log, apply, offsets (D2). One function for both guarantees.

use std::time::Duration;

use millpond_broker_api::{self as broker, At, CommitOutcome, GroupOffset};
use millpond_changelog::CommitMetadata;

use super::process::Processing;
use super::stores::TaskStores;
use super::{Input, Task, TaskId};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Counter, Gauge, Scope};
use crate::ports::{Bug, FailPoint};
use crate::worker::Worker;

/// How often the position of changelogs that are seldom written is moved on to their ends, so that it counts markers and
/// never falls behind the log's start.
const ADVANCE_INTERVAL: Duration = Duration::from_secs(60);

/// An input offset with the text that goes beside it, owned for the time of a commit.
struct Progress {
    task: usize,
    input: usize,
    metadata: String,
}

impl Worker {
    /// Whether anything happened since the last commit.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.collector.is_dirty() || self.tasks.iter().any(|t| t.is_running() && t.has_uncommitted())
    }

    /// Nothing happened: now and then the shards are told that, so that they do not seem to have been away, and do not fall
    /// behind their changelogs' starts.
    fn advance_idle(&mut self) -> Result {
        let now = self.shared.ports.clock.now();
        if now.saturating_sub(self.last_advance) < ADVANCE_INTERVAL || !self.shared.is_exclusive() {
            return Ok(());
        }
        self.apply_all()?;
        self.drop_expired();
        Ok(())
    }

    /// Commits all tasks of the worker. After an error nothing is known but what [`Worker::recover`] finds out.
    ///
    /// The order is that of D2, each step a named fail point: overlays are drained, which sends outputs and changes on their
    /// way; the producer is flushed; under exactly-once the transaction is committed with the offsets; each shard gets its
    /// batch with the offsets it stands for; under at-least-once the offsets are committed then. What has expired is let go of
    /// when all that is done.
    pub(crate) fn commit(&mut self) -> Result {
        self.note_input_positions();
        if !self.has_uncommitted() {
            return self.advance_idle();
        }
        let Some(mut member) = self.member.clone() else { return Ok(()) };
        if !self.exactly_once() && !self.shared.is_exclusive() {
            // What was done may be another's by now. It is kept: if the membership holds, it is committed later.
            return Ok(());
        }
        if self.shared.planted(Bug::NoFence) {
            (member.generation, member.member_id, member.instance_id) = (-1, "".into(), None);
        }
        let _span = tracing::debug_span!("commit", worker = self.number, generation = member.generation).entered();
        let began = self.shared.ports.clock.now();
        self.shared.pass(FailPoint::CommitStarted)?;
        self.drain_all()?;
        self.shared.pass(FailPoint::CommitDrained)?;
        self.collector.flush()?;
        self.shared.pass(FailPoint::CommitFlushed)?;
        let mut progress = self.progress();
        let skew = i64::from(self.shared.planted(Bug::OffsetOffByOne));
        if self.shared.planted(Bug::ApplyBeforeCommit) {
            self.apply_all()?;
        }
        if self.exactly_once() {
            let outcome = self.collector.commit(&member, &Self::group_offsets(&self.tasks, &progress, skew));
            self.conclude(outcome)?;
            self.shared.pass(FailPoint::CommitLogged)?;
        }
        self.apply_all()?;
        self.shared.pass(FailPoint::CommitApplied)?;
        let mut is_settled = true;
        if !self.exactly_once() {
            let wait = self.shared.closing.patience();
            let outcome = self.offsets.commit(&member, &Self::group_offsets(&self.tasks, &progress, skew), wait);
            is_settled = self.conclude_offsets(outcome)?;
            if !is_settled {
                progress.clear();
            }
            self.shared.pass(FailPoint::CommitOffsets)?;
        }
        self.committed(began, &progress);
        if is_settled {
            self.drop_expired();
        }
        Ok(())
    }

    /// Where nothing waits in a queue, the position covers markers behind the last record too.
    fn note_input_positions(&mut self) {
        for task in self.tasks.iter_mut().filter(|t| t.is_running()) {
            for input in task.inputs.iter_mut().filter(|i| i.queue.is_empty()) {
                if let Some(position) = self.consumer.position(input.source) {
                    input.next = input.next.max(position);
                }
            }
        }
    }

    fn drain_all(&mut self) -> Result {
        let shared = self.shared.clone();
        let mut cx = Processing::begin(&shared, &mut self.collector);
        for task in self.tasks.iter_mut().filter(|t| t.is_running()) {
            self.at_work = Some(task.id);
            task.drain(&mut cx)?;
        }
        Ok(())
    }

    /// The inputs that have moved on since the last commit. A transaction is fenced by the generation only if it carries
    /// offsets: if no input has moved on (a punctuation wrote), one is committed again as it is.
    fn progress(&self) -> Vec<Progress> {
        let running = || self.tasks.iter().enumerate().filter(|(_, t)| t.is_running());
        let inputs = || running().flat_map(|(task, t)| t.inputs.iter().enumerate().map(move |(n, i)| (task, n, i)));
        let of = |(task, input, i): (usize, usize, &Input)| {
            let processor = self.tasks.get(task).map(Task::marks).unwrap_or_default();
            let mut metadata = String::new();
            CommitMetadata { partition_time: i.partition_time, processor }.encode(&mut metadata);
            Progress { task, input, metadata }
        };
        // The times of a task stand beside each of its offsets: no one knows which will be read.
        let moved: Vec<bool> = self.tasks.iter().map(Task::has_new_marks).collect();
        let is_new = |task: usize, input: &Input| input.is_ahead() || moved.get(task) == Some(&true);
        let mut all: Vec<Progress> = inputs().filter(|(task, _, i)| is_new(*task, i)).map(of).collect();
        if all.is_empty() {
            all.extend(inputs().next().map(of));
        }
        all
    }

    fn group_offsets<'a>(tasks: &'a [Task], progress: &'a [Progress], skew: i64) -> Vec<GroupOffset<'a>> {
        let input = |p: &Progress| tasks.get(p.task).and_then(|t| t.inputs.get(p.input));
        let offset = |p: &'a Progress| {
            input(p).map(|i| GroupOffset {
                topic: &i.topic,
                partition: i.partition,
                next: i.next + skew,
                leader_epoch: i.leader_epoch,
                metadata: &p.metadata,
            })
        };
        progress.iter().filter_map(offset).collect()
    }

    /// What a transaction's end means for the worker.
    fn conclude(&mut self, outcome: CommitOutcome) -> Result {
        let op = "commit a transaction";
        let failed = match outcome {
            CommitOutcome::Committed => return Ok(()),
            // What another try would meet again.
            CommitOutcome::Aborted(e)
                if matches!(
                    e.kind(),
                    broker::ErrorKind::Refused | broker::ErrorKind::Fatal | broker::ErrorKind::UnknownTopic
                ) =>
            {
                Error::broker(op, e).with("group", &self.shared.group)
            }
            CommitOutcome::Aborted(e) => Error::new(ErrorKind::Aborted, op).caused_by(e),
            CommitOutcome::Fenced(e) => Error::broker(op, e),
            CommitOutcome::Unknown(e) => Error::new(ErrorKind::UnknownOutcome, op).caused_by(e),
        };
        self.shared.ports.metrics.add(Counter::CommitFailedTotal, Scope::Worker(self.number), 1);
        Err(failed)
    }

    /// What a plain commit's end means; answers whether the offsets are there. Those that did not get through are committed
    /// again with the next: offsets only grow, and what they cover is in the log and in the shards already.
    fn conclude_offsets(&mut self, outcome: CommitOutcome) -> Result<bool> {
        let op = "commit offsets";
        let passing = |e: &broker::Error| e.kind() == broker::ErrorKind::Retriable;
        match outcome {
            CommitOutcome::Committed => return Ok(true),
            CommitOutcome::Fenced(e) => return Err(Error::broker(op, e)),
            CommitOutcome::Aborted(e) | CommitOutcome::Unknown(e) if !passing(&e) => return Err(Error::broker(op, e)),
            CommitOutcome::Aborted(e) | CommitOutcome::Unknown(e) => {
                tracing::warn!("input offsets are committed with the next commit: {e}");
            }
        }
        self.shared.ports.metrics.add(Counter::CommitFailedTotal, Scope::Worker(self.number), 1);
        Ok(false)
    }

    /// Gives every shard its batch. A shard that fails is opened anew and restored; the interval is in the log already, so
    /// nothing is lost, and the other tasks go on.
    fn apply_all(&mut self) -> Result {
        let now = self.shared.ports.clock.now();
        let mut failed: Vec<(TaskId, Error)> = Vec::new();
        let advance = now.saturating_sub(self.last_advance) >= ADVANCE_INTERVAL;
        for at in 0..self.tasks.len() {
            let touched = |t: &&mut Task| t.is_running() && (advance || t.has_uncommitted());
            let Some(task) = self.tasks.get_mut(at).filter(touched) else { continue };
            let id = task.id;
            self.note_offsets(at, advance);
            match self.apply_task(at, now) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::Crashed => return Err(e),
                Err(e) => failed.push((id, e)),
            }
        }
        if advance {
            self.last_advance = now;
        }
        self.reopen_failed(failed);
        Ok(())
    }

    fn reopen_failed(&mut self, failed: Vec<(TaskId, Error)>) {
        for (id, error) in failed {
            tracing::error!(task = %id, "opens its shards anew: {}", error.chain());
            self.reopen(id);
        }
    }

    /// Lets go of rows that have expired by what is committed. Not before: a task that goes back has the time of its committed
    /// offsets again, while a file that an engine has deleted stays deleted.
    fn drop_expired(&mut self) {
        let first: fn(&mut dyn Iterator<Item = i64>) -> Option<i64> =
            if self.shared.planted(Bug::DroppedByLatestStore) { |times| times.max() } else { |times| times.min() };
        let mut failed = Vec::new();
        for task in self.tasks.iter_mut().filter(|t| t.is_running()) {
            let Some(Err(error)) = task.stores.as_mut().map(|stores| stores.drop_expired(first)) else { continue };
            failed.push((task.id, error.with("task", task.id)));
        }
        self.reopen_failed(failed);
    }

    fn apply_task(&mut self, at: usize, now: Duration) -> Result {
        let Some(task) = self.tasks.get_mut(at) else { return Ok(()) };
        let id = task.id;
        let _span = tracing::debug_span!("apply", task = %id).entered();
        let Some(stores) = task.stores.as_mut() else { return Ok(()) };
        for shard in 0..stores.shards().len() {
            stores.apply(shard, now).map_err(|e| e.with("task", id))?;
            if let Some(shard) = stores.shards().get(shard) {
                self.shared.ports.observer.applied(id, &shard.metadata);
            }
            self.shared.pass(FailPoint::CommitAppliedOne)?;
        }
        Ok(())
    }

    /// Writes the interval's next offsets and times into the metadata of a task's shards.
    ///
    /// A log's end that has to be asked for counts only if the work is still exclusively this instance's when the answer is
    /// there: later, what a successor wrote may lie before it. The position then stays where it was, and a restore from it
    /// reads again what the shard holds, which changes nothing.
    fn note_offsets(&mut self, at: usize, advance: bool) {
        let Some(task) = self.tasks.get(at) else { return };
        let shared = &self.shared;
        let own = |end: i64| shared.is_exclusive().then_some(end);
        let mut ends: Vec<Option<i64>> = Vec::new();
        for changelog in &task.routes.changelogs {
            let end = match changelog {
                None => None,
                Some(log) => match self.collector.next_offset(log.id, task.id.partition) {
                    Some(Some(next)) => Some(next),
                    // A report came without an offset: what was written ends where the log ends now. Without an answer the
                    // position stays where it was, and a restore reads the rest again.
                    asked if asked.is_some() || advance => {
                        end_of(&mut *self.admin, &log.topic, task.id.partition).ok().and_then(own)
                    }
                    _ => None,
                },
            };
            ends.push(end);
        }
        let wall = self.shared.ports.clock.wall_ms();
        if let Some(task) = self.tasks.get_mut(at) {
            task.note_offsets(&ends, wall);
        }
    }

    /// All of it is done, `progress` included.
    fn committed(&mut self, began: Duration, progress: &[Progress]) {
        for p in progress {
            let Some(task) = self.tasks.get_mut(p.task) else { continue };
            if let Some(input) = task.inputs.get_mut(p.input) {
                input.committed = Some(input.next);
            }
            task.marks_committed();
        }
        for task in self.tasks.iter_mut().filter(|t| t.is_running()) {
            (task.dirty, task.commit_requested) = (false, false);
            task.outbox.committed();
            task.tell_buffers(&*self.shared.ports.metrics);
        }
        self.collector.committed();
        self.interval = 0;
        let now = self.shared.ports.clock.now();
        self.last_commit = now;
        let metrics = &self.shared.ports.metrics;
        metrics.add(Counter::CommitTotal, Scope::Worker(self.number), 1);
        let micros = now.saturating_sub(began).as_micros() as u64;
        metrics.set(Gauge::CommitMicros, Scope::Worker(self.number), micros);
        tracing::debug!(micros, "committed");
    }
}

impl Task {
    /// Whether anything happened since the last commit.
    fn has_uncommitted(&self) -> bool {
        self.dirty || self.stores.as_ref().is_some_and(|s| s.is_dirty()) || self.inputs.iter().any(|i| i.is_ahead())
    }

    /// The times that are committed beside its offsets, with the names of their stores and nodes.
    fn marks(&self) -> Vec<(String, i64)> {
        let released = self.stores.iter().flat_map(|stores| stores.to_commit());
        released.chain(self.times.to_commit()).collect()
    }

    fn has_new_marks(&self) -> bool {
        self.times.have_changed() || self.stores.as_ref().is_some_and(TaskStores::has_released)
    }

    fn marks_committed(&mut self) {
        self.times.committed();
        if let Some(stores) = &mut self.stores {
            stores.released_committed();
        }
    }

    /// `ends`: by store, the next offset of its changelog, where it moved.
    fn note_offsets(&mut self, ends: &[Option<i64>], wall: i64) {
        self.routes.look_at(wall);
        let Some(stores) = self.stores.as_mut() else { return };
        let (stores, shards) = stores.parts_mut();
        for (store, end) in stores.iter_mut().zip(ends) {
            let Some(shard) = shards.get_mut(store.shard) else { continue };
            let expires = store.plan.retention.is_some();
            let observed = store.observe(self.stream_time);
            // A source topic that is the changelog as well: the store stands for what was processed of it.
            let input = self
                .inputs
                .iter()
                .find(|i| store.plan.reuses_source && store.plan.changelog.as_deref() == Some(&*i.topic));
            let end = input.map(|input| input.next).or(*end);
            if let (Some(topic), Some(end)) = (&store.plan.changelog, end) {
                shard.metadata.set_changelog(topic, 0, self.id.partition, end);
            }
            if end.is_some() || expires {
                shard.metadata.observe(&store.plan.name, observed);
            }
        }
        for shard in shards {
            for input in &self.inputs {
                shard.metadata.set_input(&input.topic, input.partition, input.next);
            }
            shard.metadata.written_ms = wall;
        }
    }
}

fn end_of(admin: &mut dyn broker::Admin, topic: &str, partition: i32) -> Result<i64> {
    super::takeover::one_offset(admin, topic, partition, At::End)
}
