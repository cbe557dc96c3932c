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
