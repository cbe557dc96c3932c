//! What the application has written, as a stranger reads it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millpond::broker::{At, Broker, Change, Isolation, Source};
use millpond_example_flights::flight::Totals;

use crate::expected;
use crate::world::{LIMIT, World};

/// The totals of each carrier by the file alone.
fn expected_totals(world: &World, times: i64) -> BTreeMap<String, Totals> {
    serde_json::from_value(expected::carriers(&expected::text(&world.flights.file), times)).unwrap()
}

/// The replay itself is idempotent: what the input topic holds is the file, no more and no less.
#[track_caller]
fn assert_input_is_whole(world: &World, times: i64) {
    let flights: u64 = expected_totals(world, times).values().map(|totals| totals.flights).sum();
    for topic in [("flights", 4), ("flights-ordered", 1)] {
        let mut replayed = 0;
        read_committed(world, topic, |_, _| replayed += 1);
        assert_eq!(replayed, flights, "the replay into {topic:?}");
    }
}

/// `show` prints exactly what the file says.
#[track_caller]
pub(crate) fn assert_exact(world: &World, times: i64) {
    assert_input_is_whole(world, times);
    let expected = expected::results(&expected::text(&world.flights.file), times);
    expected::assert_same(&serde_json::from_str(&world.show()).unwrap(), &expected);
}

/// All committed values of each carrier, in order.
fn committed_values(world: &World) -> BTreeMap<String, Vec<Totals>> {
    let mut values = BTreeMap::<String, Vec<Totals>>::new();
    read_committed(world, ("carrier-totals", 4), |key, value| {
        let carrier = String::from_utf8(key.to_vec()).unwrap();
        values.entry(carrier).or_default().push(serde_json::from_slice(value).unwrap());
    });
    values
}

/// All committed keys and values of a topic, in the order of each partition.
fn read_committed(world: &World, (topic, partitions): (&str, i32), mut take: impl FnMut(&[u8], &[u8])) {
    let ends = world.ends((topic, partitions), At::StableEnd);
    let mut consumer = world.client().consumer(&Isolation::ReadCommitted.into()).unwrap();
    for partition in 0..partitions {
        let source = Source(partition.unsigned_abs());
        consumer.assign(&[Change::Add { source, topic, partition, from: 0 }]).unwrap();
    }
    let start = Instant::now();
    while (0..).zip(&ends).any(|(partition, end)| consumer.position(Source(partition)) < Some(*end)) {
        assert!(start.elapsed() < LIMIT, "the end is not reached");
        let batch = consumer.poll(Duration::from_millis(100)).unwrap();
        assert!(batch.faults.is_empty(), "{:?}", batch.faults);
        for record in batch.iter() {
            take(record.key.unwrap(), record.value.unwrap());
        }
    }
}

/// Exactly-once, as the output topics tell it: no total is written twice, none goes back, the last is the file's; and a final
/// result is written once.
#[track_caller]
pub(crate) fn assert_strictly_increasing(world: &World) {
    let mut hours = BTreeMap::<Vec<u8>, u64>::new();
    read_committed(world, ("hourly-departures", 4), |hour, _| *hours.entry(hour.to_vec()).or_default() += 1);
    let twice = hours.values().filter(|times| **times > 1).count();
    assert_eq!(twice, 0, "of {} hours so many were written more than once", hours.len());
    let (values, expected) = (committed_values(world), expected_totals(world, 1));
    assert_eq!(values.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (carrier, values) in &values {
        let twice = values.windows(2).find(|pair| pair[0].flights >= pair[1].flights);
        assert!(twice.is_none(), "{carrier}: {twice:?}");
        assert_eq!(values.last(), expected.get(carrier), "{carrier}");
    }
}

/// At-least-once: each carrier has at least the file's count.
#[track_caller]
pub(crate) fn assert_nothing_lost(world: &World) {
    let (values, expected) = (committed_values(world), expected_totals(world, 1));
    for (carrier, expected) in &expected {
        let last = values.get(carrier).and_then(|values| values.last()).unwrap();
        assert!(last.flights >= expected.flights, "{carrier}: {} of {}", last.flights, expected.flights);
    }
}
