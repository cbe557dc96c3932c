//! The broker goes away in mid-run, and comes back.

use std::time::{Duration, Instant};

use crate::outputs::{assert_exact, assert_strictly_increasing};
use crate::world::{Process, World, wait_for};

pub(crate) fn killed_in_mid_run() {
    without_broker("killed", |world| world.kafka.kill().unwrap());
}

pub(crate) fn restarted_in_mid_run() {
    without_broker("stopped", |world| world.kafka.stop().unwrap());
}

/// What a Kafka broker makes of transactions after so long is another matter: see `docs/reliability.md`.
pub(crate) fn away_for_long() {
    let mut world = World::new();
    let _load = world.load_paced();
    let mut a = world.run("a", &[]);
    a.await_events("applied", 20);
    world.kafka.kill().unwrap();
    assert_idle(&a.process);
    assert!(a.process.is_running(), "it ended: {}", a.process.said());
}

/// Without a broker there is nothing to do but to look for it now and then.
fn assert_idle(a: &Process) {
    let (time, before) = (Duration::from_secs(10), a.cpu());
    std::thread::sleep(time);
    let used = a.cpu() - before;
    eprintln!("without a broker it used {used:?} of processor time in {time:?}");
    assert!(used < time / 10, "{used:?} of processor time in {time:?}: something goes round and round");
}

/// The application recovers by itself and counts on, exactly.
fn without_broker(what: &str, end: impl FnOnce(&mut World)) {
    let mut world = World::new();
    let load = world.load_paced();
    let mut a = world.run("a", &[]);
    a.await_events("applied", 20);

    end(&mut world);
    let gone = Instant::now();
    world.kafka.start().unwrap();
    let (back, seen) = (Instant::now(), a.events().of("applied").count());
    wait_for("commits after the broker's return", || {
        assert!(a.process.is_running(), "it ended: {}", a.process.said());
        (a.events().of("applied").count() > seen).then_some(())
    });
    let took = back.elapsed();
    eprintln!("broker {what}, back after {:?}; committed again {took:?} after its return", back - gone);
    assert!(took < Duration::from_secs(100), "{took:?}: five times what it should be");

    load.succeeds();
    a.process.stop();
    world.run_until_end("a", &[]);
    assert_exact(&world, 1);
    assert_strictly_increasing(&world);
}
