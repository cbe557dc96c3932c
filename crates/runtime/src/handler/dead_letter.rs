//! Dead letters: the bytes of a record that failed, and in headers why (KIP-1034).

use bytes::Bytes;
use millpond_broker_api::TopicId;
use millpond_topology::{Header, Headers};

use super::Failed;
use crate::error::Error;

/// A dead-letter topic, as a worker's producer knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadLetterRoute {
    pub(crate) id: TopicId,
    pub(crate) partitions: i32,
}

/// A record for a dead-letter topic.
pub(crate) struct Letter {
    /// The topic's place among [`Handlers::topics`](super::Handlers::topics).
    pub(crate) to: usize,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Headers,
}

impl Letter {
    /// Key, value and headers of what has failed; behind these headers those of the error. `now`: milliseconds since 1970, for
    /// what has no time of its own.
    pub(crate) fn new(to: usize, failed: &Failed<'_>, error: &Error, now: i64) -> Self {
        let mut headers = failed.headers.clone();
        for (name, value) in reasons(failed, error) {
            headers.push(Header { name: name.into(), value: value.map(Bytes::from) });
        }
        let copy = |bytes: Option<&[u8]>| bytes.map(Bytes::copy_from_slice);
        let timestamp = if failed.timestamp < 0 { now } else { failed.timestamp };
        Self { to, timestamp, key: copy(failed.key), value: copy(failed.value), headers }
    }
}

/// Kafka Streams' headers, as text. Where it has an exception with its stack there is the root of the error, with the stage in
/// front, and the chain of causes, each on a line. What has no source has -1 for a place, as there.
fn reasons(failed: &Failed<'_>, error: &Error) -> [(&'static str, Option<String>); 6] {
    let mut stack = error.to_string();
    let mut root = None;
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        stack.push_str("\ncaused by: ");
        stack.push_str(&cause.to_string());
        (root, next) = (Some(cause.to_string()), cause.source());
    }
    let message = root.unwrap_or_else(|| error.to_string());
    let (partition, offset) = failed.source.map_or((-1, -1), |s| (s.partition, s.offset));
    [
        ("__streams.errors.exception", Some(format!("{}: {message}", failed.stage.name()))),
        ("__streams.errors.message", Some(message)),
        ("__streams.errors.stacktrace", Some(stack)),
        ("__streams.errors.topic", failed.source.map(|s| s.topic.to_owned())),
        ("__streams.errors.partition", Some(partition.to_string())),
        ("__streams.errors.offset", Some(offset.to_string())),
    ]
}
