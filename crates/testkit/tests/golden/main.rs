//! The topologies, inputs and outputs of Kafka Streams 4.4 (`behaviour/README.md`), in the driver.
//!
//! There is a test for each file of cases, which closes with a line that counts what passed, failed and waits for what is not
//! there yet; and of what passed, how much did so by a reading of ours or by one of the `easings`. `MILLPOND_GOLDEN=DIR`
//! takes other files of the same shape: `DIR/behaviour/*.json` or `DIR/*.json`, and `DIR/topics.json`.

#![expect(clippy::expect_used, reason = "a test stops where its own files cannot be read")]

mod build;
mod case;
mod commands;
mod compare;
mod easings;
mod expiry;
mod finals;
mod functions;
mod hex;
mod op;
mod processors;
mod readings;
mod run;
mod topics;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use case::Group;
use run::{Outcome, run};

/// Where the files are.
fn folder() -> PathBuf {
    match std::env::var_os("MILLPOND_GOLDEN") {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"),
    }
}

fn behaviour_folder() -> PathBuf {
    let folder = folder();
    let inner = folder.join("behaviour");
    if inner.is_dir() { inner } else { folder }
}

/// Runs all cases of a file, and tells of all that fail.
#[track_caller]
fn behaviour(file: &str) {
    let path = behaviour_folder().join(format!("{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    let group: Group = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(file.starts_with(&group.group), "{} is of the group {}", path.display(), group.group);
    let outcomes: Vec<_> = group.cases.iter().map(|case| run(file, case)).collect();
    close(&format!("golden_behaviour_{file}"), &outcomes);
}

/// Prints the counts, and fails if something has.
#[track_caller]
fn close(test: &str, outcomes: &[(String, Outcome)]) {
    let mut failures = String::new();
    let (mut passed, mut failed, mut waiting) = (0, 0, 0);
    let (mut by_hand, mut eased) = (0, BTreeMap::<_, usize>::new());
    for (name, outcome) in outcomes {
        match outcome {
            Outcome::Passed(help) => {
                passed += 1;
                by_hand += usize::from(help.by_hand);
                help.easings.iter().for_each(|easing| *eased.entry(*easing).or_default() += 1);
            }
            Outcome::Waiting(why) => {
                waiting += 1;
                println!("{test}: `{name}` waits for {why}");
            }
            Outcome::Failed(why) => {
                failed += 1;
                failures.push_str(&format!("{name}\n{why}"));
            }
        }
    }
    if !failures.is_empty() {
        println!("{failures}");
    }
    let eased: String = eased.iter().map(|(easing, cases)| format!(", {cases} eased ({})", easing.name())).collect();
    println!("{test}: {passed} passed, {failed} failed, {waiting} waiting; {by_hand} by a reading{eased}");
    assert!(failed == 0, "{failed} of {} cases failed", outcomes.len());
}

macro_rules! behaviour_tests {
    ($($test:ident: $file:literal,)+) => {
        $(
            #[test]
            fn $test() {
                behaviour($file);
            }
        )+

        const FILES: &[&str] = &[$($file),+];
    };
}

behaviour_tests! {
    golden_behaviour_aggregate: "aggregate",
    golden_behaviour_aggregate_random: "aggregate_random",
    golden_behaviour_cache: "cache",
    golden_behaviour_cache_random: "cache_random",
    golden_behaviour_cogroup: "cogroup",
    golden_behaviour_cogroup_random: "cogroup_random",
    golden_behaviour_emit_on_close: "emit_on_close",
    golden_behaviour_emit_on_close_random: "emit_on_close_random",
    golden_behaviour_headers: "headers",
    golden_behaviour_join_foreign_key: "join_foreign_key",
    golden_behaviour_join_foreign_key_random: "join_foreign_key_random",
    golden_behaviour_join_global_table: "join_global_table",
    golden_behaviour_join_stream_stream: "join_stream_stream",
    golden_behaviour_join_stream_stream_random: "join_stream_stream_random",
    golden_behaviour_join_stream_table: "join_stream_table",
    golden_behaviour_join_stream_table_random: "join_stream_table_random",
    golden_behaviour_join_table_table: "join_table_table",
    golden_behaviour_join_table_table_random: "join_table_table_random",
    golden_behaviour_punctuation: "punctuation",
    golden_behaviour_stateless: "stateless",
    golden_behaviour_store_kv: "store_kv",
    golden_behaviour_store_kv_random: "store_kv_random",
    golden_behaviour_store_session: "store_session",
    golden_behaviour_store_session_random: "store_session_random",
    golden_behaviour_store_versioned: "store_versioned",
    golden_behaviour_store_versioned_random: "store_versioned_random",
    golden_behaviour_store_window: "store_window",
    golden_behaviour_store_window_random: "store_window_random",
    golden_behaviour_suppress: "suppress",
    golden_behaviour_suppress_random: "suppress_random",
    golden_behaviour_table_group: "table_group",
    golden_behaviour_table_group_random: "table_group_random",
    golden_behaviour_table_ops: "table_ops",
    golden_behaviour_table_ops_random: "table_ops_random",
    golden_behaviour_time: "time",
    golden_behaviour_versioned_table: "versioned_table",
    golden_behaviour_window_session: "window_session",
    golden_behaviour_window_session_random: "window_session_random",
    golden_behaviour_window_sliding: "window_sliding",
    golden_behaviour_window_sliding_random: "window_sliding_random",
    golden_behaviour_window_time: "window_time",
    golden_behaviour_window_time_random: "window_time_random",
}

/// Files that no other test knows.
#[test]
fn golden_behaviour_other_files() {
    let folder = behaviour_folder();
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("cannot read {}: {e}", folder.display()));
    for file in files {
        let path = file.expect("the folder can be read").path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|e| e == "json") && name != "topics" && !FILES.contains(&name) {
            behaviour(name);
        }
    }
}
