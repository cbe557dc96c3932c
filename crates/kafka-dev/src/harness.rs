//! The harness of test binaries that need a broker: each test says what it needs, and is *ignored* where that is missing.
//!
//! Such a binary has `harness = false` in its manifest. Where the variable `CI` is set, what is missing makes tests fail
//! instead: there a test that is left out must not look like one that passed.
//!
//! Clippy does not know such functions for tests: `#![expect(clippy::unwrap_used, reason = "…")]` stands on top of the file.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use millpond_kafka_dev::TestKafka;
//! use millpond_kafka_dev::harness::{Needs, Test, run};
//!
//! fn main() -> ExitCode {
//!     run(vec![Test::new("records_come_back", Needs::Broker, records_come_back)])
//! }
//!
//! fn records_come_back() {
//!     let kafka = TestKafka::required();
//!     assert!(kafka.bootstrap().contains(':'));
//! }
//! ```

use std::fmt;
use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::env::{Found, SECURE_VARIABLE, TestKafka, is_ci, own_broker_possible};

/// What a test needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Needs {
    /// No broker.
    Nothing,
    /// A broker, shared with other tests: [`TestKafka::required`].
    Broker,
    /// A broker with a secure listener: the same, with [`TestKafka::secure`].
    SecureBroker,
    /// To start one of its own, to kill it: [`Kafka::up`](crate::Kafka::up).
    OwnBroker,
}

/// One test: it passes if its closure returns, and fails if that panics.
pub struct Test {
    name: String,
    needs: Needs,
    body: Box<dyn FnOnce() + Send>,
}

impl Test {
    /// A test by this name, which must be the only one in its binary.
    pub fn new(name: impl Into<String>, needs: Needs, body: impl FnOnce() + Send + 'static) -> Self {
        Self { name: name.into(), needs, body: Box::new(body) }
    }
}

impl fmt::Debug for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Test").field("name", &self.name).field("needs", &self.needs).finish_non_exhaustive()
    }
}

/// Runs the tests as the arguments of the process ask for. Return what it returns from `main`.
pub fn run(tests: Vec<Test>) -> ExitCode {
    let arguments = Arguments::from_args();
    let missing = Missing { strict: is_ci(), ..Missing::default() };
    // cargo-nextest asks first what there is, and starts the binary anew for each test.
    let explains = !arguments.list && !arguments.exact;
    let mut reasons = Vec::new();
    let trials = tests.into_iter().map(|test| {
        let lacks = missing.of(test.needs);
        reasons.extend(lacks.iter().filter(|lack| lack.ignores).map(|lack| lack.why.clone()));
        trial(test, lacks)
    });
    let trials = trials.collect::<Vec<_>>();
    reasons.sort();
    reasons.dedup();
    if explains {
        reasons.iter().for_each(|why| eprintln!("some tests are ignored: {why}"));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A test that lacks something never runs: it is ignored or fails, the latter also when ignored ones are asked for.
fn trial(test: Test, lacks: Option<Lack>) -> Trial {
    let Test { name, body, .. } = test;
    match lacks {
        None => Trial::test(name, move || {
            body();
            Ok(())
        }),
        Some(Lack { why, ignores }) => Trial::test(name, move || Err(Failed::from(why))).with_ignored_flag(ignores),
    }
}

/// Why a test cannot run.
#[derive(Clone, Debug)]
struct Lack {
    why: String,
    /// Whether it is ignored or fails.
    ignores: bool,
}

/// What is missing, looked up when a test first needs it.
#[derive(Debug, Default)]
struct Missing {
    /// Whether nothing may be ignored.
    strict: bool,
    found: OnceLock<Found>,
    own: OnceLock<Result<(), String>>,
}

impl Missing {
    fn of(&self, needs: Needs) -> Option<Lack> {
        let lack = |why: &str| Some(Lack { why: why.to_owned(), ignores: !self.strict });
        match needs {
            Needs::Nothing => None,
            Needs::Broker | Needs::SecureBroker => match self.found.get_or_init(TestKafka::find) {
                Found::Broker(kafka) if needs == Needs::SecureBroker && kafka.secure().is_none() => {
                    lack(&format!("no secure listener of the Kafka broker is known: set {SECURE_VARIABLE} and its kin"))
                }
                Found::Broker(_) => None,
                Found::Missing(why) => lack(why),
                Found::Invalid(why) => Some(Lack { why: why.clone(), ignores: false }),
            },
            Needs::OwnBroker => match self.own.get_or_init(own_broker_possible) {
                Ok(()) => None,
                Err(why) => lack(why),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(strict: bool, found: Found, own: Result<(), String>) -> Missing {
        Missing { strict, found: found.into(), own: own.into() }
    }

    #[test]
    fn what_is_missing_is_ignored_but_fails_in_ci() {
        for strict in [false, true] {
            let missing = missing(strict, Found::Missing("none".to_owned()), Err("no Java".to_owned()));
            assert!(missing.of(Needs::Nothing).is_none());
            for needs in [Needs::Broker, Needs::SecureBroker, Needs::OwnBroker] {
                assert_eq!(missing.of(needs).unwrap().ignores, !strict, "{needs:?}");
            }
        }
    }

    #[test]
    fn contradicting_variables_fail_everywhere() {
        let missing = missing(false, Found::Invalid("no port".to_owned()), Ok(()));
        assert!(!missing.of(Needs::Broker).unwrap().ignores);
        assert!(missing.of(Needs::OwnBroker).is_none());
    }
}
