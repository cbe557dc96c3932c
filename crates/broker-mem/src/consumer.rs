//! The consumer: lends pieces of batches that it shares with the log.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::{
    Batch, Change, Consumer, Error, ErrorKind, Header, Headers, Isolation, Offset, Record, Records, Result, Source,
};

use crate::faults::{Op, Verdict};
use crate::log::{Budget, Log, Run};
use crate::state::{Shared, State, WakeFlag};
use crate::topics::{LogId, unknown};

const POLL: &str = "poll";

/// A partition that is read.
struct Part {
    source: Source,
    topic: Arc<str>,
    partition: i32,
    /// Found at the first poll; void when the topic is deleted.
    log: Option<LogId>,
    position: Offset,
    /// The end that the last fetch since the last move spoke of.
    known_end: Option<Offset>,
    paused: bool,
    /// Reported as a fault: delivers nothing until it is moved.
    dead: bool,
}

pub(crate) struct MemConsumer {
    wake: Arc<WakeFlag>,
    number: u64,
    isolation: Isolation,
    /// By source.
    parts: Vec<Part>,
    /// The part whose turn it is first at the next poll.
    turn: usize,
    lent: Lent,
    faults: Vec<(Source, Error)>,
    /// A fault's delay: nothing arrives before.
    silent_until: Duration,
}

impl MemConsumer {
    pub(crate) fn new(shared: Arc<Shared>, isolation: Isolation) -> Self {
        let number = {
            let mut state = shared.lock();
            state.consumers += 1;
            state.consumers - 1
        };
        Self {
            wake: WakeFlag::new(shared),
            number,
            isolation,
            parts: Vec::new(),
            turn: 0,
            lent: Lent::default(),
            faults: Vec::new(),
            silent_until: Duration::ZERO,
        }
    }

    fn part(&mut self, source: Source) -> Result<&mut Part> {
        let missing = || Error::new(ErrorKind::Fatal, "assign").with("source not assigned", source.0);
        self.parts.iter_mut().find(|p| p.source == source).ok_or_else(missing)
    }

    fn apply(&mut self, change: &Change<'_>) -> Result<()> {
        match *change {
            Change::Add { source, topic, partition, from } => {
                let part = Part {
                    source,
                    topic: topic.into(),
                    partition,
                    log: None,
                    position: from,
                    known_end: None,
                    paused: false,
                    dead: false,
                };
                match self.parts.binary_search_by_key(&source, |p| p.source) {
                    Ok(at) => self.parts.splice(at..=at, [part]).for_each(drop),
                    Err(at) => self.parts.insert(at, part),
                }
            }
            Change::Remove(source) => self.parts.retain(|p| p.source != source),
            Change::Seek(source, to) => {
                let part = self.part(source)?;
                (part.position, part.known_end, part.dead, part.log) = (to, None, false, None);
            }
            Change::Pause(source) => self.part(source)?.paused = true,
            Change::Resume(source) => self.part(source)?.paused = false,
        }
        Ok(())
    }

    /// Collects what is there.
    fn fetch(&mut self, state: &State, mut budget: Budget) {
        let count = self.parts.len();
        for step in 0..count {
            let at = (self.turn + step) % count;
            let Some(part) = self.parts.get_mut(at).filter(|p| !p.paused && !p.dead) else { continue };
            let (lent, source) = (&mut self.lent, part.source);
            match part.fetch(state, self.isolation, &mut budget, |run| lent.push(source, run)) {
                Ok(()) if budget.is_spent() => {
                    // The next one begins the next poll, so that a full partition does not starve the others.
                    self.turn = (at + 1) % count;
                    return;
                }
                Ok(()) => {}
                Err(error) => {
                    part.dead = true;
                    self.faults.push((source, error));
                }
            }
        }
    }
}

impl Part {
    fn fetch(&mut self, state: &State, isolation: Isolation, budget: &mut Budget, lend: impl FnMut(Run)) -> Result<()> {
        let log = self.log(state)?;
        let (start, end) = (log.start(), log.end());
        if !(start..=end).contains(&self.position) {
            return Err(Error::new(ErrorKind::OutOfRange, POLL)
                .with("topic", &self.topic)
                .with("partition", self.partition)
                .with("offset", self.position)
                .with("start", start)
                .with("end", end));
        }
        let position = log.read(self.position, isolation, budget, lend);
        (self.position, self.known_end) = (position, Some(log.visible_end(isolation)));
        Ok(())
    }

    fn log<'s>(&mut self, state: &'s State) -> Result<&'s Log> {
        if self.log.is_none() {
            self.log = state.topics.find(&self.topic, self.partition);
        }
        let log = self.log.and_then(|id| state.topics.log(id));
        log.ok_or_else(|| unknown(POLL, &self.topic).with("partition", self.partition))
    }
}

impl Consumer for MemConsumer {
    fn assign(&mut self, changes: &[Change<'_>]) -> Result<()> {
        changes.iter().try_for_each(|change| self.apply(change))
    }

    fn poll(&mut self, max_wait: Duration) -> Result<Batch<'_>> {
        self.lent.clear();
        self.faults.clear();
        let wake = self.wake.clone();
        let shared = &wake.shared;
        let mut state = shared.lock();
        let budget =
            Budget { records: shared.options.max_poll_records, bytes: shared.options.max_poll_bytes, lent_any: false };
        let mut lost = false;
        match state.faults.before(Op::Fetch { consumer: self.number }) {
            Verdict::Pass | Verdict::Unstable | Verdict::Code(_) => {}
            Verdict::Delay(late) => self.silent_until = shared.now().saturating_add(late),
            Verdict::Fail(kind) => return Err(Error::new(kind, POLL)),
            Verdict::DropRequest | Verdict::DropReply | Verdict::Disconnect => lost = true,
        }
        let mut deadline = None;
        loop {
            if !lost && (self.silent_until.is_zero() || self.silent_until <= shared.now()) {
                self.silent_until = Duration::ZERO;
                self.fetch(&state, budget);
            }
            let something = !self.lent.is_empty() || !self.faults.is_empty();
            if something || wake.take() || max_wait.is_zero() || !shared.waits() {
                break;
            }
            let deadline = *deadline.get_or_insert_with(|| shared.now().saturating_add(max_wait));
            if shared.now() >= deadline {
                break;
            }
            let silent = Some(self.silent_until).filter(|until| !until.is_zero());
            state = shared.wait(state, silent.map_or(deadline, |until| until.min(deadline)));
        }
        drop(state);
        wake.take();
        Ok(self.lend())
    }

    fn position(&self, source: Source) -> Option<Offset> {
        self.parts.iter().find(|p| p.source == source).map(|p| p.position)
    }

    fn known_end(&self, source: Source) -> Option<Offset> {
        self.parts.iter().find(|p| p.source == source)?.known_end
    }

    fn waker(&self) -> Waker {
        self.wake.clone().into()
    }
}

impl MemConsumer {
    fn lend(&self) -> Batch<'_> {
        Batch { records: &self.lent, faults: &self.faults }
    }
}

/// What a poll lends: pieces of batches, and where the records are in them.
#[derive(Default)]
struct Lent {
    runs: Vec<(Source, Run)>,
    /// For each record its run, and its entry there.
    index: Vec<(u32, u32)>,
}

impl Lent {
    fn clear(&mut self) {
        self.runs.clear();
        self.index.clear();
    }

    fn push(&mut self, source: Source, run: Run) {
        let at = self.runs.len() as u32;
        self.index.extend((run.first..run.end).map(|entry| (at, entry)));
        self.runs.push((source, run));
    }
}

impl Records for Lent {
    fn len(&self) -> usize {
        self.index.len()
    }

    #[inline]
    fn get(&self, i: usize) -> Option<Record<'_>> {
        let (at, entry) = *self.index.get(i)?;
        let (source, run) = self.runs.get(at as usize)?;
        let entry = run.segment.entries().get(entry as usize)?;
        let (key, value) = run.segment.key_value(entry);
        Some(Record {
            source: *source,
            leader_epoch: 0,
            offset: run.base + Offset::from(entry.delta),
            timestamp: run.append_time.unwrap_or(entry.timestamp),
            key,
            value,
            // Known here without another look at the record.
            headers: if entry.has_headers() { Headers::new(self, i) } else { Headers::none() },
        })
    }

    fn header(&self, i: usize, n: usize) -> Option<Header<'_>> {
        let (at, entry) = *self.index.get(i)?;
        let (_, run) = self.runs.get(at as usize)?;
        run.segment.header(run.segment.entries().get(entry as usize)?, n)
    }
}
