//! A task's stores: one shard per engine, one overlay per store over its space of a shard (D1, D2).

mod buffers;
mod expiry;
mod shard;
mod spaces;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millpond_changelog::{RowLayout, ValueFormat};
use millpond_store_api::{Engine, Read, ShardSpec, SpaceId, SpaceSpec};
use millpond_topology::{self as topology, Drained, StoreAccess, StoreIndex, StoreType};

use self::expiry::StoreTime;
pub(crate) use self::shard::TaskShard;
use self::spaces::{Placed, Spaces, WINDOWED};
use crate::error::{Error, Result};
use crate::plan::StorePlan;
use crate::state::{Budget, Chain, Entry, Overlay, OverlayOptions, make_dir};
use crate::task::mark::Mark;

/// A store and what lies over it.
pub(crate) struct TaskStore {
    pub(crate) plan: StorePlan,
    pub(crate) overlay: Overlay,
    /// Which shard its rows are in.
    pub(crate) shard: usize,
    /// Where its rows are there.
    pub(crate) rows: RowLayout,
    expiring: Option<Box<StoreTime>>,
    released: Mark,
}

impl TaskStore {
    fn new(plan: &StorePlan, shard: usize, number: u16, caching: bool, budget: &Arc<Budget>) -> Self {
        let rows = layout(plan, number);
        let overlay = |options| Overlay::new(options).with_budget(budget);
        let space = rows.own_space().unwrap_or(WINDOWED);
        // A suppression buffer holds back anyhow: it is logged as it is at the commit, or when there is no room for more.
        let caching = plan.caching && (caching || plan.kind == StoreType::SuppressionBuffer);
        let options = OverlayOptions { space, caching, keep_old: plan.forwards };
        let expiring = StoreTime::of(plan, number, overlay);
        let released = Mark::default();
        Self { plan: plan.clone(), overlay: overlay(options), shard, rows, expiring, released }
    }

    /// Its own overlay, and the one over the windowed space if it has rows in both.
    pub(crate) fn overlays_mut(&mut self) -> impl Iterator<Item = &mut Overlay> {
        let windowed = self.expiring.as_mut().and_then(|e| e.windowed.as_mut());
        std::iter::once(&mut self.overlay).chain(windowed)
    }

    fn is_dirty(&self) -> bool {
        let windowed = self.expiring.as_ref().and_then(|e| e.windowed.as_ref());
        self.overlay.is_dirty() || windowed.is_some_and(Overlay::is_dirty)
    }

    #[inline]
    fn access<'a>(&'a mut self, base: &'a dyn Read, at: Moment) -> StoreAccess<'a> {
        let expiry = self.expiring.as_mut().map(|e| e.access(at.stream_time));
        StoreAccess { layer: &mut self.overlay, base, timestamp: at.timestamp, expiry }
    }

    /// See [`Port::release`](millpond_topology::Port::release).
    fn release(&mut self, close: i64) {
        self.released.raise(close);
        if let (Some(expiring), Some(hold)) = (&mut self.expiring, self.plan.hold) {
            expiring.let_go(close.saturating_add(hold));
        }
    }

    /// What its writes become in the changelog.
    pub(crate) fn format(&self) -> LogFormat {
        LogFormat { rows: self.rows, value: self.plan.format }
    }

    /// The greatest event time that counts for its rows, given its task's.
    pub(crate) fn observe(&mut self, stream_time: i64) -> i64 {
        match &mut self.expiring {
            Some(expiring) => {
                expiring.observe(stream_time);
                expiring.observed()
            }
            None => stream_time,
        }
    }
}

/// How a store's rows become records of its changelog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogFormat {
    pub(crate) rows: RowLayout,
    pub(crate) value: ValueFormat,
}

impl LogFormat {
    /// The records of its changelog are puts of the store, not its rows.
    fn is_logged_by_puts(self) -> bool {
        matches!(self.rows, RowLayout::Versioned { .. })
    }

    /// A row for somebody who knows the user's serdes and not the store's bytes: the value alone, under the key as a topic has
    /// it. `scratch` is for that.
    pub(crate) fn as_in_a_topic<'a>(self, row: Drained<'a>, scratch: &'a mut Vec<u8>) -> Drained<'a> {
        const SEQUENCE: usize = 4;
        let Drained { key, new, timestamp, .. } = row;
        let change = millpond_changelog::Change { key, value: new, timestamp };
        let new = self.value.to_log(change).map_or(new, |logged| logged.value);
        let key = match self.rows.key_to_log(key, scratch) {
            // What tells duplicates apart stands in changelogs alone.
            Ok(logged) if matches!(self.rows, RowLayout::Window { .. }) => {
                logged.get(..logged.len().saturating_sub(SEQUENCE)).unwrap_or(logged)
            }
            Ok(logged) => logged,
            Err(_) => key,
        };
        Drained { key, new, ..row }
    }
}

/// The times of an access, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The event time that writes are marked with.
    pub(crate) timestamp: i64,
    /// The greatest event time that the task has seen.
    pub(crate) stream_time: i64,
}

/// Where the rows of a store with this number are.
fn layout(plan: &StorePlan, number: u16) -> RowLayout {
    let (space, windowed, store) = (SpaceId(number), WINDOWED, number);
    let Some(kept) = plan.retention else {
        let is_buffer = plan.kind == StoreType::SuppressionBuffer;
        return if is_buffer { RowLayout::Buffer { space } } else { RowLayout::KeyValue { space } };
    };
    match plan.kind {
        StoreType::TtlKeyValue => RowLayout::Ttl { space, windowed, store, time_to_live: kept.millis },
        StoreType::VersionedKeyValue => RowLayout::Versioned { space, windowed, store, history: kept.millis },
        StoreType::Session | StoreType::SessionWithHeaders => {
            RowLayout::Session { windowed, store, retention: kept.gone_after() }
        }
        kind if kind.is_windowed() => {
            RowLayout::Window { windowed, store, retention: kept.gone_after(), duplicates: kept.duplicates }
        }
        _ => RowLayout::KeyValue { space },
    }
}

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
    /// Opens the shards. `caching` is off for the whole application if `statestore.cache.max.bytes` is 0. `partition` is
    /// that of the changelogs.
    pub(crate) fn open(
        plans: &[StorePlan],
        places: Vec<ShardPlace>,
        partition: i32,
        caching: bool,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let mut shards = Vec::new();
        let mut owners = vec![(0, 0); plans.len()];
        for (shard, place) in places.into_iter().enumerate() {
            let mine: Vec<&StorePlan> = place.stores.iter().filter_map(|i| plans.get(*i)).collect();
            let (opened, placed) = open_shard(&place, &mine, partition)?;
            for (store, placed) in place.stores.iter().zip(&placed) {
                if let Some(owner) = owners.get_mut(*store) {
                    *owner = (shard, placed.number);
                }
            }
            shards.push(opened);
        }
        let stores =
            plans.iter().zip(owners).map(|(plan, (s, number))| TaskStore::new(plan, s, number, caching, budget));
        let mut stores = Self { shards, stores: stores.collect(), places: by_index(plans) };
        stores.reset_times();
        Ok(stores)
    }

    /// Stores over shards that hold nothing and take nothing: for a graph that is built to see whether it can be.
    pub(crate) fn nothing(plans: &[StorePlan], caching: bool, budget: &Arc<Budget>) -> Self {
        let stores = (0..).zip(plans).map(|(number, plan)| TaskStore::new(plan, 0, number, caching, budget)).collect();
        Self { shards: vec![TaskShard::nothing()], stores, places: by_index(plans) }
    }

    /// Takes the stores' times from the shards, when these have come to stand for something else: after a restore, and when
    /// an interval was given up.
    pub(crate) fn reset_times(&mut self) {
        for store in &mut self.stores {
            let metadata = self.shards.get(store.shard).map(|s| &s.metadata);
            if let Some(expiring) = &mut store.expiring {
                expiring.reset(metadata.and_then(|m| m.stream_time(&store.plan.name)));
            }
        }
    }

    /// See [`Port::released`](millpond_topology::Port::released).
    pub(crate) fn released(&self, store: StoreIndex) -> Option<i64> {
        self.stores.get(self.place(store)?)?.released.time()
    }

    /// See [`Port::release`](millpond_topology::Port::release).
    pub(crate) fn release(&mut self, store: StoreIndex, close: i64) {
        if let Some(store) = self.place(store).and_then(|place| self.stores.get_mut(place)) {
            store.release(close);
        }
    }

    /// Takes over what was committed beside an input's offset, by the stores' names. Of several inputs the highest counts.
    pub(crate) fn restore_released(&mut self, committed: &[(String, i64)]) {
        for (name, close) in committed {
            if let Some(store) = self.stores.iter_mut().find(|s| s.plan.name == *name) {
                store.release(*close);
                store.released.committed();
            }
        }
    }

    /// What is to be committed beside the inputs' offsets.
    pub(crate) fn to_commit(&self) -> impl Iterator<Item = (String, i64)> {
        let of = |store: &TaskStore| Some((store.plan.name.clone(), store.released.time()?));
        self.stores.iter().filter_map(of)
    }

    /// Whether anything was released since the last commit.
    pub(crate) fn has_released(&self) -> bool {
        self.stores.iter().any(|store| store.released.has_changed())
    }

    /// What was released is committed.
    pub(crate) fn released_committed(&mut self) {
        self.stores.iter_mut().for_each(|store| store.released.committed());
    }

    fn place(&self, store: StoreIndex) -> Option<usize> {
        self.places.get(store.0 as usize).copied().flatten()
    }

    /// A store for one access.
    #[inline]
    pub(crate) fn access(&mut self, store: StoreIndex, at: Moment) -> Option<StoreAccess<'_>> {
        let place = self.place(store)?;
        let store = self.stores.get_mut(place)?;
        let base: &dyn Read = &*self.shards.get(store.shard)?.shard;
        Some(store.access(base, at))
    }

    /// Several different stores at once.
    pub(crate) fn access_many(
        &mut self,
        which: [Option<StoreIndex>; 4],
        at: Moment,
    ) -> topology::Result<[Option<StoreAccess<'_>>; 4]> {
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
                *slot = Some(store.access(&*shard.shard, at));
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
    pub(crate) fn parts_mut(&mut self) -> (&mut [TaskStore], &mut [TaskShard]) {
        (&mut self.stores, &mut self.shards)
    }

    /// A store's overlay and shard by place: for draining.
    pub(crate) fn at(&mut self, place: usize) -> Option<(&mut TaskStore, &dyn Read)> {
        let store = self.stores.get_mut(place)?;
        let base: &dyn Read = &*self.shards.get(store.shard)?.shard;
        Some((store, base))
    }

    /// A record is done: what it wrote to stores without caching goes to `log`, by store. Answers how many of its writes were
    /// refused because they had expired.
    #[inline]
    pub(crate) fn record_done(&mut self, log: &mut dyn FnMut(usize, LogFormat, Entry<'_>)) -> u64 {
        let mut refused = 0;
        for (place, store) in self.stores.iter_mut().enumerate() {
            store.released.record_done();
            let format = store.format();
            match &mut store.expiring {
                None => store.overlay.record_done(&mut |entry| log(place, format, entry)),
                Some(expiring) if format.is_logged_by_puts() => {
                    store.overlay.record_done(&mut |_| ());
                    refused += expiring.record_done(&mut |entry| log(place, format, entry));
                }
                Some(expiring) => {
                    store.overlay.record_done(&mut |entry| log(place, format, entry));
                    refused += expiring.record_done(&mut |_| ());
                }
            }
        }
        refused
    }

    /// A record failed: none of its writes remain.
    pub(crate) fn record_failed(&mut self) {
        for store in &mut self.stores {
            store.overlay.record_failed();
            store.released.record_failed();
            if let Some(expiring) = &mut store.expiring {
                expiring.record_failed();
            }
        }
    }

    /// Deletes some of the rows whose time to live has passed, of every store that has such, as one record would. Answers how
    /// many rows of their indexes it has looked at.
    pub(crate) fn delete_expired(&mut self, stream_time: i64) -> Result<usize> {
        let mut seen = 0;
        for TaskStore { overlay, shard, expiring, .. } in &mut self.stores {
            let due = expiring.as_mut().filter(|expiring| expiring.is_deletion_due(stream_time));
            if let (Some(expiring), Some(shard)) = (due, self.shards.get(*shard)) {
                seen += expiring.delete_expired(overlay, &*shard.shard, stream_time)?;
            }
        }
        Ok(seen)
    }

    /// Whether anything was written that no shard has.
    pub(crate) fn is_dirty(&self) -> bool {
        self.stores.iter().any(TaskStore::is_dirty)
    }

    /// Applies a shard's part of the commit interval, with the metadata that stands in the shard.
    pub(crate) fn apply(&mut self, shard: usize, now: Duration) -> Result {
        let Some(target) = self.shards.get_mut(shard) else { return Ok(()) };
        let mut mine: Vec<&mut TaskStore> = self.stores.iter_mut().filter(|s| s.shard == shard).collect();
        let mut writes = Chain::new(mine.iter_mut().flat_map(|s| s.overlays_mut()));
        target.apply(&mut writes, now)?;
        drop(writes);
        mine.iter_mut().flat_map(|s| s.overlays_mut()).for_each(Overlay::applied);
        Ok(())
    }

    /// Lets go of the rows that had expired by the `first` of the times up to which a shard's stores are done with them, in
    /// what of it is durable: a shard that is opened again after a kill has its durable time, and restores with it.
    pub(crate) fn drop_expired(&mut self, first: fn(&mut dyn Iterator<Item = i64>) -> Option<i64>) -> Result {
        for (place, shard) in self.shards.iter_mut().enumerate() {
            let mine = || {
                let mine = self.stores.iter().filter(|s| s.shard == place);
                mine.filter_map(|s| Some((s.plan.name.as_str(), s.expiring.as_ref()?.done_with())))
            };
            let Some(time) = first(&mut mine().map(|(_, time)| time)).filter(|time| shard.has_expired(*time)) else {
                continue;
            };
            let time = match shard.durable_times()? {
                Some(durable) => {
                    let survives = |store| durable.stream_time(store).unwrap_or(i64::MIN);
                    first(&mut mine().map(|(store, time)| time.min(survives(store)))).unwrap_or(i64::MIN)
                }
                None => time,
            };
            shard.drop_expired(time)?;
        }
        Ok(())
    }

    /// Forgets all that no shard has, and the caches over them.
    pub(crate) fn forget(&mut self) {
        for store in &mut self.stores {
            store.overlay.clear();
            store.released = Mark::default();
        }
        self.reset_times();
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

/// Opens a shard for its stores. The rows of one that has another form now are cleared first: they would be taken for what
/// they are not. Its changelog gives it back, if it has one.
fn open_shard(place: &ShardPlace, stores: &[&StorePlan], partition: i32) -> Result<(TaskShard, Vec<Placed>)> {
    let (spaces, placed) = Spaces::assign(place.dir.as_deref(), stores)?;
    let data = place.dir.as_deref().map(data_dir).transpose()?;
    let specs = space_specs(stores, &placed);
    // What such a store loses in a kill is not in any log.
    let unlogged = stores.iter().any(|p| p.changelog.is_none());
    let spec = ShardSpec { dir: data.as_deref(), spaces: &specs, unlogged };
    let mut shard = TaskShard::open(&*place.engine, &spec)?;
    for topic in stores.iter().filter_map(|p| p.former_changelog.as_deref()) {
        // Its rows are no longer those of that log: if the store is logged again, the log is read from its start.
        shard.metadata.forget_changelog(topic, partition);
    }
    for (plan, _) in stores.iter().zip(&placed).filter(|(_, placed)| !placed.is_new && !placed.is_outdated) {
        let Some(topic) = &plan.changelog else { continue };
        if !shard.metadata.restoring && shard.metadata.changelog(topic, partition).is_none() {
            tracing::warn!(
                store = plan.name,
                topic,
                "its changelog does not go on from its rows, which are replaced by it"
            );
        }
    }
    let outdated: Vec<_> = stores.iter().zip(&placed).filter(|(_, placed)| placed.is_outdated).collect();
    for (plan, placed) in &outdated {
        let lost = plan.changelog.is_none();
        tracing::warn!(store = plan.name, lost, "its rows were written for another kind or retention: it begins anew");
        shard.metadata.forget_stream_time(&plan.name);
        if let Some(topic) = &plan.changelog {
            shard.metadata.forget_changelog(topic, partition);
        }
        let (space, store) = (SpaceId(placed.number), placed.number);
        shard.clear(RowLayout::Versioned { space, windowed: WINDOWED, store, history: 0 })?;
    }
    if !outdated.is_empty() {
        spaces.renew(stores)?;
    }
    Ok((shard, placed))
}

/// The spaces that a shard needs for its stores; of one that is to be cleared, all that it may ever have had rows in.
fn space_specs(stores: &[&StorePlan], placed: &[Placed]) -> Vec<SpaceSpec> {
    let mut specs = Vec::new();
    let mut has_windowed = false;
    for (plan, placed) in stores.iter().zip(placed) {
        let rows = layout(plan, placed.number);
        has_windowed |= rows.windowed().is_some() || placed.is_outdated;
        if rows.own_space().is_some() || placed.is_outdated {
            specs.push(SpaceSpec { id: SpaceId(placed.number), name: plan.name.clone(), expires: false });
        }
    }
    if has_windowed {
        specs.push(SpaceSpec { id: WINDOWED, name: "windowed".to_owned(), expires: true });
    }
    specs
}

/// The engine's own directory: what we keep beside it must not look like a file of the engine.
fn data_dir(dir: &Path) -> Result<PathBuf> {
    let data = dir.join("data");
    make_dir("make a shard's directory", &data)?;
    Ok(data)
}

impl std::fmt::Debug for TaskStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.stores.iter().map(|s| s.plan.name.as_str()).collect();
        f.debug_struct("TaskStores").field("stores", &names).field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}
