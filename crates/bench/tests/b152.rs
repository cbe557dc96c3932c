//! Resident memory with many windows. The only test of its program: nothing else may take memory beside it.

use std::time::Duration;

use millpond_bench::memory::{End, MemoryOf, MemoryOptions, measure};

const MIB: u64 = 1 << 20;

/// What a process takes beside its budget: threads, an allocator's caches, 50 open databases, the compactions at work.
const FIXED: u64 = 128 * MIB;

/// B152: 50 tasks with windows of a minute that are kept for half an hour, rows of 1 KiB, RocksDB's part of the budget 64 MiB;
/// a hundred windows begin and expire. Memory keeps to the budget and is flat once windows expire as fast as they begin, and there are
/// less than 1,024 descriptors.
#[test]
fn b152_many_windows_keep_to_the_budget() {
    let (budget, writes) = (170 * MIB, 240_000);
    let temp = tempfile::tempdir().unwrap();
    // 64 rows come of each record.
    let pace = Duration::from_secs(100 * 60) / (writes / 64);
    let report = measure(&MemoryOptions {
        budget,
        engine: MemoryOf::Budget,
        shards: 50,
        end: End::Writes(writes.into()),
        pace,
        value: 1000,
        threads: 2,
        dir: temp.path().to_owned(),
    });
    let report = report.unwrap();
    println!("{report:?}");
    let taken = report.taken();
    assert!(taken < budget + FIXED, "{} MiB were taken, the budget is {} MiB", taken / MIB, budget / MIB);
    let [_, second, third, fourth] = report.peaks;
    let (before, after) = (second.max(third), fourth);
    // Stores without windows grow on; what of them is cached is in the budget.
    assert!(after < before + budget / 4, "{} MiB after all had expired once, then {}", before / MIB, after / MIB);
    assert!(report.descriptors < 1024, "{} descriptors", report.descriptors);
    assert!(report.longest_wait < Duration::from_secs(10), "a batch waited {:?} for memory", report.longest_wait);
}
