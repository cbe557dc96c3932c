//! The coordinators that members of this process have.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::wire::{Address, Node};

/// Told by the links of a [`KafkaBroker`](crate::KafkaBroker), asked by those who commit and fetch offsets: these go to the broker
/// that the member's generation comes from. A coordinator that was deposed without noticing would answer with offsets of
/// long ago, and nothing in such a question is fenced.
#[derive(Debug, Default)]
pub(crate) struct Coordinators(Mutex<BTreeMap<String, Coordinator>>);

/// What a link says of its group's coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Coordinator {
    /// The link is looking for it.
    Sought,
    /// It is this broker.
    Found(Node, Address),
}

impl Coordinators {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Coordinator>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: no member of this process is in the group.
    pub(crate) fn of(&self, group: &str) -> Option<Coordinator> {
        self.lock().get(group).cloned()
    }

    /// For links.
    pub(crate) fn tell(&self, group: &str, coordinator: Coordinator) {
        self.lock().insert(group.to_owned(), coordinator);
    }

    /// The link is gone.
    pub(crate) fn forget(&self, group: &str) {
        self.lock().remove(group);
    }
}
