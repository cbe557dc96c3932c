//! The program as a shell sees it: exit codes, and what it says of a command line that cannot be.

use std::fs;
#[cfg(unix)]
use std::io::{BufRead, BufReader};
use std::process::{Command, Output};

use crate::assert_january;

fn flights(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flights")).args(arguments).output().unwrap()
}

fn refused(arguments: &[&str], code: i32, part: &str) {
    let output = flights(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}: the standard output is for the results");
}

#[test]
fn a_wrong_command_line_is_exit_code_2_and_names_the_option() {
    refused(&[], 2, "Usage");
    refused(&["play"], 2, "play");
    refused(&["demo", "--partitions", "3"], 2, "--partitions");
    refused(&["demo", "--engine", "paper"], 2, "mem, rocks, custom");
    refused(&["demo", "--broker", "kafka"], 2, "cargo xtask demo --broker kafka");
    refused(&["demo", "--broker", "localhost:9092"], 2, "`load`, `run` and `show`");
    refused(&["load", "--broker", "embedded"], 2, "use `demo`");
    refused(&["run", "--broker", "localhost:9092", "--set", "comit.interval.ms=1"], 2, "commit.interval.ms");
    refused(&["demo", "--repeat", "0"], 2, "--repeat");
}

#[test]
fn a_file_that_cannot_be_read_is_exit_code_1_and_named() {
    refused(&["demo", "--data", "/nowhere/flights.csv"], 1, "/nowhere/flights.csv");
}

#[test]
fn a_year_that_is_not_there_says_where_it_was_looked_for() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_flights"));
    let output =
        program.args(["demo", "--data", "year"]).env("MILLPOND_FLIGHTS_YEAR", "/nowhere/y.gz").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/nowhere/y.gz") && said.contains("MILLPOND_FLIGHTS_YEAR"), "{said}");
}

#[cfg(not(feature = "kafka"))]
#[test]
fn kafka_without_its_feature_names_the_way_to_it() {
    refused(&["show", "--broker", "localhost:9092"], 2, "--features kafka");
}

#[cfg(feature = "kafka")]
#[test]
fn an_engine_with_files_needs_a_place_for_them_on_kafka() {
    for engine in ["rocks", "custom"] {
        refused(&["run", "--broker", "localhost:9092", "--engine", engine], 2, "--state-dir DIR");
    }
}

#[cfg(not(feature = "rocks"))]
#[test]
fn rocks_without_its_feature_names_the_way_to_it() {
    refused(&["demo", "--engine", "rocks"], 2, "cargo xtask demo --engine rocks");
}

#[test]
fn the_demo_prints_january_and_nothing_else_to_the_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let output = flights(&["demo", "--json", file.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_january(&printed);
    assert_eq!(fs::read_to_string(file).unwrap(), printed);
    let [.., last, summary] = &said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(summary.starts_with("16 carriers; "), "{said}");
    assert!(last.contains("replayed=27004 processed=27004 lag=0") && last.contains("top=UA:4637,B6:4427"), "{said}");
    assert!(!said.contains('\x1b'), "no terminal, no cursor: {said}");
}

#[test]
fn a_file_that_cannot_be_written_is_named_after_the_results_are_printed() {
    let output = flights(&["demo", "--json", "/nowhere/results.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_january(&String::from_utf8(output.stdout).unwrap());
    assert!(String::from_utf8(output.stderr).unwrap().contains("/nowhere/results.json"));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_in_good_order() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_flights"));
    let mut running = program.args(["demo", "--rate", "1"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(running.stderr.take().unwrap()).lines();
    // The first line is drawn when everything runs.
    said.next().unwrap().unwrap();
    let sent = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert_eq!(said.last().unwrap().unwrap(), "error: interrupted");
}

#[test]
fn an_engine_with_files_without_a_state_directory_takes_one_and_removes_it() {
    let engines: &[&str] = if cfg!(feature = "rocks") { &["custom", "rocks"] } else { &["custom"] };
    for engine in engines {
        let output = flights(&["demo", "--engine", engine]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_january(&String::from_utf8(output.stdout).unwrap());
        let folder =
            said.lines().find_map(|line| line.strip_prefix("state is in ")?.strip_suffix(", removed at the end"));
        assert!(!std::path::Path::new(folder.unwrap()).exists(), "{said}");
    }
}
