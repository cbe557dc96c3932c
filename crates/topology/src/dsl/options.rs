//! How operators are told about names, serdes and stores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::nodes::{Extractor, Partitioner};
use crate::serde::{AnySerde, Serde};
use crate::store::Logging;
use crate::topology::OffsetReset;

fn any<T: 'static>(serde: impl Serde<T>) -> AnySerde<T> {
    Arc::new(serde)
}

macro_rules! opaque {
    ($($name:ident: $($field:ident),+;)+) => {$(
        impl<K, V> std::fmt::Debug for $name<K, V> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))+.finish_non_exhaustive()
            }
        }
    )+};
}

opaque! {
    Consumed: name, reset;
    Produced: name;
    Grouped: name;
    Materialized: name, caching, logging, engine;
    Repartitioned: name, partitions;
}

/// How a topic is read.
pub struct Consumed<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: AnySerde<K>,
    pub(crate) value: AnySerde<V>,
    pub(crate) reset: Option<OffsetReset>,
    pub(crate) extractor: Extractor<K, V>,
}

impl<K: 'static, V: 'static> Consumed<K, V> {
    /// With these serdes.
    pub fn with(key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self { name: None, key: any(key), value: any(value), reset: None, extractor: Extractor::Fail }
    }

    /// Names the source.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Where to start in a partition without a committed offset, whatever the application's configuration says.
    #[must_use]
    pub fn offset_reset(mut self, reset: OffsetReset) -> Self {
        self.reset = Some(reset);
        self
    }

    /// Event time from the record's contents: `extract(key, value, record's own time, partition time)` in milliseconds since
    /// 1970. The partition time is the largest event time of the partition so far, -1 before the first. A negative answer
    /// drops the record. A record with a null is not asked about, its own time counts.
    ///
    /// Each record is deserialized once more for it.
    #[must_use]
    pub fn timestamp_extractor(mut self, extract: impl Fn(&K, &V, i64, i64) -> i64 + Send + Sync + 'static) -> Self {
        self.extractor = Extractor::Custom(Arc::new(extract));
        self
    }

    /// Drops records whose own time is negative, and counts them. (By default such a record is an error.)
    #[must_use]
    pub fn skip_invalid_timestamps(mut self) -> Self {
        self.extractor = Extractor::Skip;
        self
    }

    /// Takes the partition's time for records whose own time is negative. As long as the partition has none, such a record is an
    /// error.
    #[must_use]
    pub fn partition_time_on_invalid_timestamps(mut self) -> Self {
        self.extractor = Extractor::PartitionTime;
        self
    }
}

/// How a topic is written. What is not given is taken from the stream: `Produced::default()`.
pub struct Produced<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: Option<AnySerde<K>>,
    pub(crate) value: Option<AnySerde<V>>,
    pub(crate) partitioner: Option<Partitioner<K, V>>,
}

impl<K, V> Default for Produced<K, V> {
    fn default() -> Self {
        Self { name: None, key: None, value: None, partitioner: None }
    }
}

impl<K: 'static, V: 'static> Produced<K, V> {
    /// With these serdes.
    pub fn with(key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self { key: Some(any(key)), value: Some(any(value)), ..Self::default() }
    }

    /// Names the sink.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Chooses the partition: `choose(key, value, number of partitions)`; `None` leaves it to the default partitioner. A
    /// number that is no partition is an error.
    #[must_use]
    pub fn partitioner(mut self, choose: impl Fn(&K, &V, i32) -> Option<i32> + Send + Sync + 'static) -> Self {
        self.partitioner = Some(Arc::new(choose));
        self
    }
}

/// How a stream is grouped. The name is also that of the repartition topic, if one is needed.
pub struct Grouped<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: Option<AnySerde<K>>,
    pub(crate) value: Option<AnySerde<V>>,
}

impl<K, V> Default for Grouped<K, V> {
    fn default() -> Self {
        Self { name: None, key: None, value: None }
    }
}

impl<K: 'static, V: 'static> Grouped<K, V> {
    /// With a name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// With these serdes.
    pub fn with(key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::default().key(key).value(value)
    }

    /// The key's serde; needed if the key is new.
    #[must_use]
    pub fn key(mut self, serde: impl Serde<K>) -> Self {
        self.key = Some(any(serde));
        self
    }

    /// The value's serde; needed if the value is new and the stream must be repartitioned.
    #[must_use]
    pub fn value(mut self, serde: impl Serde<V>) -> Self {
        self.value = Some(any(serde));
        self
    }
}

/// How a table is kept: its store's name, serdes, changelog and engine.
pub struct Materialized<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: Option<AnySerde<K>>,
    pub(crate) value: Option<AnySerde<V>>,
    pub(crate) caching: bool,
    pub(crate) logging: Logging,
    pub(crate) engine: Option<String>,
    pub(crate) kept: Kept,
}

/// For how long a table keeps its rows, and so which kind of store it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kept {
    /// For ever; windows for as long as they may change.
    #[default]
    AsNeeded,
    /// Windows for at least so long after their start, sessions after their end.
    Retention(Duration),
    /// All versions of a row, for so long.
    History(Duration),
    /// A row for so long after its last update.
    TimeToLive(Duration),
}

impl Kept {
    /// Rows are wanted that only a store can keep.
    pub(crate) fn asks_for_store(self) -> bool {
        self != Self::AsNeeded
    }
}

impl<K, V> Default for Materialized<K, V> {
    fn default() -> Self {
        Self {
            name: None,
            key: None,
            value: None,
            caching: true,
            logging: Logging::default(),
            engine: None,
            kept: Kept::default(),
        }
    }
}

impl<K: 'static, V: 'static> Materialized<K, V> {
    /// With a name for the store. Without one it is generated, and shifts with every operator added before it.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// With these serdes, and a generated name.
    pub fn with(key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::default().serdes(key, value)
    }

    /// The serdes.
    #[must_use]
    pub fn serdes(self, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        self.key(key).value(value)
    }

    /// The key's serde; by default the stream's.
    #[must_use]
    pub fn key(mut self, serde: impl Serde<K>) -> Self {
        self.key = Some(any(serde));
        self
    }

    /// The value's serde.
    #[must_use]
    pub fn value(mut self, serde: impl Serde<V>) -> Self {
        self.value = Some(any(serde));
        self
    }

    /// Every update is forwarded and logged at once. (By default only the last one of a key between two commits is, as far
    /// as the cache reaches.)
    #[must_use]
    pub fn caching_disabled(mut self) -> Self {
        self.caching = false;
        self
    }

    /// No changelog: after the loss of local state the store starts empty.
    #[must_use]
    pub fn logging_disabled(mut self) -> Self {
        self.logging = Logging::Disabled;
        self
    }

    /// A changelog (which is the default) with these topic configs.
    #[must_use]
    pub fn logging<N: Into<String>, W: Into<String>>(mut self, configs: impl IntoIterator<Item = (N, W)>) -> Self {
        let topic_configs = configs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        self.logging = Logging::Enabled { topic_configs };
        self
    }

    /// The engine, by the name it was given to the application.
    #[must_use]
    pub fn engine(mut self, name: impl Into<String>) -> Self {
        self.engine = Some(name.into());
        self
    }

    /// Keeps windows for so long after their start, sessions after their end, by event time. By default, and at least: as long
    /// as they may change. For tables of windows only; of the three functions like this one, the last that is called counts.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.kept = Kept::Retention(retention);
        self
    }

    /// Keeps all versions of each row for so long, by event time (KIP-889): the table is versioned then. Not for tables of
    /// windows.
    #[must_use]
    pub fn history_retention(mut self, history: Duration) -> Self {
        self.kept = Kept::History(history);
        self
    }

    /// Keeps a row for so long after the event time of its last update; then it is gone without a record that says so. Not for
    /// tables of windows.
    #[must_use]
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.kept = Kept::TimeToLive(time_to_live);
        self
    }
}

/// How a stream is repartitioned.
pub struct Repartitioned<K, V> {
    pub(crate) name: Option<String>,
    pub(crate) key: Option<AnySerde<K>>,
    pub(crate) value: Option<AnySerde<V>>,
    pub(crate) partitions: Option<i32>,
    pub(crate) configs: BTreeMap<String, String>,
    pub(crate) partitioner: Option<Partitioner<K, V>>,
}

impl<K, V> Default for Repartitioned<K, V> {
    fn default() -> Self {
        Self { name: None, key: None, value: None, partitions: None, configs: BTreeMap::new(), partitioner: None }
    }
}

impl<K: 'static, V: 'static> Repartitioned<K, V> {
    /// With a name: the topic is called `<application id>-<name>-repartition`.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// With these serdes.
    pub fn with(key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::default().key(key).value(value)
    }

    /// The key's serde; by default the stream's.
    #[must_use]
    pub fn key(mut self, serde: impl Serde<K>) -> Self {
        self.key = Some(any(serde));
        self
    }

    /// The value's serde; by default the stream's.
    #[must_use]
    pub fn value(mut self, serde: impl Serde<V>) -> Self {
        self.value = Some(any(serde));
        self
    }

    /// The topic's partition count; by default the largest of the topics that are read before it.
    #[must_use]
    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    /// Topic configs that override the library's.
    #[must_use]
    pub fn topic_configs<N: Into<String>, W: Into<String>>(
        mut self,
        configs: impl IntoIterator<Item = (N, W)>,
    ) -> Self {
        self.configs = configs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        self
    }

    /// Chooses the partition, as [`Produced::partitioner`].
    #[must_use]
    pub fn partitioner(mut self, choose: impl Fn(&K, &V, i32) -> Option<i32> + Send + Sync + 'static) -> Self {
        self.partitioner = Some(Arc::new(choose));
        self
    }
}
