//! The Kafka broker that `cargo xtask test` lends to the tests.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use millpond_kafka_dev::{
    ADDRESS_VARIABLE, CA_VARIABLE, ErrorKind, Found, Kafka, KafkaOptions, OWN_VARIABLE, SECURE_VARIABLE, TestKafka,
    UNTRUSTED_CA_VARIABLE, is_ci, wait_until_ready,
};

use crate::cargo::{DOCKER, Package, cargo};
use crate::error::{Error, Result};
use crate::setup;

/// How long a broker that somebody else runs may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A broker for the time of a test run; it ends when this is dropped.
#[derive(Debug)]
pub(crate) enum TestBroker {
    /// No selected test can need one, or there can be none; the tests that need one are then shown as ignored.
    None,
    /// One that somebody else runs.
    Foreign,
    /// One of ours.
    Own(Box<Kafka>),
    Docker(Container),
}

impl TestBroker {
    /// Sees to what `MILLPOND_TEST_KAFKA` asks for: nothing, `docker` or `HOST:PORT`.
    pub(crate) fn start(packages: &[String], workspace: &[Package]) -> Result<Self> {
        if !can_need_one(packages, workspace) {
            return Ok(Self::None);
        }
        let asked = std::env::var_os(ADDRESS_VARIABLE).unwrap_or_default();
        match asked.to_str() {
            Some("") => Self::own(),
            Some("docker") => Container::start().map(Self::Docker),
            _ => match TestKafka::find() {
                Found::Broker(kafka) => {
                    wait_until_ready(kafka.bootstrap(), PATIENCE)?;
                    Ok(Self::Foreign)
                }
                Found::Missing(why) | Found::Invalid(why) => Err(Error::usage(why)),
            },
        }
    }

    /// Without Java or the jars the other tests can still run, unless nothing may be left out.
    fn own() -> Result<Self> {
        if is_ci() {
            setup::ensure_kafka().map_err(|error| {
                let reason = error.message().unwrap_or("see above");
                Error::failed(format!("`CI` is set, so the tests that need a Kafka broker must run: {reason}"))
            })?;
        }
        match Kafka::up(&KafkaOptions::default()) {
            Ok(kafka) => {
                eprintln!("test: a Kafka broker for the tests runs at {}", kafka.bootstrap());
                Ok(Self::Own(Box::new(kafka)))
            }
            Err(error) if is_ci() || !matches!(error.kind(), ErrorKind::Java | ErrorKind::Jars) => Err(error.into()),
            Err(error) => {
                let error = Error::from(error);
                let reason = error.message().unwrap_or_default();
                eprintln!("test: no Kafka broker, so the tests that need one are ignored: {reason}");
                Ok(Self::None)
            }
        }
    }

    /// What the tests find in their environment.
    pub(crate) fn variables(&self) -> Vec<(String, OsString)> {
        match self {
            Self::None | Self::Foreign => Vec::new(),
            Self::Own(kafka) => {
                let secure = kafka.secure();
                let variables = [
                    (ADDRESS_VARIABLE, kafka.bootstrap().into()),
                    (SECURE_VARIABLE, secure.address.clone().into()),
                    (CA_VARIABLE, secure.ca.clone().into()),
                    (UNTRUSTED_CA_VARIABLE, secure.untrusted_ca.clone().into()),
                    (OWN_VARIABLE, "1".into()),
                ];
                variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
            }
            Self::Docker(container) => container.variables.clone(),
        }
    }
}

/// Whether a package whose tests use the harness is among the selected ones.
fn can_need_one(packages: &[String], workspace: &[Package]) -> bool {
    let uses_harness = |package: &Package| {
        let dependencies = package.dependencies.iter();
        let mut ours = dependencies.filter(|dependency| dependency.name == "millpond-kafka-dev");
        package.name == "millpond-kafka-dev" || ours.any(|ours| ours.features.iter().any(|it| it == "harness"))
    };
    let is_selected = |package: &&Package| packages.is_empty() || packages.contains(&package.name);
    workspace.iter().filter(is_selected).any(uses_harness)
}

/// The program that keeps a broker in a container for as long as we hold its standard input.
#[derive(Debug)]
pub(crate) struct Container {
    program: Child,
    /// What it said: how the tests find the broker.
    variables: Vec<(String, OsString)>,
}

impl Container {
    fn start() -> Result<Self> {
        let mut command = cargo(&["run", "--package", DOCKER]);
        // Not in our group: an interrupt from the terminal must leave it the time to remove its container.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let failed = |error: std::io::Error| Error::failed(format!("cannot run {DOCKER}: {error}"));
        let mut program = command.spawn().map_err(failed)?;
        let said = program.stdout.take().map(BufReader::new);
        let mut container = Self { program, variables: Vec::new() };
        for line in said.into_iter().flat_map(BufRead::lines) {
            let line = line.map_err(failed)?;
            if line.is_empty() {
                eprintln!("test: a Kafka broker for the tests runs in a container");
                // Tests may start others where Java is: this one is nobody's choice of the one to test on.
                container.variables.push((OWN_VARIABLE.to_owned(), "1".into()));
                return Ok(container);
            }
            container.variables.extend(line.split_once('=').map(|(name, value)| (name.to_owned(), value.into())));
        }
        Err(Error::failed(format!("{ADDRESS_VARIABLE}=docker: there is no broker, see above")))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop(self.program.stdin.take());
        // It removes the container now; this only waits for it.
        let _ = self.program.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::workspace;

    #[test]
    fn only_a_package_with_broker_tests_gets_a_broker() {
        let workspace = workspace().unwrap();
        let can =
            |names: &[&str]| can_need_one(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), &workspace);
        assert!(can(&[]) && can(&["millpond-kafka-dev"]) && can(&["xtask", "millpond-broker-kafka"]));
        assert!(!can(&["xtask"]) && !can(&["millpond-topology", "millpond-kafka-docker"]));
    }
}
