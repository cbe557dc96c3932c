//! A broker, and the program's parts as processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use millpond::broker::{Admin, At, Broker, KafkaBroker, KafkaSettings, Offset};
use millpond_example_flights::data::{Data, Input};
use millpond_kafka_dev::{Kafka, KafkaOptions};
use tempfile::TempDir;

use crate::events::Events;
use crate::expected;

/// How long anything may take that is bound to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);
/// The changelog of the totals.
pub(crate) const CHANGELOG: &str = "flights-carrier-totals-changelog";
/// All changelogs, with their partitions.
pub(crate) const CHANGELOGS: [(&str, i32); 4] = [
    (CHANGELOG, 4),
    ("flights-hourly-departures-changelog", 1),
    ("flights-departures-in-time-changelog", 1),
    ("flights-plane-legs-changelog", 1),
];
/// The other topics that the application writes to.
const WRITTEN: [(&str, i32); 6] = [
    ("flights-by-carrier-repartition", 4),
    ("flights-by-plane-repartition", 1),
    ("carrier-totals", 4),
    ("hourly-departures", 4),
    ("plane-legs", 4),
    ("late-flights", 4),
];
/// Those that must be there before it starts.
pub(crate) const GIVEN: [&str; 6] =
    ["flights", "flights-ordered", "carrier-totals", "hourly-departures", "plane-legs", "late-flights"];

/// Whether the full forms are asked for.
pub(crate) fn is_slow() -> bool {
    std::env::var_os("MILLPOND_SLOW").is_some()
}

/// What is replayed: January, or the year if it is there and the full form is asked for.
pub(crate) struct Flights {
    pub(crate) name: &'static str,
    pub(crate) file: PathBuf,
    /// Records per second of a paced replay.
    pub(crate) rate: u32,
}

impl Flights {
    /// The full form without its data is a failure, not a shorter test.
    pub(crate) fn of_this_run() -> Self {
        if !is_slow() {
            return Self { name: "january", file: expected::JANUARY.into(), rate: 900 };
        }
        let file = Input::find(&Data::Year).unwrap_or_else(|error| panic!("{}", error.report()));
        Self { name: "year", file: file.to_string().into(), rate: 4_000 }
    }
}

/// Waits for what is bound to come.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A broker of its own, a directory, and clients of the test.
pub(crate) struct World {
    pub(crate) kafka: Kafka,
    pub(crate) dir: TempDir,
    pub(crate) flights: Flights,
}

impl World {
    pub(crate) fn new() -> Self {
        let kafka = Kafka::up(&KafkaOptions::default()).unwrap();
        Self { kafka, dir: tempfile::tempdir().unwrap(), flights: Flights::of_this_run() }
    }

    pub(crate) fn client(&self) -> KafkaBroker {
        KafkaBroker::new(KafkaSettings::new(self.kafka.bootstrap()))
    }

    pub(crate) fn admin(&self) -> Box<dyn Admin> {
        self.client().admin().unwrap()
    }

    /// The program with an address and some arguments, its output in files of the directory.
    pub(crate) fn flights(&self, name: &str, part: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flights"));
        command.args([part, "--broker", self.kafka.bootstrap()]).args(arguments);
        Process::start(name, &mut command, self.dir.path())
    }

    /// Replays at the run's rate, beside what the test does.
    pub(crate) fn load_paced(&self) -> Process {
        let rate = self.flights.rate.to_string();
        let load = self.flights("load", "load", &["--data", self.flights.name, "--rate", &rate]);
        self.await_topics();
        load
    }

    /// Replays as fast as it goes, to the end.
    pub(crate) fn load_all(&self, repeat: u32) {
        let repeat = repeat.to_string();
        self.flights("load", "load", &["--data", self.flights.name, "--repeat", &repeat]).succeeds();
    }

    pub(crate) fn await_topics(&self) {
        let mut admin = self.admin();
        wait_for("the topics", || admin.describe(&GIVEN).unwrap().iter().all(Option::is_some).then_some(()));
    }

    /// An instance of the application, with a state directory and a file of events by its name.
    pub(crate) fn run(&self, name: &str, arguments: &[&str]) -> Instance {
        let (state, events) = (self.dir.path().join(name), self.dir.path().join(format!("{name}.jsonl")));
        let mut all = vec!["--engine", "rocks", "--threads", "2", "--state-dir", state.to_str().unwrap()];
        all.extend(["--events", events.to_str().unwrap()]);
        all.extend(arguments);
        let seen = Events::read(&events).len();
        Instance { process: self.flights(name, "run", &all), events, seen }
    }

    /// Counts what is left, to the end, with a state directory that may be an earlier instance's.
    pub(crate) fn run_until_end(&self, name: &str, arguments: &[&str]) {
        let all: Vec<&str> = arguments.iter().copied().chain(["--until-end"]).collect();
        self.run(name, &all).process.succeeds();
    }

    pub(crate) fn show(&self) -> String {
        let mut show = Command::new(env!("CARGO_BIN_EXE_flights"));
        let output = show.args(["show", "--broker", self.kafka.bootstrap()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The ends of all partitions of a topic.
    pub(crate) fn ends(&self, (topic, partitions): (&str, i32), at: At) -> Vec<Offset> {
        let of: Vec<_> = (0..partitions).map(|partition| (topic, partition, at)).collect();
        self.admin().offsets(&of).unwrap().into_iter().map(Result::unwrap).collect()
    }

    /// Whether a transaction is open in any partition that the application writes to.
    pub(crate) fn has_open_transaction(&self) -> bool {
        let mut written = CHANGELOGS.into_iter().chain(WRITTEN);
        written.any(|topic| self.ends(topic, At::StableEnd) != self.ends(topic, At::End))
    }
}

/// A running program.
pub(crate) struct Process {
    name: String,
    child: Child,
    errors: PathBuf,
}

impl Process {
    fn start(name: &str, command: &mut Command, dir: &Path) -> Self {
        let errors = dir.join(format!("{name}.stderr"));
        let file = File::options().create(true).append(true).open(&errors).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Self { name: name.to_owned(), child, errors }
    }

    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.errors).unwrap()).into_owned()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// A signal by its name.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success(), "kill -{signal} {}", self.name);
    }

    pub(crate) fn kill(&mut self) {
        assert!(self.is_running(), "`{}` ended by itself: {}", self.name, self.said());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The processor time that it has had, by what Linux counts in hundredths of a second.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name in brackets is the second field, and may have spaces; the times are the 14th and the 15th.
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
        Duration::from_millis(fields.map(|ticks| 10 * ticks.parse::<u64>().unwrap()).sum())
    }

    #[track_caller]
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let limit = Instant::now() + 5 * LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < limit, "`{}` does not end: {}", self.name, self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub(crate) fn succeeds(mut self) {
        let status = self.ends();
        assert!(status.success(), "`{}` ended with {status}: {}", self.name, self.said());
    }

    /// Asks for a clean stop and waits for it.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.signal("TERM");
        self.succeeds();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A frozen process is killed as well. One that has ended is no error.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An instance of the application.
pub(crate) struct Instance {
    pub(crate) process: Process,
    events: PathBuf,
    /// Events of earlier processes of the same name.
    seen: usize,
}

impl Instance {
    /// What this process has told so far.
    pub(crate) fn events(&self) -> Events {
        Events::read(&self.events).skip(self.seen)
    }

    /// Waits until an event has come at least so many times.
    #[track_caller]
    pub(crate) fn await_events(&mut self, event: &str, times: usize) {
        wait_for(&format!("{times} x `{event}` of {}", self.process.name), || {
            let came = self.events().of(event).count() >= times;
            let status = self.process.child.try_wait().unwrap();
            assert!(came || status.is_none(), "it ended with {status:?}: {}", self.process.said());
            came.then_some(())
        });
    }
}

/// A program that is refused: its exit code and what it says.
pub(crate) fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_flights")).args(arguments).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}
