//! `conformance`: the cases of every storage engine, counted; and the faults that they notice.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::cargo::{cargo, run as run_command};
use crate::error::{Error, Result};
use crate::setup;

/// What `cargo xtask conformance` takes.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct ConformanceOptions {
    pub(crate) faults: bool,
}

/// Where the suite runs: what it is called in the report, its package, its test target.
const TARGETS: &[(&str, &str, &str)] = &[
    ("mem", "millpond-store-mem", "conformance"),
    ("rocks", "millpond-store-rocks", "conformance"),
    ("custom", "millpond-example-custom-engine", "conformance"),
    ("mem", "millpond-testkit", "stack"),
    ("rocks", "millpond-store-rocks", "stack"),
    ("custom", "millpond-example-custom-engine", "stack"),
];

/// Runs the suite on all engines, or shows which cases notice each of the named faults.
pub(crate) fn run(options: &ConformanceOptions) -> Result<()> {
    if options.faults {
        let example = ["--quiet", "--package", "millpond-store-conformance", "--example", "faults"];
        run_command(cargo(&["build"]).args(example))?;
        // A case that notices a fault also says with which seed: of no interest here.
        return run_command(cargo(&["run"]).args(example).stderr(Stdio::null()));
    }
    setup::ensure_c()?;
    let mut report = Report::default();
    for (engine, package, target) in TARGETS {
        let target = ["--package", package, "--all-features", "--test", target];
        let mut command = cargo(&["test"]);
        command.args(target).args(["--", "--color", "never"]);
        report.read(engine, &tests(&mut command)?);
    }
    print!("{}", report.table());
    report.verdict()
}

/// What the tests print, whether they pass or not.
fn tests(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Error::failed(format!("cannot run the tests: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        print!("{text}");
        if !text.contains("test result:") {
            return Err(Error::failed(format!("the tests did not run: {}", output.status)));
        }
    }
    Ok(text)
}

/// How a suite on an engine went.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Count {
    passed: usize,
    failed: usize,
}

/// Counts by engine and form of it, in the order in which they ran.
#[derive(Debug, Default)]
struct Report {
    suites: Vec<(String, BTreeMap<String, Count>)>,
}

impl Report {
    /// Reads lines such as `test write_ahead_log::shard::the_empty_key ... ok`: form, area, case.
    fn read(&mut self, engine: &str, text: &str) {
        let mut forms = BTreeMap::<String, Count>::new();
        for line in text.lines() {
            let Some((path, end)) = line.strip_prefix("test ").and_then(|line| line.split_once(" ... ")) else {
                continue;
            };
            let Some(form) = path.rsplitn(3, "::").nth(2) else { continue };
            let count = forms.entry(form.to_owned()).or_default();
            if end == "ok" {
                count.passed += 1;
            } else {
                count.failed += 1;
            }
        }
        self.suites.push((engine.to_owned(), forms));
    }

    fn table(&self) -> String {
        let mut table = "\nengine   form                       cases  passed\n".to_owned();
        for (engine, forms) in &self.suites {
            for (form, Count { passed, failed }) in forms {
                let cases = passed + failed;
                table.push_str(&format!("{engine:<8} {form:<25} {cases:>6} {passed:>7}\n"));
            }
        }
        table
    }

    /// An engine without a case is a failure too: a suite that did not run says nothing.
    fn verdict(&self) -> Result<()> {
        let (mut all, mut failed) = (0, 0);
        for (engine, forms) in &self.suites {
            if forms.is_empty() {
                return Err(Error::failed(format!("no case ran on `{engine}`")));
            }
            all += forms.values().map(|count| count.passed + count.failed).sum::<usize>();
            failed += forms.values().map(|count| count.failed).sum::<usize>();
        }
        if failed > 0 {
            return Err(Error::failed(format!("{failed} of {all} cases failed, see above")));
        }
        println!("conformance: {all} cases passed");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
running 4 tests
test changelog::shard::the_empty_key ... ok
test counted::memory::shard::the_empty_key ... ok
test changelog::cursor::seek_past_the_end ... FAILED
test all_faults_have_a_test ... ok
test result: FAILED. 3 passed; 1 failed
";

    #[test]
    fn cases_are_counted_by_engine_and_form() {
        let mut report = Report::default();
        report.read("rocks", TEXT);
        let table = report.table();
        assert!(table.contains("rocks    changelog                      2       1\n"), "{table}");
        assert!(table.contains("rocks    counted::memory                1       1\n"), "{table}");
        let message = report.verdict().unwrap_err();
        assert!(message.message().unwrap().contains("1 of 3 cases failed"), "{message:?}");
    }

    #[test]
    fn an_engine_without_a_case_fails() {
        let mut report = Report::default();
        report.read("mem", "test a::b::c ... ok\n");
        assert!(report.verdict().is_ok());
        report.read("rocks", "running 0 tests\n");
        assert!(report.verdict().unwrap_err().message().unwrap().contains("`rocks`"));
    }
}
