//! What the group member and the workers of an instance tell each other.

use std::collections::BTreeSet;

use millpond_broker_api::Member;

use crate::task::TaskId;

/// To a worker.
#[derive(Clone, Debug)]
pub(crate) enum ToWorker {
    /// A rebalance was announced: commit, answer with [`ToMember::Committed`], then hold commits back.
    Prepare,
    /// A new generation: these tasks are the worker's. It commits with `member` from now on.
    Assign { member: Member, tasks: BTreeSet<TaskId> },
    /// The membership is gone: close everything, commit nothing.
    Lost,
    /// Commit, close everything, and answer with [`ToMember::Stopped`].
    Stop,
}

/// To the group member.
#[derive(Clone, Debug)]
pub(crate) enum ToMember {
    /// The worker has committed, and holds commits back.
    Committed { worker: usize },
    /// The worker has its new set of tasks.
    Acknowledged { worker: usize, generation: i32 },
    /// The broker has refused a commit of the worker's generation.
    MembershipLost { worker: usize, generation: i32 },
    /// The worker has closed everything.
    Stopped { worker: usize },
    /// Leave the group when all workers have stopped.
    Stop,
}
