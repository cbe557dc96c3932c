//! Administration, against brokers that fail.

use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::metadata_response::{MetadataResponseBroker, MetadataResponsePartition};
use kafka_protocol::messages::{
    ApiKey, BrokerId, CreateTopicsResponse, DeleteTopicsResponse, ListOffsetsResponse, MetadataResponse,
};

use super::*;
use crate::wire::fake::{Peer, Script, serve, settings};

const TOPICS: &[(ApiKey, i16)] =
    &[(ApiKey::Metadata, 12), (ApiKey::CreateTopics, 7), (ApiKey::DeleteTopics, 6), (ApiKey::ListOffsets, 8)];

/// The epoch of all leaders.
const EPOCH: i32 = 0x0BAD_CAFE;

fn admin(scripts: Vec<Script>) -> KafkaAdmin {
    let address = serve(scripts);
    KafkaAdmin::new(Arc::new(WireSettings { bootstrap: vec![address], ..settings(&[]) }))
}

fn new(name: &str) -> NewTopic<'_> {
    NewTopic { name, partitions: 1, replication: None, configs: &[] }
}

fn kinds(answers: &[Result<()>]) -> Vec<Option<ErrorKind>> {
    answers.iter().map(|answer| answer.as_ref().err().map(Error::kind)).collect()
}

/// Answers Metadata: this broker is number 1 and the controller; topics and their codes.
fn describe(peer: &mut Peer, topics: &[(&str, i16)]) {
    let request = peer.next().unwrap();
    assert_eq!(request.key, ApiKey::Metadata as i16);
    let me = MetadataResponseBroker::default().with_node_id(BrokerId(1)).with_host(text("127.0.0.1"));
    let led = || vec![MetadataResponsePartition::default().with_leader_id(BrokerId(1)).with_leader_epoch(EPOCH)];
    let topic = |(name, code): &(&str, i16)| {
        let topic = MetadataResponseTopic::default().with_name(Some(TopicName(text(name)))).with_error_code(*code);
        if *code == code::NONE { topic.with_partitions(led()) } else { topic }
    };
    let answer = MetadataResponse::default()
        .with_brokers(vec![me.with_port(peer.port())])
        .with_controller_id(BrokerId(1))
        .with_topics(topics.iter().map(topic).collect());
    peer.answer(&request, &answer);
}

/// Answers CreateTopics by these rows; the request names these topics and no others.
fn create(peer: &mut Peer, rows: &[(&str, i16)], absent: &[&str]) {
    let request = peer.next().unwrap();
    assert_eq!(request.key, ApiKey::CreateTopics as i16);
    let names = |name: &str| request.bytes.windows(name.len()).any(|w| w == name.as_bytes());
    assert!(rows.iter().all(|(name, _)| names(name)) && !absent.iter().any(|name| names(name)));
    let row = |(name, code): &(&str, i16)| {
        let explanation = Some(text("because"));
        let row = CreatableTopicResult::default().with_name(TopicName(text(name))).with_error_code(*code);
        row.with_error_message(explanation)
    };
    peer.answer(&request, &CreateTopicsResponse::default().with_topics(rows.iter().map(row).collect()));
}

/// Answers ListOffsets for partition 0 of a topic.
fn list(peer: &mut Peer, topic: &str, code: i16) {
    let request = peer.next().unwrap();
    assert_eq!(request.key, ApiKey::ListOffsets as i16);
    assert!(request.bytes.windows(4).any(|w| w == EPOCH.to_be_bytes()), "the leader is asked as that of its epoch");
    let row = ListOffsetsPartitionResponse::default().with_error_code(code).with_offset(7);
    let topic = ListOffsetsTopicResponse::default().with_name(TopicName(text(topic))).with_partitions(vec![row]);
    peer.answer(&request, &ListOffsetsResponse::default().with_topics(vec![topic]));
}

fn delete(peer: &mut Peer, rows: &[(&str, i16)]) {
    let request = peer.next().unwrap();
    assert_eq!(request.key, ApiKey::DeleteTopics as i16);
    let row = |(name, code): &(&str, i16)| {
        DeletableTopicResult::default().with_name(Some(TopicName(text(name)))).with_error_code(*code)
    };
    peer.answer(&request, &DeleteTopicsResponse::default().with_responses(rows.iter().map(row).collect()));
}

#[test]
fn only_what_may_still_come_right_is_asked_again() {
    let mut admin = admin(vec![Box::new(|peer| {
        peer.greet(TOPICS);
        create(peer, &[("first", 41), ("forbidden", 44), ("third", 7)], &[]);
        describe(peer, &[]);
        create(peer, &[("first", 0), ("third", 40)], &["forbidden"]);
        // It is created; now it is waited for until its leader answers.
        describe(peer, &[("first", 3)]);
        describe(peer, &[("first", 0)]);
        list(peer, "first", 6);
        describe(peer, &[("first", 0)]);
        list(peer, "first", 0);
        peer.drain();
    })]);
    let answers = admin.create_topics(&[new("first"), new("forbidden"), new("third")]).unwrap();
    let fatal = Some(ErrorKind::Fatal);
    assert_eq!(kinds(&answers), [None, fatal, fatal]);
    let shown = answers.last().unwrap().as_ref().unwrap_err().to_string();
    assert!(
        shown.contains("topic=`third`") && shown.contains("INVALID_CONFIG") && shown.contains("because"),
        "{shown}"
    );
}

/// Somebody else may have created it just now.
#[test]
fn a_topic_that_is_there_already_is_waited_for() {
    let mut admin = admin(vec![Box::new(|peer| {
        peer.greet(TOPICS);
        create(peer, &[("there", 36)], &[]);
        describe(peer, &[("there", 3)]);
        describe(peer, &[("there", 0)]);
        list(peer, "there", 0);
        peer.drain();
    })]);
    assert_eq!(kinds(&admin.create_topics(&[new("there")]).unwrap()), [Some(ErrorKind::Refused)]);
}

#[test]
fn a_deletion_whose_answer_was_lost_is_done() {
    let mut admin = admin(vec![
        Box::new(|peer| {
            peer.greet(TOPICS);
            peer.next().unwrap();
        }),
        Box::new(|peer| {
            peer.greet(TOPICS);
            describe(peer, &[]);
            delete(peer, &[("gone", 3)]);
            describe(peer, &[("gone", 3)]);
            peer.drain();
        }),
    ]);
    assert_eq!(kinds(&admin.delete_topics(&["gone"]).unwrap()), [None]);
}

#[test]
fn a_topic_that_never_was_cannot_be_deleted() {
    let mut admin = admin(vec![Box::new(|peer| {
        peer.greet(TOPICS);
        delete(peer, &[("never", 3), ("mine", 29)]);
        peer.drain();
    })]);
    let answers = admin.delete_topics(&["never", "mine"]).unwrap();
    assert_eq!(kinds(&answers), [Some(ErrorKind::UnknownTopic), Some(ErrorKind::Fatal)]);
}

#[test]
fn leaders_are_asked_for_each_time_and_when_they_have_moved() {
    let mut admin = admin(vec![Box::new(|peer| {
        peer.greet(TOPICS);
        describe(peer, &[("t", 0)]);
        list(peer, "t", 0);
        describe(peer, &[("t", 0)]);
        list(peer, "t", 6);
        // A leader that is behind the metadata, and one that is ahead of them.
        for code in [75, 74, 0] {
            describe(peer, &[("t", 0)]);
            list(peer, "t", code);
        }
        // The leader knows the topic no more, and neither do the metadata.
        describe(peer, &[("t", 0)]);
        list(peer, "t", 3);
        describe(peer, &[("t", 3)]);
        peer.drain();
    })]);
    for want in [Ok(7), Ok(7), Err(ErrorKind::UnknownTopic)] {
        let answer = admin.offsets(&[("t", 0, At::End)]).unwrap().remove(0);
        assert_eq!(answer.map_err(|e| e.kind()), want);
    }
}

#[test]
fn one_partition_may_be_asked_several_things() {
    let mut admin = admin(vec![Box::new(|peer| {
        peer.greet(TOPICS);
        describe(peer, &[("t", 0)]);
        // Start and end do not go into one request, nor does what another isolation sees; a time comes after its end.
        for _ in 0..5 {
            list(peer, "t", 0);
        }
        peer.drain();
    })]);
    let of = [("t", 0, At::Start), ("t", 0, At::End), ("t", 0, At::StableEnd), ("t", 0, At::Time(5))];
    let answers = admin.offsets(&of).unwrap();
    assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [7; 4]);
}

#[test]
fn nothing_asked_is_nothing_sent() {
    let mut admin = admin(Vec::new());
    assert!(admin.create_topics(&[]).unwrap().is_empty());
    assert!(admin.delete_topics(&[]).unwrap().is_empty());
    assert!(admin.describe(&[]).unwrap().is_empty());
    assert!(admin.offsets(&[]).unwrap().is_empty());
    assert!(admin.delete_records(&[]).unwrap().is_empty());
    admin.set_configs("t", &[]).unwrap();
}
