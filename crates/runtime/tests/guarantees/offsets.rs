//! Committed offsets that are gone while the state that they belong to is not.

use std::time::Duration;

use millpond_broker_api::Broker;
use millpond_runtime::{ErrorKind, Guarantee};
use millpond_store_mem::SimulatedDisk;

use crate::support::World;

const SECOND: Duration = Duration::from_secs(1);

/// A world that has counted, was stopped, and whose group was forgotten meanwhile.
fn forgotten(guarantee: Guarantee) -> World {
    let mut world = World::new(guarantee);
    world.start();
    world.send(0, 20);
    world.run(2 * SECOND);
    world.stop();
    assert!(world.broker.expire_group("app"));
    assert_eq!(world.committed_offset(0), None);
    world
}

#[test]
fn under_exactly_once_records_are_not_counted_again_because_offsets_expired() {
    let mut world = forgotten(Guarantee::ExactlyOnce);
    world.start();
    let error = (0..100)
        .find_map(|_| {
            world.clock.advance(SECOND / 100);
            world.try_step().err()
        })
        .expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    let told = error.chain();
    for part in ["topic=`in`", "partition=`0`", "counted at least up to=`20`", "offsets.retention.minutes"] {
        assert!(told.contains(part), "`{part}` is not in: {told}");
    }
    assert_eq!(world.counts(0), (1..=20).collect::<Vec<_>>());
}

#[test]
fn under_exactly_once_a_group_that_is_forgotten_with_its_state_begins_anew() {
    let mut world = forgotten(Guarantee::ExactlyOnce);
    std::fs::remove_dir_all(world.app_dir()).unwrap();
    world.disk = SimulatedDisk::default();
    world.broker.admin().unwrap().delete_topics(&["app-counts-changelog"]).unwrap().remove(0).unwrap();
    world.start();
    world.run(2 * SECOND);
    assert_eq!(world.stored(0), Some(20));
}

#[test]
fn under_at_least_once_it_goes_on_and_counts_again() {
    let mut world = forgotten(Guarantee::AtLeastOnce);
    world.start();
    world.run(2 * SECOND);
    assert_eq!(world.stored(0), Some(40));
}
