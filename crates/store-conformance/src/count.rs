//! About how many rows a space has.

use std::collections::BTreeMap;

use millpond_store_api::{Flush, Shard, SpaceId, Write};

use crate::tools::{apply, delete, fill, put};
use crate::{A, B, Harness, Rig};

/// What the shard and its reader say.
#[track_caller]
fn counts(shard: &dyn Shard, space: SpaceId) -> [u64; 2] {
    let reader = shard.reader();
    [shard.approximate_num_entries(space), reader.approximate_num_entries(space)].map(|n| n.expect("rows are counted"))
}

/// What both say.
#[track_caller]
fn count(shard: &dyn Shard, space: SpaceId) -> u64 {
    let [counted, by_reader] = counts(shard, space);
    assert_eq!(counted, by_reader, "the reader counts otherwise");
    counted
}

/// Two estimates may differ, since files move in the background.
#[track_caller]
fn assert_about(shard: &dyn Shard, space: SpaceId, rows: u64) {
    for counted in counts(shard, space) {
        assert!((rows / 2..=rows * 2).contains(&counted), "{counted} instead of {rows} rows");
    }
}

/// B126: up to 1,000 rows are counted exactly, whatever was put, replaced and deleted in whatever order, each space by itself.
pub fn b126_few_rows_are_counted(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    assert_eq!((count(&*shard, A), count(&*shard, B)), (0, 0));
    let (mut rows, mut random) = (BTreeMap::new(), fastrand::Rng::with_seed(126));
    for step in 0..60_u32 {
        let changes: Vec<_> = (0..50).map(|_| ([random.u8(..), random.u8(..4)], random.bool())).collect();
        let writes: Vec<Write<'_>> =
            changes.iter().map(|(k, is_put)| if *is_put { put(A, k, k) } else { delete(A, k) }).collect();
        apply(&mut *shard, &writes, b"");
        rows.extend(changes.iter().copied());
        if step % 7 == 3 {
            shard.flush(Flush::Wait).unwrap();
        }
        assert_eq!(count(&*shard, A), rows.values().filter(|is_put| **is_put).count() as u64, "step {step}");
    }
    assert!(count(&*shard, A) > 300, "the case means little without rows");
    let deletes: Vec<_> = rows.keys().map(|key| delete(A, key)).collect();
    apply(&mut *shard, &deletes, b"");
    assert_eq!((count(&*shard, A), count(&*shard, B)), (0, 0));
}

/// B126: more rows are counted within a factor of two, small ones beside large ones, before and after a flush.
pub fn b126_many_rows_are_counted_about(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let mut random = fastrand::Rng::with_seed(8736);
    let mut rows = |n: u32, size: usize| -> Vec<_> {
        (0..n)
            .map(|i| (i.to_be_bytes().to_vec(), std::iter::repeat_with(|| random.u8(..)).take(size).collect()))
            .collect()
    };
    fill(&mut *shard, A, &rows(30_000, 8), b"");
    fill(&mut *shard, B, &rows(12_000, 300), b"");
    for _ in 0..2 {
        assert_about(&*shard, A, 30_000);
        assert_about(&*shard, B, 12_000);
        shard.flush(Flush::Wait).unwrap();
    }
    let keys: Vec<_> = (0..30_000_u32).map(u32::to_be_bytes).collect();
    let deletes: Vec<_> = keys.iter().map(|key| delete(A, key)).collect();
    apply(&mut *shard, &deletes, b"");
    assert_eq!(count(&*shard, A), 0);
    assert_about(&*shard, B, 12_000);
}
