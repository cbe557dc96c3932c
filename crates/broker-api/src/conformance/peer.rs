//! A group member driven by hand: one request after the other, codes as they come.

use std::sync::Arc;
use std::time::Duration;

use super::bench::{Bench, LIMIT};
use crate::Member;
use crate::membership::{Incoming, Link, MemberInfo, Reply, Request, code};

/// A member and what it was told last.
pub(super) struct Peer {
    link: Box<dyn Link>,
    group: Arc<str>,
    pub(super) instance_id: Option<Arc<str>>,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    pub(super) protocol: Arc<str>,
    pub(super) metadata: Vec<u8>,
    pub(super) member_id: Arc<str>,
    pub(super) generation: i32,
    pub(super) leader: bool,
    pub(super) skip_assignment: bool,
    pub(super) members: Vec<MemberInfo>,
    pub(super) assignment: Vec<u8>,
}

/// What leaders give to a member here: something that tells whose it is.
pub(super) fn assignment_for(metadata: &[u8]) -> Vec<u8> {
    [b"for ", metadata].concat()
}

impl Peer {
    /// A member that has not joined; its user data is its name.
    #[track_caller]
    pub(super) fn new(b: &mut Bench<'_>, group: &str, name: &str) -> Self {
        let mut peer = Self {
            link: b.broker().group_link(group).expect("a link"),
            group: group.into(),
            instance_id: None,
            session_timeout: Duration::from_secs(30),
            rebalance_timeout: Duration::from_secs(20),
            protocol: "millpond-1".into(),
            metadata: name.as_bytes().to_vec(),
            member_id: "".into(),
            generation: -1,
            leader: false,
            skip_assignment: false,
            members: Vec::new(),
            assignment: Vec::new(),
        };
        peer.find(b);
        peer
    }

    /// The same as a static member, which is named by its user data.
    pub(super) fn fixed(mut self) -> Self {
        self.instance_id = Some(String::from_utf8_lossy(&self.metadata).into());
        self
    }

    pub(super) fn with_timeouts(mut self, session: u64, rebalance: u64) -> Self {
        self.session_timeout = Duration::from_millis(session);
        self.rebalance_timeout = Duration::from_millis(rebalance);
        self
    }

    /// As whom it commits.
    pub(super) fn member(&self) -> Member {
        Member {
            group: self.group.clone(),
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
            generation: self.generation,
        }
    }

    /// Finds the coordinator; a fresh cluster takes its time.
    #[track_caller]
    fn find(&mut self, b: &mut Bench<'_>) {
        for _ in 0..1_000 {
            self.link.send(&Request::FindCoordinator);
            match self.incoming(b) {
                Incoming::Reply(Reply::Coordinator { code: code::NONE }) => return,
                Incoming::Reply(Reply::Coordinator { .. }) | Incoming::Disconnected => b.breathe(),
                Incoming::Reply(other) => panic!("{other:?}"),
            }
        }
        panic!("no coordinator");
    }

    #[track_caller]
    fn incoming(&mut self, b: &mut Bench<'_>) -> Incoming {
        let (link, mut got) = (&mut self.link, None);
        b.until("a reply", &mut |_| {
            got = link.receive(Duration::ZERO);
            Ok(got.is_some())
        });
        got.expect("until then")
    }

    /// The answer to `request`, which has been sent. It is sent again when the coordinator moved.
    #[track_caller]
    fn answer(&mut self, b: &mut Bench<'_>, request: &Request) -> Reply {
        for _ in 0..1_000 {
            let reply = match self.incoming(b) {
                Incoming::Reply(reply) => reply,
                Incoming::Disconnected => panic!("disconnected"),
            };
            match code_of(&reply) {
                code::COORDINATOR_LOAD_IN_PROGRESS | code::COORDINATOR_NOT_AVAILABLE | code::NOT_COORDINATOR => {
                    b.breathe();
                    self.find(b);
                    self.link.send(request);
                }
                _ => return reply,
            }
        }
        panic!("the coordinator does not settle");
    }

    #[track_caller]
    fn ask(&mut self, b: &mut Bench<'_>, request: &Request) -> Reply {
        self.link.send(request);
        self.answer(b, request)
    }

    fn join_request(&self) -> Request {
        Request::Join {
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
            session_timeout: self.session_timeout,
            rebalance_timeout: self.rebalance_timeout,
            protocol: self.protocol.clone(),
            metadata: self.metadata.clone(),
        }
    }

    /// Sends the join as it stands and waits for the answer.
    #[track_caller]
    pub(super) fn join_once(&mut self, b: &mut Bench<'_>) -> i16 {
        let request = self.join_request();
        self.link.send(&request);
        self.end_join(b)
    }

    /// Joins, with an id if one is needed.
    #[track_caller]
    pub(super) fn join(&mut self, b: &mut Bench<'_>) -> i16 {
        match self.join_once(b) {
            code::MEMBER_ID_REQUIRED => self.join_once(b),
            code => code,
        }
    }

    /// Makes the join pending: it is answered when the group is complete.
    #[track_caller]
    pub(super) fn begin_join(&mut self, b: &mut Bench<'_>) {
        if self.member_id.is_empty() && self.instance_id.is_none() {
            assert_eq!(self.join_once(b), code::MEMBER_ID_REQUIRED);
        }
        self.link.send(&self.join_request());
    }

    /// Waits for the answer to a pending join.
    #[track_caller]
    pub(super) fn end_join(&mut self, b: &mut Bench<'_>) -> i16 {
        let request = self.join_request();
        match self.answer(b, &request) {
            Reply::Join { code: code::NONE, generation, member_id, leader, skip_assignment, members } => {
                (self.generation, self.member_id, self.leader) = (generation, member_id, leader);
                (self.skip_assignment, self.members) = (skip_assignment, members);
                code::NONE
            }
            Reply::Join { code, member_id, .. } => {
                if code == code::MEMBER_ID_REQUIRED {
                    self.member_id = member_id;
                }
                code
            }
            other => panic!("{other:?}"),
        }
    }

    fn sync_request(&self, assignments: Vec<(Arc<str>, Vec<u8>)>) -> Request {
        Request::Sync {
            generation: self.generation,
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
            assignments,
        }
    }

    /// Sends a sync; of a leader with [`assignment_for`] everybody.
    pub(super) fn begin_sync(&mut self) {
        let of = |m: &MemberInfo| (m.member_id.clone(), assignment_for(&m.metadata));
        let assignments = if self.leader { self.members.iter().map(of).collect() } else { Vec::new() };
        self.link.send(&self.sync_request(assignments));
    }

    /// Waits for the answer to a sync.
    #[track_caller]
    pub(super) fn end_sync(&mut self, b: &mut Bench<'_>) -> i16 {
        match self.incoming(b) {
            Incoming::Reply(Reply::Sync { code, assignment }) => {
                self.assignment = assignment;
                code
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn sync(&mut self, b: &mut Bench<'_>) -> i16 {
        self.begin_sync();
        self.end_sync(b)
    }

    /// A sync with these assignments.
    #[track_caller]
    pub(super) fn sync_with(&mut self, b: &mut Bench<'_>, assignments: Vec<(Arc<str>, Vec<u8>)>) -> i16 {
        let request = self.sync_request(assignments);
        self.link.send(&request);
        self.end_sync(b)
    }

    /// Whether something has come in that nobody waited for; nothing may be in flight.
    pub(super) fn hears(&mut self, b: &mut Bench<'_>, time: Duration) -> Option<Incoming> {
        let (link, mut got) = (&mut self.link, None);
        let _ = b.env().until(time, &mut |_| {
            got = got.take().or_else(|| link.receive(Duration::ZERO));
            Ok(got.is_some())
        });
        got
    }

    #[track_caller]
    pub(super) fn heartbeat(&mut self, b: &mut Bench<'_>) -> i16 {
        let request = Request::Heartbeat {
            generation: self.generation,
            member_id: self.member_id.clone(),
            instance_id: self.instance_id.clone(),
        };
        code_of(&self.ask(b, &request))
    }

    #[track_caller]
    pub(super) fn leave(&mut self, b: &mut Bench<'_>) -> i16 {
        let request = Request::Leave { member_id: self.member_id.clone(), instance_id: self.instance_id.clone() };
        code_of(&self.ask(b, &request))
    }

    /// Heartbeats until the answer is `code`.
    #[track_caller]
    pub(super) fn await_heartbeat(&mut self, b: &mut Bench<'_>, code: i16) {
        let end = b.env().clock().now() + LIMIT;
        let mut last = self.heartbeat(b);
        while last != code {
            assert!(b.env().clock().now() < end, "heartbeats answer {last}, not {code}");
            b.breathe();
            last = self.heartbeat(b);
        }
    }
}

fn code_of(reply: &Reply) -> i16 {
    match reply {
        Reply::Coordinator { code }
        | Reply::Join { code, .. }
        | Reply::Sync { code, .. }
        | Reply::Heartbeat { code }
        | Reply::Leave { code } => *code,
    }
}

/// Brings the peers, which are all members of a group, into one new generation with an assignment each.
#[track_caller]
pub(super) fn rebalance(b: &mut Bench<'_>, peers: &mut [&mut Peer]) {
    join_all(b, peers);
    for peer in &mut *peers {
        peer.begin_sync();
    }
    for peer in &mut *peers {
        assert_eq!(peer.end_sync(b), code::NONE);
        assert_eq!(peer.assignment, assignment_for(&peer.metadata));
    }
}

/// The first half of [`rebalance`]: all have joined, none has synced.
#[track_caller]
pub(super) fn join_all(b: &mut Bench<'_>, peers: &mut [&mut Peer]) {
    if peers.len() > 1 && peers.iter().all(|p| p.generation < 0) {
        rebalance(b, &mut peers[..1]);
    }
    // A newcomer or the leader makes the group wait for everybody; a follower alone would not.
    let mut order: Vec<_> = (0..peers.len()).collect();
    order.sort_by_key(|&i| (peers[i].generation >= 0, !peers[i].leader));
    for (turn, &i) in order.iter().enumerate() {
        // Requests of several connections overtake each other: whoever is a member waits until it hears of the rebalance.
        if turn > 0 && peers[i].generation >= 0 {
            peers[i].await_heartbeat(b, code::REBALANCE_IN_PROGRESS);
        }
        peers[i].begin_join(b);
    }
    for peer in &mut *peers {
        assert_eq!(peer.end_join(b), code::NONE);
    }
    assert!(peers.iter().all(|p| p.generation == peers[0].generation), "one generation");
    assert_eq!(peers.iter().filter(|p| p.leader).count(), 1, "one leader");
}

/// A group of one member with an assignment.
#[track_caller]
pub(super) fn alone(b: &mut Bench<'_>) -> Peer {
    let group = b.name("group");
    let mut peer = Peer::new(b, &group, "a");
    rebalance(b, &mut [&mut peer]);
    peer
}

/// A group of two members with assignments: the leader, and a follower.
#[track_caller]
pub(super) fn pair(b: &mut Bench<'_>) -> [Peer; 2] {
    let group = b.name("group");
    let (mut one, mut two) = (Peer::new(b, &group, "a"), Peer::new(b, &group, "b"));
    rebalance(b, &mut [&mut one, &mut two]);
    if one.leader { [one, two] } else { [two, one] }
}

/// Lets time pass while these members send heartbeats, whatever the answers.
#[track_caller]
pub(super) fn pass_alive(b: &mut Bench<'_>, seconds: u64, peers: &mut [&mut Peer]) {
    for _ in 0..seconds {
        b.pass(Duration::from_secs(1));
        for peer in &mut *peers {
            let _ = peer.heartbeat(b);
        }
    }
}
