//! `test`: the test command of the README.

use std::process::Command;

use crate::cargo::{cargo, run as run_command};
use crate::error::{Error, Result};
use crate::setup;

/// What `cargo xtask test` takes.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct TestOptions {
    pub(crate) slow: bool,
    pub(crate) packages: Vec<String>,
    pub(crate) filters: Vec<String>,
}

/// Doc tests first, since nextest does not run them; then everything else, so that nextest's summary is the last word.
pub(crate) fn run(options: &TestOptions) -> Result<()> {
    setup::ensure_c()?;
    let nextest = setup::tools::NEXTEST.path()?;
    let doc_tests = if options.filters.is_empty() { run_command(&mut doc_tests(options)) } else { Ok(()) };
    let mut tests = crate::cargo::command(nextest);
    tests.args(["nextest", "run", "--no-fail-fast", "--no-tests", "fail"]);
    tests.args(["--profile", if options.slow { "slow" } else { "default" }]);
    select(&mut tests, options);
    run_command(tests.args(&options.filters))?;
    doc_tests.map_err(|_| Error::failed("doc tests failed, see above; the other tests passed"))
}

fn doc_tests(options: &TestOptions) -> Command {
    let mut command = cargo(&["test", "--doc"]);
    select(&mut command, options);
    command
}

/// The same packages and features for both, so that nothing is compiled twice.
fn select(command: &mut Command, options: &TestOptions) {
    command.arg("--all-features");
    if options.packages.is_empty() {
        command.arg("--workspace");
    }
    for package in &options.packages {
        command.args(["--package", package]);
    }
    if options.slow {
        command.env("MILLPOND_SLOW", "1");
    }
}
