//! Topics: names, configs and the rules that follow from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_broker_api::{Error, ErrorKind, NewTopic, Result};

use crate::log::Log;
use crate::segment::{Entry, Facts};

/// All topic configs of Kafka 4.4: other names are refused. Those that `Rules` does not know have no effect here.
const CONFIG_NAMES: &[&str] = &[
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
];

/// What a topic's configs demand of its partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) compact: bool,
    pub(crate) delete: bool,
    pub(crate) retention_ms: i64,
    pub(crate) delete_retention_ms: i64,
    max_message_bytes: usize,
    timestamp_after_max_ms: i64,
    timestamp_before_max_ms: i64,
    pub(crate) log_append_time: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            compact: false,
            delete: true,
            retention_ms: 7 * 24 * 3_600_000,
            delete_retention_ms: 24 * 3_600_000,
            max_message_bytes: 1_048_588,
            timestamp_after_max_ms: 3_600_000,
            timestamp_before_max_ms: i64::MAX,
            log_append_time: false,
        }
    }
}

/// How much a batch of one record takes beyond key, value and headers.
const RECORD_OVERHEAD: usize = 70;

impl Rules {
    fn parse(mut self, configs: &BTreeMap<String, String>, op: &'static str) -> Result<Self> {
        for (name, value) in configs {
            let known = CONFIG_NAMES.contains(&name.as_str());
            if !known || !self.set(name, value) {
                let text = if known { "bad value" } else { "unknown config" };
                return Err(Error::new(ErrorKind::Fatal, op).with(text, name).with("value", value));
            }
        }
        Ok(self)
    }

    /// False if the value is none of the config's.
    fn set(&mut self, name: &str, value: &str) -> bool {
        fn number(value: &str, least: i64, into: &mut i64) -> bool {
            let parsed = value.parse().ok().filter(|n| *n >= least);
            *into = parsed.unwrap_or(*into);
            parsed.is_some()
        }
        match name {
            "cleanup.policy" => {
                (self.compact, self.delete) = (false, false);
                value.split(',').map(str::trim).filter(|policy| !policy.is_empty()).all(|policy| {
                    self.compact |= policy == "compact";
                    self.delete |= policy == "delete";
                    matches!(policy, "compact" | "delete")
                })
            }
            "retention.ms" => number(value, -1, &mut self.retention_ms),
            "delete.retention.ms" => number(value, 0, &mut self.delete_retention_ms),
            "message.timestamp.after.max.ms" => number(value, 0, &mut self.timestamp_after_max_ms),
            "message.timestamp.before.max.ms" => number(value, 0, &mut self.timestamp_before_max_ms),
            "max.message.bytes" => {
                let mut bytes = 0;
                let good = number(value, 0, &mut bytes);
                self.max_message_bytes = usize::try_from(bytes).unwrap_or(0);
                good
            }
            "message.timestamp.type" => {
                self.log_append_time = value == "LogAppendTime";
                matches!(value, "CreateTime" | "LogAppendTime")
            }
            _ => true,
        }
    }

    /// True if no record of a batch can be refused.
    pub(crate) fn admit_all(&self, facts: &Facts, wall_ms: i64) -> bool {
        self.times_fit(facts.oldest, facts.newest, wall_ms)
            && facts.largest + RECORD_OVERHEAD <= self.max_message_bytes
            && !(self.compact && facts.null_key)
    }

    /// Why a record is refused, if it is.
    pub(crate) fn refuse(&self, entry: &Entry, wall_ms: i64) -> Option<Error> {
        let refused = |code| Some(Error::new(ErrorKind::Refused, "write record").with("code", code));
        if !self.times_fit(entry.timestamp, entry.timestamp, wall_ms) {
            refused("INVALID_TIMESTAMP").map(|e| e.with("timestamp", entry.timestamp))
        } else if entry.size() + RECORD_OVERHEAD > self.max_message_bytes {
            refused("MESSAGE_TOO_LARGE").map(|e| e.with("bytes", entry.size()))
        } else if self.compact && entry.has_null_key() {
            refused("INVALID_RECORD").map(|e| e.with("key", "null in a compacted topic"))
        } else {
            None
        }
    }

    fn times_fit(&self, oldest: i64, newest: i64, wall_ms: i64) -> bool {
        self.log_append_time
            || (newest.saturating_sub(wall_ms) <= self.timestamp_after_max_ms
                && wall_ms.saturating_sub(oldest) <= self.timestamp_before_max_ms)
    }
}

/// A partition's number in the broker; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogId(u32);

/// A topic.
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) id: u128,
    pub(crate) logs: Vec<LogId>,
    pub(crate) configs: BTreeMap<String, String>,
}

/// All topics and their partitions.
#[derive(Default)]
pub(crate) struct Topics {
    /// Of topics without configs of their own.
    defaults: Rules,
    by_name: BTreeMap<Arc<str>, Topic>,
    /// By `LogId`; `None`: deleted.
    logs: Vec<Option<Log>>,
    created: u64,
}

impl Topics {
    /// `message.timestamp.after.max.ms` of topics that do not say it.
    pub(crate) fn with_timestamp_after_max(millis: i64) -> Self {
        let defaults = Rules { timestamp_after_max_ms: millis, ..Rules::default() };
        Self { defaults, ..Self::default() }
    }

    pub(crate) fn create(&mut self, new: &NewTopic<'_>) -> Result<()> {
        let error = |kind| Error::new(kind, "create topic").with("topic", new.name);
        if !legal_name(new.name) {
            return Err(error(ErrorKind::Fatal).with("code", "INVALID_TOPIC_EXCEPTION"));
        }
        if self.by_name.contains_key(new.name) {
            return Err(error(ErrorKind::Refused).with("code", "TOPIC_ALREADY_EXISTS"));
        }
        if new.partitions < 1 {
            return Err(error(ErrorKind::Fatal).with("code", "INVALID_PARTITIONS").with("partitions", new.partitions));
        }
        if new.replication.is_some_and(|r| r != 1 && r != -1) {
            let code = "INVALID_REPLICATION_FACTOR";
            return Err(error(ErrorKind::Fatal).with("code", code).with("remedy", "1 for an embedded broker"));
        }
        let configs: BTreeMap<_, _> = new.configs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let rules = self.defaults.parse(&configs, "create topic").map_err(|e| e.with("topic", new.name))?;
        let first = self.logs.len() as u32;
        self.logs.extend((0..new.partitions).map(|_| Some(Log::new(rules))));
        self.created += 1;
        // Any number will do that is not 0 and does not come back: multiplying by an odd number keeps them apart.
        let id = u128::from(self.created).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let logs = (first..self.logs.len() as u32).map(LogId).collect();
        let name: Arc<str> = new.name.into();
        self.by_name.insert(name.clone(), Topic { name, id, logs, configs });
        Ok(())
    }

    pub(crate) fn set_configs(&mut self, topic: &str, configs: &[(&str, &str)]) -> Result<()> {
        let op = "set topic configs";
        let found = self.by_name.get_mut(topic).ok_or_else(|| unknown(op, topic))?;
        let mut all = found.configs.clone();
        all.extend(configs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let rules = self.defaults.parse(&all, op).map_err(|e| e.with("topic", topic))?;
        found.configs = all;
        for log in &found.logs {
            if let Some(Some(log)) = self.logs.get_mut(log.0 as usize) {
                log.rules = rules;
            }
        }
        Ok(())
    }

    /// Deletes a topic; answers with its partitions, whose numbers are void from now on.
    pub(crate) fn delete(&mut self, topic: &str) -> Result<Topic> {
        let gone = self.by_name.remove(topic).ok_or_else(|| unknown("delete topic", topic))?;
        for log in &gone.logs {
            if let Some(slot) = self.logs.get_mut(log.0 as usize) {
                *slot = None;
            }
        }
        Ok(gone)
    }

    pub(crate) fn get(&self, topic: &str) -> Option<&Topic> {
        self.by_name.get(topic)
    }

    pub(crate) fn log(&self, id: LogId) -> Option<&Log> {
        self.logs.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn log_mut(&mut self, id: LogId) -> Option<&mut Log> {
        self.logs.get_mut(id.0 as usize)?.as_mut()
    }

    pub(crate) fn find(&self, topic: &str, partition: i32) -> Option<LogId> {
        self.by_name.get(topic)?.logs.get(usize::try_from(partition).ok()?).copied()
    }

    /// Calls `each` with all partitions of a topic.
    pub(crate) fn each_log(&mut self, op: &'static str, topic: &str, mut each: impl FnMut(&mut Log)) -> Result<()> {
        let found = self.by_name.get(topic).ok_or_else(|| unknown(op, topic))?;
        for log in &found.logs {
            if let Some(Some(log)) = self.logs.get_mut(log.0 as usize) {
                each(log);
            }
        }
        Ok(())
    }
}

/// Kafka's rule for topic names.
fn legal_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.chars().all(legal)
}

/// The answer for a topic that is not there.
pub(crate) fn unknown(op: &'static str, topic: &str) -> Error {
    Error::new(ErrorKind::UnknownTopic, op).with("topic", topic)
}
