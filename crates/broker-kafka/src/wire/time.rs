//! Time for connections: sockets need the system's, not a port's.

use std::time::{Duration, Instant};

/// When something is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    /// `None`: never.
    at: Option<Instant>,
}

impl Deadline {
    /// So long from now on.
    #[expect(clippy::disallowed_methods, reason = "time-outs of sockets are the system's")]
    pub(crate) fn after(time: Duration) -> Self {
        Self { at: Instant::now().checked_add(time) }
    }

    /// What is left; zero when it is over.
    #[expect(clippy::disallowed_methods, reason = "time-outs of sockets are the system's")]
    pub(crate) fn remaining(&self) -> Duration {
        self.at.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Waits before the next try; not beyond the deadline.
    #[expect(clippy::disallowed_methods, reason = "whoever repeats a call over a socket waits in between")]
    fn pause(&self, time: Duration) {
        std::thread::sleep(time.min(self.remaining()));
    }
}

/// Pauses between tries, each twice as long as the one before, up to a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(20);
    const LONGEST: Duration = Duration::from_millis(500);

    pub(crate) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    /// Waits, unless the deadline is over before anything could be tried again: then it says `false`.
    pub(crate) fn pause(&mut self, deadline: &Deadline) -> bool {
        deadline.pause(self.next);
        self.next = (self.next * 2).min(Self::LONGEST);
        !deadline.is_over()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_end() {
        assert!(Deadline::after(Duration::ZERO).is_over());
        let far = Deadline::after(Duration::from_secs(3600));
        assert!(!far.is_over() && far.remaining() > Duration::from_secs(3500));
        assert!(!Deadline::after(Duration::MAX).is_over(), "beyond what the clock can say");
    }

    #[test]
    fn pauses_grow_up_to_a_limit_and_end_with_the_deadline() {
        let (mut backoff, far) = (Backoff::new(), Deadline::after(Duration::from_secs(3600)));
        assert!(backoff.pause(&far));
        assert_eq!(backoff.next, 2 * Backoff::FIRST);
        let mut late = Backoff { next: Backoff::LONGEST };
        assert!(!late.pause(&Deadline::after(Duration::from_millis(5))), "nothing is left");
        assert_eq!(late.next, Backoff::LONGEST);
    }
}
