//! What is done twice under at-least-once: what was done since the last commit, and no more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millpond_runtime::{Counter, ErrorKind, Guarantee, TaskId};
use millpond_store_api::Space as _;
use millpond_topology::{self as topology, Consumed, Materialized, Produced, Topology, Utf8};

use crate::support::World;

const SECOND: Duration = Duration::from_secs(1);

/// Hands every record on, and keeps the set of what it has seen, which is the same however often a record is seen. While it
/// is `broken` it fails on the value 150 of the first partition.
fn collecting(broken: &Arc<AtomicBool>) -> Topology {
    let broken = broken.clone();
    let mut builder = Topology::builder();
    let records =
        builder.stream("in", Consumed::with(Utf8, Utf8)).try_filter(move |key: &String, value: &String| {
            match (key.as_str(), value.as_str()) {
                ("p0", "150") if broken.load(Ordering::Relaxed) => Err(topology::Error::other("this one fails")),
                _ => Ok(true),
            }
        });
    records.clone().to("out", Produced::with(Utf8, Utf8));
    let _ = records
        .group_by_key()
        .reduce(|seen: String, more: String| union(&seen, &more), Materialized::named("counts").key(Utf8).value(Utf8));
    builder.build().unwrap()
}

fn union(seen: &str, more: &str) -> String {
    let all: BTreeSet<u32> = seen.split(' ').chain(more.split(' ')).map(|n| n.parse().unwrap()).collect();
    text(all)
}

fn text(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
}

fn world(guarantee: Guarantee, broken: &Arc<AtomicBool>) -> World {
    let mut world = World::with_topology(guarantee, collecting(broken));
    // It commits when it is asked to, and at the end.
    world.settings.commit_interval = Some(Duration::from_secs(7));
    world
}

fn outputs(world: &World, key: &str) -> String {
    let values = world.committed("out").remove(key).unwrap_or_default();
    values.into_iter().map(|v| String::from_utf8(v).unwrap()).collect::<Vec<_>>().join(" ")
}

fn seen(world: &mut World, partition: i32) -> String {
    let task = TaskId { sub_topology: 0, partition };
    let key = format!("p{partition}");
    let read = world
        .instance()
        .with_store(task, "counts", |access| access.space().get(key.as_bytes()).unwrap().map(<[u8]>::to_vec));
    // A timestamp comes before the value.
    String::from_utf8(read.flatten().unwrap().split_off(8)).unwrap()
}

/// KAFKA-13676, first half: 100 records are committed, 50 more are processed, the process dies.
#[test]
fn b135_after_a_kill_only_what_was_not_committed_is_done_again() {
    let mut world = world(Guarantee::AtLeastOnce, &Arc::default());
    world.start();
    world.run(SECOND);
    world.send(0, 100);
    world.process();
    world.instance().request_commit();
    world.run(SECOND);
    assert_eq!(world.committed_offset(0), Some(100));
    world.send(0, 50);
    world.process();
    assert_eq!(outputs(&world, "p0"), text(0..150));
    assert_eq!(world.committed_offset(0), Some(100));

    world.start();
    world.run(10 * SECOND);
    assert_eq!(world.count_of(Counter::ProcessTotal), 50, "100 to 149");
    assert_eq!(outputs(&world, "p0"), text((0..150).chain(100..150)));
    assert_eq!(seen(&mut world, 0), text(0..150));
    assert_eq!(world.committed_offset(0), Some(150));
}

/// KAFKA-13676, second half: a record fails and stops the application. What was done before it, by its task and by others, is
/// whole, and is not done again.
#[test]
fn b135_a_record_that_fails_costs_no_progress_of_what_was_done_before() {
    for guarantee in [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce] {
        let broken = Arc::new(AtomicBool::new(true));
        let mut world = world(guarantee, &broken);
        world.start();
        world.run(SECOND);
        world.send(0, 100);
        world.send(1, 100);
        world.process();
        world.instance().request_commit();
        world.run(SECOND);
        world.send(1, 70);
        world.process();
        world.send(0, 60);
        let error = (0..20).find_map(|_| world.try_step().err()).expect("the record fails");
        assert_eq!(error.kind(), ErrorKind::Record);
        assert!(error.chain().contains("offset=`150`"), "{}", error.chain());
        assert_eq!((world.committed_offset(0), world.committed_offset(1)), (Some(150), Some(170)), "{guarantee:?}");

        // It is mended and started again.
        broken.store(false, Ordering::Relaxed);
        world.start();
        world.run(10 * SECOND);
        assert_eq!(world.count_of(Counter::ProcessTotal), 10, "{guarantee:?}: 150 to 159");
        assert_eq!((outputs(&world, "p0"), outputs(&world, "p1")), (text(0..160), text(0..170)), "{guarantee:?}");
        assert_eq!((seen(&mut world, 0), seen(&mut world, 1)), (text(0..160), text(0..170)), "{guarantee:?}");
    }
}

/// An output that the broker refuses leaves half of its record's effects with the producer. So nothing of the interval is
/// committed with it, not even what was done before.
#[test]
fn a_record_of_which_half_was_written_is_not_committed_with_what_came_before() {
    let broken = Arc::new(AtomicBool::new(true));
    let mut world = World::with_topology(Guarantee::ExactlyOnce, {
        let broken = broken.clone();
        let too_large = "x".repeat(2 << 20);
        let mut builder = Topology::builder();
        let records = builder.stream("in", Consumed::with(Utf8, Utf8)).flat_map_values(move |value: String| {
            let half = value == "50" && broken.load(Ordering::Relaxed);
            [Some(value), half.then(|| too_large.clone())].into_iter().flatten()
        });
        records.to("out", Produced::with(Utf8, Utf8));
        builder.build().unwrap()
    });
    world.settings.commit_interval = Some(7 * SECOND);
    world.start();
    world.run(SECOND);
    world.process_without_commit(0, 40);
    let committed = world.committed_offset(0).unwrap();
    world.send(0, 20);
    let error = (0..20).find_map(|_| world.try_step().err()).expect("the output is refused");
    assert!(error.chain().contains("message.max.bytes"), "{}", error.chain());
    assert_eq!(world.committed_offset(0), Some(committed));
    broken.store(false, Ordering::Relaxed);
    world.start();
    world.run(10 * SECOND);
    assert_eq!(outputs(&world, "p0"), text(0..60));
}
