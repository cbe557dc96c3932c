//! What it takes to ask about an output that the broker refuses, long after its record was processed.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use millpond_broker_api::{self as broker, Outgoing};
use millpond_topology::{Headers, RecordMetadata};

use crate::exec::SinkRoute;
use crate::handler::{Origin, Subject};
use crate::task::TaskId;

/// The tag of dead letters. 0 is that of records that nobody is asked about: changes, and records between sub-topologies.
pub(super) const DEAD_LETTER: u64 = 1;
/// The first tag of outputs.
const FIRST: u64 = 2;
/// So many bytes are kept of the records whose outputs have no answer; more wait for answers first.
const MOST_BYTES: usize = 1 << 20;

/// Whether the tag is that of an output.
pub(super) fn is_output(tag: u64) -> bool {
    tag >= FIRST
}

/// How a worker watches its outputs.
pub(super) enum Watch {
    /// A refused output is the end, as any other refused record.
    Off,
    /// At-least-once: the others of its interval are written, and stay.
    Origins(Origins),
    /// Exactly-once: the transaction is aborted and done again.
    Contents(Contents),
}

/// The records whose outputs have no answer yet, copied: each output's tag is its number.
#[derive(Default)]
pub(super) struct Origins {
    bytes: Vec<u8>,
    records: Vec<Kept>,
    /// By number, from the first one that has no answer: the record's place and the sink.
    outputs: Vec<(usize, Arc<SinkRoute>)>,
    /// The tag of the first output.
    first: u64,
}

struct Kept {
    task: TaskId,
    /// Topic, partition, offset.
    source: Option<(Arc<str>, i32, i64)>,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    headers: Headers,
    timestamp: i64,
}

impl Origins {
    pub(super) fn new() -> Self {
        Self { first: FIRST, ..Self::default() }
    }

    pub(super) fn is_full(&self) -> bool {
        let beside = self.records.len() * size_of::<Kept>() + self.outputs.len() * size_of::<(usize, Arc<SinkRoute>)>();
        self.bytes.len() + beside >= MOST_BYTES
    }

    /// All outputs have an answer.
    pub(super) fn clear(&mut self) {
        self.first += self.outputs.len() as u64;
        self.bytes.clear();
        self.records.clear();
        self.outputs.clear();
        // A record may have been far larger than what is kept for usual.
        self.bytes.shrink_to(MOST_BYTES);
    }

    /// Keeps what an output comes of, once for all outputs of a record; the output's tag.
    pub(super) fn keep(&mut self, origin: Origin<'_>, sink: &Arc<SinkRoute>) -> u64 {
        if !self.is_last(origin) {
            self.keep_record(origin);
        }
        self.outputs.push((self.records.len() - 1, Arc::clone(sink)));
        self.first + self.outputs.len() as u64 - 1
    }

    /// Whether the record that was kept last is this one.
    fn is_last(&self, origin: Origin<'_>) -> bool {
        let Some(last) = self.records.last().filter(|last| last.task == origin.task) else { return false };
        match (&last.source, origin.input()) {
            (Some((topic, partition, offset)), Some(input)) => {
                let front = input.queue.head().map(|(offset, _)| offset);
                Arc::ptr_eq(topic, &input.topic) && *partition == input.partition && Some(*offset) == front
            }
            _ => false,
        }
    }

    fn keep_record(&mut self, origin: Origin<'_>) {
        let subject = origin.subject();
        let mut copy = |bytes: Option<&[u8]>| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(bytes?);
            Some(start..self.bytes.len())
        };
        let (key, value) = (copy(subject.key), copy(subject.value));
        let source = origin.input().zip(subject.source);
        self.records.push(Kept {
            task: origin.task,
            source: source.map(|(input, place)| (Arc::clone(&input.topic), place.partition, place.offset)),
            key,
            value,
            headers: subject.headers,
            timestamp: subject.timestamp,
        });
    }

    /// What an output was of, and its sink.
    pub(super) fn find(&self, tag: u64) -> Option<(Subject<'_>, &SinkRoute)> {
        let at = usize::try_from(tag.checked_sub(self.first)?).ok()?;
        let (record, sink) = self.outputs.get(at)?;
        let kept = self.records.get(*record)?;
        let bytes = |range: &Option<Range<usize>>| range.as_ref().and_then(|r| self.bytes.get(r.clone()));
        let source = kept.source.as_ref();
        let subject = Subject {
            task: kept.task,
            source: source.map(|(topic, p, o)| RecordMetadata { topic, partition: *p, offset: *o }),
            key: bytes(&kept.key),
            value: bytes(&kept.value),
            headers: kept.headers.clone(),
            timestamp: kept.timestamp,
        };
        Some((subject, sink))
    }
}

/// The outputs that were refused since the last commit, by what is in them: each output's tag is a hash of it. When its
/// transaction is done again, and the same output comes again, it is known that it will be refused.
#[derive(Default)]
pub(super) struct Contents {
    /// Seeded anew for each producer, so that nobody can make two outputs alike on purpose.
    hashes: DefaultHashBuilder,
    refused: Vec<Known>,
    /// Transactions that were given up because of an output that was not known, since the last one of these came again for
    /// the first time. An output that comes in each of them says nothing about the others.
    in_vain: u32,
    /// Commits without a known one since the last of these transactions.
    clean: u32,
    /// A known one has come: what it holds up should be committed soon.
    met: bool,
}

/// Records of an interval where a refused output has not come again, eight times fewer each time that it still does not.
const SEARCHED: usize = 1 << 12;
/// After so many such intervals in a row without it, it does not come any more. In those of one record all tasks of the worker
/// have a turn before it is the same one's again.
const ENOUGH: u32 = 64;

/// An output that was refused.
struct Known {
    tag: u64,
    error: broker::Error,
    /// It has come again.
    met: bool,
}

impl Contents {
    /// The tag of an output.
    pub(super) fn tag(&self, record: &Outgoing<'_>) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        (record.topic.0, record.partition, record.timestamp, record.key, record.value).hash(&mut hasher);
        for header in record.headers {
            (header.name, header.value).hash(&mut hasher);
        }
        // The topmost bit keeps it apart from the tags that mean something else.
        hasher.finish() | 1 << 63
    }

    /// Why this output was refused before.
    pub(super) fn known(&mut self, tag: u64) -> Option<broker::Error> {
        let known = self.refused.iter_mut().find(|known| known.tag == tag)?;
        if !std::mem::replace(&mut known.met, true) {
            self.in_vain = 0;
        }
        self.met = true;
        Some(known.error.clone())
    }

    pub(super) fn remember(&mut self, tag: u64, error: &broker::Error) {
        if !self.refused.iter().any(|known| known.tag == tag) {
            self.refused.push(Known { tag, error: error.clone(), met: false });
        }
    }

    /// The transaction is given up; how often that was in vain so far.
    pub(super) fn give_up(&mut self) -> u32 {
        self.in_vain += 1;
        self.clean = 0;
        self.in_vain
    }

    /// How many records the next interval may have, if a refused output is searched for. What one record makes comes again in
    /// whatever interval. What came out of a cache is made of all records of its interval, which has others when it is done
    /// again: in shorter intervals, and at last in those of one record, it is the same again.
    pub(super) fn most_records(&self) -> Option<usize> {
        let narrowed = self.in_vain.checked_sub(2)?;
        Some(SEARCHED.checked_shr(narrowed.saturating_mul(3)).unwrap_or_default().max(1))
    }

    pub(super) fn committed(&mut self) {
        self.clean += 1;
        if self.most_records().is_none() || self.clean >= ENOUGH {
            self.refused.clear();
            (self.in_vain, self.clean) = (0, 0);
        }
    }

    pub(super) fn take_met(&mut self) -> bool {
        std::mem::take(&mut self.met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given_up(times: u32) -> Contents {
        let mut contents = Contents::default();
        for _ in 0..times {
            contents.give_up();
        }
        contents
    }

    #[test]
    fn intervals_become_shorter_as_long_as_no_refused_output_comes_again() {
        let most: Vec<_> = (0..=8).map(|times| given_up(times).most_records()).collect();
        assert_eq!(most, [None, None, Some(4096), Some(512), Some(64), Some(8), Some(1), Some(1), Some(1)]);
    }

    #[test]
    fn they_stay_short_over_commits_until_it_has_come_or_comes_no_more() {
        let error = broker::Error::new(broker::ErrorKind::Refused, "write a record");
        let mut contents = given_up(4);
        contents.remember(7, &error);
        contents.committed();
        assert_eq!(contents.most_records(), Some(64));
        assert!(contents.known(7).is_some(), "it is remembered over commits");
        assert_eq!(contents.most_records(), None);
        contents.committed();
        assert!(contents.known(7).is_none());

        let mut contents = given_up(4);
        contents.remember(7, &error);
        (1..ENOUGH).for_each(|_| contents.committed());
        assert_eq!(contents.most_records(), Some(64));
        contents.committed();
        assert!(contents.most_records().is_none() && contents.known(7).is_none());
    }
}
