//! The group member as a state machine without I/O: events in, commands out, time as an argument.

use std::sync::Arc;
use std::time::Duration;

use super::{Command, Event, MemberInfo, Reply, Request, Settings, State, Why, code};

/// A member of a consumer group (Kafka's classic protocol, KIP-62, KIP-345, KIP-394, KIP-814).
///
/// A driver hands it what happens and does what it says. Everything follows from the events and their times.
///
/// # Contract
///
/// * One request is in flight at a time; requests are not repeated before their answer. Time-outs of requests are the
///   [`Link`](super::Link)'s.
/// * On REBALANCE_IN_PROGRESS the workers commit first ([`Command::Prepare`]), then the member joins.
/// * A member without a successful heartbeat for a session gives up by itself.
/// * After [`Command::Gone`] there is no command.
///
/// | state | event → state, command |
/// |---|---|
/// | Finding | coordinator → Joining, or back to Stable or Preparing · error → again after a pause |
/// | Joining | 79 → again with the id · leader → Syncing, `Assign` · else → Syncing |
/// | Syncing | answer → Stable, `NewGeneration` · 27 → Joining |
/// | Stable | 27 or `Metadata` → Preparing, `Prepare` |
/// | Preparing | `Committed` or its deadline → Joining |
/// | any | 14, 15, 16, `Disconnected` → Finding, the membership is kept · 22, 25, session over → `Lost`, Finding · 82, 23, 26 → `Lost`, `Gone` · `Leave` → Leaving → Gone |
///
/// # Threading
///
/// Plain data; one owner.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    state: State,
    /// Where [`State::Finding`] leads to: `Joining`, or `Stable` or `Preparing` of a membership that is kept.
    resume: State,
    metadata: Vec<u8>,
    /// The user data changed after the last join was sent.
    unsent_metadata: bool,
    member_id: Arc<str>,
    /// The generation of the membership; -1 without one.
    generation: i32,
    is_leader: bool,
    /// What the leader brings to its sync; `None` until the assignor has answered.
    assignments: Option<Vec<(Arc<str>, Vec<u8>)>>,
    in_flight: Option<InFlight>,
    coordinator_known: bool,
    now: Duration,
    /// When the request of the current state is to be sent; `None`: after an event that is awaited.
    due: Option<Duration>,
    /// When the membership is given up.
    session_until: Duration,
    /// When the last request was sent whose answer said that no rebalance is under way.
    heard: Option<Duration>,
    /// When the current state is left without what it waits for (`Preparing`, `Leaving`).
    patience_until: Duration,
    last_error: Option<i16>,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// Which reply answers it.
    answer: Kind,
    sent: Duration,
    /// It belongs to a membership that is lost: its answer says nothing.
    stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Coordinator,
    Join,
    Sync,
    Heartbeat,
    Leave,
}

/// What an error code asks for, wherever it comes.
enum Verdict {
    Fine,
    FindAgain,
    Unknown { keep_id: bool },
    Final(Why),
    Rebalance,
    IdRequired,
}

fn verdict(code: i16) -> Verdict {
    match code {
        code::NONE => Verdict::Fine,
        code::REBALANCE_IN_PROGRESS => Verdict::Rebalance,
        code::MEMBER_ID_REQUIRED => Verdict::IdRequired,
        // The id is good: joining without it would leave a ghost behind that the next rebalance waits for.
        code::ILLEGAL_GENERATION => Verdict::Unknown { keep_id: true },
        code::UNKNOWN_MEMBER_ID => Verdict::Unknown { keep_id: false },
        code::FENCED_INSTANCE_ID => Verdict::Final(Why::Twin),
        code::INCONSISTENT_GROUP_PROTOCOL
        | code::INVALID_SESSION_TIMEOUT
        | code::INVALID_GROUP_ID
        | code::GROUP_AUTHORIZATION_FAILED
        | code::UNSUPPORTED_VERSION
        | code::SASL_AUTHENTICATION_FAILED
        | code::GROUP_MAX_SIZE_REACHED => Verdict::Final(Why::Refused { code }),
        // 14, 15, 16, and what is not known: the coordinator is looked for again after a pause.
        _ => Verdict::FindAgain,
    }
}

impl Machine {
    /// A member that has not joined yet; `metadata` is its subscription. The first [`Event::Tick`] sets it going.
    pub fn new(settings: Settings, metadata: Vec<u8>) -> Self {
        Self {
            settings,
            state: State::Finding,
            resume: State::Joining,
            metadata,
            unsent_metadata: false,
            member_id: Arc::from(""),
            generation: -1,
            is_leader: false,
            assignments: None,
            in_flight: None,
            coordinator_known: false,
            now: Duration::ZERO,
            due: Some(Duration::ZERO),
            session_until: Duration::MAX,
            heard: None,
            patience_until: Duration::MAX,
            last_error: None,
        }
    }

    /// Where the member is.
    pub fn state(&self) -> State {
        self.state
    }

    /// The error code of the last answer that was refused, until one is not: for messages while a member keeps trying.
    pub fn last_error(&self) -> Option<i16> {
        self.last_error
    }

    /// When the next [`Event::Tick`] is due at the latest, on the clock that [`Machine::handle`] is given. `Duration::MAX`
    /// once the member is gone.
    pub fn deadline(&self) -> Duration {
        if self.state == State::Gone {
            return Duration::MAX;
        }
        let mut at = self.now.saturating_add(self.settings.heartbeat_interval.max(Duration::from_millis(1)));
        if let (None, Some(due)) = (self.in_flight, self.due) {
            at = at.min(due);
        }
        if self.is_member() {
            at = at.min(self.session_until);
        }
        if self.is_preparing() || self.state == State::Leaving {
            at = at.min(self.patience_until);
        }
        at
    }

    /// Until when nobody else can have been given this member's work, on the clock that [`Machine::handle`] is given: a
    /// rebalance that removes it begins after the last answer that knew of none, and then waits for the session or the
    /// rebalance timeout. `None` without a membership. What is written later and not fenced by the broker (that is,
    /// outside of transactions) may be a zombie's.
    pub fn exclusive_until(&self) -> Option<Duration> {
        let patience = self.settings.session_timeout.min(self.settings.rebalance_timeout);
        self.heard.filter(|_| self.generation >= 0).map(|heard| heard.saturating_add(patience))
    }

    /// Takes an event at a time (monotonic, any start) and appends what is to be done.
    pub fn handle(&mut self, now: Duration, event: Event, out: &mut Vec<Command>) {
        if self.state == State::Gone {
            return;
        }
        self.now = self.now.max(now);
        // What time has done comes first: an answer that arrives after its session is over is too late.
        self.pass_time(out);
        match event {
            _ if self.state == State::Gone => {}
            Event::Tick => {}
            Event::Reply(reply) => self.reply(reply, out),
            Event::Disconnected => self.disconnected(out),
            Event::Assigned(assignments) => self.assigned(assignments),
            Event::Committed => self.committed(),
            Event::Metadata(metadata) => self.new_metadata(metadata, out),
            Event::Leave => self.leave(out),
        }
        self.send_what_is_due(out);
    }

    fn is_member(&self) -> bool {
        self.generation >= 0 && self.state != State::Leaving
    }

    fn is_preparing(&self) -> bool {
        self.state == State::Preparing || (self.state == State::Finding && self.resume == State::Preparing)
    }

    fn pass_time(&mut self, out: &mut Vec<Command>) {
        if self.is_member() && self.now >= self.session_until {
            // The id is kept: if the coordinator knows it still, no ghost is left behind; else it answers 25.
            return self.lose(Why::Session, true, out);
        }
        if self.is_preparing() && self.now >= self.patience_until {
            self.committed();
        }
        if self.state == State::Leaving && self.now >= self.patience_until {
            self.gone(out);
        }
    }

    fn send_what_is_due(&mut self, out: &mut Vec<Command>) {
        if self.in_flight.is_some() || self.due.is_none_or(|due| self.now < due) {
            return;
        }
        let request = match self.state {
            State::Finding => Request::FindCoordinator,
            State::Leaving if !self.coordinator_known => Request::FindCoordinator,
            State::Joining => self.join_request(),
            State::Syncing => Request::Sync {
                generation: self.generation,
                member_id: self.member_id.clone(),
                instance_id: self.settings.instance_id.clone(),
                assignments: self.assignments.take().unwrap_or_default(),
            },
            State::Stable | State::Preparing => Request::Heartbeat {
                generation: self.generation,
                member_id: self.member_id.clone(),
                instance_id: self.settings.instance_id.clone(),
            },
            State::Leaving => {
                Request::Leave { member_id: self.member_id.clone(), instance_id: self.settings.instance_id.clone() }
            }
            State::Lost | State::Gone => return,
        };
        self.due = None;
        let answer = match request {
            Request::FindCoordinator => Kind::Coordinator,
            Request::Join { .. } => Kind::Join,
            Request::Sync { .. } => Kind::Sync,
            Request::Heartbeat { .. } => Kind::Heartbeat,
            Request::Leave { .. } => Kind::Leave,
        };
        self.in_flight = Some(InFlight { answer, sent: self.now, stale: false });
        out.push(Command::Send(request));
    }

    fn join_request(&mut self) -> Request {
        self.unsent_metadata = false;
        Request::Join {
            member_id: self.member_id.clone(),
            instance_id: self.settings.instance_id.clone(),
            session_timeout: self.settings.session_timeout,
            rebalance_timeout: self.settings.rebalance_timeout,
            protocol: self.settings.protocol.clone(),
            metadata: self.metadata.clone(),
        }
    }

    fn reply(&mut self, reply: Reply, out: &mut Vec<Command>) {
        let (kind, code) = describe(&reply);
        let Some(flight) = self.in_flight.take_if(|flight| flight.answer == kind) else { return };
        if self.state == State::Leaving {
            return self.reply_while_leaving(reply, out);
        }
        if flight.stale {
            return;
        }
        self.last_error = (code != code::NONE).then_some(code);
        match (verdict(code), reply) {
            (Verdict::Final(why), _) => self.lose(why, true, out),
            (Verdict::Unknown { keep_id }, _) => self.unknown(keep_id, out),
            (Verdict::Fine, Reply::Coordinator { .. }) => self.found(out),
            (_, Reply::Coordinator { .. }) | (Verdict::FindAgain, _) => self.find_again(),
            (
                Verdict::Fine,
                Reply::Join { generation: generation @ 0.., member_id, leader, skip_assignment, members, .. },
            ) => {
                (self.generation, self.member_id, self.is_leader) = (generation, member_id, leader);
                self.joined(leader && !skip_assignment, members, out);
            }
            (Verdict::IdRequired, Reply::Join { member_id, .. }) => {
                let first = self.member_id.is_empty();
                self.member_id = member_id;
                self.join_after(if first { Duration::ZERO } else { self.settings.retry_pause });
            }
            (_, Reply::Join { .. }) => self.join_after(self.settings.retry_pause),
            (Verdict::Fine, Reply::Sync { assignment, .. }) => self.synced(flight.sent, assignment, out),
            (_, Reply::Sync { .. }) => self.join_after(Duration::ZERO),
            (verdict, Reply::Heartbeat { .. }) => self.heart_beat(flight.sent, verdict, out),
            (_, Reply::Leave { .. }) => {}
        }
    }

    fn found(&mut self, out: &mut Vec<Command>) {
        self.coordinator_known = true;
        self.go(self.resume);
        self.due = Some(self.now);
        self.follow_up(out);
    }

    fn joined(&mut self, assign: bool, members: Vec<MemberInfo>, out: &mut Vec<Command>) {
        self.session_until = self.now.saturating_add(self.settings.session_timeout);
        self.go(State::Syncing);
        self.assignments = None;
        self.due = if assign {
            out.push(Command::Assign(members));
            None
        } else {
            Some(self.now)
        };
    }

    fn synced(&mut self, sent: Duration, assignment: Vec<u8>, out: &mut Vec<Command>) {
        self.alive(sent);
        self.heard = Some(sent);
        self.go(State::Stable);
        self.due = Some(self.now.saturating_add(self.settings.heartbeat_interval));
        let (generation, member_id, is_leader) = (self.generation, self.member_id.clone(), self.is_leader);
        out.push(Command::NewGeneration { generation, member_id, assignment, is_leader });
        self.follow_up(out);
    }

    fn heart_beat(&mut self, sent: Duration, verdict: Verdict, out: &mut Vec<Command>) {
        self.alive(sent);
        if matches!(verdict, Verdict::Fine) {
            self.heard = Some(sent);
        }
        if matches!(self.state, State::Stable | State::Preparing) {
            self.due = Some(sent.saturating_add(self.settings.heartbeat_interval).max(self.now));
        }
        if self.state == State::Stable && matches!(verdict, Verdict::Rebalance) {
            self.prepare(out);
        }
    }

    /// The coordinator's clock of the session began to run when it took the request: not before that was sent.
    fn alive(&mut self, sent: Duration) {
        self.session_until = self.session_until.max(sent.saturating_add(self.settings.session_timeout));
    }

    fn reply_while_leaving(&mut self, reply: Reply, out: &mut Vec<Command>) {
        match reply {
            Reply::Leave { .. } => return self.gone(out),
            Reply::Coordinator { code: code::NONE } => self.coordinator_known = true,
            Reply::Coordinator { .. } => return self.gone(out),
            // A join that was on its way may just have given the id to leave with.
            Reply::Join { member_id, .. } if !member_id.is_empty() => self.member_id = member_id,
            Reply::Join { .. } | Reply::Sync { .. } | Reply::Heartbeat { .. } => {}
        }
        if self.member_id.is_empty() {
            self.gone(out);
        } else {
            self.due = Some(self.now);
        }
    }

    fn unknown(&mut self, keep_id: bool, out: &mut Vec<Command>) {
        if self.generation >= 0 {
            return self.lose(Why::Unknown, keep_id, out);
        }
        // There is nothing to lose: a former id is not known any more.
        let forgotten = !keep_id && !self.member_id.is_empty();
        if forgotten && self.state == State::Joining {
            self.member_id = Arc::from("");
            self.join_after(Duration::ZERO);
        } else {
            self.find_again();
        }
    }

    fn disconnected(&mut self, out: &mut Vec<Command>) {
        self.in_flight = None;
        self.coordinator_known = false;
        match self.state {
            State::Leaving => self.gone(out),
            _ => self.find_again(),
        }
    }

    fn assigned(&mut self, assignments: Vec<(Arc<str>, Vec<u8>)>) {
        let awaited = self.state == State::Syncing && self.in_flight.is_none() && self.due.is_none();
        if awaited {
            self.assignments = Some(assignments);
            self.due = Some(self.now);
        }
    }

    fn committed(&mut self) {
        match self.state {
            State::Preparing => self.join_after(Duration::ZERO),
            State::Finding if self.resume == State::Preparing => self.resume = State::Joining,
            _ => {}
        }
    }

    fn new_metadata(&mut self, metadata: Vec<u8>, out: &mut Vec<Command>) {
        self.metadata = metadata;
        self.unsent_metadata = true;
        self.follow_up(out);
    }

    /// User data that came while no join could carry it starts a rebalance as soon as the running one is complete.
    fn follow_up(&mut self, out: &mut Vec<Command>) {
        if self.state == State::Stable && self.unsent_metadata {
            self.prepare(out);
        }
    }

    fn prepare(&mut self, out: &mut Vec<Command>) {
        self.go(State::Preparing);
        self.patience_until = self.now.saturating_add(self.settings.prepare_time);
        out.push(Command::Prepare { deadline: self.patience_until });
    }

    fn join_after(&mut self, pause: Duration) {
        self.go(State::Joining);
        self.due = Some(self.now.saturating_add(pause));
        // The coordinator expires nobody whose join it holds, and answers when the rebalance timeout is over.
        self.session_until = self.session_until.max(self.now.saturating_add(self.settings.rebalance_timeout));
    }

    /// Looks for the coordinator after a pause. A membership is kept; an unfinished join is done again.
    fn find_again(&mut self) {
        self.coordinator_known = false;
        if self.state != State::Finding {
            self.resume = match self.state {
                State::Stable | State::Preparing => self.state,
                _ => State::Joining,
            };
            self.go(State::Finding);
        }
        self.due = Some(self.now.saturating_add(self.settings.retry_pause));
    }

    fn lose(&mut self, why: Why, keep_id: bool, out: &mut Vec<Command>) {
        self.go(State::Lost);
        self.generation = -1;
        self.is_leader = false;
        self.assignments = None;
        if !keep_id {
            self.member_id = Arc::from("");
        }
        if let Some(flight) = &mut self.in_flight {
            flight.stale = true;
        }
        out.push(Command::Lost(why));
        if why.is_final() {
            return self.gone(out);
        }
        self.go(State::Finding);
        self.resume = State::Joining;
        self.due = Some(self.now);
    }

    fn leave(&mut self, out: &mut Vec<Command>) {
        if self.state == State::Leaving {
            return;
        }
        self.go(State::Leaving);
        self.due = Some(self.now);
        self.patience_until = self.now.saturating_add(self.settings.rebalance_timeout);
        if self.member_id.is_empty() && self.in_flight.is_none() {
            self.gone(out);
        }
    }

    fn gone(&mut self, out: &mut Vec<Command>) {
        self.go(State::Gone);
        self.in_flight = None;
        self.due = None;
        out.push(Command::Gone);
    }

    fn go(&mut self, to: State) {
        let legal = self.state.may_become(to);
        debug_assert!(legal, "a member goes from {:?} to {to:?}", self.state);
        if legal {
            self.state = to;
        }
    }
}

fn describe(reply: &Reply) -> (Kind, i16) {
    match *reply {
        Reply::Coordinator { code } => (Kind::Coordinator, code),
        Reply::Join { code, .. } => (Kind::Join, code),
        Reply::Sync { code, .. } => (Kind::Sync, code),
        Reply::Heartbeat { code } => (Kind::Heartbeat, code),
        Reply::Leave { code } => (Kind::Leave, code),
    }
}
