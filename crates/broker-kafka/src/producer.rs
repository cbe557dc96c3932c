//! The producer: idempotent or transactional, over librdkafka.
//!
//! A handle of librdkafka takes part in one incarnation of a transactional id: what is fenced, or in doubt, is dropped,
//! and [`Producer::init`] makes another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{
    CommitOutcome, Delivered, Error, ErrorKind, Failure, Flushed, GroupOffset, Header, Member, Outgoing, Producer,
    ProducerOptions, Result, Sent, TopicId,
};

use crate::deadline::Deadline;
use crate::error;
use crate::ffi::{self, Conf, Membership, Partitions, Produce, Topic, Writer, code};
use crate::reports::Reports;
use crate::settings::{Client, KafkaSettings};

/// May be overridden by the user's settings.
const TUNED: [(&str, &str); 6] = [
    ("linger.ms", "5"),
    // Right after a commit the coordinator is busy for a moment: the default waits 100 ms before it asks again.
    ("retry.backoff.ms", "5"),
    ("queue.buffering.max.kbytes", "32768"),
    ("queue.buffering.max.messages", "500000"),
    ("reconnect.backoff.max.ms", "1000"),
    // How long a topic that is not there may still be on its way.
    ("topic.metadata.propagation.max.ms", "5000"),
];

/// What this producer is.
const FIXED: [(&str, &str); 3] =
    [("enable.idempotence", "true"), ("acks", "all"), ("delivery.report.only.error", "false")];

/// `init` looks up so often whether it is hopeless: wrong credentials are told beside its answer.
const LOOK_UP: Duration = Duration::from_millis(500);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);
/// Reports follow the answers that they report.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// A producer of a Kafka cluster.
pub(crate) struct KafkaProducer {
    settings: Arc<KafkaSettings>,
    transactional_id: Option<String>,
    transaction_timeout: Duration,
    /// In the order of their numbers.
    names: Vec<String>,
    numbers: BTreeMap<String, TopicId>,
    state: State,
    /// `None` only where a new one could not be made.
    live: Option<Live>,
    delivered: Vec<Delivered>,
    failed: Vec<Failure>,
}

/// Where a producer is in the life of its transactions.
#[derive(Debug)]
enum State {
    /// Without a transactional id there are none.
    Plain,
    /// It does not hold its id yet.
    New,
    /// No transaction is open.
    Ready,
    /// A transaction is open.
    Open,
    /// A transaction has to be aborted first.
    Aborting,
    /// The former transaction is aborted, and its handle of no more use; the new one does not hold the id yet.
    Reviving,
    /// Nothing but `init` helps: the outcome of a commit is not known.
    InDoubt,
    /// Nothing but `init` helps: fenced, or worse.
    Dead(Error),
}

/// A handle of librdkafka and what belongs to it.
struct Live {
    is_transactional: bool,
    /// By number; `None`: librdkafka does not take the name.
    topics: Vec<Option<Topic>>,
    /// How many records it has taken.
    sent: u64,
    /// Dropped before the writer: its thread holds the writer's queue.
    reports: Reports,
    writer: Writer,
}

/// Why a call of a transaction came to an end without success.
enum Stop {
    /// Time is over; the same call could be made again.
    Late(ffi::Failure),
    /// The transaction cannot be committed.
    Abort(ffi::Failure),
    /// The handle is of no use.
    Dead(Error),
}

impl KafkaProducer {
    /// Makes the client; it connects when it is used first.
    pub(crate) fn new(settings: &Arc<KafkaSettings>, options: &ProducerOptions<'_>) -> Result<Self> {
        let mut this = Self {
            settings: settings.clone(),
            transactional_id: options.transactional_id.map(str::to_owned),
            transaction_timeout: options.transaction_timeout,
            names: Vec::new(),
            numbers: BTreeMap::new(),
            state: if options.transactional_id.is_some() { State::New } else { State::Plain },
            live: None,
            delivered: Vec::new(),
            failed: Vec::new(),
        };
        this.live = Some(this.connect()?);
        Ok(this)
    }

    /// A new handle, with all topics.
    fn connect(&self) -> Result<Live> {
        let mut conf = Conf::new();
        conf.set_all(TUNED)?;
        conf.set_all(self.settings.client(Client::Producer))?;
        conf.set_all(FIXED)?;
        if let Some(id) = &self.transactional_id {
            conf.set("transactional.id", id)?;
            conf.set("transaction.timeout.ms", &self.transaction_timeout.as_millis().to_string())?;
        }
        let (writer, events) = Writer::new(conf)?;
        let topics = (0..).zip(&self.names).map(|(number, name)| writer.topic(name, number)).collect();
        let reports = Reports::start(events)?;
        if self.transactional_id.is_none() {
            reports.ledger().isolate();
        }
        Ok(Live { is_transactional: self.transactional_id.is_some(), topics, sent: 0, reports, writer })
    }

    fn live(&self, op: &'static str) -> Result<&Live> {
        self.live.as_ref().ok_or_else(|| Error::new(ErrorKind::Fatal, op).with("reason", "no client could be made"))
    }

    /// What may not be done in this state, as an error.
    fn wrong(&self, op: &'static str) -> Error {
        let wrong = |kind, reason| Error::new(kind, op).with("reason", reason);
        match &self.state {
            State::Plain => wrong(ErrorKind::Fatal, "the producer has no transactional id"),
            State::New => wrong(ErrorKind::Fatal, "the producer is not initialised"),
            State::InDoubt => wrong(ErrorKind::Fatal, "a commit's outcome is unknown: initialise, then ask"),
            State::Aborting | State::Reviving => {
                wrong(ErrorKind::Abortable, "the former transaction is not aborted yet")
            }
            State::Dead(error) => error.clone(),
            State::Ready | State::Open => wrong(ErrorKind::Fatal, "out of turn"),
        }
    }

    /// The client is of no use any more.
    fn die(&mut self, op: &'static str, failure: &ffi::Failure) -> Error {
        let error = fatal(op, failure);
        self.state = State::Dead(error.clone());
        error
    }

    /// Whether a record may go out now; begins a transaction if that is what it takes.
    fn admit(&mut self) -> Result<()> {
        match &self.state {
            State::Plain | State::Open => Ok(()),
            State::Ready => self.begin(),
            _ => Err(self.wrong(SEND)),
        }
    }

    fn begin(&mut self) -> Result<()> {
        match self.live(BEGIN)?.writer.begin() {
            Ok(()) => {
                self.state = State::Open;
                Ok(())
            }
            Err(failure) if failure.fatal => Err(self.die(BEGIN, &failure)),
            Err(failure) => Err(error::of_client(BEGIN, failure.code, &failure.text)),
        }
    }

    /// What librdkafka's refusal of a record means.
    #[cold]
    fn refused(&mut self, record: &Outgoing<'_>, code: i32) -> Error {
        let fatal = self.live.as_ref().and_then(|live| live.writer.fatal());
        if let Some(failure) = fatal {
            return self.die(SEND, &failure);
        }
        let error = match code {
            // A record before this one has failed, so the transaction has.
            code::STATE => {
                let first = self.live.as_ref().and_then(|live| live.reports.ledger().failed().first().cloned());
                let error = Error::new(ErrorKind::Abortable, SEND).with("reason", "the transaction has failed");
                first.map_or_else(|| error.clone(), |first| error.clone().caused_by(first.error))
            }
            _ => error::of_client(SEND, code, &ffi::Failure::text_of(code)),
        };
        let topic = self.names.get(record.topic.0 as usize).map_or("", String::as_str);
        error.with("topic", topic).with("partition", record.partition)
    }

    /// Waits for the answers to all records, and for their reports; then what is fatal is known.
    fn settle(&mut self, op: &'static str, deadline: &Deadline) -> Result<usize> {
        let live = self.live(op)?;
        live.writer.flush(deadline.left());
        live.resend(deadline);
        let ledger = live.reports.await_answers(live.sent, deadline);
        let outstanding = ledger.outstanding(live.sent);
        let hopeless = ledger.hopeless().filter(|_| outstanding > 0).cloned();
        drop(ledger);
        if let Some(failure) = live.writer.fatal() {
            return Err(self.die(op, &failure));
        }
        hopeless.map_or(Ok(outstanding), Err)
    }

    /// Makes a call of a transaction until it ends; repeats what is retriable until the deadline.
    fn repeat(
        &self,
        op: &'static str,
        deadline: &Deadline,
        call: impl Fn(&Writer, Duration) -> ffi::Outcome,
    ) -> std::result::Result<(), Stop> {
        let live = self.live(op).map_err(Stop::Dead)?;
        loop {
            match call(&live.writer, deadline.left()) {
                Ok(()) => return Ok(()),
                Err(f) if f.fatal => return Err(Stop::Dead(fatal(op, &f))),
                Err(f) if f.abortable => return Err(Stop::Abort(f)),
                Err(f) if f.retriable && !deadline.is_over() => live.reports.pause(PAUSE),
                Err(f) if f.retriable => return Err(Stop::Late(f)),
                Err(f) => return Err(Stop::Abort(f)),
            }
        }
    }

    /// A transaction is over: a new one may begin, and reports count anew.
    fn conclude(&mut self) {
        self.state = State::Ready;
        if let Some(live) = &self.live {
            let mut ledger = live.reports.await_answers(live.sent, &Deadline::after(STRAGGLERS));
            ledger.clear();
        }
    }

    /// The commit, up to anything but success.
    fn try_commit(
        &mut self,
        member: &Member,
        offsets: &[GroupOffset<'_>],
        deadline: &Deadline,
    ) -> std::result::Result<(), CommitOutcome> {
        match &self.state {
            State::Open => {}
            State::Ready if offsets.is_empty() => return Ok(()),
            State::Ready => self.begin().map_err(sorted)?,
            State::InDoubt => return Err(CommitOutcome::Unknown(self.wrong(COMMIT))),
            State::Plain | State::New | State::Aborting | State::Reviving | State::Dead(_) => {
                return Err(sorted(self.wrong(COMMIT)));
            }
        }
        if self.settle(COMMIT, deadline).map_err(sorted)? > 0 {
            return Err(self.doubt(Error::new(ErrorKind::Retriable, COMMIT).with("reason", "records have no answer")));
        }
        let failed = self.live.as_ref().and_then(|live| live.reports.ledger().failed().first().cloned());
        if let Some(failure) = failed {
            return Err(self.retreat(failure.error, deadline));
        }
        if !offsets.is_empty() {
            let (Some(list), Some(membership)) = (list_of(offsets), Membership::new(member)) else {
                let error = Error::new(ErrorKind::Fatal, OFFSETS).with("reason", "a name has a zero byte");
                return Err(self.retreat(error, deadline));
            };
            let sent = self.repeat(OFFSETS, deadline, |w, wait| w.send_offsets(&list, &membership, wait));
            sent.map_err(|stop| self.stopped(OFFSETS, stop, deadline))?;
        }
        let before = self.losses();
        let committed = self.repeat(COMMIT, deadline, Writer::commit);
        committed.map_err(|stop| match stop {
            // The answer to an earlier try may have been lost with its connection, and that try may have committed.
            Stop::Dead(error) if self.losses() != before => self.doubt(error),
            stop => self.stopped(COMMIT, stop, deadline),
        })
    }

    /// How a commit ends that was stopped.
    fn stopped(&mut self, op: &'static str, stop: Stop, deadline: &Deadline) -> CommitOutcome {
        match stop {
            Stop::Late(f) => self.doubt(error::of_client(op, f.code, &f.text)),
            Stop::Abort(f) => self.retreat(error::of_client(op, f.code, &f.text), deadline),
            Stop::Dead(error) => {
                self.state = State::Dead(error.clone());
                sorted(error)
            }
        }
    }

    /// The transaction cannot be committed: it is aborted because of `why`.
    fn retreat(&mut self, why: Error, deadline: &Deadline) -> CommitOutcome {
        match self.try_abort(deadline) {
            Ok(()) => sorted(why),
            Err(error) if matches!(self.state, State::Dead(_)) => sorted(error),
            Err(error) => self.doubt(error),
        }
    }

    fn doubt(&mut self, error: Error) -> CommitOutcome {
        self.state = State::InDoubt;
        CommitOutcome::Unknown(error)
    }

    fn try_abort(&mut self, deadline: &Deadline) -> Result<()> {
        if !matches!(self.state, State::Reviving) {
            self.state = State::Aborting;
            self.repeat(ABORT, deadline, Writer::abort).map_err(|stop| match stop {
                Stop::Dead(error) => {
                    self.state = State::Dead(error.clone());
                    error
                }
                Stop::Late(f) | Stop::Abort(f) => error::of_client(ABORT, f.code, &f.text),
            })?;
        }
        // After a refused record the client's next batch would be out of order, and its transaction in vain.
        if self.live.as_ref().is_some_and(|live| live.reports.ledger().is_tainted()) {
            self.replace()?;
        }
        if matches!(self.state, State::Reviving) {
            return self.take_id(deadline);
        }
        self.conclude();
        Ok(())
    }

    /// A new handle in place of the old one.
    fn replace(&mut self) -> Result<()> {
        // The former one first: the two would fence each other.
        self.live = None;
        self.state = State::Reviving;
        self.live = Some(self.connect()?);
        Ok(())
    }

    /// Fences former holders of the id, until the deadline.
    fn take_id(&mut self, deadline: &Deadline) -> Result<()> {
        loop {
            let live = self.live(INIT)?;
            let Err(failure) = live.writer.init(deadline.left().min(LOOK_UP)) else {
                self.state = State::Ready;
                return Ok(());
            };
            if let Some(hopeless) = live.reports.ledger().hopeless() {
                return Err(hopeless.clone());
            }
            if failure.fatal {
                return Err(self.die(INIT, &failure));
            }
            let error = error::of_client(INIT, failure.code, &failure.text);
            if error.kind() != ErrorKind::Retriable || deadline.is_over() {
                return Err(error);
            }
            live.reports.pause(PAUSE);
        }
    }

    fn losses(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.reports.ledger().losses())
    }
}

const SEND: &str = "send a record";
const BEGIN: &str = "begin a transaction";
const COMMIT: &str = "commit a transaction";
const OFFSETS: &str = "add offsets to a transaction";
const ABORT: &str = "abort a transaction";
const INIT: &str = "initialise a transactional producer";
const FLUSH: &str = "flush";

impl Producer for KafkaProducer {
    fn topic(&mut self, name: &str) -> TopicId {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).expect("memory ends before");
        if let Some(live) = &mut self.live {
            live.topics.push(live.writer.topic(name, number));
        }
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), TopicId(number));
        TopicId(number)
    }

    #[inline]
    fn send(&mut self, record: &Outgoing<'_>) -> Result<Sent> {
        if !matches!(self.state, State::Plain | State::Open) {
            self.admit()?;
        }
        let Some(live) = &mut self.live else { return Err(self.wrong(SEND)) };
        let Some(Some(topic)) = live.topics.get(record.topic.0 as usize) else {
            return Err(Error::new(ErrorKind::UnknownTopic, SEND).with("topic", record.topic.0));
        };
        let produce = Produce {
            partition: record.partition,
            // librdkafka takes 0 for "now": the moment after it is nearer to what was meant.
            timestamp: if record.timestamp == 0 { 1 } else { record.timestamp },
            key: record.key,
            value: record.value,
            headers: record.headers,
            tag: record.tag,
        };
        match live.writer.produce(topic, &produce) {
            code::NONE => {
                live.sent += 1;
                Ok(Sent::Queued)
            }
            code::QUEUE_FULL => Ok(Sent::Full),
            code => Err(self.refused(record, code)),
        }
    }

    fn flush(&mut self, max_wait: Duration) -> Result<Flushed<'_>> {
        if let State::Dead(error) = &self.state {
            return Err(error.clone());
        }
        let outstanding = self.settle(FLUSH, &Deadline::after(max_wait))?;
        let plain = matches!(self.state, State::Plain);
        let live = self.live.as_ref().ok_or_else(|| self.wrong(FLUSH))?;
        let mut ledger = live.reports.ledger();
        self.delivered.clear();
        self.delivered.extend_from_slice(ledger.delivered());
        self.failed.clear();
        self.failed.extend_from_slice(ledger.failed());
        if plain && outstanding == 0 {
            ledger.clear();
        }
        drop(ledger);
        Ok(Flushed { outstanding, delivered: &self.delivered, failed: &self.failed })
    }

    fn init(&mut self, max_wait: Duration) -> Result<()> {
        match self.state {
            _ if self.transactional_id.is_none() => return Err(self.wrong(INIT)),
            State::New if self.live.is_some() => {}
            _ => {
                self.replace()?;
                self.state = State::New;
            }
        }
        self.take_id(&Deadline::after(max_wait))
    }

    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome {
        match self.try_commit(member, offsets, &Deadline::after(max_wait)) {
            Ok(()) => {
                self.conclude();
                CommitOutcome::Committed
            }
            Err(outcome) => outcome,
        }
    }

    fn abort(&mut self, max_wait: Duration) -> Result<()> {
        match self.state {
            State::New | State::Ready => Ok(()),
            State::Open | State::Aborting | State::Reviving => self.try_abort(&Deadline::after(max_wait)),
            State::Plain | State::InDoubt | State::Dead(_) => Err(self.wrong(ABORT)),
        }
    }
}

impl Drop for KafkaProducer {
    /// What has no answer yet is given up: who wants it written flushes.
    fn drop(&mut self) {
        self.live = None;
    }
}

impl Live {
    /// Sends again what shared a batch with a record that was refused: a broker refuses whole batches, and the others are
    /// not to blame. Each goes alone, so that it is clear what a refusal is of.
    fn resend(&self, deadline: &Deadline) {
        drop(self.reports.await_answers(self.sent, deadline));
        let mut suspects = self.reports.ledger().take_suspects().into_iter();
        while !deadline.is_over()
            && let Some(record) = suspects.next()
        {
            let headers: Vec<_> =
                record.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect();
            let produce = Produce {
                partition: record.partition,
                timestamp: record.timestamp,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &headers,
                tag: record.tag,
            };
            let Some(Some(topic)) = self.topics.get(record.topic as usize) else { continue };
            if self.writer.produce(topic, &produce) != code::NONE {
                self.reports.ledger().put_back([record]);
                break;
            }
            self.writer.flush(deadline.left());
            drop(self.reports.await_answers(self.sent - suspects.len() as u64, deadline));
        }
        let mut ledger = self.reports.ledger();
        ledger.put_back(suspects);
        if !self.is_transactional {
            ledger.isolate();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.writer.purge();
    }
}

impl std::fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaProducer")
            .field("transactional_id", &self.transactional_id)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// The error of a handle that is of no use any more. What the table takes for passing has not passed.
fn fatal(op: &'static str, failure: &ffi::Failure) -> Error {
    let error = error::of_client(op, failure.code, &failure.text);
    match error.kind() {
        ErrorKind::ProducerFenced | ErrorKind::Fatal => error,
        _ => Error::new(ErrorKind::Fatal, op).caused_by(error),
    }
}

/// What an error makes of a commit of which nothing is visible.
fn sorted(error: Error) -> CommitOutcome {
    match error.kind() {
        ErrorKind::MembershipLost | ErrorKind::ProducerFenced => CommitOutcome::Fenced(error),
        _ => CommitOutcome::Aborted(error),
    }
}

fn list_of(offsets: &[GroupOffset<'_>]) -> Option<Partitions> {
    let mut list = Partitions::new(offsets.len());
    for o in offsets {
        list.push_commit(o.topic, o.partition, o.next, o.leader_epoch, o.metadata)?;
    }
    Some(list)
}
