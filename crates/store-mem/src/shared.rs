//! The committed state of a shard, shared by its writer and its readers.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use millpond_store_api::{Error, ErrorKind, Result};

use crate::map::Image;

/// The state behind a lock; `None` when the shard is gone. The writer's own reads find the lock free.
pub(crate) struct Shared {
    state: RwLock<Option<Image>>,
}

/// A state that can be read.
pub(crate) struct Now<'a>(RwLockReadGuard<'a, Option<Image>>);

impl Shared {
    pub(crate) const fn new(image: Image) -> Self {
        Self { state: RwLock::new(Some(image)) }
    }

    /// The state as of now; it does not change while this is held.
    pub(crate) fn now(&self, op: &'static str) -> Result<Now<'_>> {
        let state = self.state.read().map_err(|_| torn(op))?;
        if state.is_some() { Ok(Now(state)) } else { Err(gone(op)) }
    }

    /// Changes the state, all of it at once for whoever reads.
    pub(crate) fn change<T>(&self, op: &'static str, change: impl FnOnce(&mut Image) -> Result<T>) -> Result<T> {
        let mut state: RwLockWriteGuard<'_, _> = self.state.write().map_err(|_| torn(op))?;
        change(state.as_mut().ok_or_else(|| gone(op))?)
    }

    /// Ends the shard for its readers.
    pub(crate) fn end(&self) {
        // The rows are dropped after the lock is free again. A poisoned lock refuses everything already.
        let rows = self.state.write().map(|mut state| state.take());
        drop(rows);
    }
}

impl Now<'_> {
    pub(crate) fn image(&self) -> &Image {
        self.0.as_ref().expect("`Shared::now` has checked it")
    }
}

#[cold]
fn gone(op: &'static str) -> Error {
    Error::new(ErrorKind::Retry, op).with("shard", "closed")
}

/// A panic came out of the batch while it was applied: some of its rows are there.
#[cold]
fn torn(op: &'static str) -> Error {
    Error::new(ErrorKind::Corrupt, op).with("cause", "a panic interrupted a batch")
}
