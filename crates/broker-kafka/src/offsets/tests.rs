//! Committed offsets, against coordinators that fail.

use super::*;
use crate::wire::fake::{Incoming, Peer, Script, serve, settings};
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use kafka_protocol::messages::offset_fetch_response as fetch_response;
use kafka_protocol::messages::{ApiKey, OffsetCommitResponse};

const LONG: Duration = Duration::from_secs(30);

fn offsets(scripts: Vec<Script>) -> KafkaOffsets {
    let address = serve(scripts);
    KafkaOffsets::new(Arc::new(WireSettings { bootstrap: vec![address], ..settings(&[]) }), Arc::default())
}

/// Nobody but this client asks for the coordinator, so it is found by itself; with a member, the member's is asked.
fn offsets_beside(member: Coordinator, scripts: Vec<Script>) -> KafkaOffsets {
    let this = offsets(scripts);
    this.coordinators.tell("g", member);
    this
}

fn coordinate(peer: &mut Peer, fetch: i16) {
    peer.greet(&[(ApiKey::FindCoordinator, 6), (ApiKey::OffsetCommit, 9), (ApiKey::OffsetFetch, fetch)]);
    peer.be_coordinator();
}

fn answer_commit(peer: &mut Peer, codes: &[i16]) -> Incoming {
    let request = peer.next().unwrap();
    assert_eq!((request.key, request.version), (8, 9));
    let rows = codes.iter().enumerate().map(|(partition, code)| {
        OffsetCommitResponsePartition::default().with_partition_index(partition as i32).with_error_code(*code)
    });
    let topic = OffsetCommitResponseTopic::default().with_name(TopicName(text("t"))).with_partitions(rows.collect());
    peer.answer(&request, &OffsetCommitResponse::default().with_topics(vec![topic]));
    request
}

fn commit(offsets: &mut KafkaOffsets, max_wait: Duration) -> CommitOutcome {
    let member = Member { group: "g".into(), member_id: "m".into(), instance_id: Some("i".into()), generation: 3 };
    let offset = |partition| GroupOffset { topic: "t", partition, next: 5, leader_epoch: 2, metadata: "meta" };
    offsets.commit(&member, &[offset(0), offset(1)], max_wait)
}

#[test]
fn codes_become_outcomes() {
    let (fenced, aborted, unknown) = ("fenced", "aborted", "unknown");
    for (codes, want) in [
        ([0, 0], None),
        ([0, 22], Some((fenced, ErrorKind::MembershipLost))),
        ([25, 25], Some((fenced, ErrorKind::MembershipLost))),
        ([82, 82], Some((fenced, ErrorKind::MembershipLost))),
        ([69, 69], Some((fenced, ErrorKind::MembershipLost))),
        ([27, 27], Some((aborted, ErrorKind::Retriable))),
        ([30, 30], Some((aborted, ErrorKind::Fatal))),
        ([3, 3], Some((aborted, ErrorKind::UnknownTopic))),
        // One of the two is committed.
        ([0, 3], Some((unknown, ErrorKind::UnknownTopic))),
    ] {
        let mut offsets = offsets(vec![Box::new(move |peer| {
            coordinate(peer, 9);
            let request = answer_commit(peer, &codes);
            for part in [&b"meta"[..], b"\x02g", b"\x02m", b"\x02i"] {
                assert!(request.bytes.windows(part.len()).any(|w| w == part));
            }
            peer.drain();
        })]);
        let got = match commit(&mut offsets, LONG) {
            CommitOutcome::Committed => None,
            CommitOutcome::Fenced(e) => Some((fenced, e.kind())),
            CommitOutcome::Aborted(e) => Some((aborted, e.kind())),
            CommitOutcome::Unknown(e) => Some((unknown, e.kind())),
        };
        assert_eq!(got, want, "{codes:?}");
    }
}

#[test]
fn the_coordinator_is_found_anew() {
    let mut offsets = offsets(vec![Box::new(|peer| {
        coordinate(peer, 9);
        answer_commit(peer, &[16, 16]);
        peer.be_coordinator();
        answer_commit(peer, &[14, 14]);
        peer.be_coordinator();
        answer_commit(peer, &[0, 0]);
    })]);
    let outcome = commit(&mut offsets, LONG);
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
}

#[test]
fn offsets_are_asked_of_the_coordinator_that_the_member_has() {
    let coordinator = serve(vec![Box::new(|peer: &mut Peer| {
        peer.greet(&[(ApiKey::FindCoordinator, 6), (ApiKey::OffsetCommit, 9), (ApiKey::OffsetFetch, 9)]);
        answer_commit(peer, &[0, 0]);
    })]);
    let outcome = commit(&mut offsets_beside(Coordinator::Found(1, coordinator), Vec::new()), LONG);
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
    let outcome = commit(&mut offsets_beside(Coordinator::Sought, Vec::new()), Duration::from_millis(50));
    assert!(
        matches!(&outcome, CommitOutcome::Aborted(e) if e.to_string().contains("the member is looking")),
        "{outcome:?}"
    );
}

#[test]
fn an_unanswered_commit_is_sent_again() {
    let mut offsets = offsets(vec![
        Box::new(|peer| {
            coordinate(peer, 9);
            peer.next().unwrap();
        }),
        Box::new(|peer| {
            coordinate(peer, 9);
            answer_commit(peer, &[0, 0]);
        }),
    ]);
    let outcome = commit(&mut offsets, LONG);
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
}

#[test]
fn what_may_have_been_committed_is_unknown_in_the_end() {
    let short = Duration::from_millis(200);
    let silent: Script = Box::new(|peer| {
        coordinate(peer, 9);
        peer.drain();
    });
    let outcome = commit(&mut offsets(vec![silent]), short);
    assert!(matches!(&outcome, CommitOutcome::Unknown(e) if e.kind() == ErrorKind::Retriable), "{outcome:?}");
    // Also if a later try was refused: that says nothing of the first.
    let outcome = commit(
        &mut offsets(vec![
            Box::new(|peer| {
                coordinate(peer, 9);
                peer.next().unwrap();
            }),
            Box::new(|peer| {
                coordinate(peer, 9);
                answer_commit(peer, &[27, 27]);
            }),
        ]),
        LONG,
    );
    assert!(matches!(outcome, CommitOutcome::Unknown(_)), "{outcome:?}");
}

#[test]
fn what_was_never_sent_is_aborted() {
    let outcome = commit(&mut offsets(Vec::new()), Duration::from_millis(100));
    assert!(matches!(&outcome, CommitOutcome::Aborted(e) if e.kind() == ErrorKind::Retriable), "{outcome:?}");
}

/// A caller that gives a moment gets it back, whatever it is that does not answer.
#[test]
fn a_broker_that_says_nothing_costs_no_more_than_the_wait() {
    let scripts = || -> [Script; 2] {
        [
            Box::new(|peer| peer.drain()),
            Box::new(|peer| {
                peer.greet(&[(ApiKey::FindCoordinator, 6), (ApiKey::OffsetCommit, 9), (ApiKey::OffsetFetch, 9)]);
                peer.drain();
            }),
        ]
    };
    for script in scripts() {
        let start = Deadline::after(LONG);
        let outcome = commit(&mut offsets(vec![script]), Duration::from_millis(100));
        assert!(matches!(&outcome, CommitOutcome::Aborted(e) if e.kind() == ErrorKind::Retriable), "{outcome:?}");
        assert!(start.left() > LONG / 2, "the limits of a request and of a connection are longer");
    }
}

/// Partition 1 with an offset, partition 0 without; in the old layout or the new.
fn fetched(code: i16) -> impl FnOnce(&mut Peer) + Send {
    move |peer| {
        let request = peer.next().unwrap();
        let answer = fetch_response::OffsetFetchResponse::default();
        if request.version >= 8 {
            let row = |index, next| {
                fetch_response::OffsetFetchResponsePartitions::default()
                    .with_partition_index(index)
                    .with_committed_offset(next)
                    .with_committed_leader_epoch(2)
                    .with_metadata(Some(text("meta")))
            };
            let topic = fetch_response::OffsetFetchResponseTopics::default().with_name(TopicName(text("t")));
            let topic = topic.with_partitions(vec![row(0, -1), row(1, 7).with_error_code(code)]);
            let group = fetch_response::OffsetFetchResponseGroup::default().with_topics(vec![topic]);
            peer.answer(&request, &answer.with_groups(vec![group]));
        } else {
            let row = |index, next| {
                fetch_response::OffsetFetchResponsePartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(next)
                    .with_committed_leader_epoch(2)
                    .with_metadata(Some(text("meta")))
            };
            let topic = fetch_response::OffsetFetchResponseTopic::default().with_name(TopicName(text("t")));
            let topic = topic.with_partitions(vec![row(0, -1), row(1, 7).with_error_code(code)]);
            peer.answer(&request, &answer.with_topics(vec![topic]));
        }
        peer.drain();
    }
}

#[test]
fn both_layouts_of_fetched_offsets_are_read_in_the_order_of_the_question() {
    let committed = Committed { next: 7, leader_epoch: 2, metadata: "meta".to_owned() };
    for version in [7, 9] {
        let of = [("t", 1), ("t", 0), ("t", 1)];
        let fetch = |code| {
            let mut offsets = offsets(vec![Box::new(move |peer| {
                coordinate(peer, version);
                fetched(code)(peer);
            })]);
            offsets.fetch_stable("g", &of, LONG)
        };
        let want = vec![Some(committed.clone()), None, Some(committed.clone())];
        assert_eq!(fetch(0).unwrap(), Stable::Offsets(want));
        assert_eq!(fetch(88).unwrap(), Stable::Unstable { topic: "t".to_owned(), partition: 1 });
        assert_eq!(fetch(29).unwrap_err().kind(), ErrorKind::Fatal);
    }
}
