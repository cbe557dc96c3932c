//! The cases of the store kinds, run through the overlay as a task's graph reaches it, over a shard in memory.

use millpond_runtime::state::{Chain, DrainedEntry, Overlay, OverlayOptions};
use millpond_store_api::{Engine, Shard, ShardSpec, SpaceId, SpaceMut, SpaceSpec};
use millpond_store_conformance::Subject;
use millpond_store_mem::MemEngine;
use millpond_topology::LayerSpace;

const SPACES: [SpaceId; 2] = [SpaceId(3), SpaceId(4)];

/// Two overlays over their shard. Each access is a record of its own.
struct OverShard {
    overlays: [Overlay; 2],
    shard: Box<dyn Shard>,
    /// Whether the cache is emptied after each record.
    evict: bool,
}

impl OverShard {
    fn new(caching: bool, evict: bool) -> Self {
        let spec = |id| SpaceSpec { id, name: format!("store {}", id.0), expires: id == SPACES[1] };
        let shard = MemEngine::default().open(&ShardSpec { dir: None, spaces: &SPACES.map(spec), unlogged: false });
        let overlay = |space| Overlay::new(OverlayOptions { space, caching, keep_old: caching });
        Self { overlays: SPACES.map(overlay), shard: shard.expect("a shard in memory opens"), evict }
    }

    fn record_done(&mut self) {
        for overlay in &mut self.overlays {
            overlay.record_done(&mut |_| ());
            if self.evict {
                overlay.evict(usize::MAX);
            }
        }
    }
}

impl Subject for OverShard {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        let [layer, _] = &mut self.overlays;
        body(&mut LayerSpace { layer, base: &*self.shard, timestamp: 1 });
        self.record_done();
    }

    fn with_both(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
        let [first, second] = &mut self.overlays;
        body(
            &mut LayerSpace { layer: first, base: &*self.shard, timestamp: 1 },
            &mut LayerSpace { layer: second, base: &*self.shard, timestamp: 1 },
        );
        self.record_done();
    }

    fn settle(&mut self) {
        let mut drained = DrainedEntry::default();
        for overlay in &mut self.overlays {
            while overlay.next_pending(&*self.shard, &mut drained).expect("memory can be read") {}
        }
        self.shard.apply(&mut Chain::new(self.overlays.each_mut()), b"").expect("memory can be written");
        self.overlays.iter_mut().for_each(Overlay::applied);
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
