//! What a producer was given and has not been told the end of: batches being built, answers that were lost, the report.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::{Delivered, Error, ErrorKind, Failure, Outgoing, Result, TopicId};

use crate::faults::Op;
use crate::segment::Segment;
use crate::state::{Effect, Guard, Shared, State};
use crate::topics::{LogId, unknown};
use crate::transactions::Session;

const SEND: &str = "send";
const FLUSH: &str = "flush";

/// A producer's records on their way.
#[derive(Default)]
pub(crate) struct Buffer {
    topics: Vec<Topic>,
    /// The partitions with something to write or to be answered, in the order in which they got it.
    dirty: Vec<(TopicId, i32)>,
    /// Bytes that wait to be written.
    bytes: usize,
    pub(crate) report: Report,
}

/// A topic that has a number.
struct Topic {
    name: Arc<str>,
    /// Empty: not looked up yet, or deleted since.
    partitions: Vec<Partition>,
}

/// What waits for one partition.
struct Partition {
    log: LogId,
    segment: Segment,
    tags: Vec<u64>,
    /// Records that were written, whose answer was lost.
    unanswered: usize,
    /// Records and bytes of the last batch, and a little: the next one will be like it.
    like: (usize, usize),
}

/// What a flush reports.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) delivered: Vec<Delivered>,
    pub(crate) failed: Vec<Failure>,
}

impl Report {
    pub(crate) fn clear(&mut self) {
        self.delivered.clear();
        self.failed.clear();
    }

    fn add(&mut self, (topic, partition): (TopicId, i32), records: usize, next: Option<i64>) {
        let records = records as u64;
        match self.delivered.iter_mut().find(|d| d.topic == topic && d.partition == partition) {
            Some(row) => (row.records, row.next) = (row.records + records, next),
            None => self.delivered.push(Delivered { topic, partition, records, next }),
        }
    }

    fn fail(&mut self, (topic, partition): (TopicId, i32), tags: &[u64], error: &Error) {
        let failure = |tag: &u64| Failure { topic, partition, tag: *tag, error: error.clone() };
        self.failed.extend(tags.iter().map(failure));
    }
}

impl Buffer {
    /// The number of a topic.
    pub(crate) fn topic(&mut self, name: &str) -> TopicId {
        let at = self.topics.iter().position(|t| &*t.name == name).unwrap_or_else(|| {
            self.topics.push(Topic { name: name.into(), partitions: Vec::new() });
            self.topics.len() - 1
        });
        TopicId(at as u32)
    }

    /// Bytes that wait to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Records without an answer.
    pub(crate) fn outstanding(&self) -> usize {
        let of = |place: &(TopicId, i32)| self.get(*place).map_or(0, |p| p.segment.len() + p.unanswered);
        self.dirty.iter().map(of).sum()
    }

    /// Forgets all that is on its way, and the report.
    pub(crate) fn discard(&mut self) {
        for place in std::mem::take(&mut self.dirty) {
            if let Some(partition) = self.get_mut(place) {
                (partition.segment, partition.unanswered) = (Segment::default(), 0);
                partition.tags.clear();
            }
        }
        self.bytes = 0;
        self.report.clear();
    }

    /// Makes sure that a partition is there.
    #[inline]
    pub(crate) fn find(&mut self, topic: TopicId, partition: i32, shared: &Shared) -> Result<()> {
        if self.get((topic, partition)).is_some() { Ok(()) } else { self.look_up(topic, partition, shared) }
    }

    #[cold]
    fn look_up(&mut self, id: TopicId, partition: i32, shared: &Shared) -> Result<()> {
        let topic = self.topics.get_mut(id.0 as usize);
        let topic = topic.ok_or_else(|| Error::new(ErrorKind::Fatal, SEND).with("unknown topic number", id.0))?;
        if topic.partitions.is_empty() {
            let state = shared.lock();
            let found = state.topics.get(&topic.name).ok_or_else(|| unknown(SEND, &topic.name))?;
            let empty = |log: &LogId| Partition {
                log: *log,
                segment: Segment::default(),
                tags: Vec::new(),
                unanswered: 0,
                like: (8, 512),
            };
            topic.partitions = found.logs.iter().map(empty).collect();
        }
        match usize::try_from(partition).ok().and_then(|at| topic.partitions.get(at)) {
            Some(_) => Ok(()),
            None => Err(unknown(SEND, &topic.name).with("partition", partition)),
        }
    }

    /// Takes a copy of a record for a partition that was found.
    #[inline]
    pub(crate) fn push(&mut self, record: &Outgoing<'_>) {
        let place = (record.topic, record.partition);
        let Some(partition) = get_mut(&mut self.topics, place) else { return };
        if partition.segment.len() == 0 {
            if partition.unanswered == 0 {
                self.dirty.push(place);
            }
            let (records, bytes) = partition.like;
            partition.segment = Segment::like(records, bytes);
        }
        partition.tags.push(record.tag);
        self.bytes += partition.segment.push(record.timestamp, record.key, record.value, record.headers);
    }

    /// Writes all that waits, for the holder of a transactional id or for nobody. What gets no answer stays.
    pub(crate) fn write(
        &mut self,
        shared: &Shared,
        transaction: Option<(&str, Session)>,
        max_wait: Duration,
    ) -> Result<()> {
        let mut state = shared.lock();
        let deadline = shared.now().saturating_add(max_wait);
        let mut places = std::mem::take(&mut self.dirty);
        for &place in &places {
            // Asked for each partition, since the lock is given back while a late answer is waited for.
            if let Some((id, session)) = transaction
                && let Err(fenced) = state.transactions.held(FLUSH, id, session)
            {
                self.dirty = places;
                return Err(fenced);
            }
            let effect;
            let left = deadline.saturating_sub(shared.now());
            (state, effect) = self.ask(shared, state, place, transaction.map(|(id, _)| id), left);
            if !self.write_one(shared, &mut state, place, transaction, effect) {
                self.dirty.push(place);
            }
        }
        drop(state);
        shared.notify();
        if self.dirty.is_empty() {
            // The memory serves the next time.
            places.clear();
            self.dirty = places;
        }
        Ok(())
    }

    fn ask<'a>(
        &self,
        shared: &'a Shared,
        state: Guard<'a>,
        (topic, partition): (TopicId, i32),
        transactional_id: Option<&str>,
        max_wait: Duration,
    ) -> (Guard<'a>, Effect) {
        let topic = self.topics.get(topic.0 as usize).map_or("", |t| &t.name);
        shared.ask(state, Op::Append { transactional_id, topic, partition }, max_wait)
    }

    /// Writes what waits for one partition; answers whether all of it has an answer.
    fn write_one(
        &mut self,
        shared: &Shared,
        state: &mut State,
        place: (TopicId, i32),
        transaction: Option<(&str, Session)>,
        effect: Effect,
    ) -> bool {
        let Some(topic) = self.topics.get_mut(place.0.0 as usize) else { return true };
        let at = usize::try_from(place.1).unwrap_or(usize::MAX);
        let Some(partition) = topic.partitions.get_mut(at) else { return true };
        let name = |error: Error| error.with("topic", &topic.name).with("partition", place.1);
        let refused = match effect {
            Effect::Unheard | Effect::Refused(ErrorKind::Retriable) => return false,
            Effect::Refused(kind) => Some(Error::new(kind, FLUSH)),
            Effect::Done | Effect::Unanswered => partition.find(state, &topic.name, place.1).err(),
        };
        self.bytes = self.bytes.saturating_sub(partition.segment.byte_len());
        if let Some(error) = refused.map(name) {
            self.report.fail(place, &partition.tags, &error);
            partition.reset();
            return true;
        }
        let heard = matches!(effect, Effect::Done);
        if heard && partition.unanswered > 0 {
            // The repetition of a batch whose answer was lost: the log knows it, and tells no offset.
            self.report.add(place, std::mem::take(&mut partition.unanswered), None);
        }
        if partition.segment.len() > 0 {
            let (segment, tags) = partition.take();
            let report = &mut self.report;
            let fail = |at: usize, error| report.fail(place, tags.get(at..=at).unwrap_or_default(), &name(error));
            let written = state.append(partition.log, segment, transaction, shared.time.clock().wall_ms(), fail);
            partition.give_back(tags);
            match written {
                Some((records, next)) if heard => self.report.add(place, records, Some(next)),
                Some((records, _)) => partition.unanswered += records,
                None => {}
            }
        }
        partition.unanswered == 0
    }

    fn get(&self, place: (TopicId, i32)) -> Option<&Partition> {
        self.topics.get(place.0.0 as usize)?.partitions.get(usize::try_from(place.1).ok()?)
    }

    fn get_mut(&mut self, place: (TopicId, i32)) -> Option<&mut Partition> {
        get_mut(&mut self.topics, place)
    }
}

fn get_mut(topics: &mut [Topic], place: (TopicId, i32)) -> Option<&mut Partition> {
    topics.get_mut(place.0.0 as usize)?.partitions.get_mut(usize::try_from(place.1).ok()?)
}

impl Partition {
    /// Makes sure that the partition is still there: the topic may have been deleted, and created anew.
    fn find(&mut self, state: &State, topic: &str, partition: i32) -> Result<()> {
        if state.topics.log(self.log).is_none() {
            self.log = state.topics.find(topic, partition).ok_or_else(|| unknown(FLUSH, topic))?;
        }
        Ok(())
    }

    fn reset(&mut self) {
        (self.segment, self.unanswered) = (Segment::default(), 0);
        self.tags.clear();
    }

    fn take(&mut self) -> (Segment, Vec<u64>) {
        let (records, bytes) = (self.segment.len(), self.segment.byte_len());
        self.like = (records + records / 8 + 1, bytes + bytes / 8 + 64);
        (std::mem::take(&mut self.segment), std::mem::take(&mut self.tags))
    }

    /// The tags' memory serves the next batch.
    fn give_back(&mut self, mut tags: Vec<u64>) {
        tags.clear();
        self.tags = tags;
    }
}
