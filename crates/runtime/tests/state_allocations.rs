//! Counts what the overlay allocates for keys seen before, keys and values of up to 22 bytes: nothing.

use millpond_runtime::state::{Chain, DrainedEntry, Overlay, OverlayOptions};
use millpond_store_api::{Cursor, Direction, Empty, Range, Read, Result, SpaceId, Writes};
use millpond_topology::Layer;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// A shard without rows.
struct Nothing;

impl Read for Nothing {
    fn get(&self, _: SpaceId, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(false)
    }

    fn scan(&self, _: SpaceId, _: Range<'_>, _: Direction) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Empty))
    }
}

/// A commit interval of one record per key; one in eight records fails. Answers how many writes went to the log and to the
/// shard.
fn interval(overlay: &mut Overlay, drained: &mut DrainedEntry) -> Result<[usize; 2]> {
    let mut logged = 0;
    for i in 0..1000_u64 {
        let (key, value) = ((i * 7919 % 1000).to_be_bytes(), [b'v'; 22]);
        overlay.touch(&Nothing, &[&key])?;
        overlay.get(&Nothing, &key)?;
        overlay.put(&key, Some(&value), 1)?;
        overlay.put(&key, (i % 16 > 0).then_some(&value[..]), 2)?;
        if i % 8 == 7 { overlay.record_failed() } else { overlay.record_done(&mut |_| logged += 1) }
    }
    while overlay.next_pending(&Nothing, drained)? {
        logged += 1;
    }
    let mut applied = 0;
    let mut writes = Chain::new([&mut *overlay]);
    while writes.next().is_some() {
        applied += 1;
    }
    drop(writes);
    overlay.applied();
    Ok([logged, applied])
}

#[test]
fn known_short_keys_and_values_allocate_nothing() {
    let profiler = dhat::Profiler::builder().testing().build();
    for (caching, keep_old) in [(false, false), (true, false), (true, true)] {
        let mut overlay = Overlay::new(OverlayOptions { space: SpaceId(1), caching, keep_old });
        let mut drained = DrainedEntry::default();
        for _ in 0..3 {
            interval(&mut overlay, &mut drained).unwrap();
        }
        let before = dhat::HeapStats::get().total_blocks;
        let counts = interval(&mut overlay, &mut drained).unwrap();
        let after = dhat::HeapStats::get().total_blocks;
        assert_eq!(after - before, 0, "caching {caching}, keep old {keep_old}");
        let wanted = match (caching, keep_old) {
            // Each of a record's two writes is logged.
            (false, _) => [1750, 875],
            // The last one, also where it deletes what never was: nobody has looked.
            (true, false) => [875, 875],
            // Keys that have no value before and after are passed over.
            (true, true) => [812, 812],
        };
        assert_eq!(counts, wanted, "caching {caching}, keep old {keep_old}");
    }
    drop(profiler);
}
