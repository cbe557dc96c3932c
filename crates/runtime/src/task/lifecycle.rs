//! A task's states and its legal moves; pure.

/// Where a task is on its way (Kafka Streams' `Task.State`, with the takeover spelled out).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TaskState {
    /// Known, nothing is open.
    Created,
    /// Its shards are open; the committed offsets are asked for until no transaction holds them.
    Offsets,
    /// The changelogs' ends are asked for.
    Ends,
    /// The changelogs are read up to those ends.
    Restoring,
    /// Records are processed.
    Running,
    /// It is over.
    Closed,
}

/// Legal moves. Back to `Created` means that the shards are closed and opened anew; back to `Offsets`, that they are kept.
const LEGAL: &[(TaskState, &[TaskState])] = &[
    (TaskState::Created, &[TaskState::Offsets, TaskState::Closed]),
    (TaskState::Offsets, &[TaskState::Ends, TaskState::Created, TaskState::Closed]),
    (TaskState::Ends, &[TaskState::Restoring, TaskState::Offsets, TaskState::Created, TaskState::Closed]),
    (TaskState::Restoring, &[TaskState::Running, TaskState::Offsets, TaskState::Created, TaskState::Closed]),
    (TaskState::Running, &[TaskState::Offsets, TaskState::Created, TaskState::Closed]),
    (TaskState::Closed, &[]),
];

impl TaskState {
    /// Whether a task may go from here to `next`.
    pub fn may_become(self, next: Self) -> bool {
        LEGAL.iter().any(|(from, to)| *from == self && to.contains(&next))
    }

    /// The name, for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Offsets => "waiting for committed offsets",
            Self::Ends => "asking for changelog ends",
            Self::Restoring => "restoring",
            Self::Running => "running",
            Self::Closed => "closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TaskState::*;

    #[test]
    fn a_task_runs_only_after_it_was_restored() {
        for from in [Created, Offsets, Ends, Closed] {
            assert!(!from.may_become(Running), "{from:?}");
        }
        assert!(Restoring.may_become(Running));
    }

    #[test]
    fn closed_is_the_end_and_can_always_be_reached() {
        for other in [Created, Offsets, Ends, Restoring, Running] {
            assert!(!Closed.may_become(other));
            assert!(other.may_become(Closed));
        }
    }
}
