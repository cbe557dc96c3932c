//! Restoring, the fourth step of a takeover: changelogs are read past the overlays, and decided anew where their starts move.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_broker_api::{self as broker, Change, Source};
use millpond_store_api as store;

use super::takeover::log_range;
use super::{TaskId, TaskState};
use crate::error::{Disposition, Error, Result};
use crate::metrics::{Counter, Gauge, Scope};
use crate::ports::{Bug, FailPoint};
use crate::worker::Worker;

impl Worker {
    /// Step 4: polls the changelogs and applies what comes, past the overlays, until every position is at its end. Answers
    /// whether there was anything.
    pub(crate) fn restore(&mut self, max_wait: Duration) -> Result<bool> {
        if !self.tasks.iter().any(|t| t.state() == TaskState::Restoring) {
            return Ok(false);
        }
        let batch = match self.restore_consumer.poll(max_wait) {
            Ok(batch) => batch,
            Err(e) if e.kind() == broker::ErrorKind::Retriable => return Ok(false),
            Err(e) => return Err(Error::broker("read changelogs", e)),
        };
        let busy = !batch.is_empty();
        let mut seen: BTreeMap<Source, i64> = BTreeMap::new();
        if self.shared.planted(Bug::RestoreEndsAtLastRecord) {
            seen.extend(batch.iter().map(|r| (r.source, r.offset + 1)));
        }
        let faults: Vec<(Source, broker::Error)> = batch.faults.to_vec();
        let mut failed = Vec::new();
        let mut polled = self.applier.batch(&batch);
        for task in self.tasks.iter_mut().filter(|t| busy && t.state() == TaskState::Restoring) {
            let _span = tracing::debug_span!("restore", task = %task.id).entered();
            let Some(stores) = task.stores.as_mut() else { continue };
            for (shard, restore) in stores.shards_mut().iter_mut().zip(&mut task.takeover.restores) {
                match polled.apply(restore, &mut *shard.shard, &mut shard.metadata) {
                    Ok(applied) if applied.records > 0 => {
                        shard.applied(self.shared.ports.clock.now());
                        let metrics = &self.shared.ports.metrics;
                        metrics.add(Counter::RestoreTotal, Scope::Task(task.id), applied.records);
                        metrics.add(Counter::RestoreBytesTotal, Scope::Task(task.id), applied.bytes);
                        self.shared.ports.observer.restored(task.id, applied.records);
                    }
                    Ok(_) => {}
                    // The other tasks' records of this batch still have to be applied: they are not lent again.
                    Err(e) => failed.push((task.id, restore_failed(task.id, e))),
                }
            }
        }
        if busy {
            self.shared.pass(FailPoint::RestoreApplied)?;
        }
        for (id, error) in failed {
            if error.disposition() == Disposition::Shutdown {
                return Err(error);
            }
            self.postpone(id, &error);
        }
        self.note_positions(&seen)?;
        for (source, error) in faults {
            self.replan(source, error)?;
        }
        Ok(busy)
    }

    /// The position, not the last record, says how far a changelog was read: markers and aborted records are never lent.
    fn note_positions(&mut self, seen: &BTreeMap<Source, i64>) -> Result {
        let by_records = self.shared.planted(Bug::RestoreEndsAtLastRecord);
        let mut arrived = Vec::new();
        for task in self.tasks.iter_mut().filter(|t| t.state() == TaskState::Restoring) {
            let mut remaining = 0;
            for restore in &mut task.takeover.restores {
                for source in restore.reading().collect::<Vec<_>>() {
                    // So that the progress can say that an open transaction is what it waits for.
                    if let Some(stable_end) = self.restore_consumer.known_end(source) {
                        restore.stable_end(source, stable_end);
                    }
                    let position = match by_records {
                        false => self.restore_consumer.position(source),
                        true => seen.get(&source).copied(),
                    };
                    if let Some(position) = position
                        && restore.reached(source, position)
                    {
                        arrived.push(Change::Remove(source));
                    }
                }
                remaining += restore.progress().map(|p| p.remaining()).sum::<u64>();
            }
            self.shared.ports.metrics.set(Gauge::RestoreRemaining, Scope::Task(task.id), remaining);
        }
        self.restore_consumer.assign(&arrived).map_err(|e| Error::broker("read changelogs", e))
    }

    /// A changelog's start has moved past the position: decided anew with the log as it is now.
    fn replan(&mut self, source: Source, error: broker::Error) -> Result {
        let Some(&(at, shard)) = self.restores.get(&source) else { return Ok(()) };
        if error.kind() != broker::ErrorKind::OutOfRange {
            return Err(Error::broker("read a changelog", error));
        }
        let Some(task) = self.tasks.get_mut(at) else { return Ok(()) };
        let (Some(restore), Some(stores)) = (task.takeover.restores.get_mut(shard), task.stores.as_mut()) else {
            return Ok(());
        };
        let Some((topic, partition)) =
            restore.progress().find(|p| p.source == source).map(|p| (p.topic.to_owned(), p.partition))
        else {
            return Ok(());
        };
        let log = log_range(&mut *self.admin, &topic, partition)?;
        let decision = restore.replan(source, log);
        tracing::warn!(task = %task.id, topic, partition, ?decision, "a changelog's start has moved on");
        let Some(shard) = stores.shards_mut().get_mut(shard) else { return Ok(()) };
        let prepared = self.applier.prepare(restore, &mut *shard.shard, &mut shard.metadata);
        let id = task.id;
        if let Err(e) = prepared {
            self.postpone(id, &Error::store("prepare a restore", e).with("task", id));
            return Ok(());
        }
        let changes: Vec<Change<'_>> =
            restore.changes().filter(|c| matches!(c, Change::Add { source: s, .. } if *s == source)).collect();
        self.restore_consumer.assign(&changes).map_err(|e| Error::broker("read a changelog", e))
    }
}

fn restore_failed(task: TaskId, error: store::Error) -> Error {
    let is_foreign = error.kind() == store::ErrorKind::Invalid;
    let error = Error::store("restore a shard", error).with("task", task);
    match is_foreign {
        true => error.remedy(
            "the changelog holds a record that its store cannot have written: give the store another name, or move the topic \
             out of the way and let the state begin anew",
        ),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millpond_broker_api::{Broker, NewTopic, Outgoing, ProducerOptions, Sent};
    use millpond_broker_mem::{EmbeddedBroker, ManualClock};
    use millpond_store_mem::MemEngine;
    use millpond_topology::{Consumed, Materialized, Topology, Utf8};

    use super::*;
    use crate::instance::{Instance, InstanceSpec};
    use crate::ports::Ports;
    use crate::settings::{Guarantee, Settings};

    fn topology() -> Topology {
        let mut builder = Topology::builder();
        let _ = builder.stream("in", Consumed::with(Utf8, Utf8)).group_by_key().count(Materialized::named("counts"));
        builder.build().unwrap()
    }

    #[test]
    fn a_restore_says_that_an_open_transaction_is_what_it_waits_for() {
        let clock = ManualClock::new();
        let broker = EmbeddedBroker::with_clock(clock.clone());
        let topic = NewTopic { name: "in", partitions: 1, replication: None, configs: &[] };
        broker.admin().unwrap().create_topics(&[topic]).unwrap().into_iter().for_each(|made| made.unwrap());
        let instance = Instance::new(InstanceSpec {
            settings: Settings { guarantee: Guarantee::ExactlyOnce, ..Settings::new("app") },
            topology: topology(),
            broker: Arc::new(broker.clone()),
            engines: vec![Arc::new(MemEngine::default())],
            ports: Ports { clock: Arc::new(clock.clone()), ..Ports::default() },
        });
        let (mut member, mut workers, ..) = instance.unwrap().into_parts();
        let worker = workers.first_mut().unwrap();

        let mut other = broker.producer(&ProducerOptions::transactional("other")).unwrap();
        other.init(Duration::ZERO).unwrap();
        let topic = other.topic("app-counts-changelog");
        let record = Outgoing {
            topic,
            partition: 0,
            timestamp: 0,
            key: Some(b"k"),
            value: Some(&[0; 16]),
            headers: &[],
            tag: 0,
        };
        assert_eq!(other.send(&record).unwrap(), Sent::Queued);
        assert_eq!(other.flush(Duration::ZERO).unwrap().outstanding, 0);

        let mut steps = |until: &dyn Fn(&Worker) -> bool| {
            let mut left = 400;
            while !until(worker) && left > 0 {
                member.step(Duration::ZERO).unwrap();
                worker.step(Duration::ZERO).unwrap();
                clock.advance(Duration::from_millis(20));
                left -= 1;
            }
            worker.tasks.iter().map(|t| (t.state(), t.takeover.waiting.clone())).collect::<Vec<_>>()
        };
        let said = steps(&|w| w.tasks.iter().any(|t| t.takeover.waiting.is_some()));
        assert!(
            matches!(said.as_slice(), [(TaskState::Restoring, Some(text))] if text.contains("an open transaction")),
            "{said:?}"
        );
        other.abort(Duration::ZERO).unwrap();
        assert_eq!(steps(&|w| w.tasks.iter().all(|t| t.is_running())), [(TaskState::Running, None)]);
    }
}
