//! An input partition of a task: its queue, and how far it is.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Offset, Source};
use millpond_topology::SourceIndex;

use super::queue::Queue;
use crate::exec::Failure;
use crate::plan::InputPlan;
use crate::settings::OffsetReset;
use crate::state::{QueueBudget, QueueShare};

/// One partition that a task reads.
#[derive(Debug)]
pub(crate) struct Input {
    /// The worker's number for it.
    pub(crate) source: Source,
    pub(crate) index: SourceIndex,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    /// A repartition topic.
    pub(crate) internal: bool,
    /// Event times come from a user's extractor.
    pub(crate) extractor: bool,
    /// Where to begin without a committed offset; `None`: as the settings say.
    pub(crate) reset: Option<OffsetReset>,
    pub(crate) queue: Queue,
    /// Its part of the memory for queues.
    share: QueueShare,
    /// The next offset to be processed: what a commit covers.
    pub(crate) next: Offset,
    /// What was committed last.
    pub(crate) committed: Option<Offset>,
    /// The largest event time processed; -1 before the first record.
    pub(crate) partition_time: i64,
    pub(crate) leader_epoch: i32,
    /// The consumer delivers nothing, because the queue is full.
    pub(crate) paused: bool,
    /// The event time of the head, once it was extracted.
    pub(crate) head_time: Option<i64>,
    /// Why the extractor failed on the head: it fails when it is processed.
    pub(crate) head_failure: Option<Failure>,
    /// Since when the queue has been empty with nothing to fetch.
    pub(crate) idle_since: Option<Duration>,
}

impl Input {
    pub(crate) fn new(plan: &InputPlan, partition: i32, source: u32, queues: &Arc<QueueBudget>) -> Self {
        let source = Source(source);
        Self {
            source,
            index: plan.source,
            topic: plan.topic.as_str().into(),
            partition,
            internal: plan.internal,
            extractor: plan.extractor,
            reset: plan.reset,
            queue: Queue::new(source),
            share: QueueShare::new(queues),
            next: 0,
            committed: None,
            partition_time: -1,
            leader_epoch: -1,
            paused: false,
            head_time: None,
            head_failure: None,
            idle_since: None,
        }
    }

    /// Drops what waits; the position is set anew before the task runs again.
    pub(crate) fn forget(&mut self) {
        self.queue.clear();
        (self.paused, self.head_time, self.head_failure, self.idle_since) = (false, None, None, None);
    }

    /// Whether more waits than may: more than `records` (`buffered.records.per.partition`), or more bytes than its part of
    /// the memory for queues. One batch more than that is held, since what was polled is taken; and one record may be
    /// more than the part.
    pub(crate) fn is_full(&self, records: usize) -> bool {
        self.queue.len() > records || self.queue.bytes() > self.share.limit()
    }

    /// Whether so little waits that more should be fetched: half of what may. An empty queue always is.
    pub(crate) fn is_drained(&self, records: usize) -> bool {
        self.queue.len() <= records / 2 && self.queue.bytes() <= self.share.limit() / 2
    }

    /// Whether there is progress that is not committed.
    pub(crate) fn is_ahead(&self) -> bool {
        self.committed != Some(self.next)
    }
}
