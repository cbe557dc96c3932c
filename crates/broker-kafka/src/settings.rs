//! How a cluster is reached: addresses, security, and the settings of librdkafka's clients by prefix.

use std::collections::BTreeMap;

use millpond_broker_api::Result;

/// Which client a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(dead_code, reason = "the clients are still to come")]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaSettings {
    /// By prefix (empty, `consumer.`, `restore.consumer.`, `producer.`, `admin.`), then by name.
    values: BTreeMap<&'static str, BTreeMap<String, String>>,
}

/// Longest first: `restore.consumer.` contains none of the others as its beginning.
const PREFIXES: [&str; 4] = ["restore.consumer.", "consumer.", "producer.", "admin."];

impl KafkaSettings {
    /// A cluster by its addresses, `HOST:PORT` with commas in between (`bootstrap.servers`).
    pub fn new(bootstrap_servers: &str) -> Self {
        let common = BTreeMap::from([("bootstrap.servers".to_owned(), bootstrap_servers.to_owned())]);
        Self { values: BTreeMap::from([("", common)]) }
    }

    /// Sets a value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let prefix = PREFIXES.into_iter().find(|prefix| key.starts_with(prefix)).unwrap_or("");
        let name = key.strip_prefix(prefix).unwrap_or(key);
        self.values.entry(prefix).or_default().insert(name.to_owned(), value.to_owned());
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
}
