//! One memory budget for the process: who gets which part of it, at the start and when it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use millpond_store_api::Engine;

use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Gauge, Metrics, Scope};
use crate::settings::Settings;
use crate::state::{Budget, ClientMemory, MemoryBudget, MemorySettings, Overlay, QueueBudget, available_memory};

/// How often the engines are asked what they take.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The memory of a process, in the parts that its overlays, queues and engines have.
pub(crate) struct Memory {
    pub(crate) overlays: Arc<Budget>,
    pub(crate) queues: Arc<QueueBudget>,
    /// Whether stores with caching hold updates back at all.
    pub(crate) caching: bool,
    /// What each worker's clients were made with.
    pub(crate) clients: ClientMemory,
    /// Those that have stores.
    engines: Vec<Arc<dyn Engine>>,
    /// What each of them may take.
    engine_part: AtomicU64,
    /// When the metrics were told last, in milliseconds of the clock's monotonic time, plus one.
    told: AtomicU64,
    warned: AtomicBool,
}

impl Memory {
    /// Splits the budget, and tells the engines.
    pub(super) fn new(settings: &Settings, engines: Vec<Arc<dyn Engine>>) -> Result<Self> {
        let plan = plan(&MemorySettings {
            budget: settings.memory_budget,
            cache_max: settings.cache_max,
            uncommitted_max: settings.uncommitted_max,
        })?;
        let memory = Self {
            overlays: Arc::new(plan.overlays()),
            queues: Arc::new(plan.input_queues()),
            caching: plan.cache >= Overlay::SMALLEST_ENTRY as u64,
            clients: plan.clients(settings.workers),
            engines,
            engine_part: AtomicU64::new(0),
            told: AtomicU64::new(0),
            warned: AtomicBool::new(false),
        };
        memory.tell_engines(&plan);
        Ok(memory)
    }

    /// Splits another budget, while all is running. Workers and engines follow soon.
    pub(crate) fn set(&self, settings: &MemorySettings) -> Result {
        let plan = plan(settings)?;
        plan.apply(&self.overlays, &self.queues);
        self.tell_engines(&plan);
        self.warned.store(false, Relaxed);
        Ok(())
    }

    fn tell_engines(&self, plan: &MemoryBudget) {
        let part = plan.engines / (self.engines.len() as u64).max(1);
        self.engine_part.store(part, Relaxed);
        self.engines.iter().for_each(|engine| engine.set_memory(part));
    }

    /// Tells the metrics what all of it is, the engines' parts once a second. Called by every worker.
    pub(crate) fn report(&self, now: Duration, metrics: &dyn Metrics) {
        let held = self.overlays.held();
        metrics.set(Gauge::CacheBytes, Scope::Client, held.cache() as u64);
        metrics.set(Gauge::CleanBytes, Scope::Client, held.clean as u64);
        metrics.set(Gauge::PendingBytes, Scope::Client, held.pending as u64);
        metrics.set(Gauge::UncommittedBytes, Scope::Client, held.logged as u64);
        let (now, told) = (now.as_millis() as u64 + 1, self.told.load(Relaxed));
        let is_due = told == 0 || now.saturating_sub(told) >= REPORT_EVERY.as_millis() as u64;
        if !is_due || self.told.compare_exchange(told, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let part = self.engine_part.load(Relaxed);
        for engine in &self.engines {
            let (scope, memory) = (Scope::Engine(engine.name()), engine.memory());
            metrics.set(Gauge::EngineMemoryMax, scope, part);
            metrics.set(Gauge::BlockCacheUsage, scope, memory.cache);
            metrics.set(Gauge::BlockCachePinnedUsage, scope, memory.pinned);
            metrics.set(Gauge::SizeAllMemTables, scope, memory.write_buffers);
            metrics.set(Gauge::EngineRowsBytes, scope, memory.rows);
            metrics.set(Gauge::WriteStallTotal, scope, memory.stalled.as_millis() as u64);
            metrics.set(Gauge::WriteStallMax, scope, memory.longest_stall.as_millis() as u64);
            // A quarter more is what an engine may be late by.
            if memory.total() > part.saturating_add(part / 4) && !self.warned.swap(true, Relaxed) {
                tracing::warn!(
                    engine = engine.name(),
                    bytes = memory.total(),
                    part,
                    "the engine takes more than its part of memory.budget.bytes: raise it, or take an engine that keeps rows on disk"
                );
            }
        }
    }
}

fn plan(settings: &MemorySettings) -> Result<MemoryBudget> {
    let available = available_memory(&|path| std::fs::read_to_string(path));
    MemoryBudget::plan(settings, available).map_err(|e| Error::new(ErrorKind::Config, "plan memory").caused_by(e))
}
