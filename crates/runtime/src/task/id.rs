//! The name of a task: a sub-topology and a partition.

use std::fmt;

/// A task, Kafka Streams' `TaskId`: text form `<sub-topology>_<partition>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId {
    /// The sub-topology's number.
    pub sub_topology: u32,
    /// The partition of its inputs and changelogs.
    pub partition: i32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.sub_topology, self.partition)
    }
}
