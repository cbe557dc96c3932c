//! A worker's producer, and the next offsets that its reports have told (Kafka Streams' `RecordCollector`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{
    CommitOutcome, Delivered, Failure, GroupOffset, Member, Offset, Outgoing, Producer, Sent, TopicId,
};

use crate::error::{Error, ErrorKind, Result};
use crate::instance::Closing;

const WRITE: &str = "write records";

/// One per worker: all its tasks write through it, in one transaction under exactly-once.
pub(crate) struct Collector {
    producer: Box<dyn Producer>,
    /// Bounds each call to the broker.
    closing: Arc<Closing>,
    /// Since the last commit or abort, by partition; `None`: a report came without an offset.
    delivered: BTreeMap<(TopicId, i32), Option<Offset>>,
    /// Records sent since the last commit or abort.
    sent: u64,
    /// How many of them were there when they were last pushed out.
    pushed: u64,
    /// A record of the interval that was refused: without it the interval is not whole, so nothing of it may be committed.
    lost: Option<Error>,
}

impl Collector {
    pub(crate) fn new(producer: Box<dyn Producer>, closing: Arc<Closing>) -> Self {
        Self { producer, closing, delivered: BTreeMap::new(), sent: 0, pushed: 0, lost: None }
    }

    pub(crate) fn topic(&mut self, name: &str) -> TopicId {
        self.producer.topic(name)
    }

    /// Whether anything was sent since the last commit or abort.
    pub(crate) fn is_dirty(&self) -> bool {
        self.sent > 0
    }

    /// Fences former holders of the transactional id, and ends their transactions.
    pub(crate) fn init(&mut self) -> Result {
        self.forget();
        self.producer.init(self.closing.patience()).map_err(|e| Error::broker("take over the transactional id", e))
    }

    /// Hands a record over; when the producer's buffer is full it is flushed first.
    #[inline]
    pub(crate) fn send(&mut self, record: &Outgoing<'_>) -> Result {
        self.sent += 1;
        loop {
            match self.producer.send(record) {
                Ok(Sent::Queued) => return Ok(()),
                Ok(Sent::Full) => self.flush()?,
                Err(e) => return Err(self.lose(Error::broker("send a record", e))),
            }
        }
    }

    /// Remembers a record that was refused until the interval is given up.
    #[cold]
    fn lose(&mut self, error: Error) -> Error {
        if error.kind() == ErrorKind::Record {
            self.lost.get_or_insert_with(|| error.clone());
        }
        error
    }

    /// Sets records on their way that the client still holds back, without waiting for their answers: the next
    /// sub-topology need not wait for the commit. Failures show at the next flush.
    pub(crate) fn push_out(&mut self) -> Result {
        if self.pushed == self.sent {
            return Ok(());
        }
        self.pushed = self.sent;
        self.flush_within(Duration::ZERO).map(drop)
    }

    /// Waits until every record has an answer. A record that could not be written is an error.
    pub(crate) fn flush(&mut self) -> Result {
        let wait = self.closing.patience();
        match self.flush_within(wait)? {
            0 => Ok(()),
            n => Err(Error::new(ErrorKind::Aborted, WRITE)
                .with("unacknowledged records", n)
                .with("after ms", wait.as_millis())
                .remedy("the broker does not answer in time: see `request.timeout.ms`")),
        }
    }

    /// Answers how many records have no answer yet.
    fn flush_within(&mut self, wait: Duration) -> Result<usize> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let flushed = self.producer.flush(wait).map_err(|e| Error::broker(WRITE, e))?;
        for Delivered { topic, partition, next, .. } in flushed.delivered {
            let known = self.delivered.entry((*topic, *partition)).or_insert(*next);
            // One report without an offset spoils the partition until it is asked for.
            *known = known.zip(*next).map(|(a, b)| a.max(b));
        }
        let outstanding = flushed.outstanding;
        match flushed.failed.first().map(refused) {
            Some(error) => Err(self.lose(error)),
            None => Ok(outstanding),
        }
    }

    /// The next offset of a partition that was written to; outer `None`: nothing was written, inner: it has to be asked for.
    pub(crate) fn next_offset(&self, topic: TopicId, partition: i32) -> Option<Option<Offset>> {
        self.delivered.get(&(topic, partition)).copied()
    }

    /// Commits the transaction together with input offsets.
    pub(crate) fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>]) -> CommitOutcome {
        self.producer.commit(member, offsets, self.closing.patience())
    }

    pub(crate) fn abort(&mut self) -> Result {
        self.forget();
        self.producer.abort(self.closing.patience()).map_err(|e| Error::broker("abort the transaction", e))
    }

    /// A commit is over: what was told belongs to the past.
    pub(crate) fn forget(&mut self) {
        self.delivered.clear();
        (self.sent, self.pushed, self.lost) = (0, 0, None);
    }
}

/// The error of a record that was not written. The error policies are for input records: a change or an output that is
/// left out would be missed by nobody but its reader, so it is never skipped.
#[cold]
fn refused(failure: &Failure) -> Error {
    let error = Error::broker(WRITE, failure.error.clone()).with("partition", failure.partition);
    match error.kind() {
        ErrorKind::Record => error.remedy("make the record smaller, or raise `max.message.bytes` of the topic"),
        _ => error,
    }
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector")
            .field("sent", &self.sent)
            .field("delivered", &self.delivered)
            .finish_non_exhaustive()
    }
}
