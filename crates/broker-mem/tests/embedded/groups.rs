//! Groups by the clock: timeouts, members that wait, and what the case list cannot see from outside.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use millpond_broker_api::membership::{Incoming, Link, Reply, Request, code};
use millpond_broker_api::{Broker, CommitOutcome, Committed, Member, Stable};
use millpond_broker_mem::{EmbeddedBroker, GroupPhase, ManualClock, Options};

struct Peer {
    link: Box<dyn Link>,
    id: Arc<str>,
    instance: Option<Arc<str>>,
    generation: i32,
    session: Duration,
    rebalance: Duration,
    data: Vec<u8>,
}

impl Peer {
    fn new(broker: &EmbeddedBroker, instance: Option<&str>) -> Self {
        Self {
            link: broker.group_link("g").unwrap(),
            id: "".into(),
            instance: instance.map(Into::into),
            generation: -1,
            session: 10 * SECOND,
            rebalance: 8 * SECOND,
            data: Vec::new(),
        }
    }

    /// A member that is alone in its group, with an assignment.
    fn alone(broker: &EmbeddedBroker, instance: Option<&str>) -> Self {
        let mut peer = Self::new(broker, instance);
        peer.join();
        peer.joined();
        assert_eq!(peer.sync(&[]), Some(code::NONE));
        peer
    }

    fn send_join(&mut self) {
        let (member_id, instance_id) = (self.id.clone(), self.instance.clone());
        let (session_timeout, rebalance_timeout) = (self.session, self.rebalance);
        let (protocol, metadata) = ("p".into(), self.data.clone());
        self.link.send(&Request::Join {
            member_id,
            instance_id,
            session_timeout,
            rebalance_timeout,
            protocol,
            metadata,
        });
    }

    /// Joins, with the id that the coordinator asks for.
    fn join(&mut self) {
        self.send_join();
        if self.id.is_empty() && self.instance.is_none() {
            match self.link.receive(NOW) {
                Some(Incoming::Reply(Reply::Join { code: code::MEMBER_ID_REQUIRED, member_id, .. })) => {
                    self.id = member_id;
                }
                other => panic!("{other:?}"),
            }
            self.send_join();
        }
    }

    /// The join's answer: the code, and whether this member leads.
    fn answer(&mut self) -> Option<(i16, bool)> {
        match self.link.receive(NOW)? {
            Incoming::Reply(Reply::Join { code, generation, member_id, leader, .. }) => {
                if code == code::NONE {
                    (self.id, self.generation) = (member_id, generation);
                }
                Some((code, leader))
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn joined(&mut self) -> bool {
        let (code, leader) = self.answer().expect("an answer");
        assert_eq!(code, code::NONE);
        leader
    }

    /// Syncs; the code, if it is answered at once.
    fn sync(&mut self, assignments: &[(Arc<str>, Vec<u8>)]) -> Option<i16> {
        let (generation, member_id, instance_id) = (self.generation, self.id.clone(), self.instance.clone());
        self.link.send(&Request::Sync { generation, member_id, instance_id, assignments: assignments.to_vec() });
        self.synced()
    }

    fn synced(&mut self) -> Option<i16> {
        match self.link.receive(NOW)? {
            Incoming::Reply(Reply::Sync { code, .. }) => Some(code),
            other => panic!("{other:?}"),
        }
    }

    fn heartbeat(&mut self) -> i16 {
        let (generation, member_id, instance_id) = (self.generation, self.id.clone(), self.instance.clone());
        self.link.send(&Request::Heartbeat { generation, member_id, instance_id });
        match self.link.receive(NOW) {
            Some(Incoming::Reply(Reply::Heartbeat { code })) => code,
            other => panic!("{other:?}"),
        }
    }

    fn member(&self) -> Member {
        let (member_id, instance_id) = (self.id.clone(), self.instance.clone());
        Member { group: "g".into(), member_id, instance_id, generation: self.generation }
    }
}

fn phase(broker: &EmbeddedBroker) -> GroupPhase {
    broker.group("g").unwrap().phase
}

/// Two members with an assignment each; the first leads.
fn two(broker: &EmbeddedBroker) -> (Peer, Peer) {
    let (mut one, mut two) = (Peer::alone(broker, None), Peer::new(broker, None));
    two.join();
    assert_eq!(one.heartbeat(), code::REBALANCE_IN_PROGRESS);
    one.join();
    assert!(one.joined() && !two.joined());
    assert_eq!((two.sync(&[]), one.sync(&[]), two.synced()), (None, Some(code::NONE), Some(code::NONE)));
    (one, two)
}

/// Lets seconds pass, with heartbeats of a member.
fn pass(clock: &ManualClock, seconds: u32, alive: &mut Peer) {
    for _ in 0..seconds {
        clock.advance(SECOND);
        alive.heartbeat();
    }
}

#[test]
fn rebalance_waits_as_long_as_its_most_patient_member() {
    let (broker, clock) = broker();
    let mut one = Peer::alone(&broker, None);
    let mut two = Peer::new(&broker, None);
    two.rebalance = 30 * SECOND;
    two.join();
    pass(&clock, 29, &mut one);
    assert_eq!((two.answer(), phase(&broker)), (None, GroupPhase::PreparingRebalance));
    clock.advance(SECOND);
    assert!(two.joined(), "the one that did not rejoin is left out");
    assert_eq!(one.heartbeat(), code::UNKNOWN_MEMBER_ID);
}

#[test]
fn id_that_was_asked_for_is_waited_for() {
    let (broker, clock) = broker();
    let (mut one, mut two) = (Peer::alone(&broker, None), Peer::new(&broker, None));
    two.session = 6 * SECOND;
    two.send_join();
    assert!(matches!(two.link.receive(NOW), Some(Incoming::Reply(Reply::Join { code: 79, .. }))));
    one.join();
    clock.advance(5 * SECOND);
    assert_eq!(one.answer(), None, "the other one is about to join");
    clock.advance(SECOND);
    assert!(one.joined());
    assert_eq!(broker.group("g").unwrap().members.len(), 1);
}

#[test]
fn empty_group_waits_for_more_members_if_it_is_told_to() {
    let (broker, clock) = broker_with(Options { initial_rebalance_delay: 3 * SECOND, ..Options::default() });
    let (mut one, mut two) = (Peer::new(&broker, None), Peer::new(&broker, None));
    one.join();
    clock.advance(2 * SECOND);
    two.join();
    clock.advance(SECOND - MS);
    assert_eq!((one.answer(), two.answer()), (None, None));
    clock.advance(MS);
    assert!(one.joined() && !two.joined());
    assert_eq!((one.generation, two.generation), (1, 1));
}

#[test]
fn commit_is_a_sign_of_life() {
    let (broker, clock) = broker();
    let mut one = Peer::alone(&broker, None);
    let mut offsets = broker.offsets().unwrap();
    for next in 0..5 {
        clock.advance(8 * SECOND);
        is_committed(&offsets.commit(&one.member(), &at(next), NOW));
    }
    assert_eq!(one.heartbeat(), code::NONE);
    clock.advance(10 * SECOND);
    let outcome = offsets.commit(&one.member(), &at(9), NOW);
    assert!(matches!(outcome, CommitOutcome::Fenced(_)), "{outcome:?}");
    assert_eq!(phase(&broker), GroupPhase::Empty);
}

#[test]
fn static_member_that_returns_before_its_sync_starts_anew() {
    let (broker, _) = broker();
    let (mut one, mut two) = (Peer::alone(&broker, Some("one")), Peer::new(&broker, Some("two")));
    two.join();
    one.join();
    assert!(one.joined() && !two.joined());
    assert_eq!((two.sync(&[]), phase(&broker)), (None, GroupPhase::CompletingRebalance));
    let mut again = Peer::new(&broker, Some("two"));
    again.join();
    assert_eq!(two.synced(), Some(code::FENCED_INSTANCE_ID), "who waited under the former id");
    assert_eq!(one.sync(&[]), Some(code::REBALANCE_IN_PROGRESS), "the assignment was for the former id");
    one.join();
    assert!(one.joined() && !again.joined());
    assert_eq!((one.generation, again.generation), (3, 3));
    let twin = again.id.clone();
    let ids: Vec<_> = broker.group("g").unwrap().members.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [one.id.clone(), twin]);
}

#[test]
fn static_member_that_waits_is_fenced_by_its_successor() {
    let (broker, _) = broker();
    let (_one, mut two) = (Peer::alone(&broker, Some("one")), Peer::new(&broker, Some("two")));
    two.join();
    assert_eq!(two.answer(), None);
    let mut again = Peer::new(&broker, Some("two"));
    again.join();
    assert_eq!(two.answer(), Some((code::FENCED_INSTANCE_ID, false)));
    assert_eq!(again.answer(), None);
}

#[test]
fn static_member_keeps_its_place_until_its_session_is_over() {
    let (broker, clock) = broker();
    let (mut one, mut two) = (Peer::alone(&broker, Some("one")), Peer::new(&broker, Some("two")));
    two.session = 20 * SECOND;
    two.join();
    pass(&clock, 1, &mut one);
    clock.advance(7 * SECOND);
    assert!(two.joined(), "one did not rejoin: another leads");
    assert_eq!(broker.group("g").unwrap().members.len(), 2, "and one is still a member");
    assert_eq!(two.sync(&[]), Some(code::NONE));
    clock.advance(3 * SECOND);
    assert_eq!(two.heartbeat(), code::REBALANCE_IN_PROGRESS, "until its session is over");
    assert_eq!(one.heartbeat(), code::UNKNOWN_MEMBER_ID);
}

#[test]
fn rebalance_without_patience_ends_with_the_session() {
    let (broker, clock) = broker();
    let mut one = Peer::new(&broker, Some("one"));
    one.rebalance = Duration::ZERO;
    one.join();
    one.joined();
    assert_eq!(one.sync(&[]), Some(code::NONE));
    let mut two = Peer::new(&broker, Some("two"));
    two.rebalance = Duration::ZERO;
    two.join();
    two.link.send(&Request::Leave { member_id: "".into(), instance_id: two.instance.clone() });
    // Nobody has joined, and the one member is static: it is waited for again and again.
    clock.advance(SECOND);
    assert_eq!(one.heartbeat(), code::REBALANCE_IN_PROGRESS);
    clock.advance(9 * SECOND);
    assert_eq!(phase(&broker), GroupPhase::PreparingRebalance);
    clock.advance(SECOND);
    assert_eq!(phase(&broker), GroupPhase::Empty);
}

#[test]
fn plain_commit_wins_over_an_earlier_transaction_that_ends_later() {
    let (broker, clock) = broker_with(Options { marker_lag: SECOND, ..Options::default() });
    let mut offsets = broker.offsets().unwrap();
    let mut producer = transactional(&broker, "tx");
    is_committed(&producer.commit(&alone("g"), &at(5), NOW));
    is_committed(&offsets.commit(&alone("g"), &at(3), NOW));
    clock.advance(SECOND);
    let committed = |next| Stable::Offsets(vec![Some(Committed { next, leader_epoch: -1, metadata: String::new() })]);
    assert_eq!(offsets.fetch_stable("g", &[("t", 0)], NOW).unwrap(), committed(3));
    is_committed(&producer.commit(&alone("g"), &at(7), NOW));
    clock.advance(SECOND);
    assert_eq!(offsets.fetch_stable("g", &[("t", 0)], NOW).unwrap(), committed(7));
}

#[test]
fn long_silence_happens_in_its_order() {
    let (broker, clock) = broker();
    let (mut one, mut two) = two(&broker);
    let mut producer = transactional(&broker, "tx");
    send(&mut *producer, 0, "a");
    producer.flush(NOW).unwrap();
    // Nobody calls for an hour: the transaction times out, the members' sessions end, the group is empty.
    clock.advance(3_600 * SECOND);
    assert_eq!(phase(&broker), GroupPhase::Empty);
    assert_eq!(one.heartbeat(), code::UNKNOWN_MEMBER_ID);
    assert_eq!(two.heartbeat(), code::UNKNOWN_MEMBER_ID);
    let outcome = producer.commit(&alone("g"), &[], NOW);
    assert!(matches!(outcome, CommitOutcome::Fenced(_)), "{outcome:?}");
}
