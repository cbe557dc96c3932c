//! Rows that nodes hold back until they are due, on their way through.

use std::any::Any;
use std::sync::Arc;

use crate::headers::Headers;

/// A row that a node lets through.
#[derive(Clone, Copy)]
pub struct HeldBack<'a> {
    /// The key's bytes; of a window as Kafka Streams writes a windowed key to a topic.
    pub key: &'a [u8],
    /// The value's bytes.
    pub value: Option<&'a [u8]>,
    /// The headers that it is forwarded with.
    pub headers: &'a Headers,
    /// The event time of the row (milliseconds since 1970).
    pub timestamp: i64,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for HeldBack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldBack")
            .field("key_len", &self.key.len())
            .field("value_len", &self.value.map(<[u8]>::len))
            .field("timestamp", &self.timestamp)
            .finish()
    }
}

/// How far a node has come with the rows that it lets through; see [`TaskGraph::let_through`](crate::TaskGraph::let_through).
#[derive(Clone, Default)]
pub struct Round {
    /// So many rows have had their turn.
    pub had: u64,
    /// The next one is not forwarded, since it has failed: it is gone.
    pub pass_over: bool,
    /// What the node remembers of the rows: it outlives the graph, which is made anew after a panic.
    pub(crate) memory: Option<Arc<dyn Any + Send + Sync>>,
}

impl std::fmt::Debug for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Round").field("had", &self.had).field("pass_over", &self.pass_over).finish_non_exhaustive()
    }
}
