//! Engines as factories, and what they are asked to open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::{Result, Shard};

/// The number of a space in its shard; chosen by the library, stable for the life of the shard's files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub u16);

/// One ordered map of bytes to bytes in a shard: the rows of a store, or of all windowed stores of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceSpec {
    /// The number that reads and writes use.
    pub id: SpaceId,
    /// The name for messages, metrics and tools.
    pub name: String,
    /// Rows expire from the low end: [`Shard::drop_below`] will be called, so files are best kept apart by key.
    pub expires: bool,
}

/// What an engine is asked to open.
#[derive(Clone, Copy, Debug)]
pub struct ShardSpec<'a> {
    /// The shard's own directory, which exists. `None`: keep it in memory; a persistent engine refuses that as
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    pub dir: Option<&'a Path>,
    /// All spaces. Those that the files lack are made; those that the files have beyond these stay untouched.
    pub spaces: &'a [SpaceSpec],
    /// The rows of some space have no changelog: nothing gives back what a kill loses. A persistent engine then keeps every
    /// applied batch over the end of the *process*, by a write-ahead log or however it likes, and [`Shard::durable`] answers
    /// like [`Shard::committed`]. Over the end of the *machine*, such as a power cut, it keeps what [`Shard::flush`] has
    /// waited for. Other engines ignore it.
    ///
    /// It may change from one opening of a directory to the next; what was durable by then stays.
    pub unlogged: bool,
}

/// What the shards of an engine take of the process's memory now, in bytes, and how long they have made their writers wait for
/// it. What an engine does not know is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EngineMemory {
    /// What is kept to be read again and could be dropped: blocks of files, with their indexes and filters.
    pub cache: u64,
    /// Of that, what cannot be dropped just now, since look-ups and cursors hold it.
    pub pinned: u64,
    /// What was applied and is not in files yet.
    pub write_buffers: u64,
    /// Rows that have no other place than memory.
    pub rows: u64,
    /// For how long calls of [`Shard::apply`] have waited until there was memory for their batch, since the engine was made, all
    /// in all.
    pub stalled: Duration,
    /// The longest of these waits.
    pub longest_stall: Duration,
}

impl EngineMemory {
    /// All of it.
    pub const fn total(&self) -> u64 {
        self.cache.saturating_add(self.write_buffers).saturating_add(self.rows)
    }
}

/// A storage engine: opens shards. Shared by all workers of a process.
///
/// # Minimal engine
///
/// Implement this trait, [`Shard`] with its supertrait [`Read`](crate::Read), and [`ShardReader`](crate::ShardReader);
/// every store kind then works. Run the suite of `millpond-store-conformance` against it. `docs/custom-engines.md` has the
/// smallest one that passes; `examples/custom-engine` is a persistent one to copy.
pub trait Engine: Send + Sync {
    /// The engine's name in settings, metrics and messages, such as `rocks`.
    fn name(&self) -> &'static str;

    /// Whether shards of this engine need a directory ([`Capabilities::persistent`](crate::Capabilities::persistent)).
    fn persistent(&self) -> bool;

    /// Opens a shard, or makes it. A lock held elsewhere is [`ErrorKind::Retry`](crate::ErrorKind::Retry), files of
    /// another engine or of a format from the future are [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), damaged ones
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt).
    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>>;

    /// Says how many bytes of memory all shards of the engine may take together: its part of `memory.budget.bytes`. Called
    /// before the first [`Engine::open`], and again whenever the budget changes, from any thread.
    ///
    /// An engine keeps to it as well as it can: at once with what it can drop, soon with what it must write first. One that
    /// was given a size of its own when it was made keeps that; one that cannot do with so little takes the least it needs.
    ///
    /// The default ignores it; what is lost is the bound: the process may take more than the user has allowed.
    fn set_memory(&self, bytes: u64) {
        let _ = bytes;
    }

    /// What the engine takes now. Asked about once a second, from any thread; an estimate is enough.
    ///
    /// The default knows nothing; what is lost are the metrics, and the warning that the part is exceeded.
    fn memory(&self) -> EngineMemory {
        EngineMemory::default()
    }
}

/// An engine that its maker keeps a handle of, to ask it what it does while an application has it.
#[deny(clippy::missing_trait_methods)]
impl<E: Engine + ?Sized> Engine for Arc<E> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn persistent(&self) -> bool {
        (**self).persistent()
    }

    fn open(&self, spec: &ShardSpec<'_>) -> Result<Box<dyn Shard>> {
        (**self).open(spec)
    }

    fn set_memory(&self, bytes: u64) {
        (**self).set_memory(bytes);
    }

    fn memory(&self) -> EngineMemory {
        (**self).memory()
    }
}
