//! Names, configs and checks of internal topics.

use super::*;

fn own(configs: &[(&str, &str)]) -> BTreeMap<String, String> {
    configs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn topic(kind: TopicKind) -> InternalTopic {
    InternalTopic::new("app-s-changelog".into(), kind, 3, &TopicDefaults::default(), &own(&[])).unwrap()
}

fn existing(topic: &InternalTopic, change: &[(&str, &str)]) -> TopicInfo {
    let mut configs = topic.configs.clone();
    configs.extend(own(change));
    TopicInfo {
        name: topic.name.clone(),
        id: 1,
        partitions: topic.partitions,
        configs: configs.into_iter().collect(),
        inherited: Vec::new(),
    }
}

const WINDOWED: TopicKind = TopicKind::Windowed { retention_ms: 60_000, duplicates: false };
const VERSIONED: TopicKind = TopicKind::Versioned { history_ms: 3_600_000 };
const KINDS: [TopicKind; 5] = [
    TopicKind::KeyValue,
    WINDOWED,
    TopicKind::Windowed { retention_ms: 60_000, duplicates: true },
    VERSIONED,
    TopicKind::Repartition,
];

#[test]
fn names_are_kafka_streams() {
    assert_eq!(changelog_topic("app", "counts"), "app-counts-changelog");
    assert_eq!(repartition_topic("app", "by-value"), "app-by-value-repartition");
}

/// The values are those of topics that Kafka Streams 4.4 made on a broker.
#[test]
fn configs_per_kind_are_kafka_streams() {
    let time = ("message.timestamp.type", "CreateTime");
    let expected: [&[(&str, &str)]; 5] = [
        &[("cleanup.policy", "compact"), time],
        &[("cleanup.policy", "compact,delete"), time, ("retention.ms", "86460000")],
        &[("cleanup.policy", "delete"), time, ("retention.ms", "86460000")],
        &[("cleanup.policy", "compact"), time, ("min.compaction.lag.ms", "90000000")],
        &[("cleanup.policy", "delete"), time, ("retention.ms", "-1"), ("segment.bytes", "52428800")],
    ];
    for (kind, expected) in KINDS.into_iter().zip(expected) {
        assert_eq!(topic(kind).configs, own(expected), "{kind:?}");
    }
}

#[test]
fn own_configs_go_over_the_applications_and_those_over_the_librarys() {
    let defaults = TopicDefaults {
        configs: own(&[("segment.bytes", "1000"), ("retention.ms", "5"), ("min.compaction.lag.ms", "6")]),
        replication: Some(3),
        ..TopicDefaults::default()
    };
    let make = |kind, configs: &[(&str, &str)]| {
        let topic = InternalTopic::new("t".into(), kind, 1, &defaults, &own(configs)).unwrap();
        assert_eq!(topic.replication, Some(3));
        topic.configs
    };
    assert_eq!(make(TopicKind::Repartition, &[])["segment.bytes"], "1000");
    assert_eq!(make(TopicKind::Repartition, &[])["retention.ms"], "5");
    assert_eq!(make(TopicKind::Repartition, &[("segment.bytes", "7")])["segment.bytes"], "7");
    assert_eq!(make(TopicKind::KeyValue, &[("cleanup.policy", "compact,delete")])["cleanup.policy"], "compact,delete");
    // What follows from the store is stronger than a setting for all topics.
    assert_eq!(make(WINDOWED, &[])["retention.ms"], "86460000");
    assert_eq!(make(VERSIONED, &[])["min.compaction.lag.ms"], "90000000");
    assert_eq!(make(WINDOWED, &[("retention.ms", "8")])["retention.ms"], "8");
    assert_eq!(make(VERSIONED, &[("min.compaction.lag.ms", "9")])["min.compaction.lag.ms"], "9");
}

#[test]
fn a_retention_that_overflows_is_for_ever() {
    let kind = TopicKind::Windowed { retention_ms: i64::MAX - 1, duplicates: false };
    assert_eq!(topic(kind).configs["retention.ms"], i64::MAX.to_string());
}

#[test]
fn what_kafka_refuses_is_named_before_it_is_asked() {
    let make = |name: &str, partitions| {
        InternalTopic::new(name.into(), TopicKind::KeyValue, partitions, &TopicDefaults::default(), &own(&[]))
    };
    for name in ["", ".", "..", "a b", "é", "a/b", &"x".repeat(250)] {
        assert_eq!(make(name, 1).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
    }
    let error = make("app-s-changelog", 0).unwrap_err();
    assert!(error.to_string().contains("topic=`app-s-changelog` partitions=`0`"), "{error}");
    assert!(make(&"x".repeat(249), 1).is_ok());
}

#[test]
fn a_topic_as_it_was_made_passes() {
    for kind in KINDS {
        let topic = topic(kind);
        assert_eq!(topic.check(&existing(&topic, &[("segment.ms", "1"), ("retention.bytes", "-1")])).unwrap(), []);
    }
}

#[test]
fn b121_another_partition_count_names_both_and_the_remedy() {
    for kind in KINDS {
        let topic = topic(kind);
        let error = topic.check(&TopicInfo { partitions: 6, ..existing(&topic, &[]) }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        let text = error.to_string();
        assert!(text.contains("topic=`app-s-changelog`") && text.contains("is=`6` needed=`3`"), "{text}");
        assert!(text.contains("reset"), "{text}");
    }
}

#[test]
fn a_policy_that_loses_rows_is_refused() {
    let loses = [
        (TopicKind::KeyValue, "delete"),
        (TopicKind::KeyValue, "compact,delete"),
        (VERSIONED, "delete"),
        (TopicKind::Repartition, "compact"),
        (TopicKind::Repartition, "compact,delete"),
    ];
    for (kind, policy) in loses {
        let topic = topic(kind);
        let error = topic.check(&existing(&topic, &[("cleanup.policy", policy)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.to_string().contains(&format!("config=`cleanup.policy` is=`{policy}`")), "{error}");
    }
    let topic = topic(TopicKind::KeyValue);
    let bare = TopicInfo { configs: Vec::new(), ..existing(&topic, &[]) };
    assert_eq!(topic.check(&bare).unwrap_err().kind(), ErrorKind::Mismatch, "Kafka's default is delete");
}

#[test]
fn a_policy_that_only_differs_is_told() {
    let told = |kind, change: &[(&str, &str)]| {
        let topic = topic(kind);
        let found = topic.check(&existing(&topic, change)).unwrap();
        assert!(found.iter().all(|d| !d.harmful && d.topic == topic.name));
        found.iter().map(|d| (d.config, d.is.clone())).collect::<Vec<_>>()
    };
    // What an application with snapshots asks for.
    let unbounded = [("cleanup.policy", "compact, delete"), ("retention.ms", "-1")];
    assert_eq!(told(TopicKind::KeyValue, &unbounded), [("cleanup.policy", "compact, delete".to_owned())]);
    assert_eq!(told(WINDOWED, &[("cleanup.policy", "compact")]), [("cleanup.policy", "compact".to_owned())]);
    assert_eq!(told(WINDOWED, &[("cleanup.policy", "delete,compact")]), []);
    assert_eq!(told(TopicKind::Repartition, &[("retention.ms", "1000")]), [("retention.ms", "1000".to_owned())]);
    assert_eq!(told(WINDOWED, &[("retention.ms", "60000")]), [("retention.ms", "60000".to_owned())]);
    assert_eq!(told(WINDOWED, &[("retention.ms", "-1")]), []);
    assert_eq!(told(VERSIONED, &[("min.compaction.lag.ms", "odd")]), [("min.compaction.lag.ms", "odd".to_owned())]);
}

#[test]
fn times_shorter_than_the_stores_are_refused() {
    let refused = |kind, change: &[(&str, &str)]| {
        let topic = topic(kind);
        topic.check(&existing(&topic, change)).unwrap_err().to_string()
    };
    assert!(refused(WINDOWED, &[("retention.ms", "59999")]).contains("config=`retention.ms` is=`59999`"));
    assert!(refused(VERSIONED, &[("min.compaction.lag.ms", "0")]).contains("config=`min.compaction.lag.ms`"));
    assert!(refused(TopicKind::KeyValue, &[("message.timestamp.type", "LogAppendTime")]).contains("CreateTime"));
}
