//! `test`: the test command of the README.

use std::process::Command;

use crate::cargo::{Package, WORKSPACE, cargo, run as run_command, workspace};
use crate::error::{Error, Result};
use crate::setup;
use crate::test_broker::TestBroker;

/// What `cargo xtask test` takes.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct TestOptions {
    pub(crate) slow: bool,
    pub(crate) packages: Vec<String>,
    pub(crate) filters: Vec<String>,
}

/// Doc tests first, since nextest does not run them; then everything else, so that nextest's summary is the last word.
pub(crate) fn run(options: &TestOptions) -> Result<()> {
    let workspace = workspace()?;
    let with_library = libraries(&options.packages, &workspace)?;
    setup::ensure_c()?;
    let nextest = setup::tools::NEXTEST.path()?;
    let has_doc_tests = options.filters.is_empty() && (options.packages.is_empty() || !with_library.is_empty());
    let doc_tests = if has_doc_tests { run_command(&mut doc_tests(options, &with_library)) } else { Ok(()) };
    let mut tests = crate::cargo::command(nextest);
    tests.args(["nextest", "run", "--no-fail-fast", "--no-tests", "fail"]);
    tests.args(["--profile", if options.slow { "slow" } else { "default" }]);
    select(&mut tests, options, &options.packages);
    let broker = TestBroker::start(&options.packages, &workspace)?;
    let tested = run_command(tests.args(&options.filters).envs(broker.variables()));
    drop(broker);
    tested?;
    doc_tests.map_err(|_| Error::failed("doc tests failed, see above; the other tests passed"))
}

/// Those of the named packages that can have doc tests; cargo refuses to look for them in the others.
fn libraries(names: &[String], workspace: &[Package]) -> Result<Vec<String>> {
    let mut libraries = Vec::new();
    for name in names {
        match workspace.iter().find(|package| package.name == *name) {
            Some(package) if package.has_library => libraries.push(name.clone()),
            Some(_) => {}
            None => {
                let known = workspace.iter().map(|package| package.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Error::usage(format!("unknown package `{name}`: use one of {known}")));
            }
        }
    }
    Ok(libraries)
}

fn doc_tests(options: &TestOptions, packages: &[String]) -> Command {
    let mut command = cargo(&["test", "--doc"]);
    select(&mut command, options, packages);
    command
}

/// All packages or the named ones, with the same features for both runners, so that nothing is compiled twice.
fn select(command: &mut Command, options: &TestOptions, packages: &[String]) {
    command.arg("--all-features");
    if packages.is_empty() {
        command.args(WORKSPACE);
    }
    for package in packages {
        command.args(["--package", package]);
    }
    if options.slow {
        command.env("MILLPOND_SLOW", "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_with_a_library_have_doc_tests_and_an_unknown_one_is_named() {
        let workspace = workspace().unwrap();
        let names = ["xtask", "millpond-topology"].map(str::to_owned);
        assert_eq!(libraries(&names, &workspace).unwrap(), ["millpond-topology"]);
        let error = libraries(&["topology".to_owned()], &workspace).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.message().unwrap().contains("`topology`"));
    }
}
