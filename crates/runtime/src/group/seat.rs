//! What the member of an instance knows of each of its workers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::task::Waker;

use crate::task::TaskId;
use crate::worker::{Pulse, ToWorker};

/// A worker as its instance's member knows it.
pub(crate) struct WorkerHandle {
    pub(crate) inbox: Sender<ToWorker>,
    pub(crate) waker: Waker,
    pub(crate) pulse: Arc<Pulse>,
}

impl WorkerHandle {
    pub(crate) fn tell(&self, message: ToWorker) {
        // A worker that is gone has stopped the application already.
        if self.inbox.send(message).is_ok() {
            self.waker.wake_by_ref();
        }
    }
}

/// What the member keeps of a worker.
pub(super) struct Seat {
    pub(super) handle: WorkerHandle,
    /// What it was given last.
    pub(super) tasks: BTreeSet<TaskId>,
    /// What it may have open: what it was given, and what it has not yet given back.
    pub(super) may_hold: BTreeSet<TaskId>,
    /// Has committed since the last notice of a rebalance, if there was one.
    pub(super) committed: bool,
    /// Makes no steps: gets no tasks, and those it has cannot run elsewhere in this process.
    pub(super) stuck: bool,
    pub(super) stopped: bool,
}

impl Seat {
    pub(super) fn new(handle: WorkerHandle) -> Self {
        Self {
            handle,
            tasks: BTreeSet::new(),
            may_hold: BTreeSet::new(),
            committed: true,
            stuck: false,
            stopped: false,
        }
    }

    /// Others may have its tasks from now on: it must not commit or write what it has, whatever it hears first.
    pub(super) fn give_away(&mut self) {
        self.committed = true;
        self.handle.pulse.give_away();
    }
}
