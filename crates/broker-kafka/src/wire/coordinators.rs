//! Who coordinates groups, as the clients of one process know it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Address;
use super::cluster::Node;

/// The coordinator of each group, shared by the member and by those who ask for the group's offsets: an offset is asked of the
/// broker that the member's generation comes from. One that was deposed without noticing would answer with offsets of long
/// ago, and nothing in such a question is fenced.
#[derive(Debug, Default)]
pub(crate) struct Coordinators(Mutex<BTreeMap<String, (Node, Address)>>);

impl Coordinators {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Node, Address)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group's coordinator, if it has been found and not been given up since.
    pub(crate) fn of(&self, group: &str) -> Option<(Node, Address)> {
        self.lock().get(group).cloned()
    }

    /// It was found.
    pub(crate) fn found(&self, group: &str, node: Node, address: Address) {
        self.lock().insert(group.to_owned(), (node, address));
    }

    /// This one is not it, or does not answer. What somebody else has found meanwhile stays.
    pub(crate) fn forget(&self, group: &str, node: Node) {
        let mut known = self.lock();
        if known.get(group).is_some_and(|(known, _)| *known == node) {
            known.remove(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_is_forgotten_by_those_who_asked_it() {
        let (coordinators, at) = (Coordinators::default(), Address { host: "h".to_owned(), port: 1 });
        coordinators.found("g", 1, at.clone());
        coordinators.found("g", 2, at.clone());
        coordinators.forget("g", 1);
        assert_eq!(coordinators.of("g"), Some((2, at)), "1 was asked before 2 was found");
        coordinators.forget("g", 2);
        assert_eq!(coordinators.of("g"), None);
    }
}
