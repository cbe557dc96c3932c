//! The transaction coordinator: producer ids and epochs, open transactions, and markers that may lag behind the answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Error, ErrorKind, Result};

use crate::log::ProducerId;
use crate::topics::LogId;

/// Who holds a transactional id: an older one is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) producer: ProducerId,
    pub(crate) epoch: i16,
}

/// Where a transactional id stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No transaction is open.
    Idle,
    /// A transaction is open; the coordinator aborts it when its time is over.
    Ongoing {
        /// When it is aborted.
        expires: Duration,
    },
    /// It was decided, the markers are not written.
    Ending {
        /// Committed or aborted.
        commit: bool,
        /// When the markers are written.
        at: Duration,
    },
}

impl Phase {
    pub(crate) fn is_ending(self) -> bool {
        matches!(self, Self::Ending { .. })
    }
}

/// A transactional id.
pub(crate) struct Transaction {
    pub(crate) session: Session,
    /// How long its holder's transactions may be open (`transaction.timeout.ms`).
    pub(crate) timeout: Duration,
    pub(crate) phase: Phase,
    /// The partitions that get a marker, in order.
    pub(crate) logs: Vec<LogId>,
    /// The groups that have offsets in it.
    pub(crate) groups: BTreeSet<Arc<str>>,
}

/// What the writing of a transaction's markers is about.
pub(crate) struct Markers {
    pub(crate) producer: ProducerId,
    pub(crate) commit: bool,
    pub(crate) logs: Vec<LogId>,
    pub(crate) groups: BTreeSet<Arc<str>>,
}

/// All transactional ids.
#[derive(Default)]
pub(crate) struct Transactions {
    by_id: BTreeMap<Arc<str>, Transaction>,
    next_producer: ProducerId,
}

impl Transactions {
    pub(crate) fn get(&self, id: &str) -> Option<&Transaction> {
        self.by_id.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Transaction> {
        self.by_id.get_mut(id)
    }

    /// The transaction of the producer that holds the id; refused for a fenced one.
    pub(crate) fn held(&mut self, op: &'static str, id: &str, session: Session) -> Result<&mut Transaction> {
        let fenced = || Error::new(ErrorKind::ProducerFenced, op).with("transactional_id", id);
        self.by_id.get_mut(id).filter(|t| t.session == session).ok_or_else(fenced)
    }

    /// Gives the id to a new holder.
    pub(crate) fn take(&mut self, id: &str, timeout: Duration) -> Session {
        if !self.by_id.contains_key(id) {
            self.next_producer += 1;
            let session = Session { producer: self.next_producer, epoch: -1 };
            let (logs, groups) = Default::default();
            self.by_id.insert(id.into(), Transaction { session, timeout, phase: Phase::Idle, logs, groups });
        }
        self.fence(id);
        let transaction = self.by_id.get_mut(id).expect("inserted above");
        transaction.timeout = timeout;
        transaction.session
    }

    /// Makes the id's present holder a former one.
    pub(crate) fn fence(&mut self, id: &str) {
        let Some(transaction) = self.by_id.get_mut(id) else { return };
        let session = &mut transaction.session;
        if session.epoch < i16::MAX - 1 || transaction.phase != Phase::Idle {
            session.epoch = session.epoch.saturating_add(1);
        } else {
            self.next_producer += 1;
            *session = Session { producer: self.next_producer, epoch: 0 };
        }
    }

    /// When something happens by itself next.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = self.by_id.values().filter_map(|t| match t.phase {
            Phase::Idle => None,
            Phase::Ongoing { expires } => Some(expires),
            Phase::Ending { at, .. } => Some(at),
        });
        due.min()
    }

    /// The ids for which something is due.
    pub(crate) fn due_ids(&self, now: Duration) -> Vec<(Arc<str>, Phase)> {
        let is_due = |phase| match phase {
            Phase::Idle => false,
            Phase::Ongoing { expires } => expires <= now,
            Phase::Ending { at, .. } => at <= now,
        };
        self.by_id.iter().filter(|(_, t)| is_due(t.phase)).map(|(id, t)| (id.clone(), t.phase)).collect()
    }
}

impl Transaction {
    /// A partition gets a record.
    pub(crate) fn add(&mut self, log: LogId) {
        if let Err(at) = self.logs.binary_search(&log) {
            self.logs.insert(at, log);
        }
    }

    /// Takes out what has to be written at its end; the id is idle then.
    pub(crate) fn finish(&mut self) -> Option<Markers> {
        let Phase::Ending { commit, .. } = self.phase else { return None };
        self.phase = Phase::Idle;
        let (logs, groups) = (std::mem::take(&mut self.logs), std::mem::take(&mut self.groups));
        Some(Markers { producer: self.session.producer, commit, logs, groups })
    }
}
