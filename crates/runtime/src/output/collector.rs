//! A worker's producer, and the next offsets that its reports have told (Kafka Streams' `RecordCollector`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{
    self as broker, CommitOutcome, Delivered, Failure, GroupOffset, Header, Member, Offset, Outgoing, Producer, Sent,
    TopicId,
};
use millpond_changelog::partition_for_key;
use smallvec::SmallVec;

use super::watch::{Contents, DEAD_LETTER, Origins, Watch, is_output};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::SinkRoute;
use crate::handler::{DeadLetterRoute, Decision, ErrorStage, Failed, Handlers, Letter, Origin, RefusedOutput};
use crate::instance::Closing;
use crate::settings::Guarantee;

const WRITE: &str = "write records";
/// What can be done about an output that is refused.
const SMALLER: &str =
    "make the record smaller, or raise `max.message.bytes` of the topic, and `message.max.bytes` of the producer";

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
    /// How many failures of the producer's present report were dealt with.
    told: usize,
    /// A record of the interval that was refused: without it the interval is not whole, so nothing of it may be committed.
    lost: Option<Error>,
    handlers: Arc<Handlers>,
    watch: Watch,
    /// In the order of the handlers' topics.
    dead_letters: Vec<DeadLetterRoute>,
    /// For dead letters without a key: the partition moves on with each of them.
    round_robin: i32,
}

impl Collector {
    /// `dead_letters`: the handlers' topics with their partition counts.
    pub(crate) fn new(
        mut producer: Box<dyn Producer>,
        closing: &Arc<Closing>,
        handlers: &Arc<Handlers>,
        dead_letters: &[(String, i32)],
        guarantee: Guarantee,
    ) -> Self {
        let route = |(topic, partitions): &(String, i32)| DeadLetterRoute {
            id: producer.topic(topic),
            partitions: *partitions,
        };
        let dead_letters = dead_letters.iter().map(route).collect();
        let watch = match guarantee {
            _ if !handlers.asks_about_outputs() => Watch::Off,
            Guarantee::AtLeastOnce => Watch::Origins(Origins::new()),
            Guarantee::ExactlyOnce => Watch::Contents(Contents::default()),
        };
        Self {
            producer,
            closing: Arc::clone(closing),
            delivered: BTreeMap::new(),
            sent: 0,
            pushed: 0,
            told: 0,
            lost: None,
            handlers: Arc::clone(handlers),
            watch,
            dead_letters,
            round_robin: 0,
        }
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

    /// Hands a record over that must not be missed; when the producer's buffer is full it is flushed first.
    #[inline]
    pub(crate) fn send(&mut self, record: &Outgoing<'_>) -> Result {
        match self.offer(record)? {
            None => Ok(()),
            Some(error) => Err(self.lose(Error::broker("send a record", error).remedy(SMALLER))),
        }
    }

    /// Hands an output over. If it is refused, the handler decides.
    #[inline]
    pub(crate) fn send_output(&mut self, record: &Outgoing<'_>, sink: &Arc<SinkRoute>, origin: Origin<'_>) -> Result {
        if matches!(self.watch, Watch::Off) { self.send(record) } else { self.send_watched(record, sink, origin) }
    }

    fn send_watched(&mut self, record: &Outgoing<'_>, sink: &Arc<SinkRoute>, origin: Origin<'_>) -> Result {
        if matches!(&self.watch, Watch::Origins(origins) if origins.is_full()) {
            self.flush()?;
        }
        let (tag, known) = match &mut self.watch {
            Watch::Off | Watch::Origins(_) => (record.tag, None),
            Watch::Contents(contents) => {
                let tag = contents.tag(record);
                (tag, contents.known(tag))
            }
        };
        let refused = match known {
            // A full producer is flushed, and with its answers all origins are forgotten: each attempt keeps its own.
            None => self.offer_by(|producer, watch| {
                let tag = match watch {
                    Watch::Origins(origins) => origins.keep(origin, sink),
                    Watch::Off | Watch::Contents(_) => tag,
                };
                producer.send(&Outgoing { tag, ..*record })
            })?,
            known => known,
        };
        let Some(error) = refused else { return Ok(()) };
        let error = Error::broker("send a record", error);
        let subject = origin.subject();
        let failed = Failed {
            node: Some(&sink.node),
            output: Some(RefusedOutput { topic: &sink.topic, partition: record.partition }),
            ..subject.failed(ErrorStage::Production, &self.handlers)
        };
        match self.handlers.decide(&failed, at_its_place(error, &failed), SMALLER) {
            Decision::Skip | Decision::Retry(_) => Ok(()),
            Decision::Fail(error) => Err(self.lose(error)),
            Decision::DeadLetter(to, error) => self.post(to, &failed, &error),
        }
    }

    /// Gives a record to the producer; answers why it is refused, if it is.
    #[inline]
    fn offer(&mut self, record: &Outgoing<'_>) -> Result<Option<broker::Error>> {
        self.offer_by(|producer, _| producer.send(record))
    }

    /// The same for a record that is made anew for each attempt.
    #[inline]
    fn offer_by(
        &mut self,
        mut attempt: impl FnMut(&mut dyn Producer, &mut Watch) -> broker::Result<Sent>,
    ) -> Result<Option<broker::Error>> {
        self.sent += 1;
        loop {
            match attempt(&mut *self.producer, &mut self.watch) {
                Ok(Sent::Queued) => return Ok(None),
                Ok(Sent::Full) => self.flush()?,
                Err(e) if e.kind() == broker::ErrorKind::Refused => return self.refused_at_once(e).map(Some),
                Err(e) => return Err(Error::broker("send a record", e)),
            }
        }
    }

    /// Within a transaction it may be another record that was refused, and no more are taken: the reports say which.
    #[cold]
    fn refused_at_once(&mut self, error: broker::Error) -> Result<broker::Error> {
        if matches!(self.watch, Watch::Contents(_)) {
            self.flush()?;
        }
        Ok(error)
    }

    /// Writes a dead letter. It goes with what else is committed then.
    pub(crate) fn post(&mut self, to: usize, failed: &Failed<'_>, error: &Error) -> Result {
        self.send_letter(&Letter::new(to, failed, error, self.handlers.wall_ms()))
    }

    fn send_letter(&mut self, letter: &Letter) -> Result {
        let Some(route) = self.dead_letters.get(letter.to).copied() else { return Ok(()) };
        let partition = match &letter.key {
            Some(key) => partition_for_key(key, route.partitions),
            None => {
                self.round_robin = (self.round_robin + 1) % route.partitions.max(1);
                self.round_robin
            }
        };
        let mut headers: SmallVec<[Header<'_>; 8]> = SmallVec::new();
        headers.extend(letter.headers.iter().map(|h| Header { name: &h.name, value: h.value.as_deref() }));
        let record = Outgoing {
            topic: route.id,
            partition,
            timestamp: letter.timestamp,
            key: letter.key.as_deref(),
            value: letter.value.as_deref(),
            headers: &headers,
            tag: DEAD_LETTER,
        };
        match self.offer(&record)? {
            None => Ok(()),
            Some(error) => Err(self.lose(refused_letter(Error::broker("send a record", error)))),
        }
    }

    /// Whether an output was left out that its transaction had been given up for: a commit now keeps that from happening
    /// again.
    pub(crate) fn take_met(&mut self) -> bool {
        match &mut self.watch {
            Watch::Contents(contents) => contents.take_met(),
            Watch::Off | Watch::Origins(_) => false,
        }
    }

    /// How many records the interval may have before it is committed, if that must not be left to time.
    pub(crate) fn most_records(&self) -> Option<usize> {
        match &self.watch {
            Watch::Contents(contents) => contents.most_records(),
            Watch::Off | Watch::Origins(_) => None,
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
        loop {
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
            let failures = flushed.failed.get(self.told..).unwrap_or_default().to_vec();
            // A report ends when all have an answer; in a transaction, where any failure is its end, only with that.
            self.told = if outstanding == 0 { 0 } else { flushed.failed.len() };
            let letters = self.settle(&failures)?;
            if outstanding == 0
                && let Watch::Origins(origins) = &mut self.watch
            {
                origins.clear();
            }
            if letters.is_empty() {
                return Ok(outstanding);
            }
            letters.iter().try_for_each(|letter| self.send_letter(letter))?;
        }
    }

    /// Deals with records that were not written. Where all are outputs, the handler decides, and dead letters remain to be
    /// sent; all else is an error.
    fn settle(&mut self, failures: &[Failure]) -> Result<Vec<Letter>> {
        let is_output = |f: &Failure| is_output(f.tag) && f.error.kind() == broker::ErrorKind::Refused;
        if let Watch::Contents(contents) = &mut self.watch {
            failures.iter().filter(|f| is_output(f)).for_each(|f| contents.remember(f.tag, &f.error));
        }
        let Some(first) = failures.first() else { return Ok(Vec::new()) };
        if let Some(other) = failures.iter().find(|f| !is_output(f)) {
            return Err(self.lose(refused(other)));
        }
        let error = match &mut self.watch {
            Watch::Origins(origins) => match ask(&self.handlers, origins, failures) {
                Ok(letters) => return Ok(letters),
                Err(error) => error,
            },
            Watch::Contents(contents) => {
                let in_vain = contents.give_up();
                if in_vain <= self.handlers.max_attempts() {
                    return Err(Error::new(ErrorKind::Aborted, WRITE).caused_by(first.error.clone()));
                }
                refused(first).with("attempts", in_vain).remedy(
                    "it differs each time it is made: an output that is to be left out has to be the same again",
                )
            }
            Watch::Off => refused(first),
        };
        Err(self.lose(error))
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

    /// A commit has succeeded.
    pub(crate) fn committed(&mut self) {
        self.forget();
        if let Watch::Contents(contents) = &mut self.watch {
            contents.committed();
        }
    }

    /// A commit is over, or given up: what was told belongs to the past.
    pub(crate) fn forget(&mut self) {
        self.delivered.clear();
        (self.sent, self.pushed, self.told, self.lost) = (0, 0, 0, None);
        if let Watch::Origins(origins) = &mut self.watch {
            origins.clear();
        }
    }
}

/// Asks about outputs that were refused while others of their interval are written. The dead letters to send.
#[cold]
fn ask(handlers: &Handlers, origins: &Origins, failures: &[Failure]) -> Result<Vec<Letter>> {
    let mut letters = Vec::new();
    for failure in failures {
        let error = Error::broker(WRITE, failure.error.clone());
        let Some((subject, sink)) = origins.find(failure.tag) else { return Err(refused(failure)) };
        let failed = Failed {
            node: Some(&sink.node),
            output: Some(RefusedOutput { topic: &sink.topic, partition: failure.partition }),
            ..subject.failed(ErrorStage::Production, handlers)
        };
        match handlers.decide(&failed, at_its_place(error, &failed), SMALLER) {
            Decision::Skip | Decision::Retry(_) => {}
            Decision::Fail(error) => return Err(error),
            Decision::DeadLetter(to, error) => letters.push(Letter::new(to, &failed, &error, handlers.wall_ms())),
        }
    }
    Ok(letters)
}

/// Adds where the output was for and where its record came from.
#[cold]
fn at_its_place(error: Error, failed: &Failed<'_>) -> Error {
    let error = error.with("task", failed.task);
    let error = match failed.output {
        Some(RefusedOutput { topic, partition }) => {
            error.with("output topic", topic).with("output partition", partition)
        }
        None => error,
    };
    match failed.source {
        Some(source) => {
            error.with("topic", source.topic).with("partition", source.partition).with("offset", source.offset)
        }
        None => error,
    }
}

/// The error of a record that was not written. The error policies are for input records and outputs: a change, or a record
/// between sub-topologies, is never skipped, since a store would differ from its log, or from what it stands for.
#[cold]
fn refused(failure: &Failure) -> Error {
    let error = Error::broker(WRITE, failure.error.clone()).with("partition", failure.partition);
    match error.kind() {
        ErrorKind::Record if failure.tag == DEAD_LETTER => refused_letter(error),
        ErrorKind::Record => error.remedy(SMALLER),
        _ => error,
    }
}

/// A dead letter is never dead-lettered.
#[cold]
fn refused_letter(error: Error) -> Error {
    error.with("record", "dead letter").remedy(
        "let the topic for dead letters take what the sources take: see its `max.message.bytes` and `cleanup.policy`, and \
         `message.timestamp.type` for times that lie ahead",
    )
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector")
            .field("sent", &self.sent)
            .field("delivered", &self.delivered)
            .finish_non_exhaustive()
    }
}
