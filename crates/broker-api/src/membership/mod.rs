//! Membership in a consumer group: requests and replies as values, and the member as a state machine without I/O.
//!
//! The protocol is Kafka's classic one. A driver owns a [`Link`] and feeds the replies to the machine.

mod machine;
pub mod protocol;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use machine::Machine;
pub use state::{Command, Event, Settings, State, Why};

/// Numbers of the Kafka protocol that members act on.
pub mod code {
    /// The broker failed; to a leader's sync: subscriptions and assignments of the group are over a megabyte.
    pub const UNKNOWN_SERVER_ERROR: i16 = -1;
    /// All is well.
    pub const NONE: i16 = 0;
    /// The coordinator is loading the group.
    pub const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
    /// There is no coordinator now.
    pub const COORDINATOR_NOT_AVAILABLE: i16 = 15;
    /// Another broker coordinates the group.
    pub const NOT_COORDINATOR: i16 = 16;
    /// The generation is not the group's.
    pub const ILLEGAL_GENERATION: i16 = 22;
    /// The protocol type or names do not fit to the group's.
    pub const INCONSISTENT_GROUP_PROTOCOL: i16 = 23;
    /// The group's name is not allowed.
    pub const INVALID_GROUP_ID: i16 = 24;
    /// The member id is not in the group.
    pub const UNKNOWN_MEMBER_ID: i16 = 25;
    /// The session timeout is outside of the broker's limits.
    pub const INVALID_SESSION_TIMEOUT: i16 = 26;
    /// The group is rebalancing: join again.
    pub const REBALANCE_IN_PROGRESS: i16 = 27;
    /// The user may not read the group.
    pub const GROUP_AUTHORIZATION_FAILED: i16 = 30;
    /// The broker speaks other versions of the protocol.
    pub const UNSUPPORTED_VERSION: i16 = 35;
    /// The user's name or password is wrong.
    pub const SASL_AUTHENTICATION_FAILED: i16 = 58;
    /// The first join: join again with the id that came with this answer (KIP-394).
    pub const MEMBER_ID_REQUIRED: i16 = 79;
    /// The group has all the members that the broker allows.
    pub const GROUP_MAX_SIZE_REACHED: i16 = 81;
    /// Another process has the same static id (KIP-345).
    pub const FENCED_INSTANCE_ID: i16 = 82;
}

/// A member as the leader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// The id that the coordinator gave.
    pub member_id: Arc<str>,
    /// The static id.
    pub instance_id: Option<Arc<str>>,
    /// The subscription that the member sent with its join, in Kafka's `ConsumerProtocolSubscription` envelope.
    pub metadata: Vec<u8>,
}

/// A request to the group's coordinator (KIP-62, KIP-345, KIP-394).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Where is the coordinator?
    FindCoordinator,
    /// Take part in the next generation.
    Join {
        /// Empty for the first join.
        member_id: Arc<str>,
        /// The static id.
        instance_id: Option<Arc<str>>,
        /// How long the group may be without a heartbeat of this member.
        session_timeout: Duration,
        /// How long the group waits for this member when it rebalances.
        rebalance_timeout: Duration,
        /// The protocol's name, such as `millpond-1`.
        protocol: Arc<str>,
        /// The subscription.
        metadata: Vec<u8>,
    },
    /// Get the assignment; the leader brings all of them.
    Sync {
        /// The generation of the join's reply.
        generation: i32,
        /// This member.
        member_id: Arc<str>,
        /// The static id.
        instance_id: Option<Arc<str>>,
        /// Member id and assignment, from the leader only.
        assignments: Vec<(Arc<str>, Vec<u8>)>,
    },
    /// Still here.
    Heartbeat {
        /// The generation.
        generation: i32,
        /// This member.
        member_id: Arc<str>,
        /// The static id.
        instance_id: Option<Arc<str>>,
    },
    /// Goodbye; a static member is removed too.
    Leave {
        /// This member.
        member_id: Arc<str>,
        /// The static id.
        instance_id: Option<Arc<str>>,
    },
}

impl Request {
    /// The reply to it that says an error code and nothing else.
    pub fn refusal(&self, code: i16) -> Reply {
        match self {
            Self::FindCoordinator => Reply::Coordinator { code },
            Self::Join { member_id, .. } => Reply::Join {
                code,
                generation: -1,
                member_id: member_id.clone(),
                leader: false,
                skip_assignment: false,
                members: Vec::new(),
            },
            Self::Sync { .. } => Reply::Sync { code, assignment: Vec::new() },
            Self::Heartbeat { .. } => Reply::Heartbeat { code },
            Self::Leave { .. } => Reply::Leave { code },
        }
    }
}

/// A reply of the coordinator. Error codes are those of [`code`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::FindCoordinator`].
    Coordinator {
        /// The error code.
        code: i16,
    },
    /// To [`Request::Join`].
    Join {
        /// The error code.
        code: i16,
        /// The new generation.
        generation: i32,
        /// The id to use from now on.
        member_id: Arc<str>,
        /// Whether this member makes the assignment.
        leader: bool,
        /// The leader keeps the assignment that is there (a static leader came back, KIP-814).
        skip_assignment: bool,
        /// All members, for the leader only.
        members: Vec<MemberInfo>,
    },
    /// To [`Request::Sync`].
    Sync {
        /// The error code.
        code: i16,
        /// This member's assignment, in Kafka's `ConsumerProtocolAssignment` envelope.
        assignment: Vec<u8>,
    },
    /// To [`Request::Heartbeat`].
    Heartbeat {
        /// The error code.
        code: i16,
    },
    /// To [`Request::Leave`].
    Leave {
        /// The error code.
        code: i16,
    },
}

/// What comes back over a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The answer to the oldest unanswered request.
    Reply(Reply),
    /// The connection is gone; requests in flight have no answer. A request that got none for too long ends like this.
    ///
    /// No reply to a request that was sent before this was received comes after it, not even if the request was sent when
    /// the connection was already lost; the coordinator may have acted on it all the same. What is sent afterwards goes
    /// over a new connection.
    Disconnected,
}

/// Carries a member's requests, one in flight at a time; a join may stay unanswered for the rebalance timeout.
///
/// Replies are told apart by their order and kind alone, so a link never hands out a reply of an earlier connection: see
/// [`Incoming::Disconnected`].
pub trait Link: Send {
    /// Sends a request. What goes wrong comes back as [`Incoming::Disconnected`].
    fn send(&mut self, request: &Request);

    /// The next thing that came in; waits for it up to `max_wait` (zero: does not wait).
    fn receive(&mut self, max_wait: Duration) -> Option<Incoming>;

    /// Ends a running or the next [`Link::receive`] from another thread.
    fn waker(&self) -> std::task::Waker;
}
