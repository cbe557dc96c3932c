//! The simulator's ends of the runtime's ports: where processes die, what they say about restores, which faults are planted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_changelog::{Decided, Decision};
use millpond_runtime::{Bug, FailPoint, FailPoints, Observer, TaskId};

use super::Planted;

/// A restore as it was planned.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) task: TaskId,
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) decision: Decision,
}

#[derive(Debug, Default)]
struct Inner {
    armed: Option<FailPoint>,
    passed: BTreeMap<FailPoint, u64>,
    died: BTreeMap<FailPoint, u64>,
    planned: Vec<Planned>,
}

/// One per simulated process; survives its crashes.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    inner: Arc<Mutex<Inner>>,
    planted: Option<Planted>,
}

impl Probe {
    pub(super) fn new(planted: Option<Planted>) -> Self {
        Self { inner: Arc::default(), planted }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process dies when it next passes this point.
    pub(super) fn arm(&self, at: FailPoint) {
        self.lock().armed = Some(at);
    }

    pub(super) fn disarm(&self) {
        self.lock().armed = None;
    }

    pub(super) fn take_planned(&self) -> Vec<Planned> {
        std::mem::take(&mut self.lock().planned)
    }

    pub(super) fn passed(&self) -> BTreeMap<FailPoint, u64> {
        self.lock().passed.clone()
    }

    pub(super) fn died(&self) -> BTreeMap<FailPoint, u64> {
        self.lock().died.clone()
    }
}

impl FailPoints for Probe {
    fn dies(&self, at: FailPoint) -> bool {
        let mut inner = self.lock();
        *inner.passed.entry(at).or_default() += 1;
        let dies = inner.armed == Some(at);
        if dies {
            inner.armed = None;
            *inner.died.entry(at).or_default() += 1;
        }
        dies
    }

    fn planted(&self, bug: Bug) -> bool {
        let planted = match bug {
            Bug::ApplyBeforeCommit => Planted::ApplyBeforeCommit,
            Bug::OffsetOffByOne => Planted::OffsetOffByOne,
            Bug::NoFence => Planted::NoFence,
            Bug::RestoreEndsAtLastRecord => Planted::RestoreEndsAtLastRecord,
            Bug::FailedRecordKept => Planted::FailedRecordKept,
            Bug::TimesNotRestored => Planted::TimesNotRestored,
            Bug::NodeTimesNotRestored => Planted::NodeTimesNotRestored,
            Bug::DroppedByLatestStore => Planted::DroppedByLatestStore,
        };
        self.planted == Some(planted)
    }
}

impl Observer for Probe {
    fn restore_planned(&self, task: TaskId, decided: &Decided<'_>) {
        let Decided { changelog, decision, .. } = *decided;
        self.lock().planned.push(Planned {
            task,
            topic: changelog.topic.to_string(),
            partition: changelog.partition,
            decision,
        });
    }
}
