//! What fences a commit: the whole table, for plain commits and for transactions.

use std::sync::Arc;
use std::time::Duration;

use super::bench::{Bench, LIMIT, abort, next, texts};
use super::peer::{Peer, alone, join_all, pair, pass_alive, rebalance};
use crate::membership::code;
use crate::{CommitOutcome, ErrorKind, Member, Offset, Producer};

/// What a commit comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Committed,
    /// The author is no member.
    Lost,
    /// Not now.
    Retriable,
}

use Verdict::{Committed, Lost, Retriable};

#[track_caller]
fn verdict(outcome: &CommitOutcome) -> Verdict {
    match outcome {
        CommitOutcome::Committed => Committed,
        CommitOutcome::Fenced(e) if e.kind() == ErrorKind::MembershipLost => Lost,
        CommitOutcome::Aborted(e) if e.kind() == ErrorKind::Retriable => Retriable,
        other => panic!("{other:?}"),
    }
}

/// Commits as different members, plain and in transactions, and checks that what is refused leaves no trace.
struct Commits {
    input: String,
    output: String,
    producer: Box<dyn Producer>,
    /// The last offset that was committed, by group.
    group: Arc<str>,
    committed: Option<Offset>,
    tries: Offset,
    seen: Vec<String>,
}

impl Commits {
    fn new(b: &mut Bench<'_>, group: &str) -> Self {
        let (input, output, producer) = (b.topic("in", 1), b.topic("out", 1), b.transactional_alone());
        Self { input, output, producer, group: group.into(), committed: None, tries: 100, seen: Vec::new() }
    }

    fn of(b: &mut Bench<'_>, peer: &Peer) -> Self {
        Self::new(b, &peer.member().group)
    }

    #[track_caller]
    fn plain(&mut self, b: &mut Bench<'_>, member: &Member, want: Verdict) {
        self.tries += 1;
        let offset = next(&self.input, 0, self.tries);
        let outcome = b.broker().offsets().unwrap().commit(member, &[offset], Duration::from_secs(5));
        assert_eq!(verdict(&outcome), want, "plain: {outcome:?}");
        self.check(b, want);
    }

    #[track_caller]
    fn transaction(&mut self, b: &mut Bench<'_>, member: &Member, want: Verdict) {
        self.tries += 1;
        let text = self.tries.to_string();
        b.put(&mut *self.producer, &self.output, 0, &[&text]);
        let outcome = self.producer.commit(member, &[next(&self.input, 0, self.tries)], LIMIT);
        assert_eq!(verdict(&outcome), want, "in a transaction: {outcome:?}");
        match want {
            Committed => self.seen.push(text),
            // The producer is as good as before.
            _ => abort(&mut *self.producer),
        }
        self.check(b, want);
        assert_eq!(texts(&b.committed(&self.output, 0)), self.seen);
    }

    #[track_caller]
    fn check(&mut self, b: &mut Bench<'_>, want: Verdict) {
        if want == Committed {
            self.committed = Some(self.tries);
        }
        assert_eq!(b.fetch_next(&self.group, &self.input, 0), self.committed);
    }

    #[track_caller]
    fn both(&mut self, b: &mut Bench<'_>, member: &Member, want: Verdict) {
        self.plain(b, member, want);
        self.transaction(b, member, want);
    }
}

fn with_id(member: &Member, id: &str) -> Member {
    Member { member_id: id.into(), ..member.clone() }
}

fn with_generation(member: &Member, generation: i32) -> Member {
    Member { generation, ..member.clone() }
}

pub(super) fn current_member_commits(b: &mut Bench<'_>) {
    let peer = alone(b);
    let mut commits = Commits::of(b, &peer);
    commits.both(b, &peer.member(), Committed);
    commits.both(b, &peer.member(), Committed);
}

pub(super) fn stale_and_future_generations_are_fenced(b: &mut Bench<'_>) {
    let peer = alone(b);
    let member = peer.member();
    let mut commits = Commits::of(b, &peer);
    commits.both(b, &with_generation(&member, member.generation - 1), Lost);
    commits.both(b, &with_generation(&member, member.generation + 1), Lost);
    commits.both(b, &member, Committed);
}

pub(super) fn generation_of_before_a_rebalance_is_fenced(b: &mut Bench<'_>) {
    let mut peer = alone(b);
    let mut commits = Commits::of(b, &peer);
    let before = peer.member();
    rebalance(b, &mut [&mut peer]);
    commits.both(b, &before, Lost);
    commits.both(b, &peer.member(), Committed);
}

pub(super) fn unknown_and_empty_ids_are_fenced(b: &mut Bench<'_>) {
    let peer = alone(b);
    let member = peer.member();
    let mut commits = Commits::of(b, &peer);
    commits.both(b, &with_id(&member, "nobody"), Lost);
    commits.both(b, &with_id(&member, ""), Lost);
    commits.both(b, &member, Committed);
}

pub(super) fn member_that_left_is_fenced(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    let mut commits = Commits::of(b, &leader);
    assert_eq!(follower.leave(b), code::NONE);
    commits.both(b, &follower.member(), Lost);
    leader.await_heartbeat(b, code::REBALANCE_IN_PROGRESS);
    commits.both(b, &leader.member(), Committed);
}

pub(super) fn expired_member_is_fenced(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut frozen = Peer::new(b, &group, "frozen").with_timeouts(6_000, 6_000);
    let mut other = Peer::new(b, &group, "other");
    rebalance(b, &mut [&mut frozen, &mut other]);
    let mut commits = Commits::new(b, &group);
    commits.both(b, &frozen.member(), Committed);
    pass_alive(b, 9, &mut [&mut other]);
    commits.both(b, &frozen.member(), Lost);
    commits.both(b, &other.member(), Committed);
}

pub(super) fn former_incarnation_of_a_static_member_is_fenced(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut old = Peer::new(b, &group, "fixed").fixed();
    rebalance(b, &mut [&mut old]);
    let mut new = Peer::new(b, &group, "fixed").fixed();
    assert_eq!(new.join(b), code::NONE);
    assert_eq!(new.sync(b), code::NONE);
    let mut commits = Commits::new(b, &group);
    commits.both(b, &old.member(), Lost);
    commits.both(b, &Member { instance_id: None, ..old.member() }, Lost);
    commits.both(b, &new.member(), Committed);
}

pub(super) fn no_generation_and_no_id_in_a_live_group(b: &mut Bench<'_>) {
    let peer = alone(b);
    let nobody = with_id(&with_generation(&peer.member(), -1), "");
    let mut commits = Commits::of(b, &peer);
    commits.plain(b, &nobody, Lost);
    // Kafka does not fence this one: why a commit never goes without a generation.
    commits.transaction(b, &nobody, Committed);
}

pub(super) fn no_generation_with_an_id_is_fenced(b: &mut Bench<'_>) {
    let peer = alone(b);
    let mut commits = Commits::of(b, &peer);
    commits.both(b, &with_generation(&peer.member(), -1), Lost);
}

pub(super) fn empty_group_fences_generations(b: &mut Bench<'_>) {
    let mut peer = alone(b);
    let member = peer.member();
    let mut commits = Commits::of(b, &peer);
    assert_eq!(peer.leave(b), code::NONE);
    commits.both(b, &member, Lost);
    commits.both(b, &with_generation(&member, 0), Lost);
}

pub(super) fn empty_group_takes_commits_without_a_generation(b: &mut Bench<'_>) {
    let mut peer = alone(b);
    let member = peer.member();
    let mut commits = Commits::of(b, &peer);
    assert_eq!(peer.leave(b), code::NONE);
    commits.both(b, &with_generation(&member, -1), Committed);
    commits.both(b, &with_id(&with_generation(&member, -1), ""), Committed);
}

pub(super) fn group_that_never_was(b: &mut Bench<'_>) {
    let never = b.name("never");
    let member = Member { group: never.as_str().into(), member_id: "x".into(), instance_id: None, generation: 3 };
    let mut commits = Commits::new(b, &never);
    commits.both(b, &member, Lost);
    let nobody = with_id(&with_generation(&member, -1), "");
    commits.both(b, &nobody, Committed);
}

pub(super) fn partitions_of_others_are_not_fenced(b: &mut Bench<'_>) {
    use crate::membership::protocol::{Assignment, Subscription};
    let group = b.name("group");
    let mut peer = Peer::new(b, &group, "");
    let mut commits = Commits::new(b, &group);
    peer.metadata = Subscription { topics: vec![commits.input.clone()], ..Subscription::default() }.encode();
    assert_eq!(peer.join(b), code::NONE);
    let assignment = Assignment { partitions: vec![(commits.input.clone(), vec![7])], user_data: Vec::new() };
    assert_eq!(peer.sync_with(b, vec![(peer.member_id.clone(), assignment.encode())]), code::NONE);
    // Only member and generation count: who owns what is the application's to check.
    commits.both(b, &peer.member(), Committed);
}

pub(super) fn commit_before_rejoining(b: &mut Bench<'_>) {
    let mut peer = alone(b);
    let mut commits = Commits::of(b, &peer);
    let group = peer.member().group;
    let mut second = Peer::new(b, &group, "b");
    second.begin_join(b);
    peer.await_heartbeat(b, code::REBALANCE_IN_PROGRESS);
    commits.both(b, &peer.member(), Committed);
    peer.begin_join(b);
    assert_eq!((peer.end_join(b), second.end_join(b)), (code::NONE, code::NONE));
}

pub(super) fn commit_between_join_and_sync(b: &mut Bench<'_>) {
    let [mut leader, mut follower] = pair(b);
    let mut commits = Commits::of(b, &leader);
    let old = follower.member();
    join_all(b, &mut [&mut leader, &mut follower]);
    commits.plain(b, &follower.member(), Retriable);
    commits.plain(b, &old, Lost);
    commits.transaction(b, &old, Lost);
    commits.transaction(b, &follower.member(), Committed);
    leader.begin_sync();
    follower.begin_sync();
    assert_eq!((leader.end_sync(b), follower.end_sync(b)), (code::NONE, code::NONE));
    commits.both(b, &follower.member(), Committed);
}

pub(super) fn member_left_while_its_transaction_was_open(b: &mut Bench<'_>) {
    let mut peer = alone(b);
    let member = peer.member();
    let (input, output) = (b.topic("in", 1), b.topic("out", 1));
    let mut producer = b.transactional_alone();
    b.put(&mut *producer, &output, 0, &["late"]);
    super::bench::flush(&mut *producer);
    assert_eq!(peer.leave(b), code::NONE);
    let outcome = producer.commit(&member, &[next(&input, 0, 1)], LIMIT);
    assert_eq!(verdict(&outcome), Lost);
    abort(&mut *producer);
    assert!(b.committed(&output, 0).is_empty());
    assert_eq!(b.fetch_next(&member.group, &input, 0), None);
}
