//! Which records of a log are a store's: all of its own changelog, but not all of a topic that others write.

use std::sync::Arc;

type Check = dyn Fn(&[u8], Option<&[u8]>, i64) -> bool + Send + Sync;

/// Says whether a record is one of the store's: key, value, timestamp in milliseconds since 1970. It is asked once or more for
/// each record, and must not panic.
#[derive(Clone)]
pub struct Accepts(Arc<Check>);

impl Accepts {
    /// By a function.
    pub fn new(check: impl Fn(&[u8], Option<&[u8]>, i64) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(check))
    }

    pub(super) fn is(&self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> bool {
        (self.0)(key, value, timestamp)
    }
}

impl std::fmt::Debug for Accepts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Accepts")
    }
}

/// The same function, not one that answers alike.
impl PartialEq for Accepts {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Accepts {}
