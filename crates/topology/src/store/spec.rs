//! What is said of a store when it is declared, and what the runtime is told of it.

use std::collections::BTreeMap;

use crate::port::NodeIndex;
use crate::store::StoreKind;

/// The kinds of stores, as the runtime tells them apart.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreType {
    /// Keys and values.
    KeyValue,
    /// Keys and values with the event time of their last update.
    TimestampedKeyValue,
    /// Keys and values with the event time and the headers of their last update.
    TimestampedKeyValueWithHeaders,
    /// Keys and values with the event time of their last update, which live for a while.
    TtlKeyValue,
    /// All versions of each key's value, for a while.
    VersionedKeyValue,
    /// Keys with a list of values each.
    ListValue,
    /// Updates of a table that wait, in the order of their times; of a node that suppresses them, never of a processor.
    SuppressionBuffer,
    /// Values by key and window start.
    Window,
    /// Values by key and window start, with the event time of their last update.
    TimestampedWindow,
    /// Values by key and window start, with the event time and the headers of their last update.
    TimestampedWindowWithHeaders,
    /// Values by key and session.
    Session,
    /// Values by key and session, with the headers of their last update.
    SessionWithHeaders,
}

impl StoreType {
    /// The kind's name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyValue => "key-value store",
            Self::TimestampedKeyValue => "timestamped key-value store",
            Self::TimestampedKeyValueWithHeaders => "timestamped key-value store with headers",
            Self::TtlKeyValue => "key-value store with a time to live",
            Self::VersionedKeyValue => "versioned key-value store",
            Self::ListValue => "list-value store",
            Self::SuppressionBuffer => "suppression buffer",
            Self::Window => "window store",
            Self::TimestampedWindow => "timestamped window store",
            Self::TimestampedWindowWithHeaders => "timestamped window store with headers",
            Self::Session => "session store",
            Self::SessionWithHeaders => "session store with headers",
        }
    }

    /// Whether all its rows are of a window or session, and expire.
    pub const fn is_windowed(self) -> bool {
        matches!(
            self,
            Self::Window
                | Self::TimestampedWindow
                | Self::TimestampedWindowWithHeaders
                | Self::Session
                | Self::SessionWithHeaders
        )
    }

    /// The kind's name in files and metrics: it never changes.
    pub const fn id(self) -> &'static str {
        match self {
            Self::KeyValue => "key-value",
            Self::TimestampedKeyValue => "timestamped-key-value",
            Self::TimestampedKeyValueWithHeaders => "timestamped-key-value-with-headers",
            Self::TtlKeyValue => "ttl-key-value",
            Self::VersionedKeyValue => "versioned-key-value",
            Self::ListValue => "list-value",
            Self::SuppressionBuffer => "suppression-buffer",
            Self::Window => "window",
            Self::TimestampedWindow => "timestamped-window",
            Self::TimestampedWindowWithHeaders => "timestamped-window-with-headers",
            Self::Session => "session",
            Self::SessionWithHeaders => "session-with-headers",
        }
    }
}

/// In which format the DSL's stores keep their rows; see [`Builder::store_format`](crate::Builder::store_format).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreFormat {
    /// With the event time of their last update; sessions without, since their end is that.
    #[default]
    Plain,
    /// In the format with headers, which are empty: what `dsl.store.format=HEADERS` is (KIP-1285).
    Headers,
    /// In the same format, with the headers of their last update, in the changelog as well. Kafka Streams has no such choice.
    LastHeaders,
}

/// For how long a store keeps its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retention {
    /// Retention of a window or session store, history retention of a versioned one, time to live of a key-value store: in
    /// milliseconds of event time.
    pub millis: i64,
    /// A window store keeps all values that are put for one key and start.
    pub duplicates: bool,
    /// A row is still there when exactly so much time has passed since its own; otherwise it is gone then.
    pub inclusive: bool,
    /// So much longer (milliseconds) rows are kept for the node that owns the store, and seen by nobody else.
    pub longer_inside: i64,
    /// What was put into the store alone decides what has expired. Otherwise the task's stream time does as well.
    pub by_puts: bool,
}

impl Retention {
    /// Of rows that are gone when so much time has passed, by what was put or the task's stream time, whichever is later.
    pub const fn of_millis(millis: i64) -> Self {
        Self { millis, duplicates: false, inclusive: false, longer_inside: 0, by_puts: false }
    }

    /// How much later (milliseconds) the store's time is than that of a row when the row is gone.
    pub const fn gone_after(self) -> i64 {
        self.millis.saturating_add(self.inclusive as i64)
    }
}

/// Whether a store has a changelog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logging {
    /// No changelog: after the loss of local state the store starts empty.
    Disabled,
    /// A changelog topic restores it.
    Enabled {
        /// Topic configs that override the library's.
        topic_configs: BTreeMap<String, String>,
    },
}

impl Default for Logging {
    fn default() -> Self {
        Self::Enabled { topic_configs: BTreeMap::new() }
    }
}

/// A store of a finished topology.
#[derive(Clone, Debug)]
pub struct StoreDef {
    /// The name; its changelog is called `<application id>-<name>-changelog`.
    pub name: String,
    /// The kind.
    pub kind: StoreType,
    /// For how long it keeps its rows; `None` for the kinds that keep them for ever.
    pub retention: Option<Retention>,
    /// Its node has to forward rows before they may go: for it the store's time is at most the window close that it has
    /// [released](crate::Port::release) and so many milliseconds. `None`: it goes by time alone.
    pub hold: Option<i64>,
    /// The number of its sub-topology.
    pub sub: u32,
    /// Updates of a key may be held back until a commit, so that only the last one is forwarded and logged.
    pub caching: bool,
    /// Its changelog.
    pub logging: Logging,
    /// The name of the engine it lies in; `None`: the application's.
    pub engine: Option<String>,
    /// The node that takes drained entries and forwards them; none for a store of a processor, and where nobody takes what
    /// would be forwarded.
    pub owner: Option<NodeIndex>,
}

/// A store to be declared by [`Builder::add_store`](crate::Builder::add_store).
///
/// ```
/// use millpond_topology::{I64, StoreSpec, Topology, Utf8};
///
/// let mut builder = Topology::builder();
/// let seen = builder.add_store(StoreSpec::key_value("seen", Utf8, I64).logging_disabled());
/// ```
pub struct StoreSpec<T: StoreKind> {
    pub(crate) def: StoreDef,
    pub(crate) serdes: T::Serdes,
    /// What is wrong with the durations that were given.
    pub(super) mistakes: Vec<String>,
}

impl<T: StoreKind> StoreSpec<T> {
    pub(crate) fn new(name: &str, serdes: T::Serdes) -> Self {
        let def = StoreDef {
            name: name.to_owned(),
            kind: T::TYPE,
            retention: None,
            hold: None,
            sub: 0,
            caching: false,
            logging: Logging::default(),
            engine: None,
            owner: None,
        };
        Self { def, serdes, mistakes: Vec::new() }
    }

    /// All that is wrong with it.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let StoreDef { name, kind, retention, caching, .. } = &self.def;
        let mut mistakes = self.mistakes.clone();
        if *caching && retention.is_some_and(|retention| retention.duplicates) {
            mistakes.push(format!(
                "the store `{name}` retains duplicates, of which a cache would keep the last; leave caching off"
            ));
        }
        if *caching && *kind == StoreType::VersionedKeyValue {
            mistakes
                .push(format!("the store `{name}` is a {}, whose log has every put; leave caching off", kind.name()));
        }
        mistakes
    }

    /// No changelog.
    #[must_use]
    pub fn logging_disabled(mut self) -> Self {
        self.def.logging = Logging::Disabled;
        self
    }

    /// A changelog (which is the default) with these topic configs.
    #[must_use]
    pub fn logging<K: Into<String>, V: Into<String>>(mut self, configs: impl IntoIterator<Item = (K, V)>) -> Self {
        let topic_configs = configs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        self.def.logging = Logging::Enabled { topic_configs };
        self
    }

    /// Only the last update of a key between two commits is logged. Off by default, as in Kafka Streams' Processor API.
    ///
    /// [`Builder::build`](crate::Builder::build) refuses it for versioned stores and for window stores that retain duplicates.
    #[must_use]
    pub fn caching_enabled(mut self) -> Self {
        self.def.caching = true;
        self
    }

    /// The engine, by the name it was given to the application.
    #[must_use]
    pub fn engine(mut self, name: impl Into<String>) -> Self {
        self.def.engine = Some(name.into());
        self
    }
}

impl<T: StoreKind> std::fmt::Debug for StoreSpec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreSpec").field("def", &self.def).finish_non_exhaustive()
    }
}
