//! A case as its file has it. Whatever is not known here, a field or a word, is refused.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::op::Line;
use crate::value::{Cell, Key};

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    pub(crate) group: String,
    #[serde(rename = "kafka_streams")]
    _version: String,
    #[serde(rename = "description")]
    _description: String,
    /// Read one by one, so that one that is not understood fails alone.
    pub(crate) cases: Vec<Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    #[serde(rename = "note")]
    _note: Option<String>,
    pub(crate) topology: Topology,
    pub(crate) build_error: Option<String>,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    #[serde(default)]
    pub(crate) stores: BTreeMap<String, Contents>,
    #[serde(default)]
    pub(crate) internal: BTreeMap<String, Vec<RawRecord>>,
    #[serde(default)]
    pub(crate) java_deviates: bool,
    pub(crate) reason: Option<String>,
    /// Both answers will do.
    #[serde(default)]
    pub(crate) tolerable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topology {
    #[serde(default)]
    pub(crate) config: Config,
    #[serde(default)]
    pub(crate) stores: Vec<Store>,
    pub(crate) ops: Vec<Line>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(default)]
    pub(crate) cache_bytes: u64,
    #[serde(default)]
    pub(crate) optimize: bool,
    pub(crate) dsl_store: Option<Engine>,
    pub(crate) store_format: Option<StoreFormat>,
    pub(crate) timestamp_extractor: Option<Extractor>,
    /// Only joins wait for it.
    #[serde(rename = "outer_join_emit_interval_ms")]
    _outer_join_emit_interval_ms: Option<u64>,
    #[serde(default)]
    pub(crate) close_emit_interval_ms: u64,
    #[serde(default)]
    pub(crate) position_headers: bool,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Engine {
    Persistent,
    InMemory,
}

#[derive(Clone, Copy, Deserialize)]
pub(crate) enum StoreFormat {
    #[serde(rename = "HEADERS")]
    Headers,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Extractor {
    Fail,
    Skip,
    PartitionTime,
}

/// A store of processors.
#[derive(Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Store {
    Kv {
        name: String,
        engine: Option<Engine>,
        cache: Option<bool>,
        logging: Option<bool>,
        lru_entries: Option<usize>,
    },
    TimestampedKv {
        name: String,
        engine: Option<Engine>,
        cache: Option<bool>,
        logging: Option<bool>,
    },
    HeadersKv {
        name: String,
        engine: Option<Engine>,
        cache: Option<bool>,
        logging: Option<bool>,
    },
    VersionedKv {
        name: String,
        history_ms: u64,
        /// How Kafka Streams cuts the history: no answer depends on it.
        #[serde(rename = "segment_ms")]
        _segment_ms: Option<u64>,
        logging: Option<bool>,
    },
    Window(WindowStore),
    TimestampedWindow(WindowStore),
    HeadersWindow(WindowStore),
    Session(SessionStore),
    HeadersSession(SessionStore),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowStore {
    pub(crate) name: String,
    pub(crate) engine: Option<Engine>,
    pub(crate) cache: Option<bool>,
    pub(crate) logging: Option<bool>,
    pub(crate) retention_ms: u64,
    pub(crate) window_ms: u64,
    #[serde(default)]
    pub(crate) retain_duplicates: bool,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionStore {
    pub(crate) name: String,
    pub(crate) engine: Option<Engine>,
    pub(crate) cache: Option<bool>,
    pub(crate) logging: Option<bool>,
    pub(crate) retention_ms: u64,
}

impl Store {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Kv { name, .. }
            | Self::TimestampedKv { name, .. }
            | Self::HeadersKv { name, .. }
            | Self::VersionedKv { name, .. } => name,
            Self::Window(s) | Self::TimestampedWindow(s) | Self::HeadersWindow(s) => &s.name,
            Self::Session(s) | Self::HeadersSession(s) => &s.name,
        }
    }
}

/// A header: name and value, in hex.
pub(crate) type Header = (String, Option<String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) advance_ms: Option<u64>,
    #[serde(rename = "in")]
    pub(crate) topic: Option<String>,
    #[serde(default)]
    pub(crate) key: Cell,
    #[serde(default)]
    pub(crate) value: Cell,
    pub(crate) ts: Option<i64>,
    #[serde(default)]
    pub(crate) headers: Vec<Header>,
    pub(crate) out: Vec<Output>,
    pub(crate) right_out: Option<Vec<Output>>,
    pub(crate) error: Option<String>,
}

/// A record on a sink's topic.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Output {
    pub(crate) topic: String,
    pub(crate) key: Key,
    pub(crate) value: Cell,
    /// `None`: any.
    pub(crate) ts: Option<i64>,
    #[serde(default)]
    pub(crate) headers: Vec<Header>,
}

/// A record on an internal topic.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRecord {
    pub(crate) key_hex: Option<String>,
    pub(crate) value_hex: Option<String>,
    /// `None`: any.
    pub(crate) ts: Option<i64>,
    #[serde(default)]
    pub(crate) headers: Vec<Header>,
}

/// What a store holds at the end.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Contents {
    Rows(StoreRows),
    /// Kafka Streams cannot list it.
    Unreadable {
        #[serde(rename = "error")]
        _error: String,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", content = "rows", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum StoreRows {
    Kv(Vec<KvRow>),
    Window(Vec<Row>),
    Session(Vec<Row>),
    VersionedKv(Vec<Versions>),
}

/// A row; which of its fields are there is the kind's matter.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) key: Key,
    pub(crate) start: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) value: Cell,
    pub(crate) ts: Option<i64>,
    pub(crate) headers: Option<Vec<Header>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum KvRow {
    Plain(Row),
    /// Of a store that only joins have.
    OfJoin(#[expect(dead_code, reason = "its fields are known, and no more")] JoinRow),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JoinRow {
    #[serde(rename = "key")]
    _key: Option<String>,
    #[serde(rename = "key_hex")]
    _key_hex: Option<String>,
    #[serde(rename = "side")]
    _side: Option<String>,
    #[serde(rename = "value")]
    _value: Option<Json>,
    #[serde(rename = "primary_key")]
    _primary_key: Option<String>,
    #[serde(rename = "instruction")]
    _instruction: Option<i64>,
    #[serde(rename = "hash")]
    _hash: Option<Vec<i64>>,
    #[serde(rename = "ts")]
    _ts: Option<i64>,
    #[serde(rename = "headers")]
    _headers: Option<Vec<Header>>,
}

/// A key of a versioned store: its latest version, and those at the times that were asked for.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Versions {
    pub(crate) key: String,
    pub(crate) latest: Option<Version>,
    #[serde(default)]
    pub(crate) as_of: Vec<AsOf>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct AsOf {
    pub(crate) as_of: i64,
    pub(crate) found: Option<Version>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Version {
    pub(crate) value: Cell,
    pub(crate) ts: i64,
}
