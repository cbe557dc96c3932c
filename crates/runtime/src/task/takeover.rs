//! Taking a task over, in the five steps of D2: the generation, the committed offsets, the changelogs' ends, the restore,
//! and only then the first record.

use std::ops::Range;
use std::time::Duration;

use millpond_broker_api::{self as broker, Admin, At, Change, Source, Stable, TopicInfo};
use millpond_changelog::{
    self as changelog, Accepts, Changelog, CommitMetadata, Decided, Decision, LogRange, RebuildReason, Restore,
};
use millpond_store_api as store;
use millpond_topology::{StoreIndex, Topology};

use super::rollback::PAUSE;
use super::stores::TaskStores;
use super::{Input, Task, TaskId, TaskState};
use crate::error::{Disposition, Error, ErrorKind, Result};
use crate::exec::catch;
use crate::ports::{Bug, FailPoint};
use crate::settings::{Guarantee, OffsetReset, Settings};
use crate::state::{StateError, StateErrorKind};
use crate::worker::{PATIENCE, Worker};

/// A task's way to running.
#[derive(Debug, Default)]
pub(crate) struct Takeover {
    /// By shard.
    pub(crate) restores: Vec<Restore>,
    /// The sources of its changelogs, while they are read.
    sources: Vec<Source>,
    retry_at: Duration,
    /// The times that stand beside the committed offsets, of stores and nodes.
    marks: Vec<(String, i64)>,
    /// What it waits for, for those who ask.
    pub(crate) waiting: Option<String>,
}

impl Takeover {
    /// Tries the step again after a pause.
    pub(crate) fn pause(&mut self, now: Duration) {
        self.retry_at = now + PAUSE;
    }

    /// Gives the restore up; answers with the sources that are to be read no more.
    pub(crate) fn abandon(&mut self) -> Vec<Source> {
        self.restores.clear();
        std::mem::take(&mut self.sources)
    }
}

impl Worker {
    /// Moves every task that is not running one step on, those first that have waited longest. When a broker lets them wait,
    /// the others come later: running tasks go on in between. Answers whether any moved.
    pub(crate) fn take_over(&mut self) -> Result<bool> {
        if self.member.is_none() {
            return Ok(false);
        }
        let now = self.shared.ports.clock.now();
        let waiting = self.tasks.iter().filter(|t| !t.is_running() && t.takeover.retry_at <= now);
        let mut waiting: Vec<_> = waiting.map(|t| (t.takeover.retry_at, t.id)).collect();
        waiting.sort();
        let mut moved = false;
        for (_, id) in waiting {
            if self.shared.ports.clock.now().saturating_sub(now) >= PATIENCE {
                break;
            }
            match self.take_over_step(id) {
                Ok(step) => moved |= step,
                Err(e) if e.disposition() == Disposition::Shutdown => return Err(e),
                Err(e) => self.postpone(id, &e),
            }
        }
        Ok(moved)
    }

    /// Something failed that may succeed later; a shard that failed is opened anew then.
    pub(super) fn postpone(&mut self, id: TaskId, error: &Error) {
        let (now, why) = (self.shared.ports.clock.now(), error.chain());
        if self.task(id).is_some_and(|t| t.takeover.waiting.as_ref() != Some(&why)) {
            tracing::warn!(task = %id, "tries again until it succeeds: {why}");
        }
        if error.kind() == ErrorKind::Store {
            self.reopen(id);
        }
        if let Some(task) = self.task(id) {
            task.takeover.pause(now);
            task.takeover.waiting = Some(why);
        }
    }

    fn take_over_step(&mut self, id: TaskId) -> Result<bool> {
        let Some(state) = self.task(id).map(|t| t.state()) else { return Ok(false) };
        let _span = tracing::debug_span!("takeover", task = %id, state = state.name()).entered();
        match state {
            TaskState::Created => self.open(id),
            TaskState::Offsets => self.fetch_offsets(id),
            TaskState::Ends => self.plan_restore(id),
            TaskState::Restoring => self.finish_restore(id),
            TaskState::Running | TaskState::Closed => Ok(false),
        }
    }

    /// Step 1 is the generation, which the worker has. The shards are opened here, if no other worker has them.
    fn open(&mut self, id: TaskId) -> Result<bool> {
        self.shared.pass(FailPoint::TakeoverCreated)?;
        let shared = self.shared.clone();
        let Some(task) = self.task(id) else { return Ok(false) };
        if task.hold().is_none() {
            match shared.hold(id)? {
                Some(hold) => task.set_hold(hold),
                None => {
                    task.takeover.pause(shared.ports.clock.now());
                    task.takeover.waiting = Some("another worker still has the task".into());
                    return Ok(false);
                }
            }
        }
        if task.stores.is_none() {
            task.stores = Some(open_stores(&shared, task)?);
        }
        task.become_state(TaskState::Offsets)?;
        self.shared.pass(FailPoint::TakeoverOpened)?;
        Ok(true)
    }

    /// Step 2: where processing begins. An offset that a transaction may still change is waited for.
    fn fetch_offsets(&mut self, id: TaskId) -> Result<bool> {
        if self.recovery.is_some() {
            // Our own transaction is not over.
            return Ok(false);
        }
        let wait = self.shared.closing.patience();
        let Some(task) = self.tasks.iter_mut().find(|t| t.id == id) else { return Ok(false) };
        let of: Vec<(&str, i32)> = task.inputs.iter().map(|i| (&*i.topic, i.partition)).collect();
        let fetched = self.offsets.fetch_stable(&self.shared.group, &of, wait);
        let committed = match fetched.map_err(|e| Error::broker("fetch committed offsets", e).with("task", id))? {
            Stable::Offsets(committed) => committed,
            Stable::Unstable { topic, partition } => {
                task.takeover.pause(self.shared.ports.clock.now());
                task.takeover.waiting = Some(format!("an open transaction holds the offset of {topic}-{partition}"));
                return Ok(false);
            }
        };
        let (mut stream_time, mut marks) = (-1, Vec::new());
        for (input, committed) in task.inputs.iter_mut().zip(committed) {
            match committed {
                Some(committed) => {
                    let CommitMetadata { partition_time: time, processor } =
                        CommitMetadata::decode(&committed.metadata);
                    marks.extend(processor);
                    (input.next, input.partition_time) = (committed.next, time);
                    (input.committed, input.leader_epoch) = (Some(committed.next), committed.leader_epoch);
                    stream_time = stream_time.max(time);
                }
                None => {
                    input.next =
                        first_offset(&self.shared.settings, &mut *self.admin, id, task.stores.as_ref(), input)?;
                    (input.partition_time, input.committed, input.leader_epoch) = (-1, None, -1);
                }
            }
        }
        task.stream_time = stream_time;
        task.takeover.marks = marks;
        task.takeover.waiting = None;
        task.become_state(TaskState::Ends)?;
        self.shared.pass(FailPoint::TakeoverOffsets)?;
        Ok(true)
    }

    /// Step 3: the changelogs' log ends, read uncommitted, asked now that the generation and the offsets are known.
    fn plan_restore(&mut self, id: TaskId) -> Result<bool> {
        let wall = self.shared.ports.clock.wall_ms();
        let Some(task) = self.tasks.iter_mut().find(|t| t.id == id) else { return Ok(false) };
        let Some(stores) = task.stores.as_mut() else { return Ok(false) };
        let mut changelogs: Vec<Vec<(Changelog, LogRange)>> = stores.shards().iter().map(|_| Vec::new()).collect();
        // A source topic that has no partition for this task has nothing for its store either.
        let inputs = &task.inputs;
        let input = |topic: &str| inputs.iter().find(|i| *i.topic == *topic);
        let logged = || {
            let logged = stores.stores().iter().filter_map(|s| Some((s, s.plan.changelog.as_deref()?)));
            logged.filter(|(s, topic)| !s.plan.reuses_source || input(topic).is_some())
        };
        let topics: Vec<&str> = logged().map(|(_, topic)| topic).collect();
        let logs = log_ranges(&mut *self.admin, &topics, id.partition)?;
        for ((store, topic), mut log) in logged().zip(logs) {
            self.last_source += 1;
            let reused = Some(store.plan.index).filter(|_| store.plan.reuses_source);
            if let Some(input) = reused.and_then(|_| input(topic)) {
                // What lies beyond is processed, not restored; without a commit nothing was processed yet, wherever it begins.
                log.until = log.until.min(input.committed.unwrap_or(log.start));
            }
            let changelog = Changelog {
                source: Source(self.last_source),
                topic: topic.into(),
                partition: id.partition,
                store: store.plan.name.as_str().into(),
                rows: store.rows,
                format: store.plan.format,
                held: store.plan.keeps_expired(),
                accepts: reused.and_then(|store| accepts(&self.shared.topology, store)),
            };
            if let Some(shard) = changelogs.get_mut(store.shard) {
                shard.push((changelog, log));
            }
        }
        self.shared.pass(FailPoint::TakeoverEnds)?;
        let Some(task) = self.tasks.iter_mut().find(|t| t.id == id) else { return Ok(false) };
        let Some(stores) = task.stores.as_mut() else { return Ok(false) };
        let mut restores = Vec::new();
        for (shard, changelogs) in stores.shards_mut().iter_mut().zip(changelogs) {
            let mut restore = Restore::plan(&shard.metadata, changelogs, wall);
            for decided in restore.decisions() {
                let Decided { changelog, decision, .. } = decided;
                match decision {
                    Decision::Rebuild { why: RebuildReason::OtherTopic { .. }, .. } => {
                        return Err(Error::new(ErrorKind::Config, "restore a store")
                            .with("task", id)
                            .with("store", &changelog.store)
                            .with("topic", &changelog.topic)
                            .with("reason", "the topic was deleted and made anew since the local state was written")
                            .remedy(
                                "the local state was kept, and may be all there is: bring the topic back, or remove the \
                                 task's directory to begin with what the new topic holds",
                            ));
                    }
                    Decision::Rebuild { .. } => {
                        tracing::warn!(task = %id, store = %changelog.store, ?decision, "restore");
                    }
                    _ => tracing::info!(task = %id, store = %changelog.store, ?decision, "restore"),
                }
                self.shared.ports.observer.restore_planned(id, &decided);
            }
            let prepared = self.applier.prepare(&mut restore, &mut *shard.shard, &mut shard.metadata);
            prepared.map_err(|e| Error::store("prepare a restore", e).with("task", id))?;
            restores.push(restore);
        }
        let changes: Vec<Change<'_>> = restores.iter().flat_map(Restore::changes).collect();
        self.restore_consumer.assign(&changes).map_err(|e| Error::broker("read a changelog", e).with("task", id))?;
        let sources = restores.iter().flat_map(Restore::reading).collect();
        (task.takeover.restores, task.takeover.sources) = (restores, sources);
        task.become_state(TaskState::Restoring)?;
        self.index_sources();
        Ok(true)
    }

    /// Step 5: everything is in the shards. Makes the graph and begins to read.
    fn finish_restore(&mut self, id: TaskId) -> Result<bool> {
        let wall = self.shared.ports.clock.wall_ms();
        let Some(at) = self.tasks.iter().position(|t| t.id == id) else { return Ok(false) };
        let Some(task) = self.tasks.get_mut(at) else { return Ok(false) };
        if !task.takeover.restores.iter().all(Restore::has_arrived) {
            let waiting = task.takeover.restores.iter().flat_map(Restore::progress).find_map(|p| p.waiting);
            task.takeover.waiting = waiting.map(|w| w.to_string());
            return Ok(false);
        }
        let Some(stores) = task.stores.as_mut() else { return Ok(false) };
        for (shard, restore) in stores.shards_mut().iter_mut().zip(&mut task.takeover.restores) {
            let finished = self.applier.finish(restore, &mut *shard.shard, &mut shard.metadata);
            finished.map_err(|e| Error::store("finish a restore", e).with("task", id))?;
            shard.applied(self.shared.ports.clock.now());
        }
        if !self.shared.planted(Bug::TimesNotRestored) {
            stores.reset_times();
        }
        let committed = std::mem::take(&mut task.takeover.marks);
        stores.restore_released(&committed);
        if !self.shared.planted(Bug::NodeTimesNotRestored) {
            task.times.restore(&committed);
        }
        self.shared.pass(FailPoint::RestoreDone)?;
        let refused: u64 = task.takeover.restores.iter().flat_map(Restore::progress).map(|p| p.refused).sum();
        if refused > 0 {
            tracing::warn!(task = %id, refused, "left out records of a source topic that its table would drop");
        }
        task.takeover.abandon();
        task.takeover.waiting = None;
        task.build_graph(&self.shared.topology, wall)?;
        let changes: Vec<Change<'_>> = task
            .inputs
            .iter()
            .map(|i| Change::Add { source: i.source, topic: &i.topic, partition: i.partition, from: i.next })
            .collect();
        self.consumer.assign(&changes).map_err(|e| Error::broker("read a task's inputs", e).with("task", id))?;
        task.become_state(TaskState::Running)?;
        task.begin_reading(wall);
        self.shared.ports.observer.running(id);
        self.index_sources();
        Ok(true)
    }

    /// Notes where the records of each source go.
    pub(crate) fn index_sources(&mut self) {
        self.routes.clear();
        self.restores.clear();
        for (at, task) in self.tasks.iter().enumerate() {
            if task.is_running() {
                self.routes.extend(task.inputs.iter().enumerate().map(|(n, i)| (i.source, (at, n))));
            }
            for (n, restore) in task.takeover.restores.iter().enumerate() {
                self.restores.extend(restore.reading().map(|source| (source, (at, n))));
            }
        }
    }
}

/// What of a reused source topic are rows of the store. A serde that panics on a record has refused it.
fn accepts(topology: &Topology, store: StoreIndex) -> Option<Accepts> {
    let reused = topology.reused_topic(store)?.clone();
    Some(Accepts::new(move |key, value, timestamp| {
        let mut accepted = false;
        let asked = catch(|| {
            accepted = reused.accepts(key, value, timestamp);
            Ok(())
        });
        accepted && asked.is_ok()
    }))
}

/// Opens a task's shards; files that are damaged are set aside, and their stores restored from the start.
fn open_stores(shared: &crate::instance::Shared, task: &Task) -> Result<TaskStores> {
    let Some(plan) = task.sub_plan() else {
        return Err(Error::new(ErrorKind::Config, "open a task").with("task", task.id));
    };
    match TaskStores::open(
        &plan.stores,
        shared.shard_places(task.hold(), &plan.stores, false)?,
        task.id.partition,
        shared.memory.caching,
        &shared.memory.overlays,
    ) {
        Err(e) if is_damaged(&e) => {
            tracing::error!(task = %task.id, "sets damaged files aside: {}", e.chain());
            let anew = shared.shard_places(task.hold(), &plan.stores, true)?;
            TaskStores::open(&plan.stores, anew, task.id.partition, shared.memory.caching, &shared.memory.overlays)
        }
        opened => opened,
    }
    .map_err(|e| e.with("task", task.id))
}

/// Whether what lies in a shard's directory is not what was written there: its files, its metadata, its list of spaces.
fn is_damaged(error: &Error) -> bool {
    let Some(source) = std::error::Error::source(error) else { return false };
    source.downcast_ref::<store::Error>().is_some_and(|e| e.kind() == store::ErrorKind::Corrupt)
        || source.downcast_ref::<changelog::Error>().is_some_and(|e| e.kind() == changelog::ErrorKind::Corrupt)
        || source.downcast_ref::<StateError>().is_some_and(|e| e.kind() == StateErrorKind::Damaged)
}

/// Where to begin with an input that nothing was committed for.
fn first_offset(
    settings: &Settings,
    admin: &mut dyn Admin,
    task: TaskId,
    stores: Option<&TaskStores>,
    input: &Input,
) -> Result<i64> {
    let shards = stores.into_iter().flat_map(TaskStores::shards);
    let counted = shards.filter_map(|s| s.metadata.input(&input.topic, input.partition)).max();
    let log = input_log(admin, &input.topic, input.partition)?;
    if is_counted_again(counted, &log) {
        let error = offsets_are_gone(task, input, counted);
        match settings.guarantee {
            Guarantee::ExactlyOnce => return Err(error),
            // The first commit may have been cut off between the state and the offsets.
            Guarantee::AtLeastOnce => tracing::warn!("records may be counted again: {}", error.chain()),
        }
    }
    Ok(match input.reset.unwrap_or(settings.offset_reset) {
        OffsetReset::Earliest => log.start,
        OffsetReset::Latest => log.end,
    })
}

/// Whether what an input still holds may be in the state already, when nothing says how far it was counted. `counted` is where
/// the local state stood, which a changelog may know to be too low. A log that ends before that is another one of its name.
fn is_counted_again(counted: Option<i64>, log: &Range<i64>) -> bool {
    counted.is_some_and(|counted| counted <= log.end) && !log.is_empty()
}

/// The state has counted records of a partition, and the group has no offset for it.
fn offsets_are_gone(task: TaskId, input: &Input, counted: Option<i64>) -> Error {
    Error::new(ErrorKind::Config, "fetch committed offsets")
        .with("task", task)
        .with("topic", &input.topic)
        .with("partition", input.partition)
        .with("counted at least up to", counted.unwrap_or(0))
        .with("reason", "the group has no offset for an input that its state has counted")
        .remedy(
            "the offsets expired (`offsets.retention.minutes`) or were deleted: set the group's offset to where it is to go \
             on, or, to begin anew, remove the application's state directory and its changelogs",
        )
}

/// The offsets that a partition has, by two questions in one.
pub(crate) fn input_log(admin: &mut dyn Admin, topic: &str, partition: i32) -> Result<Range<i64>> {
    let failed = |e| Error::broker("ask for an offset", e).with("topic", topic).with("partition", partition);
    let answers = admin.offsets(&[(topic, partition, At::Start), (topic, partition, At::End)]).map_err(failed)?;
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Err(unanswered())).map_err(failed);
    Ok(next()?..next()?)
}

pub(crate) fn one_offset(admin: &mut dyn Admin, topic: &str, partition: i32, at: At) -> Result<i64> {
    let failed = |e| Error::broker("ask for an offset", e).with("topic", topic).with("partition", partition);
    let answers = admin.offsets(&[(topic, partition, at)]).map_err(failed)?;
    answers.into_iter().next().unwrap_or_else(|| Err(unanswered())).map_err(failed)
}

/// What the broker says of a changelog partition.
pub(super) fn log_range(admin: &mut dyn Admin, topic: &str, partition: i32) -> Result<LogRange> {
    let range = log_ranges(admin, &[topic], partition)?.pop();
    range.ok_or_else(|| Error::broker("describe a changelog", unanswered()).with("topic", topic))
}

/// The same of several changelogs, in their order, with two questions for all of them.
fn log_ranges(admin: &mut dyn Admin, topics: &[&str], partition: i32) -> Result<Vec<LogRange>> {
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |topic: &str, e| Error::broker("describe a changelog", e).with("topic", topic);
    let all = topics.join(", ");
    let infos = admin.describe(topics).map_err(|e| failed(&all, e))?;
    let places: Vec<_> = topics.iter().flat_map(|t| [(*t, partition, At::Start), (*t, partition, At::End)]).collect();
    let mut offsets = admin.offsets(&places).map_err(|e| failed(&all, e))?.into_iter();
    let mut next = |topic| offsets.next().unwrap_or_else(|| Err(unanswered())).map_err(|e| failed(topic, e));
    let mut ranges = Vec::new();
    for (topic, info) in topics.iter().zip(infos) {
        let info = info.ok_or_else(|| {
            Error::new(ErrorKind::Config, "describe a changelog").with("missing topic", topic).remedy(
                "the changelog was deleted while the application ran: restart it, and its state is restored from an empty \
                 changelog",
            )
        })?;
        let (start, end) = (next(topic)?, next(topic)?);
        ranges.push(LogRange { tombstones_kept_ms: tombstones_kept(&info), ..LogRange::whole(info.id, start, end) });
    }
    Ok(ranges)
}

/// A broker that leaves an answer out is asked again.
fn unanswered() -> broker::Error {
    broker::Error::new(broker::ErrorKind::Retriable, "list offsets")
}

/// For how long a compacted topic keeps tombstones: a shard that was away for longer may have missed deletes.
fn tombstones_kept(info: &TopicInfo) -> Option<i64> {
    const DEFAULT_MS: i64 = 86_400_000;
    let effective = || info.configs.iter().chain(&info.inherited);
    let config = |name: &str| effective().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let compacted = config("cleanup.policy").is_some_and(|policy| policy.contains("compact"));
    compacted.then(|| config("delete.retention.ms").and_then(|ms| ms.parse().ok()).unwrap_or(DEFAULT_MS))
}

#[cfg(test)]
mod tests {
    use millpond_changelog::ShardMetadata;

    use super::*;

    #[test]
    fn an_input_is_counted_again_if_its_records_may_be_in_the_state() {
        assert!(is_counted_again(Some(20), &(0..20)));
        assert!(is_counted_again(Some(20), &(0..50)));
        assert!(is_counted_again(Some(20), &(30..50)), "another instance may have gone on to 50");
        assert!(!is_counted_again(Some(20), &(0..10)), "a topic of that name that was made anew");
        assert!(!is_counted_again(Some(20), &(30..30)), "nothing is there to be counted");
        assert!(!is_counted_again(None, &(0..50)), "an input that is new");
    }

    #[test]
    fn tombstones_are_kept_for_as_long_as_topic_or_broker_say() {
        let pairs = |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let kept = |configs: &[(&str, &str)], inherited: &[(&str, &str)]| {
            let (configs, inherited) = (pairs(configs), pairs(inherited));
            tombstones_kept(&TopicInfo { name: "t".into(), id: 1, partitions: 1, configs, inherited })
        };
        let compact = ("cleanup.policy", "compact");
        assert_eq!(kept(&[("cleanup.policy", "delete")], &[("delete.retention.ms", "5")]), None);
        assert_eq!(kept(&[compact], &[]), Some(86_400_000));
        assert_eq!(kept(&[compact], &[("delete.retention.ms", "5")]), Some(5), "a broker's setting");
        assert_eq!(kept(&[compact, ("delete.retention.ms", "7")], &[("delete.retention.ms", "5")]), Some(7));
    }

    #[test]
    fn damage_is_told_from_what_a_later_version_wrote() {
        let metadata = |bytes: &[u8]| {
            let error = ShardMetadata::decode(bytes).unwrap_err();
            Error::new(ErrorKind::StateDir, "read a shard's metadata").caused_by(error)
        };
        assert!(is_damaged(&metadata(&[0])));
        assert!(!is_damaged(&metadata(&[9])));
        assert!(is_damaged(&StateError::new(StateErrorKind::Damaged, "read the list of spaces").into()));
        assert!(!is_damaged(&StateError::new(StateErrorKind::Locked, "lock task directory").into()));
        assert!(is_damaged(&Error::store("open a shard", store::Error::new(store::ErrorKind::Corrupt, "open shard"))));
        assert!(!is_damaged(&Error::store("open a shard", store::Error::new(store::ErrorKind::Full, "open shard"))));
    }
}
