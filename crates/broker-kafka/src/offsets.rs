//! Committed offsets of groups, over the wire protocol.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use millpond_broker_api::membership::code;
use millpond_broker_api::{
    CommitOutcome, Committed, Error, ErrorKind, GroupOffset, GroupOffsets, Member, Result, Stable,
};

use crate::coordinators::{Coordinator, Coordinators};
use crate::deadline::Deadline;
use crate::error;
use crate::settings::WireSettings;
use crate::wire::{Backoff, Cluster, To, text};

#[cfg(test)]
mod tests;

const COMMIT: &str = "commit offsets";
const FETCH: &str = "fetch committed offsets";

/// A transaction that is not over holds the offset (KIP-447).
const UNSTABLE_OFFSET_COMMIT: i16 = 88;
const GROUP_ID_NOT_FOUND: i16 = 69;

/// Access to committed offsets, over connections of its own.
#[derive(Debug)]
pub(crate) struct KafkaOffsets {
    cluster: Cluster,
    /// Of members in this process: their word goes before what is found here.
    coordinators: Arc<Coordinators>,
}

impl KafkaOffsets {
    pub(crate) fn new(settings: Arc<WireSettings>, coordinators: Arc<Coordinators>) -> Self {
        Self { cluster: Cluster::new(settings), coordinators }
    }

    /// Makes sure that the coordinator is known and connected.
    fn reach(&mut self, op: &'static str, group: &str, deadline: &Deadline) -> Result<()> {
        match self.coordinators.of(group) {
            Some(Coordinator::Found(node, address)) => self.cluster.adopt_coordinator(group, node, address),
            Some(Coordinator::Sought) => {
                let error = Error::new(ErrorKind::Retriable, op).with("group", group);
                return Err(error.with("reason", "the member is looking for the group's coordinator"));
            }
            None if self.cluster.coordinator(group).is_some() => {}
            None => match self.cluster.find_coordinator(group, self.of_request(deadline))? {
                code::NONE => {}
                code => return Err(error::of_broker(op, code).with("group", group)),
            },
        }
        self.cluster.connect(To::Coordinator(group), deadline).inspect_err(|_| self.cluster.forget_coordinator(group))
    }

    /// When one request is given up: at the latest then.
    fn of_request(&self, deadline: &Deadline) -> Deadline {
        deadline.at_most(self.cluster.settings().request_limit)
    }

    fn try_commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], deadline: &Deadline) -> Attempt {
        if let Err(e) = self.reach(COMMIT, &member.group, deadline) {
            return Attempt::Refused(e);
        }
        let request = commit_request(member, offsets);
        let answer = match self.cluster.call(To::Coordinator(&member.group), self.of_request(deadline), |_| request) {
            Ok(answer) => answer,
            // A code comes from before the request was sent: versions, a login.
            Err(e) if error::code_of(&e).is_some() => return Attempt::Refused(e),
            Err(e) => return Attempt::Unanswered(e),
        };
        let partitions = || answer.topics.iter().flat_map(|t| t.partitions.iter().map(move |p| (t, p)));
        let Some((topic, partition)) = partitions().find(|(_, p)| p.error_code != code::NONE) else {
            return Attempt::Done;
        };
        let is_refused_whole = partitions().all(|(_, p)| p.error_code != code::NONE);
        let error = error::of_broker(COMMIT, partition.error_code)
            .with("group", &member.group)
            .with("topic", topic.name.as_str())
            .with("partition", partition.partition_index);
        match partition.error_code {
            // The coordinator says this also when its log does not answer in time.
            code::COORDINATOR_NOT_AVAILABLE => Attempt::Unanswered(error),
            _ if is_refused_whole => Attempt::Refused(error),
            _ => Attempt::Unanswered(error),
        }
    }

    fn try_fetch(&mut self, group: &str, of: &[(&str, i32)], deadline: &Deadline) -> Result<Stable> {
        self.reach(FETCH, group, deadline)?;
        let topics = by_topic(of.iter().map(|&(topic, partition)| (topic, partition)));
        let request = |version| fetch_request(group, &topics, version);
        let answer = self.cluster.call(To::Coordinator(group), self.of_request(deadline), request)?;
        let answer = Fetched::of(answer);
        match answer.code {
            code::NONE => answer.stable(of),
            GROUP_ID_NOT_FOUND => Ok(Stable::Offsets(vec![None; of.len()])),
            UNSTABLE_OFFSET_COMMIT => {
                let (topic, partition) = of.first().map_or((String::new(), -1), |(t, p)| ((*t).to_owned(), *p));
                Ok(Stable::Unstable { topic, partition })
            }
            code => Err(error::of_broker(FETCH, code)),
        }
        .map_err(|e| e.with("group", group))
    }
}

/// What became of one try to commit.
enum Attempt {
    Done,
    /// Nothing was committed.
    Refused(Error),
    /// Perhaps, or for some of the partitions.
    Unanswered(Error),
}

impl GroupOffsets for KafkaOffsets {
    fn commit(&mut self, member: &Member, offsets: &[GroupOffset<'_>], max_wait: Duration) -> CommitOutcome {
        if offsets.is_empty() {
            return CommitOutcome::Committed;
        }
        let (deadline, mut backoff) = (Deadline::after(max_wait), Backoff::new());
        let mut in_doubt = false;
        loop {
            let error = match self.try_commit(member, offsets, &deadline) {
                Attempt::Done => return CommitOutcome::Committed,
                Attempt::Refused(e) => e,
                Attempt::Unanswered(e) => {
                    in_doubt = true;
                    e
                }
            };
            if error.kind() == ErrorKind::MembershipLost {
                return CommitOutcome::Fenced(error);
            }
            if is_worth_repeating(&error) && backoff.pause(&deadline) {
                self.cluster.forget_coordinator(&member.group);
                continue;
            }
            match in_doubt {
                // An earlier try may have been taken: to repeat it does no harm, to deny it would.
                true => return CommitOutcome::Unknown(error),
                false => return CommitOutcome::Aborted(error),
            }
        }
    }

    fn fetch_stable(&mut self, group: &str, of: &[(&str, i32)], max_wait: Duration) -> Result<Stable> {
        if of.is_empty() {
            return Ok(Stable::Offsets(Vec::new()));
        }
        let (deadline, mut backoff) = (Deadline::after(max_wait), Backoff::new());
        loop {
            match self.try_fetch(group, of, &deadline) {
                Err(e) if e.kind() == ErrorKind::Retriable => {
                    self.cluster.forget_coordinator(group);
                    if !backoff.pause(&deadline) {
                        return Err(e);
                    }
                }
                answer => return answer,
            }
        }
    }
}

/// A rebalance is not waited for: the member has to take part in it.
fn is_worth_repeating(error: &Error) -> bool {
    error.kind() == ErrorKind::Retriable && error::code_of(error) != Some(code::REBALANCE_IN_PROGRESS)
}

/// Items of a request come by topic.
fn by_topic<'a, T>(items: impl Iterator<Item = (&'a str, T)>) -> BTreeMap<&'a str, Vec<T>> {
    let mut topics: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    for (topic, item) in items {
        topics.entry(topic).or_default().push(item);
    }
    topics
}

fn commit_request(member: &Member, offsets: &[GroupOffset<'_>]) -> OffsetCommitRequest {
    let partition = |offset: &GroupOffset<'_>| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(offset.partition)
            .with_committed_offset(offset.next)
            .with_committed_leader_epoch(offset.leader_epoch)
            .with_committed_metadata(Some(text(offset.metadata)))
    };
    let topics = by_topic(offsets.iter().map(|offset| (offset.topic, partition(offset))));
    let topic = |(name, partitions)| {
        OffsetCommitRequestTopic::default().with_name(TopicName(text(name))).with_partitions(partitions)
    };
    OffsetCommitRequest::default()
        .with_group_id(GroupId(text(&member.group)))
        .with_generation_id_or_member_epoch(member.generation)
        .with_member_id(text(&member.member_id))
        .with_group_instance_id(member.instance_id.as_deref().map(text))
        .with_topics(topics.into_iter().map(topic).collect())
}

fn fetch_request(group: &str, topics: &BTreeMap<&str, Vec<i32>>, version: i16) -> OffsetFetchRequest {
    let request = OffsetFetchRequest::default().with_require_stable(true);
    let group = GroupId(text(group));
    if version >= 8 {
        let topic = |(name, partitions): (&&str, &Vec<i32>)| {
            OffsetFetchRequestTopics::default()
                .with_name(TopicName(text(name)))
                .with_partition_indexes(partitions.clone())
        };
        let topics = topics.iter().map(topic).collect();
        request.with_groups(vec![OffsetFetchRequestGroup::default().with_group_id(group).with_topics(Some(topics))])
    } else {
        let topic = |(name, partitions): (&&str, &Vec<i32>)| {
            OffsetFetchRequestTopic::default()
                .with_name(TopicName(text(name)))
                .with_partition_indexes(partitions.clone())
        };
        request.with_group_id(group).with_topics(Some(topics.iter().map(topic).collect()))
    }
}

/// The answer to OffsetFetch, whatever its version.
struct Fetched {
    code: i16,
    partitions: BTreeMap<(String, i32), Partition>,
}

struct Partition {
    code: i16,
    committed: Option<Committed>,
}

impl Fetched {
    fn of(answer: OffsetFetchResponse) -> Self {
        let mut partitions = BTreeMap::new();
        let mut add = |topic: &TopicName, index, code, next, leader_epoch, metadata: Option<StrBytes>| {
            let metadata = metadata.map_or_else(String::new, |m| m.to_string());
            let committed = (next >= 0).then_some(Committed { next, leader_epoch, metadata });
            partitions.insert((topic.to_string(), index), Partition { code, committed });
        };
        let mut code = answer.error_code;
        for group in answer.groups {
            code = group.error_code;
            for topic in group.topics {
                for p in topic.partitions {
                    let (index, next, epoch) = (p.partition_index, p.committed_offset, p.committed_leader_epoch);
                    add(&topic.name, index, p.error_code, next, epoch, p.metadata);
                }
            }
        }
        for topic in answer.topics {
            for p in topic.partitions {
                let (index, next, epoch) = (p.partition_index, p.committed_offset, p.committed_leader_epoch);
                add(&topic.name, index, p.error_code, next, epoch, p.metadata);
            }
        }
        Self { code, partitions }
    }

    /// In the order of the question.
    fn stable(&self, of: &[(&str, i32)]) -> Result<Stable> {
        let mut found = Vec::with_capacity(of.len());
        for &(topic, partition) in of {
            // "Nothing is committed" is an answer of its own; silence is none.
            let Some(answer) = self.partitions.get(&(topic.to_owned(), partition)) else {
                let unanswered = Error::new(ErrorKind::Retriable, FETCH).with("what", "no answer for the partition");
                return Err(unanswered.with("topic", topic).with("partition", partition));
            };
            match answer.code {
                code::NONE => found.push(answer.committed.clone()),
                UNSTABLE_OFFSET_COMMIT => return Ok(Stable::Unstable { topic: topic.to_owned(), partition }),
                code => return Err(error::of_broker(FETCH, code).with("topic", topic).with("partition", partition)),
            }
        }
        Ok(Stable::Offsets(found))
    }
}
