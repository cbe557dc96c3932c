//! A task's state: the overlays over its shards, the memory budget, and the directory in which shards live.

mod budget;
mod dir;
mod error;
mod overlay;

pub use budget::{
    Budget, ClientMemory, Excess, Held, MemoryBudget, MemorySettings, QueueBudget, QueueShare, Share, available_memory,
};
pub use dir::{StateDir, TaskLock, TaskOnDisk};
pub(crate) use dir::{make_dir, read_file, replace_file};
pub use error::{StateError, StateErrorKind};
pub use overlay::{Chain, DrainedEntry, Entry, LoggedWrites, Overlay, OverlayOptions};
