//! How long an instance still waits for its cluster once it is being closed, and whether its end was a clean one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::ports::Clock;

/// The part of the time for a close that the member has for itself, to leave the group.
const LEAVING: u32 = 5;
/// The part in which threads come to their ends.
const ENDING: u32 = 10;

/// Until when an instance may take to close; shared by its member and all its workers.
pub(crate) struct Closing {
    clock: Arc<dyn Clock>,
    /// `request.timeout.ms`.
    request_timeout: Duration,
    /// When workers give up and when the member does, in microseconds of the clock's monotonic time.
    work_until: AtomicU64,
    leave_until: AtomicU64,
    fell_short: AtomicBool,
}

impl Closing {
    pub(crate) fn new(clock: Arc<dyn Clock>, request_timeout: Duration) -> Self {
        let (work_until, leave_until) = (u64::MAX.into(), u64::MAX.into());
        Self { clock, request_timeout, work_until, leave_until, fell_short: AtomicBool::new(false) }
    }

    /// From now on the instance has this long. An earlier end that was set before stays.
    pub(crate) fn within(&self, time: Duration) {
        let now = self.clock.now();
        let micros = |time| u64::try_from(now.saturating_add(time).as_micros()).unwrap_or(u64::MAX);
        self.work_until.fetch_min(micros(time - time / LEAVING), Ordering::Relaxed);
        self.leave_until.fetch_min(micros(time - time / ENDING), Ordering::Relaxed);
    }

    /// How long one call to the broker may take.
    pub(crate) fn patience(&self) -> Duration {
        left(&self.work_until, &*self.clock).min(self.request_timeout)
    }

    /// Whether workers have to give up what they have not committed.
    pub(crate) fn is_late_for_work(&self) -> bool {
        left(&self.work_until, &*self.clock).is_zero()
    }

    /// How long the member may still try to leave.
    pub(crate) fn left(&self) -> Duration {
        left(&self.leave_until, &*self.clock)
    }

    /// Something was not committed, not closed, or not told to the group.
    pub(crate) fn fall_short(&self) {
        self.fell_short.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_clean(&self) -> bool {
        !self.fell_short.load(Ordering::Relaxed)
    }
}

fn left(until: &AtomicU64, clock: &dyn Clock) -> Duration {
    match until.load(Ordering::Relaxed) {
        u64::MAX => Duration::MAX,
        until => Duration::from_micros(until).saturating_sub(clock.now()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_broker_mem::ManualClock;

    #[test]
    fn calls_get_shorter_towards_the_end_and_an_earlier_end_stays() {
        let clock = ManualClock::new();
        let second = Duration::from_secs(1);
        let closing = Closing::new(Arc::new(clock.clone()), 30 * second);
        assert_eq!(closing.patience(), 30 * second);
        closing.within(10 * second);
        closing.within(100 * second);
        closing.within(Duration::MAX);
        assert_eq!(closing.patience(), 8 * second, "the rest is for the member");
        clock.advance(8 * second);
        assert!(closing.is_late_for_work() && closing.patience().is_zero());
        assert_eq!(closing.left(), second);
        clock.advance(second);
        assert!(closing.left().is_zero());
    }
}
