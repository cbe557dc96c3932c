//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::data::Data;

/// The flights that left New York City in 2013, counted per carrier by Millpond.
#[derive(Clone, Debug, Parser)]
#[command(name = "flights", version)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Replays the flights through a broker, counts them and prints the totals as JSON, in one process
    Demo(DemoOptions),
}

/// The options of `demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoOptions {
    /// The broker; for now `embedded`, which lives and ends with the process
    #[arg(long, default_value = "embedded", value_parser = parse_broker)]
    pub broker: BrokerOption,

    /// How the flights are replayed
    #[command(flatten)]
    pub replay: ReplayOptions,

    /// How the application runs
    #[command(flatten)]
    pub run: RunOptions,

    /// Also write the JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Which flights are replayed, and how fast.
#[derive(Clone, Debug, Args)]
pub struct ReplayOptions {
    /// The flights: `january`, `year` (a file that does not ship: see examples/flights/data/README.md) or the path of a CSV
    /// file, gzipped or not
    #[arg(long, default_value = "january", value_name = "january|year|PATH")]
    pub data: Data,

    /// Replay the file N times, each time a year later
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,

    /// Replay at most N records per second; without it as fast as the broker takes them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: Option<u32>,
}

/// How the application runs.
#[derive(Clone, Debug, Args)]
pub struct RunOptions {
    /// The storage engine
    #[arg(long, value_enum, default_value_t)]
    pub engine: EngineOption,

    /// The processing guarantee
    #[arg(long, value_enum, default_value_t)]
    pub guarantee: GuaranteeOption,

    /// The directory of local state; must be new or empty, as the embedded broker begins empty too. Without it an
    /// engine that writes files gets a temporary one, removed at the end
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// How many worker threads
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub threads: u32,
}

/// A broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerOption {
    /// In the process.
    Embedded,
}

/// A storage engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EngineOption {
    /// In memory, restored from the changelog after a restart
    #[default]
    Mem,
    /// RocksDB; the program must be built with the feature `rocks`
    Rocks,
}

/// A processing guarantee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum GuaranteeOption {
    /// A record may be counted again after a crash
    AtLeastOnce,
    /// Each record counts once, whatever happens
    #[default]
    ExactlyOnce,
}

fn parse_broker(word: &str) -> Result<BrokerOption, String> {
    match word {
        "embedded" => Ok(BrokerOption::Embedded),
        _ => Err("only `embedded` works today; Kafka (`kafka`, HOST:PORT) is not supported yet".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn demo(arguments: &str) -> Result<DemoOptions, clap::Error> {
        let words = ["flights", "demo"].into_iter().chain(arguments.split_whitespace());
        Options::try_parse_from(words).map(|options| match options.command {
            Command::Demo(demo) => demo,
        })
    }

    #[test]
    fn the_definition_has_no_contradictions() {
        Options::command().debug_assert();
    }

    #[test]
    fn the_defaults_need_nothing_but_the_program() {
        let options = demo("").unwrap();
        assert_eq!(options.broker, BrokerOption::Embedded);
        assert_eq!((options.replay.data, options.replay.repeat, options.replay.rate), (Data::January, 1, None));
        assert_eq!((options.run.engine, options.run.guarantee), (EngineOption::Mem, GuaranteeOption::ExactlyOnce));
        assert_eq!((options.run.state_dir, options.run.threads, options.json), (None, 1, None));
    }

    #[test]
    fn all_options_are_read() {
        let all = "--broker embedded --engine rocks --guarantee at-least-once --data year --repeat 10 --rate 4000 \
                   --state-dir s --threads 2 --json totals.json";
        let options = demo(all).unwrap();
        assert_eq!((options.replay.data, options.replay.repeat, options.replay.rate), (Data::Year, 10, Some(4000)));
        assert_eq!((options.run.engine, options.run.guarantee), (EngineOption::Rocks, GuaranteeOption::AtLeastOnce));
        assert_eq!((options.run.state_dir, options.run.threads), (Some("s".into()), 2));
        assert_eq!(options.json, Some("totals.json".into()));
        assert_eq!(demo("--data some/file.csv").unwrap().replay.data, Data::Path("some/file.csv".into()));
    }

    #[test]
    fn numbers_below_one_are_refused() {
        for option in ["--repeat 0", "--rate 0", "--threads 0", "--threads -1"] {
            assert!(demo(option).is_err(), "{option}");
        }
    }

    #[test]
    fn a_broker_that_is_not_embedded_says_what_works() {
        for broker in ["kafka", "localhost:9092"] {
            let error = demo(&format!("--broker {broker}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ValueValidation);
            assert!(error.to_string().contains("only `embedded` works today"), "{error}");
        }
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = demo("--partitions 3").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownArgument);
        assert!(error.to_string().contains("--partitions"), "{error}");
    }
}
