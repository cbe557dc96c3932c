//! Time as a port, and the system's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where time comes from: the system, or a test that moves it.
pub trait Clock: Send + Sync {
    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Duration;

    /// Milliseconds since 1970 (UTC).
    fn wall_ms(&self) -> i64;
}

/// The system's time.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the system's implementation of the `Clock` port")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the system's implementation of the `Clock` port")]
    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}
