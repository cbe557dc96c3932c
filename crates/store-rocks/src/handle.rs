//! The part of a shard that other threads reach: readers and the flusher.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use millpond_store_api::{Error, ErrorKind, Result};

use crate::database::Database;
use crate::gate::Gate;

/// [`Handle::dirty_since`] of a shard without unflushed batches.
const CLEAN: u64 = u64::MAX;

/// What a shard shares with its readers and with the flusher.
pub(crate) struct Handle {
    pub(crate) gate: Gate<Database>,
    /// After this time an unflushed batch is flushed.
    pub(crate) interval: Duration,
    /// When the first batch since the last flush was applied, in nanoseconds of the ports' clock.
    dirty_since: AtomicU64,
    /// Why a flush in the background has failed: told once to the writer. A shard with one is not flushed again, unless it
    /// was one that may pass.
    failure: Mutex<Failure>,
    /// Rows of the expiring space below this are gone, whether their files are or not.
    low: RwLock<Arc<[u8]>>,
}

#[derive(Default)]
enum Failure {
    #[default]
    None,
    New(Error),
    Told,
}

impl Handle {
    pub(crate) fn new(database: Arc<Database>, flush_interval: Duration) -> Self {
        Self {
            interval: jittered(flush_interval, &database.dir),
            gate: Gate::new(database),
            dirty_since: AtomicU64::new(CLEAN),
            failure: Mutex::default(),
            low: RwLock::new(Arc::default()),
        }
    }

    /// A batch has been applied. Called after the write: a flush that begins in between then costs one flush too many, while
    /// the other order could leave a batch that nobody knows to be unflushed.
    pub(crate) fn soil(&self, now: impl FnOnce() -> Duration) {
        if self.dirty_since.load(Ordering::Relaxed) == CLEAN {
            let now = u64::try_from(now().as_nanos()).unwrap_or(CLEAN - 1);
            self.dirty_since.store(now, Ordering::Release);
        }
    }

    /// A flush is about to begin. A batch that is applied meanwhile soils the shard again.
    pub(crate) fn clean(&self) {
        self.dirty_since.store(CLEAN, Ordering::Release);
    }

    /// How long batches have been waiting for a flush; `None` if none does, or if flushing has failed.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        let since = self.dirty_since.load(Ordering::Acquire);
        let broken = || !matches!(*self.failure.lock().unwrap_or_else(PoisonError::into_inner), Failure::None);
        (since != CLEAN && !broken()).then(|| now.saturating_sub(Duration::from_nanos(since)))
    }

    pub(crate) fn fail(&self, error: Error) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Failure::New(error);
    }

    /// Fails with the error of a flush in the background, once.
    pub(crate) fn check(&self) -> Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *failure) {
            Failure::None => Ok(()),
            Failure::Told => {
                *failure = Failure::Told;
                Ok(())
            }
            Failure::New(error) => {
                if error.kind() != ErrorKind::Retry {
                    *failure = Failure::Told;
                }
                Err(error)
            }
        }
    }

    pub(crate) fn low(&self) -> Arc<[u8]> {
        Arc::clone(&self.low.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn raise_low(&self, key: &[u8]) {
        let mut low = self.low.write().unwrap_or_else(PoisonError::into_inner);
        if **low < *key {
            *low = key.into();
        }
    }
}

/// Up to a fifth less, different for each directory: shards that started together do not flush together.
fn jittered(interval: Duration, dir: &Path) -> Duration {
    let hash = dir
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01B3));
    interval - interval / 5 * ((hash >> 32) as u32 % 1000) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_only_shortens_and_by_a_fifth_at_most() {
        let interval = Duration::from_secs(30);
        let jittered: Vec<_> = (0..64).map(|i| jittered(interval, Path::new(&format!("/state/app/0_{i}")))).collect();
        assert!(jittered.iter().all(|j| *j <= interval && *j >= interval * 4 / 5), "{jittered:?}");
        let spread = *jittered.iter().max().unwrap() - *jittered.iter().min().unwrap();
        assert!(spread > interval / 10, "{spread:?}");
    }
}
