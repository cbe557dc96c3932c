//! Groups: who may commit, and what is committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_broker_api::membership::code;
use millpond_broker_api::{GroupOffset, Member};

use crate::committed::CommittedOffsets;
use crate::log::ProducerId;

/// Error code 69: a commit with a generation to a group that never was.
pub(crate) const GROUP_ID_NOT_FOUND: i16 = 69;

/// A group.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) offsets: CommittedOffsets,
}

impl Group {
    /// Kafka's rule of who may commit; the code is 0 if it is allowed.
    fn fence(&self, member: &Member, _transactional: bool) -> i16 {
        if member.generation < 0 { code::NONE } else { code::UNKNOWN_MEMBER_ID }
    }
}

/// All groups.
#[derive(Default)]
pub(crate) struct Groups {
    by_name: BTreeMap<Arc<str>, Group>,
}

impl Groups {
    pub(crate) fn get(&self, group: &str) -> Option<&Group> {
        self.by_name.get(group)
    }

    /// Commits offsets, in a producer's transaction or at once; answers with an error code.
    pub(crate) fn commit(&mut self, producer: Option<ProducerId>, member: &Member, offsets: &[GroupOffset<'_>]) -> i16 {
        match self.by_name.get(&member.group) {
            Some(group) => match group.fence(member, producer.is_some()) {
                code::NONE => {}
                refused => return refused,
            },
            None if member.generation >= 0 && producer.is_some() => return code::ILLEGAL_GENERATION,
            None if member.generation >= 0 => return GROUP_ID_NOT_FOUND,
            None => {}
        }
        let group = self.by_name.entry(member.group.clone()).or_default();
        group.offsets.add(producer, offsets);
        code::NONE
    }

    /// Ends a producer's transaction in a group.
    pub(crate) fn end_transaction(&mut self, group: &str, producer: ProducerId, commit: bool) {
        if let Some(group) = self.by_name.get_mut(group) {
            group.offsets.end(producer, commit);
        }
    }

    /// A topic was deleted: its offsets go.
    pub(crate) fn forget(&mut self, topic: &str) {
        self.by_name.values_mut().for_each(|group| group.offsets.forget(topic));
    }
}
