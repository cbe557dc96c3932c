//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::data::Data;

/// The flights that left New York City in 2013, added up per carrier, hour and plane by Millpond.
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
    /// Replays the flights through the embedded broker, counts them and prints the results as JSON, in one process
    Demo(DemoOptions),
    /// Creates the topics on a Kafka cluster and replays the flights into them
    Load(LoadOptions),
    /// Counts the flights on a Kafka cluster, until it is stopped or all are counted
    Run(RunCommand),
    /// Prints the results that stand on a Kafka cluster as JSON
    Show(ShowOptions),
}

/// The options of `load`.
#[derive(Clone, Debug, Args)]
pub struct LoadOptions {
    /// Where to
    #[command(flatten)]
    pub cluster: ClusterOptions,

    /// How the flights are replayed
    #[command(flatten)]
    pub replay: ReplayOptions,
}

/// The options of `run`.
#[derive(Clone, Debug, Args)]
pub struct RunCommand {
    /// Where
    #[command(flatten)]
    pub cluster: ClusterOptions,

    /// How the application runs
    #[command(flatten)]
    pub run: RunOptions,

    /// Stop in good order once all flights that are there are counted and committed; two seconds after the last of them all
    /// hours are over. Without it only Ctrl-C or SIGTERM stops it, and hours that no later flight ends are over after five
    /// minutes of silence
    #[arg(long)]
    pub until_end: bool,

    /// Append what happens to tasks (restores, commits, flushes) to this file, a JSON object per line
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
}

/// The options of `show`.
#[derive(Clone, Debug, Args)]
pub struct ShowOptions {
    /// Where from
    #[command(flatten)]
    pub cluster: ClusterOptions,

    /// Also write the JSON to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A Kafka cluster.
#[derive(Clone, Debug, Args)]
pub struct ClusterOptions {
    /// The cluster: one or more addresses, with commas in between
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub broker: String,

    /// A setting by its name, of the application or of its clients, such as `security.protocol=SASL_SSL`; may be given
    /// several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<(String, String)>,
}

/// The options of `demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoOptions {
    /// The broker: `embedded`, which lives and ends with the process
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

    /// The directory of local state. For `demo` it must be new or empty, as the embedded broker begins empty too; without it
    /// an engine that writes files gets a temporary one, removed at the end. For `run` it is kept, and what makes a restart
    /// fast
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
    /// The engine of examples/custom-engine, which keeps files too
    Custom,
}

impl EngineOption {
    /// Whether it keeps files, and so needs a state directory.
    pub const fn persistent(self) -> bool {
        match self {
            Self::Mem => false,
            Self::Rocks | Self::Custom => true,
        }
    }
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
        "kafka" => {
            Err("`cargo xtask demo --broker kafka` starts a Kafka broker and runs `load`, `run` and `show`".to_owned())
        }
        _ => Err("`demo` has all parts in one process; for a Kafka cluster use `load`, `run` and `show`, which take \
                  --broker HOST:PORT"
            .to_owned()),
    }
}

fn parse_address(word: &str) -> Result<String, String> {
    let is_address =
        |part: &str| part.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    match word {
        "embedded" => {
            Err("the embedded broker ends with the process that has it: use `demo`, which has all parts".to_owned())
        }
        _ if word.split(',').all(is_address) => Ok(word.to_owned()),
        _ => Err("give HOST:PORT, such as localhost:9092, or several with commas in between".to_owned()),
    }
}

fn parse_setting(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("give KEY=VALUE".to_owned()),
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
            other => panic!("{other:?}"),
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
    fn the_demo_is_for_the_embedded_broker_and_says_what_is_for_kafka() {
        for (broker, remedy) in
            [("kafka", "cargo xtask demo --broker kafka"), ("localhost:9092", "`load`, `run` and `show`")]
        {
            let error = demo(&format!("--broker {broker}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ValueValidation);
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }

    fn parsed(line: &str) -> Result<Command, clap::Error> {
        Options::try_parse_from(line.split_whitespace()).map(|options| options.command)
    }

    #[test]
    fn the_parts_for_kafka_need_an_address_and_refuse_the_embedded_broker() {
        for part in ["load", "run", "show"] {
            assert_eq!(parsed(&format!("flights {part}")).unwrap_err().kind(), ErrorKind::MissingRequiredArgument);
            for (broker, remedy) in [("embedded", "use `demo`"), ("localhost", "HOST:PORT"), ("a:1,b", "HOST:PORT")] {
                let error = parsed(&format!("flights {part} --broker {broker}")).unwrap_err().to_string();
                assert!(error.contains(remedy), "{error}");
            }
            assert!(parsed(&format!("flights {part} --broker a:1,b:2 --set client.id=x")).is_ok());
        }
    }

    #[test]
    fn the_options_of_run_are_read() {
        let line = "flights run --broker a:1 --set session.timeout.ms=6000 --set ssl.key.password=a=b --engine rocks \
                    --guarantee at-least-once --state-dir s --threads 2 --until-end --events e.jsonl";
        let Command::Run(run) = parsed(line).unwrap() else { panic!("not a run") };
        assert_eq!(run.cluster.broker, "a:1");
        assert_eq!(run.cluster.set[1], ("ssl.key.password".to_owned(), "a=b".to_owned()));
        assert_eq!((run.run.engine, run.run.threads), (EngineOption::Rocks, 2));
        assert_eq!((run.until_end, run.events), (true, Some("e.jsonl".into())));
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = demo("--partitions 3").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownArgument);
        assert!(error.to_string().contains("--partitions"), "{error}");
    }
}
