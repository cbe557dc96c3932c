//! Groups: their members, who may commit, and what is committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::membership::code;
use millpond_broker_api::{GroupOffset, Member};

use crate::broker::Options;
use crate::committed::CommittedOffsets;
use crate::link::{Answer, Ticket};
use crate::log::ProducerId;

/// Error code 69: a commit with a generation to a group that never was.
pub(crate) const GROUP_ID_NOT_FOUND: i16 = 69;

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has no members.
    Empty,
    /// Members are expected to join.
    Preparing {
        /// When those that have not joined are left out.
        until: Duration,
        /// The group was empty: the first member waits until then for others.
        initial: bool,
    },
    /// All have joined, the leader's assignment is awaited.
    Completing {
        /// When those that have not synced are removed.
        until: Duration,
    },
    /// Everybody has an assignment.
    Stable,
}

/// A member of a group.
pub(crate) struct GroupMember {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) metadata: Vec<u8>,
    pub(crate) assignment: Vec<u8>,
    /// When its session is over, unless it waits for an answer.
    pub(crate) expires: Duration,
    /// Its join waits for an answer.
    pub(crate) joining: Option<Ticket>,
    /// Its sync waits for an answer.
    pub(crate) syncing: Option<Ticket>,
    /// It has synced in this generation.
    pub(crate) synced: bool,
}

/// A group.
pub(crate) struct Group {
    pub(crate) offsets: CommittedOffsets,
    pub(crate) generation: i32,
    pub(crate) phase: Phase,
    pub(crate) protocol: Option<Arc<str>>,
    pub(crate) leader: Option<Arc<str>>,
    /// In the order in which they came.
    pub(crate) members: Vec<GroupMember>,
    /// Ids that were given with MEMBER_ID_REQUIRED, and until when they are waited for.
    pub(crate) pending: Vec<(Arc<str>, Duration)>,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            offsets: CommittedOffsets::default(),
            generation: 0,
            phase: Phase::Empty,
            protocol: None,
            leader: None,
            members: Vec::new(),
            pending: Vec::new(),
        }
    }
}

/// What a group needs of the world while it handles a request or a deadline.
pub(crate) struct Context<'a> {
    pub(crate) now: Duration,
    pub(crate) options: &'a Options,
    /// Counts the member ids.
    pub(crate) ids: &'a mut u64,
    /// Answers go here.
    pub(crate) out: &'a mut Vec<Answer>,
}

impl Group {
    /// The member of an id, or the code of the refusal.
    pub(crate) fn member(&mut self, id: &str, instance_id: Option<&str>) -> Result<&mut GroupMember, i16> {
        if let Some(instance_id) = instance_id {
            let known = self.members.iter().find(|m| m.instance_id.as_deref() == Some(instance_id));
            match known {
                None => return Err(code::UNKNOWN_MEMBER_ID),
                Some(twin) if &*twin.id != id => return Err(code::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        self.members.iter_mut().find(|m| &*m.id == id).ok_or(code::UNKNOWN_MEMBER_ID)
    }

    /// Kafka's rule of who may commit; the code is 0 if it is allowed.
    fn fence(&mut self, member: &Member, transactional: bool) -> i16 {
        let empty = self.phase == Phase::Empty;
        if member.generation < 0 && empty {
            return code::NONE;
        }
        if member.generation >= 0 || !member.member_id.is_empty() || member.instance_id.is_some() {
            if let Err(refused) = self.member(&member.member_id, member.instance_id.as_deref()) {
                return refused;
            }
            if member.generation != self.generation {
                return code::ILLEGAL_GENERATION;
            }
        } else if !transactional && !empty {
            return code::UNKNOWN_MEMBER_ID;
        }
        match self.phase {
            Phase::Completing { .. } if !transactional => code::REBALANCE_IN_PROGRESS,
            _ => code::NONE,
        }
    }

    /// When something happens by itself next.
    fn due(&self) -> Option<Duration> {
        let phase = match self.phase {
            Phase::Preparing { until, .. } | Phase::Completing { until } => Some(until),
            Phase::Empty | Phase::Stable => None,
        };
        let sessions = self.members.iter().filter(|m| m.can_expire()).map(|m| m.expires);
        phase.into_iter().chain(sessions).chain(self.pending.iter().map(|(_, until)| *until)).min()
    }
}

impl GroupMember {
    /// Who waits for an answer is not expected to send heartbeats.
    pub(crate) fn can_expire(&self) -> bool {
        self.joining.is_none() && self.syncing.is_none()
    }

    /// A sign of life.
    pub(crate) fn renew(&mut self, now: Duration) {
        self.expires = now.saturating_add(self.session_timeout);
    }
}

/// All groups.
#[derive(Default)]
pub(crate) struct Groups {
    by_name: BTreeMap<Arc<str>, Group>,
    ids: u64,
}

impl Groups {
    pub(crate) fn get(&self, group: &str) -> Option<&Group> {
        self.by_name.get(group)
    }

    /// The group of a name, made if it is not there, and what it needs.
    pub(crate) fn at<'a>(
        &'a mut self,
        group: &str,
        now: Duration,
        options: &'a Options,
        out: &'a mut Vec<Answer>,
    ) -> (&'a mut Group, Context<'a>) {
        let ids = &mut self.ids;
        (self.by_name.entry(group.into()).or_default(), Context { now, options, ids, out })
    }

    /// Forgets a group with its offsets, unless it has members; answers whether it did.
    pub(crate) fn expire(&mut self, group: &str) -> bool {
        let idle = self.by_name.get(group).is_some_and(|known| known.members.is_empty());
        idle && self.by_name.remove(group).is_some()
    }

    /// Commits offsets, in a producer's transaction or at once; answers with an error code.
    pub(crate) fn commit(
        &mut self,
        producer: Option<ProducerId>,
        member: &Member,
        offsets: &[GroupOffset<'_>],
        now: Duration,
    ) -> i16 {
        match self.by_name.get_mut(&member.group) {
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
        if producer.is_none()
            && let Ok(alive) = group.member(&member.member_id, None)
        {
            alive.renew(now);
        }
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

    /// When something happens by itself next.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.by_name.values().filter_map(Group::due).min()
    }

    /// Does what fell due.
    pub(crate) fn happen(&mut self, now: Duration, options: &Options, out: &mut Vec<Answer>) {
        let ids = &mut self.ids;
        for group in self.by_name.values_mut().filter(|g| g.due().is_some_and(|due| due <= now)) {
            group.happen(&mut Context { now, options, ids, out });
        }
    }
}
