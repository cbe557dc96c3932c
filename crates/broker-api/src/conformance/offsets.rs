//! Committed offsets, plain and in transactions.

use super::bench::{Bench, LIMIT, abort, flush, next, texts};
use super::peer::{Peer, alone, rebalance};
use crate::{CommitOutcome, Committed, ErrorKind, GroupOffset};

#[track_caller]
fn plain(b: &Bench<'_>, peer: &Peer, offsets: &[GroupOffset<'_>]) {
    let outcome = b.broker().offsets().unwrap().commit(&peer.member(), offsets, LIMIT);
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
}

fn group(peer: &Peer) -> String {
    peer.member().group.to_string()
}

pub(super) fn nothing_committed_is_none(b: &mut Bench<'_>) {
    let (topic, never) = (b.topic("in", 1), b.name("never"));
    assert_eq!(b.fetch(&never, &[(&topic, 0)]), [None]);
    let peer = alone(b);
    assert_eq!(b.fetch(&group(&peer), &[(&topic, 0)]), [None]);
}

pub(super) fn commit_keeps_epoch_and_metadata(b: &mut Bench<'_>) {
    let topic = b.topic("in", 1);
    let peer = alone(b);
    let offset = GroupOffset { topic: &topic, partition: 0, next: 42, leader_epoch: 3, metadata: "AgAAAY+Ä" };
    plain(b, &peer, &[offset]);
    let want = Committed { next: 42, leader_epoch: 3, metadata: "AgAAAY+Ä".to_owned() };
    assert_eq!(b.fetch(&group(&peer), &[(&topic, 0)]), [Some(want)]);
    plain(b, &peer, &[next(&topic, 0, 43)]);
    let want = Committed { next: 43, leader_epoch: -1, metadata: String::new() };
    assert_eq!(b.fetch(&group(&peer), &[(&topic, 0)]), [Some(want)], "nothing is left of the former");
}

pub(super) fn commit_may_go_back(b: &mut Bench<'_>) {
    let topic = b.topic("in", 1);
    let peer = alone(b);
    plain(b, &peer, &[next(&topic, 0, 9)]);
    plain(b, &peer, &[next(&topic, 0, 4)]);
    assert_eq!(b.fetch_next(&group(&peer), &topic, 0), Some(4));
}

pub(super) fn partitions_are_answered_in_order(b: &mut Bench<'_>) {
    let (one, two) = (b.topic("one", 3), b.topic("two", 1));
    let peer = alone(b);
    plain(b, &peer, &[next(&one, 2, 12), next(&two, 0, 20), next(&one, 0, 10)]);
    let found = b.fetch(&group(&peer), &[(&two, 0), (&one, 0), (&one, 1), (&one, 2)]);
    assert_eq!(
        found.iter().map(|c| c.as_ref().map(|c| c.next)).collect::<Vec<_>>(),
        [Some(20), Some(10), None, Some(12)]
    );
    plain(b, &peer, &[next(&one, 1, 11)]);
    let found = b.fetch(&group(&peer), &[(&one, 0), (&one, 1), (&one, 2)]);
    assert_eq!(found.iter().map(|c| c.as_ref().map(|c| c.next)).collect::<Vec<_>>(), [Some(10), Some(11), Some(12)]);
}

pub(super) fn groups_have_offsets_of_their_own(b: &mut Bench<'_>) {
    let topic = b.topic("in", 1);
    let (one, two) = (alone(b), alone(b));
    plain(b, &one, &[next(&topic, 0, 1)]);
    plain(b, &two, &[next(&topic, 0, 2)]);
    assert_eq!(b.fetch_next(&group(&one), &topic, 0), Some(1));
    assert_eq!(b.fetch_next(&group(&two), &topic, 0), Some(2));
}

pub(super) fn offsets_outlive_the_members(b: &mut Bench<'_>) {
    let topic = b.topic("in", 1);
    let mut peer = alone(b);
    plain(b, &peer, &[next(&topic, 0, 7)]);
    peer.leave(b);
    assert_eq!(b.fetch_next(&group(&peer), &topic, 0), Some(7));
}

pub(super) fn transaction_commits_records_and_offsets(b: &mut Bench<'_>) {
    let (input, output) = (b.topic("in", 1), b.topic("out", 1));
    let peer = alone(b);
    let mut producer = b.transactional_alone();
    for round in 1..=3 {
        b.put(&mut *producer, &output, 0, &[&format!("{round}")]);
        let offset = GroupOffset { topic: &input, partition: 0, next: round, leader_epoch: 1, metadata: "m" };
        let outcome = producer.commit(&peer.member(), &[offset], LIMIT);
        assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
        let want = Committed { next: round, leader_epoch: 1, metadata: "m".to_owned() };
        assert_eq!(b.fetch(&group(&peer), &[(&input, 0)]), [Some(want)]);
    }
    assert_eq!(texts(&b.committed(&output, 0)), ["1", "2", "3"]);
}

pub(super) fn transaction_of_offsets_alone(b: &mut Bench<'_>) {
    let input = b.topic("in", 2);
    let peer = alone(b);
    let mut producer = b.transactional_alone();
    let outcome = producer.commit(&peer.member(), &[next(&input, 0, 5), next(&input, 1, 6)], LIMIT);
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
    assert_eq!(b.fetch_next(&group(&peer), &input, 0), Some(5));
    assert_eq!(b.fetch_next(&group(&peer), &input, 1), Some(6));
}

pub(super) fn aborted_transaction_changes_no_offset(b: &mut Bench<'_>) {
    let (input, output) = (b.topic("in", 1), b.topic("out", 1));
    let peer = alone(b);
    plain(b, &peer, &[next(&input, 0, 3)]);
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &output, 0, &["v"]);
    flush(&mut *producer);
    abort(&mut *producer);
    assert_eq!(b.fetch_next(&group(&peer), &input, 0), Some(3));
}

pub(super) fn poisoned_transaction_changes_no_offset(b: &mut Bench<'_>) {
    let (input, output) = (b.topic("in", 1), b.topic("out", 1));
    let peer = alone(b);
    plain(b, &peer, &[next(&input, 0, 3)]);
    let mut producer = b.transactional_alone();
    let late = super::bench::record(&mut *producer, &output, b.now() + 7_200_000, "v");
    super::bench::send(&mut *producer, &late);
    let outcome = producer.commit(&peer.member(), &[next(&input, 0, 4)], LIMIT);
    assert!(matches!(outcome, CommitOutcome::Aborted(_)), "{outcome:?}");
    assert_eq!(b.fetch_next(&group(&peer), &input, 0), Some(3));
}

pub(super) fn fenced_producer_changes_no_offset(b: &mut Bench<'_>) {
    let (input, output, id) = (b.topic("in", 1), b.topic("out", 1), b.name("tx"));
    let peer = alone(b);
    let mut old = b.transactional(&id);
    b.put(&mut *old, &output, 0, &["old"]);
    let mut new = b.transactional(&id);
    let outcome = old.commit(&peer.member(), &[next(&input, 0, 4)], LIMIT);
    assert!(matches!(&outcome, CommitOutcome::Fenced(e) if e.kind() == ErrorKind::ProducerFenced), "{outcome:?}");
    assert_eq!(b.fetch_next(&group(&peer), &input, 0), None);
    let outcome = new.commit(&peer.member(), &[next(&input, 0, 5)], LIMIT);
    assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
    assert_eq!(b.fetch_next(&group(&peer), &input, 0), Some(5));
}

pub(super) fn transactions_of_two_members(b: &mut Bench<'_>) {
    let (input, group) = (b.topic("in", 2), b.name("group"));
    let (mut one, mut two) = (Peer::new(b, &group, "a"), Peer::new(b, &group, "b"));
    rebalance(b, &mut [&mut one, &mut two]);
    let mut producers = [b.transactional_alone(), b.transactional_alone()];
    for (partition, peer) in [&one, &two].into_iter().enumerate() {
        let offset = next(&input, partition as i32, 10 + partition as i64);
        let outcome = producers[partition].commit(&peer.member(), &[offset], LIMIT);
        assert!(matches!(outcome, CommitOutcome::Committed), "{outcome:?}");
    }
    assert_eq!(b.fetch_next(&group, &input, 0), Some(10));
    assert_eq!(b.fetch_next(&group, &input, 1), Some(11));
}
