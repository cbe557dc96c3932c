//! What the writer and its readers share: the newest snapshot, for as long as the shard lives.

use std::sync::{Arc, PoisonError, RwLock};

use millpond_store_api::{Error, ErrorKind, Result};

use crate::snapshot::Snapshot;

/// The newest snapshot; none when the shard has ended. The lock is held for the copy of a pointer.
pub(crate) struct Shared(RwLock<Option<Arc<Snapshot>>>);

impl Shared {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self(RwLock::new(Some(Arc::new(snapshot))))
    }

    /// The newest snapshot.
    pub(crate) fn now(&self, op: &'static str) -> Result<Arc<Snapshot>> {
        // Nothing that can panic runs under the lock.
        let now = self.0.read().unwrap_or_else(PoisonError::into_inner);
        now.clone().ok_or_else(|| Error::new(ErrorKind::Retry, op).with("reason", "the shard has been closed"))
    }

    /// What readers see from now on; `None` is the end.
    pub(crate) fn set(&self, snapshot: Option<Snapshot>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = snapshot.map(Arc::new);
    }
}
