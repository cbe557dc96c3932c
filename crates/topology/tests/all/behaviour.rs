//! What comes out, what stores hold and what is logged, as Kafka Streams 4.4 has it in `TopologyTestDriver`.

use std::collections::{BTreeMap, HashMap};

use millpond_topology::{InternalTopicKind, StoreType};
use serde_json::Value as Json;

use crate::support::driver::Driver;
use crate::support::interpret::{self, Case, Kind};

/// The cases of a file, and how many of them can be built with what is there.
fn run(file: &str, passing: usize, waiting: usize) {
    let golden: Json = serde_json::from_str(file).unwrap();
    let (mut passed, mut waits) = (0, Vec::new());
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        match interpret::build(&case["topology"]) {
            Some(built) => {
                check(name, case, &built);
                passed += 1;
            }
            None => waits.push(name),
        }
    }
    println!("{}: {passed} passed, {} wait: {waits:?}", golden["group"], waits.len());
    assert_eq!((passed, waits.len()), (passing, waiting));
}

fn bytes(value: &Json) -> Option<Vec<u8>> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.as_bytes().to_vec()),
        number => Some(number.as_i64().unwrap().to_be_bytes().to_vec()),
    }
}

fn check(name: &str, case: &Json, built: &Case) {
    let cached = case["topology"]["config"]["cache_bytes"].as_i64().unwrap_or(0) > 1;
    let mut driver = Driver::with_cache(&built.topology, cached);
    for step in case["steps"].as_array().unwrap() {
        match step["in"].as_str() {
            Some(topic) => {
                let (key, value) = (bytes(&step["key"]), bytes(&step["value"]));
                driver.pipe(topic, key.as_deref(), value.as_deref(), step["ts"].as_i64().unwrap()).unwrap();
            }
            None => driver.advance(step["advance_ms"].as_i64().unwrap()).unwrap(),
        }
        let ours = by_topic(driver.take().into_iter().map(|(topic, k, v, t)| (topic, (k, v, t))));
        let right = step.get("right_out").unwrap_or(&step["out"]);
        let theirs = by_topic(right.as_array().unwrap().iter().map(|out| {
            let topic = out["topic"].as_str().unwrap().to_owned();
            (topic, (bytes(&out["key"]), bytes(&out["value"]), out["ts"].as_i64().unwrap()))
        }));
        assert_eq!(ours, theirs, "{name}: {step}");
    }
    if case["java_deviates"] == true {
        return;
    }
    check_stores(name, case, built, &mut driver);
    if !cached {
        check_logs(name, case, built, &driver);
    }
}

/// Order matters within a topic only.
fn by_topic<T>(records: impl Iterator<Item = (String, T)>) -> BTreeMap<String, Vec<T>> {
    let mut topics: BTreeMap<String, Vec<T>> = BTreeMap::new();
    records.for_each(|(topic, record)| topics.entry(topic).or_default().push(record));
    topics
}

fn check_stores(name: &str, case: &Json, built: &Case, driver: &mut Driver) {
    for (store, expected) in case["stores"].as_object().into_iter().flatten() {
        let at = driver.store(store);
        let stamped = built.topology.stores()[at.0 as usize].kind == StoreType::TimestampedKeyValue;
        let rows: BTreeMap<_, _> = expected["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let value = bytes(&row["value"]).unwrap();
                let time = row["ts"].as_i64().filter(|_| stamped).map(i64::to_be_bytes);
                (bytes(&row["key"]).unwrap(), [time.map_or(vec![], Vec::from), value].concat())
            })
            .collect();
        assert_eq!(driver.port_of(at).rows(at), rows, "{name}: store {store}");
    }
}

/// Key, value and time of a changelog record.
type Change = (Vec<u8>, Option<Vec<u8>>, i64);

/// The changelogs: a timestamped store's value goes without its time, which is the record's.
fn check_logs(name: &str, case: &Json, built: &Case, driver: &Driver) {
    let mut ours: HashMap<String, Vec<Change>> = HashMap::new();
    for change in driver.logged() {
        let store = &built.topology.stores()[change.store.0 as usize];
        let header = if store.kind == StoreType::TimestampedKeyValue { 8 } else { 0 };
        let value = change.value.map(|v| v[header..].to_vec());
        ours.entry(store.name.clone()).or_default().push((change.key, value, change.timestamp));
    }
    for topic in built.topology.internal_topics() {
        let InternalTopicKind::Changelog(at) = topic.kind else { continue };
        let store = &built.topology.stores()[at.0 as usize];
        let theirs = case["internal"][topic.topic.full_name("app")]
            .as_array()
            .into_iter()
            .flatten()
            .map(|r| (unhex(&r["key_hex"]).unwrap(), unhex(&r["value_hex"]), r["ts"].as_i64().unwrap()));
        let ours = ours.remove(&store.name).unwrap_or_default();
        assert_eq!(ours, theirs.collect::<Vec<_>>(), "{name}: changelog of {}", store.name);
    }
}

fn unhex(hex: &Json) -> Option<Vec<u8>> {
    let hex = hex.as_str()?;
    Some((0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect())
}

#[test]
fn kinds_of_a_case_are_those_of_its_topics() {
    let golden: Json = serde_json::from_str(include_str!("../golden/stateless.json")).unwrap();
    let longs = golden["cases"].as_array().unwrap().iter().find(|c| c["name"] == "long keys and values").unwrap();
    let built = interpret::build(&longs["topology"]).unwrap();
    assert!(built.kinds["in"] == (Kind::Long, Kind::Long));
}

#[test]
fn stateless() {
    run(include_str!("../golden/stateless.json"), 12, 0);
}

#[test]
fn aggregate() {
    run(include_str!("../golden/aggregate.json"), 13, 1);
}

#[test]
fn aggregate_random() {
    run(include_str!("../golden/aggregate_random.json"), 5, 0);
}

#[test]
fn table_ops() {
    run(include_str!("../golden/table_ops.json"), 13, 5);
}

#[test]
fn table_ops_random() {
    run(include_str!("../golden/table_ops_random.json"), 4, 2);
}

#[test]
fn table_group() {
    run(include_str!("../golden/table_group.json"), 17, 5);
}

#[test]
fn table_group_random() {
    run(include_str!("../golden/table_group_random.json"), 4, 2);
}

#[test]
fn punctuation() {
    run(include_str!("../golden/punctuation.json"), 8, 3);
}

#[test]
fn cache() {
    run(include_str!("../golden/cache.json"), 7, 3);
}
