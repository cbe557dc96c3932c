//! A task's state: the overlays over its shards, the memory budget, and the directory in which shards live.

mod budget;
mod overlay;

pub use budget::{Budget, Share};
pub use overlay::{Chain, DrainedEntry, Entry, LoggedWrites, Overlay, OverlayOptions};
