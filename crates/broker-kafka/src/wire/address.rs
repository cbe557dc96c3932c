//! Where a broker listens.

use std::fmt;

/// A host and a port, as configured or advertised.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads `HOST:PORT` or `[V6]:PORT`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').filter(|v6| v6.contains(':'))?,
            None => Some(host).filter(|host| !host.contains(':'))?,
        };
        let is_host = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        let port = port.parse().ok().filter(|port| *port > 0)?;
        (!host.is_empty() && host.chars().all(is_host)).then(|| Self { host: host.to_owned(), port })
    }

    /// An address from an answer of a broker.
    pub(crate) fn advertised(host: &str, port: i32) -> Option<Self> {
        let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read() {
        for (text, host, port) in [
            ("localhost:9092", "localhost", 9092),
            ("b-1.example_x.com:1", "b-1.example_x.com", 1),
            ("10.0.0.1:65535", "10.0.0.1", 65_535),
            ("[::1]:9092", "::1", 9092),
            ("[fe80::1%eth0]:9092", "fe80::1%eth0", 9092),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port));
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_no_address() {
        for text in [
            "",
            "localhost",
            ":9092",
            "a:",
            "a:x",
            "a:0",
            "a:65536",
            "::1:9092",
            "[::1]",
            "[a]:1",
            "ssl://a:1",
            "a b:1",
        ] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    #[test]
    fn brokers_may_advertise_nonsense() {
        assert_eq!(Address::advertised("h", 9092).unwrap().to_string(), "h:9092");
        assert_eq!(Address::advertised("", 9092), None);
        assert_eq!(Address::advertised("h", -1), None);
        assert_eq!(Address::advertised("h", 70_000), None);
    }
}
