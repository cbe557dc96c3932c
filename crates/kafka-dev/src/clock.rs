//! The only place here that reads a clock or waits: brokers start and stop in real time.

use std::time::{Duration, Instant};

/// How often what we wait for is looked at.
const STEP: Duration = Duration::from_millis(20);

/// A moment after which waiting ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "a broker is a process of its own, which lives in real time")]
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// What is left, `None` when nothing is.
    #[expect(clippy::disallowed_methods, reason = "a broker is a process of its own, which lives in real time")]
    pub(crate) fn left(self) -> Option<Duration> {
        self.0.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// Waits a moment; false when the time is over.
    #[expect(clippy::disallowed_methods, reason = "std can wait for a child's end, but not for a while only")]
    pub(crate) fn pause(self) -> bool {
        let left = self.left();
        if let Some(left) = left {
            std::thread::sleep(STEP.min(left));
        }
        left.is_some()
    }
}
