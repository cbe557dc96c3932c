//! A commit whose answer is lost: nobody guesses, the broker is asked.

use std::time::Duration;

use millpond_broker_api::ErrorKind;
use millpond_broker_mem::{Op, OpKind, TransactionState, Verdict};
use millpond_runtime::Counter;

use crate::support::{TRANSACTIONAL_ID, World};

const SECOND: Duration = Duration::from_secs(1);

/// KAFKA-9274. Each of the two requests of a commit can lose its way there or its answer's way back.
#[test]
fn b131_a_commit_whose_answer_is_lost_is_resolved_by_asking() {
    let truths = [
        (OpKind::EndTxn, Verdict::DropReply),
        (OpKind::EndTxn, Verdict::DropRequest),
        (OpKind::EndTxn, Verdict::Fail(ErrorKind::Retriable)),
        (OpKind::TxnOffsetCommit, Verdict::DropReply),
        (OpKind::TxnOffsetCommit, Verdict::DropRequest),
    ];
    for (op, verdict) in truths {
        let mut world = World::running();
        let mut failed = 0;
        for run in 1..=20 {
            let what = format!("{op:?} {verdict:?}, run {run}");
            world.broker.plan(op, verdict);
            world.send(0, run);
            world.send(1, 2 * run);
            world.run(SECOND);
            failed += 1;
            assert_eq!(world.count_of(Counter::CommitFailedTotal), failed, "{what}: the answer was lost");
            world.assert_exactly_once(&what);
        }
        assert_eq!(world.count_of(Counter::RollbackTotal), failed, "{op:?} {verdict:?}: one way back for each");
        assert_eq!(world.count_of(Counter::ShardReopenedTotal), 0, "{op:?} {verdict:?}: no state is thrown away");
    }
}

/// As long as the question itself gets no answer, nothing is read, written or committed on either guess.
#[test]
fn b131_nothing_goes_on_until_the_question_is_answered() {
    for (verdict, happened) in [(Verdict::DropReply, true), (Verdict::DropRequest, false)] {
        let mut world = World::running();
        world.broker.plan(OpKind::EndTxn, verdict);
        world.send(0, 30);
        while world.count_of(Counter::CommitFailedTotal) == 0 {
            world.run(Duration::from_millis(10));
        }
        world.broker.set_faults(|op: Op<'_>| match op.kind() {
            OpKind::InitProducerId => Verdict::DropRequest,
            _ => Verdict::Pass,
        });
        world.send(0, 30);
        let known = if happened { 50 } else { 20 };
        for _ in 0..5 {
            world.run(SECOND);
            assert_eq!(world.counts(0).len(), known, "{verdict:?}");
            assert_eq!(world.committed_offset(0), Some(known as i64), "{verdict:?}");
        }
        world.broker.clear_faults();
        world.run(SECOND);
        world.assert_exactly_once(&format!("{verdict:?}"));
    }
}

/// The process dies before it could ask: its next self asks by taking over the transactional id.
#[test]
fn b131_a_lost_answer_and_a_kill() {
    for verdict in [Verdict::DropReply, Verdict::DropRequest] {
        let mut world = World::running();
        world.broker.plan(OpKind::EndTxn, verdict);
        world.send(0, 30);
        while world.count_of(Counter::CommitFailedTotal) == 0 {
            world.run(Duration::from_millis(10));
        }
        world.start();
        world.send(1, 30);
        world.run(2 * SECOND);
        world.assert_exactly_once(&format!("{verdict:?}"));
    }
}

/// The last commit of a clean stop: whoever comes next finds out.
#[test]
fn b131_a_lost_answer_at_a_stop() {
    for (verdict, happened) in [(Verdict::DropReply, true), (Verdict::DropRequest, false)] {
        let mut world = World::running();
        world.process_without_commit(0, 30);
        let committed = world.committed_offset(0).unwrap();
        world.broker.plan(OpKind::EndTxn, verdict);
        world.stop();
        let known = if happened { 50 } else { committed };
        assert_eq!(world.committed_offset(0), Some(known), "{verdict:?}");
        assert_eq!(world.broker.transaction(TRANSACTIONAL_ID), Some(TransactionState::Idle), "{verdict:?}");
        world.start();
        world.run(2 * SECOND);
        world.assert_exactly_once(&format!("{verdict:?}"));
        assert_eq!(world.count_of(Counter::ProcessTotal), (50 - known) as u64, "{verdict:?}");
    }
}
