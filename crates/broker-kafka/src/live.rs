//! A producer's handle of librdkafka, with its topics and its reports: what lives from one `init` to the next.

use std::sync::mpsc::channel;
use std::time::Duration;

use millpond_broker_api::{Error, ErrorKind, Header, Outgoing, Result};

use crate::deadline::Deadline;
use crate::error;
use crate::ffi::{self, Conf, Produce, Topic, Writer, code};
use crate::memory;
use crate::reports::{Ledger, Reports};
use crate::settings::{Client, KafkaSettings};

/// May be overridden by the user's settings.
const TUNED: [(&str, &str); 4] = [
    ("linger.ms", "5"),
    // Right after a commit the coordinator is busy for a moment: the default waits 100 ms before it asks again.
    ("retry.backoff.ms", "5"),
    ("reconnect.backoff.max.ms", "1000"),
    // How long a topic that is not there may still be on its way.
    ("topic.metadata.propagation.max.ms", "5000"),
];

/// What this producer is.
const FIXED: [(&str, &str); 4] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("delivery.report.only.error", "false"),
    // A topic that was deleted is not made anew behind the application's back, with the broker's defaults.
    ("allow.auto.create.topics", "false"),
];

/// `init` looks up so often whether it is hopeless: wrong credentials are told beside its answer.
const LOOK_UP: Duration = Duration::from_millis(500);
/// One call waits so long; what is retriable is repeated.
const SLICE: Duration = Duration::from_secs(5);
/// A call that takes longer than it was given, by this, is not waited for.
const GRACE: Duration = Duration::from_secs(5);
/// Without transactions nobody says how many records are written again before a refused one comes up: more than most intervals
/// between two commits have.
const INTERVAL: u64 = 5_000_000;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// A handle of librdkafka and what belongs to it.
pub(crate) struct Live {
    is_transactional: bool,
    batching: Batching,
    /// By number; `None`: librdkafka does not take the name.
    topics: Vec<Option<Topic>>,
    /// How many records it has taken.
    sent: u64,
    /// How many there were when the present span began.
    span_began: u64,
    reports: Reports,
    writer: Writer,
}

/// Why something came to an end without success.
pub(crate) enum Stop {
    /// Time is over; the same could be tried again.
    Late(Error),
    /// The transaction cannot be committed.
    Abort(Error),
    /// The handle is of no use any more.
    Dead(Error),
    /// librdkafka does not come back from a call: nothing is known, and the handle is of no use any more.
    Stuck(Error),
}

impl Stop {
    /// The same with a fact more.
    pub(crate) fn with(self, key: &'static str, value: &str) -> Self {
        match self {
            Self::Late(error) => Self::Late(error.with(key, value)),
            Self::Abort(error) => Self::Abort(error.with(key, value)),
            Self::Dead(error) => Self::Dead(error.with(key, value)),
            Self::Stuck(error) => Self::Stuck(error.with(key, value)),
        }
    }
}

/// Success, or why not.
pub(crate) type Ending<T> = std::result::Result<T, Stop>;

/// A transactional id, and how long its transactions may be open.
pub(crate) type Identity<'a> = (&'a str, Duration);

/// How many records travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batching {
    /// As many as there are.
    Many,
    /// Each alone, so that it is clear which one a broker refuses. Slow, so for so many records only.
    Single(u64),
}

impl Live {
    /// Makes a client; it connects when it is used first.
    pub(crate) fn new(
        settings: &KafkaSettings,
        memory: Option<u64>,
        identity: Option<Identity<'_>>,
        batching: Batching,
    ) -> Result<Self> {
        let user = settings.client(Client::Producer);
        let mut conf = Conf::new();
        conf.set_all(TUNED)?;
        for (name, value) in memory::of_producer(memory, &user) {
            conf.set(name, &value)?;
        }
        conf.set_all(user)?;
        conf.set_all(FIXED)?;
        if let Some((id, timeout)) = identity {
            conf.set("transactional.id", id)?;
            conf.set("transaction.timeout.ms", &timeout.as_millis().to_string())?;
        }
        if let Batching::Single(records) = batching {
            tracing::warn!(
                records,
                "each record is sent alone for a while: one of a batch was refused, and is looked for"
            );
            conf.set("batch.num.messages", "1")?;
        }
        let (writer, events) = Writer::new(conf)?;
        let reports = Reports::start(events)?;
        if identity.is_none() {
            reports.ledger().isolate();
        }
        let is_transactional = identity.is_some();
        Ok(Self { is_transactional, batching, topics: Vec::new(), sent: 0, span_began: 0, reports, writer })
    }

    /// Gives the next number to a topic.
    pub(crate) fn add_topic(&mut self, name: &str) {
        let number = u32::try_from(self.topics.len()).expect("memory ends before");
        self.topics.push(self.writer.topic(name, number));
    }

    /// Takes a copy of a record; the answer is librdkafka's code.
    #[inline]
    pub(crate) fn send(&mut self, record: &Outgoing<'_>) -> i32 {
        let Some(Some(topic)) = self.topics.get(record.topic.0 as usize) else { return code::UNKNOWN_TOPIC };
        let produce = Produce {
            partition: record.partition,
            // librdkafka takes 0 for "now": the moment after it is nearer to what was meant.
            timestamp: if record.timestamp == 0 { 1 } else { record.timestamp },
            key: record.key,
            value: record.value,
            headers: record.headers,
            tag: record.tag,
        };
        let answer = self.writer.produce(topic, &produce);
        self.sent += u64::from(answer == code::NONE);
        answer
    }

    /// What became of the records so far.
    pub(crate) fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.reports.ledger()
    }

    /// What librdkafka has given the open transaction up for, if it has. The records that it purges then do not say.
    pub(crate) fn given_up(&self, op: &'static str) -> Option<Error> {
        // The state is told by what it does not allow: a second beginning.
        let failure = self.writer.begin().err().filter(|failure| failure.abortable)?;
        let why = error::of_client(op, failure.code, &failure.text);
        match why.kind() {
            ErrorKind::Fatal | ErrorKind::UnknownTopic => Some(why),
            _ => Some(Error::new(ErrorKind::Abortable, op).with("reason", "the transaction has failed").caused_by(why)),
        }
    }

    /// What made the handle useless, if anything.
    pub(crate) fn fatal(&self, op: &'static str) -> Option<Error> {
        self.writer.fatal().map(|failure| fatal(op, &failure))
    }

    /// Waits for the answers to all records, and for their reports; how many have none. Then what is fatal is known.
    pub(crate) fn settle(&self, op: &'static str, deadline: &Deadline) -> Ending<usize> {
        self.writer.flush(deadline.left());
        self.resend(deadline);
        let ledger = self.reports.await_answers(self.sent, deadline);
        let outstanding = ledger.outstanding(self.sent);
        let hopeless = ledger.hopeless().filter(|_| outstanding > 0).cloned();
        drop(ledger);
        match self.fatal(op) {
            Some(error) => Err(Stop::Dead(error)),
            None => hopeless.map_or(Ok(outstanding), |error| Err(Stop::Late(error))),
        }
    }

    /// Waits for reports that follow their answers, and begins a new span.
    pub(crate) fn begin_anew(&mut self, deadline: &Deadline) {
        self.reports.await_answers(self.sent, deadline).clear();
        self.span_began = self.sent;
    }

    /// How another handle should send that takes this one's place, if one is to. What was refused and not named is looked for
    /// among as many records as the transaction has, or an interval may have, and no longer.
    pub(crate) fn next_batching(&self) -> Option<Batching> {
        let ledger = self.ledger();
        let (is_over, is_search) = match self.batching {
            Batching::Single(records) => (self.sent >= records, true),
            Batching::Many => (false, false),
        };
        if ledger.is_ambiguous() {
            let span = if self.is_transactional { self.sent - self.span_began } else { INTERVAL };
            return Some(Batching::Single(span));
        }
        // After a refused record the client's next batch would be out of order: no matter without transactions.
        let is_spent = ledger.is_tainted() && (self.is_transactional || is_search);
        (is_over || is_spent).then_some(Batching::Many)
    }

    /// How this one sends.
    pub(crate) fn batching(&self) -> Batching {
        self.batching
    }

    /// Begins a transaction, without a round trip.
    pub(crate) fn begin(&self, op: &'static str) -> Ending<()> {
        self.writer.begin().map_err(|failure| ended(op, &failure))
    }

    /// Fences former holders of the id.
    pub(crate) fn take_id(&self, op: &'static str, deadline: &Deadline) -> Ending<()> {
        loop {
            let answer = self.patiently(op, deadline.left().min(LOOK_UP), Writer::init)?;
            let Err(failure) = answer else { return Ok(()) };
            // First: the client also complains of it, in words that say less.
            if failure.fatal {
                return Err(ended(op, &failure));
            }
            if let Some(hopeless) = self.ledger().hopeless() {
                return Err(Stop::Late(hopeless.clone()));
            }
            let error = error::of_client(op, failure.code, &failure.text);
            if error.kind() != ErrorKind::Retriable || deadline.is_over() {
                return Err(Stop::Late(error));
            }
            self.reports.pause(PAUSE);
        }
    }

    /// Makes a call of a transaction until it ends; repeats what is retriable until the deadline.
    pub(crate) fn repeat(
        &self,
        op: &'static str,
        deadline: &Deadline,
        call: impl Fn(&Writer, Duration) -> ffi::Outcome + Clone + Send + 'static,
    ) -> Ending<()> {
        loop {
            match self.patiently(op, deadline.left().min(SLICE), call.clone())? {
                Ok(()) => return Ok(()),
                Err(f) if f.retriable && !f.fatal && !f.abortable && !deadline.is_over() => self.reports.pause(PAUSE),
                Err(f) => return Err(ended(op, &f)),
            }
        }
    }

    /// Makes a call that is given so much time. Now and then librdkafka does not come back from one at all: the broker was
    /// started again while it waited for an answer to offsets of a transaction, and the end of that wait got lost. So it is
    /// made on a thread of its own, which keeps the handle for itself if that happens.
    fn patiently(
        &self,
        op: &'static str,
        time: Duration,
        call: impl FnOnce(&Writer, Duration) -> ffi::Outcome + Send + 'static,
    ) -> Ending<ffi::Outcome> {
        self.await_answer(op, time, GRACE, call)
    }

    fn await_answer(
        &self,
        op: &'static str,
        time: Duration,
        grace: Duration,
        call: impl FnOnce(&Writer, Duration) -> ffi::Outcome + Send + 'static,
    ) -> Ending<ffi::Outcome> {
        let (answer, answered) = channel();
        let writer = self.writer.clone();
        let run = move || {
            let outcome = call(&writer, time);
            drop(writer);
            // Nobody listens any more when it comes too late.
            let _late = answer.send(outcome);
        };
        let failed = |e| Stop::Late(Error::new(ErrorKind::Retriable, op).caused_by(e));
        std::thread::Builder::new().name("millpond-txn".to_owned()).spawn(run).map_err(failed)?;
        answered.recv_timeout(time + grace).map_err(|_| {
            tracing::error!(op, "librdkafka does not come back from a call; its producer is replaced");
            let error = Error::new(ErrorKind::ProducerFenced, op);
            Stop::Stuck(error.with("reason", "the client does not come back from a call"))
        })
    }

    /// Sends again what shared a batch with a record that was refused: a broker refuses whole batches, and the others are
    /// not to blame. Each goes alone, so that it is clear what a refusal is of.
    fn resend(&self, deadline: &Deadline) {
        let mut ledger = self.reports.await_answers(self.sent, deadline);
        if deadline.is_over() || ledger.is_waited_for(self.sent) {
            // What has no answer yet may overtake them. There will be another time.
            return;
        }
        let mut suspects = ledger.take_suspects().into_iter();
        drop(ledger);
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
            if self.ledger().fail_overtaken(&record) {
                continue;
            }
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
    /// What has no answer yet is given up: who wants it written flushes.
    fn drop(&mut self) {
        self.writer.purge();
    }
}

/// How a call has ended that failed. What is said without a flag is a call out of turn, and the transaction is in vain.
fn ended(op: &'static str, failure: &ffi::Failure) -> Stop {
    let error = error::of_client(op, failure.code, &failure.text);
    match failure {
        f if f.fatal => Stop::Dead(fatal(op, failure)),
        f if f.retriable && !f.abortable => Stop::Late(error),
        // A call out of turn: of the transaction nothing comes, and the next one is as good as any.
        f if f.code == code::STATE => Stop::Abort(Error::new(ErrorKind::Abortable, op).caused_by(error)),
        _ => Stop::Abort(error),
    }
}

/// The error of a handle that is of no use any more: unless nothing helps at all, a new one does.
fn fatal(op: &'static str, failure: &ffi::Failure) -> Error {
    let error = error::of_client(op, failure.code, &failure.text);
    match error.kind() {
        ErrorKind::ProducerFenced | ErrorKind::Fatal => error,
        _ => Error::new(ErrorKind::ProducerFenced, op).caused_by(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_come_back_is_left_to_itself() {
        let live = Live::new(&KafkaSettings::new("127.0.0.1:1"), None, None, Batching::Many).unwrap();
        let (let_go, gone) = channel::<()>();
        let call = move |_: &Writer, _| {
            // Until the test is over: what librdkafka would do for ever.
            let _over = gone.recv();
            Ok(())
        };
        let answer = live.await_answer("wait", Duration::ZERO, Duration::from_millis(20), call);
        let Err(Stop::Stuck(error)) = answer else { panic!("it came back") };
        assert_eq!(error.kind(), ErrorKind::ProducerFenced);
        drop(live);
        drop(let_go);
    }
}
