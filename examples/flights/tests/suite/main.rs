//! The tests of the example, from its data to its program.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic is how a test reports")]

mod data;
mod end_to_end;
mod expected;
mod parts;
mod program;

use std::path::Path;

use serde_json::Value;

/// The carriers of January, letter by letter.
const JANUARY_CARRIERS: &str = include_str!("january.json");

/// What is printed must be January: the carriers letter by letter, all of it as the file says.
#[track_caller]
pub(crate) fn assert_january(json: &str) {
    let carriers = JANUARY_CARRIERS.trim_end().replace('\n', "\n  ");
    let begin = format!("{{\n  \"carriers\": {carriers},\n  \"hourly\": {{");
    assert!(json.starts_with(&begin), "{}", &json[..json.len().min(2 * begin.len())]);
    assert!(json.ends_with("\n}\n"));
    assert_results(json, Path::new(expected::JANUARY), 1);
}

/// What is printed must be what a file says that is replayed so many times.
#[track_caller]
pub(crate) fn assert_results(json: &str, file: &Path, times: i64) {
    let (json, expected): (Value, _) =
        (serde_json::from_str(json).unwrap(), expected::results(&expected::text(file), times));
    expected::assert_same(&json, &expected);
}
