//! The times of a task's nodes: the greatest event time that each has got.

use millpond_topology::NodeIndex;

use super::mark::Mark;

/// By node. There are few of them, so a list is walked.
#[derive(Debug, Default)]
pub(crate) struct NodeTimes(Vec<NodeTime>);

#[derive(Debug)]
struct NodeTime {
    node: NodeIndex,
    /// What it is committed under.
    name: String,
    time: Mark,
}

impl NodeTimes {
    /// Of nodes that have got nothing yet.
    pub(crate) fn new(nodes: &[(NodeIndex, String)]) -> Self {
        let unknown =
            |(node, name): &(NodeIndex, String)| NodeTime { node: *node, name: name.clone(), time: Mark::default() };
        Self(nodes.iter().map(unknown).collect())
    }

    pub(crate) fn get(&self, node: NodeIndex) -> Option<i64> {
        self.0.iter().find(|n| n.node == node)?.time.time()
    }

    /// It is at least this; answers what it is.
    #[inline]
    pub(crate) fn advance(&mut self, node: NodeIndex, time: i64) -> i64 {
        self.0.iter_mut().find(|n| n.node == node).map_or(time, |n| n.time.raise(time))
    }

    /// Takes over what was committed beside an input's offset. Of several inputs the highest counts.
    pub(crate) fn restore(&mut self, committed: &[(String, i64)]) {
        for NodeTime { name, time, .. } in &mut self.0 {
            let found = committed.iter().filter(|(of, _)| of == name).map(|(_, time)| *time).max();
            *time = found.map(Mark::of_committed).unwrap_or_default();
        }
    }

    /// What is to be committed beside the inputs' offsets.
    pub(crate) fn to_commit(&self) -> impl Iterator<Item = (String, i64)> {
        self.0.iter().filter_map(|n| Some((n.name.clone(), n.time.time()?)))
    }

    /// Whether any has moved since the last commit.
    pub(crate) fn have_changed(&self) -> bool {
        self.0.iter().any(|n| n.time.has_changed())
    }

    pub(crate) fn committed(&mut self) {
        self.0.iter_mut().for_each(|n| n.time.committed());
    }

    #[inline]
    pub(crate) fn record_done(&mut self) {
        self.0.iter_mut().for_each(|n| n.time.record_done());
    }

    pub(crate) fn record_failed(&mut self) {
        self.0.iter_mut().for_each(|n| n.time.record_failed());
    }
}
