//! How much of a caller's `max_wait` is left.

use std::time::Duration;

use millpond_broker_api::{Clock, SystemClock};

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    since: SystemClock,
    wait: Duration,
}

impl Deadline {
    /// So long from now on.
    pub(crate) fn after(wait: Duration) -> Self {
        Self { since: SystemClock::new(), wait }
    }

    /// What is left of it.
    pub(crate) fn left(&self) -> Duration {
        self.wait.saturating_sub(self.since.now())
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}
