//! A task's stores: one shard per engine, one overlay per store over its space of a shard (D1, D2).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millpond_changelog::{ShardMetadata, ValueFormat};
use millpond_store_api::{Engine, Flush, Poison, Read, Shard, ShardSpec, SpaceId, SpaceSpec};
use millpond_topology::{self as topology, StoreIndex};

use crate::error::{Error, ErrorKind, Result};
use crate::plan::StorePlan;
use crate::state::{Budget, Chain, Overlay, OverlayOptions, make_dir};

/// A store and what lies over it.
pub(crate) struct TaskStore {
    pub(crate) plan: StorePlan,
    pub(crate) overlay: Overlay,
    /// Which shard its rows are in.
    pub(crate) shard: usize,
    pub(crate) space: SpaceId,
}

/// A shard with what its last batch stands for.
pub(crate) struct TaskShard {
    pub(crate) engine: &'static str,
    pub(crate) shard: Box<dyn Shard>,
    pub(crate) metadata: ShardMetadata,
    /// Where a batch's metadata is encoded; kept for its memory.
    encoded: Vec<u8>,
    /// When the oldest batch that is not durable was applied.
    unflushed_since: Option<Duration>,
    /// A flush was begun that may not be over.
    flushing: bool,
    /// What is known to be durable.
    durable: Option<ShardMetadata>,
}

/// A store's overlay, exclusively, and the shard beneath it.
pub(crate) type Layers<'a> = (&'a mut Overlay, &'a dyn Read);

/// All stores of a task.
pub(crate) struct TaskStores {
    shards: Vec<TaskShard>,
    stores: Vec<TaskStore>,
    /// By number in the topology: the place in `stores`.
    places: Vec<Option<usize>>,
}

/// What a shard is opened with.
pub(crate) struct ShardPlace {
    pub(crate) engine: Arc<dyn Engine>,
    /// `None` for engines that are not persistent.
    pub(crate) dir: Option<PathBuf>,
    /// Places in the task's stores.
    pub(crate) stores: Vec<usize>,
}

impl TaskStores {
    /// Opens the shards. `caching` is off for the whole application if `statestore.cache.max.bytes` is 0.
    pub(crate) fn open(
        plans: &[StorePlan],
        places: Vec<ShardPlace>,
        caching: bool,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let mut shards = Vec::new();
        let mut owners = vec![(0, SpaceId(0)); plans.len()];
        for (number, place) in places.into_iter().enumerate() {
            let names: Vec<&str> = place.stores.iter().filter_map(|i| plans.get(*i)).map(|p| p.name.as_str()).collect();
            let ids = super::spaces::assign(place.dir.as_deref(), &names)?;
            let specs: Vec<SpaceSpec> = ids
                .iter()
                .zip(&names)
                .map(|(id, name)| SpaceSpec { id: *id, name: (*name).to_owned(), expires: false })
                .collect();
            for (store, id) in place.stores.iter().zip(&ids) {
                if let Some(owner) = owners.get_mut(*store) {
                    *owner = (number, *id);
                }
            }
            let data = place.dir.as_deref().map(data_dir).transpose()?;
            // What such a store loses in a kill is not in any log.
            let unlogged = place.stores.iter().filter_map(|i| plans.get(*i)).any(|p| p.changelog.is_none());
            let spec = ShardSpec { dir: data.as_deref(), spaces: &specs, unlogged };
            shards.push(TaskShard::open(&*place.engine, &spec)?);
        }
        let mut stores = Vec::new();
        for (plan, (shard, space)) in plans.iter().zip(owners) {
            let options = OverlayOptions { space, caching: caching && plan.caching, keep_old: plan.forwards };
            let overlay = Overlay::new(options).with_budget(budget);
            stores.push(TaskStore { plan: plan.clone(), overlay, shard, space });
        }
        Ok(Self { shards, stores, places: by_index(plans) })
    }

    /// Stores over shards that hold nothing and take nothing: for a graph that is built to see whether it can be.
    pub(crate) fn nothing(plans: &[StorePlan], caching: bool, budget: &Arc<Budget>) -> Self {
        let store = |(n, plan): (usize, &StorePlan)| {
            let space = SpaceId(n as u16);
            let options = OverlayOptions { space, caching: caching && plan.caching, keep_old: plan.forwards };
            TaskStore { plan: plan.clone(), overlay: Overlay::new(options).with_budget(budget), shard: 0, space }
        };
        let stores = plans.iter().enumerate().map(store).collect();
        let shard = TaskShard {
            engine: "none",
            shard: Box::new(super::nothing::Nothing),
            metadata: ShardMetadata::default(),
            encoded: Vec::new(),
            unflushed_since: None,
            flushing: false,
            durable: None,
        };
        Self { shards: vec![shard], stores, places: by_index(plans) }
    }

    fn place(&self, store: StoreIndex) -> Option<usize> {
        self.places.get(store.0 as usize).copied().flatten()
    }

    /// A store's overlay, and the shard beneath it.
    #[inline]
    pub(crate) fn get_mut(&mut self, store: StoreIndex) -> Option<Layers<'_>> {
        let place = self.place(store)?;
        let store = self.stores.get_mut(place)?;
        Some((&mut store.overlay, &*self.shards.get(store.shard)?.shard))
    }

    /// Several different stores at once.
    pub(crate) fn get_many_mut(&mut self, which: [Option<StoreIndex>; 4]) -> topology::Result<[Option<Layers<'_>>; 4]> {
        let places = which.map(|store| store.map(|s| (s, self.place(s))));
        let mut found = [const { None }; 4];
        for (n, place) in places.iter().enumerate() {
            match place {
                Some((store, None)) => return Err(super::foreign_store(*store)),
                Some((_, place)) if places.iter().take(n).flatten().any(|(_, other)| other == place) => {
                    let error = topology::Error::new(topology::ErrorKind::Topology, "use several stores");
                    return Err(error.with("reason", "the same store was asked for twice at once"));
                }
                _ => {}
            }
        }
        let shards = &self.shards;
        for (place, store) in self.stores.iter_mut().enumerate() {
            let wanted = places.iter().position(|p| p.is_some_and(|(_, at)| at == Some(place)));
            let (Some(n), Some(shard)) = (wanted, shards.get(store.shard)) else { continue };
            if let Some(slot) = found.get_mut(n) {
                let base: &dyn Read = &*shard.shard;
                *slot = Some((&mut store.overlay, base));
            }
        }
        Ok(found)
    }

    pub(crate) fn is_cached(&self, store: StoreIndex) -> bool {
        self.place(store).and_then(|p| self.stores.get(p)).is_some_and(|s| s.overlay.options().caching)
    }

    pub(crate) fn stores(&self) -> &[TaskStore] {
        &self.stores
    }

    pub(crate) fn shards(&self) -> &[TaskShard] {
        &self.shards
    }

    pub(crate) fn shards_mut(&mut self) -> &mut [TaskShard] {
        &mut self.shards
    }

    /// The stores, and the shards that they name by their places.
    pub(crate) fn parts_mut(&mut self) -> (&[TaskStore], &mut [TaskShard]) {
        (&self.stores, &mut self.shards)
    }

    /// A store's overlay and shard by place: for draining.
    pub(crate) fn at(&mut self, place: usize) -> Option<(&mut TaskStore, &dyn Read)> {
        let store = self.stores.get_mut(place)?;
        let base: &dyn Read = &*self.shards.get(store.shard)?.shard;
        Some((store, base))
    }

    /// A record is done: what it wrote to stores without caching goes to `log`, by store.
    #[inline]
    pub(crate) fn record_done(&mut self, log: &mut dyn FnMut(usize, ValueFormat, crate::state::Entry<'_>)) {
        for (place, store) in self.stores.iter_mut().enumerate() {
            let format = store.plan.format;
            store.overlay.record_done(&mut |entry| log(place, format, entry));
        }
    }

    /// A record failed: none of its writes remain.
    pub(crate) fn record_failed(&mut self) {
        self.stores.iter_mut().for_each(|s| s.overlay.record_failed());
    }

    /// Whether anything was written that no shard has.
    pub(crate) fn is_dirty(&self) -> bool {
        self.stores.iter().any(|s| s.overlay.is_dirty())
    }

    /// Applies a shard's part of the commit interval, with the metadata that stands in the shard.
    pub(crate) fn apply(&mut self, shard: usize, now: Duration) -> Result {
        let Some(target) = self.shards.get_mut(shard) else { return Ok(()) };
        let mine = self.stores.iter_mut().filter(|s| s.shard == shard).map(|s| &mut s.overlay);
        let mut writes = Chain::new(mine);
        target.apply(&mut writes, now)?;
        drop(writes);
        self.stores.iter_mut().filter(|s| s.shard == shard).for_each(|s| s.overlay.applied());
        Ok(())
    }

    /// Forgets all that no shard has, and the caches over them.
    pub(crate) fn forget(&mut self) {
        self.stores.iter_mut().for_each(|s| s.overlay.clear());
    }

    /// Flushes and closes all shards. The first error counts, all are closed.
    pub(crate) fn close(self) -> Result {
        let mut result = Ok(());
        for shard in self.shards {
            let closed = shard.shard.close().map_err(|e| Error::store("close a shard", e).with("engine", shard.engine));
            result = result.and(closed);
        }
        result
    }
}

/// By number in the topology: the place among a task's stores.
fn by_index(plans: &[StorePlan]) -> Vec<Option<usize>> {
    let highest = plans.iter().map(|p| p.index.0 as usize + 1).max().unwrap_or(0);
    let mut places = vec![None; highest];
    for (place, plan) in plans.iter().enumerate() {
        if let Some(slot) = places.get_mut(plan.index.0 as usize) {
            *slot = Some(place);
        }
    }
    places
}

/// The engine's own directory: what we keep beside it must not look like a file of the engine.
fn data_dir(dir: &Path) -> Result<PathBuf> {
    let data = dir.join("data");
    make_dir("make a shard's directory", &data)?;
    Ok(data)
}

impl TaskShard {
    fn open(engine: &dyn Engine, spec: &ShardSpec<'_>) -> Result<Self> {
        let dir = || spec.dir.map_or_else(|| "in memory".to_owned(), |d| d.display().to_string());
        let shard = engine.open(spec).map_err(|e| {
            let corrupt = e.kind() == millpond_store_api::ErrorKind::Corrupt;
            let error = Error::store("open a shard", e).with("engine", engine.name()).with("directory", dir());
            if corrupt { error.remedy("it is set aside and restored from the changelog") } else { error }
        })?;
        let shard: Box<dyn Shard> = Box::new(Poison::new(shard));
        let metadata = match shard.committed() {
            Some(bytes) => ShardMetadata::decode(bytes).map_err(|e| {
                Error::new(ErrorKind::StateDir, "read a shard's metadata").with("directory", dir()).caused_by(e)
            })?,
            None => ShardMetadata::default(),
        };
        Ok(Self {
            engine: engine.name(),
            shard,
            metadata,
            encoded: Vec::new(),
            unflushed_since: None,
            flushing: false,
            durable: None,
        })
    }

    /// Applies a batch with the metadata as it stands.
    pub(crate) fn apply(&mut self, writes: &mut dyn millpond_store_api::Writes, now: Duration) -> Result {
        self.metadata.encode(&mut self.encoded);
        self.shard
            .apply(writes, &self.encoded)
            .map_err(|e| Error::store("apply a batch", e).with("engine", self.engine))?;
        self.unflushed_since.get_or_insert(now);
        Ok(())
    }

    /// The restore has applied a batch.
    pub(crate) fn applied(&mut self, now: Duration) {
        self.unflushed_since.get_or_insert(now);
    }

    /// Begins a flush if the oldest batch that is not durable is older than `interval`; answers whether it did.
    pub(crate) fn flush_if_due(&mut self, now: Duration, interval: Duration) -> Result<bool> {
        let due = self.unflushed_since.is_some_and(|since| now.saturating_sub(since) >= interval);
        if due {
            let failed = |e| Error::store("flush a shard", e).with("engine", self.engine);
            self.shard.flush(Flush::Start).map_err(failed)?;
            (self.unflushed_since, self.flushing) = (None, true);
        }
        Ok(due)
    }

    /// Picks up a flush that has ended: what the shard stands for after a kill, if that has moved.
    pub(crate) fn take_durable(&mut self) -> Result<Option<ShardMetadata>> {
        if !self.flushing {
            return Ok(None);
        }
        let durable = self.shard.durable().map_err(|e| Error::store("flush a shard", e).with("engine", self.engine))?;
        let Some(metadata) = durable.and_then(|bytes| ShardMetadata::decode(bytes).ok()) else { return Ok(None) };
        if self.durable.as_ref() == Some(&metadata) {
            return Ok(None);
        }
        self.flushing = false;
        self.durable = Some(metadata.clone());
        Ok(Some(metadata))
    }
}

impl std::fmt::Debug for TaskStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.stores.iter().map(|s| s.plan.name.as_str()).collect();
        f.debug_struct("TaskStores").field("stores", &names).field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}
