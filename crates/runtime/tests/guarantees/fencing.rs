//! Being fenced, in every way and at every request: the tasks go back to what is committed, the process goes on.

use std::time::Duration;

use millpond_broker_api::{Broker, ErrorKind, ProducerOptions};
use millpond_broker_mem::{Op, TransactionState, Verdict};
use millpond_runtime::{Counter, Guarantee};

use crate::support::{TRANSACTIONAL_ID, World};

const SECOND: Duration = Duration::from_secs(1);

/// What a broker says to a producer or member that it does not take for the one it knows: the classes into which clients sort
/// PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID and INVALID_TXN_STATE.
const FACES: [ErrorKind; 3] = [ErrorKind::ProducerFenced, ErrorKind::MembershipLost, ErrorKind::Abortable];

/// Lets one request fail.
fn fail_once(world: &World, kind: ErrorKind, mut which: impl FnMut(&Op<'_>) -> bool + Send + 'static) {
    let mut left = 1;
    world.broker.set_faults(move |op: Op<'_>| {
        if left == 0 || !which(&op) {
            return Verdict::Pass;
        }
        left -= 1;
        Verdict::Fail(kind)
    });
}

/// Counts go on after a fault, each once.
fn goes_on(mut world: World, what: &str) {
    world.run(5 * SECOND);
    assert!(world.instance().is_running(), "{what}");
    world.assert_exactly_once(what);
    world.send(0, 10);
    world.send(1, 10);
    world.run(2 * SECOND);
    world.assert_exactly_once(what);
    let closed = world.count_of(Counter::RollbackTotal);
    assert!((1..=2).contains(&closed), "{what}: {closed} ways back, where one fault was");
}

#[test]
fn b132_fenced_at_a_send() {
    for kind in FACES {
        let mut world = World::running();
        fail_once(&world, kind, |op| matches!(op, Op::Append { transactional_id: Some(_), .. }));
        world.send(0, 30);
        world.send(1, 30);
        goes_on(world, &format!("{kind:?} at a send"));
    }
}

#[test]
fn b132_fenced_when_offsets_are_added() {
    for kind in FACES {
        let mut world = World::running();
        fail_once(&world, kind, |op| matches!(op, Op::TxnOffsetCommit { .. }));
        world.send(0, 30);
        goes_on(world, &format!("{kind:?} when offsets are added"));
    }
}

#[test]
fn b132_fenced_at_a_commit() {
    for kind in FACES {
        let mut world = World::running();
        fail_once(&world, kind, |op| matches!(op, Op::EndTxn { commit: true, .. }));
        world.send(0, 30);
        goes_on(world, &format!("{kind:?} at a commit"));
    }
}

/// KAFKA-9231: an abort after an error that had ended the transaction already.
#[test]
fn b132_fenced_at_an_abort() {
    for kind in [ErrorKind::ProducerFenced, ErrorKind::Abortable, ErrorKind::Retriable] {
        let mut world = World::running();
        let (mut writes, mut aborts) = (0, 0);
        world.broker.set_faults(move |op: Op<'_>| match op {
            // A member that is not known any more aborts.
            Op::Append { transactional_id: Some(_), .. } if writes == 0 => {
                writes += 1;
                Verdict::Fail(ErrorKind::MembershipLost)
            }
            Op::EndTxn { commit: false, .. } if aborts == 0 => {
                aborts += 1;
                Verdict::Fail(kind)
            }
            _ => Verdict::Pass,
        });
        world.send(0, 30);
        goes_on(world, &format!("{kind:?} at an abort"));
    }
}

/// KAFKA-16699: fenced while it takes the transactional id over, once and again.
#[test]
fn b132_fenced_when_the_id_is_taken_over() {
    let mut world = World::running();
    let mut left = 4;
    world.broker.set_faults(move |op: Op<'_>| match op {
        Op::EndTxn { commit: true, .. } if left == 4 => {
            left -= 1;
            Verdict::DropRequest
        }
        Op::InitProducerId { .. } if (1..4).contains(&left) => {
            left -= 1;
            Verdict::Fail(ErrorKind::ProducerFenced)
        }
        _ => Verdict::Pass,
    });
    world.send(0, 30);
    goes_on(world, "when the id is taken over");
}

/// Another producer takes the transactional id: not planned, but what really happens.
#[test]
fn b132_fenced_by_another_holder_of_the_transactional_id() {
    for in_a_transaction in [false, true] {
        let mut world = World::running();
        if in_a_transaction {
            world.process_without_commit(0, 30);
        }
        let mut other = world.broker.producer(&ProducerOptions::transactional(TRANSACTIONAL_ID)).unwrap();
        other.init(Duration::ZERO).unwrap();
        world.send(1, 30);
        goes_on(world, &format!("fenced by another, in a transaction: {in_a_transaction}"));
    }
}

/// KAFKA-16221, KAFKA-19690: a worker stands still for twice the time that its transaction may be open.
#[test]
fn b132_a_transaction_that_timed_out() {
    let mut world = World::running();
    world.process_without_commit(0, 30);
    assert_eq!(world.settings.transaction_timeout, 10 * SECOND);
    assert_eq!(world.broker.transaction(TRANSACTIONAL_ID), Some(TransactionState::Ongoing));
    world.stall_worker(20 * SECOND);
    world.send(1, 30);
    goes_on(world, "a transaction that timed out");
}

/// KAFKA-16903. Two tasks share a producer: what one of them could not write takes the other's part of the transaction along.
#[test]
fn b133_an_error_of_the_producer_belongs_to_all_tasks_that_share_it() {
    for kind in FACES {
        let mut world = World::running();
        fail_once(&world, kind, |op| matches!(op, Op::Append { topic: "app-counts-changelog", partition: 0, .. }));
        world.send(0, 30);
        world.send(1, 30);
        while world.count_of(Counter::RollbackTotal) == 0 {
            world.try_step().unwrap();
            world.clock.advance(Duration::from_millis(10));
        }
        for partition in [0, 1] {
            assert_eq!(world.counts(partition).len(), 20, "{kind:?}: nothing of partition {partition} is committed");
            assert_eq!(world.committed_offset(partition), Some(20), "{kind:?}: partition {partition}");
        }
        goes_on(world, &format!("{kind:?} at the write of one task"));
    }
}

/// What ends the application ends it for both tasks: nothing of the interval is committed, and the next start does all of it.
#[test]
fn b133_a_fatal_error_commits_nothing_of_the_other_task() {
    for kind in [ErrorKind::Fatal, ErrorKind::Refused] {
        let mut world = World::running();
        fail_once(&world, kind, |op| matches!(op, Op::Append { topic: "app-counts-changelog", partition: 0, .. }));
        world.send(0, 30);
        world.send(1, 30);
        let error = (0..100).find_map(|_| {
            world.clock.advance(Duration::from_millis(10));
            world.try_step().err()
        });
        let text = error.expect("the application stops").chain();
        assert!(text.contains("partition=`0`"), "{kind:?}: {text}");
        for partition in [0, 1] {
            assert_eq!(world.counts(partition).len(), 20, "{kind:?}: nothing of partition {partition} is committed");
            assert_eq!(world.committed_offset(partition), Some(20), "{kind:?}: partition {partition}");
        }
        world.start();
        world.run(5 * SECOND);
        world.assert_exactly_once(&format!("{kind:?}, after a restart"));
    }
}

/// Under at-least-once no producer is fenced, but a member may be: its tasks go back, and nothing is lost.
#[test]
fn b132_under_at_least_once_a_refused_commit_loses_nothing() {
    let mut world = World::new(Guarantee::AtLeastOnce);
    world.start();
    world.run(SECOND);
    fail_once(&world, ErrorKind::MembershipLost, |op| matches!(op, Op::OffsetCommit { .. }));
    world.send(0, 30);
    world.run(5 * SECOND);
    assert!(world.instance().is_running());
    assert_eq!(world.count_of(Counter::RollbackTotal), 1);
    assert_eq!(world.committed_offset(0), Some(30));
    let counts = world.counts(0);
    assert_eq!(counts.iter().max(), world.stored(0).as_ref(), "the log has what the store has");
    assert!(counts.len() >= 30 && counts.starts_with(&(1..=30).collect::<Vec<_>>()), "{counts:?}");
}
