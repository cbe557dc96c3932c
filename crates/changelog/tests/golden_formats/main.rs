//! The bytes of Kafka Streams 4.4, as its own classes made them (`tests/golden/README.md`): one test per file, all of them
//! again in `golden_formats_total`, which closes with what passed, failed and waits.
//!
//! With `MILLPOND_GOLDEN=DIR` another folder of the same shape is read: `DIR/formats`, or `DIR` where the files lie in it. It
//! need not have all files; those of this folder must all be there. A file or a field that no test reads is a failure.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

mod case;
mod commands;
mod damage;
mod folder;
mod keys;
mod lists;
mod numbers;
mod records;
mod serdes;
mod suppress;
mod values;

use std::io::Write as _;

use case::{Case, Outcome};
use folder::{Folder, Verdict};

/// What is made of each case of a file.
type Check = fn(&Case<'_>) -> Outcome;

macro_rules! golden {
    ($($test:ident: $file:literal => $check:path;)*) => {
        /// The files that are read, and how.
        const CHECKS: &[(&str, Check)] = &[$(($file, $check)),*];

        $(
            #[test]
            fn $test() {
                let verdict = Folder::find().check($file, $check);
                show(&format!("{verdict}\n"));
                assert!(verdict.is_good(), "{verdict}");
            }
        )*
    };
}

golden! {
    golden_formats_aggregation_with_headers: "aggregation_with_headers" => values::aggregation_with_headers;
    golden_formats_change: "change" => values::change;
    golden_formats_change_read: "change_read" => values::change_read;
    golden_formats_changelog_records: "changelog_records" => records::changelog_records;
    golden_formats_commit_metadata: "commit_metadata" => numbers::commit_metadata;
    golden_formats_commit_metadata_read: "commit_metadata_read" => numbers::commit_metadata_read;
    golden_formats_headers: "headers" => values::headers;
    golden_formats_list_serde: "list_serde" => lists::list_serde;
    golden_formats_murmur3_128: "murmur3_128" => numbers::murmur3;
    golden_formats_partition: "partition" => numbers::partition;
    golden_formats_position: "position" => numbers::position;
    golden_formats_prefixed_keys: "prefixed_keys" => keys::prefixed;
    golden_formats_serdes: "serdes" => serdes::serdes;
    golden_formats_serdes_bad_input: "serdes_bad_input" => serdes::bad_input;
    golden_formats_session_key: "session_key" => keys::session;
    golden_formats_suppress_buffer_value: "suppress_buffer_value" => suppress::buffer_value;
    golden_formats_time_windowed_key: "time_windowed_key" => keys::time_windowed;
    golden_formats_time_windowed_key_read: "time_windowed_key_read" => keys::time_windowed_read;
    golden_formats_value_and_timestamp: "value_and_timestamp" => values::value_and_timestamp;
    golden_formats_value_timestamp_headers: "value_timestamp_headers" => values::value_timestamp_headers;
    golden_formats_window_store_key: "window_store_key" => keys::window_store;
    golden_formats_windowed_partition: "windowed_partition" => keys::windowed_partition;
}

/// Formats that nothing here reads or writes yet; the last two are Kafka Streams' own affair.
const WAITING: &[&str] = &[
    "fk_combined_key",
    "fk_response",
    "fk_subscription",
    "outer_join_key",
    "outer_join_list",
    "outer_join_value",
    "checkpoint_file",
    "assignment_userdata",
    "subscription_userdata",
];

#[test]
fn golden_formats_total() {
    let folder = Folder::find();
    let verdicts: Vec<_> = CHECKS.iter().map(|(file, check)| folder.check(file, *check)).collect();
    let waiting: Vec<_> = WAITING.iter().map(|file| (file, folder.count(file))).collect();
    let known = |file: &String| CHECKS.iter().any(|(f, _)| f == file) || WAITING.contains(&file.as_str());
    let unknown: Vec<_> = folder.files().into_iter().filter(|file| !known(file)).collect();

    let sum = |of: fn(&Verdict) -> usize| verdicts.iter().map(of).sum::<usize>();
    let (passed, failed) = (sum(|v| v.passed), sum(|v| v.failures.len()));
    let waits: usize = waiting.iter().map(|(_, cases)| cases).sum();
    let mut text: String = verdicts.iter().map(|verdict| format!("{verdict}\n")).collect();
    text.extend(waiting.iter().map(|(file, cases)| format!("golden_formats_{file}: {cases} waiting\n")));
    text.extend(unknown.iter().map(|file| format!("golden_formats_{file}: unknown file\n")));
    text.push_str(&format!("golden formats: {passed} passed, {failed} failed, {waits} waiting\n"));
    show(&text);
    assert!(passed > 0 && unknown.is_empty() && verdicts.iter().all(Verdict::is_good), "{text}");
}

/// Past the test harness, which would keep back what a passed test prints.
fn show(text: &str) {
    std::io::stdout().write_all(text.as_bytes()).unwrap();
}
