//! The words of a topology: ops, windows, functions, processors.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::case::Engine;
use crate::value::Kind;

/// An op with the fields that many have in common. Each of them is taken by the op, or the case is not understood.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Json")]
pub(crate) struct Line {
    pub(crate) id: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) kept: Option<Kept>,
    pub(crate) op: Op,
}

/// How a table is kept, if it is.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) store: Option<String>,
    pub(crate) engine: Option<Engine>,
    pub(crate) logging: Option<bool>,
    pub(crate) cache: Option<bool>,
    pub(crate) history_ms: Option<u64>,
    /// How Kafka Streams cuts the history: no answer depends on it.
    #[serde(rename = "segment_ms")]
    _segment_ms: Option<u64>,
    pub(crate) retention_ms: Option<u64>,
    pub(crate) topic_config: Option<BTreeMap<String, String>>,
}

const KEPT: [&str; 8] =
    ["store", "engine", "logging", "cache", "history_ms", "segment_ms", "retention_ms", "topic_config"];

impl TryFrom<Json> for Line {
    type Error = String;

    fn try_from(json: Json) -> Result<Self, String> {
        let Json::Object(mut fields) = json else { return Err("an op is an object".into()) };
        let mut text = |name: &str| match fields.remove(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("`{name}` is a text")),
        };
        let (id, from, name) = (text("id")?, text("from")?, text("name")?);
        let kept: Map<_, _> = KEPT.iter().filter_map(|name| fields.remove_entry(*name)).collect();
        let kept = (!kept.is_empty()).then(|| Kept::deserialize(Json::Object(kept)));
        let shown = Json::Object(fields.clone());
        let op = Op::deserialize(Json::Object(fields)).map_err(|e| format!("{e} in {shown}"))?;
        Ok(Self { id, from, name, kept: kept.transpose().map_err(|e| format!("{e} in {shown}"))?, op })
    }
}

#[derive(Clone, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Op {
    Stream {
        topic: String,
        #[serde(default)]
        key: Kind,
        #[serde(default)]
        value: Kind,
    },
    Table {
        topic: String,
        #[serde(default)]
        key: Kind,
        #[serde(default)]
        value: Kind,
    },
    GlobalTable {
        #[serde(rename = "topic")]
        _topic: String,
        #[serde(rename = "key", default)]
        _key: Kind,
        #[serde(rename = "value", default)]
        _value: Kind,
    },
    Filter {
        r#fn: Predicate,
    },
    FilterNot {
        r#fn: Predicate,
    },
    MapValues {
        r#fn: ValueFn,
    },
    TransformValues {
        r#fn: ValueFn,
    },
    SelectKey {
        r#fn: KeyFn,
    },
    Map {
        r#fn: KeyFn,
        value_fn: ValueFn,
    },
    SplitWords {},
    Merge {
        with: String,
    },
    Branch {
        fns: Vec<Predicate>,
        default: Option<bool>,
    },
    Repartition {
        partitions: Option<i32>,
    },
    GroupByKey {},
    GroupBy {
        r#fn: KeyFn,
        value_fn: Option<ValueFn>,
    },
    Count {
        window: Option<Window>,
    },
    Reduce {
        r#fn: Fold,
        window: Option<Window>,
    },
    Aggregate {
        r#fn: Fold,
        window: Option<Window>,
    },
    Cogroup {
        inputs: Vec<Input>,
        window: Option<Window>,
    },
    ToStream {},
    ToTable {},
    Suppress {
        until: Until,
        limit_ms: Option<u64>,
        max_records: Option<u64>,
        when_full: Option<WhenFull>,
    },
    Join(#[expect(dead_code, reason = "its words are known, and no more")] Join),
    Process(Process),
    To {
        topic: String,
    },
}

/// What is not there yet is read, so that its words are known.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Join {
    #[serde(rename = "with")]
    _with: String,
    #[serde(rename = "how")]
    _how: How,
    #[serde(rename = "before_ms")]
    _before_ms: Option<u64>,
    #[serde(rename = "after_ms")]
    _after_ms: Option<u64>,
    #[serde(rename = "grace_ms")]
    _grace_ms: Option<u64>,
    #[serde(rename = "key_fn")]
    _key_fn: Option<KeyFn>,
    #[serde(rename = "fk")]
    _fk: Option<KeyFn>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    Inner,
    Left,
    Outer,
}

/// A stream of a cogroup.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    pub(crate) from: String,
    pub(crate) r#fn: Fold,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    WindowClose,
    TimeLimit,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhenFull {
    ShutDown,
}

#[derive(Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Window {
    Time { size_ms: u64, advance_ms: Option<u64>, grace_ms: u64, emit: Option<Emit> },
    Sliding { size_ms: u64, grace_ms: u64, emit: Option<Emit> },
    Session { gap_ms: u64, grace_ms: u64, emit: Option<Emit> },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Emit {
    Close,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Predicate {
    ValueGe(i64),
    ValueContains(String),
    KeyIs(String),
    ValueNotNull,
}

#[derive(Clone, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ValueFn {
    Upper,
    Append(String),
    Length,
    Parse,
    Text,
    Field(usize),
    WithKey,
    NullIf(String),
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyFn {
    Value,
    Field(usize),
    Key,
    KeyField(usize),
    Const(String),
    KeyNull,
}

/// An aggregator, a reducer, a merger of sessions.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fold {
    Concat,
    Log,
    Sum,
    Min,
    Max,
    Last,
    NullInitConcat,
    ResetOn(String),
}

#[derive(Clone, Deserialize)]
#[serde(tag = "processor", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Process {
    StoreCommands { stores: [String; 1] },
    CountByKey { stores: [String; 1] },
    HoldUntilPunctuation { stores: [String; 1], r#type: Clock, interval_ms: i64 },
    Punctuate { r#type: Clock, interval_ms: i64, start_ms: Option<i64>, times: Option<u64> },
    AddHeader { header: String },
    AddHeaderInPlace { header: String },
    WithTimestamp { ts: i64 },
    ForwardMetadata {},
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Clock {
    StreamTime,
    WallClock,
}
