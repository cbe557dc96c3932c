//! All that the broker knows, behind one lock, and what happens in it by the clock.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond_broker_api::membership::code;
use millpond_broker_api::{Clock, Error, ErrorKind, GroupOffset, Member, Offset, Result, SystemClock};

use crate::broker::Options;
use crate::clock::ManualClock;
use crate::faults::{Op, Plan, Verdict};
use crate::groups::Groups;
use crate::link::Links;
#[cfg(doc)]
use crate::log::Log;
use crate::offsets::refusal;
use crate::segment::Segment;
use crate::topics::{LogId, Topics};
use crate::transactions::{Phase, Session, Transactions};

/// The clock of a broker.
pub(crate) enum Time {
    System(SystemClock),
    Manual(ManualClock),
}

impl Time {
    pub(crate) fn clock(&self) -> &dyn Clock {
        match self {
            Self::System(clock) => clock,
            Self::Manual(clock) => clock,
        }
    }
}

/// What all clients share.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) time: Time,
    pub(crate) options: Options,
}

pub(crate) type Guard<'a> = MutexGuard<'a, State>;

/// What becomes of a request, once the faults have had their say.
pub(crate) enum Effect {
    /// It takes effect, the answer arrives.
    Done,
    /// It does not take effect, no answer arrives.
    Unheard,
    /// It takes effect, no answer arrives.
    Unanswered,
    /// The answer is an error.
    Refused(ErrorKind),
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        let time = match &options.clock {
            Some(clock) => Time::Manual(clock.clone()),
            None => Time::System(SystemClock::new()),
        };
        let state = State::new(options.clone());
        Self { state: Mutex::new(state), changed: Condvar::new(), time, options }
    }

    pub(crate) fn now(&self) -> Duration {
        self.time.clock().now()
    }

    /// The state, with all done that fell due by now.
    pub(crate) fn lock(&self) -> Guard<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.tick(self.now()) {
            self.notify();
        }
        state
    }

    /// Wakes all who wait; to be called after each change that somebody may wait for.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Wakes all who wait, also one who is about to.
    pub(crate) fn wake(&self) {
        drop(self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.notify();
    }

    /// False with a manual clock: then nothing ever waits.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.time, Time::System(_))
    }

    /// Waits for a change, at most until `deadline`; not at all with a manual clock.
    pub(crate) fn wait<'a>(&'a self, guard: Guard<'a>, deadline: Duration) -> Guard<'a> {
        let now = self.now();
        if !self.waits() || now >= deadline {
            return guard;
        }
        let until = guard.due.map_or(deadline, |due| due.min(deadline));
        let waited = self.changed.wait_timeout(guard, until.saturating_sub(now));
        let mut guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        if guard.tick(self.now()) {
            self.notify();
        }
        guard
    }

    /// Lets the time pass in which a caller waits for an answer that does not come.
    pub(crate) fn silence<'a>(&'a self, mut guard: Guard<'a>, max_wait: Duration) -> Guard<'a> {
        let deadline = self.now().saturating_add(max_wait);
        while self.waits() && self.now() < deadline {
            guard = self.wait(guard, deadline);
        }
        guard
    }

    /// Asks the faults what becomes of a request; waits for a late answer, or in vain, as long as the caller would.
    pub(crate) fn ask<'a>(&'a self, mut guard: Guard<'a>, op: Op<'_>, max_wait: Duration) -> (Guard<'a>, Effect) {
        let effect = match guard.faults.before(op) {
            Verdict::Pass | Verdict::Unstable | Verdict::Code(_) => Effect::Done,
            Verdict::DropRequest | Verdict::Disconnect => {
                guard = self.silence(guard, max_wait);
                Effect::Unheard
            }
            Verdict::DropReply => Effect::Unanswered,
            Verdict::Fail(kind) => Effect::Refused(kind),
            Verdict::Delay(late) if late > max_wait => Effect::Unanswered,
            Verdict::Delay(late) => {
                guard = self.silence(guard, late);
                Effect::Done
            }
        };
        (guard, effect)
    }
}

/// The broker.
pub(crate) struct State {
    pub(crate) topics: Topics,
    pub(crate) transactions: Transactions,
    pub(crate) groups: Groups,
    pub(crate) links: Links,
    pub(crate) faults: Plan,
    pub(crate) consumers: u64,
    pub(crate) options: Options,
    /// Nothing happens by itself before this time.
    due: Option<Duration>,
}

/// The coordinator is still writing the markers of the id's last transaction: ask again.
pub(crate) struct Concurrent;

impl State {
    fn new(options: Options) -> Self {
        Self {
            topics: Topics::with_timestamp_after_max(options.timestamp_after_max_ms),
            transactions: Transactions::default(),
            groups: Groups::default(),
            links: Links::default(),
            faults: Plan::default(),
            consumers: 0,
            options,
            due: None,
        }
    }

    /// Does what fell due, each at its own time and in order; answers whether there was anything.
    fn tick(&mut self, now: Duration) -> bool {
        let mut happened = false;
        while let Some(at) = self.due.filter(|due| *due <= now) {
            self.happen(at);
            self.rearm();
            happened = true;
        }
        happened
    }

    /// To be called after each change of what happens by itself.
    pub(crate) fn rearm(&mut self) {
        self.due = self.transactions.due().into_iter().chain(self.groups.due()).min();
    }

    fn happen(&mut self, now: Duration) {
        for (id, phase) in self.transactions.due_ids(now) {
            if let Phase::Ongoing { .. } = phase {
                self.transactions.fence(&id);
                self.end(&id, false, now);
            } else {
                self.write_markers(&id);
            }
        }
        self.happen_in_groups(now);
    }

    /// Fences the holder of a transactional id and ends its transaction, if one is open.
    pub(crate) fn init_producer(
        &mut self,
        id: &str,
        timeout: Duration,
        now: Duration,
    ) -> std::result::Result<Session, Concurrent> {
        if let Some(Phase::Ongoing { .. }) = self.transactions.get(id).map(|t| t.phase) {
            self.transactions.fence(id);
            self.end(id, false, now);
        }
        if self.transactions.get(id).is_some_and(|t| t.phase.is_ending()) {
            return Err(Concurrent);
        }
        Ok(self.transactions.take(id, timeout))
    }

    /// Begins a transaction, unless one is open. Refused for a fenced producer.
    pub(crate) fn begin(&mut self, op: &'static str, id: &str, session: Session, now: Duration) -> Result<()> {
        if self.transactions.held(op, id, session)?.phase.is_ending() {
            // A client repeats its request until the markers of its last transaction are written
            // (CONCURRENT_TRANSACTIONS). Nobody but itself could tell that they come earlier than planned.
            self.write_markers(id);
        }
        let transaction = self.transactions.held(op, id, session)?;
        let expires = now.saturating_add(transaction.timeout);
        if transaction.phase == Phase::Idle {
            transaction.phase = Phase::Ongoing { expires };
        }
        self.rearm();
        Ok(())
    }

    /// Decides an open transaction; the markers are written at once or later.
    pub(crate) fn end(&mut self, id: &str, commit: bool, now: Duration) {
        let lag = match self.faults.before(Op::WriteMarkers { transactional_id: id }) {
            Verdict::Delay(lag) => lag,
            _ => self.options.marker_lag,
        };
        if let Some(transaction) = self.transactions.get_mut(id)
            && matches!(transaction.phase, Phase::Ongoing { .. })
        {
            transaction.phase = Phase::Ending { commit, at: now.saturating_add(lag) };
            if lag.is_zero() {
                self.write_markers(id);
            }
            self.rearm();
        }
    }

    /// Writes the markers of a transaction that has been decided.
    fn write_markers(&mut self, id: &str) {
        let Some(markers) = self.transactions.get_mut(id).and_then(|t| t.finish()) else { return };
        for log in markers.logs {
            if let Some(log) = self.topics.log_mut(log) {
                log.mark(markers.producer, markers.commit);
            }
        }
        for group in markers.groups {
            self.groups.end_transaction(&group, markers.producer, markers.commit);
        }
    }
}

/// A call that got no answer in time.
pub(crate) fn unanswered(op: &'static str) -> Error {
    Error::new(ErrorKind::Retriable, op).with("code", "no answer in time")
}

/// Makes a waker of a consumer or link.
pub(crate) struct WakeFlag {
    pub(crate) shared: Arc<Shared>,
    pub(crate) set: std::sync::atomic::AtomicBool,
}

impl WakeFlag {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared, set: false.into() })
    }

    /// True if it was woken since the last time.
    pub(crate) fn take(&self) -> bool {
        self.set.swap(false, std::sync::atomic::Ordering::SeqCst)
    }
}

impl std::task::Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.set.store(true, std::sync::atomic::Ordering::SeqCst);
        self.shared.wake();
    }
}

impl State {
    /// Writes a batch, in the transaction of a producer that was found to hold its id or in none. See [`Log::write`].
    pub(crate) fn append(
        &mut self,
        log: LogId,
        segment: Segment,
        transaction: Option<(&str, Session)>,
        wall_ms: i64,
        refuse: impl FnMut(usize, Error),
    ) -> Option<(usize, Offset)> {
        if let Some(transaction) = transaction.and_then(|(id, _)| self.transactions.get_mut(id)) {
            transaction.add(log);
        }
        let producer = transaction.map(|(_, session)| session.producer);
        self.topics.log_mut(log)?.write(segment, producer, wall_ms, refuse)
    }

    /// Commits offsets at once, fenced by the group.
    pub(crate) fn commit_offsets(&mut self, member: &Member, offsets: &[GroupOffset<'_>], now: Duration) -> Result<()> {
        match self.groups.commit(None, member, offsets, now) {
            code::NONE => {
                self.rearm();
                Ok(())
            }
            refused => Err(refusal("commit offsets", refused, member)),
        }
    }

    /// Adds offsets to a transaction, fenced by the coordinator and by the group.
    pub(crate) fn commit_transaction_offsets(
        &mut self,
        id: &str,
        session: Session,
        member: &Member,
        offsets: &[GroupOffset<'_>],
        now: Duration,
    ) -> Result<()> {
        let op = "commit transaction";
        self.transactions.held(op, id, session)?.groups.insert(member.group.clone());
        match self.groups.commit(Some(session.producer), member, offsets, now) {
            code::NONE => Ok(()),
            refused => Err(refusal(op, refused, member)),
        }
    }

    /// Deletes a topic with all that is known of it.
    pub(crate) fn delete_topic(&mut self, topic: &str) -> Result<()> {
        self.topics.delete(topic)?;
        self.groups.forget(topic);
        Ok(())
    }
}
