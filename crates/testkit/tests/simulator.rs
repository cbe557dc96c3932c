//! Seeds of the simulator: all hold, every fail point is met, and every planted fault is found.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond_runtime::FailPoint;
use millpond_testkit::sim::{self, Failure, Planted, Report};

const SEEDS: u64 = 500;

/// Runs seeds on as many threads as there are cores, in order, until `each` has enough.
fn run_all(
    seeds: std::ops::Range<u64>,
    planted: Option<Planted>,
    each: &(dyn Fn(Result<Report, Failure>) -> bool + Sync),
) {
    let next = AtomicU64::new(seeds.start);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || !each(sim::run(seed, planted)) {
                        next.store(seeds.end, Ordering::Relaxed);
                        return;
                    }
                }
            });
        }
    });
}

/// `MILLPOND_SEED`: one seed, or a range `<from>..<to>` of them.
fn seeds_of(text: &str) -> Option<std::ops::Range<u64>> {
    match text.split_once("..") {
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
        None => text.parse().ok().map(|seed: u64| seed..seed + 1),
    }
}

fn sum(all: &mut BTreeMap<FailPoint, u64>, one: &BTreeMap<FailPoint, u64>) {
    for (point, n) in one {
        *all.entry(*point).or_default() += n;
    }
}

/// Beyond the first [`SEEDS`], seeds that have shown a fault which is mended.
const FOUND: [u64; 1] = [
    // Expired rows were dropped by a time that a shard did not have after a kill.
    2731,
];

#[test]
fn seeds_that_have_found_a_fault_hold() {
    for seed in FOUND {
        sim::run(seed, None).unwrap();
    }
}

#[test]
fn every_seed_holds_and_every_fail_point_is_met() {
    let chosen = std::env::var("MILLPOND_SEED").ok().and_then(|chosen| seeds_of(&chosen));
    let is_chosen = chosen.is_some();
    let seeds = chosen.unwrap_or(0..SEEDS);
    let (passed, died) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    let (failures, resumed) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let (expired, told) = (AtomicU64::new(0), AtomicU64::new(0));
    run_all(seeds, None, &|result| {
        match result {
            Ok(report) => {
                assert!(report.records >= 2_000 && report.faults >= 3, "seed {} is too small", report.seed);
                sum(&mut passed.lock().unwrap(), &report.passed);
                sum(&mut died.lock().unwrap(), &report.died);
                resumed.fetch_add(report.resumed, Ordering::Relaxed);
                expired.fetch_add(report.expired, Ordering::Relaxed);
                told.fetch_add(report.told, Ordering::Relaxed);
            }
            Err(failure) => failures.lock().unwrap().push(failure),
        }
        true
    });
    let (passed, died) = (passed.into_inner().unwrap(), died.into_inner().unwrap());
    println!("{:<22} {:>10} {:>8}", "fail point", "passed", "died");
    for point in FailPoint::ALL {
        let of = |map: &BTreeMap<FailPoint, u64>| map.get(point).copied().unwrap_or(0);
        println!("{:<22} {:>10} {:>8}", point.name(), of(&passed), of(&died));
    }
    println!("restores from a durable position, each checked: {}", resumed.into_inner());
    println!("final results that there had to be, each found: {}", told.load(Ordering::Relaxed));
    println!("rows of changelogs that had expired at the end: {}", expired.load(Ordering::Relaxed));
    let mut failures = failures.into_inner().unwrap();
    failures.sort_by_key(|f| f.seed);
    let seeds: Vec<u64> = failures.iter().map(|f| f.seed).collect();
    assert!(failures.is_empty(), "{} seeds fail: {seeds:?}\n{:?}", failures.len(), failures[0]);
    if !is_chosen {
        for point in FailPoint::ALL {
            assert!(died.get(point).copied().unwrap_or(0) > 0, "nobody died at {}", point.name());
        }
        assert!(expired.into_inner() > SEEDS * 100, "few rows expire");
        assert!(told.into_inner() > SEEDS * 100, "few results are final");
    }
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use super::*;

    #[expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]
    fn is_found(planted: Planted) {
        let found = Mutex::new(None::<Failure>);
        run_all(0..SEEDS, Some(planted), &|result| match result {
            Ok(_) => found.lock().unwrap().is_none(),
            Err(failure) => {
                let mut found = found.lock().unwrap();
                if found.as_ref().is_none_or(|f| f.seed > failure.seed) {
                    *found = Some(failure);
                }
                false
            }
        });
        let found = found.into_inner().unwrap();
        println!("{planted:?} is found: {found:?}");
        assert!(found.is_some(), "{planted:?} is not found within {SEEDS} seeds");
    }

    #[test]
    fn apply_before_commit_is_found() {
        is_found(Planted::ApplyBeforeCommit);
    }

    #[test]
    fn offset_off_by_one_is_found() {
        is_found(Planted::OffsetOffByOne);
    }

    #[test]
    fn no_fence_is_found() {
        is_found(Planted::NoFence);
    }

    #[test]
    fn unstable_offsets_ignored_is_found() {
        is_found(Planted::UnstableOffsetsIgnored);
    }

    #[test]
    fn restore_ends_at_last_record_is_found() {
        is_found(Planted::RestoreEndsAtLastRecord);
    }

    #[test]
    fn failed_record_kept_is_found() {
        is_found(Planted::FailedRecordKept);
    }

    #[test]
    fn times_not_restored_is_found() {
        is_found(Planted::TimesNotRestored);
    }

    #[test]
    fn node_times_not_restored_is_found() {
        is_found(Planted::NodeTimesNotRestored);
    }

    #[test]
    fn dropped_by_latest_store_is_found() {
        is_found(Planted::DroppedByLatestStore);
    }
}
