//! What a test finds in its environment: a broker that somebody has started for it, or the reason why there is none.

use std::ffi::OsString;

use crate::jars::Jars;
use crate::secure::Secure;

/// `HOST:PORT` of a broker's plaintext listener. `cargo xtask test` sets it, or a user who brings a broker.
pub const ADDRESS_VARIABLE: &str = "MILLPOND_TEST_KAFKA";
/// `HOST:PORT` of that broker's listener with TLS and SASL, which knows [`ADMIN`](crate::ADMIN) and
/// [`LIMITED`](crate::LIMITED).
pub const SECURE_VARIABLE: &str = "MILLPOND_TEST_KAFKA_SECURE";
/// The PEM file of the authority that signed that listener's certificate.
pub const CA_VARIABLE: &str = "MILLPOND_TEST_KAFKA_CA";
/// The PEM file of an authority that did not.
pub const UNTRUSTED_CA_VARIABLE: &str = "MILLPOND_TEST_KAFKA_UNTRUSTED_CA";
/// `1` lets tests start brokers of their own although [`ADDRESS_VARIABLE`] names one.
pub const OWN_VARIABLE: &str = "MILLPOND_TEST_KAFKA_OWN";

/// What came of looking for a broker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Found {
    /// Somebody has started one.
    Broker(TestKafka),
    /// Nobody has; why, and what to do about it.
    Missing(String),
    /// The variables contradict themselves: a test should fail, with this text.
    Invalid(String),
}

/// A broker that was started for a test. Other tests use it at the same time, so names of topics, groups and
/// transactions must be a test's own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TestKafka {
    bootstrap: String,
    secure: Option<Secure>,
}

impl TestKafka {
    /// Reads the variables. It starts nothing, asks nobody and does not wait.
    #[must_use]
    pub fn find() -> Found {
        find(|name| std::env::var_os(name))
    }

    /// The broker that a test needs, for one that runs only if there is one.
    ///
    /// # Panics
    ///
    /// Without a broker, with the reason.
    #[must_use]
    pub fn required() -> Self {
        match Self::find() {
            Found::Broker(kafka) => kafka,
            Found::Missing(why) | Found::Invalid(why) => panic!("{why}"),
        }
    }

    /// `HOST:PORT` of the plaintext listener.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The listener with TLS and SASL, if the broker is known to have one.
    #[must_use]
    pub fn secure(&self) -> Option<&Secure> {
        self.secure.as_ref()
    }
}

/// Whether a test may start a broker of its own; otherwise why not, and what to do about it. It may where Java and the
/// jars are, unless somebody has brought a broker and so said what to test on. It does not look at the network.
pub fn own_broker_possible() -> Result<(), String> {
    own_broker_allowed(|name| std::env::var_os(name))?;
    Jars::cached().map(drop).map_err(|error| error.to_string())
}

/// Whether the process runs in CI, where what is missing is a failure: `CI` is set, to something else than `false` or `0`.
#[must_use]
pub fn is_ci() -> bool {
    says_ci(std::env::var_os("CI"))
}

fn says_ci(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !["", "0", "false"].iter().any(|no| value == *no))
}

fn own_broker_allowed(variable: impl Fn(&str) -> Option<OsString>) -> Result<(), String> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if set(ADDRESS_VARIABLE).is_some() && set(OWN_VARIABLE).is_none_or(|value| value != "1") {
        return Err(format!(
            "{ADDRESS_VARIABLE} names the one broker to test on: unset it, and tests may start brokers of their own"
        ));
    }
    Ok(())
}

fn find(variable: impl Fn(&str) -> Option<OsString>) -> Found {
    match read(variable) {
        Ok(Some(kafka)) => Found::Broker(kafka),
        Ok(None) => Found::Missing(format!(
            "no Kafka broker: `cargo xtask test` starts one, or {ADDRESS_VARIABLE}=HOST:PORT names one"
        )),
        Err(why) => Found::Invalid(why),
    }
}

fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<TestKafka>, String> {
    let text = |name: &str| match variable(name).filter(|value| !value.is_empty()) {
        Some(value) => value.into_string().map(Some).map_err(|_| format!("{name} is not UTF-8")),
        None => Ok(None),
    };
    let address = |name: &str| match text(name)? {
        Some(value) if is_address(&value) => Ok(Some(value)),
        Some(value) if name == ADDRESS_VARIABLE && value == "docker" => {
            Err(format!("{name}=docker is understood by `cargo xtask test` only: use that, or HOST:PORT"))
        }
        Some(value) => Err(format!("{name} must be HOST:PORT, and is `{value}`")),
        None => Ok(None),
    };
    let Some(bootstrap) = address(ADDRESS_VARIABLE)? else { return Ok(None) };
    let secure = match (address(SECURE_VARIABLE)?, text(CA_VARIABLE)?, text(UNTRUSTED_CA_VARIABLE)?) {
        (None, None, None) => None,
        (Some(address), Some(ca), Some(other)) => Some(Secure { address, ca: ca.into(), untrusted_ca: other.into() }),
        _ => {
            return Err(format!(
                "{SECURE_VARIABLE}, {CA_VARIABLE} and {UNTRUSTED_CA_VARIABLE} belong together: set all or none"
            ));
        }
    };
    Ok(Some(TestKafka { bootstrap, secure }))
}

/// Whether the text is a host and a port.
fn is_address(text: &str) -> bool {
    let port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    text.rsplit_once(':').is_some_and(|(host, end)| !host.is_empty() && port(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An environment of these variables alone.
    fn env(set: &[(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> {
        let set = set.to_vec();
        move |name| set.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into())
    }

    #[test]
    fn without_an_address_the_reason_names_both_ways_out() {
        for set in [&[][..], &[(ADDRESS_VARIABLE, "")]] {
            let Found::Missing(why) = find(env(set)) else { panic!("{set:?}") };
            assert!(why.contains("cargo xtask test") && why.contains(ADDRESS_VARIABLE), "{why}");
        }
    }

    #[test]
    fn an_address_alone_is_a_broker_without_a_secure_listener() {
        let Found::Broker(kafka) = find(env(&[(ADDRESS_VARIABLE, "localhost:9092")])) else { panic!() };
        assert_eq!((kafka.bootstrap(), kafka.secure()), ("localhost:9092", None));
    }

    #[test]
    fn the_secure_listener_comes_with_its_authorities() {
        let all = [
            (ADDRESS_VARIABLE, "[::1]:9092"),
            (SECURE_VARIABLE, "h:9093"),
            (CA_VARIABLE, "/ca.pem"),
            (UNTRUSTED_CA_VARIABLE, "/other.pem"),
        ];
        let Found::Broker(kafka) = find(env(&all)) else { panic!() };
        let secure = Secure { address: "h:9093".into(), ca: "/ca.pem".into(), untrusted_ca: "/other.pem".into() };
        assert_eq!(kafka.secure(), Some(&secure));
        for missing in 1..all.len() {
            let mut some = all.to_vec();
            some.remove(missing);
            assert!(matches!(find(env(&some)), Found::Invalid(why) if why.contains("belong together")), "{missing}");
        }
    }

    #[test]
    fn what_is_no_address_is_an_error_and_no_missing_broker() {
        for value in ["9092", "localhost", "localhost:", ":9092", "localhost:0", "localhost:99999", "docker"] {
            assert!(matches!(find(env(&[(ADDRESS_VARIABLE, value)])), Found::Invalid(_)), "{value}");
        }
    }

    #[test]
    fn ci_is_what_the_variable_says() {
        assert!(says_ci(Some("true".into())) && says_ci(Some("1".into())));
        for no in [None, Some("".into()), Some("0".into()), Some("false".into())] {
            assert!(!says_ci(no));
        }
    }

    #[test]
    fn who_brings_a_broker_wants_no_other() {
        assert!(own_broker_allowed(env(&[])).is_ok());
        let brought = [(ADDRESS_VARIABLE, "h:1")];
        assert!(own_broker_allowed(env(&brought)).unwrap_err().contains(ADDRESS_VARIABLE));
        assert!(own_broker_allowed(env(&[(ADDRESS_VARIABLE, "h:1"), (OWN_VARIABLE, "1")])).is_ok());
    }
}
