//! The producer: idempotent by construction, transactional with an id; a commit answers with a value.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{
    CommitOutcome, Error, ErrorKind, Flushed, GroupOffset, Member, Outgoing, Producer, ProducerOptions, Result, Sent,
    TopicId,
};

use crate::buffer::Buffer;
use crate::faults::Op;
use crate::offsets::outcome;
use crate::state::{Effect, Shared, unanswered};
use crate::transactions::Session;

/// So many bytes are written without a flush.
const BATCH_BYTES: usize = 64 << 10;
/// The largest record that a client takes: librdkafka's `message.max.bytes`.
const MAX_RECORD_BYTES: usize = 1_000_000;

const SEND: &str = "send";
const INIT: &str = "init producer";
const COMMIT: &str = "commit transaction";
const ABORT: &str = "abort transaction";

pub(crate) struct MemProducer {
    shared: Arc<Shared>,
    transaction: Option<Transaction>,
    buffer: Buffer,
    /// All was reported: the next record begins a new report. Never with a transactional id.
    reported: bool,
}

/// The transactional side of a producer.
struct Transaction {
    id: Arc<str>,
    timeout: Duration,
    session: Session,
    phase: Phase,
}

/// Where a transactional producer believes to stand.
enum Phase {
    /// `init` comes first.
    New,
    /// Nothing was sent since the last transaction.
    Ready,
    /// A transaction is open.
    Open,
    /// A commit got no answer: `init` comes first.
    Unknown(Error),
    /// Another one holds the id, or the coordinator has aborted the transaction.
    Fenced(Error),
}

impl MemProducer {
    pub(crate) fn new(shared: Arc<Shared>, options: &ProducerOptions<'_>) -> Self {
        let session = Session { producer: 0, epoch: -1 };
        let timeout = options.transaction_timeout;
        let transaction =
            options.transactional_id.map(|id| Transaction { id: id.into(), timeout, session, phase: Phase::New });
        Self { shared, transaction, buffer: Buffer::default(), reported: false }
    }

    /// Begins a transaction at its first record or offset.
    fn begin(&mut self) -> Result<()> {
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        match &transaction.phase {
            Phase::Open => return Ok(()),
            Phase::Ready => {}
            Phase::New => return Err(Error::new(ErrorKind::Fatal, SEND).with("remedy", "call init first")),
            Phase::Unknown(error) => return Err(init_first(SEND, error)),
            Phase::Fenced(error) => return Err(error.clone()),
        }
        let mut state = self.shared.lock();
        // A fenced producer hears of it when it waits for an answer, as over a network.
        let _ = state.begin(SEND, &transaction.id, transaction.session, self.shared.now());
        transaction.phase = Phase::Open;
        drop(state);
        self.shared.notify();
        Ok(())
    }

    /// Writes all that waits.
    fn write(&mut self, max_wait: Duration) -> Result<()> {
        let transaction = self.transaction.as_ref().map(|t| (&*t.id, t.session));
        let written = self.buffer.write(&self.shared, transaction, max_wait);
        written.map_err(|error| self.fenced(error))
    }

    /// Remembers that this producer is fenced.
    fn fenced(&mut self, error: Error) -> Error {
        self.buffer.discard();
        if let Some(transaction) = &mut self.transaction {
            transaction.phase = Phase::Fenced(error.clone());
        }
        error
    }

    fn transaction(&mut self, op: &'static str) -> Result<&mut Transaction> {
        let without = || Error::new(ErrorKind::Fatal, op).with("remedy", "give the producer a transactional id");
        self.transaction.as_mut().ok_or_else(without)
    }

    /// Adds offsets to the transaction.
    fn add_offsets(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> Stage {
        if offsets.is_empty() {
            return Stage::Done;
        }
        if let Err(error) = self.begin() {
            return Stage::Failed(error);
        }
        let shared = self.shared.clone();
        let Some(transaction) = &self.transaction else { return Stage::Done };
        let (id, session) = (transaction.id.clone(), transaction.session);
        let op = Op::TxnOffsetCommit { transactional_id: &id, group: &member.group };
        let (mut state, effect) = shared.ask(shared.lock(), op, max_wait);
        match effect {
            Effect::Unheard => return Stage::Silence,
            Effect::Refused(kind) => return Stage::failed(Error::new(kind, COMMIT).with("group", &member.group)),
            Effect::Done | Effect::Unanswered => {}
        }
        let answer = state.commit_transaction_offsets(&id, session, member, offsets, shared.now());
        match (answer, effect) {
            (_, Effect::Unanswered) => Stage::Silence,
            (Ok(()), _) => Stage::Done,
            (Err(error), _) => Stage::Failed(error),
        }
    }

    /// Ends the transaction.
    fn end(&mut self, op: &'static str, commit: bool, max_wait: Duration) -> Stage {
        let shared = self.shared.clone();
        let Some(transaction) = &self.transaction else { return Stage::Done };
        let request = Op::EndTxn { transactional_id: &transaction.id, commit };
        let (mut state, effect) = shared.ask(shared.lock(), request, max_wait);
        match effect {
            Effect::Unheard => return Stage::Silence,
            Effect::Refused(kind) => return Stage::failed(Error::new(kind, op)),
            Effect::Done | Effect::Unanswered => {}
        }
        let held = state.transactions.held(op, &transaction.id, transaction.session).map(drop);
        if held.is_ok() {
            state.end(&transaction.id, commit, shared.now());
        }
        drop(state);
        shared.notify();
        match (held, effect) {
            (_, Effect::Unanswered) => Stage::Silence,
            (Ok(()), _) => Stage::Done,
            (Err(error), _) => Stage::Failed(error),
        }
    }

    /// What a commit comes to that did not succeed: its transaction is over here, unless its end is unknown.
    fn undone(&mut self, stage: Stage) -> CommitOutcome {
        let error = match stage {
            Stage::Failed(error) => error,
            Stage::Silence | Stage::Done => {
                let error = unanswered(COMMIT);
                self.buffer.discard();
                if let Some(transaction) = &mut self.transaction {
                    transaction.phase = Phase::Unknown(error.clone());
                }
                return CommitOutcome::Unknown(error);
            }
        };
        if error.kind() == ErrorKind::ProducerFenced {
            return CommitOutcome::Fenced(self.fenced(error));
        }
        self.buffer.discard();
        if let Some(transaction) = &mut self.transaction {
            let mut state = self.shared.lock();
            if state.transactions.held(COMMIT, &transaction.id, transaction.session).is_ok() {
                state.end(&transaction.id, false, self.shared.now());
            }
            transaction.phase = Phase::Ready;
        }
        self.shared.notify();
        outcome(error)
    }
}

/// How a part of a commit went.
enum Stage {
    Done,
    /// No answer came in time.
    Silence,
    Failed(Error),
}

impl Stage {
    /// What can be repeated is repeated until the time is over.
    fn failed(error: Error) -> Self {
        if error.kind() == ErrorKind::Retriable { Self::Silence } else { Self::Failed(error) }
    }
}

/// The error of a call that must not follow a commit without an answer.
fn init_first(op: &'static str, unknown: &Error) -> Error {
    Error::new(ErrorKind::Fatal, op)
        .with("remedy", "the last commit got no answer: call init first")
        .caused_by(unknown.clone())
}

impl Producer for MemProducer {
    fn topic(&mut self, name: &str) -> TopicId {
        self.buffer.topic(name)
    }

    #[inline]
    fn send(&mut self, record: &Outgoing<'_>) -> Result<Sent> {
        let headers = record.headers.iter().map(|h| h.name.len() + h.value.map_or(0, <[u8]>::len)).sum::<usize>();
        let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len) + headers;
        if bytes > MAX_RECORD_BYTES {
            return Err(too_large(bytes));
        }
        self.buffer.find(record.topic, record.partition, &self.shared)?;
        if !matches!(&self.transaction, None | Some(Transaction { phase: Phase::Open, .. })) {
            self.begin()?;
        }
        if self.buffer.bytes() >= BATCH_BYTES {
            // Who is fenced hears of it at the next flush or commit: this record is as lost as those before.
            if self.write(Duration::ZERO).is_ok() && self.buffer.bytes() >= self.shared.options.buffer_bytes {
                return Ok(Sent::Full);
            }
        }
        if self.reported {
            self.buffer.report.clear();
            self.reported = false;
        }
        self.buffer.push(record);
        Ok(Sent::Queued)
    }

    fn flush(&mut self, max_wait: Duration) -> Result<Flushed<'_>> {
        match self.transaction.as_ref().map(|t| &t.phase) {
            Some(Phase::Fenced(error)) => return Err(error.clone()),
            Some(Phase::Unknown(error)) => return Err(init_first("flush", error)),
            _ => {}
        }
        if self.reported {
            self.buffer.report.clear();
        }
        self.write(max_wait)?;
        let outstanding = self.buffer.outstanding();
        self.reported = self.transaction.is_none() && outstanding == 0;
        let report = &self.buffer.report;
        Ok(Flushed { outstanding, delivered: &report.delivered, failed: &report.failed })
    }

    fn init(&mut self, max_wait: Duration) -> Result<()> {
        let shared = self.shared.clone();
        let transaction = self.transaction(INIT)?;
        if let Phase::Fenced(error) = &transaction.phase {
            return Err(error.clone());
        }
        transaction.phase = Phase::New;
        let op = Op::InitProducerId { transactional_id: &transaction.id };
        let (mut state, effect) = shared.ask(shared.lock(), op, max_wait);
        match effect {
            Effect::Unheard => return Err(unanswered(INIT)),
            Effect::Refused(kind) => return Err(Error::new(kind, INIT)),
            Effect::Done | Effect::Unanswered => {}
        }
        let deadline = shared.now().saturating_add(max_wait);
        let session = loop {
            match state.init_producer(&transaction.id, transaction.timeout, shared.now()) {
                Ok(session) => break session,
                Err(_) if shared.waits() && shared.now() < deadline => state = shared.wait(state, deadline),
                Err(_) => {
                    let error = Error::new(ErrorKind::Retriable, INIT).with("transactional_id", &transaction.id);
                    return Err(error.with("code", "CONCURRENT_TRANSACTIONS"));
                }
            }
        };
        drop(state);
        shared.notify();
        if matches!(effect, Effect::Unanswered) {
            return Err(unanswered(INIT));
        }
        (transaction.session, transaction.phase) = (session, Phase::Ready);
        self.buffer.discard();
        Ok(())
    }

    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome {
        match self.transaction(COMMIT).map(|t| &t.phase) {
            Err(error) => return CommitOutcome::Aborted(error),
            Ok(Phase::New) => {
                let error = Error::new(ErrorKind::Fatal, COMMIT).with("remedy", "call init first");
                return CommitOutcome::Aborted(error);
            }
            Ok(Phase::Unknown(error)) => return CommitOutcome::Unknown(error.clone()),
            Ok(Phase::Fenced(error)) => return CommitOutcome::Fenced(error.clone()),
            Ok(Phase::Ready) if offsets.is_empty() => return CommitOutcome::Committed,
            Ok(Phase::Ready | Phase::Open) => {}
        }
        if let Err(error) = self.write(max_wait) {
            return CommitOutcome::Fenced(error);
        }
        if self.buffer.outstanding() > 0 {
            return self.undone(Stage::Silence);
        }
        if let Some(failure) = self.buffer.report.failed.first() {
            let error = Error::new(ErrorKind::Abortable, COMMIT).caused_by(failure.error.clone());
            return self.undone(Stage::Failed(error));
        }
        match self.add_offsets(member, offsets, max_wait) {
            Stage::Done => {}
            stage => return self.undone(stage),
        }
        match self.end(COMMIT, true, max_wait) {
            Stage::Done => {}
            stage => return self.undone(stage),
        }
        self.buffer.report.clear();
        if let Some(transaction) = &mut self.transaction {
            transaction.phase = Phase::Ready;
        }
        CommitOutcome::Committed
    }

    fn abort(&mut self, max_wait: Duration) -> Result<()> {
        match &self.transaction(ABORT)?.phase {
            Phase::New | Phase::Ready => return Ok(()),
            Phase::Unknown(error) => return Err(init_first(ABORT, error)),
            Phase::Fenced(error) => return Err(error.clone()),
            Phase::Open => self.buffer.discard(),
        }
        match self.end(ABORT, false, max_wait) {
            Stage::Done => {}
            Stage::Silence => return Err(unanswered(ABORT)),
            Stage::Failed(error) if error.kind() == ErrorKind::ProducerFenced => return Err(self.fenced(error)),
            Stage::Failed(error) => return Err(error),
        }
        self.transaction(ABORT)?.phase = Phase::Ready;
        Ok(())
    }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    Error::new(ErrorKind::Refused, SEND).with("bytes", bytes).with("message.max.bytes", MAX_RECORD_BYTES)
}
