//! A replay that writes each flight exactly once, whatever happens to the broker: in transactions, with a note of how far it is.
//!
//! An idempotent producer is not enough here. A broker knows by sequence numbers which records it has; after it was killed it
//! learns them anew from its log, and there it forgets producers whose records are older than a day
//! (`producer.id.expiration.ms`). Flights of 2013 are. A transaction that is open is not forgotten.

use std::sync::Arc;
use std::time::Duration;

use millpond::broker::{
    Broker, Clock, CommitOutcome, ErrorKind, GroupOffset, GroupOffsets, Member, Producer, ProducerOptions, Sent, Stable,
};

use crate::error::Result;
use crate::flight::Flight;
use crate::load::{Copies, Sink, not_written};
use crate::ports::{Ports, Stop};
use crate::topology::FLIGHTS;

/// What was sent is committed after this time, or after so many flights.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
const COMMIT_FLIGHTS: usize = 5_000;
/// Before something is tried again.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one call waits before it looks for the signal to stop.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A transactional producer, and the flights that are not committed yet.
pub(crate) struct ExactWriter {
    producer: Box<dyn Producer>,
    offsets: Box<dyn GroupOffsets>,
    copies: Copies,
    /// Whose committed offset is the number of flights that are in the topics for good.
    progress: Member,
    committed: u64,
    pending: Vec<Flight>,
    last_commit: Duration,
    clock: Arc<dyn Clock>,
    stop: Stop,
}

impl ExactWriter {
    /// Its transactional id and group are its own: another replay is another one.
    pub(crate) fn open(broker: &dyn Broker, ports: &Ports) -> Result<Self> {
        let name = format!("{FLIGHTS}-load-{}-{}", std::process::id(), ports.clock.wall_ms());
        let mut producer = broker.producer(&ProducerOptions::transactional(&name)).map_err(not_written)?;
        let copies = Copies::new(&mut *producer);
        let mut writer = Self {
            producer,
            offsets: broker.offsets().map_err(not_written)?,
            copies,
            progress: Member { group: name.into(), member_id: "".into(), instance_id: None, generation: -1 },
            committed: 0,
            pending: Vec::new(),
            last_commit: ports.clock.now(),
            clock: Arc::clone(&ports.clock),
            stop: ports.stop.clone(),
        };
        writer.begin_anew()?;
        Ok(writer)
    }

    /// Whether the transaction has taken the flight, into both topics. What no repetition cures is an error.
    fn write(&mut self, flight: &Flight, number: u64) -> Result<bool> {
        for record in self.copies.of(flight, number)? {
            loop {
                match self.producer.send(&record) {
                    Ok(Sent::Queued) => break,
                    Ok(Sent::Full) => drop(self.producer.flush(MAX_WAIT)),
                    Err(error) if is_passing(error.kind()) => return Ok(false),
                    Err(error) => return Err(not_written(error)),
                }
                self.stop.wait(Duration::ZERO)?;
            }
        }
        Ok(true)
    }

    fn commit(&mut self) -> Result<()> {
        while !self.pending.is_empty() {
            let done = self.committed + self.pending.len() as u64;
            let next = i64::try_from(done).unwrap_or(i64::MAX);
            let note = GroupOffset { topic: FLIGHTS, partition: 0, next, leader_epoch: -1, metadata: "" };
            match self.producer.commit(&self.progress, &[note], MAX_WAIT) {
                CommitOutcome::Committed => {
                    self.pending.clear();
                    self.committed = done;
                }
                CommitOutcome::Aborted(error) if !is_passing(error.kind()) => return Err(not_written(error)),
                // Gone, or nobody knows: the note tells.
                CommitOutcome::Aborted(_) | CommitOutcome::Fenced(_) | CommitOutcome::Unknown(_) => {
                    self.begin_anew()?
                }
            }
        }
        self.last_commit = self.clock.now();
        Ok(())
    }

    /// Ends the former transaction, asks how far it has come for good, and sends again what is missing.
    fn begin_anew(&mut self) -> Result<()> {
        loop {
            self.stop.wait(Duration::ZERO)?;
            match self.producer.init(MAX_WAIT) {
                Ok(()) => {}
                Err(error) if is_passing(error.kind()) => {
                    self.stop.wait(PAUSE)?;
                    continue;
                }
                Err(error) => return Err(not_written(error)),
            }
            let committed = loop {
                match self.ask_progress()? {
                    Some(committed) => break committed,
                    None => self.stop.wait(PAUSE)?,
                }
            };
            let done = usize::try_from(committed.saturating_sub(self.committed)).unwrap_or(usize::MAX);
            self.pending.drain(..done.min(self.pending.len()));
            self.committed = committed;
            if self.write_pending()? {
                return Ok(());
            }
        }
    }

    /// `None`: not known now.
    fn ask_progress(&mut self) -> Result<Option<u64>> {
        match self.offsets.fetch_stable(&self.progress.group, &[(FLIGHTS, 0)], MAX_WAIT) {
            Ok(Stable::Offsets(found)) => {
                let next = found.into_iter().flatten().next().map_or(0, |committed| committed.next);
                Ok(Some(u64::try_from(next).unwrap_or(0)))
            }
            Ok(Stable::Unstable { .. }) => Ok(None),
            Err(error) if is_passing(error.kind()) => Ok(None),
            Err(error) => Err(not_written(error)),
        }
    }

    fn write_pending(&mut self) -> Result<bool> {
        let pending = std::mem::take(&mut self.pending);
        let mut all = true;
        for (number, flight) in (self.committed..).zip(&pending) {
            all = all && self.write(flight, number)?;
        }
        self.pending = pending;
        Ok(all)
    }

    fn is_commit_due(&self) -> bool {
        self.pending.len() >= COMMIT_FLIGHTS || self.clock.now().saturating_sub(self.last_commit) >= COMMIT_INTERVAL
    }
}

impl Sink for ExactWriter {
    fn send(&mut self, flight: Flight, number: u64) -> Result<()> {
        let taken = self.write(&flight, number)?;
        self.pending.push(flight);
        if !taken {
            self.begin_anew()?;
        }
        self.push()
    }

    fn push(&mut self) -> Result<()> {
        if self.is_commit_due() { self.commit() } else { Ok(()) }
    }

    fn finish(mut self) -> Result<()> {
        self.commit()
    }
}

/// What is over when it is done again.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Retriable | ErrorKind::Abortable | ErrorKind::ProducerFenced | ErrorKind::MembershipLost)
}
