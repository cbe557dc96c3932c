//! Internal topics: names, configs, and whether an existing topic will do.

use std::collections::{BTreeMap, BTreeSet};

use millpond_broker_api::TopicInfo;

use crate::{Error, ErrorKind, Result};

/// The name of a store's changelog.
pub fn changelog_topic(application_id: &str, store: &str) -> String {
    format!("{application_id}-{store}-changelog")
}

/// The name of a repartition topic.
pub fn repartition_topic(application_id: &str, name: &str) -> String {
    format!("{application_id}-{name}-repartition")
}

const DAY_MS: i64 = 86_400_000;
/// Kafka's default of `retention.ms`.
const DEFAULT_RETENTION_MS: i64 = 7 * DAY_MS;

const CLEANUP_POLICY: &str = "cleanup.policy";
const MIN_COMPACTION_LAG_MS: &str = "min.compaction.lag.ms";
const RETENTION_BYTES: &str = "retention.bytes";
const RETENTION_MS: &str = "retention.ms";
const SEGMENT_BYTES: &str = "segment.bytes";
const TIMESTAMP_TYPE: &str = "message.timestamp.type";

/// What an internal topic is for; decides its configs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicKind {
    /// The changelog of a store that keeps one value per key, plain or timestamped.
    KeyValue,
    /// The changelog of a window or session store.
    Windowed {
        /// How long the store keeps a row, in milliseconds of event time.
        retention_ms: i64,
        /// The store keeps several rows of one key and time: no two records have a key in common, nothing is to compact.
        duplicates: bool,
    },
    /// The changelog of a versioned store.
    Versioned {
        /// How far back versions can be asked for, in milliseconds of event time.
        history_ms: i64,
    },
    /// A topic between two sub-topologies.
    Repartition,
}

/// What all internal topics of an application have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDefaults {
    /// `replication.factor`; `None`: the broker's default.
    pub replication: Option<i16>,
    /// The settings that begin with `topic.`, without that prefix.
    pub configs: BTreeMap<String, String>,
    /// `windowstore.changelog.additional.retention.ms`.
    pub window_additional_retention_ms: i64,
}

impl Default for TopicDefaults {
    fn default() -> Self {
        Self { replication: None, configs: BTreeMap::new(), window_additional_retention_ms: DAY_MS }
    }
}

/// An internal topic as it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalTopic {
    /// The name.
    pub name: String,
    /// How many partitions.
    pub partitions: i32,
    /// The replication factor; `None`: the broker's default.
    pub replication: Option<i16>,
    /// The configs that are set on the topic itself.
    pub configs: BTreeMap<String, String>,
    /// What it is for.
    pub kind: TopicKind,
}

impl InternalTopic {
    /// The topic with its configs: the library's defaults, over them the application's, over them the topic's own.
    ///
    /// What follows from the store (`retention.ms` of a windowed changelog, `min.compaction.lag.ms` of a versioned one)
    /// gives way to the topic's own config only, as in Kafka Streams: a setting for all topics must not shorten a store's
    /// life. A name that Kafka refuses, or fewer than one partition, is [`ErrorKind::Invalid`].
    pub fn new(
        name: String,
        kind: TopicKind,
        partitions: i32,
        defaults: &TopicDefaults,
        own: &BTreeMap<String, String>,
    ) -> Result<Self> {
        check_name(&name)?;
        if partitions < 1 {
            return Err(Error::new(ErrorKind::Invalid, "plan topic")
                .with("topic", name)
                .with("partitions", partitions)
                .with("remedy", "create its source topics first: an internal topic has as many partitions"));
        }
        let mut configs = library_configs(kind);
        configs.extend(defaults.configs.clone());
        if let Some((config, value)) = derived_config(kind, defaults.window_additional_retention_ms) {
            configs.insert(config.into(), value.to_string());
        }
        configs.extend(own.iter().map(|(k, v)| (k.clone(), v.clone())));
        Ok(Self { name, partitions, replication: defaults.replication, configs, kind })
    }

    /// After how many milliseconds the broker deletes a record, whatever became of its key; `None`: never by its age.
    pub fn deletes_after_ms(&self) -> Option<i64> {
        let policy = self.configs.get(CLEANUP_POLICY).map_or("", String::as_str);
        let retention = self.configs.get(RETENTION_MS)?.parse().ok()?;
        (policies(policy).contains("delete") && retention >= 0).then_some(retention)
    }

    /// Compares an existing topic with this one. Answers with the differences that do no harm;
    /// [`ErrorKind::Mismatch`] for one that would lose or misplace state.
    pub fn check(&self, existing: &TopicInfo) -> Result<Vec<TopicDifference>> {
        if existing.partitions != self.partitions {
            return Err(Error::new(ErrorKind::Mismatch, "check topic")
                .with("topic", &self.name)
                .with("config", "partitions")
                .with("is", existing.partitions)
                .with("needed", self.partitions)
                .with("remedy", self.partitions_remedy()));
        }
        let differences = self.differences(existing);
        match differences.iter().find(|d| d.harmful) {
            None => Ok(differences),
            Some(harm) => Err(Error::new(ErrorKind::Mismatch, "check topic")
                .with("topic", &harm.topic)
                .with("config", harm.config)
                .with("is", &harm.is)
                .with("needed", &harm.needed)
                .with("because", harm.why)
                .with("remedy", format_args!("set {} to {} on the topic", harm.config, harm.needed))),
        }
    }

    /// Keys would be looked for where their state is not, so a count is never changed behind the user's back.
    fn partitions_remedy(&self) -> &'static str {
        match self.kind {
            TopicKind::Repartition => {
                "give the source topics their former partition counts, or stop the application and reset it, which deletes its internal topics and state"
            }
            _ => {
                "give the input topics their former partition counts, or stop the application and reset it, which deletes this changelog and the store's state"
            }
        }
    }

    fn differences(&self, existing: &TopicInfo) -> Vec<TopicDifference> {
        let is = Existing(&existing.configs);
        let needed = |config| self.configs.get(config).map(String::as_str);
        let mut differences = Vec::new();
        let mut note = |config, is: &str, needed: &str, harm: Option<&'static str>| {
            differences.push(TopicDifference {
                topic: self.name.clone(),
                config,
                is: is.into(),
                needed: needed.into(),
                harmful: harm.is_some(),
                why: harm.unwrap_or("differs from what the application asks for"),
            });
        };
        let policy = is.get(CLEANUP_POLICY).unwrap_or("delete");
        let wanted = needed(CLEANUP_POLICY).unwrap_or("delete");
        if policies(policy) != policies(wanted) {
            note(CLEANUP_POLICY, policy, wanted, self.policy_harm(&is));
        }
        let time = is.get(TIMESTAMP_TYPE).unwrap_or("CreateTime");
        let wanted = needed(TIMESTAMP_TYPE).unwrap_or("CreateTime");
        if time != wanted {
            note(TIMESTAMP_TYPE, time, wanted, Some("event times would be lost"));
        }
        for (config, default, never) in [(RETENTION_MS, DEFAULT_RETENTION_MS, -1), (MIN_COMPACTION_LAG_MS, 0, i64::MAX)]
        {
            let Some(wanted) = needed(config) else { continue };
            let is = is.get(config).map_or_else(|| default.to_string(), str::to_owned);
            let millis = |text: &str| text.parse().map(|ms| if ms == never { i64::MAX } else { ms });
            match (millis(&is), millis(wanted)) {
                (Ok(a), Ok(b)) if a >= b => {}
                (Ok(ms), _) => note(config, &is, wanted, self.too_short(config, ms, policy)),
                (Err(_), _) => note(config, &is, wanted, None),
            }
        }
        differences
    }

    /// What another cleanup policy would do to the topic's records.
    fn policy_harm(&self, is: &Existing<'_>) -> Option<&'static str> {
        let policies = policies(is.get(CLEANUP_POLICY).unwrap_or("delete"));
        // With `delete` but without a bound (snapshots ask for that) nothing is deleted by itself.
        let bounded = is.get(RETENTION_MS) != Some("-1") || is.get(RETENTION_BYTES).is_some_and(|bytes| bytes != "-1");
        match self.kind {
            TopicKind::KeyValue | TopicKind::Versioned { .. } if policies.contains("delete") && bounded => {
                Some("rows that are not written again would be deleted from the changelog")
            }
            TopicKind::Repartition if policies.contains("compact") => {
                Some("records with equal keys would be removed before they are read")
            }
            _ => None,
        }
    }

    /// What a shorter time than asked for would do.
    fn too_short(&self, config: &str, is_ms: i64, policy: &str) -> Option<&'static str> {
        match self.kind {
            TopicKind::Windowed { retention_ms, .. }
                if config == RETENTION_MS && is_ms < retention_ms && policies(policy).contains("delete") =>
            {
                Some("rows would be deleted from the changelog while the store still keeps them")
            }
            TopicKind::Versioned { history_ms } if config == MIN_COMPACTION_LAG_MS && is_ms < history_ms => {
                Some("versions would be removed from the changelog while the store still keeps them")
            }
            _ => None,
        }
    }
}

/// Something that an existing topic has otherwise than it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDifference {
    /// The topic.
    pub topic: String,
    /// The config.
    pub config: &'static str,
    /// The topic's value, or Kafka's default where it has none of its own.
    pub is: String,
    /// What was asked for.
    pub needed: String,
    /// State would be lost or wrong.
    pub harmful: bool,
    /// What it would do.
    pub why: &'static str,
}

struct Existing<'a>(&'a [(String, String)]);

impl Existing<'_> {
    fn get(&self, config: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == config).map(|(_, value)| value.as_str())
    }
}

fn policies(list: &str) -> BTreeSet<&str> {
    list.split(',').map(str::trim).filter(|policy| !policy.is_empty()).collect()
}

fn library_configs(kind: TopicKind) -> BTreeMap<String, String> {
    let policy = match kind {
        TopicKind::KeyValue | TopicKind::Versioned { .. } => "compact",
        TopicKind::Windowed { duplicates: false, .. } => "compact,delete",
        TopicKind::Windowed { duplicates: true, .. } | TopicKind::Repartition => "delete",
    };
    let mut configs = vec![(CLEANUP_POLICY, policy), (TIMESTAMP_TYPE, "CreateTime")];
    if kind == TopicKind::Repartition {
        configs.extend([(RETENTION_MS, "-1"), (SEGMENT_BYTES, "52428800")]);
    }
    configs.into_iter().map(|(config, value)| (config.to_owned(), value.to_owned())).collect()
}

/// The config that follows from the store's own settings.
fn derived_config(kind: TopicKind, window_additional_ms: i64) -> Option<(&'static str, i64)> {
    match kind {
        TopicKind::Windowed { retention_ms, .. } => {
            Some((RETENTION_MS, retention_ms.saturating_add(window_additional_ms)))
        }
        TopicKind::Versioned { history_ms } => Some((MIN_COMPACTION_LAG_MS, history_ms.saturating_add(DAY_MS))),
        TopicKind::KeyValue | TopicKind::Repartition => None,
    }
}

/// Kafka's rule for topic names.
fn check_name(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let problem = match name {
        "" | "." | ".." => "is empty, `.` or `..`",
        _ if name.len() > 249 => "is longer than 249 characters",
        _ if !name.chars().all(legal) => "has characters other than ASCII letters, digits, `.`, `_` and `-`",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid, "name topic")
        .with("topic", name)
        .with("problem", problem)
        .with("remedy", "change the application id, or the name of the store or operator"))
}

#[cfg(test)]
mod tests;
