//! Links, against coordinators that fail.

use super::*;
use crate::wire::fake::{Peer, Script, serve, settings};
use kafka_protocol::messages::{ApiKey, HeartbeatResponse, SaslAuthenticateResponse, SyncGroupResponse};
use std::sync::mpsc;

const GROUPS: &[(ApiKey, i16)] = &[
    (ApiKey::FindCoordinator, 6),
    (ApiKey::JoinGroup, 9),
    (ApiKey::SyncGroup, 5),
    (ApiKey::Heartbeat, 4),
    (ApiKey::SaslHandshake, 1),
    (ApiKey::SaslAuthenticate, 2),
];
const LONG: Duration = Duration::from_secs(30);

fn link_with(rows: &[(&str, &str)], scripts: Vec<Script>) -> KafkaLink {
    let address = serve(scripts);
    let settings = WireSettings { bootstrap: vec![address], ..settings(rows) };
    KafkaLink::new(Arc::new(settings), Arc::default(), "g").unwrap()
}

fn link(scripts: Vec<Script>) -> KafkaLink {
    link_with(&[], scripts)
}

fn coordinate(peer: &mut Peer) {
    peer.greet(GROUPS);
    peer.be_coordinator();
}

fn beat() -> Request {
    Request::Heartbeat { generation: 1, member_id: "m".into(), instance_id: None }
}

fn join() -> Request {
    Request::Join {
        member_id: "m".into(),
        instance_id: None,
        session_timeout: LONG,
        rebalance_timeout: LONG,
        protocol: "millpond-1".into(),
        metadata: Vec::new(),
    }
}

#[track_caller]
fn ask(link: &mut KafkaLink, request: &Request) -> Incoming {
    link.send(request);
    link.receive(LONG).expect("an answer")
}

const FOUND: Incoming = Incoming::Reply(Reply::Coordinator { code: code::NONE });

/// For those who ask for the group's offsets.
#[test]
fn a_link_tells_where_the_coordinator_is() {
    let address = serve(vec![Box::new(|peer: &mut Peer| {
        coordinate(peer);
        peer.next().unwrap();
    })]);
    let (settings, coordinators) = (settings(&[]), Arc::<Coordinators>::default());
    let settings = WireSettings { bootstrap: vec![address.clone()], ..settings };
    let mut link = KafkaLink::new(Arc::new(settings), coordinators.clone(), "g").unwrap();
    assert_eq!(ask(&mut link, &Request::FindCoordinator), FOUND);
    assert_eq!(coordinators.of("g"), Some(Coordinator::Found(1, address)));
    assert_eq!(ask(&mut link, &beat()), Incoming::Disconnected);
    assert_eq!(coordinators.of("g"), Some(Coordinator::Sought));
    drop(link);
    let limit = Deadline::after(LONG);
    while coordinators.of("g").is_some() {
        assert!(!limit.is_over(), "the link's thread does not end");
        std::thread::yield_now();
    }
}

#[test]
fn requests_are_answered_in_order_over_one_connection() {
    let mut link = link(vec![Box::new(|peer| {
        coordinate(peer);
        for code in [0, 27, 25] {
            let request = peer.next().unwrap();
            peer.answer(&request, &HeartbeatResponse::default().with_error_code(code));
        }
        peer.drain();
    })]);
    assert_eq!(ask(&mut link, &Request::FindCoordinator), FOUND);
    for code in [0, 27, 25] {
        assert_eq!(ask(&mut link, &beat()), Incoming::Reply(Reply::Heartbeat { code }));
    }
    assert_eq!(link.receive(Duration::ZERO), None);
}

#[test]
fn a_sync_names_the_protocol_of_the_join() {
    let mut link = link(vec![Box::new(|peer| {
        coordinate(peer);
        let request = peer.next().unwrap();
        let answer = JoinGroupResponse::default().with_generation_id(4).with_member_id(text("m"));
        peer.answer(&request, &answer.with_leader(text("m")));
        let request = peer.next().unwrap();
        assert_eq!(request.version, 5);
        let has = |part: &[u8]| request.bytes.windows(part.len()).any(|w| w == part);
        let answer = SyncGroupResponse::default().with_assignment(b"mine".to_vec().into());
        // Kafka refuses a sync that does not name both.
        if has(b"millpond-1") && has(b"consumer") {
            peer.answer(&request, &answer);
        }
    })]);
    assert_eq!(ask(&mut link, &Request::FindCoordinator), FOUND);
    let joined = ask(&mut link, &join());
    assert!(matches!(joined, Incoming::Reply(Reply::Join { code: 0, generation: 4, leader: true, .. })), "{joined:?}");
    let sync = Request::Sync { generation: 4, member_id: "m".into(), instance_id: None, assignments: Vec::new() };
    assert_eq!(ask(&mut link, &sync), Incoming::Reply(Reply::Sync { code: 0, assignment: b"mine".to_vec() }));
}

#[test]
fn a_lost_connection_is_told_once_and_swallows_what_was_sent_before_that() {
    let mut link = link(vec![
        Box::new(|peer| {
            coordinate(peer);
            peer.next().unwrap();
        }),
        Box::new(|peer| {
            coordinate(peer);
            let request = peer.next().unwrap();
            peer.answer(&request, &HeartbeatResponse::default().with_error_code(22));
            peer.drain();
        }),
    ]);
    assert_eq!(ask(&mut link, &Request::FindCoordinator), FOUND);
    link.send(&beat());
    let far = Deadline::after(LONG);
    while !link.shared.lock().is_lost {
        assert!(!far.is_over(), "the end was not noticed");
        std::thread::yield_now();
    }
    link.send(&Request::FindCoordinator);
    link.send(&beat());
    assert_eq!(link.receive(LONG), Some(Incoming::Disconnected));
    assert_eq!(ask(&mut link, &Request::FindCoordinator), FOUND, "over a new connection");
    assert_eq!(ask(&mut link, &beat()), Incoming::Reply(Reply::Heartbeat { code: 22 }));
    assert_eq!(link.receive(Duration::ZERO), None, "and nothing of before");
}

#[test]
fn without_a_coordinator_there_is_no_connection() {
    let mut link = link(Vec::new());
    assert_eq!(ask(&mut link, &beat()), Incoming::Disconnected);
    assert_eq!(ask(&mut link, &Request::FindCoordinator), Incoming::Disconnected, "nobody is there");
    assert_eq!(link.receive(Duration::ZERO), None);
}

#[test]
fn an_eager_owner_does_not_make_the_thread_spin() {
    let mut link = link(Vec::new());
    let start = Deadline::after(BREATH * 3);
    for _ in 0..4 {
        assert_eq!(ask(&mut link, &Request::FindCoordinator), Incoming::Disconnected);
    }
    assert!(start.is_over(), "three pauses lie between four failures");
}

#[test]
fn a_silent_coordinator_is_given_up_before_the_session_is_over() {
    let mut link = link(vec![Box::new(|peer| {
        coordinate(peer);
        let request = peer.next().unwrap();
        peer.answer(&request, &JoinGroupResponse::default().with_error_code(27));
        peer.drain();
    })]);
    assert_eq!(ask(&mut link, &Request::FindCoordinator), FOUND);
    let Request::Join { member_id, instance_id, rebalance_timeout, protocol, metadata, .. } = join() else {
        return;
    };
    let session_timeout = Duration::from_millis(300);
    let join = Request::Join { member_id, instance_id, session_timeout, rebalance_timeout, protocol, metadata };
    assert!(matches!(ask(&mut link, &join), Incoming::Reply(Reply::Join { code: 27, .. })));
    assert_eq!(ask(&mut link, &beat()), Incoming::Disconnected);
}

#[test]
fn dropping_a_link_ends_a_join_in_flight() {
    let (ended, end) = mpsc::channel();
    let mut link = link(vec![Box::new(move |peer| {
        coordinate(peer);
        assert_eq!(peer.next().unwrap().key, ApiKey::JoinGroup as i16);
        ended.send("joining").unwrap();
        peer.drain();
        ended.send("closed").unwrap();
    })]);
    assert_eq!(ask(&mut link, &Request::FindCoordinator), FOUND);
    link.send(&join());
    assert_eq!(end.recv_timeout(LONG), Ok("joining"));
    let shared = Arc::downgrade(&link.shared);
    drop(link);
    assert_eq!(end.recv_timeout(LONG), Ok("closed"));
    let far = Deadline::after(LONG);
    while shared.strong_count() > 0 {
        assert!(!far.is_over(), "the thread lives on");
        std::thread::yield_now();
    }
}

#[test]
fn what_no_repetition_mends_is_an_answer() {
    let rows = [
        ("security.protocol", "sasl_plaintext"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", "ann"),
        ("sasl.password", "wrong"),
    ];
    let mut refused = link_with(
        &rows,
        vec![Box::new(|peer| {
            peer.greet(GROUPS);
            let request = peer.next().unwrap();
            peer.answer(&request, &kafka_protocol::messages::SaslHandshakeResponse::default());
            let request = peer.next().unwrap();
            peer.answer(&request, &SaslAuthenticateResponse::default().with_error_code(58));
        })],
    );
    let code = code::SASL_AUTHENTICATION_FAILED;
    assert_eq!(ask(&mut refused, &Request::FindCoordinator), Incoming::Reply(Reply::Coordinator { code }));
    let mut old = link(vec![Box::new(|peer| {
        peer.greet(&[(ApiKey::FindCoordinator, 6), (ApiKey::JoinGroup, 4)]);
        peer.be_coordinator();
        peer.drain();
    })]);
    assert_eq!(ask(&mut old, &Request::FindCoordinator), FOUND);
    let answer = ask(&mut old, &join());
    assert!(matches!(answer, Incoming::Reply(Reply::Join { code: code::UNSUPPORTED_VERSION, .. })), "{answer:?}");
}

#[test]
fn a_waker_ends_one_wait() {
    let mut link = link(Vec::new());
    link.waker().wake();
    assert_eq!(link.receive(Duration::MAX), None);
    let waker = link.waker();
    let other = std::thread::Builder::new().spawn(move || waker.wake()).unwrap();
    assert_eq!(link.receive(Duration::MAX), None);
    other.join().unwrap();
}
