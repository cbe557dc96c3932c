//! Writing: an idempotent producer, transactional if it has an id; a commit answers with a value.

use std::time::Duration;

use crate::{Error, GroupOffset, Header, Member, Offset, Result};

/// A topic, by the number that its producer gave it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicId(pub u32);

/// A record to be written, lent.
#[derive(Clone, Copy)]
pub struct Outgoing<'a> {
    /// The topic, from [`Producer::topic`].
    pub topic: TopicId,
    /// The partition.
    pub partition: i32,
    /// Milliseconds since 1970 (UTC), for topics with `message.timestamp.type=CreateTime`.
    pub timestamp: i64,
    /// The key's bytes; `None` is Kafka's null.
    pub key: Option<&'a [u8]>,
    /// The value's bytes; `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: &'a [Header<'a>],
    /// Comes back in a [`Failure`].
    pub tag: u64,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing")
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("timestamp", &self.timestamp)
            .field("key_len", &self.key.map(<[u8]>::len))
            .field("value_len", &self.value.map(<[u8]>::len))
            .finish_non_exhaustive()
    }
}

/// What became of a record that was handed over.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was taken: key, value and headers have been copied.
    Queued,
    /// It was not taken, since the buffer is full: flush, send it again.
    Full,
}

/// Acknowledged records of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: i32,
    /// How many.
    pub records: u64,
    /// The offset after the last of them. `None`: a report came without an offset (a retried duplicate), so the log's end
    /// has to be asked for.
    pub next: Option<Offset>,
}

/// A record that could not be written.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: i32,
    /// [`Outgoing::tag`].
    pub tag: u64,
    /// Why.
    pub error: Error,
}

/// What a flush found out.
#[derive(Clone, Copy, Debug)]
pub struct Flushed<'a> {
    /// Records without an answer yet; 0: all have one.
    pub outstanding: usize,
    /// Since the last commit, abort or [`Producer::init`] (for a producer without an id: since the last flush that ended
    /// with `outstanding == 0`): one row per partition.
    pub delivered: &'a [Delivered],
    /// In the same span.
    pub failed: &'a [Failure],
}

/// How a commit ended.
#[must_use]
#[derive(Clone, Debug)]
pub enum CommitOutcome {
    /// All of it is visible, the offsets are committed.
    Committed,
    /// None of it is visible, and the client can be used: go back and do it again.
    Aborted(Error),
    /// None of it is visible, and its author is not who it was: the kind is [`MembershipLost`](crate::ErrorKind::MembershipLost)
    /// or [`ProducerFenced`](crate::ErrorKind::ProducerFenced).
    Fenced(Error),
    /// It may have happened or not. Ask ([`Producer::init`], then [`GroupOffsets::fetch_stable`](crate::GroupOffsets::fetch_stable));
    /// never guess, never abort.
    Unknown(Error),
}

/// A writer. Idempotent; with a transactional id all its records stand in transactions.
///
/// # Contract
///
/// * Records of one partition are written in the order in which they were sent, each at most once.
/// * The first [`Producer::send`] after [`Producer::init`], a commit or an abort begins a transaction.
/// * Without a transactional id, `init`, `commit` and `abort` are [`Fatal`](crate::ErrorKind::Fatal).
///
/// # Threading
///
/// `Send`, not `Sync`: one per worker.
pub trait Producer: Send {
    /// A number for a topic; does no I/O, the same for the same name.
    fn topic(&mut self, name: &str) -> TopicId;

    /// Takes a copy of the record. [`Refused`](crate::ErrorKind::Refused): this record can never be sent, and the
    /// transaction knows nothing of it.
    fn send(&mut self, record: &Outgoing<'_>) -> Result<Sent>;

    /// Waits until all records have an answer, or for `max_wait`.
    fn flush(&mut self, max_wait: Duration) -> Result<Flushed<'_>>;

    /// Fences former holders of the transactional id and ends their transactions: an open one is aborted, one that is
    /// being committed is completed. Needed before the first `send`, and after [`CommitOutcome::Unknown`].
    fn init(&mut self, max_wait: Duration) -> Result<()>;

    /// Flushes, adds the offsets to the transaction, commits it. Repeats inside what is retriable; when `max_wait` is over
    /// the answer is [`CommitOutcome::Unknown`]. Without records or offsets since the last one it is a cheap `Committed`.
    /// A record that failed since the last commit makes it [`CommitOutcome::Aborted`].
    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome;

    /// Aborts the transaction, if one is open.
    fn abort(&mut self, max_wait: Duration) -> Result<()>;
}
