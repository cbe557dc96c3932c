//! The command line: verbs, their options and their help.

use crate::bench::{BenchOptions, CriterionOptions, MemoryBenchOptions, PeerOptions, Workload};
use crate::ci::{self, CiOptions};
use crate::conformance::ConformanceOptions;
use crate::doc::DocOptions;
use crate::error::{Error, Result};
use crate::kafka::KafkaCommand;
use crate::test::TestOptions;
use millpond_kafka_dev::Background;

/// What the developer asked for.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Command {
    Help(String),
    Setup,
    Demo(Vec<String>),
    Test(TestOptions),
    Kafka(KafkaCommand),
    Ci(CiOptions),
    Conformance(ConformanceOptions),
    Layers,
    Tidy,
    Bench(BenchOptions),
    Size(Vec<String>),
    Doc(DocOptions),
    Fix,
}

/// One verb: its name, its line in the overview, and its own page of help.
struct Verb {
    name: &'static str,
    summary: &'static str,
    help: &'static str,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "setup",
        summary: "install the tools and build RocksDB, once; the others call it when something is missing",
        help: "\
cargo xtask setup

Installs cargo-nextest and cargo-deny, and what of libclang, a C++ compiler, make, pkg-config, OpenSSL and zlib is missing (with
root on Debian; elsewhere it prints the line to type), and builds RocksDB once into the cache, about a quarter of an hour
on two cores. Installs Java and Maven likewise and fetches the jars of Kafka for the tests; without them it only says so.
Everything goes to $XDG_CACHE_HOME/millpond or ~/.cache/millpond; `.cargo/local.toml` then points cargo to it.
When all is there it does nothing, quickly.
",
    },
    Verb {
        name: "demo",
        summary: "run the flights demo: embedded broker, memory engine, no C; or on Kafka",
        help: "\
cargo xtask demo [OPTIONS]
cargo xtask demo --broker kafka [OPTIONS]

Builds examples/flights in release mode and runs its `demo` with the options given. With `--engine rocks` it first sees
to it that RocksDB is there. The program's own options are listed by `cargo xtask demo -- --help`.

With `--broker kafka` it starts a Kafka broker (Java and Maven needed) and runs the program's `load`, `run --until-end`
and `show` on it, one after the other; the broker ends with the demo.
",
    },
    Verb {
        name: "test",
        summary: "all tests: doc tests first, then nextest",
        help: "\
cargo xtask test [--slow] [-p PACKAGE]... [-- NEXTEST FILTERS]

Starts a Kafka broker for the tests, if a package that may need one is among them, and stops it afterwards. That takes
Java 17 (`cargo xtask setup` sees to it); without it, tests that need a broker are shown as ignored, or fail where `CI` is
set. MILLPOND_TEST_KAFKA=HOST:PORT names a broker of yours instead, MILLPOND_TEST_KAFKA=docker starts one in a container.

  --slow         the long lists too (MILLPOND_SLOW=1)
  -p, --package  only this package; may be given several times
  -- FILTERS     names or options for nextest; the doc tests are then left out
",
    },
    Verb {
        name: "kafka",
        summary: "a real Kafka broker in the background, and Kafka's tools",
        help: "\
cargo xtask kafka up|down|kill|start [--port N]
cargo xtask kafka tool CLASS [--] ARGS...

  up      start a broker on fresh data and print its address
  down    stop it and remove its data
  kill    end it at once (SIGKILL), its data stays
  start   start it again on the data that it kept
  tool    run one of Kafka's classes, say org.apache.kafka.tools.TopicCommand; `--` passes on a `--help` too

  --port N  its port, 19092 without it; the secure listener and the controller take the next two

It takes Java 17 and Maven. Data and jars lie in the cache, see `cargo xtask setup --help`.
",
    },
    Verb {
        name: "ci",
        summary: "everything that must be green, ending with `cargo xtask test`",
        help: "\
cargo xtask ci [--only JOB]... [--list]

  --only JOB  run this job alone; may be given several times
  --list      print the jobs in order
",
    },
    Verb {
        name: "conformance",
        summary: "the cases of every storage engine, counted; `--faults` shows that they can fail",
        help: "\
cargo xtask conformance [--faults]

Runs the suite that every storage engine must pass on the engines of this repository (mem, rocks, and the one of
examples/custom-engine), the cases of the store kinds through the runtime's overlay too, and says how many cases ran on each.

  --faults  instead, put each of ten named faults around an engine, and show which cases notice it; one that no case
            notices is a failure
",
    },
    Verb {
        name: "layers",
        summary: "check the arrows between crates and what must not be in their trees",
        help: "\
cargo xtask layers

Compares the dependencies of every crate with the table in xtask/src/layers.rs, and the trees that cargo resolves with
the absences in xtask/src/absences.rs.
",
    },
    Verb {
        name: "tidy",
        summary: "check the rules of the house that no other tool knows",
        help: "\
cargo xtask tidy

Looks at every file that git tracks or would track. The rules are in xtask/src/tidy/.
",
    },
    Verb {
        name: "bench",
        summary: "run the criterion benches; `bench peer` compares with Kafka Streams, `bench memory` looks at resident memory",
        help: "\
cargo xtask bench [NAME] [-- CRITERION OPTIONS]

  NAME        one bench target, such as hot_path, kinds or scan; all without it
  -- OPTIONS  filters and options for criterion

cargo xtask bench peer [OPTIONS]

Compares Millpond with Kafka Streams, and with a loop of Millpond's clients alone, on a real broker, in turns: records per
second and per CPU second, peak memory, and their ratios with the floors that must be held. xtask/peer/README.md defines
all of it. Needs a JDK (17 or later) and Maven. All of it takes hours; on a machine with other work it tells little.

  --bootstrap HOST:PORT  a broker that runs already, instead of one of our own; input topics stay on it, and are found again
  --only WORKLOADS       some of copy,count,restore,crash, with commas in between
  --alternations N       turns of each; 3 without it
  --records N            input records; 3000000 without it
  --keys N               distinct keys; 1000000 without it
  --quick                a tenth of the records and keys, one turn, where nothing else is said
  --out FILE             appends a line of JSON for each measurement to the file, not to standard error

cargo xtask bench memory [OPTIONS]

Measures the resident memory of an application with eight stores per task, a third of them windowed, under puts and scans, until
its state is ten times `memory.budget.bytes`; with the system's allocator and with jemalloc, and the same beside RocksDB's
defaults. Fails if 78 MiB more than the budget are taken. Some twenty minutes, and 12 GB of disk.

  --budget MIB   memory.budget.bytes; 512 without it
  --state MIB    bytes of keys and values in the end; ten times the budget without it
  --shards N     tasks; 64 without it
  --dir PATH     where state lies meanwhile; cargo's target directory without it
",
    },
    Verb {
        name: "size",
        summary: "estimate the disk, memory and changelogs that a store takes",
        help: "\
cargo xtask size --keys N [OPTIONS]

Prints what `millpond::runtime::Sizing` estimates for one store. Several stores are estimated one by one and added.

  --keys N           keys that have a row: in all, or on average in each window
  --key-bytes N      a key's bytes on average; 16 without it
  --value-bytes N    a value's bytes on average; 100 without it
  --timestamped      the kind keeps a timestamp with each value, as tables and aggregations do
  --window TIME      the window's size, such as 500ms, 30s, 5m, 12h, 7d; without it the store has no windows
  --advance TIME     from one window's start to the next one's; the size without it
  --retention TIME   how long a window is kept after its start; the size without it
  --no-changelog     the store is not logged
  --partitions N     tasks that have the store; 1 without it
  --standbys N       num.standby.replicas; 0 without it
  --instances N      processes; 1 without it
  --replication N    replication factor of the changelog; 1 without it
  --compression P    what compression leaves of keys and values on disk, such as 0.5; 1 without it
  --hot P            the part of the rows that is in use all the time; 0.1 without it
  --engine E         rocks (rows on disk) or mem; rocks without it
",
    },
    Verb {
        name: "doc",
        summary: "build the documentation, warnings are errors",
        help: "\
cargo xtask doc [--all] [--open]

  --all   the crates that link C too, with all features
  --open  show it in a browser
",
    },
    Verb {
        name: "fix",
        summary: "format, and apply what clippy can fix; writes into the work tree",
        help: "\
cargo xtask fix

Runs `cargo fmt --all`, then `cargo clippy --fix` on every target.
",
    },
];

/// Reads a command line without the program's name.
pub(crate) fn parse(arguments: &[String]) -> Result<Command> {
    let Some((verb, rest)) = arguments.split_first() else {
        return Err(Error::usage(format!("a verb is missing\n\n{}", overview())));
    };
    if is_help(verb) {
        return Ok(Command::Help(overview()));
    }
    let Some(known) = VERBS.iter().find(|known| known.name == verb) else {
        let names = VERBS.iter().map(|verb| verb.name).collect::<Vec<_>>().join(", ");
        return Err(Error::usage(format!(
            "unknown verb `{verb}`: use one of {names}; `cargo xtask --help` explains them"
        )));
    };
    if rest.iter().take_while(|argument| *argument != "--").any(|argument| is_help(argument)) {
        return Ok(Command::Help(known.help.to_owned()));
    }
    parse_verb(known.name, rest)
}

fn parse_verb(verb: &'static str, rest: &[String]) -> Result<Command> {
    let mut words = Words { verb, rest };
    match verb {
        "setup" => words.end(Command::Setup),
        "demo" => Ok(Command::Demo(rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest).to_vec())),
        "test" => words.test(),
        "kafka" => words.kafka(),
        "ci" => words.ci(),
        "conformance" => words.conformance(),
        "layers" => words.end(Command::Layers),
        "tidy" => words.end(Command::Tidy),
        "bench" => words.bench(),
        "size" => Ok(Command::Size(rest.to_vec())),
        "doc" => words.doc(),
        "fix" => words.end(Command::Fix),
        other => unreachable!("verb `{other}` is listed but not parsed"),
    }
}

/// The words after a verb, taken one by one.
struct Words<'a> {
    verb: &'static str,
    rest: &'a [String],
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn end<T>(&mut self, read: T) -> Result<T> {
        match self.next() {
            None => Ok(read),
            Some(word) => Err(self.unknown(word)),
        }
    }

    fn value(&mut self, option: &str) -> Result<&'a str> {
        let verb = self.verb;
        let missing = || Error::usage(format!("`{option}` needs a value; see `cargo xtask {verb} --help`"));
        self.next().ok_or_else(missing)
    }

    fn unknown(&self, word: &str) -> Error {
        let verb = self.verb;
        Error::usage(format!("`{verb}` does not know `{word}`: `cargo xtask {verb} --help` lists what it takes"))
    }

    fn test(&mut self) -> Result<Command> {
        let mut options = TestOptions::default();
        while let Some(word) = self.next() {
            match word {
                "--slow" => options.slow = true,
                "-p" | "--package" => options.packages.push(self.value(word)?.to_owned()),
                "--" => options.filters.extend(std::mem::take(&mut self.rest).iter().cloned()),
                other => return Err(self.unknown(other)),
            }
        }
        Ok(Command::Test(options))
    }

    fn kafka(&mut self) -> Result<Command> {
        let Some(action) = self.next() else {
            return Err(Error::usage("`kafka` needs to know what to do: up, down, kill, start or tool"));
        };
        if action == "tool" {
            let class = self.value(action)?.to_owned();
            let rest = std::mem::take(&mut self.rest);
            let arguments = rest.strip_prefix(&["--".to_owned()]).unwrap_or(rest).to_vec();
            return Ok(Command::Kafka(KafkaCommand::Tool { class, arguments }));
        }
        let command = match action {
            "up" => KafkaCommand::Up,
            "down" => KafkaCommand::Down,
            "kill" => KafkaCommand::Kill,
            "start" => KafkaCommand::Start,
            other => return Err(self.unknown(other)),
        };
        Ok(Command::Kafka(command(self.port()?)))
    }

    fn port(&mut self) -> Result<u16> {
        match self.next() {
            None => Ok(Background::PORT),
            Some(word @ "--port") => {
                let port = self.value(word)?;
                let invalid = |_| Error::usage(format!("`--port` takes a number below 65536, not `{port}`"));
                self.end(port.parse().map_err(invalid)?)
            }
            Some(other) => Err(self.unknown(other)),
        }
    }

    fn ci(&mut self) -> Result<Command> {
        let mut options = CiOptions::default();
        while let Some(word) = self.next() {
            match word {
                "--list" => options.list = true,
                "--only" => {
                    let job = self.value(word)?;
                    if !ci::names().any(|name| name == job) {
                        let names = ci::names().collect::<Vec<_>>().join(", ");
                        return Err(Error::usage(format!("unknown job `{job}`: use one of {names}")));
                    }
                    options.only.push(job.to_owned());
                }
                other => return Err(self.unknown(other)),
            }
        }
        Ok(Command::Ci(options))
    }

    fn conformance(&mut self) -> Result<Command> {
        let mut options = ConformanceOptions::default();
        while let Some(word) = self.next() {
            match word {
                "--faults" => options.faults = true,
                other => return Err(self.unknown(other)),
            }
        }
        Ok(Command::Conformance(options))
    }

    fn bench(&mut self) -> Result<Command> {
        if let [first, rest @ ..] = self.rest
            && matches!(first.as_str(), "memory" | "peer")
        {
            self.rest = rest;
            return if first == "peer" { self.peer() } else { self.memory() };
        }
        let mut options = CriterionOptions::default();
        while let Some(word) = self.next() {
            match word {
                "--" => options.arguments.extend(std::mem::take(&mut self.rest).iter().cloned()),
                name if !name.starts_with('-') && options.name.is_none() => options.name = Some(name.to_owned()),
                other => return Err(self.unknown(other)),
            }
        }
        Ok(Command::Bench(BenchOptions::Criterion(options)))
    }

    fn memory(&mut self) -> Result<Command> {
        let mut options = MemoryBenchOptions::default();
        while let Some(word) = self.next() {
            match word {
                "--budget" => options.budget = Some(self.positive(word)?),
                "--state" => options.state = Some(self.positive(word)?),
                "--shards" => options.shards = Some(self.positive(word)?),
                "--dir" => options.dir = Some(self.value(word)?.to_owned()),
                other => return Err(self.unknown(other)),
            }
        }
        Ok(Command::Bench(BenchOptions::Memory(options)))
    }

    fn peer(&mut self) -> Result<Command> {
        let mut options = PeerOptions::default();
        while let Some(word) = self.next() {
            match word {
                "--quick" => options.quick = true,
                "--records" => options.records = Some(self.positive(word)?),
                "--keys" => options.keys = Some(self.positive(word)?),
                "--alternations" => options.alternations = Some(self.positive(word)?),
                "--only" => options.only = self.workloads(word)?,
                "--bootstrap" => options.bootstrap = Some(self.value(word)?.to_owned()),
                "--out" => options.out = Some(self.value(word)?.into()),
                other => return Err(self.unknown(other)),
            }
        }
        Ok(Command::Bench(BenchOptions::Peer(options)))
    }

    fn positive(&mut self, option: &str) -> Result<u64> {
        let text = self.value(option)?;
        let number = text.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| Error::usage(format!("`{option} {text}`: use a whole number above 0")))
    }

    fn workloads(&mut self, option: &str) -> Result<Vec<Workload>> {
        let named = |name: &str| {
            let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
            found.ok_or_else(|| {
                let names = Workload::ALL.map(Workload::name).join(", ");
                Error::usage(format!("unknown workload `{name}`: use some of {names}, with commas in between"))
            })
        };
        self.value(option)?.split(',').map(named).collect()
    }

    fn doc(&mut self) -> Result<Command> {
        let mut options = DocOptions::default();
        while let Some(word) = self.next() {
            match word {
                "--all" => options.all = true,
                "--open" => options.open = true,
                other => return Err(self.unknown(other)),
            }
        }
        Ok(Command::Doc(options))
    }
}

fn is_help(word: &str) -> bool {
    matches!(word, "--help" | "-h" | "help")
}

fn overview() -> String {
    let mut text = "cargo xtask VERB [OPTIONS]\n\n".to_owned();
    for verb in VERBS {
        text.push_str(&format!("  {:<11} {}\n", verb.name, verb.summary));
    }
    text.push_str("\n`cargo xtask VERB --help` says more.\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn refused(line: &str) -> String {
        let error = parse(&words(line)).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        error.message().unwrap().to_owned()
    }

    #[test]
    fn every_listed_verb_is_parsed_and_has_help() {
        for verb in VERBS {
            let bare = parse(&words(verb.name));
            assert_eq!(bare.is_err(), verb.name == "kafka", "{}", verb.name);
            let help = parse(&words(&format!("{} --help", verb.name))).unwrap();
            assert_eq!(help, Command::Help(verb.help.to_owned()));
        }
    }

    #[test]
    fn an_unknown_verb_is_named_with_the_known_ones() {
        let message = refused("tset");
        assert!(message.contains("`tset`") && message.contains("test") && message.contains("--help"), "{message}");
        assert!(refused("").contains("a verb is missing"));
    }

    #[test]
    fn an_unknown_option_is_named_with_the_remedy() {
        let message = refused("test --fast");
        assert!(message.contains("`--fast`") && message.contains("cargo xtask test --help"), "{message}");
        refused("setup now");
        refused("doc --close");
        refused("conformance --all");
        refused("bench one two");
        refused("ci --only");
        refused("kafka");
        refused("kafka upp");
        refused("kafka up --port");
        refused("kafka up --port 65536");
        refused("kafka up --port 1 2");
        refused("kafka tool");
    }

    #[test]
    fn an_unknown_job_is_named_with_the_known_ones() {
        let message = refused("ci --only clipy");
        assert!(message.contains("`clipy`") && message.contains("clippy"), "{message}");
    }

    #[test]
    fn conformance_runs_the_suite_or_shows_the_faults() {
        for (line, faults) in [("conformance", false), ("conformance --faults", true)] {
            assert_eq!(parse(&words(line)).unwrap(), Command::Conformance(ConformanceOptions { faults }));
        }
    }

    #[test]
    fn the_demo_gets_its_options_as_they_are() {
        assert_eq!(parse(&words("demo --engine rocks")).unwrap(), Command::Demo(words("--engine rocks")));
        assert_eq!(parse(&words("demo -- --help")).unwrap(), Command::Demo(words("--help")));
    }

    #[test]
    fn size_gets_its_options_as_they_are() {
        assert_eq!(parse(&words("size --keys 7 --hot 1")).unwrap(), Command::Size(words("--keys 7 --hot 1")));
    }

    #[test]
    fn a_broker_has_a_port_and_a_tool_its_own_words() {
        let kafka = |line| match parse(&words(line)).unwrap() {
            Command::Kafka(command) => command,
            other => panic!("{other:?}"),
        };
        assert_eq!(kafka("kafka up"), KafkaCommand::Up(19_092));
        assert_eq!(kafka("kafka down --port 7"), KafkaCommand::Down(7));
        for line in ["kafka tool a.B --list --port 7", "kafka tool a.B -- --list --port 7"] {
            let arguments = words("--list --port 7");
            assert_eq!(kafka(line), KafkaCommand::Tool { class: "a.B".to_owned(), arguments });
        }
        let KafkaCommand::Tool { arguments, .. } = kafka("kafka tool a.B -- --help") else { panic!() };
        assert_eq!(arguments, ["--help"]);
    }

    #[test]
    fn test_options_are_read() {
        let options = TestOptions { slow: true, packages: words("xtask"), filters: words("tidy --no-capture") };
        assert_eq!(parse(&words("test --slow -p xtask -- tidy --no-capture")).unwrap(), Command::Test(options));
    }

    #[test]
    fn peer_options_are_read() {
        let options = PeerOptions {
            quick: true,
            records: Some(100),
            keys: Some(10),
            alternations: Some(2),
            only: vec![Workload::Crash, Workload::Copy],
            bootstrap: Some("localhost:9092".to_owned()),
            out: Some("lines".into()),
        };
        let line = "bench peer --quick --records 100 --keys 10 --alternations 2 --only crash,copy \
                    --bootstrap localhost:9092 --out lines";
        assert_eq!(parse(&words(line)).unwrap(), Command::Bench(BenchOptions::Peer(options)));
        let plain = CriterionOptions { name: Some("stateless".to_owned()), arguments: words("peer") };
        let line = "bench stateless -- peer";
        assert_eq!(parse(&words(line)).unwrap(), Command::Bench(BenchOptions::Criterion(plain)));
    }

    #[test]
    fn memory_options_are_read() {
        let options =
            MemoryBenchOptions { budget: Some(64), state: Some(300), shards: Some(8), dir: Some("/tmp".to_owned()) };
        let line = "bench memory --budget 64 --state 300 --shards 8 --dir /tmp";
        assert_eq!(parse(&words(line)).unwrap(), Command::Bench(BenchOptions::Memory(options)));
        assert!(refused("bench memory --budget 0").contains("above 0"));
        refused("bench memory hot_path");
    }

    #[test]
    fn wrong_peer_options_are_named_with_the_remedy() {
        let message = refused("bench peer --only count,counts");
        assert!(message.contains("`counts`") && message.contains("restore"), "{message}");
        assert!(refused("bench peer --records 0").contains("above 0"));
        assert!(refused("bench peer --records some").contains("`--records some`"));
        refused("bench peer --records");
        refused("bench peer stateless");
    }
}
