//! Topics: creation, description, configs, deletion, and the offsets of empty ones.

use super::bench::Bench;
use crate::{At, ErrorKind, NewTopic};

fn new<'a>(name: &'a str, partitions: i32, configs: &'a [(&'a str, &'a str)]) -> NewTopic<'a> {
    NewTopic { name, partitions, replication: None, configs }
}

pub(super) fn created_topic_is_described(b: &mut Bench<'_>) {
    let topic = b.topic("described", 3);
    let mut admin = b.broker().admin().unwrap();
    let info = admin.describe(&[&topic]).unwrap().remove(0).expect("described");
    assert_eq!((info.name.as_str(), info.partitions), (topic.as_str(), 3));
}

pub(super) fn topic_that_exists_is_refused(b: &mut Bench<'_>) {
    let topic = b.topic("twice", 2);
    let mut admin = b.broker().admin().unwrap();
    let error = admin.create_topics(&[new(&topic, 5, &[])]).unwrap().remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let info = admin.describe(&[&topic]).unwrap().remove(0).expect("described");
    assert_eq!(info.partitions, 2, "as it was");
}

pub(super) fn creation_answers_each_item(b: &mut Bench<'_>) {
    let (old, fresh, other) = (b.topic("old", 1), b.name("fresh"), b.name("other"));
    let mut admin = b.broker().admin().unwrap();
    let answers = admin.create_topics(&[new(&fresh, 1, &[]), new(&old, 1, &[]), new(&other, 2, &[])]).unwrap();
    let refused: Vec<_> = answers.iter().map(|a| a.as_ref().err().map(crate::Error::kind)).collect();
    assert_eq!(refused, [None, Some(ErrorKind::Refused), None]);
    b.until("the new topics", &mut |_| Ok(admin.describe(&[&fresh, &other])?.iter().all(Option::is_some)));
}

pub(super) fn unknown_topic_is_described_as_none(b: &mut Bench<'_>) {
    let (known, unknown) = (b.topic("known", 1), b.name("unknown"));
    let mut admin = b.broker().admin().unwrap();
    let found = admin.describe(&[&unknown, &known, &unknown]).unwrap();
    let names: Vec<_> = found.iter().map(|t| t.as_ref().map(|t| t.name.as_str())).collect();
    assert_eq!(names, [None, Some(known.as_str()), None]);
}

pub(super) fn offsets_of_unknown_topic_or_partition(b: &mut Bench<'_>) {
    let (known, unknown) = (b.topic("known", 1), b.name("unknown"));
    let mut admin = b.broker().admin().unwrap();
    let answers = admin.offsets(&[(&unknown, 0, At::End), (&known, 0, At::End), (&known, 1, At::Start)]).unwrap();
    let kinds: Vec<_> = answers.iter().map(|a| a.as_ref().err().map(crate::Error::kind)).collect();
    assert_eq!(kinds, [Some(ErrorKind::UnknownTopic), None, Some(ErrorKind::UnknownTopic)]);
}

pub(super) fn new_topic_is_empty(b: &mut Bench<'_>) {
    let topic = b.topic("empty", 2);
    for partition in 0..2 {
        for at in [At::Start, At::End, At::StableEnd, At::Time(0)] {
            assert_eq!(b.offset(&topic, partition, at), 0, "{at:?}");
        }
    }
}

pub(super) fn bad_topics_are_refused_by_item(b: &mut Bench<'_>) {
    let (good, none, config) = (b.name("good"), b.name("none"), b.name("config"));
    let bad = [
        new(&none, 0, &[]),
        new("no spaces", 1, &[]),
        new(&config, 1, &[("retention.ms", "soon")]),
        new(&good, 1, &[]),
    ];
    let mut admin = b.broker().admin().unwrap();
    let answers = admin.create_topics(&bad).unwrap();
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, false, false, true]);
    b.until("the good topic", &mut |_| Ok(admin.describe(&[&good])?[0].is_some()));
    assert_eq!(admin.describe(&[&none, &config]).unwrap(), [None, None]);
}

/// The value of a config that is set on the topic itself.
fn config(b: &Bench<'_>, topic: &str, name: &str) -> Option<String> {
    let info = b.broker().admin().unwrap().describe(&[topic]).unwrap().remove(0).expect("described");
    info.configs.into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

pub(super) fn configs_of_creation_are_described(b: &mut Bench<'_>) {
    let topic = b.topic_with("configs", 1, &[("cleanup.policy", "compact"), ("max.message.bytes", "2000")]);
    assert_eq!(config(b, &topic, "cleanup.policy").as_deref(), Some("compact"));
    assert_eq!(config(b, &topic, "max.message.bytes").as_deref(), Some("2000"));
    assert_eq!(config(b, &topic, "retention.ms"), None, "not set on the topic");
}

pub(super) fn set_configs_leaves_others_alone(b: &mut Bench<'_>) {
    let topic = b.topic_with("configs", 1, &[("cleanup.policy", "compact"), ("max.message.bytes", "2000")]);
    let mut admin = b.broker().admin().unwrap();
    admin.set_configs(&topic, &[("max.message.bytes", "3000"), ("delete.retention.ms", "5")]).unwrap();
    let want = [("cleanup.policy", "compact"), ("max.message.bytes", "3000"), ("delete.retention.ms", "5")];
    let env = b.env();
    let limit = super::bench::LIMIT;
    let set = env.until(limit, &mut |broker| {
        let info = broker.admin()?.describe(&[&topic])?.remove(0).expect("described");
        Ok(want.iter().all(|(k, v)| info.configs.iter().any(|(key, value)| key == k && value == v)))
    });
    assert!(set.unwrap(), "{:?}", admin.describe(&[&topic]).unwrap());
}

pub(super) fn configs_of_unknown_topic_are_not_set(b: &mut Bench<'_>) {
    let unknown = b.name("unknown");
    let error = b.broker().admin().unwrap().set_configs(&unknown, &[("retention.ms", "1")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownTopic, "{error}");
}

pub(super) fn deleted_topic_is_gone(b: &mut Bench<'_>) {
    let (topic, unknown) = (b.topic("deleted", 1), b.name("unknown"));
    b.fill(&topic, 0, &["v"]);
    let mut admin = b.broker().admin().unwrap();
    let answers = admin.delete_topics(&[&unknown, &topic]).unwrap();
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::UnknownTopic);
    assert!(answers[1].is_ok(), "{answers:?}");
    b.until("the topic to go", &mut |_| Ok(admin.describe(&[&topic])?[0].is_none()));
}

pub(super) fn topic_created_anew_is_another(b: &mut Bench<'_>) {
    let topic = b.topic("again", 1);
    b.fill(&topic, 0, &["of the first"]);
    let mut admin = b.broker().admin().unwrap();
    let first = admin.describe(&[&topic]).unwrap().remove(0).expect("described");
    admin.delete_topics(&[&topic]).unwrap().remove(0).unwrap();
    b.until("the topic to go", &mut |_| Ok(admin.describe(&[&topic])?[0].is_none()));
    b.until("the name to be free", &mut |broker| {
        Ok(broker.admin()?.create_topics(&[new(&topic, 2, &[])])?.remove(0).is_ok())
    });
    let mut second = None;
    b.until("the new topic", &mut |_| {
        second = admin.describe(&[&topic])?.remove(0);
        Ok(second.as_ref().is_some_and(|t| t.partitions == 2))
    });
    let second = second.expect("described");
    assert!(first.id != second.id || first.id == 0, "ids tell them apart, or the broker has none");
    b.until("its leader", &mut |_| Ok(admin.offsets(&[(&topic, 0, At::End)])?[0].is_ok()));
    assert_eq!(b.offset(&topic, 0, At::End), 0, "no record of the first");
    b.fill(&topic, 0, &["of the second"]);
    assert_eq!(super::bench::texts(&b.committed(&topic, 0)), ["of the second"]);
}

pub(super) fn offsets_by_time(b: &mut Bench<'_>) {
    let topic = b.topic("by-time", 1);
    let start = b.now() - 100_000;
    let mut producer = b.plain();
    // Times need not rise: the first record in log order counts.
    for time in [10, 20, 50, 30, 60] {
        let record = super::bench::record(&mut *producer, &topic, start + time, "v");
        super::bench::send(&mut *producer, &record);
        super::bench::flush(&mut *producer);
    }
    let asked = [0, 10, 11, 20, 25, 55, 60, 61];
    let found = asked.map(|time| b.offset(&topic, 0, At::Time(start + time)));
    assert_eq!(found, [0, 0, 1, 1, 2, 4, 4, 5], "the end, if there is none");
}
