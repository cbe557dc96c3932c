//! A store without a job: two spaces, each in a shard of its own, reached straight or through overlays.

use millpond_runtime::state::{Chain, DrainedEntry, Overlay, OverlayOptions};
use millpond_store_api::{DirectSpace, Shard, ShardSpec, SpaceId, SpaceMut, SpaceSpec};
use millpond_topology::LayerSpace;
use tempfile::TempDir;

use crate::engine::EngineKind;

/// How a bench reaches its spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Straight: reads ask the shard, and each write is a batch of its own.
    Shard,
    /// As a task's graph does, through overlays that keep what they have met. A commit every 10,000 accesses is part of it.
    Overlay,
}

impl Access {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shard => "shard",
            Self::Overlay => "overlay",
        }
    }
}

/// Plain rows, and rows that expire.
const SPACES: [SpaceId; 2] = [SpaceId(1), SpaceId(2)];

/// Accesses between two commits.
const COMMIT_EVERY: u32 = 10_000;

/// Two spaces for the store kinds.
pub struct BenchStore {
    access: Access,
    shards: [Box<dyn Shard>; 2],
    overlays: [Overlay; 2],
    drained: DrainedEntry,
    accesses: u32,
    _dir: TempDir,
}

impl BenchStore {
    /// Two empty spaces.
    pub fn open(engine: EngineKind, access: Access) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let engine = engine.open();
        let shard = |id: SpaceId| {
            let dir = dir.path().join(id.0.to_string());
            std::fs::create_dir(&dir).expect("a directory can be made in a temporary one");
            let spaces = [SpaceSpec { id, name: "rows".to_owned(), expires: id == SPACES[1] }];
            let dir = engine.persistent().then_some(dir.as_path());
            engine.open(&ShardSpec { dir, spaces: &spaces, unlogged: false }).expect("an empty directory can be opened")
        };
        let overlay = |space| Overlay::new(OverlayOptions { space, caching: true, keep_old: false });
        Self {
            access,
            shards: SPACES.map(shard),
            overlays: SPACES.map(overlay),
            drained: DrainedEntry::default(),
            accesses: 0,
            _dir: dir,
        }
    }

    /// One access to both spaces: what a record does.
    pub fn with<T>(&mut self, body: impl FnOnce(&mut dyn SpaceMut, &mut dyn SpaceMut) -> T) -> T {
        match self.access {
            Access::Shard => {
                let [plain, expiring] = &mut self.shards;
                let [plain, expiring] = [(plain, SPACES[0]), (expiring, SPACES[1])]
                    .map(|(shard, space)| DirectSpace::new(&mut **shard, space));
                let (mut plain, mut expiring) = (plain, expiring);
                body(&mut plain, &mut expiring)
            }
            Access::Overlay => self.through_overlays(body),
        }
    }

    /// As [`BenchStore::with`] through the overlays, whatever the bench's way is: to fill the store in little time. Ends with
    /// [`BenchStore::settle`].
    pub fn load<T>(&mut self, body: impl FnOnce(&mut dyn SpaceMut, &mut dyn SpaceMut) -> T) -> T {
        self.through_overlays(body)
    }

    /// Commits, and forgets what the overlays have kept.
    pub fn settle(&mut self) {
        self.commit();
        self.overlays.iter_mut().for_each(Overlay::clear);
    }

    /// Commits, and says that rows that expire are never asked for again below a key.
    pub fn drop_below(&mut self, key: &[u8]) {
        self.commit();
        let [_, expiring] = &mut self.shards;
        expiring.drop_below(SPACES[1], key).expect("the shard can be written");
    }

    fn through_overlays<T>(&mut self, body: impl FnOnce(&mut dyn SpaceMut, &mut dyn SpaceMut) -> T) -> T {
        let ([first, second], [plain, expiring]) = (&mut self.overlays, &self.shards);
        let answer = body(
            &mut LayerSpace { layer: first, base: &**plain, timestamp: 0 },
            &mut LayerSpace { layer: second, base: &**expiring, timestamp: 0 },
        );
        self.overlays.iter_mut().for_each(|overlay| overlay.record_done(&mut |_| ()));
        self.accesses += 1;
        if self.accesses == COMMIT_EVERY {
            self.commit();
        }
        answer
    }

    fn commit(&mut self) {
        self.accesses = 0;
        for (overlay, shard) in self.overlays.iter_mut().zip(&mut self.shards) {
            while overlay.next_pending(&**shard, &mut self.drained).expect("the shard can be read") {}
            shard.apply(&mut Chain::new([&mut *overlay]), b"").expect("the shard can be written");
            overlay.applied();
        }
    }
}

impl std::fmt::Debug for BenchStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BenchStore").field("access", &self.access).finish_non_exhaustive()
    }
}
