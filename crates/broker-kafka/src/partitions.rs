//! Questions to the leaders of partitions: as few requests as possible, and an answer per item.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{BrokerId, DeleteRecordsRequest, ListOffsetsRequest, TopicName};
use millpond_broker_api::membership::code;
use millpond_broker_api::{At, Error, ErrorKind, Offset, Result};

use crate::deadline::Deadline;
use crate::error;
use crate::wire::{Backoff, Cluster, Leader, Node, To, millis, text};

const ASK: &str = "ask for offsets";
const DELETE: &str = "delete records";

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const LEADER_NOT_AVAILABLE: i16 = 5;
const INVALID_TOPIC_EXCEPTION: i16 = 17;

/// A partition, and what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item<'a, Q> {
    topic: &'a str,
    partition: i32,
    question: Q,
    /// Of the leader that is asked; -1 before it is known.
    epoch: i32,
}

impl<'a, Q> Item<'a, Q> {
    /// A question to the leader of a partition.
    pub(crate) fn new(topic: &'a str, partition: i32, question: Q) -> Self {
        Self { topic, partition, question, epoch: -1 }
    }

    /// Another question to the same partition.
    fn asking<P>(&self, question: P) -> Item<'a, P> {
        Item::new(self.topic, self.partition, question)
    }
}

/// What ListOffsets is asked: a time stands for itself, -1 for the end, -2 for the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    isolation: i8,
    timestamp: i64,
}

const START: Place = Place { isolation: 0, timestamp: -2 };
const END: Place = Place { isolation: 0, timestamp: -1 };
const STABLE_END: Place = Place { isolation: 1, timestamp: -1 };

/// Offsets of partitions. Who leads is asked first, each time: a leader of long ago that has not noticed would answer with an
/// end of long ago.
pub(crate) fn offsets(cluster: &mut Cluster, of: &[Item<'_, At>], deadline: &Deadline) -> Vec<Result<Offset>> {
    of.iter().for_each(|item| cluster.forget_leaders(item.topic));
    // For a time also the end is asked, and first: what comes in between is behind it.
    let first: Vec<_> = of
        .iter()
        .map(|item| match item.question {
            At::Start => item.asking(START),
            At::End | At::Time(_) => item.asking(END),
            At::StableEnd => item.asking(STABLE_END),
        })
        .collect();
    let mut answers = ask_leaders(cluster, &first, deadline, ASK, list);
    let (mut places, mut times) = (Vec::new(), Vec::new());
    for (place, item) in of.iter().enumerate() {
        if let (At::Time(timestamp), Some(Ok(_))) = (item.question, answers.get(place)) {
            places.push(place);
            times.push(item.asking(Place { isolation: 0, timestamp: timestamp.max(0) }));
        }
    }
    let found = ask_leaders(cluster, &times, deadline, ASK, list);
    for (place, found) in places.into_iter().zip(found) {
        // -1: there is no such record, so the end stays the answer.
        if let (Some(answer), true) = (answers.get_mut(place), !matches!(found, Ok(-1))) {
            *answer = found;
        }
    }
    answers
}

/// Deletes records below offsets; answers with the new starts.
pub(crate) fn delete_records(
    cluster: &mut Cluster,
    below: &[Item<'_, Offset>],
    deadline: &Deadline,
) -> Vec<Result<Offset>> {
    ask_leaders(cluster, below, deadline, DELETE, delete)
}

/// The answers of one leader, by topic and partition: a code and an offset.
type Answers = BTreeMap<(String, i32), (i16, Offset)>;

fn list(cluster: &mut Cluster, leader: Node, items: &[Item<'_, Place>]) -> Result<Answers> {
    let partition = |item: &Item<'_, Place>| {
        ListOffsetsPartition::default()
            .with_partition_index(item.partition)
            .with_current_leader_epoch(item.epoch)
            .with_timestamp(item.question.timestamp)
    };
    let topic =
        |(name, partitions)| ListOffsetsTopic::default().with_name(TopicName(text(name))).with_partitions(partitions);
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_isolation_level(items.first().map_or(0, |item| item.question.isolation))
        .with_topics(by_topic(items, partition).into_iter().map(topic).collect());
    let answer = cluster.call(To::Node(leader), cluster.request_deadline(), |_| request)?;
    let rows = answer.topics.iter().flat_map(|t| t.partitions.iter().map(|p| (t.name.to_string(), p)));
    Ok(rows.map(|(topic, p)| ((topic, p.partition_index), (p.error_code, p.offset))).collect())
}

fn delete(cluster: &mut Cluster, leader: Node, items: &[Item<'_, Offset>]) -> Result<Answers> {
    let partition = |item: &Item<'_, Offset>| {
        DeleteRecordsPartition::default().with_partition_index(item.partition).with_offset(item.question)
    };
    let topic =
        |(name, partitions)| DeleteRecordsTopic::default().with_name(TopicName(text(name))).with_partitions(partitions);
    let request = DeleteRecordsRequest::default()
        .with_timeout_ms(millis(cluster.settings().request_limit))
        .with_topics(by_topic(items, partition).into_iter().map(topic).collect());
    let answer = cluster.call(To::Node(leader), cluster.request_deadline(), |_| request)?;
    let rows = answer.topics.iter().flat_map(|t| t.partitions.iter().map(|p| (t.name.to_string(), p)));
    Ok(rows.map(|(topic, p)| ((topic, p.partition_index), (p.error_code, p.low_watermark))).collect())
}

fn by_topic<'a, Q, T>(items: &[Item<'a, Q>], of: impl Fn(&Item<'a, Q>) -> T) -> BTreeMap<&'a str, Vec<T>> {
    let mut topics: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for item in items {
        topics.entry(item.topic).or_default().push(of(item));
    }
    topics
}

/// What tells which questions fit into one request: it has one isolation, and each partition once.
trait Question: Copy {
    /// Questions of different classes do not go together.
    fn class(self) -> i8;
}

impl Question for Place {
    fn class(self) -> i8 {
        self.isolation
    }
}

impl Question for Offset {
    fn class(self) -> i8 {
        0
    }
}

/// Asks the leaders of all items, again and again while the answers are retriable; then the last of these is the answer.
fn ask_leaders<Q: Question>(
    cluster: &mut Cluster,
    items: &[Item<'_, Q>],
    deadline: &Deadline,
    op: &'static str,
    ask: fn(&mut Cluster, Node, &[Item<'_, Q>]) -> Result<Answers>,
) -> Vec<Result<Offset>> {
    let mut answers: Vec<Option<Result<Offset>>> = vec![None; items.len()];
    let mut backoff = Backoff::new();
    loop {
        let open: Vec<_> = items.iter().zip(&mut answers).filter(|(_, answer)| is_open(answer.as_ref())).collect();
        if open.is_empty() {
            break;
        }
        one_round(cluster, open, op, ask);
        if answers.iter().all(|answer| !is_open(answer.as_ref())) || !backoff.pause(deadline) {
            break;
        }
    }
    let unasked = || Err(Error::new(ErrorKind::Retriable, op));
    answers.into_iter().map(|answer| answer.unwrap_or_else(unasked)).collect()
}

fn is_open(answer: Option<&Result<Offset>>) -> bool {
    answer.is_none_or(|answer| answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::Retriable))
}

/// Where the answer to an item goes.
type Answer<'i> = &'i mut Option<Result<Offset>>;
type Open<'i, 'a, Q> = (&'i Item<'a, Q>, Answer<'i>);
/// What one request asks, with the epochs of its leader.
type Batch<'i, 'a, Q> = Vec<(Item<'a, Q>, Answer<'i>)>;

/// Asks each leader once (per isolation, and per repeated partition).
fn one_round<Q: Question>(
    cluster: &mut Cluster,
    open: Vec<Open<'_, '_, Q>>,
    op: &'static str,
    ask: fn(&mut Cluster, Node, &[Item<'_, Q>]) -> Result<Answers>,
) {
    let leader = |item: &Item<'_, Q>| cluster.leader(item.topic, item.partition);
    let topics: BTreeSet<&str> = open.iter().filter(|(i, _)| leader(i).is_none()).map(|(i, _)| i.topic).collect();
    let leaders = Leaders::ask(cluster, &topics.into_iter().collect::<Vec<_>>());
    let mut batches: BTreeMap<(Node, i8, usize), Batch<'_, '_, Q>> = BTreeMap::new();
    let mut repeated: BTreeMap<(&str, i32, i8), usize> = BTreeMap::new();
    for (item, answer) in open {
        let known = cluster.leader(item.topic, item.partition).map(Ok);
        match known.unwrap_or_else(|| leaders.of(op, item.topic, item.partition)) {
            Ok(Leader { node, epoch }) => {
                let class = item.question.class();
                let layer = repeated.entry((item.topic, item.partition, class)).or_default();
                batches.entry((node, class, *layer)).or_default().push((Item { epoch, ..*item }, answer));
                *layer += 1;
            }
            Err(e) => *answer = Some(Err(e)),
        }
    }
    for ((leader, ..), batch) in batches {
        let items: Vec<_> = batch.iter().map(|(item, _)| *item).collect();
        let got = ask(cluster, leader, &items);
        for (item, answer) in batch {
            let found = got.as_ref().map_err(Clone::clone).and_then(|got| {
                let row = got.get(&(item.topic.to_owned(), item.partition));
                outcome(op, row.copied())
            });
            if found.as_ref().is_err_and(|e| e.kind() == ErrorKind::Retriable) {
                cluster.forget_leaders(item.topic);
            }
            *answer = Some(found.map_err(|e| e.with("topic", item.topic).with("partition", item.partition)));
        }
    }
}

fn outcome(op: &'static str, row: Option<(i16, Offset)>) -> Result<Offset> {
    match row {
        Some((code::NONE, offset)) => Ok(offset),
        // The metadata know the partition, so its leader will, or the metadata will not.
        Some((code @ UNKNOWN_TOPIC_OR_PARTITION, _)) => Err(error::named(ErrorKind::Retriable, op, code)),
        Some((code, _)) => Err(error::of_broker(op, code)),
        None => Err(Error::new(ErrorKind::Retriable, op).with("what", "no answer for the partition")),
    }
}

/// Who leads partitions whose leader was not known, by the metadata of now.
struct Leaders {
    answer: Result<BTreeMap<String, Topic>>,
}

/// Error codes of a topic and of its partitions, and their leaders.
type Topic = (i16, BTreeMap<i32, (i16, Leader)>);

impl Leaders {
    fn ask(cluster: &mut Cluster, topics: &[&str]) -> Self {
        if topics.is_empty() {
            return Self { answer: Ok(BTreeMap::new()) };
        }
        let answer = cluster.metadata(topics).map(|answer| {
            let topics = answer.topics.into_iter().map(|topic| {
                let row = |p: &kafka_protocol::messages::metadata_response::MetadataResponsePartition| {
                    (p.partition_index, (p.error_code, Leader { node: p.leader_id.0, epoch: p.leader_epoch }))
                };
                let name = topic.name.map_or_else(String::new, |name| name.to_string());
                (name, (topic.error_code, topic.partitions.iter().map(row).collect()))
            });
            topics.collect()
        });
        Self { answer }
    }

    fn of(&self, op: &'static str, topic: &str, partition: i32) -> Result<Leader> {
        let error = |code| error::of_broker(op, code).with("topic", topic).with("partition", partition);
        let topics = self.answer.as_ref().map_err(Clone::clone)?;
        let (code, partitions) = topics.get(topic).ok_or_else(|| error(UNKNOWN_TOPIC_OR_PARTITION))?;
        match *code {
            code::NONE => {}
            // A name that no topic can have.
            INVALID_TOPIC_EXCEPTION => {
                return Err(error::named(ErrorKind::UnknownTopic, op, *code).with("topic", topic));
            }
            code => return Err(error(code)),
        }
        match partitions.get(&partition) {
            None => Err(error(UNKNOWN_TOPIC_OR_PARTITION)),
            Some((_, leader)) if leader.node >= 0 => Ok(*leader),
            Some((code::NONE, _)) => Err(error(LEADER_NOT_AVAILABLE)),
            Some((code, _)) => Err(error(*code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaders() -> Leaders {
        let leader = |node| Leader { node, epoch: 4 };
        let rows = [(0, (0, leader(7))), (1, (5, leader(-1))), (2, (0, leader(-1))), (3, (9, leader(8)))];
        let partitions = BTreeMap::from(rows);
        let topics = [
            ("t", (0, partitions)),
            ("gone", (3, BTreeMap::new())),
            ("secret", (29, BTreeMap::new())),
            ("no name", (17, BTreeMap::new())),
        ];
        Leaders { answer: Ok(topics.into_iter().map(|(name, row)| (name.to_owned(), row)).collect()) }
    }

    #[test]
    fn leaders_are_known_or_awaited_or_unknown() {
        let leaders = leaders();
        let kind = |topic, partition| leaders.of(ASK, topic, partition).map(|l| l.node).map_err(|e| e.kind());
        assert_eq!(kind("t", 0), Ok(7));
        assert_eq!(kind("t", 1), Err(ErrorKind::Retriable));
        assert_eq!(kind("t", 2), Err(ErrorKind::Retriable));
        assert_eq!(kind("t", 3), Ok(8), "a replica is missing, not the leader");
        assert_eq!(kind("t", 4), Err(ErrorKind::UnknownTopic));
        assert_eq!(kind("gone", 0), Err(ErrorKind::UnknownTopic));
        assert_eq!(kind("never", 0), Err(ErrorKind::UnknownTopic));
        assert_eq!(kind("no name", 0), Err(ErrorKind::UnknownTopic));
        assert_eq!(kind("secret", 0), Err(ErrorKind::Fatal));
        let unreachable = Leaders { answer: Err(Error::new(ErrorKind::Retriable, "connect")) };
        assert_eq!(unreachable.of(ASK, "t", 0).unwrap_err().kind(), ErrorKind::Retriable);
    }

    #[test]
    fn a_leader_that_does_not_know_the_partition_yet_is_asked_again() {
        let kind = |row| outcome(ASK, row).map_err(|e| e.kind());
        assert_eq!(kind(Some((0, 4))), Ok(4));
        assert_eq!(kind(Some((3, -1))), Err(ErrorKind::Retriable));
        assert_eq!(kind(Some((6, -1))), Err(ErrorKind::Retriable));
        assert_eq!(kind(Some((1, -1))), Err(ErrorKind::OutOfRange));
        assert_eq!(kind(Some((44, -1))), Err(ErrorKind::Refused));
        assert_eq!(kind(None), Err(ErrorKind::Retriable));
    }

    #[test]
    fn only_what_is_retriable_stays_open() {
        assert!(is_open(None));
        assert!(is_open(Some(&Err(Error::new(ErrorKind::Retriable, ASK)))));
        assert!(!is_open(Some(&Err(Error::new(ErrorKind::UnknownTopic, ASK)))));
        assert!(!is_open(Some(&Ok(0))));
    }
}
