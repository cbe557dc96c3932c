//! The case list that every broker behind this seam passes: what Kafka 4.4 answers, as named tests.
//!
//! A broker's crate implements [`Environment`] and stamps one `#[test]` per case with
//! [`broker_conformance!`](crate::broker_conformance). Cases depend on each other in nothing: topics, groups and
//! transactional ids have names of their own, so that one broker may serve them all, also at the same time.
//!
//! Faults (lost replies, outcomes that are unknown) are no part of it: a real broker does not make them on demand.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "cases are tests, and a panic is how a test fails")]

mod bench;
mod environment;
mod fencing;
mod groups;
mod list;
mod log;
mod members;
mod offsets;
mod peer;
mod reading;
mod retention;
mod topics;
mod transactions;

pub use environment::{Ability, Environment};

use bench::Bench;

/// A named test of a broker.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name, such as `log::order_is_kept`: file and function.
    pub name: &'static str,
    /// What the environment must be able to do.
    pub needs: &'static [Ability],
    run: fn(&mut Bench<'_>),
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("name", &self.name).field("needs", &self.needs).finish_non_exhaustive()
    }
}

impl Case {
    /// Runs the case; panics if the broker answers otherwise than Kafka.
    ///
    /// Where the environment lacks an ability that the case needs, it is asserted that the environment refuses it, and
    /// a line on standard error names the case.
    pub fn run(&self, environment: &mut dyn Environment) {
        for &ability in self.needs {
            if !environment.can(ability) {
                refuses(environment, ability);
                eprintln!("case `{}` not run: the environment has no {ability:?}", self.name);
                return;
            }
        }
        (self.run)(&mut Bench::new(environment));
    }
}

/// All cases, in the order of the list.
pub const CASES: &[Case] = crate::__broker_cases!([crate::__broker_case_table]);

/// Runs the case of a name: what [`broker_conformance!`](crate::broker_conformance) stamps.
pub fn run(name: &str, environment: &mut dyn Environment) {
    let case = CASES.iter().find(|c| c.name == name).expect("stamped from the same list");
    case.run(environment);
}

/// An ability that is not declared is refused, never half there.
fn refuses(environment: &mut dyn Environment, ability: Ability) {
    let name = environment.unique("refuses");
    match ability {
        Ability::Pass => assert!(!environment.pass(std::time::Duration::from_millis(1)), "time passed"),
        Ability::Compact => assert!(environment.compact(&name).is_err(), "compacted"),
        Ability::Expire => assert!(environment.expire(&name).is_err(), "expired"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_there_are_many() {
        let mut names: Vec<_> = CASES.iter().map(|c| c.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
        assert!(CASES.len() >= 80, "{} cases", CASES.len());
    }

    /// An environment without abilities, which may still do half of what it is asked.
    struct Unable {
        compacts: bool,
    }

    impl Environment for Unable {
        fn broker(&self) -> &dyn crate::Broker {
            panic!("the case must not begin")
        }

        fn clock(&self) -> &dyn crate::Clock {
            panic!("the case must not begin")
        }

        fn can(&self, _: Ability) -> bool {
            false
        }

        fn unique(&mut self, stem: &str) -> String {
            stem.to_owned()
        }

        fn pass(&mut self, _: std::time::Duration) -> bool {
            false
        }

        fn until(
            &mut self,
            _: std::time::Duration,
            _: &mut dyn FnMut(&dyn crate::Broker) -> crate::Result<bool>,
        ) -> crate::Result<bool> {
            panic!("the case must not begin")
        }

        fn compact(&mut self, _: &str) -> crate::Result<()> {
            if self.compacts { Ok(()) } else { Err(crate::Error::new(crate::ErrorKind::Fatal, "compact")) }
        }

        fn expire(&mut self, _: &str) -> crate::Result<()> {
            Err(crate::Error::new(crate::ErrorKind::Fatal, "expire"))
        }
    }

    #[test]
    fn cases_are_left_out_where_an_ability_is_refused() {
        for case in CASES.iter().filter(|c| !c.needs.is_empty()) {
            case.run(&mut Unable { compacts: false });
        }
    }

    #[test]
    #[should_panic(expected = "compacted")]
    fn undeclared_abilities_must_not_work() {
        run("retention::tombstones_stay_then_go", &mut Unable { compacts: true });
    }
}
