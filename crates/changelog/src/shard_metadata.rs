//! What a shard keeps beside its rows: the offsets that its state stands for, in one versioned blob.

use millpond_broker_api::Offset;

use crate::wire::{Reader, put_str, put_uleb};
use crate::{Error, ErrorKind, Result};

const VERSION: u8 = 1;
const RESTORING: u8 = 1;

/// The positions that a shard's rows stand for; applied with each batch, in the same atomic write.
///
/// The engine stores the [encoded](ShardMetadata::encode) form without reading it (see `docs/formats/shard-metadata.md`).
/// All offsets are *next* offsets. Setting what is there already allocates nothing; entries are kept in order, so that
/// equal metadata have equal bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardMetadata {
    /// The timeline that the shard belongs to: raised by each rollback of the application.
    pub timeline: u32,
    /// The last cut that the task took.
    pub generation: u64,
    /// Wall-clock milliseconds since 1970 when the batch was made; 0 if unknown. Tells how old the state is.
    pub written_ms: i64,
    /// A restore is under way: rows and positions need not agree, the state is not complete.
    pub restoring: bool,
    /// By name.
    topics: Vec<Topic>,
    /// Observed stream times, by store name.
    stores: Vec<(Box<str>, i64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Topic {
    name: Box<str>,
    /// 0: unknown.
    id: u128,
    /// Next offsets by partition.
    changelogs: Vec<(i32, Offset)>,
    inputs: Vec<(i32, Offset)>,
}

/// How far a shard has followed a changelog partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangelogPosition<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The topic's id when the position was taken (KIP-516); 0 if it was not known.
    pub topic_id: u128,
    /// The partition.
    pub partition: i32,
    /// The offset after the last record that the rows include.
    pub next: Offset,
}

impl ShardMetadata {
    /// The position in a changelog partition; `None`: the rows of its store stand for nothing.
    pub fn changelog(&self, topic: &str, partition: i32) -> Option<ChangelogPosition<'_>> {
        let topic = self.topic(topic)?;
        let next = get(&topic.changelogs, partition)?;
        Some(ChangelogPosition { topic: &topic.name, topic_id: topic.id, partition, next })
    }

    /// All positions in changelogs, by topic and partition.
    pub fn changelogs(&self) -> impl Iterator<Item = ChangelogPosition<'_>> {
        self.topics.iter().flat_map(|topic| {
            topic.changelogs.iter().map(|&(partition, next)| ChangelogPosition {
                topic: &topic.name,
                topic_id: topic.id,
                partition,
                next,
            })
        })
    }

    /// Sets the position in a changelog partition. An id of 0 leaves a known id as it is.
    pub fn set_changelog(&mut self, topic: &str, topic_id: u128, partition: i32, next: Offset) {
        let topic = self.topic_mut(topic);
        if topic_id != 0 {
            topic.id = topic_id;
        }
        set(&mut topic.changelogs, partition, next);
    }

    /// Forgets the position in a changelog partition: the store has to be restored from the start.
    pub fn forget_changelog(&mut self, topic: &str, partition: i32) {
        if let Ok(i) = self.find(topic)
            && let Some(topic) = self.topics.get_mut(i)
        {
            topic.changelogs.retain(|(p, _)| *p != partition);
            if topic.changelogs.is_empty() && topic.inputs.is_empty() {
                self.topics.remove(i);
            }
        }
    }

    /// The next offset of an input partition.
    pub fn input(&self, topic: &str, partition: i32) -> Option<Offset> {
        get(&self.topic(topic)?.inputs, partition)
    }

    /// The next offsets of all input partitions, by topic and partition.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, i32, Offset)> {
        self.topics
            .iter()
            .flat_map(|topic| topic.inputs.iter().map(|&(partition, next)| (&*topic.name, partition, next)))
    }

    /// Sets the next offset of an input partition.
    pub fn set_input(&mut self, topic: &str, partition: i32, next: Offset) {
        set(&mut self.topic_mut(topic).inputs, partition, next);
    }

    /// The largest event time (milliseconds) that a store has seen: of windows their start, of sessions their end, of other
    /// rows their own. It serves expiry and readers; a task's own time comes from the commit metadata.
    pub fn stream_time(&self, store: &str) -> Option<i64> {
        let i = self.stores.binary_search_by(|(name, _)| (**name).cmp(store)).ok()?;
        self.stores.get(i).map(|(_, time)| *time)
    }

    /// All observed stream times, by store.
    pub fn stream_times(&self) -> impl Iterator<Item = (&str, i64)> {
        self.stores.iter().map(|(name, time)| (&**name, *time))
    }

    /// Raises the observed stream time of a store; a smaller time changes nothing.
    pub fn observe(&mut self, store: &str, time: i64) {
        match self.stores.binary_search_by(|(name, _)| (**name).cmp(store)) {
            Ok(i) => {
                if let Some((_, seen)) = self.stores.get_mut(i) {
                    *seen = time.max(*seen);
                }
            }
            Err(i) => self.stores.insert(i, (store.into(), time)),
        }
    }

    /// Forgets the observed stream time of a store, whose rows are gone.
    pub fn forget_stream_time(&mut self, store: &str) {
        self.stores.retain(|(name, _)| **name != *store);
    }

    /// Replaces `out` by the blob; allocates nothing but room in `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&[VERSION, if self.restoring { RESTORING } else { 0 }]);
        out.extend_from_slice(&self.timeline.to_be_bytes());
        put_uleb(out, self.generation);
        out.extend_from_slice(&self.written_ms.to_be_bytes());
        put_uleb(out, self.topics.len() as u64);
        for topic in &self.topics {
            put_str(out, &topic.name);
            out.extend_from_slice(&topic.id.to_be_bytes());
            put_positions(out, &topic.changelogs);
            put_positions(out, &topic.inputs);
        }
        put_uleb(out, self.stores.len() as u64);
        for (store, time) in &self.stores {
            put_str(out, store);
            out.extend_from_slice(&time.to_be_bytes());
        }
    }

    /// Reads a blob. [`ErrorKind::Future`]: a later version of this library wrote it. [`ErrorKind::Corrupt`]: nothing that
    /// [`ShardMetadata::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut read = Reader::new(bytes);
        let damaged = || Error::new(ErrorKind::Corrupt, "read a shard's metadata").with("bytes", bytes.len());
        match read.u8().ok_or_else(damaged)? {
            VERSION => {}
            0 => return Err(damaged()),
            version => {
                return Err(Error::new(ErrorKind::Future, "read a shard's metadata")
                    .with("version", version)
                    .with("known", VERSION)
                    .with("remedy", "run the version that wrote it, or a later one"));
            }
        }
        decode_v1(&mut read).filter(|_| read.left() == 0).ok_or_else(damaged)
    }

    fn find(&self, topic: &str) -> std::result::Result<usize, usize> {
        self.topics.binary_search_by(|t| (*t.name).cmp(topic))
    }

    fn topic(&self, topic: &str) -> Option<&Topic> {
        self.topics.get(self.find(topic).ok()?)
    }

    fn topic_mut(&mut self, name: &str) -> &mut Topic {
        let i = self.find(name).unwrap_or_else(|i| {
            let topic = Topic { name: name.into(), id: 0, changelogs: Vec::new(), inputs: Vec::new() };
            self.topics.insert(i, topic);
            i
        });
        self.topics.get_mut(i).expect("found or inserted at this place")
    }
}

fn decode_v1(read: &mut Reader<'_>) -> Option<ShardMetadata> {
    let restoring = match read.u8()? {
        0 => false,
        RESTORING => true,
        _ => return None,
    };
    let mut metadata = ShardMetadata {
        timeline: read.u32()?,
        generation: read.uleb()?,
        written_ms: read.i64()?,
        restoring,
        ..ShardMetadata::default()
    };
    for _ in 0..read.uleb::<u64>()? {
        let name = read.str()?;
        let topic =
            Topic { name: name.into(), id: read.u128()?, changelogs: positions(read)?, inputs: positions(read)? };
        let in_order = metadata.topics.last().is_none_or(|last| *last.name < *name);
        let in_use = !(topic.changelogs.is_empty() && topic.inputs.is_empty());
        (in_order && in_use).then_some(())?;
        metadata.topics.push(topic);
    }
    for _ in 0..read.uleb::<u64>()? {
        let name = read.str()?;
        metadata.stores.last().is_none_or(|(last, _)| **last < *name).then_some(())?;
        metadata.stores.push((name.into(), read.i64()?));
    }
    Some(metadata)
}

fn put_positions(out: &mut Vec<u8>, positions: &[(i32, Offset)]) {
    put_uleb(out, positions.len() as u64);
    for (partition, next) in positions {
        put_uleb(out, *partition as u64);
        put_uleb(out, *next as u64);
    }
}

fn positions(read: &mut Reader<'_>) -> Option<Vec<(i32, Offset)>> {
    let mut positions: Vec<(i32, Offset)> = Vec::new();
    for _ in 0..read.uleb::<u64>()? {
        let partition = i32::try_from(read.uleb::<u32>()?).ok()?;
        let next = read.uleb()?;
        positions.last().is_none_or(|(last, _)| *last < partition).then_some(())?;
        positions.push((partition, next));
    }
    Some(positions)
}

fn get(positions: &[(i32, Offset)], partition: i32) -> Option<Offset> {
    let i = positions.binary_search_by_key(&partition, |(p, _)| *p).ok()?;
    positions.get(i).map(|(_, next)| *next)
}

/// Partitions and offsets are never negative in Kafka; a negative one counts as 0, the position that loses nothing.
fn set(positions: &mut Vec<(i32, Offset)>, partition: i32, next: Offset) {
    let (partition, next) = (partition.max(0), next.max(0));
    match positions.binary_search_by_key(&partition, |(p, _)| *p) {
        Ok(i) => {
            if let Some((_, at)) = positions.get_mut(i) {
                *at = next;
            }
        }
        Err(i) => positions.insert(i, (partition, next)),
    }
}

#[cfg(test)]
mod tests;
