//! The topology resolved against the cluster: real topic names, partition counts, and from these the tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use millpond_changelog::ValueFormat;
use millpond_topology::{NodeIndex, Retention, SinkIndex, SourceIndex, StoreIndex, StoreType};

use crate::settings::OffsetReset;
use crate::task::TaskId;

/// An input topic of a sub-topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputPlan {
    pub(crate) source: SourceIndex,
    pub(crate) topic: String,
    pub(crate) partitions: i32,
    /// A repartition topic: its records carry the cut tag, and are deleted when they are processed.
    pub(crate) internal: bool,
    /// Event times come from a user's extractor.
    pub(crate) extractor: bool,
    /// Where to begin without a committed offset; `None`: as the settings say.
    pub(crate) reset: Option<OffsetReset>,
}

/// A store of a sub-topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorePlan {
    pub(crate) index: StoreIndex,
    pub(crate) name: String,
    pub(crate) kind: StoreType,
    /// For how long rows are kept; `None`: for ever.
    pub(crate) retention: Option<Retention>,
    /// Its rows expire by what its node has released; see [`StoreDef::hold`](millpond_topology::StoreDef::hold).
    pub(crate) hold: Option<i64>,
    /// The engine's name; `None`: the application's.
    pub(crate) engine: Option<String>,
    pub(crate) format: ValueFormat,
    /// `None`: not logged.
    pub(crate) changelog: Option<String>,
    /// The changelog is the topic that the store's table is made of: it is read up to the input's offset, and never written.
    pub(crate) reuses_source: bool,
    /// For how long the broker keeps a record of the changelog, by the record's time (milliseconds); `None`: whatever its age.
    pub(crate) changelog_keeps: Option<i64>,
    /// The changelog that a store which has none of its own may have had.
    pub(crate) former_changelog: Option<String>,
    pub(crate) caching: bool,
    /// Somebody forwards what is drained, and wants old values.
    pub(crate) forwards: bool,
}

impl StorePlan {
    /// Whether its node may need rows that have expired.
    pub(crate) fn keeps_expired(&self) -> bool {
        self.hold.is_some() || self.retention.is_some_and(|kept| kept.longer_inside > 0)
    }
}

/// An output topic of a sub-topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SinkPlan {
    pub(crate) sink: SinkIndex,
    pub(crate) topic: String,
    pub(crate) partitions: i32,
    pub(crate) internal: bool,
    /// The node's name.
    pub(crate) node: Arc<str>,
}

/// A sub-topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubPlan {
    pub(crate) inputs: Vec<InputPlan>,
    /// In topological order: the order of draining.
    pub(crate) stores: Vec<StorePlan>,
    pub(crate) sinks: Vec<SinkPlan>,
    /// The sinks that choose a topic for each record, and the names of their nodes.
    pub(crate) choosing: Vec<(SinkIndex, Arc<str>)>,
    /// The nodes that have a time of their own, and what it is committed under.
    pub(crate) timed: Vec<(NodeIndex, String)>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) subs: Vec<SubPlan>,
    /// Changelog records say in headers how far the inputs were read.
    pub(crate) position_headers: bool,
    /// The topics for dead letters and their partition counts, in the order of the handlers' topics.
    pub(crate) dead_letters: Vec<(String, i32)>,
}

impl Plan {
    /// One task per sub-topology and partition; as many partitions as the widest input has.
    pub(crate) fn tasks(&self) -> BTreeSet<TaskId> {
        let widest = |sub: &SubPlan| sub.inputs.iter().map(|i| i.partitions).max().unwrap_or(0);
        let all = (0..).zip(&self.subs);
        all.flat_map(|(sub_topology, sub)| (0..widest(sub)).map(move |partition| TaskId { sub_topology, partition }))
            .collect()
    }

    /// Those tasks that have stores.
    pub(crate) fn stateful_tasks(&self) -> BTreeSet<TaskId> {
        self.tasks().into_iter().filter(|t| self.sub(*t).is_some_and(|s| !s.stores.is_empty())).collect()
    }

    pub(crate) fn sub(&self, task: TaskId) -> Option<&SubPlan> {
        self.subs.get(task.sub_topology as usize)
    }

    /// All input topics, each once.
    pub(crate) fn input_topics(&self) -> BTreeSet<&str> {
        self.subs.iter().flat_map(|s| &s.inputs).map(|i| i.topic.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_as_many_as_the_widest_input_has_partitions() {
        let input = |topic: &str, partitions| InputPlan {
            source: SourceIndex(0),
            topic: topic.into(),
            partitions,
            internal: false,
            extractor: false,
            reset: None,
        };
        let sub = |inputs| SubPlan { inputs, ..SubPlan::default() };
        let subs = vec![sub(vec![input("a", 2), input("b", 3)]), sub(vec![input("c", 1)]), sub(vec![])];
        let plan = Plan { subs, ..Plan::default() };
        let tasks: Vec<String> = plan.tasks().iter().map(TaskId::to_string).collect();
        assert_eq!(tasks, ["0_0", "0_1", "0_2", "1_0"]);
    }
}
