//! `demo`: builds and runs the flights example, all in one process or on a Kafka broker that lives as long.

use std::path::Path;
use std::process::Command;

use millpond_kafka_dev::{Kafka, KafkaOptions};

use crate::cargo::{cargo, run as run_command};
use crate::error::{Error, Result};
use crate::setup;

/// Runs the demo with the options of the example; what links C is linked only when they ask for it.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut words = arguments.to_vec();
    if take(&mut words, "--broker", "kafka") {
        return on_kafka(&words);
    }
    let mut command = flights(&features(&words)?);
    eprintln!("demo: it is built in release mode first; nothing is said meanwhile, which takes minutes the first time");
    run_command(command.arg("demo").args(arguments))
}

/// Starts a broker and runs the three parts of the example on it, each with the options that are its own.
fn on_kafka(words: &[String]) -> Result<()> {
    let parts = Parts::split(words)?;
    let features = ["kafka".to_owned()].into_iter().chain(features(words)?).collect::<Vec<_>>();
    setup::ensure_c()?;
    // Built before the broker starts: two cores are few.
    run_command(cargo(&["build", "--release", "--package", EXAMPLE]).args(["--features", &features.join(",")]))?;
    let failed = |error: millpond_kafka_dev::Error| Error::failed(error.to_string());
    let kafka = Kafka::up(&KafkaOptions::default()).map_err(failed)?;
    eprintln!("a Kafka broker runs at {}, until the demo ends", kafka.bootstrap());
    let state = state_dir(kafka.log().parent());
    let part = |name: &str, options: &[String]| {
        let mut command = flights(&features);
        run_command(command.args([name, "--broker", kafka.bootstrap()]).args(options))
    };
    part("load", &parts.load)?;
    let needs_state = !parts.run.iter().any(|word| word.starts_with("--state-dir"));
    let state = if needs_state { vec!["--state-dir".to_owned(), state] } else { Vec::new() };
    part("run", &[parts.run, state, vec!["--until-end".to_owned()]].concat())?;
    part("show", &parts.show)
}

/// The state belongs to the broker's topics, so it goes with them.
fn state_dir(broker: Option<&Path>) -> String {
    broker.unwrap_or(Path::new("target")).join("flights-state").display().to_string()
}

const EXAMPLE: &str = "millpond-example-flights";

fn flights(features: &[String]) -> Command {
    let mut command = cargo(&["run", "--release", "--quiet", "--package", EXAMPLE]);
    if !features.is_empty() {
        command.args(["--features", &features.join(",")]);
    }
    command.arg("--");
    command
}

/// The features that the options need; RocksDB is seen to.
fn features(words: &[String]) -> Result<Vec<String>> {
    if !has(words, "--engine", "rocks") {
        return Ok(Vec::new());
    }
    setup::ensure_c()?;
    Ok(vec!["rocks".to_owned()])
}

/// Whether an option has this value, in one word or in two.
fn has(words: &[String], option: &str, value: &str) -> bool {
    take(&mut words.to_vec(), option, value)
}

/// Takes an option with this value out, if it is there.
fn take(words: &mut Vec<String>, option: &str, value: &str) -> bool {
    let joined = format!("{option}={value}");
    if let Some(at) = words.iter().position(|word| *word == joined) {
        words.remove(at);
        return true;
    }
    let pair = words.windows(2).position(|pair| matches!(pair, [name, is] if name == option && is == value));
    pair.is_some_and(|at| {
        words.drain(at..at + 2);
        true
    })
}

/// The options of `demo`, by the part of the example that has them.
#[derive(Debug, Default, Eq, PartialEq)]
struct Parts {
    load: Vec<String>,
    run: Vec<String>,
    show: Vec<String>,
}

impl Parts {
    fn split(words: &[String]) -> Result<Self> {
        let mut parts = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let name = word.split_once('=').map_or(&**word, |(name, _)| name);
            let part = match name {
                "--data" | "--repeat" | "--rate" => &mut parts.load,
                "--engine" | "--guarantee" | "--threads" | "--state-dir" => &mut parts.run,
                "--json" => &mut parts.show,
                _ => {
                    return Err(Error::usage(format!(
                        "`demo --broker kafka` does not know `{word}`: see `cargo xtask demo --help`"
                    )));
                }
            };
            part.push(word.clone());
            if !word.contains('=') {
                let missing = || Error::usage(format!("`{word}` needs a value"));
                part.push(words.next().ok_or_else(missing)?.clone());
            }
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn only_the_rocks_engine_asks_for_c() {
        for (line, asks) in [
            ("--threads 2 --engine rocks", true),
            ("--engine=rocks", true),
            ("--engine mem --data rocks", false),
            ("--engine custom", false),
            ("", false),
        ] {
            assert_eq!(has(&words(line), "--engine", "rocks"), asks, "{line}");
        }
    }

    #[test]
    fn the_broker_is_taken_out_and_the_rest_is_left() {
        for line in ["--broker kafka --threads 2", "--threads 2 --broker=kafka"] {
            let mut all = words(line);
            assert!(take(&mut all, "--broker", "kafka"));
            assert_eq!(all, words("--threads 2"));
        }
        assert!(!take(&mut words("--broker embedded"), "--broker", "kafka"));
    }

    #[test]
    fn each_part_gets_its_options() {
        let parts = Parts::split(&words("--data=year --engine rocks --rate 9 --json f --threads=2")).unwrap();
        assert_eq!(parts.load, words("--data=year --rate 9"));
        assert_eq!(parts.run, words("--engine rocks --threads=2"));
        assert_eq!(parts.show, words("--json f"));
    }

    #[test]
    fn an_unknown_option_and_a_missing_value_are_named() {
        for (line, part) in [("--fast", "`--fast`"), ("--threads", "`--threads` needs a value")] {
            let error = Parts::split(&words(line)).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.message().unwrap().contains(part));
        }
    }
}
