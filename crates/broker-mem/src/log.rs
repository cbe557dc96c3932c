//! A partition: batches by offset, the last stable offset, markers, and holes after compaction.

use std::collections::VecDeque;
use std::sync::Arc;

use millpond_broker_api::{Error, Isolation, Offset};

use crate::segment::Segment;
use crate::topics::Rules;

/// The number that the broker gave to a producer.
pub(crate) type ProducerId = i64;

/// What a batch is to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Written outside of transactions.
    Plain,
    /// Its transaction is not over.
    Open(ProducerId),
    /// Its transaction was committed.
    Committed(ProducerId),
    /// Its transaction was aborted.
    Aborted(ProducerId),
    /// The end of a transaction; no record, but an offset.
    Marker {
        /// Whose.
        producer: ProducerId,
        /// Committed or aborted.
        commit: bool,
    },
}

/// A batch in the log.
#[derive(Clone)]
pub(crate) struct Stored {
    /// The offset that its entries count from.
    pub(crate) base: Offset,
    /// The offset after it.
    pub(crate) next: Offset,
    pub(crate) segment: Arc<Segment>,
    pub(crate) kind: Kind,
    /// Stands for the records' own timestamps under `message.timestamp.type=LogAppendTime`.
    pub(crate) append_time: Option<i64>,
    /// No record up to here is newer: what the search by time bisects.
    newest_so_far: i64,
    /// From when on a compaction drops its tombstones, in milliseconds since 1970; set by the first one.
    pub(crate) tombstone_horizon: Option<i64>,
}

impl Stored {
    /// The newest timestamp of its records.
    pub(crate) fn newest(&self) -> i64 {
        match self.append_time {
            Some(time) if self.segment.len() > 0 => time,
            _ => self.segment.facts.newest,
        }
    }
}

/// A piece of a batch that a poll lends.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) base: Offset,
    pub(crate) segment: Arc<Segment>,
    pub(crate) append_time: Option<i64>,
    pub(crate) first: u32,
    pub(crate) end: u32,
}

/// How much a poll may still lend.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    /// The first record of a poll is lent whatever its size.
    pub(crate) lent_any: bool,
}

/// A partition.
pub(crate) struct Log {
    pub(crate) rules: Rules,
    batches: VecDeque<Stored>,
    start: Offset,
    end: Offset,
    /// The first offset of each open transaction, so in the order of offsets.
    open: Vec<(ProducerId, Offset)>,
    /// What markers hold.
    nothing: Arc<Segment>,
}

impl Log {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, batches: VecDeque::new(), start: 0, end: 0, open: Vec::new(), nothing: Arc::default() }
    }

    pub(crate) fn start(&self) -> Offset {
        self.start
    }

    /// The high watermark: one broker, so every record is replicated once it is here.
    pub(crate) fn end(&self) -> Offset {
        self.end
    }

    /// The last stable offset.
    pub(crate) fn stable_end(&self) -> Offset {
        self.open.first().map_or(self.end, |(_, first)| (*first).max(self.start))
    }

    pub(crate) fn batches(&self) -> impl Iterator<Item = &Stored> {
        self.batches.iter()
    }

    /// Appends a batch; answers with the offset after it.
    fn append(&mut self, segment: Arc<Segment>, producer: Option<ProducerId>, wall_ms: i64) -> Offset {
        if let Some(id) = producer
            && self.open.iter().all(|(open, _)| *open != id)
        {
            self.open.push((id, self.end));
        }
        let next = self.end + segment.len() as Offset;
        let append_time = self.rules.log_append_time.then_some(wall_ms);
        self.store(segment, producer.map_or(Kind::Plain, Kind::Open), next, append_time);
        next
    }

    /// Appends what the topic's rules admit, calls `refuse` for the rest; answers with the number of records and the offset
    /// after them, if there are any.
    pub(crate) fn write(
        &mut self,
        mut segment: Segment,
        producer: Option<ProducerId>,
        wall_ms: i64,
        mut refuse: impl FnMut(usize, Error),
    ) -> Option<(usize, Offset)> {
        if !self.rules.admit_all(&segment.facts, wall_ms) {
            let mut good = Segment::default();
            for (at, entry) in segment.entries().iter().enumerate() {
                match self.rules.refuse(entry, wall_ms) {
                    Some(error) => refuse(at, error),
                    None => good.copy(&segment, entry, good.len() as u32),
                }
            }
            segment = good;
        }
        let written = segment.len();
        segment.freeze();
        (written > 0).then(|| (written, self.append(Arc::new(segment), producer, wall_ms)))
    }

    /// Ends a producer's transaction here: its batches change their kind, a marker takes an offset.
    pub(crate) fn mark(&mut self, producer: ProducerId, commit: bool) {
        if let Some(at) = self.open.iter().position(|(open, _)| *open == producer) {
            let (_, first) = self.open.remove(at);
            let ended = if commit { Kind::Committed(producer) } else { Kind::Aborted(producer) };
            let from = self.position_of(first);
            for batch in self.batches.range_mut(from..).filter(|b| b.kind == Kind::Open(producer)) {
                batch.kind = ended;
            }
        }
        self.store(self.nothing.clone(), Kind::Marker { producer, commit }, self.end + 1, None);
    }

    fn store(&mut self, segment: Arc<Segment>, kind: Kind, next: Offset, append_time: Option<i64>) {
        let before = self.batches.back().map_or(i64::MIN, |b| b.newest_so_far);
        let (base, tombstone_horizon) = (self.end, None);
        let mut stored = Stored { base, next, segment, kind, append_time, newest_so_far: before, tombstone_horizon };
        stored.newest_so_far = before.max(stored.newest());
        self.batches.push_back(stored);
        self.end = next;
    }

    /// The index of the first batch that ends past an offset.
    fn position_of(&self, offset: Offset) -> usize {
        self.batches.partition_point(|b| b.next <= offset)
    }

    /// Up to where a reader may see.
    pub(crate) fn visible_end(&self, isolation: Isolation) -> Offset {
        match isolation {
            Isolation::ReadCommitted => self.stable_end(),
            Isolation::ReadUncommitted => self.end,
        }
    }

    /// Collects what a reader gets from an offset on; answers with its next position.
    pub(crate) fn read(
        &self,
        from: Offset,
        isolation: Isolation,
        budget: &mut Budget,
        mut lend: impl FnMut(Run),
    ) -> Offset {
        let end = self.visible_end(isolation);
        if from >= end {
            return from;
        }
        let mut position = from;
        for stored in self.batches.range(self.position_of(from)..).take_while(|b| b.base < end) {
            let hidden = isolation == Isolation::ReadCommitted && matches!(stored.kind, Kind::Aborted(_));
            if hidden || stored.segment.len() == 0 {
                position = stored.next;
                continue;
            }
            let entries = stored.segment.entries();
            let first = if position <= stored.base {
                0
            } else {
                entries.partition_point(|e| stored.base + Offset::from(e.delta) < position)
            };
            let taken = entries.get(first..).unwrap_or_default().iter().take_while(|e| budget.take(e.size())).count();
            if taken > 0 {
                lend(Run {
                    base: stored.base,
                    segment: stored.segment.clone(),
                    append_time: stored.append_time,
                    first: first as u32,
                    end: (first + taken) as u32,
                });
            }
            if let Some(left) = entries.get(first + taken) {
                return if taken > 0 { stored.base + Offset::from(left.delta) } else { position };
            }
            position = stored.next;
        }
        end
    }

    /// The offset of the first record with this timestamp or a later one.
    pub(crate) fn find_time(&self, timestamp: i64) -> Option<Offset> {
        let from = self.batches.partition_point(|b| b.newest_so_far < timestamp);
        self.batches.range(from..).filter(|b| b.newest() >= timestamp).find_map(|b| {
            let later = b.segment.entries().iter().filter(|e| b.append_time.unwrap_or(e.timestamp) >= timestamp);
            later.map(|e| b.base + Offset::from(e.delta)).find(|offset| *offset >= self.start)
        })
    }

    /// Drops all records below an offset; never goes back.
    pub(crate) fn delete_below(&mut self, offset: Offset) {
        self.start = self.start.max(offset.min(self.end));
        while self.batches.front().is_some_and(|b| b.next <= self.start) {
            self.batches.pop_front();
        }
    }

    /// Replaces the batches below an offset by what `keep` makes of them; offsets stay.
    pub(crate) fn rewrite(&mut self, below: Offset, mut keep: impl FnMut(Stored) -> Option<Stored>) {
        let before = std::mem::take(&mut self.batches);
        let kept = before.into_iter().filter_map(|b| if b.next <= below { keep(b) } else { Some(b) });
        self.batches = kept.collect();
        let mut newest = i64::MIN;
        for batch in &mut self.batches {
            newest = newest.max(batch.newest());
            batch.newest_so_far = newest;
        }
    }
}

impl Budget {
    /// True if a record of this size may still be lent; the first that may not ends the poll.
    fn take(&mut self, size: usize) -> bool {
        if self.lent_any && size > self.bytes {
            self.records = 0;
        }
        if self.records == 0 {
            return false;
        }
        self.records -= 1;
        self.bytes = self.bytes.saturating_sub(size);
        self.lent_any = true;
        true
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.records == 0
    }
}
