//! The gate in front of an open database: other threads pass while it is open, and closing waits until they have left.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Holds a database for other threads than the writer's.
///
/// A counted gate and not a read-write lock: a pass may be taken while the same thread holds one, and no closing that
/// waits can dead-lock it.
pub(crate) struct Gate<T> {
    state: Mutex<State<T>>,
    left: Condvar,
}

struct State<T> {
    /// `None` once the gate is shut.
    behind: Option<Arc<T>>,
    /// Passes that were given out and not handed back.
    inside: usize,
}

impl<T> Gate<T> {
    pub(crate) fn new(behind: Arc<T>) -> Self {
        Self { state: Mutex::new(State { behind: Some(behind), inside: 0 }), left: Condvar::new() }
    }

    /// What is behind the gate, for as long as the pass lives; `None` once it is shut. Hold it for a call, not longer.
    pub(crate) fn enter(&self) -> Option<Pass<'_, T>> {
        let mut state = self.lock();
        let behind = Arc::clone(state.behind.as_ref()?);
        state.inside += 1;
        Some(Pass { gate: self, behind: Some(behind) })
    }

    /// Shuts the gate and waits until everybody has left.
    pub(crate) fn shut(&self) {
        let mut state = self.lock();
        state.behind = None;
        while state.inside > 0 {
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing under this lock panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the gate from shutting.
pub(crate) struct Pass<'a, T> {
    gate: &'a Gate<T>,
    /// Taken by `drop`, before the count goes down: whoever shut the gate then owns the only reference.
    behind: Option<Arc<T>>,
}

impl<T> std::ops::Deref for Pass<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.behind.as_ref().expect("only `drop` takes it")
    }
}

impl<T> Drop for Pass<'_, T> {
    fn drop(&mut self) {
        self.behind = None;
        self.gate.lock().inside -= 1;
        self.gate.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shutting_waits_for_the_last_pass_and_refuses_new_ones() {
        let thing = Arc::new(7);
        let gate = Gate::new(Arc::clone(&thing));
        let first = gate.enter().unwrap();
        let nested = gate.enter().unwrap();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| {
                gate.shut();
                Arc::strong_count(&thing)
            });
            while gate.enter().is_some() {
                std::thread::yield_now();
            }
            assert_eq!((*first, *nested), (7, 7));
            drop(first);
            assert!(!closing.is_finished());
            drop(nested);
            assert_eq!(closing.join().unwrap(), 1);
        });
    }
}
