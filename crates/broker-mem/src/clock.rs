//! A clock that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millpond_broker_api::Clock;

/// Time that stands still until a test moves it; clones share it.
///
/// A broker with this clock never waits: a call with a `max_wait` answers at once with what is known.
///
/// ```
/// use std::time::Duration;
/// use millpond_broker_api::Clock;
/// use millpond_broker_mem::ManualClock;
///
/// let clock = ManualClock::starting_at(1_000);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.wall_ms(), 2_000);
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
    start_ms: i64,
}

impl ManualClock {
    /// Starts at 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        Self::starting_at(1_767_225_600_000)
    }

    /// Starts at a wall clock time, in milliseconds since 1970 (UTC).
    pub fn starting_at(wall_ms: i64) -> Self {
        Self { nanos: Arc::default(), start_ms: wall_ms }
    }

    /// Moves the time on. What falls due happens at the next call on the broker.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn wall_ms(&self) -> i64 {
        self.start_ms + i64::try_from(self.now().as_millis()).unwrap_or(i64::MAX / 2)
    }
}
