//! Pauses between the tries of a call.

use std::time::Duration;

use crate::deadline::Deadline;

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
    fn pauses_grow_up_to_a_limit_and_end_with_the_deadline() {
        let (mut backoff, far) = (Backoff::new(), Deadline::after(Duration::from_secs(3600)));
        assert!(backoff.pause(&far));
        assert_eq!(backoff.next, 2 * Backoff::FIRST);
        let mut late = Backoff { next: Backoff::LONGEST };
        assert!(!late.pause(&Deadline::after(Duration::from_millis(5))), "nothing is left");
        assert_eq!(late.next, Backoff::LONGEST);
    }
}
