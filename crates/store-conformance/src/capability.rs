//! What an engine declares must work, and what it does not declare must be refused.

use millpond_store_api::{ErrorKind, ShardSpec};

use crate::harness::spec;
use crate::tools::{all, apply, assert_rows, fill, get, kind, numbered, put};
use crate::{A, B, Harness, Rig};

/// The engine has a name for settings and metrics: lower case letters, digits, `-` and `_`.
pub fn the_engine_has_a_name(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let name = rig.engine().name();
    assert!(!name.is_empty());
    assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b)), "`{name}`");
}

/// A shard's abilities agree with what the engine says, and stay the same for its whole life.
pub fn capabilities_do_not_change(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let declared = shard.capabilities();
    assert_eq!(declared.persistent, rig.engine().persistent());
    fill(&mut *shard, A, &numbered(100), b"m");
    shard.flush(millpond_store_api::Flush::Wait).unwrap();
    assert_eq!(shard.capabilities(), declared);
    assert_eq!(rig.open_named("other").capabilities(), declared);
}

/// A checkpoint, if declared, opens like the shard at its committed state; the shard goes on, and neither sees the other's
/// writes. If it is not declared, the call is refused as `Unsupported`, and nothing is made.
pub fn a_checkpoint_works_or_is_unsupported(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(200);
    fill(&mut *shard, A, &rows, b"1");
    shard.flush(millpond_store_api::Flush::Wait).unwrap();
    apply(&mut *shard, &[put(B, b"after the flush", b"v")], b"2");
    let to = rig.path("checkpoint");
    if !shard.capabilities().cheap_checkpoint {
        assert_eq!(kind(shard.checkpoint(&to), "an undeclared checkpoint"), ErrorKind::Unsupported);
        assert!(!to.exists());
        return;
    }
    shard.checkpoint(&to).unwrap();
    apply(&mut *shard, &[put(B, b"after the checkpoint", b"v")], b"3");
    let spaces = [spec(A), spec(B)];
    let mut copy = rig.engine().open(&ShardSpec { dir: Some(&to), spaces: &spaces, unlogged: false }).unwrap();
    assert_eq!(copy.committed(), Some(&b"2"[..]));
    assert_rows(&all(&*copy, A), &rows, "the first space of the copy");
    assert_rows(&all(&*copy, B), &[(b"after the flush".to_vec(), b"v".to_vec())], "the second space of the copy");
    apply(&mut *copy, &[put(A, b"only here", b"v")], b"4");
    assert_eq!(get(&*shard, A, b"only here"), None);
    assert_eq!((all(&*shard, B).len(), shard.committed()), (2, Some(&b"3"[..])));
    copy.destroy().unwrap();
    assert_rows(&all(&*shard, A), &rows, "the shard after its copy is gone");
}

/// A refused checkpoint, or one that worked, leaves the shard as it was.
pub fn a_shard_goes_on_after_a_checkpoint(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"1")], b"1");
    for i in 0..3 {
        let declared = shard.capabilities().cheap_checkpoint;
        assert_eq!(shard.checkpoint(&rig.path(&format!("copy-{i}"))).is_ok(), declared);
        apply(&mut *shard, &[put(A, b"k", b"2")], b"2");
        assert_eq!((get(&*shard, A, b"k"), shard.committed()), (Some(b"2".to_vec()), Some(&b"2"[..])));
    }
}
