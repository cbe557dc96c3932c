//! Tasks: a sub-topology's graph over one partition, with its queues, stores, timers and times.

pub(crate) mod commit;
mod drops;
mod id;
mod input;
mod let_through;
mod lifecycle;
pub(crate) mod locks;
mod mark;
mod nothing;
pub(crate) mod process;
pub(crate) mod punctuate;
mod queue;
mod restore;
pub(crate) mod rollback;
mod settle;
pub(crate) mod stores;
pub(crate) mod takeover;
mod times;
mod upkeep;

use std::sync::Arc;

use millpond_changelog::{Cut, CutKind};
use millpond_topology::{self as topology, StoreIndex, TaskGraph};

use crate::error::{Error, ErrorKind, Result};
use crate::exec::{ChangelogRoute, Outbox, Routes, SinkRoute};
use crate::instance::Shared;
use crate::output::Collector;
use crate::plan::{Plan, SubPlan};
use crate::state::DrainedEntry;

pub(crate) use drops::Drops;
pub use id::TaskId;
pub(crate) use input::Input;
pub use lifecycle::TaskState;
use locks::TaskHold;
pub(crate) use process::headers_of;
use punctuate::Timers;
use settle::Retry;
use stores::TaskStores;
use takeover::Takeover;
pub(crate) use times::NodeTimes;

/// What a task has counted since the last time somebody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) processed: u64,
    pub(crate) dropped: u64,
    pub(crate) markers: u64,
    pub(crate) punctuated: u64,
    pub(crate) evicted: u64,
}

/// A task on a worker. A worker owns it from creation to close.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    plan: Arc<Plan>,
    state: TaskState,
    /// Kept as long as the shards may be open: no other worker of this process opens them.
    hold: Option<TaskHold>,
    pub(crate) inputs: Vec<Input>,
    pub(crate) stores: Option<TaskStores>,
    graph: Option<TaskGraph>,
    timers: Timers,
    outbox: Outbox,
    pub(crate) routes: Routes,
    drained: DrainedEntry,
    /// The row that a node lets through, or has let through last.
    held: DrainedEntry,
    /// Rows are being let through: some of a look's final results are told of and some are not.
    letting_through: bool,
    times: NodeTimes,
    /// Where a changelog's key is written; kept for its memory.
    log_key: Vec<u8>,
    /// Where the key of an update out of a cache is written as in a topic.
    row_key: Vec<u8>,
    pub(crate) takeover: Takeover,
    /// The largest event time seen; -1 before the first record.
    pub(crate) stream_time: i64,
    /// The record that is to be tried again.
    retry: Option<Retry>,
    /// A processor has asked for a commit.
    pub(crate) commit_requested: bool,
    /// Something happened since the last commit that it has to cover.
    pub(crate) dirty: bool,
    /// Whether its last turn has processed anything.
    pub(crate) progressed: bool,
    pub(crate) counts: Counts,
    /// What its nodes have dropped on purpose, since the last time somebody asked.
    pub(crate) drops: Drops,
    /// When it last had something to read, or began to run (wall clock, milliseconds since 1970).
    read_at: i64,
    /// Since when it has had nothing to read, for the time of a punctuation.
    idle_since: Option<i64>,
    /// That records are dropped was said: it is the metrics' to say how many.
    pub(crate) told_of_drops: bool,
    /// What the metrics were told of the queues last.
    pub(crate) queued_told: usize,
}

impl Task {
    pub(crate) fn new(id: TaskId, shared: &Shared, collector: &mut Collector, next_source: &mut u32) -> Result<Self> {
        let (plan, queues) = (&shared.plan, &shared.memory.queues);
        let unknown = || Error::new(ErrorKind::Config, "make a task").with("unknown task", id);
        let sub = plan.sub(id).ok_or_else(unknown)?;
        let mut inputs = Vec::new();
        for input in sub.inputs.iter().filter(|i| id.partition < i.partitions) {
            *next_source += 1;
            inputs.push(Input::new(input, id.partition, *next_source, queues));
        }
        let routes = routes(id, sub, plan.position_headers, collector);
        Ok(Self {
            id,
            plan: Arc::clone(plan),
            state: TaskState::Created,
            hold: None,
            inputs,
            stores: None,
            graph: None,
            timers: Timers::default(),
            outbox: Outbox::new(Arc::clone(&shared.met)),
            routes,
            drained: DrainedEntry::default(),
            held: DrainedEntry::default(),
            letting_through: false,
            times: NodeTimes::new(&sub.timed),
            log_key: Vec::new(),
            row_key: Vec::new(),
            takeover: Takeover::default(),
            stream_time: -1,
            retry: None,
            commit_requested: false,
            dirty: false,
            progressed: true,
            counts: Counts::default(),
            drops: Drops::default(),
            read_at: 0,
            idle_since: None,
            told_of_drops: false,
            queued_told: 0,
        })
    }

    pub(crate) fn state(&self) -> TaskState {
        self.state
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state == TaskState::Running
    }

    /// Bytes of the records that wait.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.inputs.iter().map(|i| i.queue.bytes()).sum()
    }

    pub(crate) fn sub_plan(&self) -> Option<&SubPlan> {
        self.plan.sub(self.id)
    }

    /// The right to open its shards, kept until they are closed.
    pub(crate) fn set_hold(&mut self, hold: TaskHold) {
        self.hold = Some(hold);
    }

    pub(crate) fn hold(&self) -> Option<&TaskHold> {
        self.hold.as_ref()
    }

    /// Moves on; an illegal move is an error of ours, and stops the application rather than going on in the dark.
    pub(crate) fn become_state(&mut self, next: TaskState) -> Result {
        if !self.state.may_become(next) {
            return Err(Error::new(ErrorKind::Fatal, "move a task on")
                .with("task", self.id)
                .with("from", self.state.name())
                .with("to", next.name()));
        }
        tracing::debug!(task = %self.id, from = self.state.name(), to = next.name(), "task");
        self.state = next;
        Ok(())
    }

    /// A new producer numbers topics anew.
    pub(crate) fn reroute(&mut self, collector: &mut Collector, wall: i64) {
        if let Some(sub) = self.plan.sub(self.id) {
            self.routes = routes(self.id, sub, self.plan.position_headers, collector);
            self.routes.look_at(wall);
            self.note_position(None);
        }
    }

    /// Gives up what is not committed, with the graph, whose processors may have seen it; the shards stay open.
    pub(crate) fn forget_uncommitted(&mut self) {
        self.graph = None;
        self.timers.clear();
        self.outbox.forget();
        self.inputs.iter_mut().for_each(Input::forget);
        if let Some(stores) = &mut self.stores {
            stores.forget();
        }
        self.times = self.plan.sub(self.id).map(|sub| NodeTimes::new(&sub.timed)).unwrap_or_default();
        (self.commit_requested, self.dirty, self.retry, self.letting_through) = (false, false, None, false);
    }

    /// Closes the shards, which flush, and lets the next owner open them. What is not committed is given up.
    pub(crate) fn close(&mut self) -> Result {
        self.forget_uncommitted();
        let closed = self.stores.take().map_or(Ok(()), TaskStores::close);
        self.hold = None;
        self.become_state(TaskState::Closed)?;
        closed.map_err(|e| e.with("task", self.id))
    }

    /// Drops the shards as a crash would, so that they are opened again at what was durable.
    pub(crate) fn drop_shards(&mut self) {
        self.forget_uncommitted();
        self.stores = None;
    }
}

fn routes(id: TaskId, sub: &SubPlan, has_positions: bool, collector: &mut Collector) -> Routes {
    let sinks = sub.sinks.iter().map(|s| s.sink.0 as usize + 1).max().unwrap_or(0);
    let mut routes = Routes {
        sinks: vec![None; sinks],
        choosing: sub.choosing.clone(),
        changelogs: Vec::new(),
        partition: id.partition,
        cut: Cut { sub_topology: id.sub_topology, partition: id.partition.unsigned_abs(), ..Cut::default() }
            .encode(CutKind::Tag),
        position: has_positions.then(Vec::new),
    };
    for sink in &sub.sinks {
        let route = SinkRoute {
            node: sink.node.clone(),
            topic: sink.topic.clone(),
            id: collector.topic(&sink.topic),
            partitions: sink.partitions,
            tagged: sink.internal,
        };
        if let Some(slot) = routes.sinks.get_mut(sink.sink.0 as usize) {
            *slot = Some(Arc::new(route));
        }
    }
    for store in &sub.stores {
        let route = |topic: &String| ChangelogRoute::new(topic.clone(), collector.topic(topic), store.changelog_keeps);
        routes.changelogs.push(store.changelog.as_ref().filter(|_| !store.reuses_source).map(route));
    }
    routes
}

/// The error for a store handle that is not of the task.
#[cold]
pub(crate) fn foreign_store(store: StoreIndex) -> topology::Error {
    topology::Error::new(topology::ErrorKind::Topology, "use a store")
        .with("store number", store.0)
        .with("reason", "it is not a store of this task: was its handle made by another topology?")
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("id", &self.id).field("state", &self.state).finish_non_exhaustive()
    }
}
