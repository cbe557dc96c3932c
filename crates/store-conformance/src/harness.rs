//! What a case needs of the engine under test, and the bench it works at.

use std::path::PathBuf;

use millpond_store_api::{Engine, Result, Shard, ShardSpec, SpaceId, SpaceSpec};

/// The first space of the shards that cases open.
pub const A: SpaceId = SpaceId(1);
/// The second one: the neighbour of [`A`], and rows expire from it.
pub const B: SpaceId = SpaceId(2);

/// Makes the engine under test. Any closure that answers an engine is one.
pub trait Harness {
    /// An engine as a process has it after its start.
    ///
    /// Called at the start of a case, and again where a case restarts the process: what an earlier engine of the same
    /// harness left in a directory must be there.
    fn engine(&self) -> Box<dyn Engine>;
}

impl<E: Engine + 'static, F: Fn() -> E> Harness for F {
    fn engine(&self) -> Box<dyn Engine> {
        Box::new(self())
    }
}

/// An engine with a directory of its own, gone when the case ends.
pub struct Rig<'a> {
    harness: &'a dyn Harness,
    engine: Option<Box<dyn Engine>>,
    root: tempfile::TempDir,
}

impl std::fmt::Debug for Rig<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rig").field("root", &self.root.path()).finish_non_exhaustive()
    }
}

impl<'a> Rig<'a> {
    /// A fresh engine and an empty directory.
    pub fn new(harness: &'a dyn Harness) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory can be made");
        Self { harness, engine: Some(harness.engine()), root }
    }

    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        &**self.engine.as_ref().expect("only `restart` takes it, and puts one back")
    }

    /// Ends the process, as far as the engine is concerned, and starts the next one. All shards must be gone before.
    pub fn restart(&mut self) {
        self.engine = None;
        self.engine = Some(self.harness.engine());
    }

    /// A path below the case's directory, where nothing is yet.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Opens the shard `name`, with these spaces; a persistent engine gets a directory.
    pub fn try_open(&self, name: &str, spaces: &[SpaceSpec]) -> Result<Box<dyn Shard>> {
        self.try_open_as(name, spaces, false)
    }

    pub(crate) fn try_open_as(&self, name: &str, spaces: &[SpaceSpec], unlogged: bool) -> Result<Box<dyn Shard>> {
        let dir = self.engine().persistent().then(|| self.path(name));
        if let Some(dir) = &dir {
            std::fs::create_dir_all(dir).expect("a directory can be made in a temporary one");
        }
        self.engine().open(&ShardSpec { dir: dir.as_deref(), spaces, unlogged })
    }

    /// Opens the shard `name`, with the spaces [`A`] and [`B`].
    #[track_caller]
    pub fn open_named(&self, name: &str) -> Box<dyn Shard> {
        self.try_open(name, &[spec(A), spec(B)]).expect("the shard opens")
    }

    /// Opens the case's shard, with the spaces [`A`] and [`B`], as [unlogged](ShardSpec::unlogged) or not.
    #[track_caller]
    pub fn open_as(&self, unlogged: bool) -> Box<dyn Shard> {
        self.try_open_as("shard", &[spec(A), spec(B)], unlogged).expect("the shard opens")
    }

    /// Opens the case's shard, with the spaces [`A`] and [`B`].
    #[track_caller]
    pub fn open(&self) -> Box<dyn Shard> {
        self.open_named("shard")
    }
}

/// A specification of a space, as all cases have it.
pub(crate) fn spec(id: SpaceId) -> SpaceSpec {
    SpaceSpec { id, name: format!("space-{}", id.0), expires: id == B }
}
