//! Which engine has which store, and where shards lie.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use millpond_store_api::Engine;

use super::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::{Plan, StorePlan};
use crate::settings::Settings;
use crate::state::{self, StateErrorKind};
use crate::task::locks::TaskHold;
use crate::task::stores::ShardPlace;

impl Shared {
    /// Which shards a task has, and where. `anew`: what lies there is damaged, it is set aside.
    pub(crate) fn shard_places(
        &self,
        hold: Option<&TaskHold>,
        stores: &[StorePlan],
        anew: bool,
    ) -> Result<Vec<ShardPlace>> {
        let held = hold.and_then(|h| h.dir.as_ref());
        let mut by_engine: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, store) in stores.iter().enumerate() {
            by_engine.entry(engine_of(&self.engines, store)?).or_default().push(place);
        }
        let mut places = Vec::new();
        for (engine, stores) in by_engine {
            let Some(engine) = self.engines.get(engine).cloned() else { continue };
            let dir = match held {
                Some(dir) if engine.persistent() && anew => Some(dir.replace(engine.name())?),
                Some(dir) if engine.persistent() => Some(shard_dir(dir, engine.name())?),
                _ => None,
            };
            places.push(ShardPlace { engine, dir, stores });
        }
        Ok(places)
    }
}

/// A shard's directory. If nothing says which one it was, it begins anew: the changelog has everything.
fn shard_dir(dir: &state::TaskLock, engine: &str) -> Result<PathBuf> {
    match dir.shard_dir(engine) {
        Err(e) if e.kind() == StateErrorKind::Damaged => {
            tracing::error!(task = %dir.task(), "sets a damaged task directory aside: {e}");
            Ok(dir.replace(engine)?)
        }
        found => Ok(found?),
    }
}

fn engine_of(engines: &[Arc<dyn Engine>], store: &StorePlan) -> Result<usize> {
    let Some(name) = &store.engine else { return Ok(0) };
    engines.iter().position(|e| e.name() == name).ok_or_else(|| {
        let known: Vec<&str> = engines.iter().map(|e| e.name()).collect();
        Error::new(ErrorKind::Config, "choose a store's engine")
            .with("store", &store.name)
            .with("unknown engine", name)
            .with("engines", known.join(", "))
            .remedy("give the application that engine, or name one that it has")
    })
}

/// The engines that have stores, checked.
pub(super) fn engines_in_use(
    plan: &Plan,
    engines: &[Arc<dyn Engine>],
    settings: &Settings,
) -> Result<Vec<Arc<dyn Engine>>> {
    let stores: Vec<&StorePlan> = plan.subs.iter().flat_map(|s| &s.stores).collect();
    if engines.is_empty() && !stores.is_empty() {
        return Err(Error::new(ErrorKind::Config, "choose a store's engine").remedy("give the application an engine"));
    }
    let mut used = BTreeSet::new();
    for store in stores {
        used.insert(engine_of(engines, store)?);
    }
    let used: Vec<_> = used.into_iter().filter_map(|i| engines.get(i).cloned()).collect();
    for engine in &used {
        if engine.persistent() && settings.state_dir.is_none() {
            return Err(Error::new(ErrorKind::Config, "choose a store's engine")
                .with("engine", engine.name())
                .with("missing key", "state.dir")
                .remedy("set `state.dir`: the engine keeps its files there"));
        }
    }
    Ok(used)
}
