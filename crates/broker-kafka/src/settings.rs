//! How a cluster is reached: addresses, security, and the settings of librdkafka's clients by prefix.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use millpond_broker_api::{Error, ErrorKind, Result};

use crate::names;
use crate::security::Security;
use crate::wire::Address;

/// Which client a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// Reads input topics: prefix `consumer.`.
    Consumer,
    /// Reads changelogs: what stands under `consumer.`, overlaid by `restore.consumer.`.
    RestoreConsumer,
    /// Writes: prefix `producer.`.
    Producer,
    /// Speaks the wire protocol (group membership, committed offsets, topics): prefix `admin.`.
    Admin,
}

/// Settings of a cluster, by librdkafka's names. Without a prefix they are for all clients.
///
/// Prefixes are `consumer.`, `restore.consumer.` (what is not set there is as under `consumer.`), `producer.` and `admin.`.
/// The output of `Debug` has no passwords and keys in it.
///
/// ```
/// use millpond_broker_kafka::KafkaSettings;
///
/// let mut settings = KafkaSettings::new("broker-1:9093,broker-2:9093");
/// settings.set("security.protocol", "sasl_ssl")?;
/// settings.set("sasl.mechanism", "SCRAM-SHA-512")?;
/// settings.set("producer.linger.ms", "20")?;
/// let error = settings.set("ssl.truststore.location", "trust.jks").unwrap_err();
/// assert!(error.to_string().contains("ssl.ca.location"));
/// # Ok::<(), millpond_broker_api::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KafkaSettings {
    /// By prefix (empty, `consumer.`, `restore.consumer.`, `producer.`, `admin.`), then by name.
    values: BTreeMap<&'static str, BTreeMap<String, String>>,
}

/// Longest first: `restore.consumer.` contains none of the others as its beginning.
const PREFIXES: [&str; 4] = ["restore.consumer.", "consumer.", "producer.", "admin."];

/// Prefixes of other libraries, and what to write instead.
const FOREIGN_PREFIXES: &[(&str, &str)] = &[
    ("main.consumer.", "use the prefix `consumer.`"),
    ("global.consumer.", "use the prefix `consumer.`"),
    ("kafka.", "leave the prefix out, or use `consumer.`, `restore.consumer.`, `producer.` or `admin.`"),
    ("librdkafka.", "leave the prefix out, or use `consumer.`, `restore.consumer.`, `producer.` or `admin.`"),
];

const BOOTSTRAP: &str = "bootstrap.servers";
const CLIENT_ID: &str = "client.id";
const CONNECT_LIMIT: &str = "socket.connection.setup.timeout.ms";
const REQUEST_LIMIT: &str = "request.timeout.ms";
const RETRY_LIMIT: &str = "default.api.timeout.ms";
const FAMILY: &str = "broker.address.family";

/// What our own connections read. Under `admin.` nothing else means anything.
const READ_BY_ADMIN: &[&str] = &[CLIENT_ID, CONNECT_LIMIT, REQUEST_LIMIT, RETRY_LIMIT, FAMILY];

/// Which addresses of a host are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Any,
    V4,
    V6,
}

/// What our own connections are made with.
#[derive(Clone, Debug)]
pub(crate) struct WireSettings {
    pub(crate) bootstrap: Vec<Address>,
    pub(crate) security: Security,
    pub(crate) client_id: String,
    pub(crate) family: Family,
    /// How long connecting may take, TLS and logging in included.
    pub(crate) connect_limit: Duration,
    /// How long an answer may take that the broker does not hold back on purpose.
    pub(crate) request_limit: Duration,
    /// How long administration repeats what is retriable.
    pub(crate) retry_limit: Duration,
}

impl WireSettings {
    /// For a caller that has other work to do: what is retriable is repeated for so long, and a silent broker given up soon.
    pub(crate) fn impatient(self, patience: Duration) -> Self {
        const SOON: Duration = Duration::from_secs(5);
        Self {
            connect_limit: self.connect_limit.min(SOON),
            request_limit: self.request_limit.min(SOON),
            retry_limit: patience,
            ..self
        }
    }
}

impl KafkaSettings {
    /// A cluster by its addresses, `HOST:PORT` with commas in between (`bootstrap.servers`).
    pub fn new(bootstrap_servers: &str) -> Self {
        let common = BTreeMap::from([(BOOTSTRAP.to_owned(), bootstrap_servers.to_owned())]);
        Self { values: BTreeMap::from([("", common)]) }
    }

    /// The settings of a list of names and values, as an application's settings have them. `bootstrap.servers` must be there.
    pub fn from_pairs(pairs: &[(String, String)]) -> Result<Self> {
        let mut settings = Self::default();
        pairs.iter().try_for_each(|(key, value)| settings.set(key, value))?;
        if settings.bootstrap_servers().is_empty() {
            return Err(Error::new(ErrorKind::Fatal, "connect to Kafka")
                .with("missing setting", BOOTSTRAP)
                .with("remedy", "set it to HOST:PORT, or to several with commas in between"));
        }
        Ok(settings)
    }

    /// Sets a value. What cannot be right is refused here, with what would be; whether librdkafka knows a name shows when
    /// the client is made that it is for.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let prefix = PREFIXES.into_iter().find(|prefix| key.starts_with(prefix)).unwrap_or("");
        let name = key.strip_prefix(prefix).unwrap_or(key);
        let refused = |remedy: String| {
            Err(Error::new(ErrorKind::Fatal, "set a setting of Kafka").with("key", key).with("remedy", remedy))
        };
        if let Some((_, remedy)) = FOREIGN_PREFIXES.iter().find(|(prefix, _)| key.starts_with(prefix)) {
            return refused((*remedy).to_owned());
        }
        if name.is_empty() {
            return refused("write a name behind the prefix".to_owned());
        }
        if let Some(remedy) = names::refusal(name).or_else(|| misplaced(prefix, name)) {
            return refused(remedy);
        }
        if let Err(remedy) = check(name, value) {
            return refused(remedy);
        }
        let name = names::canonical(name).to_owned();
        self.values.entry(prefix).or_default().insert(name, value.to_owned());
        Ok(())
    }

    /// What a client is made with, by librdkafka's names.
    pub(crate) fn client(&self, client: Client) -> BTreeMap<&str, &str> {
        let prefixes: &[&str] = match client {
            Client::Consumer => &["", "consumer."],
            Client::RestoreConsumer => &["", "consumer.", "restore.consumer."],
            Client::Producer => &["", "producer."],
            Client::Admin => &["", "admin."],
        };
        let rows = prefixes.iter().filter_map(|prefix| self.values.get(prefix)).flatten();
        rows.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The addresses as they were given.
    pub(crate) fn bootstrap_servers(&self) -> &str {
        self.values.get("").and_then(|common| common.get(BOOTSTRAP)).map_or("", String::as_str)
    }

    /// What our own connections are made with.
    pub(crate) fn wire(&self) -> Result<WireSettings> {
        let values = self.client(Client::Admin);
        let millis = |name, default| match values.get(name) {
            Some(value) => positive(name, value).map_err(|remedy| bad(name, &remedy)),
            None => Ok(Duration::from_millis(default)),
        };
        Ok(WireSettings {
            bootstrap: addresses(self.bootstrap_servers()).map_err(|remedy| bad(BOOTSTRAP, &remedy))?,
            security: Security::of(&values)?,
            client_id: (*values.get(CLIENT_ID).unwrap_or(&"millpond")).to_owned(),
            family: family(values.get(FAMILY).unwrap_or(&"any")).map_err(|remedy| bad(FAMILY, &remedy))?,
            connect_limit: millis(CONNECT_LIMIT, 10_000)?,
            request_limit: millis(REQUEST_LIMIT, 30_000)?,
            retry_limit: millis(RETRY_LIMIT, 30_000)?,
        })
    }
}

/// Secrets are not shown.
impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (prefix, values) in &self.values {
            for (name, value) in values {
                let shown = if names::is_secret(name) { "(hidden)" } else { value };
                map.entry(&format!("{prefix}{name}"), &shown);
            }
        }
        map.finish()
    }
}

/// The answer to a name that has no meaning under its prefix.
fn misplaced(prefix: &str, name: &str) -> Option<String> {
    match (prefix, name) {
        ("", RETRY_LIMIT) => Some(format!("use `admin.{RETRY_LIMIT}`")),
        (_, "metadata.broker.list") => Some(format!("use `{BOOTSTRAP}`")),
        ("", _) => None,
        (_, BOOTSTRAP) => Some("set it without a prefix: all clients use one cluster".to_owned()),
        ("admin.", name) if !READ_BY_ADMIN.contains(&name) && !Security::reads(name) => {
            Some(format!("under `admin.` there are {} and the names of security", READ_BY_ADMIN.join(", ")))
        }
        _ => None,
    }
}

/// Checks the value of what is read here, too; librdkafka checks the rest.
fn check(name: &str, value: &str) -> std::result::Result<(), String> {
    match name {
        BOOTSTRAP => addresses(value).map(drop),
        CONNECT_LIMIT | REQUEST_LIMIT | RETRY_LIMIT => positive(name, value).map(drop),
        FAMILY => family(value).map(drop),
        _ => Security::check(name, value),
    }
}

fn bad(name: &str, remedy: &str) -> Error {
    Error::new(ErrorKind::Fatal, "read the settings of Kafka").with("key", name).with("remedy", remedy)
}

fn positive(name: &str, value: &str) -> std::result::Result<Duration, String> {
    match value.parse() {
        Ok(ms @ 1..=86_400_000) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("give `{name}` in milliseconds, 1 to 86400000, not `{value}`")),
    }
}

fn family(value: &str) -> std::result::Result<Family, String> {
    match value {
        "any" => Ok(Family::Any),
        "v4" => Ok(Family::V4),
        "v6" => Ok(Family::V6),
        _ => Err(format!("use `any`, `v4` or `v6`, not `{value}`")),
    }
}

/// `HOST:PORT` with commas in between.
fn addresses(list: &str) -> std::result::Result<Vec<Address>, String> {
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    let parsed = parts.map(|part| {
        Address::parse(part).ok_or_else(|| {
            format!(
                "write HOST:PORT with commas in between, not `{part}`; the kind of listener goes to `security.protocol`"
            )
        })
    });
    let addresses: Vec<_> = parsed.collect::<std::result::Result<_, _>>()?;
    if addresses.is_empty() { Err("name at least one broker, as HOST:PORT".to_owned()) } else { Ok(addresses) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rows: &[(&str, &str)]) -> KafkaSettings {
        let mut settings = KafkaSettings::new("a:1");
        for (key, value) in rows {
            settings.set(key, value).unwrap();
        }
        settings
    }

    fn refusal(key: &str, value: &str) -> String {
        let error = KafkaSettings::new("a:1").set(key, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal);
        let context: Vec<_> = error.context().collect();
        assert_eq!(context[0], ("key", key));
        assert_eq!(context[1].0, "remedy");
        context[1].1.to_owned()
    }

    #[test]
    fn prefixes_overlay() {
        let settings = with(&[
            ("fetch.max.bytes", "1"),
            ("consumer.fetch.max.bytes", "2"),
            ("consumer.client.rack", "r"),
            ("restore.consumer.fetch.max.bytes", "3"),
            ("producer.linger.ms", "4"),
        ]);
        let of = |client| settings.client(client);
        assert_eq!(
            of(Client::Consumer),
            BTreeMap::from([(BOOTSTRAP, "a:1"), ("fetch.max.bytes", "2"), ("client.rack", "r")])
        );
        assert_eq!(of(Client::RestoreConsumer)["fetch.max.bytes"], "3");
        assert_eq!(of(Client::RestoreConsumer)["client.rack"], "r");
        assert_eq!(
            of(Client::Producer),
            BTreeMap::from([(BOOTSTRAP, "a:1"), ("fetch.max.bytes", "1"), ("linger.ms", "4")])
        );
        assert_eq!(of(Client::Admin)["fetch.max.bytes"], "1");
    }

    #[test]
    fn what_cannot_be_right_is_answered() {
        assert!(refusal("consumer.max.poll.records", "5").contains("leave it out"));
        assert!(refusal("producer.transactional.id", "x").contains("`processing.guarantee`"));
        assert!(refusal("main.consumer.client.rack", "r").contains("`consumer.`"));
        assert!(refusal("consumer.", "r").contains("write a name"));
        assert!(refusal("consumer.bootstrap.servers", "b:1").contains("one cluster"));
        assert!(refusal("metadata.broker.list", "b:1").contains("`bootstrap.servers`"));
        assert!(refusal("admin.linger.ms", "5").contains("request.timeout.ms"));
        assert!(refusal("default.api.timeout.ms", "5").contains("`admin.default.api.timeout.ms`"));
        assert!(refusal("security.protocol", "tls").contains("`sasl_ssl`"));
        assert!(refusal("admin.request.timeout.ms", "0").contains("not `0`"));
        assert!(refusal("broker.address.family", "ipv4").contains("`v4`"));
        assert!(refusal(BOOTSTRAP, "PLAINTEXT://a:1").contains("`security.protocol`"));
        assert!(refusal(BOOTSTRAP, " , ").contains("at least one"));
    }

    #[test]
    fn our_own_connections_have_limits_of_their_own() {
        let wire = KafkaSettings::new("a:1, [::1]:2").wire().unwrap();
        assert_eq!(wire.bootstrap.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "[::1]:2"]);
        assert_eq!((wire.client_id.as_str(), wire.family), ("millpond", Family::Any));
        assert_eq!(
            (wire.connect_limit.as_secs(), wire.request_limit.as_secs(), wire.retry_limit.as_secs()),
            (10, 30, 30)
        );
        let wire = with(&[
            ("client.id", "all"),
            ("admin.client.id", "own"),
            ("admin.request.timeout.ms", "1500"),
            ("admin.default.api.timeout.ms", "2500"),
            ("socket.connection.setup.timeout.ms", "500"),
            ("broker.address.family", "v4"),
            ("security.protocol", "sasl_plaintext"),
            ("sasl.mechanism", "PLAIN"),
            ("sasl.username", "u"),
            ("sasl.password", "p"),
            ("admin.sasl.mechanisms", "SCRAM-SHA-256"),
        ])
        .wire()
        .unwrap();
        assert_eq!((wire.client_id.as_str(), wire.family), ("own", Family::V4));
        let limits = [wire.connect_limit, wire.request_limit, wire.retry_limit].map(|limit| limit.as_millis());
        assert_eq!(limits, [500, 1500, 2500]);
        assert_eq!(wire.security.sasl.unwrap().mechanism.name(), "SCRAM-SHA-256", "both names of it mean the same");
    }

    #[test]
    fn bad_addresses_are_an_error_of_the_connection() {
        let error = KafkaSettings::new("nowhere").wire().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal);
        assert!(error.to_string().contains("write HOST:PORT with commas in between, not `nowhere`"), "{error}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let settings = with(&[
            ("sasl.username", "ann"),
            ("sasl.password", "s3cret"),
            ("admin.ssl.key.password", "s3cret"),
            ("ssl.key.pem", "-----BEGIN PRIVATE KEY-----s3cret"),
        ]);
        let shown = format!("{settings:?} {:?}", settings.wire());
        assert!(shown.contains("ann") && shown.contains("\"admin.ssl.key.password\": \"(hidden)\""), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
