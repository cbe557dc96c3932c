//! The options of a table's store.

use std::time::Duration;

use millpond_topology::{Materialized, Stream};

use super::{Cx, Result, Stop};
use crate::case::Engine;
use crate::op::Kept;
use crate::value::{KeyKind, Kind, TableKey, TableValue};

impl Cx<'_> {
    /// The options of a store that is not windowed.
    pub(super) fn materialized<K: TableKey, V: TableValue>(
        &mut self,
        key: KeyKind,
        value: Kind,
    ) -> Result<Materialized<K, V>> {
        let kept = self.kept.take().unwrap_or_default();
        if kept.retention_ms.is_some() {
            return Err(Stop::Broken("a retention without a window".into()));
        }
        let history = kept.history_ms.map(Duration::from_millis);
        let m = self.store(kept).serdes(K::serde(key), V::serde(value));
        Ok(match history {
            Some(history) => m.history_retention(history),
            None => m,
        })
    }

    /// What the options of all stores are.
    pub(super) fn store<K: 'static, V: 'static>(&self, kept: Kept) -> Materialized<K, V> {
        let Kept { store, engine, logging, cache, topic_config, .. } = kept;
        let mut m = match store {
            Some(name) => Materialized::named(name),
            None => Materialized::default(),
        };
        if logging == Some(false) {
            m = m.logging_disabled();
        }
        if cache == Some(false) {
            m = m.caching_disabled();
        }
        if let Some(configs) = topic_config {
            m = m.logging(configs);
        }
        if engine.or(self.config.dsl_store) == Some(Engine::InMemory) {
            m = m.engine("mem");
        }
        m
    }

    pub(super) fn named<K: 'static, V: 'static>(&mut self, stream: Stream<K, V>) -> Stream<K, V> {
        match self.name.take() {
            Some(name) => stream.named(name),
            None => stream,
        }
    }
}
