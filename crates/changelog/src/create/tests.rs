//! Making sure of internal topics: what is created, what is refused.

use std::collections::BTreeMap;

use millpond_broker_api::{At, Offset};

use super::*;
use crate::{TopicDefaults, TopicKind};

type BrokerResult<T> = millpond_broker_api::Result<T>;

/// A cluster of topics, with another instance that may be faster and a broker that may refuse.
#[derive(Default)]
struct Cluster {
    topics: BTreeMap<String, TopicInfo>,
    /// Topics that another instance creates right before our request arrives.
    raced: Vec<TopicInfo>,
    /// Answers to creations by name, once each.
    answers: BTreeMap<String, BrokerError>,
    /// Topics that are created without being visible.
    hidden: Vec<String>,
    creations: Vec<String>,
    described: usize,
}

impl Admin for Cluster {
    fn create_topics(&mut self, topics: &[NewTopic<'_>]) -> BrokerResult<Vec<BrokerResult<()>>> {
        for info in self.raced.drain(..) {
            self.topics.insert(info.name.clone(), info);
        }
        Ok(topics.iter().map(|topic| self.create(topic)).collect())
    }

    fn set_configs(&mut self, _: &str, _: &[(&str, &str)]) -> BrokerResult<()> {
        panic!("topics are never changed");
    }

    fn delete_topics(&mut self, _: &[&str]) -> BrokerResult<Vec<BrokerResult<()>>> {
        panic!("topics are never deleted");
    }

    fn describe(&mut self, topics: &[&str]) -> BrokerResult<Vec<Option<TopicInfo>>> {
        self.described += 1;
        Ok(topics.iter().map(|name| self.topics.get(*name).cloned()).collect())
    }

    fn offsets(&mut self, _: &[(&str, i32, At)]) -> BrokerResult<Vec<BrokerResult<Offset>>> {
        panic!("no offsets are asked for");
    }

    fn delete_records(&mut self, _: &[(&str, i32, Offset)]) -> BrokerResult<Vec<BrokerResult<Offset>>> {
        panic!("no records are deleted");
    }
}

impl Cluster {
    fn create(&mut self, topic: &NewTopic<'_>) -> BrokerResult<()> {
        self.creations.push(topic.name.into());
        if let Some(error) = self.answers.remove(topic.name) {
            return Err(error);
        }
        if self.topics.contains_key(topic.name) {
            return Err(BrokerError::new(BrokerErrorKind::Refused, "create topic"));
        }
        if !self.hidden.iter().any(|name| name == topic.name) {
            let configs = topic.configs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let id = self.topics.len() as u128 + 1;
            let info =
                TopicInfo { name: topic.name.into(), id, partitions: topic.partitions, configs, inherited: Vec::new() };
            self.topics.insert(topic.name.into(), info);
        }
        Ok(())
    }
}

fn wanted() -> Vec<InternalTopic> {
    [("app-a-changelog", TopicKind::KeyValue), ("app-r-repartition", TopicKind::Repartition)]
        .map(|(name, kind)| {
            InternalTopic::new(name.into(), kind, 3, &TopicDefaults::default(), &BTreeMap::new()).unwrap()
        })
        .into()
}

fn info(topic: &InternalTopic, id: u128) -> TopicInfo {
    let configs = topic.configs.clone().into_iter().collect();
    TopicInfo { name: topic.name.clone(), id, partitions: topic.partitions, configs, inherited: Vec::new() }
}

#[test]
fn missing_topics_are_created_once() {
    let mut cluster = Cluster::default();
    let wanted = wanted();
    let made = ensure_topics(&mut cluster, &wanted, MissingTopics::Create).unwrap();
    assert_eq!(made.topics, [info(&wanted[0], 1), info(&wanted[1], 2)]);
    assert_eq!(made.differences, []);
    assert_eq!(ensure_topics(&mut cluster, &wanted, MissingTopics::Refuse).unwrap(), made);
    assert_eq!(cluster.creations, ["app-a-changelog", "app-r-repartition"]);
    assert_eq!(cluster.described, 3);
}

#[test]
fn nothing_wanted_is_nothing_done() {
    let mut cluster = Cluster::default();
    assert_eq!(ensure_topics(&mut cluster, &[], MissingTopics::Refuse).unwrap().topics, []);
    assert!(cluster.creations.is_empty());
}

#[test]
fn another_instance_that_was_faster_is_no_error() {
    let wanted = wanted();
    let mut cluster = Cluster { raced: vec![info(&wanted[0], 9)], ..Cluster::default() };
    let made = ensure_topics(&mut cluster, &wanted, MissingTopics::Create).unwrap();
    assert_eq!(made.topics[0].id, 9);
}

#[test]
fn another_instance_with_other_partitions_is_an_error() {
    let wanted = wanted();
    let mut cluster = Cluster { raced: vec![TopicInfo { partitions: 5, ..info(&wanted[0], 9) }], ..Cluster::default() };
    let error = ensure_topics(&mut cluster, &wanted, MissingTopics::Create).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(error.to_string().contains("is=`5` needed=`3`"), "{error}");
}

#[test]
fn b122_a_vanished_topic_is_not_made_again() {
    let wanted = wanted();
    let mut cluster = Cluster::default();
    ensure_topics(&mut cluster, &wanted, MissingTopics::Create).unwrap();
    cluster.topics.remove("app-a-changelog");
    let error = ensure_topics(&mut cluster, &wanted, MissingTopics::Refuse).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MissingTopic);
    assert!(error.to_string().contains("topics=`app-a-changelog`"), "{error}");
    assert!(!cluster.topics.contains_key("app-a-changelog"));
}

#[test]
fn b122_a_denied_creation_names_the_topic() {
    let denied = BrokerError::new(BrokerErrorKind::Fatal, "create topic").with("code", "TOPIC_AUTHORIZATION_FAILED");
    let mut cluster = Cluster { answers: [("app-a-changelog".into(), denied)].into(), ..Cluster::default() };
    let error = ensure_topics(&mut cluster, &wanted(), MissingTopics::Create).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Broker);
    assert!(error.to_string().contains("app-a-changelog"), "{error}");
    assert!(format!("{error:?}").contains("TOPIC_AUTHORIZATION_FAILED"));
}

#[test]
fn retriable_answers_are_handed_back_and_the_next_call_goes_on() {
    let later = BrokerError::new(BrokerErrorKind::Retriable, "create topic");
    let mut cluster = Cluster { answers: [("app-r-repartition".into(), later)].into(), ..Cluster::default() };
    let error = ensure_topics(&mut cluster, &wanted(), MissingTopics::Create).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retriable);
    ensure_topics(&mut cluster, &wanted(), MissingTopics::Create).unwrap();
    assert_eq!(cluster.creations, ["app-a-changelog", "app-r-repartition", "app-r-repartition"]);
}

#[test]
fn a_topic_that_is_not_visible_yet_is_asked_for_again() {
    let mut cluster = Cluster { hidden: vec!["app-r-repartition".into()], ..Cluster::default() };
    let error = ensure_topics(&mut cluster, &wanted(), MissingTopics::Create).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retriable);
    assert!(error.to_string().contains("not visible"), "{error}");
}

#[test]
fn a_topic_that_is_refused_and_not_there_keeps_the_reason() {
    let refused = BrokerError::new(BrokerErrorKind::Refused, "create topic").with("why", "marked for deletion");
    let mut cluster = Cluster { answers: [("app-a-changelog".into(), refused)].into(), ..Cluster::default() };
    let error = ensure_topics(&mut cluster, &wanted(), MissingTopics::Create).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retriable);
    assert!(format!("{error:?}").contains("marked for deletion"));
}

#[test]
fn a_mismatch_is_found_before_anything_is_created() {
    let wanted = wanted();
    let mut cluster = Cluster::default();
    cluster.topics.insert(wanted[1].name.clone(), TopicInfo { partitions: 4, ..info(&wanted[1], 1) });
    assert_eq!(ensure_topics(&mut cluster, &wanted, MissingTopics::Create).unwrap_err().kind(), ErrorKind::Mismatch);
    assert!(cluster.creations.is_empty());
}

#[test]
fn harmless_differences_are_told() {
    let wanted = wanted();
    let mut cluster = Cluster::default();
    for topic in &wanted {
        cluster.topics.insert(topic.name.clone(), info(topic, 1));
    }
    let repartition = cluster.topics.get_mut("app-r-repartition").unwrap();
    repartition.configs.retain(|(name, _)| name != "retention.ms");
    let found = ensure_topics(&mut cluster, &wanted, MissingTopics::Refuse).unwrap();
    assert_eq!(found.differences.len(), 1);
    assert_eq!((found.differences[0].config, &*found.differences[0].is), ("retention.ms", "604800000"));
}
