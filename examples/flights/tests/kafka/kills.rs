//! `kill -9` at any moment, again and again, while flights come in.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use millpond::broker::At;

use crate::events::{Events, ms};
use crate::outputs::{assert_exact, assert_nothing_lost, assert_strictly_increasing};
use crate::world::{CHANGELOGS, Instance, World, is_slow, wait_for};

/// `state.flush.interval.ms` of these tests, and the commit interval, in milliseconds.
const FLUSH_INTERVAL: i64 = 2_000;
const COMMIT_INTERVAL: i64 = 100;
/// The tasks that have state: the totals of each partition, the hours, the legs. The hours have two stores.
const STATEFUL: usize = 6;
/// The changelogs' partitions.
const LOGS: usize = 7;
/// All tasks: two sub-topologies of four partitions, two of one.
const TASKS: usize = 10;

/// How often, and how much of it with a transaction open.
fn kills() -> (u32, usize) {
    if is_slow() { (10, 3) } else { (4, 1) }
}

pub(crate) fn b134_no_duplicates_after_kill_9() {
    let world = World::new();
    let mut report = kill_again_and_again(&world, "exactly-once");
    let (_, with_open) = kills();
    assert!(report.open >= with_open, "only {} kills met an open transaction", report.open);
    assert_exact(&world, 1);
    assert_strictly_increasing(&world);
    report.print();
}

pub(crate) fn at_least_once_loses_nothing() {
    let world = World::new();
    kill_again_and_again(&world, "at-least-once").print();
    assert_nothing_lost(&world);
}

/// What a run was like.
#[derive(Default)]
struct Report {
    kills: u32,
    open: usize,
    /// By kill, in milliseconds.
    to_processing: Vec<i64>,
    reread: Vec<i64>,
    bounds: Vec<i64>,
}

impl Report {
    fn print(&mut self) {
        self.to_processing.sort_unstable();
        let median = self.to_processing[self.to_processing.len() / 2];
        eprintln!(
            "{} kills, {} with a transaction open; from start to processing again: {:?} ms, median {median}; \
             offsets read again {:?}, at most {:?}",
            self.kills, self.open, self.to_processing, self.reread, self.bounds
        );
        // The aim is 5 s; a loaded machine is given five times that.
        assert!(median < 25_000, "median {median} ms");
    }
}

fn kill_again_and_again(world: &World, guarantee: &str) -> Report {
    let flush = format!("state.flush.interval.ms={FLUSH_INTERVAL}");
    let arguments = ["--guarantee", guarantee, "--set", &*flush];
    let mut load = world.load_paced();
    let mut report = Report::default();
    let mut instance = world.run("a", &arguments);
    let (kills, _) = kills();
    let pause = pause_between(world, kills);
    let mut random = Random::new();
    for kill in 0..kills {
        instance.await_events("applied", 1);
        let wait = if kill == 0 { Duration::from_secs(2) } else { pause };
        std::thread::sleep(wait.mul_f64(random.unit()));
        instance.process.kill();
        let killed = Killed::look(world, &instance);
        report.kills += 1;
        report.open += usize::from(world.has_open_transaction());
        let shards = shards(&world.dir.path().join("a"));
        instance = world.run("a", &arguments);
        instance.await_events("running", TASKS);
        instance.await_events("applied", 1);
        assert!(load.is_running() || kill > 0, "the replay was over before the first kill");
        check_restart(&killed, &instance.events(), guarantee, &mut report);
        assert_eq!(shards, self::shards(&world.dir.path().join("a")), "state was set aside");
    }
    load.succeeds();
    instance.process.stop();
    world.run_until_end("a", &arguments);
    report
}

/// So that the kills are spread over the replay.
fn pause_between(world: &World, kills: u32) -> Duration {
    let records = if is_slow() { 336_776 } else { 27_004 };
    // Each restart takes some of it, too.
    Duration::from_secs(records / u64::from(world.flights.rate)).mul_f64(1.2) / kills
}

/// What is known of an instance that was killed.
struct Killed {
    events: Events,
    /// The changelogs' ends right after the kill, by `topic-partition`.
    ends: BTreeMap<String, i64>,
}

impl Killed {
    fn look(world: &World, instance: &Instance) -> Self {
        // What the killed process had handed to its sockets may still arrive.
        let mut before = BTreeMap::new();
        let ends = wait_for("the log's end to stand still", || {
            let of = |log: (&'static str, i32)| {
                let ends = (0..).zip(world.ends(log, At::End));
                ends.map(move |(p, end): (i32, _)| (format!("{}-{p}", log.0), end))
            };
            let ends: BTreeMap<_, _> = CHANGELOGS.into_iter().flat_map(of).collect();
            let still = before == ends;
            before.clone_from(&ends);
            std::thread::sleep(Duration::from_millis(50));
            still.then_some(ends)
        });
        Self { events: instance.events(), ends }
    }

    /// What it would have stood for at the latest after a kill now, by its own word.
    fn owed(&self) -> BTreeMap<String, i64> {
        let last = self.events.of("applied").next_back().map_or(0, ms);
        let window = FLUSH_INTERVAL + COMMIT_INTERVAL + self.events.longest_flush_ms();
        self.events.positions("applied", last - window)
    }
}

/// A restart reads exactly from what was durable to the log's end, and what was durable is not older than it may be.
fn check_restart(killed: &Killed, restarted: &Events, guarantee: &str, report: &mut Report) {
    let (durable, owed) = (killed.events.positions("durable", i64::MAX), killed.owed());
    // The first plan of each counts.
    let planned: BTreeMap<_, _> =
        restarted.of("planned").rev().map(|e| (e["changelog"].as_str().unwrap(), e)).collect();
    assert_eq!(planned.len(), LOGS, "{planned:?}");
    let (mut reread, mut bound) = (0, 0);
    for (changelog, plan) in planned {
        let (from, until) = (plan["from"].as_i64().unwrap(), plan["until"].as_i64().unwrap());
        let known = durable.get(changelog).copied().unwrap_or(0);
        assert!(from >= known, "{changelog}: reads again from {from} what was durable up to {known}");
        let must = owed.get(changelog).copied().unwrap_or(0);
        assert!(from >= must, "{changelog}: durable up to {from}, but {must} was applied long before the kill");
        let decision = plan["decision"].as_str().unwrap();
        assert!(known == 0 || ["resume", "nothing"].contains(&decision), "{changelog}: {decision}");
        // The marker of the transaction that was open comes on top.
        let end = killed.ends[changelog];
        let markers = if guarantee == "exactly-once" { 1 } else { 0 };
        assert!((end..=end + markers).contains(&until), "{changelog}: the end was {end}, read until {until}");
        reread += until - from;
        bound += until - must;
    }
    assert!(reread <= bound, "{reread} offsets were read again, at most {bound} may be");
    let records: i64 = restarted.of("restored").map(|e| e["records"].as_i64().unwrap()).sum();
    assert!(records <= reread, "{records} records out of {reread} offsets");
    report.reread.push(reread);
    report.bounds.push(bound);
    let processing = restarted.first_ms("applied").unwrap() - restarted.first_ms("started").unwrap();
    report.to_processing.push(processing);
}

/// The shard directories of all tasks: what would be new if state had been thrown away.
fn shards(state: &Path) -> Vec<String> {
    let application = wait_for("the state directory", || std::fs::read_dir(state).ok()?.next()?.ok()).path();
    let mut shards = Vec::new();
    for task in std::fs::read_dir(application).unwrap().flatten().filter(|e| e.path().is_dir()) {
        for shard in std::fs::read_dir(task.path()).unwrap().flatten().filter(|e| e.path().is_dir()) {
            shards.push(format!("{:?}/{:?}", task.file_name(), shard.file_name()));
        }
    }
    shards.sort();
    assert_eq!(shards.len(), STATEFUL, "{shards:?}");
    shards
}

/// Moments that nobody chose.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) ^ Instant::now().elapsed().as_nanos() as u64);
        eprintln!("MILLPOND_SEED={seed}");
        Self(seed)
    }

    /// SplitMix64, as a fraction.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
