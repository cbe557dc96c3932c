//! Names, sub-topologies, partition counts and configs of internal topics, as a live run of Kafka Streams 4.4 has them.

use std::collections::BTreeMap;

use millpond_broker_api::Broker as _;
use millpond_testkit::Driver;
use millpond_topology::Topology;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::build::{Stop, build};
use crate::easings::Help;
use crate::run::Outcome;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "kafka_streams")]
    _version: String,
    #[serde(rename = "description")]
    _description: String,
    cases: Vec<Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "name")]
    _name: String,
    topology: crate::case::Topology,
    describe: Vec<String>,
    /// By task: the partitions that it reads.
    tasks: BTreeMap<String, Vec<String>>,
    internal_topics: BTreeMap<String, Internal>,
    /// Metadata beside offsets: the formats' own tests have them.
    #[serde(rename = "committed")]
    _committed: Option<Json>,
    #[serde(rename = "same_with_group_protocol_streams")]
    _same_with_group_protocol_streams: Option<bool>,
    #[serde(rename = "with_group_protocol_streams")]
    _with_group_protocol_streams: Option<Json>,
    #[serde(default)]
    java_deviates: bool,
    #[serde(rename = "reason")]
    _reason: Option<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Internal {
    partitions: i32,
    configs: BTreeMap<String, String>,
}

const SOURCES: [(&str, i32); 7] = [
    ("gold-global", 2),
    ("gold-in", 3),
    ("gold-left", 3),
    ("gold-right", 3),
    ("gold-table", 3),
    ("gold-third", 3),
    ("gold-wide", 5),
];

fn source_partitions(topic: &str) -> Option<i32> {
    SOURCES.iter().find(|(name, _)| *name == topic).map(|(_, partitions)| *partitions)
}

#[test]
fn golden_topics() {
    let path = crate::folder().join("topics.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    let group: Group = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let outcomes: Vec<_> = group.cases.iter().map(run).collect();
    crate::close("golden_topics", &outcomes);
}

fn run(json: &Json) -> (String, Outcome) {
    let name = json.get("name").and_then(Json::as_str).unwrap_or("?").to_owned();
    let case = match Case::deserialize(json) {
        Ok(case) => case,
        Err(e) => return (name, Outcome::Failed(format!("the case is not understood: {e}\n"))),
    };
    let outcome = match build(&case.topology) {
        Err(Stop::Waits(why)) => Outcome::Waiting(why),
        Err(Stop::Refused) => Outcome::Failed("it cannot be said\n".into()),
        Err(Stop::Broken(why)) => Outcome::Failed(format!("the case is not understood: {why}\n")),
        Ok(_) if case.java_deviates => Outcome::Failed("nothing says what is right\n".into()),
        Ok(built) => match built.topology {
            Err(error) => Outcome::Failed(format!("it cannot be built: {error}\n")),
            Ok(topology) => outcome(&differences(&case, &topology)),
        },
    };
    (name, outcome)
}

fn outcome(differences: &[String]) -> Outcome {
    if differences.is_empty() { Outcome::Passed(Help::default()) } else { Outcome::Failed(differences.concat()) }
}

fn differences(case: &Case, topology: &Topology) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, expected: String, got: String| {
        if expected != got {
            found.push(format!("  {what}\n    expected\n{expected}\n    got\n{got}\n"));
        }
    };
    compare("describe()", case.describe.join("\n"), topology.describe().to_string().trim_end().to_owned());
    compare("tasks", format!("{:#?}", case.tasks), format!("{:#?}", tasks(topology)));
    compare("internal topics", format!("{:#?}", case.internal_topics), format!("{:#?}", internal(topology)));
    found
}

/// Which task reads which partitions.
fn tasks(topology: &Topology) -> BTreeMap<String, Vec<String>> {
    let partitions = topology.partitions(source_partitions).expect("all sources are there");
    let count = |topic: &millpond_topology::Topic| {
        let own = topology.internal_topics().iter().zip(&partitions.internal).find(|(t, _)| t.topic == *topic);
        own.map(|(_, count)| *count).or_else(|| source_partitions(&topic.name)).unwrap_or_default()
    };
    let mut tasks = BTreeMap::new();
    for (sub, of_sub) in partitions.tasks.iter().enumerate() {
        for task in 0..*of_sub {
            let topics = topology.sources().iter().filter(|s| s.sub as usize == sub).flat_map(|s| &s.topics);
            let read = topics.filter(|t| task < count(t)).map(|t| format!("{}-{task}", t.full_name("app")));
            let mut read: Vec<String> = read.collect();
            read.sort();
            tasks.insert(format!("{sub}_{task}"), read);
        }
    }
    tasks
}

/// The internal topics that a started application has made.
fn internal(topology: &Topology) -> BTreeMap<String, Internal> {
    let mut builder = Driver::builder(topology.clone()).application_id("app");
    let read = |topic: &str| topology.sources().iter().flat_map(|s| &s.topics).any(|t| t.name == topic);
    for (topic, partitions) in SOURCES.into_iter().filter(|(topic, _)| read(topic)) {
        builder = builder.topic(topic, partitions);
    }
    let driver = builder.build().expect("it starts");
    let mut admin = driver.broker().admin().expect("the broker is there");
    let names: Vec<String> = topology.internal_topics().iter().map(|t| t.topic.full_name("app")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let described = admin.describe(&names).expect("the broker answers");
    let topics = described.into_iter().flatten();
    topics
        .map(|info| {
            (
                info.name.to_string(),
                Internal { partitions: info.partitions, configs: info.configs.into_iter().collect() },
            )
        })
        .collect()
}

#[test]
fn a_topic_that_is_not_there_is_named() {
    let mut builder = Topology::builder();
    builder
        .stream("gold-in", millpond_topology::Consumed::with(millpond_topology::Utf8, millpond_topology::Utf8))
        .to("gold-out", millpond_topology::Produced::default());
    let error = builder.build().expect("it is right").partitions(|_| None).expect_err("there is no topic");
    assert_eq!(error.to_string(), "find the source topics failed: wrong use of the topology missing_topics=`gold-in`");
}
