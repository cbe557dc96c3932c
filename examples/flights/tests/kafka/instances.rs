//! Two instances of the application, of which one or the other is stopped, killed, or frozen.

use std::time::{Duration, Instant};

use crate::events::ms;
use crate::outputs::{assert_exact, assert_strictly_increasing};
use crate::world::{World, wait_for};

/// A frozen instance is taken for dead after this long, in milliseconds.
const SESSION: u64 = 6_000;

pub(crate) fn stopped_and_killed_in_turn() {
    let world = World::new();
    let load = world.load_paced();
    let (mut a, mut b) = (world.run("a", &[]), world.run("b", &[]));
    a.await_events("applied", 3);
    b.await_events("applied", 3);

    a.process.stop();
    std::thread::sleep(Duration::from_secs(2));
    a = world.run("a", &[]);
    a.await_events("applied", 3);
    std::thread::sleep(Duration::from_secs(2));

    b.process.kill();
    b = world.run("b", &[]);
    b.await_events("applied", 3);

    load.succeeds();
    a.process.stop();
    b.process.stop();
    world.run_until_end("a", &[]);
    assert_exact(&world, 1);
    assert_strictly_increasing(&world);
}

pub(crate) fn frozen_past_its_session() {
    let world = World::new();
    let session = format!("session.timeout.ms={SESSION}");
    let arguments = ["--set", session.as_str()];
    let load = world.load_paced();
    let (mut a, mut b) = (world.run("a", &arguments), world.run("b", &arguments));
    a.await_events("applied", 3);
    b.await_events("applied", 3);

    a.process.signal("STOP");
    let (frozen, before) = (Instant::now(), a.events().len());
    let had: Vec<_> = a.events().of("running").map(|e| e["task"].clone()).collect();
    std::thread::sleep(Duration::from_millis(SESSION + 5_000));
    // Its tasks are the other's by now, unless a transaction of the frozen one is still waited for.
    wait_for("the other to have all tasks", || {
        let has: Vec<_> = b.events().of("running").map(|e| e["task"].clone()).collect();
        had.iter().all(|task| has.contains(task)).then_some(())
    });
    a.process.signal("CONT");
    eprintln!("frozen for {:?}", frozen.elapsed());

    // It has lost its tasks, hears of it, and gets some again.
    wait_for("the frozen one to be back", || a.events().skip(before).of("running").next().map(ms));
    load.succeeds();
    a.process.stop();
    b.process.stop();
    world.run_until_end("a", &arguments);
    assert_exact(&world, 1);
    // What it wrote and did not commit is not there, or its successor had waited for it: no total stands twice.
    assert_strictly_increasing(&world);
}
