//! What the nodes of a task have dropped on purpose: which, why and how often.

use millpond_topology::{Dropped, NodeIndex};

/// Counts by node and reason. There are few of them, so a list is walked.
#[derive(Debug, Default)]
pub(crate) struct Drops(Vec<(NodeIndex, Dropped, u64)>);

impl Drops {
    pub(crate) fn count(&mut self, node: NodeIndex, why: Dropped) {
        match self.0.iter_mut().find(|(n, w, _)| (*n, *w) == (node, why)) {
            Some((.., counted)) => *counted += 1,
            None => self.0.push((node, why, 1)),
        }
    }

    /// Hands the counts out and forgets them; answers their sum.
    pub(crate) fn take(&mut self, each: &mut dyn FnMut(NodeIndex, Dropped, u64)) -> u64 {
        let mut sum = 0;
        for (node, why, counted) in &mut self.0 {
            let counted = std::mem::take(counted);
            if counted > 0 {
                each(*node, *why, counted);
                sum += counted;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_handed_out_once_by_node_and_reason() {
        let mut drops = Drops::default();
        for (node, why) in [(1, Dropped::Late), (2, Dropped::Late), (1, Dropped::Late), (1, Dropped::NullKey)] {
            drops.count(NodeIndex(node), why);
        }
        let mut told = Vec::new();
        assert_eq!(drops.take(&mut |node, why, n| told.push((node.0, why, n))), 4);
        assert_eq!(told, [(1, Dropped::Late, 2), (2, Dropped::Late, 1), (1, Dropped::NullKey, 1)]);
        assert_eq!(drops.take(&mut |_, _, _| panic!("they were handed out")), 0);
    }
}
