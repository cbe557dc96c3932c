//! The only place in xtask that reads a clock or waits: progress is shown in real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Measures from its creation on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "commands of the developer run in real time, not on a port's")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Milliseconds since 1970 (UTC), to be compared with what other processes say.
#[expect(clippy::disallowed_methods, reason = "commands of the developer run in real time, not on a port's")]
pub(crate) fn wall_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3
}

/// Waits before a running program is looked at again.
#[expect(clippy::disallowed_methods, reason = "std can only wait for a child's end, not for that or a second")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// `7 s`, `3 min 20 s`.
pub(crate) fn spell(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_spelt_in_minutes_and_seconds() {
        assert_eq!(spell(Duration::from_millis(6_700)), "7 s");
        assert_eq!(spell(Duration::from_secs(200)), "3 min 20 s");
    }
}
