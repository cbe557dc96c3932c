//! Engines that keep everything in memory, and say so.

use millpond_store_api::{Flush, ShardSpec};

use crate::harness::spec;
use crate::tools::{all, apply, fill, numbered, put};
use crate::{A, B, Harness, Rig};

/// Nothing is ever durable, and flushing is no error.
pub fn nothing_is_durable(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"v")], b"m");
    for how in [Flush::Start, Flush::Wait] {
        shard.flush(how).unwrap();
        assert_eq!(shard.durable().unwrap(), None);
    }
}

/// A shard that was closed comes back empty.
pub fn a_reopened_shard_is_empty(harness: &dyn Harness) {
    let mut rig = Rig::new(harness);
    for restart in [false, true] {
        let mut shard = rig.open();
        assert_eq!(shard.committed(), None);
        assert!(all(&*shard, A).is_empty());
        fill(&mut *shard, A, &numbered(10), b"m");
        shard.close().unwrap();
        if restart {
            rig.restart();
        }
    }
    assert_eq!(rig.open().committed(), None);
}

/// No directory is needed, and any number of shards may be open.
pub fn opens_without_a_directory(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    assert!(!rig.engine().persistent());
    let spaces = [spec(A), spec(B)];
    let shards: Vec<_> = (0..5)
        .map(|_| rig.engine().open(&ShardSpec { dir: None, spaces: &spaces, unlogged: false }).unwrap())
        .collect();
    assert!(shards.iter().all(|shard| !shard.capabilities().persistent));
}
