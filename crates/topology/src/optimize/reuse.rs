//! A table's source topic as the changelog of its store.

use std::sync::Arc;

use crate::topology::Topic;

/// Whether the source makes a row of a record: key, value, time.
type Accepts = Arc<dyn Fn(&[u8], Option<&[u8]>, i64) -> bool + Send + Sync>;

/// A source topic that is the changelog of a store as well, see
/// [`Optimization::REUSE_KTABLE_SOURCE_TOPICS`](crate::Optimization::REUSE_KTABLE_SOURCE_TOPICS).
#[derive(Clone)]
pub struct ReusedTopic {
    /// The topic.
    pub topic: Topic,
    accepts: Accepts,
}

impl ReusedTopic {
    pub(crate) fn new(
        topic: Topic,
        accepts: impl Fn(&[u8], Option<&[u8]>, i64) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { topic, accepts: Arc::new(accepts) }
    }

    /// Whether the table's source makes a row of a record, or deletes one: what it would drop or fail on does not belong into the
    /// store. `timestamp` is the record's own, in milliseconds since 1970. It runs the user's serdes.
    pub fn accepts(&self, key: &[u8], value: Option<&[u8]>, timestamp: i64) -> bool {
        (self.accepts)(key, value, timestamp)
    }
}

impl std::fmt::Debug for ReusedTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReusedTopic").field("topic", &self.topic).finish_non_exhaustive()
    }
}
