//! State over restarts, crashes and losses: what is restored, and how much of the log is read for it.

use millpond_broker_api::Broker;
use millpond_runtime::{Counter, Guarantee, TaskState};
use millpond_store_api::{Engine, EngineMemory, Shard, ShardSpec};
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_testkit::{Driver, DriverBuilder};
use millpond_topology::{Consumed, I64, Materialized, Produced, Utf8};

use crate::support::{BOTH, builder, kvs, out, pipe};

fn counting() -> DriverBuilder {
    builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by_key()
            .count(Materialized::named("counts"))
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
}

/// How many changelog records `what` read.
fn restored(driver: &Driver, what: impl FnOnce(&Driver)) -> u64 {
    let before = driver.count(Counter::RestoreTotal);
    what(driver);
    driver.count(Counter::RestoreTotal) - before
}

fn assert_running(driver: &Driver) {
    assert!(driver.tasks().iter().all(|(_, state)| *state == TaskState::Running), "{:?}", driver.tasks());
}

#[test]
fn b094_an_empty_changelog_is_restored_at_once() {
    for guarantee in BOTH {
        let driver = counting().guarantee(guarantee).build().unwrap();
        for start in [Driver::restart, Driver::crash, Driver::restart_without_state] {
            assert_eq!(restored(&driver, |d| start(d).unwrap()), 0);
            assert_running(&driver);
        }
        // A log that is not at 0, and holds nothing.
        let driver = counting().guarantee(guarantee).setting("topic.cleanup.policy", "compact,delete").build().unwrap();
        for n in 0..50 {
            pipe(&driver, &[("k", n, n)]);
        }
        // The position moves past the last marker with the first commit that has nothing to write.
        driver.advance(std::time::Duration::from_secs(61)).unwrap();
        driver.pipe("in", None, &millpond_testkit::RawRecord::new(None, None, 0)).unwrap();
        let topic = "test-counts-changelog";
        let deleted = driver.broker().admin().unwrap().delete_records(&[(topic, 0, -1)]).unwrap();
        assert!(deleted[0].as_ref().is_ok_and(|start| *start >= 50));
        let counts = driver.store("counts", Utf8, I64);
        assert_eq!(restored(&driver, |d| d.restart().unwrap()), 0);
        assert_eq!(counts.all(), kvs(&[("k", 50)]), "local state is at the log's end");
        assert_eq!(restored(&driver, |d| d.restart_without_state().unwrap()), 0);
        assert_running(&driver);
        assert!(counts.all().is_empty());
        pipe(&driver, &[("k", 1, 100)]);
        assert_eq!(restored(&driver, |d| d.restart().unwrap()), 0, "the new position is durable");
        assert_eq!(counts.changelog(), counts.all());
    }
}

#[test]
fn b097_logs_of_zero_one_and_two_records() {
    for guarantee in BOTH {
        for records in 0..=2_i64 {
            for durable in 0..=records {
                let driver = counting().guarantee(guarantee).build().unwrap();
                for n in 0..durable {
                    pipe(&driver, &[(&format!("k{n}"), n, n)]);
                }
                driver.restart().unwrap();
                for n in durable..records {
                    pipe(&driver, &[(&format!("k{n}"), n, n)]);
                }
                let read = restored(&driver, |d| d.crash().unwrap());
                assert_eq!(read, (records - durable) as u64, "{records} records, {durable} of them durable");
                let counts = driver.store("counts", Utf8, I64);
                assert_eq!(counts.all().len() as i64, records);
                assert_eq!(counts.changelog(), counts.all());
                assert_eq!(restored(&driver, |d| d.restart_without_state().unwrap()), records as u64);
                assert_eq!(counts.changelog(), counts.all());
            }
        }
    }
}

/// An engine under another name, so that an application can have two.
struct Volatile(MemEngine);

#[deny(clippy::missing_trait_methods)]
impl Engine for Volatile {
    fn name(&self) -> &'static str {
        "volatile"
    }

    fn persistent(&self) -> bool {
        self.0.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> millpond_store_api::Result<Box<dyn Shard>> {
        self.0.open(spec)
    }

    fn set_memory(&self, bytes: u64) {
        self.0.set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        self.0.memory()
    }
}

#[test]
fn b101_a_store_in_memory_is_restored_and_the_persistent_one_beside_it_is_not() {
    for guarantee in BOTH {
        let disk = SimulatedDisk::default();
        let driver = builder(|b| {
            let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
            let _ = grouped.clone().count(Materialized::named("kept"));
            let _ = grouped.reduce(|a, b| a + b, Materialized::named("volatile").engine("volatile"));
        })
        .guarantee(guarantee)
        .engine(MemEngine::with_simulated_disk(&disk))
        .engine(Volatile(MemEngine::default()))
        .build()
        .unwrap();
        for n in 0..100 {
            pipe(&driver, &[(&format!("k{n}"), n, n)]);
        }
        assert_eq!(restored(&driver, |d| d.restart().unwrap()), 100, "those of the store in memory");
        assert_eq!(driver.count(Counter::ShardReopenedTotal), 0);
        assert_eq!(driver.store("kept", Utf8, I64).all().len(), 100);
        let volatile = driver.store("volatile", Utf8, I64);
        assert_eq!(volatile.all().len(), 100);
        assert_eq!(volatile.changelog(), volatile.all());
    }
}

#[test]
fn b089_a_clean_stop_leaves_nothing_to_restore() {
    for guarantee in BOTH {
        let driver = counting().topic("in", 3).guarantee(guarantee).build().unwrap();
        for n in 0..100 {
            pipe(&driver, &[(&format!("k{n}"), n, n)]);
        }
        assert_eq!(restored(&driver, |d| d.restart().unwrap()), 0);
        assert_eq!(restored(&driver, |d| d.restart().unwrap()), 0);
        assert_eq!(driver.store("counts", Utf8, I64).all().len(), 100);
    }
}

#[test]
fn a_store_without_a_changelog_starts_empty_after_a_loss_and_is_kept_otherwise() {
    let driver = builder(|b| {
        b.stream("in", Consumed::with(Utf8, I64))
            .group_by_key()
            .count(Materialized::named("counts").logging_disabled())
            .to_stream()
            .to("out", Produced::with(Utf8, I64));
    })
    .build()
    .unwrap();
    pipe(&driver, &[("k", 1, 1), ("k", 1, 2)]);
    driver.restart().unwrap();
    let counts = driver.store("counts", Utf8, I64);
    assert_eq!(counts.get("k"), Some(2));
    assert!(counts.changelog().is_empty());
    driver.restart_without_state().unwrap();
    assert_eq!(counts.get("k"), None);
}

#[test]
fn a_store_without_a_changelog_is_after_a_crash_as_it_was_committed() {
    for guarantee in BOTH {
        for (caching, beside_a_logged_one) in [(false, false), (false, true), (true, false), (true, true)] {
            let driver = builder(|b| {
                let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
                if beside_a_logged_one {
                    let _ = grouped.clone().count(Materialized::named("logged"));
                }
                let _ = grouped.count(Materialized::named("unlogged").logging_disabled());
            })
            .guarantee(guarantee)
            .manual_commit();
            let driver = if caching { driver.caching(1 << 20) } else { driver }.build().unwrap();
            let unlogged = driver.store("unlogged", Utf8, I64);
            let mut expected = std::collections::BTreeMap::new();
            for n in 0..40 {
                let key = format!("k{}", n % 7);
                pipe(&driver, &[(&key, 1, n)]);
                *expected.entry(key).or_insert(0) += 1;
                match n % 4 {
                    1 => driver.commit().unwrap(),
                    3 => {
                        let read = restored(&driver, |d| d.crash().unwrap());
                        // Under at-least-once the log may have changes that are not committed.
                        assert!(read == 0 || guarantee == Guarantee::AtLeastOnce, "the shard is at its last batch");
                    }
                    _ => continue,
                }
                // All is counted once: what was committed is there, and the rest is not, since it was read again.
                assert_eq!(unlogged.all(), expected.clone().into_iter().collect::<Vec<_>>(), "after record {n}");
                if beside_a_logged_one && guarantee == Guarantee::ExactlyOnce {
                    assert_eq!(unlogged.all(), driver.store("logged", Utf8, I64).all());
                }
            }
        }
    }
}

#[test]
fn nothing_counts_twice_under_exactly_once_wherever_it_crashes() {
    let driver = counting().guarantee(Guarantee::ExactlyOnce).manual_commit().build().unwrap();
    for n in 0..30 {
        pipe(&driver, &[("k", n, n)]);
        match n % 3 {
            0 => driver.commit().unwrap(),
            1 => driver.crash().unwrap(),
            _ => {}
        }
    }
    driver.commit().unwrap();
    let values: Vec<i64> = out(&driver).into_iter().map(|(_, v)| v).collect();
    assert_eq!(values, (1..=30).collect::<Vec<_>>());
    assert_eq!(driver.store("counts", Utf8, I64).get("k"), Some(30));
}

#[test]
fn stream_time_and_partition_time_survive() {
    for guarantee in BOTH {
        let driver = builder(|b| {
            b.stream("in", Consumed::with(Utf8, I64))
                .process(
                    (),
                    crate::support::closure(|(), cx, r| {
                        let time = cx.stream_time();
                        cx.forward(r.with_value(time))
                    }),
                )
                .to("out", Produced::with(Utf8, I64));
        })
        .guarantee(guarantee)
        .build()
        .unwrap();
        pipe(&driver, &[("k", 0, 50), ("k", 0, 20)]);
        driver.restart().unwrap();
        pipe(&driver, &[("k", 0, 30)]);
        driver.restart_without_state().unwrap();
        pipe(&driver, &[("k", 0, 40)]);
        driver.crash().unwrap();
        pipe(&driver, &[("k", 0, 60)]);
        let times: Vec<i64> = out(&driver).into_iter().map(|(_, v)| v).collect();
        assert_eq!(times, [50, 50, 50, 50, 60], "time never goes back");
    }
}
