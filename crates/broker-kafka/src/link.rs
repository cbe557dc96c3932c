//! A member's connection to its group's coordinator, on a thread of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    SyncGroupRequest,
};
use kafka_protocol::protocol::StrBytes;
use millpond_broker_api::membership::{Incoming, Link, MemberInfo, Reply, Request, code};
use millpond_broker_api::{Error, ErrorKind, Result};

use crate::coordinators::{Coordinator, Coordinators};
use crate::deadline::Deadline;
use crate::error;
use crate::settings::WireSettings;
use crate::wire::{Cluster, Interrupt, To, millis, text};

#[cfg(test)]
mod tests;

/// A link. Requests are handed to its thread, which ends when the link is dropped, also in the middle of a call.
#[derive(Debug)]
pub(crate) struct KafkaLink {
    shared: Arc<Shared>,
    interrupt: Arc<Interrupt>,
}

/// What the link and its thread have in common.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    outgoing: VecDeque<Request>,
    incoming: VecDeque<Incoming>,
    /// The connection is lost, and the owner has not heard of it: what it sends meanwhile gets no answer.
    is_lost: bool,
    is_woken: bool,
    is_closed: bool,
}

impl KafkaLink {
    pub(crate) fn new(settings: Arc<WireSettings>, coordinators: Arc<Coordinators>, group: &str) -> Result<Self> {
        let (shared, interrupt) = (Arc::<Shared>::default(), Arc::<Interrupt>::default());
        let cluster = Cluster::interruptible(settings, interrupt.clone());
        let carrier = Carrier {
            shared: shared.clone(),
            cluster,
            coordinators,
            group: group.to_owned(),
            patience: Patience::default(),
            protocol: Arc::from(""),
            trouble: None,
        };
        let spawned = std::thread::Builder::new().name("millpond-group".to_owned()).spawn(|| carrier.run());
        match spawned {
            Ok(_) => Ok(Self { shared, interrupt }),
            Err(e) => {
                Err(Error::new(ErrorKind::Fatal, "start the thread of a group").with("group", group).caused_by(e))
            }
        }
    }
}

impl Link for KafkaLink {
    fn send(&mut self, request: &Request) {
        let mut state = self.shared.lock();
        if !state.is_lost {
            state.outgoing.push_back(request.clone());
            self.shared.changed.notify_all();
        }
    }

    fn receive(&mut self, max_wait: Duration) -> Option<Incoming> {
        let deadline = Deadline::after(max_wait);
        let mut state = self.shared.lock();
        loop {
            if let Some(incoming) = state.incoming.pop_front() {
                state.is_lost &= incoming != Incoming::Disconnected;
                return Some(incoming);
            }
            if std::mem::take(&mut state.is_woken) || deadline.is_over() {
                return None;
            }
            state = self.shared.wait(state, &deadline);
        }
    }

    fn waker(&self) -> Waker {
        self.shared.clone().into()
    }
}

impl Drop for KafkaLink {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        self.interrupt.set_off();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>, deadline: &Deadline) -> MutexGuard<'s, State> {
        let waited = self.changed.wait_timeout(state, deadline.left());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The next request; `None` when the link is dropped.
    fn next(&self) -> Option<Request> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(request) = state.outgoing.pop_front() {
                return Some(request);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, unless the link is dropped.
    fn pause(&self, time: Duration) {
        let deadline = Deadline::after(time);
        let mut state = self.lock();
        while !state.is_closed && !deadline.is_over() {
            state = self.wait(state, &deadline);
        }
    }

    fn arrived(&self, reply: Reply) {
        self.lock().incoming.push_back(Incoming::Reply(reply));
        self.changed.notify_all();
    }

    fn lost(&self) {
        let mut state = self.lock();
        state.outgoing.clear();
        state.incoming.push_back(Incoming::Disconnected);
        state.is_lost = true;
        self.changed.notify_all();
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.lock().is_woken = true;
        self.changed.notify_all();
    }
}

/// The least time from a failure to the next try, however fast the owner asks.
const BREATH: Duration = Duration::from_millis(50);

/// The thread's side: takes requests, calls the coordinator, hands back what comes.
struct Carrier {
    shared: Arc<Shared>,
    cluster: Cluster,
    coordinators: Arc<Coordinators>,
    group: String,
    patience: Patience,
    /// The protocol of the last join.
    protocol: Arc<str>,
    /// What was last warned of, so that a broker that stays away is reported once.
    trouble: Option<(&'static str, ErrorKind)>,
}

/// What the member's last join said of its time-outs.
#[derive(Clone, Copy, Debug)]
struct Patience {
    session: Duration,
    rebalance: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { session: Duration::MAX, rebalance: Duration::ZERO }
    }
}

impl Carrier {
    fn run(mut self) {
        self.coordinators.tell(&self.group, Coordinator::Sought);
        while let Some(request) = self.shared.next() {
            match self.answer(&request) {
                Ok(reply) => {
                    self.trouble = None;
                    self.shared.arrived(reply);
                }
                Err(e) => self.fail(&request, &e),
            }
        }
        self.coordinators.forget(&self.group);
    }

    /// Codes that the machine knows become an answer; everything else is a lost connection.
    fn fail(&mut self, request: &Request, error: &Error) {
        self.cluster.forget_coordinator(&self.group);
        self.coordinators.tell(&self.group, Coordinator::Sought);
        let trouble = Some((error.op(), error.kind()));
        if trouble != self.trouble && !self.shared.lock().is_closed {
            tracing::warn!(group = %self.group, ?error, "no answer of the group's coordinator");
            self.trouble = trouble;
        }
        match error::code_of(error).filter(|code| is_final(*code)) {
            Some(code) => self.shared.arrived(request.refusal(code)),
            None => {
                self.shared.lost();
                self.shared.pause(BREATH);
            }
        }
    }

    fn answer(&mut self, request: &Request) -> Result<Reply> {
        match request {
            Request::FindCoordinator => self.find(),
            Request::Join { .. } => self.join(request),
            Request::Sync { .. } => self.sync(request),
            Request::Heartbeat { generation, member_id, instance_id } => {
                let request = HeartbeatRequest::default()
                    .with_group_id(self.group_id())
                    .with_generation_id(*generation)
                    .with_member_id(text(member_id))
                    .with_group_instance_id(instance_id.as_deref().map(text));
                // A silent coordinator is given up while there is time to find another within the session.
                let limit = (self.patience.session / 3).min(self.cluster.settings().request_limit);
                let answer = self.cluster.call(To::Coordinator(&self.group), Deadline::after(limit), |_| request)?;
                Ok(Reply::Heartbeat { code: answer.error_code })
            }
            Request::Leave { member_id, instance_id } => {
                let member = MemberIdentity::default()
                    .with_member_id(text(member_id))
                    .with_group_instance_id(instance_id.as_deref().map(text));
                let request = LeaveGroupRequest::default().with_group_id(self.group_id()).with_members(vec![member]);
                let deadline = self.cluster.request_deadline();
                let answer = self.cluster.call(To::Coordinator(&self.group), deadline, |_| request)?;
                Ok(Reply::Leave { code: leave_code(&answer) })
            }
        }
    }

    /// Finds the coordinator, and connects to it.
    fn find(&mut self) -> Result<Reply> {
        let code = self.cluster.find_coordinator(&self.group, self.cluster.request_deadline())?;
        if code == code::NONE {
            self.cluster.connect(To::Coordinator(&self.group), &self.cluster.request_deadline())?;
            if let Some((node, address)) = self.cluster.coordinator(&self.group) {
                self.coordinators.tell(&self.group, Coordinator::Found(node, address.clone()));
            }
        }
        Ok(Reply::Coordinator { code })
    }

    fn join(&mut self, request: &Request) -> Result<Reply> {
        let Request::Join { member_id, instance_id, session_timeout, rebalance_timeout, protocol, metadata } = request
        else {
            return Err(misuse());
        };
        self.patience = Patience { session: *session_timeout, rebalance: *rebalance_timeout };
        self.protocol = protocol.clone();
        let offered =
            JoinGroupRequestProtocol::default().with_name(text(protocol)).with_metadata(metadata.clone().into());
        let request = JoinGroupRequest::default()
            .with_group_id(self.group_id())
            .with_session_timeout_ms(millis(*session_timeout))
            .with_rebalance_timeout_ms(millis(*rebalance_timeout))
            .with_member_id(text(member_id))
            .with_group_instance_id(instance_id.as_deref().map(text))
            .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
            .with_protocols(vec![offered]);
        let deadline = self.held_back();
        let answer = self.cluster.call(To::Coordinator(&self.group), deadline, |_| request)?;
        Ok(joined(answer))
    }

    fn sync(&mut self, request: &Request) -> Result<Reply> {
        let Request::Sync { generation, member_id, instance_id, assignments } = request else { return Err(misuse()) };
        let assignment = |(member, bytes): &(Arc<str>, Vec<u8>)| {
            SyncGroupRequestAssignment::default().with_member_id(text(member)).with_assignment(bytes.clone().into())
        };
        let (protocol_type, protocol) = (StrBytes::from_static_str(PROTOCOL_TYPE), text(&self.protocol));
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(*generation)
            .with_member_id(text(member_id))
            .with_group_instance_id(instance_id.as_deref().map(text))
            .with_assignments(assignments.iter().map(assignment).collect());
        let deadline = self.held_back();
        let of_version = |version| match version {
            ..5 => request,
            _ => request.with_protocol_type(Some(protocol_type)).with_protocol_name(Some(protocol)),
        };
        let answer = self.cluster.call(To::Coordinator(&self.group), deadline, of_version)?;
        Ok(Reply::Sync { code: answer.error_code, assignment: answer.assignment.to_vec() })
    }

    /// When an answer is given up that waits for other members.
    fn held_back(&self) -> Deadline {
        Deadline::after(self.patience.rebalance.saturating_add(self.cluster.settings().request_limit))
    }

    fn group_id(&self) -> GroupId {
        GroupId(text(&self.group))
    }
}

/// The type that consumers have, so that stock tools can look into the group.
const PROTOCOL_TYPE: &str = "consumer";

fn misuse() -> Error {
    Error::new(ErrorKind::Fatal, "call a coordinator")
}

/// Codes of a broken-off connection that no repetition mends.
fn is_final(code: i16) -> bool {
    matches!(code, code::GROUP_AUTHORIZATION_FAILED | code::UNSUPPORTED_VERSION | code::SASL_AUTHENTICATION_FAILED)
}

fn joined(answer: JoinGroupResponse) -> Reply {
    let member = |m: kafka_protocol::messages::join_group_response::JoinGroupResponseMember| MemberInfo {
        member_id: Arc::from(m.member_id.as_str()),
        instance_id: m.group_instance_id.as_deref().map(Arc::from),
        metadata: m.metadata.to_vec(),
    };
    Reply::Join {
        code: answer.error_code,
        generation: answer.generation_id,
        leader: answer.error_code == code::NONE && answer.leader == answer.member_id,
        skip_assignment: answer.skip_assignment,
        member_id: Arc::from(answer.member_id.as_str()),
        members: answer.members.into_iter().map(member).collect(),
    }
}

/// One member leaves at a time: its own code, unless the whole request was refused.
fn leave_code(answer: &LeaveGroupResponse) -> i16 {
    match answer.members.first() {
        Some(member) if answer.error_code == code::NONE => member.error_code,
        _ => answer.error_code,
    }
}
