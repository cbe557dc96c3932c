//! Settings with Kafka Streams' names: plain data, readable from code, TOML and environment variables, checked at start.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// What a commit guarantees (`processing.guarantee`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Guarantee {
    /// No record is lost; after a crash some may count twice.
    #[default]
    AtLeastOnce,
    /// Each record counts once: outputs, state and offsets are committed in one transaction (Kafka's `exactly_once_v2`).
    ExactlyOnce,
}

/// Where to begin with a partition that has no committed offset (`auto.offset.reset`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OffsetReset {
    /// With the first record that is there.
    #[default]
    Earliest,
    /// With the records that come from now on.
    Latest,
}

/// What to do about a record that cannot be processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorPolicy {
    /// Stop the application with an error that names the record's topic, partition and offset.
    #[default]
    Fail,
    /// Count it, log it, and go on as if it had not been there: it has no effect anywhere.
    Continue,
    /// As [`ErrorPolicy::Continue`], and write it to [`Settings::dead_letter_topic`], with the error in headers.
    DeadLetter,
}

/// All settings of an application.
///
/// ```
/// use millpond_runtime::{Guarantee, Settings};
///
/// let mut settings = Settings::new("flights");
/// settings.set("processing.guarantee", "exactly_once_v2")?;
/// settings.set("num.stream.threads", "2")?;
/// assert_eq!(settings.guarantee, Guarantee::ExactlyOnce);
///
/// let error = settings.set("num.stream.thread", "2").unwrap_err();
/// assert!(error.chain().contains("num.stream.threads"), "it names the nearest key: {}", error.chain());
/// # Ok::<(), millpond_runtime::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `application.id`: names the group, the internal topics, the transactions and the state directory.
    pub application_id: String,
    /// `num.stream.threads`: how many workers process tasks in this instance. Default 1.
    pub workers: usize,
    /// `processing.guarantee`: `at_least_once` (default) or `exactly_once_v2`.
    pub guarantee: Guarantee,
    /// `commit.interval.ms`. Default 100 ms under exactly-once, else 30 s.
    pub commit_interval: Option<Duration>,
    /// `state.dir`: where persistent engines and the process id live. Unset: nothing is kept on disk, the id is random.
    pub state_dir: Option<PathBuf>,
    /// `memory.budget.bytes`: caps overlays, block caches, write buffers and queues of the process. Default a quarter of
    /// the machine or cgroup.
    pub memory_budget: Option<u64>,
    /// `statestore.cache.max.bytes`: caps clean and not yet forwarded entries of all stores in the process. 0, or too little for a
    /// single entry, turns caching off: every update is forwarded at once. Default: a share of the memory budget.
    pub cache_max: Option<u64>,
    /// `statestore.uncommitted.max.bytes`: caps logged entries that no shard has yet; past it a commit comes early. Default:
    /// a share of the memory budget.
    pub uncommitted_max: Option<u64>,
    /// `state.flush.interval.ms`: how much of a changelog's tail a restart may have to read again. Default 30 s.
    pub flush_interval: Duration,
    /// `session.timeout.ms`: the group takes an instance for dead after this long without a heartbeat. Default 45 s.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`. Default a tenth of the session timeout, at most 1 s.
    pub heartbeat_interval: Option<Duration>,
    /// `rebalance.timeout.ms`: how long a rebalance waits for this instance. Default 8 s.
    pub rebalance_timeout: Duration,
    /// `max.poll.interval.ms`: a worker that has made no step for this long is stuck. Default 5 min.
    pub max_poll_interval: Duration,
    /// `transaction.timeout.ms`: the broker aborts a transaction that is open for this long. Default 10 s.
    pub transaction_timeout: Duration,
    /// `max.task.idle.ms`: how long a task waits for an empty input while its others have records. Default 0: it waits only
    /// for records that can be fetched.
    pub max_task_idle: Duration,
    /// `buffered.records.per.partition`: no more is taken above it, nor above the partition's part of the memory budget in
    /// bytes. Default 1,000.
    pub buffered_records: usize,
    /// `poll.ms`: how long a worker waits for records when it has nothing to do. Default 100 ms.
    pub poll: Duration,
    /// `request.timeout.ms`: how long one call to the broker may take. Default 30 s.
    pub request_timeout: Duration,
    /// `repartition.purge.interval.ms`: how often processed records of repartition topics are deleted. Default 30 s.
    pub purge_interval: Duration,
    /// `replication.factor` of internal topics. -1 (default): the broker's.
    pub replication: Option<i16>,
    /// `windowstore.changelog.additional.retention.ms`: the changelog of a window or session store keeps records for this
    /// long beyond the store's retention, since brokers go by the clock and stores by event time. Default one day.
    pub window_additional_retention_ms: i64,
    /// `__iq.consistency.offset.vector.enabled__`, an internal setting of Kafka Streams: changelog records say in headers how far
    /// the task has read its inputs. Default `false`.
    pub position_headers: bool,
    /// `auto.offset.reset`: `earliest` (default) or `latest`.
    pub offset_reset: OffsetReset,
    /// `deserialization.exception.handler`: `fail` (default), `continue` or `dead-letter`. What it and the next two say counts
    /// where [`AppBuilder::error_handler`](crate::AppBuilder::error_handler) is not used; [`ErrorStage`](crate::ErrorStage) says
    /// what belongs to which.
    pub on_deserialization_error: ErrorPolicy,
    /// `processing.exception.handler`: `fail` (default), `continue` or `dead-letter`.
    pub on_processing_error: ErrorPolicy,
    /// `production.exception.handler`: `fail` (default), `continue` or `dead-letter`. Never for changelogs and repartition
    /// topics.
    pub on_production_error: ErrorPolicy,
    /// `errors.dead.letter.queue.topic.name`: where dead letters go. It must exist when the application starts, and take what
    /// the sources take: give it their `max.message.bytes`. A dead letter that is refused ends the application.
    pub dead_letter_topic: Option<String>,
    /// `errors.max.attempts`: how often a record is processed in all where the error handler answers
    /// [`Retry`](crate::ErrorAnswer::Retry), the first time included. Default 10.
    pub max_attempts: u32,
    /// `topic.*`: configs of all internal topics, without the prefix.
    pub topic_configs: Vec<(String, String)>,
    /// `bootstrap.servers`, `client.id`, `security.protocol`, `ssl.*`, `sasl.*`, and what begins with `consumer.`,
    /// `restore.consumer.`, `producer.` or `admin.`: for the clients of the cluster, with the prefix. Checked by the broker's
    /// crate, when [`AppBuilder::connect`](crate::AppBuilder::connect) makes the cluster of them.
    pub client_configs: ClientConfigs,
}

/// Names and values for the clients of the cluster, passwords among them: the output of `Debug` has the names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientConfigs(pub Vec<(String, String)>);

impl std::ops::Deref for ClientConfigs {
    type Target = [(String, String)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::fmt::Debug for ClientConfigs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Sets one field from text; the error says what would be right.
type Apply = fn(&mut Settings, &str) -> std::result::Result<(), &'static str>;

const KEYS: &[(&str, Apply)] = &[
    ("__iq.consistency.offset.vector.enabled__", |s, v| {
        s.position_headers = v.parse().map_err(|_| "use `true` or `false`")?;
        Ok(())
    }),
    ("application.id", |s, v| {
        s.application_id = v.to_owned();
        Ok(())
    }),
    ("auto.offset.reset", |s, v| {
        s.offset_reset = match v {
            "earliest" => OffsetReset::Earliest,
            "latest" => OffsetReset::Latest,
            _ => return Err("use `earliest` or `latest`"),
        };
        Ok(())
    }),
    ("buffered.records.per.partition", |s, v| number(v).map(|n| s.buffered_records = n)),
    ("commit.interval.ms", |s, v| millis(v).map(|t| s.commit_interval = Some(t))),
    ("deserialization.exception.handler", |s, v| policy(v).map(|p| s.on_deserialization_error = p)),
    ("errors.dead.letter.queue.topic.name", |s, v| {
        s.dead_letter_topic = Some(v.to_owned());
        Ok(())
    }),
    ("errors.max.attempts", |s, v| number(v).map(|n| s.max_attempts = n)),
    ("heartbeat.interval.ms", |s, v| millis(v).map(|t| s.heartbeat_interval = Some(t))),
    ("max.poll.interval.ms", |s, v| millis(v).map(|t| s.max_poll_interval = t)),
    ("max.task.idle.ms", |s, v| millis(v).map(|t| s.max_task_idle = t)),
    ("memory.budget.bytes", |s, v| number(v).map(|n| s.memory_budget = Some(n))),
    ("num.stream.threads", |s, v| number(v).map(|n| s.workers = n)),
    ("poll.ms", |s, v| millis(v).map(|t| s.poll = t)),
    ("processing.exception.handler", |s, v| policy(v).map(|p| s.on_processing_error = p)),
    ("processing.guarantee", |s, v| {
        s.guarantee = match v {
            "at_least_once" => Guarantee::AtLeastOnce,
            "exactly_once_v2" => Guarantee::ExactlyOnce,
            _ => return Err("use `at_least_once` or `exactly_once_v2`"),
        };
        Ok(())
    }),
    ("production.exception.handler", |s, v| policy(v).map(|p| s.on_production_error = p)),
    ("rebalance.timeout.ms", |s, v| millis(v).map(|t| s.rebalance_timeout = t)),
    ("repartition.purge.interval.ms", |s, v| millis(v).map(|t| s.purge_interval = t)),
    ("replication.factor", |s, v| {
        s.replication = match v.parse::<i16>() {
            Ok(-1) => None,
            Ok(n) if n > 0 => Some(n),
            _ => return Err("use a number above 0, or -1 for the broker's default"),
        };
        Ok(())
    }),
    ("request.timeout.ms", |s, v| millis(v).map(|t| s.request_timeout = t)),
    ("session.timeout.ms", |s, v| millis(v).map(|t| s.session_timeout = t)),
    ("state.dir", |s, v| {
        s.state_dir = Some(PathBuf::from(v));
        Ok(())
    }),
    ("state.flush.interval.ms", |s, v| millis(v).map(|t| s.flush_interval = t)),
    ("statestore.cache.max.bytes", |s, v| number(v).map(|n| s.cache_max = Some(n))),
    ("statestore.uncommitted.max.bytes", |s, v| number(v).map(|n| s.uncommitted_max = Some(n))),
    ("transaction.timeout.ms", |s, v| millis(v).map(|t| s.transaction_timeout = t)),
    ("windowstore.changelog.additional.retention.ms", |s, v| {
        s.window_additional_retention_ms = number::<u64>(v)?.try_into().map_err(|_| "use at most 2^63 - 1")?;
        Ok(())
    }),
];

fn number<T: std::str::FromStr>(text: &str) -> std::result::Result<T, &'static str> {
    text.parse().map_err(|_| "use a whole number, 0 or more")
}

fn millis(text: &str) -> std::result::Result<Duration, &'static str> {
    number(text).map(Duration::from_millis)
}

fn policy(text: &str) -> std::result::Result<ErrorPolicy, &'static str> {
    match text {
        "fail" => Ok(ErrorPolicy::Fail),
        "continue" => Ok(ErrorPolicy::Continue),
        "dead-letter" => Ok(ErrorPolicy::DeadLetter),
        _ => Err("use `fail`, `continue` or `dead-letter`"),
    }
}

impl Settings {
    /// The most workers that an instance can have.
    pub const MAX_WORKERS: usize = 256;

    /// The defaults.
    pub fn new(application_id: impl Into<String>) -> Self {
        Self {
            application_id: application_id.into(),
            workers: 1,
            guarantee: Guarantee::default(),
            commit_interval: None,
            state_dir: None,
            memory_budget: None,
            cache_max: None,
            uncommitted_max: None,
            flush_interval: Duration::from_secs(30),
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: None,
            rebalance_timeout: Duration::from_secs(8),
            max_poll_interval: Duration::from_secs(300),
            transaction_timeout: Duration::from_secs(10),
            max_task_idle: Duration::ZERO,
            buffered_records: 1_000,
            poll: Duration::from_millis(100),
            request_timeout: Duration::from_secs(30),
            purge_interval: Duration::from_secs(30),
            replication: None,
            window_additional_retention_ms: millpond_changelog::TopicDefaults::default().window_additional_retention_ms,
            position_headers: false,
            offset_reset: OffsetReset::default(),
            on_deserialization_error: ErrorPolicy::default(),
            on_processing_error: ErrorPolicy::default(),
            on_production_error: ErrorPolicy::default(),
            dead_letter_topic: None,
            max_attempts: 10,
            topic_configs: Vec::new(),
            client_configs: ClientConfigs::default(),
        }
    }

    /// All keys that [`Settings::set`] knows, `topic.*` and those of [`Settings::client_configs`] aside.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.iter().map(|(key, _)| *key)
    }

    /// Sets a value by its Kafka Streams name. An unknown key or a bad value is an error that says what would be right.
    pub fn set(&mut self, key: &str, value: &str) -> Result {
        if let Some(config) = key.strip_prefix("topic.") {
            replace(&mut self.topic_configs, config, value);
            return Ok(());
        }
        if is_of_a_client(key) {
            replace(&mut self.client_configs.0, key, value);
            return Ok(());
        }
        let refused = |remedy: &'static str| {
            Error::new(ErrorKind::Config, "set a setting").with("key", key).with("value", value).remedy(remedy)
        };
        match KEYS.iter().find(|(k, _)| *k == key) {
            Some((_, apply)) => apply(self, value).map_err(refused),
            None => Err(unknown(key)),
        }
    }

    /// Sets all values of a TOML document; tables become dots: `commit.interval.ms = 100` and `[commit]` with
    /// `interval.ms = 100` mean the same.
    pub fn set_toml(&mut self, text: &str) -> Result {
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            Error::new(ErrorKind::Config, "read settings").with("format", "TOML").caused_by(e)
        })?;
        self.set_table("", &table)
    }

    fn set_table(&mut self, prefix: &str, table: &toml::Table) -> Result {
        for (name, value) in table {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                toml::Value::Table(inner) => self.set_table(&key, inner)?,
                toml::Value::String(text) => self.set(&key, text)?,
                toml::Value::Integer(n) => self.set(&key, &n.to_string())?,
                toml::Value::Boolean(yes) => self.set(&key, &yes.to_string())?,
                other => {
                    return Err(Error::new(ErrorKind::Config, "read settings")
                        .with("key", key)
                        .with("type", other.type_str())
                        .remedy("use a string, a number or a boolean"));
                }
            }
        }
        Ok(())
    }

    /// Sets all values of environment variables named `MILLPOND_` and the key in capitals, dots as underscores:
    /// `MILLPOND_COMMIT_INTERVAL_MS`. Pass [`std::env::vars`]; other variables are left alone, and so are those that name no
    /// key, since tests and tools have variables of the same prefix.
    pub fn set_env(&mut self, vars: impl IntoIterator<Item = (String, String)>) -> Result {
        for (name, value) in vars {
            let Some(name) = name.strip_prefix("MILLPOND_") else { continue };
            let key = name.to_lowercase().replace('_', ".");
            if KEYS.iter().any(|(k, _)| *k == key) || is_of_a_client(&key) {
                self.set(&key, &value)?;
            }
        }
        Ok(())
    }

    /// The commit interval that holds.
    pub fn effective_commit_interval(&self) -> Duration {
        self.commit_interval.unwrap_or(match self.guarantee {
            Guarantee::AtLeastOnce => Duration::from_secs(30),
            Guarantee::ExactlyOnce => Duration::from_millis(100),
        })
    }

    /// The heartbeat interval that holds.
    pub fn effective_heartbeat_interval(&self) -> Duration {
        self.heartbeat_interval.unwrap_or((self.session_timeout / 10).min(Duration::from_secs(1)))
    }

    /// Checks values against each other, naming key, value and remedy.
    pub fn validate(&self) -> Result {
        let bad = |key: &'static str, value: String, remedy: &'static str| {
            Err(Error::new(ErrorKind::Config, "check settings").with("key", key).with("value", value).remedy(remedy))
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let id = &self.application_id;
        if id.is_empty() || id.len() > 200 || !id.chars().all(legal) || id == "." || id == ".." {
            return bad("application.id", id.clone(), "use 1 to 200 letters, digits, dots, dashes and underscores");
        }
        if !(1..=Self::MAX_WORKERS).contains(&self.workers) {
            return bad(
                "num.stream.threads",
                self.workers.to_string(),
                "use 1 to 256; more than there are tasks help nobody",
            );
        }
        if self.buffered_records == 0 {
            return bad("buffered.records.per.partition", "0".into(), "use 1 or more");
        }
        if self.max_attempts == 0 {
            return bad("errors.max.attempts", "0".into(), "use 1 or more");
        }
        self.validate_dead_letters()?;
        let ms = |t: Duration| t.as_millis().to_string();
        if self.effective_heartbeat_interval() * 3 > self.session_timeout {
            let value = ms(self.effective_heartbeat_interval());
            return bad("heartbeat.interval.ms", value, "use at most a third of `session.timeout.ms`");
        }
        if self.guarantee == Guarantee::ExactlyOnce && self.effective_commit_interval() >= self.transaction_timeout {
            let value = ms(self.effective_commit_interval());
            return bad("commit.interval.ms", value, "use less than `transaction.timeout.ms`");
        }
        if self.guarantee == Guarantee::ExactlyOnce && self.rebalance_timeout >= self.transaction_timeout {
            let value = ms(self.rebalance_timeout);
            return bad("rebalance.timeout.ms", value, "use less than `transaction.timeout.ms`, or raise both");
        }
        Ok(())
    }
}

impl Settings {
    /// Dead letters need a place.
    fn validate_dead_letters(&self) -> Result {
        let handlers = [
            ("deserialization.exception.handler", self.on_deserialization_error),
            ("processing.exception.handler", self.on_processing_error),
            ("production.exception.handler", self.on_production_error),
        ];
        match handlers.iter().find(|(_, policy)| *policy == ErrorPolicy::DeadLetter) {
            Some((key, _)) if self.dead_letter_topic.is_none() => Err(Error::new(ErrorKind::Config, "check settings")
                .with("key", key)
                .with("value", "dead-letter")
                .remedy("say where dead letters go: set `errors.dead.letter.queue.topic.name`")),
            _ => Ok(()),
        }
    }
}

/// Whether a key is for the clients of the cluster.
fn is_of_a_client(key: &str) -> bool {
    const NAMES: [&str; 5] = [
        "bootstrap.servers",
        "broker.address.family",
        "client.id",
        "enable.ssl.certificate.verification",
        "security.protocol",
    ];
    const PREFIXES: [&str; 6] = ["ssl.", "sasl.", "consumer.", "restore.consumer.", "producer.", "admin."];
    NAMES.contains(&key) || PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

/// The last value of a key counts.
fn replace(configs: &mut Vec<(String, String)>, key: &str, value: &str) {
    configs.retain(|(known, _)| known != key);
    configs.push((key.to_owned(), value.to_owned()));
}

/// Of a key that Kafka Streams has and this library has not: what there is in its place.
fn in_place_of(key: &str) -> Option<&'static str> {
    Some(match key {
        "cache.max.bytes.buffering" => "use `statestore.cache.max.bytes`, its newer name",
        "default.timestamp.extractor" => {
            "event times are taken where a topic is read, in the topology: `Consumed::timestamp_extractor`"
        }
        "num.standby.replicas" => "there are no standby replicas yet: leave it out",
        "rocksdb.config.setter" => {
            "RocksDB is set up where its engine is made, in the program: `RocksEngine::with_config_setter`"
        }
        "topology.optimization" => "a topology is optimized where it is defined: `optimize` of its builder",
        _ if key.starts_with("main.consumer.") || key.starts_with("global.consumer.") => {
            "use the prefix `consumer.`, or `restore.consumer.` for the readers of changelogs"
        }
        _ if key.contains("serde") => "serdes are given where a topic or a store is named, in the topology",
        _ => return None,
    })
}

/// An unknown key: what it may be meant for, if that can be guessed.
fn unknown(key: &str) -> Error {
    let error = Error::new(ErrorKind::Config, "set a setting").with("unknown key", key);
    if let Some(remedy) = in_place_of(key) {
        return error.remedy(remedy);
    }
    let (nearest, distance) = nearest(key);
    let error = if distance * 3 <= key.len() { error.with("nearest", nearest) } else { error };
    error.remedy("`Settings::keys()` lists all keys")
}

/// The known key with the least edits, and how many these are.
fn nearest(key: &str) -> (&'static str, usize) {
    let all = KEYS.iter().map(|(known, _)| (*known, edits(known.as_bytes(), key.as_bytes())));
    all.min_by_key(|(_, distance)| *distance).unwrap_or_default()
}

/// Levenshtein's distance.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error = Settings::new("a").set("comit.interval.ms", "1").unwrap_err();
        assert!(error.chain().contains("nearest=`commit.interval.ms`"), "{}", error.chain());
    }

    #[test]
    fn a_key_that_is_like_no_other_is_answered_in_words() {
        let said = |key: &str| Settings::new("a").set(key, "1").unwrap_err().to_string();
        assert!(
            said("default.key.serde").contains("in the topology") && !said("default.key.serde").contains("nearest")
        );
        for (key, instead) in [
            ("topology.optimization", "`optimize`"),
            ("num.standby.replicas", "no standby replicas yet"),
            ("rocksdb.config.setter", "`RocksEngine::with_config_setter`"),
            ("cache.max.bytes.buffering", "`statestore.cache.max.bytes`"),
            ("default.timestamp.extractor", "`Consumed::timestamp_extractor`"),
            ("global.consumer.fetch.min.bytes", "prefix `consumer.`"),
        ] {
            assert!(
                said(key).contains(instead) && said(key).contains(key) && !said(key).contains("nearest"),
                "{}",
                said(key)
            );
        }
        assert!(said("main.consumer.fetch.min.bytes").contains("prefix `consumer.`"));
        assert!(said("what.is.this").contains("Settings::keys()") && !said("what.is.this").contains("nearest"));
    }

    #[test]
    fn a_bad_value_names_key_value_and_remedy() {
        let text = Settings::new("a").set("processing.guarantee", "exactly_once").unwrap_err().chain();
        for part in ["processing.guarantee", "`exactly_once`", "exactly_once_v2"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn toml_tables_and_dotted_keys_mean_the_same() {
        let (mut a, mut b) = (Settings::new("a"), Settings::new("a"));
        a.set_toml(
            "commit.interval.ms = 7\nprocessing.guarantee = \"exactly_once_v2\"\n\"topic.min.insync.replicas\" = 2",
        )
        .unwrap();
        b.set_toml("[commit]\ninterval.ms = 7\n[processing]\nguarantee = \"exactly_once_v2\"\n[topic]\nmin.insync.replicas = 2").unwrap();
        assert_eq!(a, b);
        assert_eq!(a.commit_interval, Some(Duration::from_millis(7)));
        assert_eq!(a.topic_configs, [("min.insync.replicas".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn what_is_for_the_clients_is_kept_for_them() {
        let mut s = Settings::new("a");
        for (key, value) in
            [("bootstrap.servers", "one:9092"), ("ssl.ca.location", "ca.pem"), ("consumer.check.crcs", "true")]
        {
            s.set(key, "before").unwrap();
            s.set(key, value).unwrap();
        }
        let kept: Vec<_> = s.client_configs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            kept,
            [("bootstrap.servers", "one:9092"), ("ssl.ca.location", "ca.pem"), ("consumer.check.crcs", "true")]
        );
    }

    #[test]
    fn environment_variables_set_known_keys_only() {
        let mut s = Settings::new("a");
        let vars = [("MILLPOND_NUM_STREAM_THREADS", "3"), ("MILLPOND_SLOW", "1"), ("HOME", "/")];
        s.set_env(vars.map(|(k, v)| (k.to_owned(), v.to_owned()))).unwrap();
        assert_eq!(s.workers, 3);
    }

    #[test]
    fn values_are_checked_against_each_other() {
        assert!(Settings::new("flights").validate().is_ok());
        let refused = |key: &str, value: &str, guarantee| {
            let mut s = Settings { guarantee, ..Settings::new("flights") };
            s.set(key, value).unwrap();
            s.validate().unwrap_err().chain()
        };
        assert!(refused("application.id", "a/b", Guarantee::AtLeastOnce).contains("application.id"));
        assert!(refused("num.stream.threads", "0", Guarantee::AtLeastOnce).contains("num.stream.threads"));
        assert!(refused("heartbeat.interval.ms", "40000", Guarantee::AtLeastOnce).contains("session.timeout.ms"));
        assert!(refused("commit.interval.ms", "10000", Guarantee::ExactlyOnce).contains("transaction.timeout.ms"));
        assert!(refused("rebalance.timeout.ms", "10000", Guarantee::ExactlyOnce).contains("raise both"));
    }
}
