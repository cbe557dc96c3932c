//! How much of a wait is left: of a caller's `max_wait`, or of what a socket is given.

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

    /// The end of a part of it that may take so long by itself.
    pub(crate) fn at_most(&self, limit: Duration) -> Self {
        Self::after(self.left().min(limit))
    }

    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Waits before the next try; not beyond the deadline.
    #[expect(clippy::disallowed_methods, reason = "whoever repeats a call over a socket waits in between")]
    pub(crate) fn pause(&self, time: Duration) {
        std::thread::sleep(time.min(self.left()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_end() {
        assert!(Deadline::after(Duration::ZERO).is_over());
        let far = Deadline::after(Duration::from_secs(3600));
        assert!(!far.is_over() && far.left() > Duration::from_secs(3500));
        assert!(!Deadline::after(Duration::MAX).is_over(), "beyond what the clock can say");
        assert!(far.at_most(Duration::from_secs(1)).left() <= Duration::from_secs(1));
        assert!(Deadline::after(Duration::ZERO).at_most(Duration::MAX).is_over());
    }
}
