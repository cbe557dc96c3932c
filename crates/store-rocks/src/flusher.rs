//! The flusher: one thread of the engine that flushes the shard with the most unflushed bytes, and makes writers wait when
//! it falls behind.
//!
//! RocksDB's own write-buffer manager flushes whichever shard happens to write, however little it holds; with many shards
//! that collapses into tiny files and stalls. So it only keeps account here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::ffi;
use crate::handle::Handle;
use crate::options::{Pool, RocksSettings, Tuning};
use crate::ports::Ports;

/// How long the flusher sleeps while some shard holds unflushed batches, and while none does.
const TICK: Duration = Duration::from_millis(100);
const IDLE_TICK: Duration = Duration::from_secs(1);

/// How often freed memory is given back.
const TRIM_EVERY: Duration = Duration::from_secs(1);

/// What the engine, its shards and the flusher's thread share.
pub(crate) struct Flusher {
    pool: Arc<Pool>,
    ports: Arc<dyn Ports>,
    flush_bytes: u64,
    state: Mutex<State>,
    /// For the thread: there is work, or it must end.
    wake: Condvar,
    /// For writers: memory may have become free.
    room: Condvar,
    pub(crate) flushes: AtomicU64,
    pub(crate) waits: AtomicU64,
    waited_ns: AtomicU64,
    longest_wait_ns: AtomicU64,
}

#[derive(Default)]
struct State {
    shards: Vec<Arc<Handle>>,
    /// Rounds in which nothing was worth a flush: what writers wait for would not come.
    idle_rounds: u64,
    /// Work has been announced since the last round.
    woken: bool,
    stopped: bool,
}

/// What a shard holds, as the flusher sees it.
#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    /// How long ago its first unflushed batch was applied.
    age: Duration,
    /// How long it may be.
    interval: Duration,
}

impl Flusher {
    pub(crate) fn new(pool: Arc<Pool>, ports: Arc<dyn Ports>, settings: &RocksSettings) -> Self {
        Self {
            pool,
            ports,
            flush_bytes: settings.flush_bytes,
            state: Mutex::default(),
            wake: Condvar::new(),
            room: Condvar::new(),
            flushes: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            longest_wait_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, shard: Arc<Handle>) {
        self.lock().shards.push(shard);
    }

    pub(crate) fn remove(&self, shard: &Arc<Handle>) {
        self.lock().shards.retain(|s| !Arc::ptr_eq(s, shard));
    }

    pub(crate) fn shards(&self) -> Vec<Arc<Handle>> {
        self.lock().shards.clone()
    }

    /// The share has changed: there may be work.
    pub(crate) fn wake(&self) {
        self.lock().woken = true;
        self.wake.notify_one();
    }

    /// Makes the thread end. Does not wait for it.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.wake.notify_all();
        self.room.notify_all();
    }

    /// Called before a batch is applied: wakes the flusher in time, and waits while the memtables have outgrown their share.
    ///
    /// Never waits for what cannot come: once the flusher finds nothing worth flushing, or cannot flush, the writer goes on.
    pub(crate) fn make_room(&self) {
        if self.pool.memtable_bytes() <= self.pressure() {
            return;
        }
        let mut state = self.lock();
        state.woken = true;
        self.wake.notify_one();
        let idle_rounds = state.idle_rounds;
        let mut since = None;
        while self.pool.memtable_bytes() > self.share() && state.idle_rounds == idle_rounds && !state.stopped {
            since = since.or_else(|| Some(self.ports.monotonic()));
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(since) = since {
            let waited = self.ports.monotonic().saturating_sub(since).as_nanos();
            let waited = u64::try_from(waited).unwrap_or(u64::MAX);
            self.waits.fetch_add(1, Ordering::Relaxed);
            self.waited_ns.fetch_add(waited, Ordering::Relaxed);
            self.longest_wait_ns.fetch_max(waited, Ordering::Relaxed);
        }
    }

    /// For how long writers have waited, all in all.
    pub(crate) fn stalled(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed))
    }

    /// The longest of these waits.
    pub(crate) fn longest_stall(&self) -> Duration {
        Duration::from_nanos(self.longest_wait_ns.load(Ordering::Relaxed))
    }

    /// From here on the flusher works: early enough that writers seldom wait.
    fn pressure(&self) -> u64 {
        self.share() / 4 * 3
    }

    /// What the memtables of all shards may take.
    fn share(&self) -> u64 {
        self.pool.split().memtable_bytes()
    }

    /// The thread.
    pub(crate) fn run(&self) {
        let mut trimmed = self.ports.monotonic();
        loop {
            let flushed = self.round();
            let now = self.ports.monotonic();
            if self.pool.tuning() == Tuning::Ours && now.saturating_sub(trimmed) >= TRIM_EVERY {
                trimmed = now;
                ffi::trim_heap();
            }
            let mut state = self.lock();
            if !flushed {
                state.idle_rounds += 1;
            }
            self.room.notify_all();
            if !flushed && !state.woken && !state.stopped {
                let tick = if state.shards.iter().any(|s| s.age(now).is_some()) { TICK } else { IDLE_TICK };
                state = self.wake.wait_timeout(state, tick).unwrap_or_else(PoisonError::into_inner).0;
            }
            state.woken = false;
            if state.stopped {
                return;
            }
        }
    }

    /// Flushes at most one shard; true if there was one.
    fn round(&self) -> bool {
        let now = self.ports.monotonic();
        let shards = self.shards();
        let (dirty, held): (Vec<_>, Vec<_>) = shards.iter().filter_map(|s| Some((s, s.held(now)?))).unzip();
        let used = self.pool.memtable_bytes();
        let picked =
            pick(&held, used > self.pressure(), self.share() / 4 / (shards.len().max(1) as u64), self.flush_bytes);
        let Some(shard) = picked.and_then(|i| dirty.get(i)) else { return false };
        let flushed = shard.flush(now);
        self.flushes.fetch_add(u64::from(flushed), Ordering::Relaxed);
        flushed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    /// What the flusher must know; `None` if there is nothing to flush or the shard is closed or broken.
    fn held(&self, now: Duration) -> Option<Held> {
        let age = self.age(now)?;
        Some(Held { bytes: self.gate.enter()?.unflushed_bytes(), age, interval: self.interval })
    }

    /// Flushes and waits; false if that failed or the shard is closed. The writer learns of the failure.
    fn flush(&self, now: Duration) -> bool {
        let Some(database) = self.gate.enter() else { return false };
        self.clean();
        match database.flush(true) {
            Ok(()) => true,
            Err(error) => {
                self.soil(|| now);
                self.fail(error);
                false
            }
        }
    }
}

/// Which shard is flushed next.
///
/// Under pressure it is the one with the most bytes, if it has `worth` at least: else the memory is not where a flush would
/// free it. Then one that has reached `flush_bytes`, then one that has waited for its interval.
fn pick(held: &[Held], pressure: bool, worth: u64, flush_bytes: u64) -> Option<usize> {
    let (largest, most) = held.iter().enumerate().max_by_key(|(_, h)| h.bytes)?;
    if pressure && most.bytes >= worth || most.bytes >= flush_bytes {
        return Some(largest);
    }
    let overdue = |(_, h): &(usize, &Held)| h.age.saturating_sub(h.interval);
    held.iter().enumerate().filter(|(_, h)| h.age >= h.interval).max_by_key(overdue).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held(bytes: u64, age: u32) -> Held {
        Held { bytes, age: SECOND * age, interval: SECOND * 30 }
    }

    #[test]
    fn under_pressure_the_largest_shard_is_flushed() {
        let shards = [held(10, 29), held(300, 0), held(200, 40)];
        assert_eq!(pick(&shards, true, 100, 1000), Some(1));
        assert_eq!(pick(&shards, false, 100, 1000), Some(2), "without pressure the one that is due");
        assert_eq!(pick(&[], true, 0, 1), None);
    }

    #[test]
    fn memory_that_no_flush_would_free_is_not_chased() {
        assert_eq!(pick(&[held(10, 0), held(20, 0)], true, 100, 1000), None);
    }

    #[test]
    fn a_full_shard_goes_before_one_that_is_due() {
        assert_eq!(pick(&[held(10, 99), held(1000, 0)], false, 0, 1000), Some(1));
    }

    #[test]
    fn of_those_that_are_due_the_longest_overdue_goes_first() {
        assert_eq!(pick(&[held(10, 30), held(5, 31), held(900, 29)], false, 0, 1000), Some(1));
        assert_eq!(pick(&[held(900, 29)], false, 0, 1000), None);
    }
}
