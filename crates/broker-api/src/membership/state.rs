//! The words of the member's machine: settings, states and their legal moves, events, commands.

use std::sync::Arc;
use std::time::Duration;

use super::{MemberInfo, Reply, Request, code};

/// How a member behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The static member id (KIP-345): a restarted process takes its own place, and nobody else notices.
    pub instance_id: Option<Arc<str>>,
    /// The protocol's name; all members of a group have one in common.
    pub protocol: Arc<str>,
    /// Without a heartbeat for so long the coordinator removes the member, and the member itself gives up.
    pub session_timeout: Duration,
    /// The pause between heartbeats. A rebalance is announced in answers to heartbeats only, so this bounds how fast one is.
    pub heartbeat_interval: Duration,
    /// How long a rebalance waits for this member to join.
    pub rebalance_timeout: Duration,
    /// How long workers may take to commit before the member joins without those that have not. Well below
    /// [`Settings::rebalance_timeout`].
    pub prepare_time: Duration,
    /// The pause before something is tried again.
    pub retry_pause: Duration,
}

impl Settings {
    /// Defaults, with this session timeout: heartbeats every tenth of it, at most every second.
    #[must_use]
    pub fn with_session_timeout(mut self, session_timeout: Duration) -> Self {
        self.session_timeout = session_timeout;
        self.heartbeat_interval = (session_timeout / 10).min(Duration::from_secs(1));
        self
    }
}

impl Default for Settings {
    /// No static id, protocol `millpond-1`, session 45 s, heartbeats every second, rebalance timeout 8 s, prepare time 4 s.
    fn default() -> Self {
        Self {
            instance_id: None,
            protocol: Arc::from("millpond-1"),
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(1),
            rebalance_timeout: Duration::from_secs(8),
            prepare_time: Duration::from_secs(4),
            retry_pause: Duration::from_millis(100),
        }
    }
}

/// Where a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No coordinator is known. A membership, if there is one, is kept.
    Finding,
    /// Takes part in the next generation, or is about to.
    Joining,
    /// Waits for its assignment; the leader makes it first.
    Syncing,
    /// A member with an assignment.
    Stable,
    /// A rebalance was announced, or is wanted here: the workers commit first. Heartbeats go on.
    Preparing,
    /// Not a member any more. Passed through within one event: on to [`State::Finding`], or to the end.
    Lost,
    /// Says goodbye.
    Leaving,
    /// The end: no event changes it.
    Gone,
}

/// The legal moves. Any other is an error of ours.
pub(super) const LEGAL: &[(State, &[State])] = &[
    (State::Finding, &[State::Joining, State::Stable, State::Preparing, State::Lost, State::Leaving]),
    (State::Joining, &[State::Joining, State::Syncing, State::Finding, State::Lost, State::Leaving]),
    (State::Syncing, &[State::Stable, State::Joining, State::Finding, State::Lost, State::Leaving]),
    (State::Stable, &[State::Preparing, State::Finding, State::Lost, State::Leaving]),
    (State::Preparing, &[State::Joining, State::Finding, State::Lost, State::Leaving]),
    (State::Lost, &[State::Finding, State::Gone]),
    (State::Leaving, &[State::Gone]),
    (State::Gone, &[]),
];

impl State {
    /// Whether a member may go from here to there.
    pub fn may_become(self, to: State) -> bool {
        LEGAL.iter().any(|(from, next)| *from == self && next.contains(&to))
    }
}

/// What happens to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// The answer to the request in flight.
    Reply(Reply),
    /// The connection is gone; the request in flight has no answer.
    Disconnected,
    /// Member id and assignment of everybody: the answer to the last [`Command::Assign`].
    Assigned(Vec<(Arc<str>, Vec<u8>)>),
    /// All workers that are not stuck have committed: the answer to the last [`Command::Prepare`].
    Committed,
    /// New user data: the member joins again, when it can.
    Metadata(Vec<u8>),
    /// The member is to leave.
    Leave,
}

/// Why a membership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The coordinator knows the member or its generation no longer; it joins anew.
    Unknown,
    /// No heartbeat succeeded for a session; others may own the tasks by now. It joins anew.
    Session,
    /// Another process has the same static id. It stops.
    Twin,
    /// The coordinator does not want this member, and never will. It stops.
    Refused {
        /// The error code, one of [`code`].
        code: i16,
    },
}

impl Why {
    /// Whether the member stops for good, so that [`Command::Gone`] follows.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Twin | Self::Refused { .. })
    }

    /// What an operator can do about it, for messages.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Unknown | Self::Session => "nothing: the member joins again by itself",
            Self::Twin => {
                "stop the other process with this static id, or give one of them a state directory of its own"
            }
            Self::Refused { code: code::INCONSISTENT_GROUP_PROTOCOL } => {
                "stop the Java application first: the group has members of another protocol"
            }
            Self::Refused { code: code::INVALID_SESSION_TIMEOUT } => {
                "choose a session timeout between `group.min.session.timeout.ms` and `group.max.session.timeout.ms` of the broker"
            }
            Self::Refused { code: code::GROUP_AUTHORIZATION_FAILED } => {
                "add an ACL that allows the user READ on the group"
            }
            Self::Refused { code: code::SASL_AUTHENTICATION_FAILED } => "check the user name and the password",
            Self::Refused { code: code::INVALID_GROUP_ID } => "choose another application id",
            Self::Refused { code: code::GROUP_MAX_SIZE_REACHED } => "raise `group.max.size` of the broker",
            Self::Refused { .. } => "see the error code in the Kafka protocol's documentation",
        }
    }
}

/// What a member's driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send this; its answer comes back as [`Event::Reply`] or [`Event::Disconnected`].
    Send(Request),
    /// This member leads: make an assignment of these members, answer with [`Event::Assigned`].
    Assign(Vec<MemberInfo>),
    /// A rebalance is coming: let the workers commit, answer with [`Event::Committed`] when all have that are not stuck.
    Prepare {
        /// When the member joins anyway, on the clock that [`Machine::handle`](super::Machine::handle) is given.
        deadline: Duration,
    },
    /// There is an assignment: workers commit with this generation from now on.
    NewGeneration {
        /// The generation.
        generation: i32,
        /// This member's id.
        member_id: Arc<str>,
        /// This member's assignment.
        assignment: Vec<u8>,
        /// Whether this member leads the generation.
        is_leader: bool,
    },
    /// Not a member any more: close the tasks without committing.
    Lost(Why),
    /// The end.
    Gone,
}
