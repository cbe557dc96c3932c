//! Faults on demand: requests and replies that get lost or late, errors, cut connections.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use millpond_broker_api::ErrorKind;
use millpond_broker_api::membership::Request;

/// What is about to happen, as a fault policy sees it.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// A batch of one partition is written.
    Append {
        /// Whose transaction it is part of.
        transactional_id: Option<&'a str>,
        /// The topic.
        topic: &'a str,
        /// The partition.
        partition: i32,
    },
    /// A producer asks for its epoch.
    InitProducerId {
        /// The transactional id.
        transactional_id: &'a str,
    },
    /// Offsets are added to a transaction.
    TxnOffsetCommit {
        /// The transactional id.
        transactional_id: &'a str,
        /// The group.
        group: &'a str,
    },
    /// A transaction is committed or aborted.
    EndTxn {
        /// The transactional id.
        transactional_id: &'a str,
        /// Committed.
        commit: bool,
    },
    /// The markers of a transaction that has been ended are about to be written; only [`Verdict::Delay`] has an effect.
    WriteMarkers {
        /// The transactional id.
        transactional_id: &'a str,
    },
    /// A consumer polls.
    Fetch {
        /// The consumer, counted from 0 in the order of creation.
        consumer: u64,
    },
    /// Offsets are committed outside of a transaction.
    OffsetCommit {
        /// The group.
        group: &'a str,
    },
    /// Committed offsets are read.
    OffsetFetch {
        /// The group.
        group: &'a str,
    },
    /// A member's request arrives at the group's coordinator.
    Group {
        /// The group.
        group: &'a str,
        /// The link, counted from 0 in the order of creation.
        link: u64,
        /// The request.
        request: &'a Request,
    },
    /// An administrator's request.
    Admin {
        /// The operation, such as `create topics`.
        op: &'static str,
    },
}

/// The kinds of [`Op`], for planned faults.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// [`Op::Append`].
    Append,
    /// [`Op::InitProducerId`].
    InitProducerId,
    /// [`Op::TxnOffsetCommit`].
    TxnOffsetCommit,
    /// [`Op::EndTxn`].
    EndTxn,
    /// [`Op::WriteMarkers`].
    WriteMarkers,
    /// [`Op::Fetch`].
    Fetch,
    /// [`Op::OffsetCommit`].
    OffsetCommit,
    /// [`Op::OffsetFetch`].
    OffsetFetch,
    /// [`Op::Group`].
    Group,
    /// [`Op::Admin`].
    Admin,
}

impl Op<'_> {
    /// Its kind.
    pub fn kind(&self) -> OpKind {
        match self {
            Self::Append { .. } => OpKind::Append,
            Self::InitProducerId { .. } => OpKind::InitProducerId,
            Self::TxnOffsetCommit { .. } => OpKind::TxnOffsetCommit,
            Self::EndTxn { .. } => OpKind::EndTxn,
            Self::WriteMarkers { .. } => OpKind::WriteMarkers,
            Self::Fetch { .. } => OpKind::Fetch,
            Self::OffsetCommit { .. } => OpKind::OffsetCommit,
            Self::OffsetFetch { .. } => OpKind::OffsetFetch,
            Self::Group { .. } => OpKind::Group,
            Self::Admin { .. } => OpKind::Admin,
        }
    }
}

/// What becomes of an [`Op`].
///
/// A client whose request is lost finds out when its call's `max_wait` is over (an administrator's: the request timeout);
/// with a manual clock, and where only the reply is lost, that is at once. So a commit answers [`Unknown`](millpond_broker_api::CommitOutcome::Unknown), a flush reports records as outstanding,
/// other calls are [`Retriable`](ErrorKind::Retriable). A link whose request or reply is lost reports
/// [`Disconnected`](millpond_broker_api::membership::Incoming::Disconnected) after the request timeout.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing goes wrong.
    Pass,
    /// The request is lost before it takes effect.
    DropRequest,
    /// It takes effect, and the reply is lost. A flush repeats such a batch; the log recognises the duplicate, and the
    /// report of the repetition has no offset.
    DropReply,
    /// The answer takes this long. A call waits for it (with a manual clock it costs no time) unless its `max_wait` is
    /// shorter: then this is [`Verdict::DropReply`]. A poll lends nothing and markers are not written before that time
    /// has passed; a group's reply comes that much later.
    Delay(Duration),
    /// The answer is an error of this kind, and there is no other effect. Links take it as [`Verdict::Disconnect`].
    Fail(ErrorKind),
    /// A link's reply has this error code, and there is no other effect. Others take it as [`Verdict::Pass`].
    Code(i16),
    /// A link is disconnected, and its request is lost. Others take it as [`Verdict::DropRequest`].
    Disconnect,
    /// `fetch_stable` answers [`Unstable`](millpond_broker_api::Stable::Unstable) for its first partition. Others take it
    /// as [`Verdict::Pass`].
    Unstable,
}

/// A fault policy: asked before everything that happens.
///
/// It is called with the broker's lock held: it must not call the broker.
pub trait Faults: Send {
    /// What becomes of it.
    fn before(&mut self, op: Op<'_>) -> Verdict;
}

impl<F: FnMut(Op<'_>) -> Verdict + Send> Faults for F {
    fn before(&mut self, op: Op<'_>) -> Verdict {
        self(op)
    }
}

/// Planned faults and the policy.
#[derive(Default)]
pub(crate) struct Plan {
    planned: VecDeque<(OpKind, Verdict)>,
    pub(crate) policy: Option<Box<dyn Faults>>,
}

impl Plan {
    pub(crate) fn push(&mut self, op: OpKind, verdict: Verdict) {
        self.planned.push_back((op, verdict));
    }

    /// The first planned fault of this kind, else what the policy says.
    #[inline]
    pub(crate) fn before(&mut self, op: Op<'_>) -> Verdict {
        if self.planned.is_empty() && self.policy.is_none() { Verdict::Pass } else { self.decide(op) }
    }

    #[cold]
    fn decide(&mut self, op: Op<'_>) -> Verdict {
        let planned = self.planned.iter().position(|(kind, _)| *kind == op.kind());
        if let Some((_, verdict)) = planned.and_then(|at| self.planned.remove(at)) {
            return verdict;
        }
        self.policy.as_mut().map_or(Verdict::Pass, |policy| policy.before(op))
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan").field("planned", &self.planned).field("policy", &self.policy.is_some()).finish()
    }
}
