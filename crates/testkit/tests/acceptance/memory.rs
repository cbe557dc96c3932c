//! `memory.budget.bytes` alone decides what everything takes, engines included.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use millpond_runtime::{Gauge, MemorySettings, Scope};
use millpond_store_api::{Engine, EngineMemory, Shard, ShardSpec};
use millpond_store_mem::MemEngine;
use millpond_topology::{Consumed, I64, Materialized, Utf8};

use crate::support::builder;

/// An engine under a name, that notes what it was told.
struct Told {
    name: &'static str,
    inner: MemEngine,
    bytes: Arc<AtomicU64>,
}

impl Told {
    fn new(name: &'static str) -> (Self, Arc<AtomicU64>) {
        let bytes = Arc::<AtomicU64>::default();
        (Self { name, inner: MemEngine::default(), bytes: Arc::clone(&bytes) }, bytes)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Engine for Told {
    fn name(&self) -> &'static str {
        self.name
    }

    fn persistent(&self) -> bool {
        self.inner.persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> millpond_store_api::Result<Box<dyn Shard>> {
        assert!(self.bytes.load(Relaxed) > 0, "told before it opens the first shard");
        self.inner.open(spec)
    }

    fn set_memory(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    fn memory(&self) -> EngineMemory {
        let (stalled, longest_stall) = (Duration::from_millis(1700), Duration::from_millis(1500));
        EngineMemory { stalled, longest_stall, ..self.inner.memory() }
    }
}

#[test]
fn engines_that_are_used_have_equal_parts_of_the_budget_and_follow_it() {
    let ((one, told_one), (two, told_two), (idle, told_idle)) = (Told::new("one"), Told::new("two"), Told::new("idle"));
    let driver = builder(|b| {
        let grouped = b.stream("in", Consumed::with(Utf8, I64)).group_by_key();
        let _ = grouped.clone().count(Materialized::named("a").engine("one"));
        let _ = grouped.reduce(|a, b| a + b, Materialized::named("b").engine("two"));
    })
    .setting("memory.budget.bytes", "80000000")
    .engine(one)
    .engine(two)
    .engine(idle)
    .build()
    .unwrap();
    // Three fifths of what caches, which a driver does without, and an eighth for logged entries leave; for two.
    assert_eq!([&told_one, &told_two, &told_idle].map(|told| told.load(Relaxed)), [21_000_000, 21_000_000, 0]);
    driver.input("in", Utf8, I64).pipe("a key that lies on the heap", 7, 0).unwrap();
    driver.commit().unwrap();

    // By default there are caches.
    driver.set_memory(&MemorySettings { budget: Some(40_000_000), ..MemorySettings::default() }).unwrap();
    assert_eq!([&told_one, &told_two].map(|told| told.load(Relaxed)), [7_500_000, 7_500_000]);
    driver.set_memory(&MemorySettings { budget: Some(1), ..MemorySettings::default() }).unwrap_err();
    assert_eq!(told_one.load(Relaxed), 7_500_000, "what is refused changes nothing");

    driver.input("in", Utf8, I64).pipe("a key that is kept in the cache", 7, 0).unwrap();
    driver.commit().unwrap();
    driver.advance(Duration::from_secs(2)).unwrap();
    let (metrics, scope) = (driver.metrics(), Scope::Engine("one"));
    assert_eq!(metrics.gauge(Gauge::EngineMemoryMax, scope), Some(7_500_000));
    assert!(metrics.gauge(Gauge::EngineRowsBytes, scope).unwrap() > 0);
    assert_eq!(metrics.gauge(Gauge::EngineMemoryMax, Scope::Engine("idle")), None);
    let stalls = [Gauge::WriteStallTotal, Gauge::WriteStallMax].map(|gauge| metrics.gauge(gauge, scope));
    assert_eq!(stalls, [Some(1700), Some(1500)]);
    let overlays = [Gauge::CacheBytes, Gauge::PendingBytes, Gauge::UncommittedBytes];
    let overlays = overlays.map(|gauge| metrics.gauge(gauge, Scope::Client).unwrap());
    let clean = metrics.gauge(Gauge::CleanBytes, Scope::Client).unwrap();
    assert!(clean > 0 && overlays == [clean, 0, 0], "all is committed: {clean} of {overlays:?}");
}
