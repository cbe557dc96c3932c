//! Compaction on demand: of what is stable the last record of each key stays, at its offset.

use std::collections::HashMap;
use std::sync::Arc;

use millpond_broker_api::{Offset, Result};

use crate::broker::EmbeddedBroker;
use crate::log::{Kind, Log, Stored};
use crate::segment::{Entry, Segment};

impl EmbeddedBroker {
    /// Compacts all partitions of a topic, if its `cleanup.policy` has `compact`: below the last stable offset only the
    /// last record of each key is left, and no aborted one.
    ///
    /// A tombstone that is the last of its key goes at a later call, `delete.retention.ms` after the first that met it.
    /// Offsets, also the start's, do not change. [`UnknownTopic`](millpond_broker_api::ErrorKind::UnknownTopic) is the
    /// only error.
    pub fn compact(&self, topic: &str) -> Result<()> {
        let now = self.shared.time.clock().wall_ms();
        self.shared.lock().topics.each_log("compact topic", topic, |log| {
            if log.rules.compact {
                compact(log, now);
            }
        })
    }
}

/// What a record is to a compaction.
fn offset(stored: &Stored, entry: &Entry) -> Offset {
    stored.base + Offset::from(entry.delta)
}

fn compact(log: &mut Log, now: i64) {
    let below = log.stable_end();
    let mut last: HashMap<Vec<u8>, Offset> = HashMap::new();
    for stored in log.batches().filter(|b| b.next <= below && !matches!(b.kind, Kind::Aborted(_))) {
        for entry in stored.segment.entries() {
            if let (Some(key), _) = stored.segment.key_value(entry) {
                last.insert(key.to_vec(), offset(stored, entry));
            }
        }
    }
    let retention = log.rules.delete_retention_ms;
    log.rewrite(below, |stored| match stored.kind {
        Kind::Marker { .. } => Some(stored),
        Kind::Aborted(_) => None,
        _ => keep(stored, &last, now, retention),
    });
}

/// What is left of a batch.
fn keep(mut stored: Stored, last: &HashMap<Vec<u8>, Offset>, now: i64, retention: i64) -> Option<Stored> {
    let tombstones_go = stored.tombstone_horizon.is_some_and(|horizon| now >= horizon);
    let segment = stored.segment.clone();
    let stays = |entry: &&Entry| {
        let is_last = |key: &[u8]| last.get(key) == Some(&offset(&stored, entry));
        segment.key_value(entry).0.is_some_and(is_last) && !(tombstones_go && entry.is_tombstone())
    };
    let kept: Vec<&Entry> = segment.entries().iter().filter(stays).collect();
    if kept.is_empty() {
        return None;
    }
    if kept.iter().any(|entry| entry.is_tombstone()) {
        stored.tombstone_horizon.get_or_insert(now.saturating_add(retention));
    }
    if kept.len() < segment.len() {
        let bytes = kept.iter().map(|entry| entry.size()).sum();
        let mut rest = Segment::like(kept.len(), bytes);
        kept.iter().for_each(|entry| rest.copy(&segment, entry, entry.delta));
        stored.segment = Arc::new(rest);
    }
    Some(stored)
}
