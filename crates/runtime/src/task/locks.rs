//! Which tasks are open in this process: a task that moves between two workers is closed by one before the other opens it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::TaskId;

/// All tasks that some worker of this instance has open, or may still have.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskLocks {
    held: Arc<Mutex<BTreeSet<TaskId>>>,
}

impl TaskLocks {
    /// The right to open a task; `None` while another worker has it.
    pub(crate) fn try_lock(&self, task: TaskId) -> Option<TaskLock> {
        self.lock().insert(task).then(|| TaskLock { locks: self.clone(), task })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<TaskId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Held as long as a task's shards may be open.
#[derive(Debug)]
pub(crate) struct TaskLock {
    locks: TaskLocks,
    task: TaskId,
}

impl Drop for TaskLock {
    fn drop(&mut self) {
        self.locks.lock().remove(&self.task);
    }
}

/// All that a worker holds of a task that it has open.
#[derive(Debug)]
pub(crate) struct TaskHold {
    _lock: TaskLock,
    /// The task's directory, if the application has a state directory.
    pub(crate) dir: Option<crate::state::TaskLock>,
}

impl TaskHold {
    pub(crate) fn new(lock: TaskLock, dir: Option<crate::state::TaskLock>) -> Self {
        Self { _lock: lock, dir }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b120_a_task_is_open_in_one_place_and_the_next_owner_gets_it() {
        let locks = TaskLocks::default();
        let task = TaskId { sub_topology: 0, partition: 1 };
        let held = locks.try_lock(task).unwrap();
        assert!(locks.try_lock(task).is_none());
        assert!(locks.try_lock(TaskId { partition: 2, ..task }).is_some());
        drop(held);
        assert!(locks.try_lock(task).is_some());
    }
}
