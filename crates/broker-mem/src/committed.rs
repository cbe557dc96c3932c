//! A group's committed offsets, and those that wait for their transaction.

use std::collections::BTreeMap;

use millpond_broker_api::{Committed, GroupOffset};

use crate::log::ProducerId;

/// Offsets of one group.
#[derive(Default)]
pub(crate) struct CommittedOffsets {
    by_partition: BTreeMap<(String, i32), Row>,
    pending: BTreeMap<ProducerId, BTreeMap<(String, i32), Row>>,
    commits: u64,
}

#[derive(Clone)]
struct Row {
    /// The order of the requests: a plain commit wins over an earlier one of a transaction that ends later.
    commit: u64,
    offset: Committed,
}

impl CommittedOffsets {
    /// Commits at once (no producer), or when the producer's transaction is committed.
    pub(crate) fn add(&mut self, producer: Option<ProducerId>, offsets: &[GroupOffset<'_>]) {
        self.commits += 1;
        let into = match producer {
            Some(id) => self.pending.entry(id).or_default(),
            None => &mut self.by_partition,
        };
        for o in offsets {
            let offset = Committed { next: o.next, leader_epoch: o.leader_epoch, metadata: o.metadata.to_owned() };
            into.insert((o.topic.to_owned(), o.partition), Row { commit: self.commits, offset });
        }
    }

    /// Ends a producer's transaction.
    pub(crate) fn end(&mut self, producer: ProducerId, commit: bool) {
        let pending = self.pending.remove(&producer).unwrap_or_default();
        if !commit {
            return;
        }
        for (partition, row) in pending {
            if self.by_partition.get(&partition).is_none_or(|there| there.commit < row.commit) {
                self.by_partition.insert(partition, row);
            }
        }
    }

    /// What is committed of a partition.
    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        self.by_partition.get(&(topic.to_owned(), partition)).map(|row| &row.offset)
    }

    /// True if a transaction that is not over holds an offset of the partition.
    pub(crate) fn is_pending(&self, topic: &str, partition: i32) -> bool {
        let key = (topic.to_owned(), partition);
        self.pending.values().any(|offsets| offsets.contains_key(&key))
    }

    /// All that is committed, by topic and partition.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, i32, &Committed)> {
        self.by_partition.iter().map(|((topic, partition), row)| (topic.as_str(), *partition, &row.offset))
    }

    /// A topic was deleted: its offsets go.
    pub(crate) fn forget(&mut self, topic: &str) {
        self.by_partition.retain(|(t, _), _| t != topic);
        self.pending.values_mut().for_each(|offsets| offsets.retain(|(t, _), _| t != topic));
    }
}
