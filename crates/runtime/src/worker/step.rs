//! One step of a worker: messages → takeover and restore → poll → process → punctuate → commit. Never waits but in its poll.

use std::sync::atomic::Ordering;
use std::time::Duration;

use millpond_broker_api::{self as broker, Change, Source};

use super::Worker;
use crate::error::{Error, ErrorKind, Result};
use crate::instance::Shared;
use crate::metrics::{Counter, Gauge, Scope};
use crate::output::Collector;
use crate::ports::FailPoint;
use crate::settings::OffsetReset;
use crate::task::process::Processing;
use crate::task::rollback::PAUSE;
use crate::task::takeover::input_log;
use crate::task::{Counts, Task, TaskState};

/// A rebalance that everybody takes part in at once takes less.
const QUICK_REBALANCE: Duration = Duration::from_millis(100);
/// Keys looked up ahead of their records.
const LOOK_AHEAD: usize = 32;

impl<'a> Processing<'a> {
    /// What the tasks of a worker process with, as of now.
    pub(crate) fn begin(shared: &'a Shared, collector: &'a mut Collector) -> Self {
        let clock = &shared.ports.clock;
        Self { shared, collector, now: clock.now(), wall: clock.wall_ms() }
    }
}

impl Worker {
    /// Makes one step; waits up to `max_wait` if there is nothing to do. Answers whether there was. What cannot be mended
    /// is an error: the application stops with it.
    pub(crate) fn step(&mut self, max_wait: Duration) -> Result<bool> {
        self.pulse.beat(self.shared.ports.clock.now());
        if self.stopped {
            return Ok(false);
        }
        if self.shared.closing.is_late_for_work() {
            self.abandon();
            return Ok(false);
        }
        if self.pulse.commit_asked.swap(false, Ordering::Relaxed) {
            self.commit_asked = true;
        }
        if self.pulse.given_away.swap(false, Ordering::Acquire) {
            self.give_up_interval();
            self.member = None;
        }
        match self.attend(max_wait) {
            Ok(busy) => Ok(busy),
            Err(e) if e.kind() == ErrorKind::Crashed => Err(e),
            Err(e) => self.recover(e).map(|()| true),
        }
    }

    fn attend(&mut self, max_wait: Duration) -> Result<bool> {
        self.receive()?;
        self.tell_pulse();
        if self.stopped {
            return Ok(false);
        }
        if !self.continue_recovery()? {
            // Nothing is assigned, so nothing comes: this only waits.
            self.poll(max_wait.min(PAUSE))?;
            return Ok(false);
        }
        self.work(max_wait)
    }

    fn work(&mut self, max_wait: Duration) -> Result<bool> {
        let moved = self.take_over()?;
        let restored = self.restore(if self.is_restoring_only() { max_wait } else { Duration::ZERO })?;
        let is_idle = !(moved || restored || self.made_progress);
        if is_idle && !self.is_paused() {
            // The client holds back what it can, to send more at once; now nothing more comes. What may be another's work by
            // now is not for the log.
            self.collector.push_out()?;
        }
        let wait = if is_idle { self.wait_for(max_wait) } else { Duration::ZERO };
        let polled = if self.is_backlogged() { false } else { self.poll(wait)? };
        let processed = self.process()?;
        self.made_progress = processed;
        if self.pulse.is_given_away() {
            // While a function of the user took its time. The next step gives the interval up, before any of it is written.
            return Ok(true);
        }
        self.punctuate()?;
        self.make_room()?;
        if self.is_commit_due() {
            self.commit_asked = false;
            self.commit()?;
            self.purge()?;
        }
        self.flush_shards()?;
        self.report();
        Ok(moved || restored || polled || processed)
    }

    /// Commits; what goes wrong is dealt with here. While something is being recovered there is nothing to commit. Answers
    /// whether all that was done is committed.
    pub(super) fn commit_or_recover(&mut self) -> Result<bool> {
        if self.recovery.is_some() {
            return Ok(true);
        }
        match self.commit() {
            Ok(()) => Ok(!self.has_uncommitted()),
            Err(e) if e.kind() == ErrorKind::Crashed => Err(e),
            Err(e) => self.recover(e).map(|()| false),
        }
    }

    fn is_restoring_only(&self) -> bool {
        self.tasks.iter().all(|t| t.state() == TaskState::Restoring) && !self.tasks.is_empty()
    }

    /// How long the poll may wait: not past a punctuation, the next commit, or the next attempt of a takeover.
    fn wait_for(&self, max_wait: Duration) -> Duration {
        let wall = self.shared.ports.clock.wall_ms();
        // What must not be done now is not waited for either.
        let idle = self.is_paused();
        let due = self.tasks.iter().filter_map(|t| t.next_punctuation()).min().filter(|_| !idle);
        let to_punctuation = due.map(|at| Duration::from_millis(at.saturating_sub(wall).max(0) as u64));
        let now = self.shared.ports.clock.now();
        let to_commit = (!idle && self.holding_since.is_none() && self.has_uncommitted())
            .then(|| (self.last_commit + self.shared.commit_interval).saturating_sub(now));
        let to_takeover = self.tasks.iter().any(|t| !t.is_running()).then_some(PAUSE);
        // Records wait for an earlier one that another input may still bring.
        let queued = self.tasks.iter().any(|t| t.inputs.iter().any(|i| !i.queue.is_empty()));
        let to_idle = queued.then_some(PAUSE / 10);
        let soonest = [to_punctuation, to_commit, to_takeover, to_idle].into_iter().flatten().min();
        soonest.map_or(max_wait, |t| t.min(max_wait))
    }

    /// Moves what the consumer has into the queues. Answers whether there was anything.
    fn poll(&mut self, max_wait: Duration) -> Result<bool> {
        self.pause_full()?;
        let batch = match self.consumer.poll(max_wait) {
            Ok(batch) => batch,
            Err(e) if e.kind() == broker::ErrorKind::Retriable => return Ok(false),
            Err(e) => return Err(Error::broker("read records", e)),
        };
        let busy = !batch.is_empty();
        let mut last = None;
        for record in batch.iter() {
            let (task, input) = match last {
                Some((source, place)) if source == record.source => place,
                _ => match self.routes.get(&record.source) {
                    Some(place) => *place,
                    // Of a task that was closed meanwhile.
                    None => continue,
                },
            };
            last = Some((record.source, (task, input)));
            if let Some(task) = self.tasks.get_mut(task) {
                task.enqueue(input, &record);
            }
        }
        let faults: Vec<(Source, broker::Error)> = batch.faults.to_vec();
        for (source, error) in faults {
            self.input_fault(source, error)?;
        }
        Ok(busy)
    }

    /// An input's position is not in the log. Cut by retention while nobody read it: it goes on where the log begins. Beyond
    /// the log's end, which was lost or is of another topic: as `auto.offset.reset` says. Both are told, since records are
    /// missing; what was fetched before is processed.
    fn input_fault(&mut self, source: Source, error: broker::Error) -> Result {
        let Some(&(task, input)) = self.routes.get(&source) else { return Ok(()) };
        let Some(input) = self.tasks.get_mut(task).and_then(|t| t.inputs.get_mut(input)) else { return Ok(()) };
        let (topic, partition) = (input.topic.clone(), input.partition);
        if error.kind() != broker::ErrorKind::OutOfRange {
            return Err(Error::broker("read an input", error).with("topic", topic).with("partition", partition));
        }
        let from = self.consumer.position(source).unwrap_or(input.next);
        let log = input_log(&mut *self.admin, &topic, partition)?;
        let to = match input.reset.unwrap_or(self.shared.settings.offset_reset) {
            OffsetReset::Latest if from >= log.start => log.end,
            _ => log.start,
        };
        tracing::error!(topic = &*topic, partition, from, to, "records are missing: the position is not in the log");
        if to < from {
            // What is queued belongs to a log that is no more.
            input.forget();
            (input.next, input.committed) = (to, None);
        }
        self.consumer.assign(&[Change::Seek(source, to)]).map_err(|e| Error::broker("read an input", e))
    }

    /// Whether processing has to wait. Under at-least-once nothing but the worker itself fences what it writes: so not
    /// between the commit before a rebalance and the new generation, and not when the work may be another's by now.
    /// Under exactly-once a worker waits for a rebalance that is quick, since what it does meanwhile is lost if one of its
    /// tasks goes elsewhere; and no longer.
    fn is_paused(&self) -> bool {
        if self.member.is_none() {
            return true;
        }
        if !self.exactly_once() {
            return self.holding_since.is_some() || !self.shared.is_exclusive();
        }
        let now = self.shared.ports.clock.now();
        self.holding_since.is_some_and(|since| now.saturating_sub(since) < QUICK_REBALANCE)
    }

    /// Whether some task has more records than it may, and works them off: so long nothing more is taken. To pause its
    /// inputs instead would throw away what was fetched ahead, again and again.
    fn is_backlogged(&self) -> bool {
        let limit = self.shared.settings.buffered_records;
        let is_full = |t: &Task| t.inputs.iter().any(|i| i.is_full(limit));
        !self.is_paused() && self.tasks.iter().any(|t| t.is_running() && t.progressed && is_full(t))
    }

    /// Pauses the full inputs of tasks that cannot go on, such as one that waits for another input.
    fn pause_full(&mut self) -> Result {
        let limit = self.shared.settings.buffered_records;
        let all = self.is_paused();
        let mut changes = Vec::new();
        for input in self.tasks.iter_mut().filter(|t| all || !t.progressed).flat_map(|t| &mut t.inputs) {
            if !input.paused && input.is_full(limit) {
                input.paused = true;
                changes.push(Change::Pause(input.source));
            }
        }
        self.change_inputs("pause a partition", &changes)
    }

    fn resume_drained(&mut self) -> Result {
        let limit = self.shared.settings.buffered_records;
        let mut changes = Vec::new();
        for input in self.tasks.iter_mut().flat_map(|t| &mut t.inputs) {
            if input.paused && input.is_drained(limit) {
                input.paused = false;
                changes.push(Change::Resume(input.source));
            }
        }
        self.change_inputs("resume a partition", &changes)
    }

    fn change_inputs(&mut self, op: &'static str, changes: &[Change<'_>]) -> Result {
        if changes.is_empty() {
            return Ok(());
        }
        self.consumer.assign(changes).map_err(|e| Error::broker(op, e))
    }

    /// Gives every running task a turn.
    fn process(&mut self) -> Result<bool> {
        if self.is_paused() {
            return Ok(false);
        }
        self.process_all().inspect_err(|error| self.commit_before(error))
    }

    /// If a record or punctuation fails, and the application stops with it, what was done before is whole (D14): it is committed,
    /// so that neither its task nor the others do it again. But not under exactly-once if what fails was held back: others were
    /// told of which were due with it, and would be told of again. Nobody has heard of them if the transaction is aborted.
    fn commit_before(&mut self, error: &Error) {
        if error.kind() == ErrorKind::Record
            && self.holding_since.is_none()
            && !(self.exactly_once() && self.tasks.iter().any(Task::is_letting_through))
            && let Err(e) = self.commit()
        {
            tracing::warn!(worker = self.number, "what was done since the last commit is given up: {}", e.chain());
        }
    }

    fn process_all(&mut self) -> Result<bool> {
        let shared = self.shared.clone();
        let most = self.collector.most_records();
        let mut cx = Processing::begin(&shared, &mut self.collector);
        let mut busy = false;
        // Where the last round was cut short, the tasks that had no turn come first.
        let first = std::mem::take(&mut self.first_turn).min(self.tasks.len());
        let (later, sooner) = self.tasks.split_at_mut(first);
        let turns = (first..).zip(sooner).chain((0..).zip(later));
        for (at, task) in turns.filter(|(_, t)| t.is_running()) {
            self.at_work = Some(task.id);
            let mut left = most.map_or(self.turn, |most| self.turn.min(most.saturating_sub(self.interval)));
            task.progressed = false;
            while left > 0 {
                task.look_ahead(&cx.shared.topology, LOOK_AHEAD)?;
                let done = task.process(&mut cx, &*self.consumer, LOOK_AHEAD.min(left))?;
                self.interval += done;
                busy |= done > 0;
                task.progressed |= done > 0;
                left -= done.min(left);
                if done < LOOK_AHEAD || shared.memory.overlays.is_tight() {
                    break;
                }
            }
            busy |= task.delete_expired(&mut cx)?;
            // What a round of turns writes may be many times what there is memory for.
            let is_full = most.is_some_and(|most| self.interval >= most);
            if task.progressed && (is_full || shared.memory.overlays.is_tight()) {
                self.first_turn = at + 1;
                break;
            }
        }
        if busy {
            self.resume_drained()?;
        }
        Ok(busy)
    }

    /// Calls the punctuations of the wall clock that are due.
    fn punctuate(&mut self) -> Result {
        if self.is_paused() {
            return Ok(());
        }
        self.punctuate_all().inspect_err(|error| self.commit_before(error))
    }

    fn punctuate_all(&mut self) -> Result {
        let shared = self.shared.clone();
        let mut cx = Processing::begin(&shared, &mut self.collector);
        let wall = cx.wall;
        for task in self.tasks.iter_mut().filter(|t| t.is_punctuation_due(wall)) {
            self.at_work = Some(task.id);
            task.punctuate_wall_clock(&mut cx, &*self.consumer)?;
        }
        Ok(())
    }

    /// Keeps the overlays within their budget: clean entries go first, then the oldest pending ones are drained, without a
    /// commit; too much that is logged asks for a commit.
    fn make_room(&mut self) -> Result {
        if self.shared.memory.overlays.over_uncommitted() && !self.commit_asked {
            self.commit_asked = true;
            self.shared.ports.metrics.add(Counter::EarlyCommitTotal, Scope::Worker(self.number), 1);
        }
        let Some(excess) = self.shared.memory.overlays.excess() else { return Ok(()) };
        let shared = self.shared.clone();
        let mut cx = Processing::begin(&shared, &mut self.collector);
        for task in self.tasks.iter_mut().filter(|t| t.is_running()) {
            self.at_work = Some(task.id);
            task.make_room(&mut cx, excess)?;
        }
        Ok(())
    }

    fn is_commit_due(&self) -> bool {
        if self.holding_since.is_some() || self.is_paused() || self.recovery.is_some() {
            return false;
        }
        let now = self.shared.ports.clock.now();
        self.commit_asked
            || self.collector.most_records().is_some_and(|most| self.interval >= most)
            || self.tasks.iter().any(|t| t.commit_requested)
            || now.saturating_sub(self.last_commit) >= self.shared.commit_interval
    }

    /// Deletes what was processed from repartition topics, now and then.
    fn purge(&mut self) -> Result {
        let now = self.shared.ports.clock.now();
        if now.saturating_sub(self.last_purge) < self.shared.settings.purge_interval {
            return Ok(());
        }
        self.last_purge = now;
        let inputs = self.tasks.iter().filter(|t| t.is_running()).flat_map(|t| &t.inputs).filter(|i| i.internal);
        let below: Vec<_> = inputs.filter_map(|i| i.committed.map(|o| (&*i.topic, i.partition, o))).collect();
        if below.is_empty() {
            return Ok(());
        }
        // What is not deleted now is deleted the next time.
        match self.admin.delete_records(&below) {
            Ok(answers) => {
                for ((topic, partition, _), error) in below.iter().zip(answers).filter_map(|(b, a)| Some((b, a.err()?)))
                {
                    tracing::warn!(topic, partition, "could not purge a repartition topic: {error}");
                }
            }
            Err(e) => tracing::warn!("could not purge repartition topics: {e}"),
        }
        Ok(())
    }

    fn flush_shards(&mut self) -> Result {
        let (now, interval) = (self.shared.ports.clock.now(), self.shared.settings.flush_interval);
        let mut failed = Vec::new();
        for task in self.tasks.iter_mut().filter(|t| t.is_running() || t.state() == TaskState::Restoring) {
            for shard in task.stores.iter_mut().flat_map(|s| s.shards_mut()) {
                match shard.flush_if_due(now, interval) {
                    Ok(false) => {}
                    Ok(true) => {
                        self.shared.ports.observer.flushing(task.id);
                        self.shared.pass(FailPoint::ShardFlushed)?;
                    }
                    Err(e) => failed.push((task.id, e)),
                }
                match shard.take_durable() {
                    Ok(None) => {}
                    Ok(Some(durable)) => self.shared.ports.observer.durable(task.id, &durable),
                    Err(e) => failed.push((task.id, e)),
                }
            }
        }
        if let Some((id, e)) = failed.into_iter().next() {
            // The interval that is not committed goes with the task's overlay, so its transaction cannot be kept either.
            self.at_work = Some(id);
            return Err(e.with("task", id));
        }
        Ok(())
    }

    /// Hands counts to the metrics.
    fn report(&mut self) {
        let metrics = &self.shared.ports.metrics;
        for task in &mut self.tasks {
            let (mut counts, queued) = (std::mem::take(&mut task.counts), task.queued_bytes());
            let scope = Scope::Task(task.id);
            report_not_kept(task, &self.shared);
            counts.dropped += task.drops.take(&mut |node, why, n| {
                metrics.add(Counter::DroppedByNodeTotal, Scope::Node { task: task.id, node, why }, n);
            });
            if queued != std::mem::replace(&mut task.queued_told, queued) {
                metrics.set(Gauge::InputBufferBytes, scope, queued as u64);
            }
            if counts == Counts::default() {
                continue;
            }
            if counts.dropped > 0 && !std::mem::replace(&mut task.told_of_drops, true) {
                tracing::warn!(
                    task = %task.id,
                    records = counts.dropped,
                    "drops records: without a key or a value (wrap the serde in `Nullable` to get them), with a negative time, or \
                     too late for their window; from now on `dropped-records-total` alone counts them, and \
                     `dropped-records-by-node-total` where and why"
                );
            }
            for (counter, n) in [
                (Counter::ProcessTotal, counts.processed),
                (Counter::DroppedRecordsTotal, counts.dropped),
                (Counter::DroppedMarkersTotal, counts.markers),
                (Counter::PunctuateTotal, counts.punctuated),
                (Counter::CacheEvictedTotal, counts.evicted),
            ] {
                if n > 0 {
                    metrics.add(counter, scope, n);
                }
            }
        }
        self.shared.memory.report(self.shared.ports.clock.now(), &**metrics);
    }
}

/// Counts what changelogs do not keep; that it happens to a store is said once.
fn report_not_kept(task: &mut Task, shared: &Shared) {
    for log in task.routes.changelogs.iter_mut().flatten() {
        let records = log.take_not_kept();
        if records == 0 {
            continue;
        }
        shared.ports.metrics.add(Counter::ChangelogNotKeptTotal, Scope::Task(task.id), records);
        if shared.is_first_not_kept(&log.topic) {
            tracing::warn!(
                task = %task.id,
                topic = log.topic,
                records,
                "its records are older than the broker keeps them there, so a restore may lack them; set \
                 `windowstore.changelog.additional.retention.ms` higher than the age of the events that are read; from now on \
                 `changelog-not-kept-records-total` alone counts them"
            );
        }
    }
}
