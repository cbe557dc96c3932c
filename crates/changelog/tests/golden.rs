//! The bytes of Kafka Streams 4.4, as the real Java library made them.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use millpond_changelog::{Change, CommitMetadata, ValueFormat, partition_for_key};
use serde_json::Value;

fn cases(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).unwrap();
    let cases = file["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn field(case: &Value, name: &str) -> Vec<u8> {
    hex(case[name].as_str().unwrap())
}

fn optional(case: &Value, name: &str) -> Option<Vec<u8>> {
    case[name].as_str().map(hex)
}

fn metadata(case: &Value) -> CommitMetadata {
    CommitMetadata {
        partition_time: case["partition_time"].as_i64().unwrap(),
        processor: case["processor_metadata"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.clone(), value.as_i64().unwrap()))
            .collect(),
    }
}

#[test]
fn partition() {
    let mut checked = 0;
    for case in cases(include_str!("golden/formats/partition.json")) {
        let key = field(&case, "key_hex");
        for (partitions, expected) in case["partition_of"].as_object().unwrap() {
            assert_eq!(i64::from(partition_for_key(&key, partitions.parse().unwrap())), expected.as_i64().unwrap());
            checked += 1;
        }
    }
    assert!(checked >= 1000, "{checked}");
}

#[test]
fn commit_metadata() {
    for case in cases(include_str!("golden/formats/commit_metadata.json")) {
        let text = case["metadata"].as_str().unwrap();
        let mut out = String::new();
        metadata(&case).encode(&mut out);
        assert_eq!(out, text);
        assert_eq!(CommitMetadata::decode(text), metadata(&case));
    }
}

#[test]
fn commit_metadata_read() {
    for case in cases(include_str!("golden/formats/commit_metadata_read.json")) {
        assert_eq!(CommitMetadata::decode(case["metadata"].as_str().unwrap()), metadata(&case), "{case}");
    }
}

#[test]
fn value_and_timestamp() {
    let mut scratch = Vec::new();
    for case in cases(include_str!("golden/formats/value_and_timestamp.json")) {
        let (stored, value, ts) = (field(&case, "hex"), field(&case, "value_hex"), case["ts"].as_i64().unwrap());
        let change = Change { key: b"k", value: Some(&stored), timestamp: 99 };
        let logged = ValueFormat::Timestamped.to_log(change).unwrap();
        assert_eq!((logged.value, logged.timestamp), (Some(&*value), ts));
        assert_eq!(ValueFormat::Timestamped.to_store(Some(&value), ts, &mut scratch), Some(&*stored));
    }
}

/// What a command of a case did to the store.
type Update = (Vec<u8>, Option<Vec<u8>>, i64);

/// The updates that the commands of a key-value case stand for; the answers tell which were carried out.
fn updates(commands: &[Value]) -> Vec<Update> {
    let mut updates = Vec::new();
    for command in commands {
        let ts = command["ts"].as_i64().unwrap();
        let words: Vec<_> = command["command"].as_str().unwrap().split(' ').collect();
        let text = |word: &str| word.trim_matches('\'').as_bytes().to_vec();
        let value = |word: &str| (word != "-").then(|| text(word));
        match words[..] {
            ["put" | "put_if_absent", key, new] => updates.push((text(key), value(new), ts)),
            ["delete", key] => updates.push((text(key), None, ts)),
            ["put_all", ref pairs @ ..] => {
                updates.extend(pairs.chunks(2).map(|pair| (text(pair[0]), value(pair[1]), ts)));
            }
            _ => panic!("unknown command {words:?}"),
        }
    }
    updates
}

#[test]
fn changelog_records() {
    let mut checked = 0;
    for case in cases(include_str!("golden/formats/changelog_records.json")) {
        let format = match case["store"]["kind"].as_str().unwrap() {
            "kv" if case["store"]["lru_entries"].is_null() => ValueFormat::Plain,
            "timestamped_kv" => ValueFormat::Timestamped,
            _ => continue,
        };
        let updates = updates(case["commands"].as_array().unwrap());
        let expected = case["changelog"].as_array().unwrap();
        assert_eq!(updates.len(), expected.len(), "{case}");
        for ((key, value, ts), record) in updates.into_iter().zip(expected) {
            let mut scratch = Vec::new();
            // Down to the store's bytes and up again to the record.
            let stored = format.to_store(value.as_deref(), ts, &mut scratch);
            let logged = format.to_log(Change { key: &key, value: stored, timestamp: ts }).unwrap();
            assert_eq!(logged.key, field(record, "key_hex"));
            assert_eq!(logged.value.map(<[u8]>::to_vec), optional(record, "value_hex"));
            assert_eq!(logged.timestamp, record["ts"].as_i64().unwrap());
            checked += 1;
        }
    }
    assert!(checked >= 20, "{checked}");
}
