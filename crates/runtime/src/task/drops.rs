//! What the nodes of a task have dropped on purpose: which, why and how often.

use millpond_topology::{Dropped, NodeIndex};

/// Counts by node and reason. There are few of them, so a list is walked.
#[derive(Debug, Default)]
pub(crate) struct Drops(Vec<Counted>);

#[derive(Debug)]
struct Counted {
    node: NodeIndex,
    why: Dropped,
    /// By what is done.
    done: u64,
    /// By the record or punctuation at hand.
    at_hand: u64,
}

impl Drops {
    pub(crate) fn count(&mut self, node: NodeIndex, why: Dropped) {
        match self.0.iter_mut().find(|c| (c.node, c.why) == (node, why)) {
            Some(counted) => counted.at_hand += 1,
            None => self.0.push(Counted { node, why, done: 0, at_hand: 1 }),
        }
    }

    /// The record or punctuation at hand is done: what it dropped counts.
    #[inline]
    pub(crate) fn record_done(&mut self) {
        self.0.iter_mut().for_each(|c| c.done += std::mem::take(&mut c.at_hand));
    }

    /// It failed, and may be tried again: it dropped nothing.
    pub(crate) fn record_failed(&mut self) {
        self.0.iter_mut().for_each(|c| c.at_hand = 0);
    }

    /// Hands the counts out and forgets them; answers their sum.
    pub(crate) fn take(&mut self, each: &mut dyn FnMut(NodeIndex, Dropped, u64)) -> u64 {
        let mut sum = 0;
        for Counted { node, why, done, .. } in &mut self.0 {
            let counted = std::mem::take(done);
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
        drops.record_done();
        drops.count(NodeIndex(1), Dropped::Late);
        drops.record_failed();
        let mut told = Vec::new();
        assert_eq!(drops.take(&mut |node, why, n| told.push((node.0, why, n))), 4);
        assert_eq!(told, [(1, Dropped::Late, 2), (2, Dropped::Late, 1), (1, Dropped::NullKey, 1)]);
        assert_eq!(drops.take(&mut |_, _, _| panic!("they were handed out")), 0);
    }
}
