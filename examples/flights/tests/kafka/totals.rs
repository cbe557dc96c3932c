//! Without faults: all that is replayed is counted once.

use crate::outputs::assert_exact;
use crate::world::{World, is_slow};

pub(crate) fn repeated_years_are_so_many_times_the_totals() {
    let world = World::new();
    let times = if is_slow() { 10 } else { 2 };
    world.load_all(times);
    world.run_until_end("a", &[]);
    assert_exact(&world, times.into());
    eprintln!("{} x {}: exact, exactly-once, rocks, two workers", times, world.flights.name);
}

pub(crate) fn at_least_once_without_kills_is_exact() {
    let world = World::new();
    world.load_all(1);
    world.run_until_end("a", &["--guarantee", "at-least-once"]);
    assert_exact(&world, 1);
}
