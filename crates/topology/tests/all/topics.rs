//! Names, sub-topologies and partition counts, as a live run of Kafka Streams 4.4 has them.

use std::collections::BTreeMap;

use millpond_topology::{Consumed, I64, InternalTopicKind, Produced, Repartitioned, Topology, Utf8};
use serde_json::Value as Json;

use crate::support::interpret;

/// What needs verbs or optimisations that are not there yet.
const WAITING: [&str; 2] = ["table with a store, optimised", "one re-keyed stream, two groupings, optimised"];

fn source_partitions(topic: &str) -> Option<i32> {
    match topic {
        "gold-in" | "gold-left" | "gold-right" | "gold-table" => Some(3),
        "gold-wide" => Some(5),
        _ => None,
    }
}

#[test]
fn names_and_partitions_are_kafka_streams() {
    let golden: Json = serde_json::from_str(include_str!("../golden/topics.json")).unwrap();
    let (mut passed, mut waiting) = (Vec::new(), Vec::new());
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        match interpret::build(&case["topology"]) {
            Some(built) => {
                check(name, case, &built.topology);
                passed.push(name);
            }
            None => waiting.push(name),
        }
    }
    println!("{} cases passed, {} wait: {waiting:?}", passed.len(), waiting.len());
    assert_eq!(passed.len(), 24);
    assert_eq!(waiting.iter().collect::<std::collections::BTreeSet<_>>(), WAITING.iter().collect());
}

fn check(name: &str, case: &Json, topology: &Topology) {
    let lines: Vec<_> = case["describe"].as_array().unwrap().iter().map(|l| l.as_str().unwrap()).collect();
    assert_eq!(topology.describe().to_string().trim_end(), lines.join("\n"), "{name}");

    let partitions = topology.partitions(source_partitions).unwrap();
    let ours: BTreeMap<_, _> = topology
        .internal_topics()
        .iter()
        .zip(&partitions.internal)
        .map(|(topic, n)| (topic.topic.full_name("app"), i64::from(*n)))
        .collect();
    let internal = case["internal_topics"].as_object().unwrap();
    let theirs: BTreeMap<_, _> =
        internal.iter().map(|(name, t)| (name.clone(), t["partitions"].as_i64().unwrap())).collect();
    assert_eq!(ours, theirs, "{name}");
    for topic in topology.internal_topics() {
        let configs = &internal[&topic.topic.full_name("app")]["configs"];
        for (key, value) in &topic.configs {
            assert_eq!(configs[key], *value, "{name}");
        }
        let cleanup = if topic.kind == InternalTopicKind::Repartition { "delete" } else { "compact" };
        assert_eq!(configs["cleanup.policy"], cleanup, "{name}");
    }
    check_tasks(name, case, topology, &partitions.tasks);
}

/// Which task reads which partition.
fn check_tasks(name: &str, case: &Json, topology: &Topology, tasks: &[i32]) {
    let internal = topology.partitions(source_partitions).unwrap().internal;
    let count = |topic: &millpond_topology::Topic| {
        let own = topology.internal_topics().iter().position(|t| t.topic == *topic);
        own.map_or_else(|| source_partitions(&topic.name).unwrap(), |at| internal[at])
    };
    let mut ours: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (sub, tasks) in tasks.iter().enumerate() {
        for task in 0..*tasks {
            let topics = topology.sources().iter().filter(|s| s.sub as usize == sub).flat_map(|s| &s.topics);
            let read = topics.filter(|t| task < count(t)).map(|t| format!("{}-{task}", t.full_name("app")));
            ours.insert(format!("{sub}_{task}"), read.collect());
        }
    }
    let theirs: BTreeMap<String, Vec<String>> = serde_json::from_value(case["tasks"].clone()).unwrap();
    assert_eq!(ours, theirs, "{name}");
}

#[test]
fn a_topic_that_is_not_there_is_named() {
    let golden: Json = serde_json::from_str(include_str!("../golden/topics.json")).unwrap();
    let built = interpret::build(&golden["cases"][0]["topology"]).unwrap();
    let error = built.topology.partitions(|_| None).unwrap_err();
    assert_eq!(error.to_string(), "find the source topics failed: wrong use of the topology missing_topics=`gold-in`");
}

#[test]
fn what_comes_back_to_where_it_was_written_has_as_many_partitions_as_the_rest_that_is_read_there() {
    let mut builder = Topology::builder();
    let stream = builder.stream("gold-in", Consumed::with(Utf8, I64));
    let back = stream.clone().repartition(Repartitioned::named("back"));
    stream.merge(back).to("out", Produced::default());
    let partitions = builder.build().unwrap().partitions(source_partitions).unwrap();
    assert_eq!((partitions.internal, partitions.tasks), (vec![3], vec![3]));
}
