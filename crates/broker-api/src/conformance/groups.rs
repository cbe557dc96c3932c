//! Groups by the classic protocol: joins, generations, leaving, time-outs, static members.

use std::time::Duration;

use super::bench::Bench;
use super::peer::{Peer, alone, assignment_for, join_all, pair, pass_alive, rebalance};
use crate::membership::{Incoming, Reply, code};

const NONE: i16 = code::NONE;
const REBALANCE: i16 = code::REBALANCE_IN_PROGRESS;
const UNKNOWN: i16 = code::UNKNOWN_MEMBER_ID;
const ILLEGAL: i16 = code::ILLEGAL_GENERATION;
const FENCED: i16 = code::FENCED_INSTANCE_ID;

fn peer(b: &mut Bench<'_>, group: &str, name: &str) -> Peer {
    Peer::new(b, group, name)
}

/// Another member of the peer's group.
fn beside(b: &mut Bench<'_>, of: &Peer, name: &str) -> Peer {
    let group = of.member().group;
    Peer::new(b, &group, name)
}

pub(super) fn first_join_is_given_an_id(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut a = peer(b, &group, "a");
    assert_eq!(a.join_once(b), code::MEMBER_ID_REQUIRED);
    assert!(!a.member_id.is_empty());
    let id = a.member_id.clone();
    assert_eq!(a.join_once(b), NONE);
    assert_eq!(a.member_id, id, "the id that was given");
}

pub(super) fn single_member_leads(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut a = peer(b, &group, "a");
    assert_eq!(a.join(b), NONE);
    assert!(a.leader && !a.skip_assignment && a.generation >= 1);
    let seen: Vec<_> =
        a.members.iter().map(|m| (m.member_id.clone(), m.instance_id.clone(), m.metadata.clone())).collect();
    assert_eq!(seen, [(a.member_id.clone(), None, b"a".to_vec())]);
    assert_eq!(a.sync(b), NONE);
    assert_eq!(a.assignment, b"for a");
    assert_eq!(a.heartbeat(b), NONE);
}

pub(super) fn leader_sees_all_members(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    join_all(b, &mut [&mut leader, &mut follower]);
    let mut seen: Vec<_> = leader.members.iter().map(|m| (m.member_id.clone(), m.metadata.clone())).collect();
    let mut want: Vec<_> = [&leader, &follower].map(|p| (p.member_id.clone(), p.metadata.clone())).into();
    seen.sort();
    want.sort();
    assert_eq!(seen, want);
    assert!(follower.members.is_empty(), "for the leader only");
}

pub(super) fn follower_waits_for_the_leaders_assignment(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    join_all(b, &mut [&mut leader, &mut follower]);
    follower.begin_sync();
    assert_eq!(follower.hears(b, Duration::from_millis(300)), None);
    assert_eq!(leader.sync(b), NONE);
    assert_eq!(follower.end_sync(b), NONE);
    assert_eq!(follower.assignment, assignment_for(&follower.metadata));
}

pub(super) fn late_sync_gets_the_same_assignment(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    for peer in [&mut leader, &mut follower] {
        let before = peer.assignment.clone();
        assert_eq!(peer.sync_with(b, Vec::new()), NONE);
        assert_eq!(peer.assignment, before, "in a stable group it is told again");
    }
}

pub(super) fn member_without_an_assignment_gets_no_bytes(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    join_all(b, &mut [&mut leader, &mut follower]);
    let only = vec![(leader.member_id.clone(), b"all".to_vec())];
    assert_eq!(leader.sync_with(b, only), NONE);
    assert_eq!(follower.sync(b), NONE);
    assert_eq!(follower.assignment, b"");
}

pub(super) fn bytes_are_opaque(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut a = peer(b, &group, "");
    a.metadata = (0..=255).cycle().take(2_000).collect();
    assert_eq!(a.join(b), NONE);
    assert_eq!(a.members[0].metadata, a.metadata);
    let assignment: Vec<u8> = (0..=255).rev().cycle().take(100_000).collect();
    assert_eq!(a.sync_with(b, vec![(a.member_id.clone(), assignment.clone())]), NONE);
    assert_eq!(a.assignment, assignment);
}

pub(super) fn assignment_of_more_than_a_megabyte_is_refused(b: &mut Bench<'_>) {
    // All of a group is one record of the offsets topic.
    let noise = |len: u32| (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect::<Vec<u8>>();
    let (good, bad) = (b.name("group"), b.name("group"));
    let mut a = peer(b, &good, "a");
    assert_eq!(a.join(b), NONE);
    assert_eq!(a.sync_with(b, vec![(a.member_id.clone(), noise(900_000))]), NONE);
    let mut a = peer(b, &bad, "a");
    assert_eq!(a.join(b), NONE);
    assert_eq!(a.sync_with(b, vec![(a.member_id.clone(), noise(1_500_000))]), code::UNKNOWN_SERVER_ERROR);
}

pub(super) fn newcomer_is_announced_by_the_next_heartbeat(b: &mut Bench<'_>) {
    let mut a = alone(b);
    let before = a.generation;
    let mut c = beside(b, &a, "c");
    c.begin_join(b);
    a.await_heartbeat(b, REBALANCE);
    assert_eq!(a.heartbeat(b), REBALANCE, "until it joins");
    assert_eq!(c.hears(b, Duration::from_millis(300)), None, "the join is pending");
    rejoin_beside_a_pending(b, &mut a, &mut c);
    assert!(a.generation == c.generation && a.generation > before);
}

/// The first member rejoins, so that the pending join of the other is answered; both sync.
fn rejoin_beside_a_pending(b: &mut Bench<'_>, one: &mut Peer, pending: &mut Peer) {
    one.begin_join(b);
    assert_eq!((one.end_join(b), pending.end_join(b)), (NONE, NONE));
    one.begin_sync();
    pending.begin_sync();
    assert_eq!((one.end_sync(b), pending.end_sync(b)), (NONE, NONE));
}

pub(super) fn generations_rise(b: &mut Bench<'_>) {
    let mut a = alone(b);
    for _ in 0..3 {
        let before = a.generation;
        rebalance(b, &mut [&mut a]);
        assert!(a.generation > before);
    }
}

pub(super) fn heartbeat_between_join_and_sync_is_fine(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    join_all(b, &mut [&mut leader, &mut follower]);
    assert_eq!(leader.heartbeat(b), NONE);
    assert_eq!(follower.heartbeat(b), NONE);
}

pub(super) fn leaving_is_announced_at_once(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    assert_eq!(follower.leave(b), NONE);
    assert_eq!(leader.heartbeat(b), REBALANCE);
    rebalance(b, &mut [&mut leader]);
    assert_eq!(leader.members.len(), 1);
}

pub(super) fn leaver_is_unknown(b: &mut Bench<'_>) {
    let [_leader, mut follower] = pair(b);
    assert_eq!(follower.leave(b), NONE);
    assert_eq!(follower.heartbeat(b), UNKNOWN);
    assert_eq!(follower.sync(b), UNKNOWN);
    assert_eq!(follower.join_once(b), UNKNOWN, "its id is void");
    assert_eq!(follower.leave(b), UNKNOWN);
}

pub(super) fn leader_that_leaves_is_replaced(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    assert_eq!(leader.leave(b), NONE);
    follower.await_heartbeat(b, REBALANCE);
    assert_eq!(follower.join(b), NONE);
    assert!(follower.leader && follower.members.len() == 1);
}

pub(super) fn leaver_ends_a_pending_rebalance(b: &mut Bench<'_>) {
    let mut a = alone(b);
    let mut c = beside(b, &a, "c");
    c.begin_join(b);
    a.await_heartbeat(b, REBALANCE);
    assert_eq!(a.leave(b), NONE);
    assert_eq!(c.end_join(b), NONE, "nobody is waited for any more");
    assert!(c.leader && c.members.len() == 1);
}

pub(super) fn emptied_group_begins_anew(b: &mut Bench<'_>) {
    let mut a = alone(b);
    let before = a.generation;
    assert_eq!(a.leave(b), NONE);
    let mut c = beside(b, &a, "c");
    rebalance(b, &mut [&mut c]);
    assert!(c.leader && c.generation > before, "generations go on: {} after {before}", c.generation);
}

pub(super) fn stale_generation_is_illegal(b: &mut Bench<'_>) {
    let mut a = alone(b);
    for wrong in [-1, 1] {
        a.generation += wrong;
        assert_eq!(a.heartbeat(b), ILLEGAL);
        assert_eq!(a.sync_with(b, Vec::new()), ILLEGAL);
        a.generation -= wrong;
    }
    assert_eq!(a.heartbeat(b), NONE);
}

pub(super) fn unknown_member_is_told_so(b: &mut Bench<'_>) {
    let a = alone(b);
    let mut stranger = beside(b, &a, "stranger");
    (stranger.member_id, stranger.generation) = ("nobody".into(), a.generation);
    assert_eq!(stranger.heartbeat(b), UNKNOWN);
    assert_eq!(stranger.sync_with(b, Vec::new()), UNKNOWN);
    assert_eq!(stranger.join_once(b), UNKNOWN);
    assert_eq!(stranger.leave(b), UNKNOWN);
    let never = b.name("never");
    let mut stranger = peer(b, &never, "stranger");
    (stranger.member_id, stranger.generation) = ("nobody".into(), 1);
    assert_eq!(stranger.heartbeat(b), UNKNOWN, "no group, no member");
}

pub(super) fn silent_member_expires(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut silent = peer(b, &group, "silent").with_timeouts(6_000, 6_000);
    let mut other = peer(b, &group, "other");
    rebalance(b, &mut [&mut silent, &mut other]);
    pass_alive(b, 9, &mut [&mut other]);
    other.await_heartbeat(b, REBALANCE);
    assert_eq!(silent.heartbeat(b), UNKNOWN);
    assert_eq!(silent.sync_with(b, Vec::new()), UNKNOWN);
    assert_eq!(silent.join_once(b), UNKNOWN, "rejoining takes a new id");
    rebalance(b, &mut [&mut other]);
    assert_eq!(other.members.len(), 1);
}

pub(super) fn heartbeats_keep_a_member(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut a = peer(b, &group, "a").with_timeouts(6_000, 6_000);
    rebalance(b, &mut [&mut a]);
    pass_alive(b, 15, &mut [&mut a]);
    assert_eq!(a.heartbeat(b), NONE);
}

pub(super) fn member_that_does_not_rejoin_is_removed(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut slow = peer(b, &group, "slow").with_timeouts(30_000, 3_000);
    rebalance(b, &mut [&mut slow]);
    let mut c = peer(b, &group, "c").with_timeouts(30_000, 3_000);
    c.begin_join(b);
    slow.await_heartbeat(b, REBALANCE);
    slow.await_heartbeat(b, UNKNOWN);
    assert_eq!(c.end_join(b), NONE);
    assert!(c.leader && c.members.len() == 1, "the others go on");
}

pub(super) fn pending_join_does_not_expire(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut slow = peer(b, &group, "slow").with_timeouts(30_000, 12_000);
    rebalance(b, &mut [&mut slow]);
    let mut c = peer(b, &group, "c").with_timeouts(6_000, 12_000);
    c.begin_join(b);
    pass_alive(b, 9, &mut [&mut slow]);
    assert_eq!(c.hears(b, Duration::ZERO), None);
    rejoin_beside_a_pending(b, &mut slow, &mut c);
}

pub(super) fn leader_that_never_syncs_is_removed(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut one = peer(b, &group, "one").with_timeouts(30_000, 4_000);
    let mut two = peer(b, &group, "two").with_timeouts(30_000, 4_000);
    rebalance(b, &mut [&mut one, &mut two]);
    let (leader, follower) = if one.leader { (&mut one, &mut two) } else { (&mut two, &mut one) };
    join_all(b, &mut [leader, follower]);
    follower.begin_sync();
    leader.await_heartbeat(b, UNKNOWN);
    assert_eq!(follower.end_sync(b), REBALANCE);
    assert_eq!(follower.join(b), NONE);
    assert!(follower.leader && follower.members.len() == 1);
}

pub(super) fn follower_rejoins_unnoticed_with_the_same_data(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    let before = follower.generation;
    assert_eq!(follower.join(b), NONE);
    assert_eq!(follower.generation, before, "no rebalance");
    assert_eq!(leader.heartbeat(b), NONE);
    assert_eq!(follower.sync(b), NONE);
    assert_eq!(follower.assignment, assignment_for(&follower.metadata));
}

pub(super) fn follower_with_changed_data_starts_a_rebalance(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    let before = follower.generation;
    follower.metadata = b"changed".to_vec();
    follower.begin_join(b);
    leader.await_heartbeat(b, REBALANCE);
    rejoin_beside_a_pending(b, &mut leader, &mut follower);
    assert!(follower.generation > before);
    assert_eq!(follower.assignment, b"for changed");
}

pub(super) fn leader_always_starts_a_rebalance(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    let before = leader.generation;
    leader.begin_join(b);
    follower.await_heartbeat(b, REBALANCE);
    rejoin_beside_a_pending(b, &mut follower, &mut leader);
    assert!(leader.generation > before);
}

/// A static leader and a static follower.
fn fixed_pair(b: &mut Bench<'_>) -> [Peer; 2] {
    let group = b.name("group");
    let (mut one, mut two) = (peer(b, &group, "one").fixed(), peer(b, &group, "two").fixed());
    rebalance(b, &mut [&mut one, &mut two]);
    if one.leader { [one, two] } else { [two, one] }
}

/// A new process with the static id of `of`.
fn restarted(b: &mut Bench<'_>, of: &Peer) -> Peer {
    let mut new = beside(b, of, "");
    (new.instance_id, new.metadata) = (of.instance_id.clone(), of.metadata.clone());
    new
}

pub(super) fn leader_sees_static_ids(b: &mut Bench<'_>) {
    let [leader, follower] = fixed_pair(b);
    let mut seen: Vec<_> = leader.members.iter().map(|m| m.instance_id.clone()).collect();
    let mut want = vec![leader.instance_id, follower.instance_id];
    seen.sort();
    want.sort();
    assert_eq!(seen, want);
}

pub(super) fn static_member_takes_its_place_back(b: &mut Bench<'_>) {
    let [mut leader, old] = fixed_pair(b);
    let mut new = restarted(b, &old);
    assert_eq!(new.join_once(b), NONE, "no id is asked for");
    assert_ne!(new.member_id, old.member_id);
    assert_eq!(new.generation, old.generation, "no rebalance");
    assert!(!new.leader);
    assert_eq!(new.sync(b), NONE);
    assert_eq!(new.assignment, old.assignment);
    assert_eq!(leader.heartbeat(b), NONE, "nobody else notices");
    assert_eq!(new.heartbeat(b), NONE);
}

pub(super) fn static_member_returns_unnoticed_with_changed_data(b: &mut Bench<'_>) {
    let [mut leader, old] = fixed_pair(b);
    let mut new = restarted(b, &old);
    new.metadata = b"changed".to_vec();
    assert_eq!(new.join_once(b), NONE);
    assert_eq!(new.generation, old.generation);
    assert_eq!(new.sync(b), NONE);
    assert_eq!(new.assignment, old.assignment);
    assert_eq!(leader.heartbeat(b), NONE);
}

pub(super) fn static_leader_returns_and_keeps_the_assignment(b: &mut Bench<'_>) {
    let [old, mut follower] = fixed_pair(b);
    let mut new = restarted(b, &old);
    assert_eq!(new.join_once(b), NONE);
    assert_eq!(new.generation, old.generation);
    assert!(new.leader && new.skip_assignment);
    assert_eq!(new.sync_with(b, Vec::new()), NONE);
    assert_eq!(new.assignment, old.assignment);
    assert_eq!(follower.heartbeat(b), NONE);
}

pub(super) fn former_incarnation_is_fenced(b: &mut Bench<'_>) {
    let [_leader, mut old] = fixed_pair(b);
    let mut new = restarted(b, &old);
    assert_eq!(new.join_once(b), NONE);
    assert_eq!(new.sync(b), NONE);
    assert_eq!(old.heartbeat(b), FENCED);
    assert_eq!(old.sync_with(b, Vec::new()), FENCED);
    assert_eq!(old.join_once(b), FENCED);
    assert_eq!(new.heartbeat(b), NONE);
}

pub(super) fn static_member_may_leave(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = fixed_pair(b);
    assert_eq!(follower.leave(b), NONE);
    leader.await_heartbeat(b, REBALANCE);
    assert_eq!(follower.heartbeat(b), UNKNOWN);
    rebalance(b, &mut [&mut leader]);
    assert_eq!(leader.members.len(), 1);
}

pub(super) fn other_protocol_is_refused(b: &mut Bench<'_>) {
    let mut a = alone(b);
    let mut java = beside(b, &a, "java");
    java.protocol = "stream".into();
    assert_eq!(java.join(b), code::INCONSISTENT_GROUP_PROTOCOL);
    assert_eq!(a.heartbeat(b), NONE, "the group is left alone");
}

pub(super) fn session_timeout_has_limits(b: &mut Bench<'_>) {
    for (session, want) in [
        (5_999, code::INVALID_SESSION_TIMEOUT),
        (1_800_001, code::INVALID_SESSION_TIMEOUT),
        (6_000, NONE),
        (1_800_000, NONE),
    ] {
        let group = b.name("group");
        let mut a = peer(b, &group, "a").with_timeouts(session, 6_000);
        assert_eq!(a.join(b), want, "{session} ms");
        if want == NONE {
            assert_eq!(a.leave(b), NONE);
        }
    }
}

pub(super) fn groups_are_independent(b: &mut Bench<'_>) {
    let (mut one, mut two) = (alone(b), alone(b));
    let (first, second) = (one.generation, two.generation);
    rebalance(b, &mut [&mut one]);
    assert_eq!(two.heartbeat(b), NONE);
    assert!(one.generation > first && two.generation == second);
    assert_eq!(one.leave(b), NONE);
    assert_eq!(two.heartbeat(b), NONE);
}

pub(super) fn three_members_come_and_go(b: &mut Bench<'_>) {
    let [mut one, mut two] = pair(b);
    let mut three = beside(b, &one, "c");
    rebalance(b, &mut [&mut one, &mut two, &mut three]);
    let leader = [&one, &two, &three].into_iter().find(|p| p.leader).unwrap();
    assert_eq!(leader.members.len(), 3);
    assert_eq!(two.leave(b), NONE);
    one.await_heartbeat(b, REBALANCE);
    three.await_heartbeat(b, REBALANCE);
    rebalance(b, &mut [&mut one, &mut three]);
    assert_eq!(one.generation, three.generation);
}

pub(super) fn join_in_flight_answers_nothing_else(b: &mut Bench<'_>) {
    let mut a = alone(b);
    let mut c = beside(b, &a, "c");
    c.begin_join(b);
    a.await_heartbeat(b, REBALANCE);
    a.begin_join(b);
    let heard = c.hears(b, Duration::from_secs(30));
    assert!(matches!(heard, Some(Incoming::Reply(Reply::Join { code: NONE, .. }))), "{heard:?}");
    assert_eq!(a.end_join(b), NONE);
}
