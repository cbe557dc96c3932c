//! A task's stores over a shard, with the runtime's overlays between.

use millpond_runtime::state::{Chain, DrainedEntry, Overlay, OverlayOptions};
use millpond_store_api::{Engine, Poison, Read, Shard, ShardSpec, SpaceId, SpaceMut, SpaceSpec};
use millpond_store_conformance::history::{End, Stack};
use millpond_store_conformance::{Harness, Subject};
use millpond_topology::LayerSpace;
use tempfile::TempDir;

use super::RecordCache;

/// What a tiny cache holds of each space, in bytes: some three rows.
const TINY: usize = 400;

/// The overlays of some stores over their shard, moved as a task moves them.
///
/// Each store has two spaces: one of its own, and the windowed one, which all stores share.
pub struct Overlaid {
    cache: RecordCache,
    stores: Vec<[Overlay; 2]>,
    drained: DrainedEntry,
    /// Before the engine that it is of, in the order in which they are dropped.
    shard: Option<Box<dyn Shard>>,
    engine: Option<Box<dyn Engine>>,
    harness: Box<dyn Harness>,
    /// Of an engine that is persistent.
    dir: Option<TempDir>,
}

impl Overlaid {
    /// So many empty stores over an empty shard.
    ///
    /// # Panics
    ///
    /// If the shard cannot be opened.
    pub fn new(harness: Box<dyn Harness>, cache: RecordCache, stores: u16) -> Self {
        let stores = (0..stores).map(|store| overlays(store, stores, cache)).collect();
        let drained = DrainedEntry::default();
        let mut new = Self { cache, stores, drained, shard: None, engine: None, harness, dir: None };
        new.open();
        new
    }

    /// The windowed space; its number is behind those of the stores.
    fn windowed(&self) -> SpaceId {
        SpaceId(self.stores.len() as u16)
    }

    fn open(&mut self) {
        let engine = self.engine.insert(self.harness.engine());
        let stores = self.stores.len() as u16;
        let spec = |n| SpaceSpec { id: SpaceId(n), name: format!("space {n}"), expires: n == stores };
        let spaces: Vec<_> = (0..=stores).map(spec).collect();
        if engine.persistent() {
            self.dir.get_or_insert_with(|| tempfile::tempdir().expect("a temporary directory can be made"));
        }
        let dir = self.dir.as_ref().map(TempDir::path);
        let shard = engine.open(&ShardSpec { dir, spaces: &spaces, unlogged: false }).expect("the shard opens");
        self.shard = Some(Box::new(Poison::new(shard)));
    }

    /// What a task does between two records to keep within its cache.
    fn make_room(&mut self) {
        let shard = self.shard.as_deref().expect("it is open");
        for overlay in self.stores.iter_mut().flatten() {
            match self.cache {
                RecordCache::Off => drop(overlay.evict(usize::MAX)),
                RecordCache::Tiny => keep_within(overlay, shard, TINY, &mut self.drained),
                RecordCache::Reads | RecordCache::Large => {}
            }
        }
    }
}

/// A store's overlays. Every second store keeps the values that were forwarded last.
fn overlays(store: u16, stores: u16, cache: RecordCache) -> [Overlay; 2] {
    let caching = matches!(cache, RecordCache::Tiny | RecordCache::Large);
    let keep_old = store.is_multiple_of(2);
    [store, stores].map(|space| Overlay::new(OverlayOptions { space: SpaceId(space), caching, keep_old }))
}

/// Forgets what is in the shard; if that is not enough, the oldest rows that wait are logged early.
fn keep_within(overlay: &mut Overlay, shard: &dyn Read, bytes: usize, drained: &mut DrainedEntry) {
    while let over @ 1.. = overlay.cache_bytes().saturating_sub(bytes) {
        let freed = overlay.evict(over);
        if freed == 0 && !overlay.next_pending(shard, drained).expect("the shard is read") {
            break;
        }
    }
}

impl Stack for Overlaid {
    fn lend(&mut self, store: u16, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
        let base: &dyn Read = self.shard.as_deref().expect("it is open");
        let [own, windowed] = self.stores.get_mut(usize::from(store)).expect("there are so many stores");
        body(
            &mut LayerSpace { layer: own, base, timestamp: 1 },
            &mut LayerSpace { layer: windowed, base, timestamp: 1 },
        );
    }

    fn record_done(&mut self) {
        self.stores.iter_mut().flatten().for_each(|overlay| overlay.record_done(&mut |_| ()));
        self.make_room();
    }

    fn record_failed(&mut self) {
        self.stores.iter_mut().flatten().for_each(Overlay::record_failed);
        self.make_room();
    }

    fn commit(&mut self, metadata: &[u8]) {
        let shard = self.shard.as_deref_mut().expect("it is open");
        for overlay in self.stores.iter_mut().flatten() {
            while overlay.next_pending(&*shard, &mut self.drained).expect("the shard is read") {}
        }
        shard.apply(&mut Chain::new(self.stores.iter_mut().flatten()), metadata).expect("the batch is applied");
        self.stores.iter_mut().flatten().for_each(Overlay::applied);
        self.make_room();
    }

    fn abort(&mut self) {
        self.stores.iter_mut().flatten().for_each(Overlay::abort);
    }

    fn shard(&mut self) -> &mut dyn Shard {
        &mut **self.shard.as_mut().expect("it is open")
    }

    fn drop_below(&mut self, key: &[u8]) {
        let windowed = self.windowed();
        self.shard().drop_below(windowed, key).expect("expired rows are dropped");
    }

    fn restart(&mut self, end: End) {
        let shard = self.shard.take().expect("it is open");
        match end {
            End::Close => shard.close().expect("the shard is closed"),
            End::Crash => drop(shard),
        }
        self.engine = None;
        self.stores.iter_mut().flatten().for_each(Overlay::clear);
        self.open();
    }
}

/// For the cases of one kind: each access is a record of its own, on the first store.
impl Subject for Overlaid {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        self.lend(0, &mut |own, _| body(own));
        self.record_done();
    }

    fn with_both(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
        self.lend(0, body);
        self.record_done();
    }

    fn settle(&mut self) {
        self.commit(b"");
    }
}

impl std::fmt::Debug for Overlaid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlaid").field("cache", &self.cache).field("stores", &self.stores).finish_non_exhaustive()
    }
}
