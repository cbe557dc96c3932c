//! The metrics port: counters and gauges by enum, with Kafka Streams' names; exporters come on top.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use millpond_topology::{Dropped, NodeIndex, StoreIndex};

use crate::handler::{Decision, ErrorStage};
use crate::task::TaskId;

macro_rules! metrics {
    ($(#[doc = $enum_doc:literal])* $enum:ident { $($(#[doc = $doc:literal])* $variant:ident => $name:literal),* $(,)? }) => {
        $(#[doc = $enum_doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $enum { $($(#[doc = $doc])* $variant),* }

        impl $enum {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The metric's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

metrics! {
    /// What is counted.
    Counter {
        /// Records that a task has processed.
        ProcessTotal => "process-total",
        /// Records dropped on purpose: null keys or values, negative times, skipped by an error handler; and puts that a store refused
        /// because they had expired, each one.
        DroppedRecordsTotal => "dropped-records-total",
        /// Of these, what nodes of a graph have dropped: by node and reason. Kafka Streams has no such metric.
        DroppedByNodeTotal => "dropped-records-by-node-total",
        /// Markers and records of unknown kind that readers of repartition topics have dropped.
        DroppedMarkersTotal => "dropped-markers-total",
        /// Punctuations.
        PunctuateTotal => "punctuate-total",
        /// Commits of a worker.
        CommitTotal => "commit-total",
        /// Commits that ended aborted, fenced or unknown.
        CommitFailedTotal => "commit-failed-total",
        /// Rollbacks of a worker.
        RollbackTotal => "rollback-total",
        /// Tasks made.
        TaskCreatedTotal => "task-created-total",
        /// Tasks closed.
        TaskClosedTotal => "task-closed-total",
        /// Records read from changelogs into shards.
        RestoreTotal => "restore-total",
        /// Bytes read from changelogs into shards.
        RestoreBytesTotal => "restore-bytes-total",
        /// Records written to changelogs whose brokers need not keep them, since they are older than the topic's retention: events of
        /// long ago were read. Kafka Streams has no such metric.
        ChangelogNotKeptTotal => "changelog-not-kept-records-total",
        /// Entries dropped from overlays to make room.
        CacheEvictedTotal => "cache-evicted-total",
        /// Commits made early because uncommitted state outgrew its limit.
        EarlyCommitTotal => "early-commit-total",
        /// Shards that failed and were opened anew.
        ShardReopenedTotal => "shard-reopened-total",
        /// Records whose bytes did not deserialize, and the application stopped.
        DeserializationFailedTotal => "deserialization-error-failed-total",
        /// Records whose bytes did not deserialize, and they were skipped.
        DeserializationSkippedTotal => "deserialization-error-skipped-total",
        /// Records whose bytes did not deserialize, and they became dead letters.
        DeserializationDeadLetterTotal => "deserialization-error-dead-letter-total",
        /// Attempts at records whose bytes did not deserialize that were followed by another one.
        DeserializationRetriedTotal => "deserialization-error-retried-total",
        /// Records, punctuations and updates out of caches that failed, and the application stopped.
        ProcessingFailedTotal => "processing-error-failed-total",
        /// Records, punctuations and updates out of caches that failed, and were skipped.
        ProcessingSkippedTotal => "processing-error-skipped-total",
        /// Records, punctuations and updates out of caches that failed, and became dead letters.
        ProcessingDeadLetterTotal => "processing-error-dead-letter-total",
        /// Attempts at records, punctuations and updates out of caches that failed and were followed by another one.
        ProcessingRetriedTotal => "processing-error-retried-total",
        /// Outputs that did not serialize or that the broker refused, and the application stopped.
        ProductionFailedTotal => "production-error-failed-total",
        /// Outputs that did not serialize (their records were skipped) or that the broker refused (they were left out).
        ProductionSkippedTotal => "production-error-skipped-total",
        /// Outputs that did not serialize or that the broker refused, and their input records became dead letters.
        ProductionDeadLetterTotal => "production-error-dead-letter-total",
        /// Attempts at records whose outputs did not serialize that were followed by another one.
        ProductionRetriedTotal => "production-error-retried-total",
        /// Dead letters.
        DeadLetterTotal => "dead-letter-total",
    }
}

impl Counter {
    /// What counts this decision about an error of this stage.
    pub(crate) fn of_error(stage: ErrorStage, decision: &Decision) -> Self {
        match (stage, decision) {
            (ErrorStage::Deserialization, Decision::Fail(_)) => Self::DeserializationFailedTotal,
            (ErrorStage::Deserialization, Decision::Skip) => Self::DeserializationSkippedTotal,
            (ErrorStage::Deserialization, Decision::DeadLetter(..)) => Self::DeserializationDeadLetterTotal,
            (ErrorStage::Deserialization, Decision::Retry(_)) => Self::DeserializationRetriedTotal,
            (ErrorStage::Processing, Decision::Fail(_)) => Self::ProcessingFailedTotal,
            (ErrorStage::Processing, Decision::Skip) => Self::ProcessingSkippedTotal,
            (ErrorStage::Processing, Decision::DeadLetter(..)) => Self::ProcessingDeadLetterTotal,
            (ErrorStage::Processing, Decision::Retry(_)) => Self::ProcessingRetriedTotal,
            (ErrorStage::Production, Decision::Fail(_)) => Self::ProductionFailedTotal,
            (ErrorStage::Production, Decision::Skip) => Self::ProductionSkippedTotal,
            (ErrorStage::Production, Decision::DeadLetter(..)) => Self::ProductionDeadLetterTotal,
            (ErrorStage::Production, Decision::Retry(_)) => Self::ProductionRetriedTotal,
        }
    }
}

metrics! {
    /// What is measured.
    Gauge {
        /// Records that a restore still has to read.
        RestoreRemaining => "restore-remaining-records-total",
        /// Bytes of records that wait in a task's queues.
        InputBufferBytes => "input-buffer-bytes-total",
        /// Bytes of clean and pending entries in the process.
        CacheBytes => "cache-size-bytes-total",
        /// Of those, bytes that the shards have as well: they can be dropped. Kafka Streams has no such metric.
        CleanBytes => "cache-clean-bytes-total",
        /// Of those, bytes that were written and are neither forwarded nor logged. Kafka Streams has no such metric.
        PendingBytes => "cache-pending-bytes-total",
        /// Bytes of logged entries in the process that no shard has yet.
        UncommittedBytes => "uncommitted-bytes-total",
        /// Bytes of blocks, indexes and filters that an engine keeps to be read again.
        BlockCacheUsage => "block-cache-usage",
        /// Of those, bytes that look-ups and cursors hold.
        BlockCachePinnedUsage => "block-cache-pinned-usage",
        /// Bytes that an engine has taken and not yet written to files.
        SizeAllMemTables => "size-all-mem-tables",
        /// Bytes of rows that an engine has nowhere but in memory. Kafka Streams has no such metric.
        EngineRowsBytes => "rows-in-memory-bytes",
        /// Bytes that an engine may take: its part of the memory budget. Kafka Streams has no such metric.
        EngineMemoryMax => "engine-memory-max-bytes",
        /// For how long batches have waited until an engine had memory for them, all in all, in milliseconds.
        WriteStallTotal => "write-stall-duration-total",
        /// The longest of these waits, in milliseconds. Kafka Streams has the average beside the total, which hides it.
        WriteStallMax => "write-stall-duration-max",
        /// Rows that wait in a suppression buffer.
        SuppressionBufferCount => "suppression-buffer-count-current",
        /// Bytes of their keys and values.
        SuppressionBufferSize => "suppression-buffer-size-current",
        /// Of these, the one that is due first: the end of its window, or since when it waits for its time limit (milliseconds of event
        /// time since 1970); 0 if none waits. Kafka Streams has no such metric.
        SuppressionBufferOldest => "suppression-buffer-oldest-time",
        /// Tasks of a worker.
        Tasks => "task-count",
        /// How long the last commit took, in microseconds.
        CommitMicros => "commit-latency-micros",
    }
}

/// What a metric is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// The instance.
    Client,
    /// A worker, by its number.
    Worker(usize),
    /// A task.
    Task(TaskId),
    /// A node of a task's graph, and why it dropped records. [`Topology::node_name`](millpond_topology::Topology::node_name)
    /// knows its name.
    Node {
        /// The task.
        task: TaskId,
        /// The node.
        node: NodeIndex,
        /// The reason.
        why: Dropped,
    },
    /// A store of a task. [`Topology::stores`](millpond_topology::Topology::stores) has its name.
    Store {
        /// The task.
        task: TaskId,
        /// The store.
        store: StoreIndex,
    },
    /// An engine, by its name: all its shards in the process.
    Engine(&'static str),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client => write!(f, "client"),
            Self::Worker(n) => write!(f, "worker={n}"),
            Self::Task(id) => write!(f, "task-id={id}"),
            Self::Node { task, node, why } => write!(f, "task-id={task},node={},reason={}", node.0, why.name()),
            Self::Store { task, store } => write!(f, "task-id={task},store={}", store.0),
            Self::Engine(name) => write!(f, "engine={name}"),
        }
    }
}

/// Where metrics go. Called a few times per batch and commit, never per record.
pub trait Metrics: Send + Sync {
    /// Counts `n` more.
    fn add(&self, counter: Counter, scope: Scope, n: u64);

    /// Notes the present value.
    fn set(&self, gauge: Gauge, scope: Scope, value: u64);
}

/// Drops everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {
    fn add(&self, _: Counter, _: Scope, _: u64) {}
    fn set(&self, _: Gauge, _: Scope, _: u64) {}
}

/// Keeps the present values in memory, for programs that show or test them.
#[derive(Debug, Default)]
pub struct MetricsRegistry {
    values: Mutex<Values>,
}

#[derive(Debug, Default)]
struct Values {
    counters: BTreeMap<(Counter, Scope), u64>,
    gauges: BTreeMap<(Gauge, Scope), u64>,
}

impl MetricsRegistry {
    /// The sum of a counter over all scopes.
    pub fn total(&self, counter: Counter) -> u64 {
        self.lock().counters.iter().filter(|((c, _), _)| *c == counter).map(|(_, n)| n).sum()
    }

    /// A counter of one scope; 0 if it was never counted.
    pub fn counter(&self, counter: Counter, scope: Scope) -> u64 {
        self.lock().counters.get(&(counter, scope)).copied().unwrap_or(0)
    }

    /// A gauge of one scope.
    pub fn gauge(&self, gauge: Gauge, scope: Scope) -> Option<u64> {
        self.lock().gauges.get(&(gauge, scope)).copied()
    }

    /// All values as name, scope and number, in order of name and scope.
    pub fn snapshot(&self) -> Vec<(&'static str, Scope, u64)> {
        let values = self.lock();
        let counters = values.counters.iter().map(|((c, s), n)| (c.name(), *s, *n));
        let gauges = values.gauges.iter().map(|((g, s), n)| (g.name(), *s, *n));
        counters.chain(gauges).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics for MetricsRegistry {
    fn add(&self, counter: Counter, scope: Scope, n: u64) {
        *self.lock().counters.entry((counter, scope)).or_default() += n;
    }

    fn set(&self, gauge: Gauge, scope: Scope, value: u64) {
        self.lock().gauges.insert((gauge, scope), value);
    }
}
