//! Committed offsets outside of transactions.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::membership::code;
use millpond_broker_api::{CommitOutcome, Error, ErrorKind, GroupOffset, GroupOffsets, Member, Result, Stable};

use crate::faults::{Op, Verdict};
use crate::state::{Effect, Shared, unanswered};

const COMMIT: &str = "commit offsets";
const FETCH: &str = "fetch offsets";

pub(crate) struct MemOffsets {
    pub(crate) shared: Arc<Shared>,
}

impl GroupOffsets for MemOffsets {
    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome {
        let state = self.shared.lock();
        let (mut state, effect) = self.shared.ask(state, Op::OffsetCommit { group: &member.group }, max_wait);
        match effect {
            Effect::Unheard => return CommitOutcome::Unknown(unanswered(COMMIT)),
            Effect::Refused(kind) => return outcome(Error::new(kind, COMMIT).with("group", &member.group)),
            Effect::Done | Effect::Unanswered => {}
        }
        let answer = state.commit_offsets(member, offsets, self.shared.now());
        match effect {
            Effect::Unanswered => CommitOutcome::Unknown(unanswered(COMMIT)),
            _ => answer.map_or_else(outcome, |()| CommitOutcome::Committed),
        }
    }

    fn fetch_stable(&mut self, group: &str, of: &[(&str, i32)], max_wait: Duration) -> Result<Stable> {
        let mut state = self.shared.lock();
        let verdict = state.faults.before(Op::OffsetFetch { group });
        let unstable = |(topic, partition): (&str, i32)| Stable::Unstable { topic: topic.to_owned(), partition };
        match verdict {
            Verdict::DropRequest | Verdict::Disconnect => {
                drop(self.shared.silence(state, max_wait));
                return Err(unanswered(FETCH));
            }
            Verdict::Unstable => {
                if let Some(first) = of.first() {
                    return Ok(unstable(*first));
                }
            }
            Verdict::Fail(kind) => return Err(Error::new(kind, FETCH).with("group", group)),
            Verdict::DropReply => return Err(unanswered(FETCH)),
            Verdict::Delay(late) if late > max_wait => return Err(unanswered(FETCH)),
            Verdict::Delay(_) | Verdict::Pass | Verdict::Code(_) => {}
        }
        let Some(found) = state.groups.get(group) else { return Ok(Stable::Offsets(vec![None; of.len()])) };
        if let Some(pending) = of.iter().find(|(topic, partition)| found.offsets.is_pending(topic, *partition)) {
            return Ok(unstable(*pending));
        }
        Ok(Stable::Offsets(of.iter().map(|(topic, partition)| found.offsets.get(topic, *partition).cloned()).collect()))
    }
}

/// What a refused commit comes to.
pub(crate) fn outcome(error: Error) -> CommitOutcome {
    match error.kind() {
        ErrorKind::MembershipLost | ErrorKind::ProducerFenced => CommitOutcome::Fenced(error),
        _ => CommitOutcome::Aborted(error),
    }
}

/// The error for a group's refusal.
pub(crate) fn refusal(op: &'static str, code: i16, member: &Member) -> Error {
    let (kind, name) = match code {
        code::ILLEGAL_GENERATION => (ErrorKind::MembershipLost, "ILLEGAL_GENERATION"),
        code::UNKNOWN_MEMBER_ID => (ErrorKind::MembershipLost, "UNKNOWN_MEMBER_ID"),
        code::FENCED_INSTANCE_ID => (ErrorKind::MembershipLost, "FENCED_INSTANCE_ID"),
        crate::groups::GROUP_ID_NOT_FOUND => (ErrorKind::MembershipLost, "GROUP_ID_NOT_FOUND"),
        code::REBALANCE_IN_PROGRESS => (ErrorKind::Retriable, "REBALANCE_IN_PROGRESS"),
        _ => (ErrorKind::Fatal, "UNKNOWN_SERVER_ERROR"),
    };
    Error::new(kind, op)
        .with("group", &member.group)
        .with("member", &member.member_id)
        .with("generation", member.generation)
        .with("code", name)
}
