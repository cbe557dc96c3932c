//! What the engine takes from its host: a thread and a clock.

use std::io;
use std::time::{Duration, Instant};

/// The engine's way to threads and time, so that a host can name, count or pin the one and drive the other.
pub trait Ports: Send + Sync {
    /// Runs `run` on a new thread. The engine asks once, for its flusher, which ends soon after the engine and all its
    /// shards are gone.
    fn spawn(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> io::Result<()>;

    /// The time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// Plain threads and the system's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemPorts {
    start: Instant,
}

impl SystemPorts {
    /// Starts the clock.
    #[expect(clippy::disallowed_methods, reason = "this is a port: the engine's only way to the system's clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemPorts {
    fn default() -> Self {
        Self::new()
    }
}

impl Ports for SystemPorts {
    fn spawn(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
