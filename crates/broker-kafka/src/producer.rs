//! The producer: idempotent or transactional, over librdkafka.
//!
//! A handle of librdkafka takes part in one incarnation of a transactional id: what is fenced, or in doubt, is dropped,
//! and [`Producer::init`] makes another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millpond_broker_api::{
    CommitOutcome, Delivered, Error, ErrorKind, Failure, Flushed, GroupOffset, Member, Outgoing, Producer,
    ProducerOptions, Result, Sent, TopicId,
};

use crate::deadline::Deadline;
use crate::error;
use crate::ffi::{self, Membership, Partitions, Writer, code};
use crate::live::{Batching, Ending, Live, Stop};
use crate::settings::KafkaSettings;

/// How long a record waits for the id, where it could not be taken before.
const REVIVAL: Duration = Duration::from_secs(5);
/// Reports follow the answers that they report.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// A producer of a Kafka cluster.
pub(crate) struct KafkaProducer {
    settings: Arc<KafkaSettings>,
    transactional_id: Option<String>,
    transaction_timeout: Duration,
    /// What its queue may take, in bytes.
    memory: Option<u64>,
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

impl KafkaProducer {
    /// Makes the client; it connects when it is used first.
    pub(crate) fn new(settings: &Arc<KafkaSettings>, options: &ProducerOptions<'_>) -> Result<Self> {
        let mut this = Self {
            settings: settings.clone(),
            transactional_id: options.transactional_id.map(str::to_owned),
            transaction_timeout: options.transaction_timeout,
            memory: options.memory,
            names: Vec::new(),
            numbers: BTreeMap::new(),
            state: if options.transactional_id.is_some() { State::New } else { State::Plain },
            live: None,
            delivered: Vec::new(),
            failed: Vec::new(),
        };
        this.live = Some(this.connect(Batching::Many)?);
        Ok(this)
    }

    /// A new handle, with all topics.
    fn connect(&self, batching: Batching) -> Result<Live> {
        let identity = self.transactional_id.as_deref().map(|id| (id, self.transaction_timeout));
        let mut live = Live::new(&self.settings, self.memory, identity, batching)?;
        self.names.iter().for_each(|name| live.add_topic(name));
        Ok(live)
    }

    fn live(&self, op: &'static str) -> Ending<&Live> {
        let none = || Stop::Dead(Error::new(ErrorKind::Fatal, op).with("reason", "no client could be made"));
        self.live.as_ref().ok_or_else(none)
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

    /// The error that something stopped with; remembers what does not pass.
    fn told(&mut self, stop: Stop) -> Error {
        match stop {
            Stop::Late(error) | Stop::Abort(error) => error,
            Stop::Dead(error) | Stop::Stuck(error) => {
                self.state = State::Dead(error.clone());
                error
            }
        }
    }

    /// Whether a record may go out now; begins a transaction if that is what it takes.
    fn admit(&mut self) -> Result<()> {
        match &self.state {
            State::Plain | State::Open => Ok(()),
            State::Ready => self.begin(),
            State::Reviving => {
                self.take_id(&Deadline::after(REVIVAL))?;
                self.begin()
            }
            _ => Err(self.wrong(SEND)),
        }
    }

    fn begin(&mut self) -> Result<()> {
        self.live(BEGIN).and_then(|live| live.begin(BEGIN)).map_err(|stop| self.told(stop))?;
        self.state = State::Open;
        Ok(())
    }

    /// What librdkafka's refusal of a record means.
    #[cold]
    fn refused(&mut self, record: &Outgoing<'_>, code: i32) -> Error {
        if let Some(error) = self.live.as_ref().and_then(|live| live.fatal(SEND)) {
            return self.told(Stop::Dead(error));
        }
        let error = match code {
            code::STATE => return self.why_failed(),
            code::MSG_SIZE_TOO_LARGE => error::too_large_for_the_client(SEND),
            _ => error::of_client(SEND, code, &ffi::Failure::text_of(code)),
        };
        error.with("topic", self.name(record.topic)).with("partition", record.partition)
    }

    /// Why the transaction takes no more records: one of those before has failed, or all of them. What would be so again is
    /// told as what it is, not as something that an abort mends.
    fn why_failed(&self) -> Error {
        let failed = self.failures().into_iter().next().map(|failure| failure.error);
        let why = failed.or_else(|| self.live.as_ref().and_then(|live| live.given_up(SEND)));
        let error = Error::new(ErrorKind::Abortable, SEND).with("reason", "the transaction has failed");
        match why {
            Some(why) if matches!(why.kind(), ErrorKind::Fatal | ErrorKind::UnknownTopic | ErrorKind::Refused) => why,
            Some(why) => error.caused_by(why),
            None => error,
        }
    }

    /// The records that have failed so far, with the names of their topics, and with the reason where it was the whole
    /// transaction's.
    fn failures(&self) -> Vec<Failure> {
        let Some(live) = &self.live else { return Vec::new() };
        let mut failed = live.ledger().failed().to_vec();
        let purged: BTreeSet<&str> =
            failed.iter().filter(|f| error::is_purge(&f.error)).map(|f| self.name(f.topic)).collect();
        let given_up = if purged.is_empty() { None } else { live.given_up(SEND) };
        // Which of these topics it is the broker has said to librdkafka's log only.
        let given_up = given_up.map(|why| why.with("topics", Vec::from_iter(purged).join(",")));
        for failure in &mut failed {
            failure.error = match &given_up {
                Some(why) if error::is_purge(&failure.error) => why.clone(),
                _ => failure.error.clone().with("topic", self.name(failure.topic)),
            };
        }
        failed
    }

    fn name(&self, topic: TopicId) -> &str {
        self.names.get(topic.0 as usize).map_or("", String::as_str)
    }

    /// A transaction is over: a new one may begin, and reports count anew.
    fn conclude(&mut self) {
        self.state = State::Ready;
        if let Some(live) = &mut self.live {
            live.begin_anew(&Deadline::after(STRAGGLERS));
        }
    }

    /// A refused record was looked for long enough: the next transaction goes out in batches again. If the id cannot be taken
    /// now, that is tried again before the next transaction.
    fn end_search(&mut self, deadline: &Deadline) {
        if let Some(batching) = self.live.as_ref().and_then(Live::next_batching)
            && let Err(error) = self.replace(batching).and_then(|()| self.take_id(deadline))
        {
            tracing::warn!(%error, "the producer is made anew before its next transaction");
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
        let settled = self.live(COMMIT).and_then(|live| live.settle(COMMIT, deadline));
        if settled.map_err(|stop| sorted(self.told(stop)))? > 0 {
            return Err(self.doubt(Error::new(ErrorKind::Retriable, COMMIT).with("reason", "records have no answer")));
        }
        if let Some(failure) = self.failures().into_iter().next() {
            return Err(self.retreat(failure.error, deadline));
        }
        if !offsets.is_empty() {
            let (Some(list), Some(membership)) = (list_of(offsets), Membership::new(member)) else {
                let error = Error::new(ErrorKind::Fatal, OFFSETS).with("reason", "a name has a zero byte");
                return Err(self.retreat(error, deadline));
            };
            let lists = Arc::new(Mutex::new((list, membership)));
            let send = move |writer: &Writer, wait| {
                let lists = lists.lock().unwrap_or_else(PoisonError::into_inner);
                writer.send_offsets(&lists.0, &lists.1, wait)
            };
            let sent = self.live(OFFSETS).and_then(|live| live.repeat(OFFSETS, deadline, send));
            // The broker does not say which of them it was.
            let topics: BTreeSet<&str> = offsets.iter().map(|offset| offset.topic).collect();
            let topics = Vec::from_iter(topics).join(",");
            sent.map_err(|stop| self.stopped(stop.with("topics", &topics), deadline))?;
        }
        let before = self.losses();
        let committed = self.live(COMMIT).and_then(|live| live.repeat(COMMIT, deadline, Writer::commit));
        committed.map_err(|stop| match stop {
            // The answer to an earlier try may have been lost with its connection, and that try may have committed.
            Stop::Dead(error) if self.losses() != before => self.doubt(error),
            stop => self.stopped(stop, deadline),
        })
    }

    /// How a commit ends that was stopped.
    fn stopped(&mut self, stop: Stop, deadline: &Deadline) -> CommitOutcome {
        match stop {
            Stop::Late(error) | Stop::Stuck(error) => self.doubt(error),
            Stop::Abort(error) => self.retreat(error, deadline),
            dead @ Stop::Dead(_) => sorted(self.told(dead)),
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
            let aborted = self.live(ABORT).and_then(|live| live.repeat(ABORT, deadline, Writer::abort));
            aborted.map_err(|stop| self.told(stop))?;
        }
        // If it is not clear which record was refused, it will be when the transaction is done again.
        if let Some(batching) = self.live.as_ref().and_then(Live::next_batching) {
            self.replace(batching)?;
        }
        if matches!(self.state, State::Reviving) {
            return self.take_id(deadline);
        }
        self.conclude();
        Ok(())
    }

    /// A new handle in place of the old one.
    fn replace(&mut self, batching: Batching) -> Result<()> {
        // The former one first: the two would fence each other.
        self.live = None;
        if self.transactional_id.is_some() {
            self.state = State::Reviving;
        }
        self.live = Some(self.connect(batching)?);
        Ok(())
    }

    fn take_id(&mut self, deadline: &Deadline) -> Result<()> {
        self.live(INIT).and_then(|live| live.take_id(INIT, deadline)).map_err(|stop| self.told(stop))?;
        self.state = State::Ready;
        Ok(())
    }

    fn losses(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.ledger().losses())
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
            live.add_topic(name);
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
        match live.send(record) {
            code::NONE => Ok(Sent::Queued),
            code::QUEUE_FULL => Ok(Sent::Full),
            code => Err(self.refused(record, code)),
        }
    }

    fn flush(&mut self, max_wait: Duration) -> Result<Flushed<'_>> {
        if let State::Dead(error) = &self.state {
            return Err(error.clone());
        }
        let settled = self.live(FLUSH).and_then(|live| live.settle(FLUSH, &Deadline::after(max_wait)));
        let outstanding = settled.map_err(|stop| self.told(stop))?;
        self.failed = self.failures();
        let Some(live) = &mut self.live else { return Err(self.wrong(FLUSH)) };
        self.delivered.clear();
        self.delivered.extend_from_slice(live.ledger().delivered());
        if matches!(self.state, State::Plain) && outstanding == 0 {
            let next = live.next_batching();
            live.begin_anew(&Deadline::after(Duration::ZERO));
            // What is known now is told in any case.
            if let Some(batching) = next
                && let Err(error) = self.replace(batching)
            {
                self.state = State::Dead(error);
            }
        }
        Ok(Flushed { outstanding, delivered: &self.delivered, failed: &self.failed })
    }

    fn init(&mut self, max_wait: Duration) -> Result<()> {
        match self.state {
            _ if self.transactional_id.is_none() => return Err(self.wrong(INIT)),
            State::New if self.live.is_some() => {}
            _ => {
                let live = self.live.as_ref();
                self.replace(live.map_or(Batching::Many, |live| live.next_batching().unwrap_or(live.batching())))?;
                self.state = State::New;
            }
        }
        self.take_id(&Deadline::after(max_wait))
    }

    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome {
        let deadline = Deadline::after(max_wait);
        match self.try_commit(member, offsets, &deadline) {
            Ok(()) => {
                self.conclude();
                self.end_search(&deadline);
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

impl std::fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaProducer")
            .field("transactional_id", &self.transactional_id)
            .field("state", &self.state)
            .finish_non_exhaustive()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody listens on port 1, so nothing here comes to an answer.
    fn producer(options: &ProducerOptions<'_>) -> KafkaProducer {
        KafkaProducer::new(&Arc::new(KafkaSettings::new("127.0.0.1:1")), options).unwrap()
    }

    fn record(producer: &mut KafkaProducer) -> Outgoing<'static> {
        let topic = producer.topic("t");
        Outgoing { topic, partition: 0, timestamp: 1, key: None, value: Some(b"v"), headers: &[], tag: 0 }
    }

    #[test]
    fn a_topic_has_one_number() {
        let mut producer = producer(&ProducerOptions::default());
        let numbers = ["a", "b", "a", "zero\0byte"].map(|name| producer.topic(name).0);
        assert_eq!(numbers, [0, 1, 0, 2]);
        let bad = Outgoing { topic: TopicId(2), ..record(&mut producer) };
        let error = producer.send(&bad).unwrap_err().to_string();
        assert!(error.contains("zero\0byte"), "{error}");
    }

    #[test]
    fn without_a_broker_records_wait_for_their_answer() {
        let mut producer = producer(&ProducerOptions::default());
        let record = record(&mut producer);
        assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
        let flushed = producer.flush(Duration::from_millis(1)).unwrap();
        assert_eq!((flushed.outstanding, flushed.failed.len()), (1, 0));
    }

    #[test]
    fn a_producer_whose_memory_is_full_takes_no_more_unless_the_user_says_so() {
        let options = ProducerOptions { memory: Some(1200), ..ProducerOptions::default() };
        let answers = |mut producer: KafkaProducer| {
            let record = record(&mut producer);
            [(); 3].map(|()| producer.send(&record).unwrap())
        };
        assert_eq!(answers(producer(&options)), [Sent::Queued, Sent::Queued, Sent::Full]);
        let mut settings = KafkaSettings::new("127.0.0.1:1");
        settings.set("producer.queue.buffering.max.messages", "3").unwrap();
        let told = KafkaProducer::new(&Arc::new(settings), &options).unwrap();
        assert_eq!(answers(told), [Sent::Queued, Sent::Queued, Sent::Queued]);
    }

    #[test]
    fn without_a_broker_an_id_cannot_be_taken_yet() {
        let mut producer = producer(&ProducerOptions::transactional("id"));
        let record = record(&mut producer);
        assert!(producer.init(Duration::from_millis(20)).is_err());
        assert_eq!(producer.send(&record).unwrap_err().kind(), ErrorKind::Fatal, "not initialised");
        assert!(producer.abort(Duration::ZERO).is_ok(), "nothing is open");
    }

    #[test]
    fn a_timeout_that_the_client_cannot_keep_is_refused() {
        let mut settings = KafkaSettings::new("127.0.0.1:1");
        settings.set("producer.message.timeout.ms", "60000").unwrap();
        let error = KafkaProducer::new(&Arc::new(settings), &ProducerOptions::transactional("id")).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Fatal);
        assert!(error.to_string().contains("message.timeout.ms"), "{error}");
    }
}
