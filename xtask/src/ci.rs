//! `ci`: the list of what must be green, in the order in which a mistake shows soonest.

use std::time::Duration;

use crate::cargo::{WORKSPACE, cargo, output, run as run_command};
use crate::clock::{Stopwatch, spell};
use crate::error::{Error, Result};
use crate::test::TestOptions;
use crate::{absences, doc, layers, setup, test, tidy};

/// What `cargo xtask ci` takes.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct CiOptions {
    pub(crate) list: bool,
    pub(crate) only: Vec<String>,
}

/// One named step.
struct Job {
    name: &'static str,
    /// Whether it compiles or links what needs RocksDB.
    needs_c: bool,
    run: fn() -> Result<()>,
}

/// The last one is the README's test command; the runner's summary is the last thing printed.
const JOBS: &[Job] = &[
    Job { name: "fmt", needs_c: false, run: fmt },
    Job { name: "lock", needs_c: false, run: lock },
    Job { name: "tidy", needs_c: false, run: tidy::run },
    Job { name: "layers", needs_c: false, run: layers::run },
    Job { name: "absences", needs_c: false, run: absences::run },
    Job { name: "deny", needs_c: false, run: deny },
    Job { name: "clippy", needs_c: true, run: clippy },
    Job { name: "docs", needs_c: true, run: docs },
    Job { name: "examples", needs_c: true, run: examples },
    Job { name: "test", needs_c: true, run: tests },
];

/// The names of the jobs, in order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    JOBS.iter().map(|job| job.name)
}

/// Runs the jobs up to the first that fails.
pub(crate) fn run(options: &CiOptions) -> Result<()> {
    if options.list {
        names().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let jobs = JOBS.iter().filter(|job| options.only.is_empty() || options.only.iter().any(|name| name == job.name));
    let jobs = jobs.collect::<Vec<_>>();
    let mut times = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        // The tests come last and have the last word, so what the others took is said before them.
        if index > 0 && index + 1 == jobs.len() {
            print!("{}", table(&times));
        }
        println!("\n== {} ==", job.name);
        let watch = Stopwatch::start();
        run_job(job).map_err(|error| failed(job, watch.elapsed(), &error))?;
        times.push((job.name, watch.elapsed()));
    }
    Ok(())
}

fn run_job(job: &Job) -> Result<()> {
    if job.needs_c {
        setup::ensure_c()?;
    }
    (job.run)()
}

fn failed(job: &Job, time: Duration, error: &Error) -> Error {
    let reason = error.message().map(|message| format!("{message}\n")).unwrap_or_default();
    let name = job.name;
    let time = spell(time);
    Error::failed(format!("{reason}job `{name}` failed after {time}; alone it runs by `cargo xtask ci --only {name}`"))
}

fn table(times: &[(&str, Duration)]) -> String {
    let mut table = "\njob       time\n".to_owned();
    for (name, time) in times {
        table.push_str(&format!("{name:<9} {}\n", spell(*time)));
    }
    let total = times.iter().map(|(_, time)| *time).sum();
    table.push_str(&format!("{:<9} {}\n", "so far", spell(total)));
    table
}

fn fmt() -> Result<()> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))
}

/// The lock file that is committed is the one that the manifests need.
fn lock() -> Result<()> {
    output(&mut cargo(&["metadata", "--format-version", "1", "--locked"])).map(|_| println!("Cargo.lock: ok"))
}

fn deny() -> Result<()> {
    let mut command = crate::cargo::command(setup::tools::DENY.path()?);
    // A ban may stand before its crate comes: that the wrapper was not met is no news.
    let check = ["--all-features", "--workspace", "check", "--allow", "unused-wrapper"];
    run_command(command.args(check).args(["bans", "licenses", "sources"]))
}

fn clippy() -> Result<()> {
    let all = ["--all-targets", "--all-features", "--", "-D", "warnings"];
    run_command(cargo(&["clippy"]).args(WORKSPACE).args(all))?;
    // The default features once more: what is only used by a feature would be dead code here.
    let facade = ["--package", "millpond", "--package", "millpond-example-flights"];
    run_command(cargo(&["clippy"]).args(facade).args(["--all-targets", "--", "-D", "warnings"]))
}

/// Once as a user reads it, where a link to a private item is an error, and once with what a maintainer reads.
fn docs() -> Result<()> {
    run_command(doc::strict().args(WORKSPACE).arg("--all-features"))?;
    run_command(doc::strict().args(WORKSPACE).args(["--all-features", "--document-private-items"]))
}

/// Built with the profile of the tests, which need the same libraries a moment later.
fn examples() -> Result<()> {
    let common = ["--all-features", "--bins", "--examples", "--profile", "test"];
    run_command(cargo(&["build"]).args(WORKSPACE).args(common))
}

fn tests() -> Result<()> {
    test::run(&TestOptions::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_job_is_the_test_command() {
        assert_eq!(names().last(), Some("test"));
    }

    #[test]
    fn a_failed_job_says_how_to_run_it_alone() {
        let job = Job { name: "fmt", needs_c: false, run: fmt };
        let error = failed(&job, Duration::from_secs(61), &Error::Child(3));
        assert_eq!(error.exit_code(), 1);
        let message = error.message().unwrap();
        assert!(message.contains("cargo xtask ci --only fmt") && message.contains("1 min 1 s"), "{message}");
    }

    #[test]
    fn the_table_sums_up() {
        let table = table(&[("fmt", Duration::from_secs(1)), ("clippy", Duration::from_secs(60))]);
        assert!(table.contains("clippy    1 min 0 s\n"), "{table}");
        assert!(table.ends_with("so far    1 min 1 s\n"), "{table}");
    }
}
