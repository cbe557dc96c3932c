//! The cases of the store kinds, run through the overlay as a task's graph reaches it, over a shard in memory.

use millpond_runtime::state::{Chain, DrainedEntry, Overlay, OverlayOptions};
use millpond_store_api::{Engine, Shard, ShardSpec, SpaceId, SpaceMut, SpaceSpec};
use millpond_store_conformance::Subject;
use millpond_store_mem::MemEngine;
use millpond_topology::StoreAccess;

const SPACE: SpaceId = SpaceId(3);

/// An overlay over its shard. Each access is a record of its own.
struct OverShard {
    overlay: Overlay,
    shard: Box<dyn Shard>,
    /// Whether the cache is emptied after each record.
    evict: bool,
}

impl OverShard {
    fn new(caching: bool, evict: bool) -> Self {
        let spaces = [SpaceSpec { id: SPACE, name: "store".into(), expires: false }];
        let shard = MemEngine::default().open(&ShardSpec { dir: None, spaces: &spaces, unlogged: false });
        let options = OverlayOptions { space: SPACE, caching, keep_old: caching };
        Self { overlay: Overlay::new(options), shard: shard.expect("a shard in memory opens"), evict }
    }
}

impl Subject for OverShard {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        body(&mut StoreAccess { layer: &mut self.overlay, base: &*self.shard, timestamp: 1 });
        self.overlay.record_done(&mut |_| ());
        if self.evict {
            self.overlay.evict(usize::MAX);
        }
    }

    fn settle(&mut self) {
        let mut drained = DrainedEntry::default();
        while self.overlay.next_pending(&*self.shard, &mut drained).expect("memory can be read") {}
        self.shard.apply(&mut Chain::new([&mut self.overlay]), b"").expect("memory can be written");
        self.overlay.applied();
    }
}

mod logged_at_once {
    use super::*;

    millpond_store_conformance::kind_conformance!(OverShard::new(false, false));
}

mod cached {
    use super::*;

    millpond_store_conformance::kind_conformance!(OverShard::new(true, false));
}

mod without_a_cache {
    use super::*;

    millpond_store_conformance::kind_conformance!(OverShard::new(false, true));
}
