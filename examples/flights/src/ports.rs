//! What the parts need of the world: time, and the signal to stop.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond::broker::Clock;
use millpond::runtime::SystemClock;

use crate::error::{Error, Result};

/// Shared by all parts and threads.
#[derive(Clone)]
pub struct Ports {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Ends all parts early.
    pub stop: Stop,
}

impl Default for Ports {
    /// The system's clock, and a signal that nobody has given yet.
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock::new()), stop: Stop::default() }
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ports").field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// A signal that ends all parts of the program: Ctrl-C, or a part that failed. Given once, seen by all clones.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    /// Gives the signal.
    pub fn stop(&self) {
        *self.lock() = true;
        self.0.1.notify_all();
    }

    /// Waits for the signal, but no longer than that.
    ///
    /// # Errors
    ///
    /// The signal was given, before or meanwhile.
    pub fn wait(&self, at_most: Duration) -> Result<()> {
        let waited = self.0.1.wait_timeout_while(self.lock(), at_most, |stopped| !*stopped);
        let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *stopped { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// A flag is right at any time, so a panic elsewhere does not matter.
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_waiting_now_and_later() {
        let stop = Stop::default();
        assert!(stop.wait(Duration::ZERO).is_ok());
        std::thread::scope(|scope| {
            let other = stop.clone();
            let waiting = scope.spawn(move || other.wait(Duration::MAX));
            stop.stop();
            assert!(waiting.join().unwrap().is_err());
        });
        assert!(stop.wait(Duration::ZERO).is_err());
    }
}
