//! A look inside, for tests: what the log holds, where transactions and groups stand.

use std::fmt;
use std::sync::Arc;

use millpond_broker_api::{Committed, Offset, Result};

use crate::broker::EmbeddedBroker;
use crate::groups;
use crate::log::{Kind, Log, Stored};
use crate::segment::Entry;
use crate::topics::unknown;
use crate::transactions;

/// What a record is to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// Written outside of transactions.
    Plain,
    /// Its transaction is not over.
    Open,
    /// Its transaction was committed.
    Committed,
    /// Its transaction was aborted.
    Aborted,
}

/// A record as it lies in the log.
#[derive(Clone, PartialEq, Eq)]
pub struct DumpedRecord {
    /// Milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// The key's bytes.
    pub key: Option<Vec<u8>>,
    /// The value's bytes.
    pub value: Option<Vec<u8>>,
    /// The headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Whether readers see it.
    pub visibility: Visibility,
}

/// State is business data: the output shows sizes only.
impl fmt::Debug for DumpedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DumpedRecord")
            .field("timestamp", &self.timestamp)
            .field("key_len", &self.key.as_ref().map(Vec::len))
            .field("value_len", &self.value.as_ref().map(Vec::len))
            .field("headers", &self.headers.len())
            .field("visibility", &self.visibility)
            .finish()
    }
}

/// What takes an offset of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dumped {
    /// A record.
    Record(DumpedRecord),
    /// The end of a transaction.
    Marker {
        /// Committed or aborted.
        commit: bool,
    },
}

/// Where a transactional id stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// No transaction is open.
    Idle,
    /// A transaction is open.
    Ongoing,
    /// It was decided, its markers are not written.
    Ending {
        /// Committed or aborted.
        commit: bool,
    },
}

/// The phase of a group, by Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPhase {
    /// It has no members.
    Empty,
    /// Members are expected to join.
    PreparingRebalance,
    /// The leader's assignment is awaited.
    CompletingRebalance,
    /// Everybody has an assignment.
    Stable,
}

/// Where a group stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The phase.
    pub phase: GroupPhase,
    /// The generation; 0 before the first.
    pub generation: i32,
    /// The leader's member id.
    pub leader: Option<Arc<str>>,
    /// Member ids and static ids, in the order in which they came.
    pub members: Vec<(Arc<str>, Option<Arc<str>>)>,
    /// What is committed, by topic and partition.
    pub offsets: Vec<(String, i32, Committed)>,
}

impl EmbeddedBroker {
    /// All that a partition holds, by offset: also records of open and aborted transactions, and markers. For tests.
    ///
    /// [`UnknownTopic`](millpond_broker_api::ErrorKind::UnknownTopic) is the only error.
    pub fn dump(&self, topic: &str, partition: i32) -> Result<Vec<(Offset, Dumped)>> {
        let state = self.shared.lock();
        let log = state.topics.find(topic, partition).and_then(|id| state.topics.log(id));
        let log = log.ok_or_else(|| unknown("dump", topic).with("partition", partition))?;
        Ok(dump(log))
    }

    /// Where a transactional id stands; `None` if it never was. For tests.
    pub fn transaction(&self, transactional_id: &str) -> Option<TransactionState> {
        let state = self.shared.lock();
        Some(match state.transactions.get(transactional_id)?.phase {
            transactions::Phase::Idle => TransactionState::Idle,
            transactions::Phase::Ongoing { .. } => TransactionState::Ongoing,
            transactions::Phase::Ending { commit, .. } => TransactionState::Ending { commit },
        })
    }

    /// Where a group stands; `None` if it never was. For tests.
    pub fn group(&self, group: &str) -> Option<GroupState> {
        let state = self.shared.lock();
        let group = state.groups.get(group)?;
        let phase = match group.phase {
            groups::Phase::Empty => GroupPhase::Empty,
            groups::Phase::Preparing { .. } => GroupPhase::PreparingRebalance,
            groups::Phase::Completing { .. } => GroupPhase::CompletingRebalance,
            groups::Phase::Stable => GroupPhase::Stable,
        };
        let members = group.members.iter().map(|m| (m.id.clone(), m.instance_id.clone())).collect();
        let offsets = group.offsets.all().map(|(t, p, o)| (t.to_owned(), p, o.clone())).collect();
        Some(GroupState { phase, generation: group.generation, leader: group.leader.clone(), members, offsets })
    }
}

fn dump(log: &Log) -> Vec<(Offset, Dumped)> {
    let mut all = Vec::new();
    for stored in log.batches() {
        if let Kind::Marker { commit, .. } = stored.kind {
            all.push((stored.base, Dumped::Marker { commit }));
        }
        for entry in stored.segment.entries() {
            let offset = stored.base + Offset::from(entry.delta);
            if offset >= log.start() {
                all.push((offset, Dumped::Record(record(stored, entry))));
            }
        }
    }
    all
}

fn record(stored: &Stored, entry: &Entry) -> DumpedRecord {
    let (key, value) = stored.segment.key_value(entry);
    let headers = (0..).map_while(|n| stored.segment.header(entry, n));
    DumpedRecord {
        timestamp: stored.append_time.unwrap_or(entry.timestamp),
        key: key.map(<[u8]>::to_vec),
        value: value.map(<[u8]>::to_vec),
        headers: headers.map(|h| (h.name.to_owned(), h.value.map(<[u8]>::to_vec))).collect(),
        visibility: match stored.kind {
            Kind::Plain | Kind::Marker { .. } => Visibility::Plain,
            Kind::Open(_) => Visibility::Open,
            Kind::Committed(_) => Visibility::Committed,
            Kind::Aborted(_) => Visibility::Aborted,
        },
    }
}
