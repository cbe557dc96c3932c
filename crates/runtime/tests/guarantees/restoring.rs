//! Transactions while another task of the same worker restores for longer than a transaction may be open.

use std::time::Duration;

use millpond_broker_mem::{Op, TransactionState, Verdict};
use millpond_runtime::{Clock, Counter, Guarantee, TaskId, TaskState};
use millpond_store_mem::SimulatedDisk;

use crate::support::{TRANSACTIONAL_ID, World};

const SECOND: Duration = Duration::from_secs(1);

fn state_of(world: &mut World, partition: i32) -> TaskState {
    let task = TaskId { sub_topology: 0, partition };
    world.instance().tasks().into_iter().find(|(id, ..)| *id == task).map(|(.., state)| state).unwrap()
}

/// KAFKA-6634. Whoever opens a transaction before it has something to write finds it expired after a long restore.
#[test]
fn b114_no_transaction_is_open_while_restoring() {
    let mut world = World::new(Guarantee::ExactlyOnce);
    world.settings.transaction_timeout = 10 * SECOND;
    world.start();
    world.send(1, 500);
    world.run(2 * SECOND);
    world.stop();
    // Its state is gone, and the changelog of one task comes slowly. The second consumer of a worker reads changelogs; the
    // first worker of the second instance has the third and the fourth.
    world.disk = SimulatedDisk::default();
    world.dir = tempfile::tempdir().unwrap();
    world.settings.state_dir = Some(world.dir.path().to_owned());
    let (clock, slow_until) = (world.clock.clone(), world.clock.now() + 30 * SECOND);
    world.broker.set_faults(move |op: Op<'_>| match op {
        Op::Fetch { consumer: 3 } if clock.now() < slow_until => Verdict::DropRequest,
        _ => Verdict::Pass,
    });
    world.start();
    world.run(SECOND);
    assert_eq!(state_of(&mut world, 0), TaskState::Running);
    for second in 1..28 {
        assert_eq!(state_of(&mut world, 1), TaskState::Restoring, "after {second} s");
        // Without data no transaction is open, whatever the other task does.
        assert_eq!(world.broker.transaction(TRANSACTIONAL_ID), Some(TransactionState::Idle), "after {second} s");
        // With data it is committed as always.
        world.send(0, second % 2);
        world.run(SECOND);
        let sent = (1..=second).map(|s| s % 2).sum::<i64>();
        assert_eq!(world.counts(0), (1..=sent).collect::<Vec<_>>(), "after {second} s");
        assert_eq!(world.committed_offset(0).unwrap_or(0), sent, "after {second} s");
    }
    world.send(1, 100);
    world.run(5 * SECOND);
    assert_eq!(state_of(&mut world, 1), TaskState::Running);
    assert_eq!(world.count_of(Counter::RestoreTotal), 500);
    assert_eq!(world.count_of(Counter::RollbackTotal), 0, "nothing was fenced");
    world.assert_exactly_once("after the restore");
}
