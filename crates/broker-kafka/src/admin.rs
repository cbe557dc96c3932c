//! Topics, over the wire protocol.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use millpond_broker_api::membership::code;
use millpond_broker_api::{Admin, At, Error, ErrorKind, NewTopic, Offset, Result, TopicInfo};

use crate::deadline::Deadline;
use crate::error;
use crate::partitions::{self, Item};
use crate::settings::WireSettings;
use crate::wire::{Backoff, Cluster, To, millis, text};

#[cfg(test)]
mod tests;

const CREATE: &str = "create topic";
const DELETE: &str = "delete topic";
const DESCRIBE: &str = "describe topics";
const SET: &str = "set topic configs";

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const INVALID_TOPIC_EXCEPTION: i16 = 17;
const NOT_CONTROLLER: i16 = 41;
const POLICY_VIOLATION: i16 = 44;

/// The kind of resource, in requests about configs.
const TOPIC: i8 = 2;
/// A config that is set on the topic itself (DYNAMIC_TOPIC_CONFIG).
const OF_THE_TOPIC: i8 = 1;

/// Administration, over connections of its own.
///
/// What got no answer is asked again. A topic that was created by the lost try then answers that it exists, as one that
/// somebody else created would: the caller has to look at it in either case.
#[derive(Debug)]
pub(crate) struct KafkaAdmin {
    cluster: Cluster,
}

/// An answer per name: code and the broker's text.
type Answers = BTreeMap<String, (i16, Option<StrBytes>)>;

/// What is known of an item so far, and whether a try without an answer may have done it.
struct Progress<'a> {
    name: &'a str,
    answer: Option<Result<()>>,
    in_doubt: bool,
}

impl KafkaAdmin {
    pub(crate) fn new(settings: Arc<WireSettings>) -> Self {
        Self { cluster: Cluster::new(settings) }
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.cluster.settings().retry_limit)
    }

    /// Calls for all names that have no final answer, until they have one or the time is over.
    fn each<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        deadline: &Deadline,
        op: &'static str,
        mut call: impl FnMut(&mut Cluster, &[&str]) -> Result<Answers>,
    ) -> Vec<Progress<'a>> {
        let mut all: Vec<_> = names.map(|name| Progress { name, answer: None, in_doubt: false }).collect();
        let mut backoff = Backoff::new();
        loop {
            let open: Vec<_> = all.iter().filter(|p| p.is_open()).map(|p| p.name).collect();
            if open.is_empty() {
                return all;
            }
            let reached = self.cluster.connect(To::Controller, deadline);
            let was_sent = reached.is_ok();
            let answers = reached.and_then(|()| call(&mut self.cluster, &open));
            for progress in all.iter_mut().filter(|p| p.is_open()) {
                progress.in_doubt |= was_sent && answers.is_err();
                progress.take(op, &answers);
            }
            self.cluster.forget_controller();
            if all.iter().all(|p| !p.is_open()) || !backoff.pause(deadline) {
                return all;
            }
            // Who the controller is now; if nobody tells, the next call goes to whoever answers.
            let _ = self.cluster.metadata(&[]);
        }
    }

    /// Repeats a call while its error is retriable.
    fn repeat<T>(&mut self, mut call: impl FnMut(&mut Cluster) -> Result<T>) -> Result<T> {
        let (deadline, mut backoff) = (self.deadline(), Backoff::new());
        loop {
            match call(&mut self.cluster) {
                Err(e) if e.kind() == ErrorKind::Retriable && backoff.pause(&deadline) => {}
                answer => return answer,
            }
        }
    }

    /// Waits until the leaders of new topics answer, so that they can be used. They exist in any case.
    fn await_leaders<'a>(&mut self, partitions: impl Iterator<Item = (&'a str, i32)>, deadline: &Deadline) {
        let items: Vec<_> = partitions.map(|(topic, partition)| Item::new(topic, partition, At::End)).collect();
        let mut backoff = Backoff::new();
        while !items.is_empty() {
            let answers = partitions::offsets(&mut self.cluster, &items, deadline);
            // This broker may not have heard of the topic itself.
            let is_unknown =
                |answer: &Result<Offset>| answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::UnknownTopic);
            if !answers.iter().any(is_unknown) || !backoff.pause(deadline) {
                return;
            }
        }
    }

    /// Waits until deleted topics are unknown. They are gone in any case.
    fn await_absence(&mut self, topics: &[&str], deadline: &Deadline) {
        let mut backoff = Backoff::new();
        while !topics.is_empty() {
            let is_gone = |topic: &MetadataResponseTopic| topic.error_code == UNKNOWN_TOPIC_OR_PARTITION;
            if self.cluster.metadata(topics).is_ok_and(|m| m.topics.iter().all(is_gone)) || !backoff.pause(deadline) {
                return;
            }
        }
    }
}

/// Whether a topic was not created because there is one of that name.
fn is_there_already(error: &Error) -> bool {
    error::code_of(error) == Some(TOPIC_ALREADY_EXISTS)
}

const TOPIC_ALREADY_EXISTS: i16 = 36;

impl Progress<'_> {
    fn is_open(&self) -> bool {
        self.answer.as_ref().is_none_or(|answer| answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::Retriable))
    }

    fn take(&mut self, op: &'static str, answers: &Result<Answers>) {
        let error = match answers {
            Err(e) => e.clone(),
            Ok(answers) => match answers.get(self.name) {
                Some((code::NONE, _)) => {
                    self.answer = Some(Ok(()));
                    return;
                }
                Some((code, explanation)) => {
                    self.in_doubt |= error::kind_of(*code) == ErrorKind::Retriable && *code != NOT_CONTROLLER;
                    explained(of_topic(op, *code), explanation.as_ref())
                }
                None => Error::new(ErrorKind::Retriable, op).with("what", "no answer for the topic"),
            },
        };
        self.answer = Some(Err(error.with("topic", self.name)));
    }

    fn into_answer(self, op: &'static str) -> Result<()> {
        self.answer.unwrap_or_else(|| Err(Error::new(ErrorKind::Retriable, op).with("topic", self.name)))
    }
}

/// [`Refused`](ErrorKind::Refused) is for topics that exist; what a policy forbids does not.
fn of_topic(op: &'static str, code: i16) -> Error {
    match code {
        POLICY_VIOLATION => error::named(ErrorKind::Fatal, op, code),
        code => error::of_broker(op, code),
    }
}

fn explained(error: Error, explanation: Option<&StrBytes>) -> Error {
    match explanation {
        Some(explanation) => error.with("text", explanation.as_str()),
        None => error,
    }
}

impl Admin for KafkaAdmin {
    fn create_topics(&mut self, topics: &[NewTopic<'_>]) -> Result<Vec<Result<()>>> {
        let deadline = self.deadline();
        let done = self.each(topics.iter().map(|t| t.name), &deadline, CREATE, |cluster, names| {
            let wanted = topics.iter().filter(|t| names.contains(&t.name));
            let request = CreateTopicsRequest::default()
                .with_topics(wanted.map(creatable).collect())
                .with_timeout_ms(millis(cluster.settings().request_limit));
            let answer = cluster.call(To::Controller, slack(cluster), |_| request)?;
            Ok(answer.topics.into_iter().map(|t| (t.name.to_string(), (t.error_code, t.error_message))).collect())
        });
        let answers: Vec<_> = done.into_iter().map(|p| p.into_answer(CREATE)).collect();
        // Of one that somebody else has just created no more is known than that it has a first partition.
        let usable = topics.iter().zip(&answers).flat_map(|(topic, answer)| {
            let partitions = match answer {
                Ok(()) => topic.partitions,
                Err(e) => i32::from(is_there_already(e)),
            };
            (0..partitions).map(|partition| (topic.name, partition))
        });
        self.await_leaders(usable, &deadline);
        Ok(answers)
    }

    fn set_configs(&mut self, topic: &str, configs: &[(&str, &str)]) -> Result<()> {
        if configs.is_empty() {
            return Ok(());
        }
        let config = |(name, value): &(&str, &str)| {
            AlterableConfig::default().with_name(text(name)).with_config_operation(0).with_value(Some(text(value)))
        };
        let resource = AlterConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(topic))
            .with_configs(configs.iter().map(config).collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        self.repeat(|cluster| {
            let answer = cluster.call(To::Any, cluster.request_deadline(), |_| request.clone())?;
            match answer.responses.first() {
                Some(row) if row.error_code != code::NONE => {
                    Err(explained(of_topic(SET, row.error_code), row.error_message.as_ref()))
                }
                Some(_) => Ok(()),
                None => Err(Error::new(ErrorKind::Fatal, SET).with("what", "no answer for the topic")),
            }
        })
        .map_err(|e| e.with("topic", topic))
    }

    fn delete_topics(&mut self, topics: &[&str]) -> Result<Vec<Result<()>>> {
        let deadline = self.deadline();
        let done = self.each(topics.iter().copied(), &deadline, DELETE, |cluster, names| {
            let limit = millis(cluster.settings().request_limit);
            let name = |name: &&str| TopicName(text(name));
            let request = |version| {
                let request = DeleteTopicsRequest::default().with_timeout_ms(limit);
                if version >= 6 {
                    let state = |topic| DeleteTopicState::default().with_name(Some(name(topic)));
                    request.with_topics(names.iter().map(state).collect())
                } else {
                    request.with_topic_names(names.iter().map(name).collect())
                }
            };
            let answer = cluster.call(To::Controller, slack(cluster), request)?;
            let name = |name: Option<TopicName>| name.map_or_else(String::new, |name| name.to_string());
            Ok(answer.responses.into_iter().map(|t| (name(t.name), (t.error_code, t.error_message))).collect())
        });
        let outcome = |progress: Progress<'_>| {
            let in_doubt = progress.in_doubt;
            match progress.into_answer(DELETE) {
                // An earlier try did it, and its answer was lost.
                Err(e) if in_doubt && e.kind() == ErrorKind::UnknownTopic => Ok(()),
                answer => answer,
            }
        };
        let answers: Vec<_> = done.into_iter().map(outcome).collect();
        let deleted: Vec<_> = topics.iter().zip(&answers).filter(|(_, a)| a.is_ok()).map(|(t, _)| *t).collect();
        self.await_absence(&deleted, &deadline);
        Ok(answers)
    }

    fn describe(&mut self, topics: &[&str]) -> Result<Vec<Option<TopicInfo>>> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.repeat(|cluster| {
            let mut known = known_topics(cluster, topics)?;
            add_configs(cluster, &mut known)?;
            Ok(known)
        })?;
        Ok(topics.iter().map(|topic| known.get(*topic).cloned()).collect())
    }

    fn offsets(&mut self, of: &[(&str, i32, At)]) -> Result<Vec<Result<Offset>>> {
        let items: Vec<_> = of.iter().map(|&(topic, partition, at)| Item::new(topic, partition, at)).collect();
        let deadline = self.deadline();
        Ok(partitions::offsets(&mut self.cluster, &items, &deadline))
    }

    fn delete_records(&mut self, below: &[(&str, i32, Offset)]) -> Result<Vec<Result<Offset>>> {
        let items: Vec<_> = below.iter().map(|&(topic, partition, to)| Item::new(topic, partition, to)).collect();
        let deadline = self.deadline();
        Ok(partitions::delete_records(&mut self.cluster, &items, &deadline))
    }
}

/// The broker has the request's limit for its work, and the answer a little more to arrive.
fn slack(cluster: &Cluster) -> Deadline {
    Deadline::after(cluster.settings().request_limit + Duration::from_secs(5))
}

fn creatable(topic: &NewTopic<'_>) -> CreatableTopic {
    let config = |(name, value): &(&str, &str)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    CreatableTopic::default()
        .with_name(TopicName(text(topic.name)))
        .with_num_partitions(topic.partitions)
        .with_replication_factor(topic.replication.unwrap_or(-1))
        .with_configs(topic.configs.iter().map(config).collect())
}

/// The topics that exist, without their configs.
fn known_topics(cluster: &mut Cluster, topics: &[&str]) -> Result<BTreeMap<String, TopicInfo>> {
    let mut known = BTreeMap::new();
    for topic in cluster.metadata(topics)?.topics {
        let name = topic.name.map_or_else(String::new, |name| name.to_string());
        match topic.error_code {
            code::NONE => {
                let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                let id = topic.topic_id.as_u128();
                let (configs, inherited) = (Vec::new(), Vec::new());
                known.insert(name.clone(), TopicInfo { name, id, partitions, configs, inherited });
            }
            // A name that no topic can have is one that none has.
            UNKNOWN_TOPIC_OR_PARTITION | INVALID_TOPIC_EXCEPTION => {}
            code => return Err(error::of_broker(DESCRIBE, code).with("topic", name)),
        }
    }
    Ok(known)
}

/// Adds the configs. Topics that have gone meanwhile are taken out.
fn add_configs(cluster: &mut Cluster, known: &mut BTreeMap<String, TopicInfo>) -> Result<()> {
    if known.is_empty() {
        return Ok(());
    }
    let resource = |name: &String| {
        DescribeConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(name))
            .with_configuration_keys(None)
    };
    let request = DescribeConfigsRequest::default().with_resources(known.keys().map(resource).collect());
    for row in cluster.call(To::Any, cluster.request_deadline(), |_| request)?.results {
        let name = row.resource_name.as_str();
        match row.error_code {
            code::NONE => {}
            UNKNOWN_TOPIC_OR_PARTITION => {
                known.remove(name);
            }
            code => {
                return Err(explained(error::of_broker(DESCRIBE, code), row.error_message.as_ref()).with("topic", name));
            }
        }
        if let Some(info) = known.get_mut(name) {
            for config in row.configs {
                let value = config.value.map_or_else(String::new, |value| value.to_string());
                let of = if config.config_source == OF_THE_TOPIC { &mut info.configs } else { &mut info.inherited };
                of.push((config.name.to_string(), value));
            }
        }
    }
    Ok(())
}
