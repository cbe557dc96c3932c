//! Time as a port.

use std::time::Duration;

/// Where time comes from: the system, or a test that moves it.
pub trait Clock: Send + Sync {
    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Duration;

    /// Milliseconds since 1970 (UTC).
    fn wall_ms(&self) -> i64;
}
