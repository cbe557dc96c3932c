//! Faults on demand: every operation, lost before and after it took effect, late, and refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use millpond_broker_api::membership::{Incoming, Reply, Request, code};
use millpond_broker_api::{
    At, Broker, CommitOutcome, Committed, Delivered, ErrorKind, Isolation, NewTopic, Outgoing, ProducerOptions, Sent,
    Source, Stable, TopicId,
};
use millpond_broker_mem::{EmbeddedBroker, Op, OpKind, Options, TransactionState, Verdict};

const LATE: Verdict = Verdict::Delay(SECOND);

fn fetched(broker: &EmbeddedBroker) -> Stable {
    broker.offsets().unwrap().fetch_stable("g", &[("t", 0)], NOW).unwrap()
}

fn offsets(next: Option<i64>) -> Stable {
    Stable::Offsets(vec![next.map(|next| Committed { next, leader_epoch: -1, metadata: String::new() })])
}

fn rows(producer: &mut dyn millpond_broker_api::Producer) -> (usize, Vec<Delivered>) {
    let flushed = producer.flush(NOW).unwrap();
    assert!(flushed.failed.is_empty(), "{:?}", flushed.failed);
    (flushed.outstanding, flushed.delivered.to_vec())
}

#[test]
fn append_that_is_lost_is_repeated() {
    let (broker, _) = broker();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    send(&mut *producer, 0, "a");
    send(&mut *producer, 1, "b");
    broker.plan(OpKind::Append, Verdict::DropRequest);
    let of = |partition, next| Delivered { topic: TopicId(0), partition, records: 1, next };
    assert_eq!(rows(&mut *producer), (1, vec![of(1, Some(1))]));
    assert_eq!(committed(&broker, 0), [""; 0]);
    send(&mut *producer, 0, "c");
    let both = Delivered { topic: TopicId(0), partition: 0, records: 2, next: Some(2) };
    assert_eq!(rows(&mut *producer), (0, vec![of(1, Some(1)), both]));
    assert_eq!(committed(&broker, 0), ["a", "c"]);
}

#[test]
fn append_whose_answer_is_lost_is_written_once() {
    for verdict in [Verdict::DropReply, LATE] {
        let (broker, _) = broker();
        let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
        send(&mut *producer, 0, "a");
        broker.plan(OpKind::Append, verdict);
        assert_eq!(rows(&mut *producer), (1, vec![]));
        assert_eq!(committed(&broker, 0), ["a"]);
        let duplicate = Delivered { topic: TopicId(0), partition: 0, records: 1, next: None };
        assert_eq!(rows(&mut *producer), (0, vec![duplicate]));
        assert_eq!(rows(&mut *producer), (0, vec![]), "it was reported");
        assert_eq!(committed(&broker, 0), ["a"]);
    }
}

#[test]
fn append_that_is_late_in_time_is_no_fault() {
    let (broker, _) = broker();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    send(&mut *producer, 0, "a");
    broker.plan(OpKind::Append, LATE);
    let flushed = producer.flush(SECOND).unwrap();
    assert_eq!((flushed.outstanding, flushed.delivered.len()), (0, 1));
}

#[test]
fn append_that_is_refused_is_a_failure() {
    let (broker, _) = broker();
    let mut producer = transactional(&broker, "tx");
    send(&mut *producer, 0, "a");
    broker.plan(OpKind::Append, Verdict::Fail(ErrorKind::Refused));
    let failed = producer.flush(NOW).unwrap().failed.to_vec();
    assert_eq!(failed.iter().map(|f| (f.tag, f.error.kind())).collect::<Vec<_>>(), [(7, ErrorKind::Refused)]);
    let outcome = producer.commit(&alone("g"), &at(1), NOW);
    assert!(matches!(outcome, CommitOutcome::Aborted(_)), "{outcome:?}");
    send(&mut *producer, 0, "b");
    is_committed(&producer.commit(&alone("g"), &at(1), NOW));
    assert_eq!(committed(&broker, 0), ["b"]);
}

#[test]
fn buffer_that_cannot_be_written_becomes_full() {
    let (broker, _) = broker_with(Options { buffer_bytes: 200_000, ..Options::default() });
    broker.set_faults(|op: Op<'_>| match op {
        Op::Append { .. } => Verdict::DropRequest,
        _ => Verdict::Pass,
    });
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let topic = producer.topic("t");
    let value = vec![1; 10_000];
    let record = Outgoing { topic, partition: 0, timestamp: 0, key: None, value: Some(&value), headers: &[], tag: 0 };
    let taken = (0..100).take_while(|_| producer.send(&record).unwrap() == Sent::Queued).count();
    assert_eq!(taken, 20);
    broker.clear_faults();
    assert_eq!(producer.flush(NOW).unwrap().outstanding, 0);
    assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
}

/// What a commit comes to whose step meets a fault, and what is seen once the id was taken anew.
fn unknown_commit(op: OpKind, verdict: Verdict, happened: bool) {
    let (broker, _) = broker();
    let mut producer = transactional(&broker, "tx");
    send(&mut *producer, 0, "a");
    broker.plan(op, verdict);
    is_unknown(&producer.commit(&alone("g"), &at(5), NOW));
    is_unknown(&producer.commit(&alone("g"), &at(5), NOW));
    assert_eq!(producer.abort(NOW).unwrap_err().kind(), ErrorKind::Fatal, "never abort what may be committed");
    producer.init(NOW).unwrap();
    assert_eq!(fetched(&broker), offsets(happened.then_some(5)), "{op:?} {verdict:?}");
    assert_eq!(committed(&broker, 0).len(), usize::from(happened), "{op:?} {verdict:?}");
    send(&mut *producer, 0, "b");
    is_committed(&producer.commit(&alone("g"), &at(6), NOW));
    assert_eq!(fetched(&broker), offsets(Some(6)));
}

#[test]
fn commit_without_an_answer_is_unknown() {
    for op in [OpKind::Append, OpKind::TxnOffsetCommit, OpKind::EndTxn] {
        unknown_commit(op, Verdict::DropRequest, false);
        unknown_commit(op, Verdict::DropReply, op == OpKind::EndTxn);
        unknown_commit(op, LATE, op == OpKind::EndTxn);
        unknown_commit(op, Verdict::Fail(ErrorKind::Retriable), false);
    }
}

#[test]
fn commit_that_is_refused_leaves_nothing_behind() {
    for op in [OpKind::TxnOffsetCommit, OpKind::EndTxn] {
        for kind in [ErrorKind::Abortable, ErrorKind::MembershipLost] {
            let (broker, _) = broker();
            let mut producer = transactional(&broker, "tx");
            send(&mut *producer, 0, "a");
            broker.plan(op, Verdict::Fail(kind));
            let outcome = producer.commit(&alone("g"), &at(5), NOW);
            match &outcome {
                CommitOutcome::Fenced(e) => assert_eq!((e.kind(), kind), (kind, ErrorKind::MembershipLost)),
                CommitOutcome::Aborted(e) => assert_eq!(e.kind(), ErrorKind::Abortable),
                _ => panic!("{outcome:?}"),
            }
            producer.abort(NOW).unwrap();
            assert_eq!((fetched(&broker), committed(&broker, 0)), (offsets(None), vec![]));
            send(&mut *producer, 0, "b");
            is_committed(&producer.commit(&alone("g"), &at(6), NOW));
            assert_eq!(committed(&broker, 0), ["b"]);
        }
    }
}

#[test]
fn producer_that_is_said_to_be_fenced_stays_so() {
    let (broker, _) = broker();
    let mut producer = transactional(&broker, "tx");
    send(&mut *producer, 0, "a");
    broker.plan(OpKind::EndTxn, Verdict::Fail(ErrorKind::ProducerFenced));
    let outcome = producer.commit(&alone("g"), &[], NOW);
    assert!(matches!(&outcome, CommitOutcome::Fenced(e) if e.kind() == ErrorKind::ProducerFenced), "{outcome:?}");
    assert_eq!(producer.init(NOW).unwrap_err().kind(), ErrorKind::ProducerFenced);
    assert_eq!(producer.abort(NOW).unwrap_err().kind(), ErrorKind::ProducerFenced);
}

#[test]
fn abort_without_an_answer_can_be_repeated() {
    for verdict in [Verdict::DropRequest, Verdict::DropReply, LATE, Verdict::Fail(ErrorKind::Retriable)] {
        let (broker, _) = broker();
        let mut producer = transactional(&broker, "tx");
        send(&mut *producer, 0, "a");
        producer.flush(NOW).unwrap();
        broker.plan(OpKind::EndTxn, verdict);
        assert_eq!(producer.abort(NOW).unwrap_err().kind(), ErrorKind::Retriable, "{verdict:?}");
        producer.abort(NOW).unwrap();
        send(&mut *producer, 0, "b");
        is_committed(&producer.commit(&alone("g"), &[], NOW));
        assert_eq!(committed(&broker, 0), ["b"]);
    }
}

#[test]
fn init_without_an_answer_may_have_fenced() {
    for (verdict, fences) in [(Verdict::DropRequest, false), (Verdict::DropReply, true), (LATE, true)] {
        let (broker, _) = broker();
        let mut old = transactional(&broker, "tx");
        send(&mut *old, 0, "a");
        let mut new = broker.producer(&ProducerOptions::transactional("tx")).unwrap();
        broker.plan(OpKind::InitProducerId, verdict);
        assert_eq!(new.init(NOW).unwrap_err().kind(), ErrorKind::Retriable);
        let outcome = old.commit(&alone("g"), &[], NOW);
        assert_eq!(matches!(outcome, CommitOutcome::Fenced(_)), fences, "{verdict:?} {outcome:?}");
        new.init(NOW).unwrap();
        send(&mut *new, 0, "b");
        is_committed(&new.commit(&alone("g"), &[], NOW));
    }
}

#[test]
fn markers_lag_and_offsets_are_unstable_meanwhile() {
    let (broker, clock) = broker_with(Options { marker_lag: 10 * MS, ..Options::default() });
    let mut producer = transactional(&broker, "tx");
    send(&mut *producer, 0, "a");
    is_committed(&producer.commit(&alone("g"), &at(1), NOW));
    assert_eq!(broker.transaction("tx"), Some(TransactionState::Ending { commit: true }));
    assert_eq!(committed(&broker, 0), [""; 0]);
    let unstable = Stable::Unstable { topic: "t".to_owned(), partition: 0 };
    assert_eq!(fetched(&broker), unstable);
    let mut twin = broker.producer(&ProducerOptions::transactional("tx")).unwrap();
    assert_eq!(twin.init(NOW).unwrap_err().kind(), ErrorKind::Retriable, "the commit is being completed");
    clock.advance(10 * MS);
    assert_eq!((fetched(&broker), committed(&broker, 0)), (offsets(Some(1)), vec!["a".to_owned()]));
    twin.init(NOW).unwrap();
}

#[test]
fn planned_lag_of_markers_is_for_one_transaction() {
    let (broker, clock) = broker();
    let mut producer = transactional(&broker, "tx");
    broker.plan(OpKind::WriteMarkers, LATE);
    send(&mut *producer, 0, "a");
    is_committed(&producer.commit(&alone("g"), &[], NOW));
    assert_eq!(committed(&broker, 0), [""; 0]);
    // The next transaction of the same producer waits for the markers of the last one.
    send(&mut *producer, 0, "b");
    assert_eq!(committed(&broker, 0), ["a"]);
    is_committed(&producer.commit(&alone("g"), &[], NOW));
    assert_eq!(committed(&broker, 0), ["a", "b"]);
    clock.advance(SECOND);
    assert_eq!(broker.dump("t", 0).unwrap().len(), 4);
}

#[test]
fn transaction_that_init_aborts_lags_too() {
    let (broker, clock) = broker_with(Options { marker_lag: 10 * MS, ..Options::default() });
    let mut old = transactional(&broker, "tx");
    send(&mut *old, 0, "a");
    old.flush(NOW).unwrap();
    let mut new = broker.producer(&ProducerOptions::transactional("tx")).unwrap();
    assert_eq!(new.init(NOW).unwrap_err().kind(), ErrorKind::Retriable);
    assert_eq!(old.flush(NOW).map(|f| f.outstanding).unwrap(), 0, "nothing to write, so nobody tells it");
    let outcome = old.commit(&alone("g"), &[], NOW);
    assert!(matches!(outcome, CommitOutcome::Fenced(_)), "{outcome:?}");
    clock.advance(10 * MS);
    new.init(NOW).unwrap();
    assert_eq!(committed(&broker, 0), [""; 0]);
}

#[test]
fn poll_that_is_late_lends_nothing_until_then() {
    let (broker, clock) = broker();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    send(&mut *producer, 0, "a");
    producer.flush(NOW).unwrap();
    let mut consumer = consumer(&broker, Isolation::ReadCommitted, 0);
    broker.plan(OpKind::Fetch, LATE);
    assert_eq!(poll(&mut *consumer), [""; 0]);
    clock.advance(SECOND - MS);
    assert_eq!(poll(&mut *consumer), [""; 0]);
    assert_eq!(consumer.position(Source(0)), Some(0));
    clock.advance(MS);
    assert_eq!(poll(&mut *consumer), ["a"]);
}

#[test]
fn poll_that_is_lost_or_refused_loses_no_record() {
    let (broker, _) = broker();
    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    send(&mut *producer, 0, "a");
    producer.flush(NOW).unwrap();
    let mut consumer = consumer(&broker, Isolation::ReadCommitted, 0);
    broker.plan(OpKind::Fetch, Verdict::DropReply);
    assert_eq!(poll(&mut *consumer), [""; 0]);
    broker.plan(OpKind::Fetch, Verdict::Fail(ErrorKind::Retriable));
    assert_eq!(consumer.poll(NOW).unwrap_err().kind(), ErrorKind::Retriable);
    assert_eq!(poll(&mut *consumer), ["a"]);
}

#[test]
fn plain_commit_without_an_answer_is_unknown() {
    for (verdict, happened) in [(Verdict::DropRequest, false), (Verdict::DropReply, true), (LATE, true)] {
        let (broker, _) = broker();
        broker.plan(OpKind::OffsetCommit, verdict);
        is_unknown(&broker.offsets().unwrap().commit(&alone("g"), &at(3), NOW));
        assert_eq!(fetched(&broker), offsets(happened.then_some(3)));
    }
    let (broker, _) = broker();
    broker.plan(OpKind::OffsetCommit, Verdict::Fail(ErrorKind::MembershipLost));
    let outcome = broker.offsets().unwrap().commit(&alone("g"), &at(3), NOW);
    assert!(matches!(outcome, CommitOutcome::Fenced(_)), "{outcome:?}");
    assert_eq!(fetched(&broker), offsets(None));
}

#[test]
fn offsets_may_be_unstable_or_without_an_answer() {
    let (broker, _) = broker();
    is_committed(&broker.offsets().unwrap().commit(&alone("g"), &at(3), NOW));
    broker.plan(OpKind::OffsetFetch, Verdict::Unstable);
    assert!(matches!(fetched(&broker), Stable::Unstable { .. }));
    for verdict in [Verdict::DropRequest, Verdict::DropReply, LATE, Verdict::Fail(ErrorKind::Retriable)] {
        broker.plan(OpKind::OffsetFetch, verdict);
        let error = broker.offsets().unwrap().fetch_stable("g", &[("t", 0)], NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retriable);
    }
    assert_eq!(fetched(&broker), offsets(Some(3)));
}

#[test]
fn admin_request_may_be_lost_before_and_after() {
    let (broker, _) = broker();
    let mut admin = broker.admin().unwrap();
    let new = NewTopic { name: "new", partitions: 1, replication: None, configs: &[] };
    broker.plan(OpKind::Admin, Verdict::DropRequest);
    assert_eq!(admin.create_topics(&[new]).unwrap_err().kind(), ErrorKind::Retriable);
    assert_eq!(admin.describe(&["new"]).unwrap(), [None]);
    broker.plan(OpKind::Admin, Verdict::DropReply);
    assert_eq!(admin.create_topics(&[new]).unwrap_err().kind(), ErrorKind::Retriable);
    assert!(admin.describe(&["new"]).unwrap().remove(0).is_some());
    broker.plan(OpKind::Admin, Verdict::Fail(ErrorKind::Fatal));
    assert_eq!(admin.offsets(&[("t", 0, At::End)]).unwrap_err().kind(), ErrorKind::Fatal);
}

fn join(instance_id: Option<&str>) -> Request {
    Request::Join {
        member_id: "".into(),
        instance_id: instance_id.map(Into::into),
        session_timeout: 10 * SECOND,
        rebalance_timeout: 8 * SECOND,
        protocol: "p".into(),
        metadata: vec![],
    }
}

#[test]
fn link_without_an_answer_gives_up_after_a_while() {
    for (verdict, happened) in [(Verdict::DropRequest, false), (Verdict::DropReply, true)] {
        let (broker, clock) = broker();
        let mut link = broker.group_link("g").unwrap();
        broker.plan(OpKind::Group, verdict);
        link.send(&join(Some("i")));
        assert_eq!(link.receive(NOW), None);
        assert_eq!(broker.group("g").is_some_and(|g| g.members.len() == 1), happened, "{verdict:?}");
        clock.advance(Duration::from_secs(30));
        assert_eq!(link.receive(NOW), Some(Incoming::Disconnected));
        assert_eq!(link.receive(NOW), None);
    }
}

#[test]
fn link_may_be_cut_late_or_told_a_code() {
    let (broker, clock) = broker();
    let mut link = broker.group_link("g").unwrap();
    broker.plan(OpKind::Group, Verdict::Disconnect);
    link.send(&join(None));
    assert_eq!(link.receive(NOW), Some(Incoming::Disconnected));
    broker.plan(OpKind::Group, Verdict::Code(code::NOT_COORDINATOR));
    link.send(&Request::FindCoordinator);
    let refused = Incoming::Reply(Reply::Coordinator { code: code::NOT_COORDINATOR });
    assert_eq!(link.receive(NOW), Some(refused));
    broker.plan(OpKind::Group, LATE);
    link.send(&Request::FindCoordinator);
    assert_eq!(link.receive(NOW), None);
    clock.advance(SECOND);
    assert_eq!(link.receive(NOW), Some(Incoming::Reply(Reply::Coordinator { code: code::NONE })));
}

#[test]
fn cut_links_lose_the_answers_in_flight() {
    let (broker, clock) = broker_with(Options { initial_rebalance_delay: SECOND, ..Options::default() });
    let mut link = broker.group_link("g").unwrap();
    link.send(&join(Some("i")));
    broker.disconnect("g");
    assert_eq!(link.receive(NOW), Some(Incoming::Disconnected));
    clock.advance(SECOND);
    assert_eq!(link.receive(NOW), None, "the group has answered nobody");
    assert_eq!(broker.group("g").unwrap().generation, 1);
}

#[test]
fn cut_link_takes_along_what_was_sent_before_the_cut_was_seen() {
    let (broker, clock) = broker_with(Options { initial_rebalance_delay: SECOND, ..Options::default() });
    let mut link = broker.group_link("g").unwrap();
    broker.disconnect("g");
    link.send(&join(Some("i")));
    assert_eq!(link.receive(NOW), Some(Incoming::Disconnected));
    // The coordinator fences the first join, and there is nobody to tell.
    link.send(&join(Some("i")));
    assert_eq!(link.receive(NOW), None);
    clock.advance(SECOND);
    assert!(matches!(link.receive(NOW), Some(Incoming::Reply(Reply::Join { code: code::NONE, .. }))));
    assert_eq!(link.receive(NOW), None);
}

#[test]
fn cut_link_takes_along_answers_behind_the_cut() {
    let (broker, _) = broker();
    let mut link = broker.group_link("g").unwrap();
    broker.disconnect("g");
    link.send(&Request::FindCoordinator);
    broker.disconnect("g");
    assert_eq!(link.receive(NOW), Some(Incoming::Disconnected));
    assert_eq!(link.receive(NOW), None, "neither the answer nor a second end");
    link.send(&Request::FindCoordinator);
    assert_eq!(link.receive(NOW), Some(Incoming::Reply(Reply::Coordinator { code: code::NONE })));
}

#[test]
fn policy_sees_everything_and_planned_faults_come_first() {
    let (broker, _) = broker();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    broker.set_faults(move |op: Op<'_>| {
        log.lock().unwrap().push(op.kind());
        Verdict::Pass
    });
    broker.plan(OpKind::EndTxn, Verdict::DropReply);
    let mut producer = transactional(&broker, "tx");
    send(&mut *producer, 0, "a");
    is_unknown(&producer.commit(&alone("g"), &at(1), NOW));
    fetched(&broker);
    broker.group_link("g").unwrap().send(&Request::FindCoordinator);
    committed(&broker, 0);
    let want = [
        OpKind::InitProducerId,
        OpKind::Append,
        OpKind::TxnOffsetCommit,
        OpKind::WriteMarkers,
        OpKind::OffsetFetch,
        OpKind::Group,
        OpKind::Fetch,
    ];
    assert_eq!(*seen.lock().unwrap(), want);
}
