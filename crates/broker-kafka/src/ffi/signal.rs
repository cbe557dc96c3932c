//! What ends the wait of a reader: messages, or a waker of another thread.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

/// Two flags and somebody who may wait for them.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    flags: Mutex<Flags>,
    raised: Condvar,
}

#[derive(Debug, Default)]
struct Flags {
    /// Something came into the queue.
    ready: bool,
    /// The waker was called.
    woken: bool,
}

impl Signal {
    /// Something came.
    pub(super) fn ready(&self) {
        self.lock().ready = true;
        self.raised.notify_one();
    }

    /// Forgets what came so far: called before the queue is looked into, so that what comes later is not missed.
    pub(crate) fn arm(&self) {
        self.lock().ready = false;
    }

    /// Waits until something came since [`Signal::arm`], until the waker was called, or for `max_wait`.
    pub(crate) fn wait(&self, max_wait: Duration) {
        let flags = self.lock();
        let _ended = self.raised.wait_timeout_while(flags, max_wait, |f| !f.ready && !f.woken);
    }

    /// Whether the waker was called since this was asked last.
    pub(crate) fn take_woken(&self) -> bool {
        std::mem::take(&mut self.lock().woken)
    }

    fn lock(&self) -> MutexGuard<'_, Flags> {
        self.flags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.lock().woken = true;
        self.raised.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn what_came_since_it_was_armed_ends_the_wait() {
        let signal = Signal::default();
        signal.arm();
        signal.ready();
        signal.wait(LONG);
        assert!(!signal.take_woken());
        signal.arm();
        signal.wait(Duration::ZERO);
    }

    #[test]
    fn a_waker_ends_this_wait_or_the_next() {
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(signal.clone());
        waker.wake_by_ref();
        signal.arm();
        signal.wait(LONG);
        assert!(signal.take_woken(), "arming forgets no waker");
        assert!(!signal.take_woken());
        std::thread::scope(|scope| {
            scope.spawn(|| waker.wake_by_ref());
            signal.wait(LONG);
        });
        assert!(signal.take_woken());
    }
}
