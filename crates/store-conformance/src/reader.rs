//! Readers: the committed state, from any thread, while the writer goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millpond_store_api::{Direction, ErrorKind, Flush, Isolation, Range, Shard, ShardReader, SpaceId};

use crate::tools::{BOTH, apply, assert_rows, delete, drain, expected, fill, get, kind, next_key, numbered, put, scan};
use crate::{A, B, Harness, Rig};

/// Runs the body on another thread, and waits for it.
fn elsewhere<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| threads.spawn(body).join().expect("the other thread ends well"))
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// A reader answers what the writer does: gets, `multi_get`, walks, seeks, both ways.
pub fn a_reader_reads_what_the_shard_reads(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(3_000);
    fill(&mut *shard, A, &rows, b"m");
    apply(&mut *shard, &[put(B, b"k", b"other")], b"n");
    let reader = shard.reader();
    elsewhere(|| {
        for direction in BOTH {
            assert_rows(&scan(&*reader, A, Range::ALL, direction), &expected(&rows, Range::ALL, direction), "reader");
        }
        assert_eq!(get(&*reader, B, b"k"), Some(b"other".to_vec()));
        assert_eq!(get(&*reader, A, b"k"), None);
        let keys: [&[u8]; 3] = [&rows[7].0, b"absent", &rows[2_999].0];
        let mut found = Vec::new();
        reader.multi_get(A, &keys, &mut |i, v| found.push((i, v.to_vec()))).unwrap();
        found.sort();
        assert_eq!(found, [(0, rows[7].1.clone()), (2, rows[2_999].1.clone())]);
        let mut cursor = reader.scan(A, Range::ALL, Direction::Forward).unwrap();
        cursor.seek(&rows[2_000].0).unwrap();
        assert_eq!(next_key(&mut *cursor).as_ref(), Some(&rows[2_000].0));
        assert_eq!(reader.committed().unwrap().as_deref(), Some(&b"n"[..]));
    });
}

/// A reader that was made before the first batch sees each batch once `apply` has returned.
pub fn a_reader_follows_the_writer(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let reader = shard.reader();
    elsewhere(|| assert_eq!((get(&*reader, A, b"k"), reader.committed().unwrap()), (None, None)));
    for i in 0..20_u32 {
        let value = i.to_be_bytes();
        let write = if i % 5 == 4 { delete(A, b"k") } else { put(A, b"k", &value) };
        apply(&mut *shard, &[write, put(B, &value, b"")], &value);
        if i % 8 == 3 {
            shard.flush(Flush::Wait).unwrap();
        }
        elsewhere(|| {
            assert_eq!(get(&*reader, A, b"k"), write.value.map(<[u8]>::to_vec));
            assert_eq!(reader.committed().unwrap().as_deref(), Some(&value[..]));
            assert_eq!(scan(&*reader, B, Range::ALL, Direction::Forward).len(), i as usize + 1);
        });
    }
}

/// A refused batch is not seen by readers either.
pub fn a_reader_does_not_see_a_refused_batch(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"1")], b"1");
    let reader = shard.reader();
    let refused = [put(A, b"k", b"2"), put(SpaceId(99), b"k", b"2")];
    assert!(shard.apply(&mut millpond_store_api::List::new(&refused), b"2").is_err());
    assert_eq!(get(&*reader, A, b"k"), Some(b"1".to_vec()));
    assert_eq!(reader.committed().unwrap().as_deref(), Some(&b"1"[..]));
}

/// Reads of a space that the shard does not have are `Invalid`.
pub fn a_reader_refuses_unknown_spaces(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let shard = rig.open();
    let (reader, unknown) = (shard.reader(), SpaceId(3));
    assert_eq!(kind(reader.get(unknown, b"k", &mut |_| ()), "get"), ErrorKind::Invalid);
    assert_eq!(kind(reader.multi_get(unknown, &[b"k"], &mut |_, _| ()), "multi_get"), ErrorKind::Invalid);
    assert_eq!(kind(reader.scan(unknown, Range::ALL, Direction::Forward).map(drop), "scan"), ErrorKind::Invalid);
    assert_eq!(kind(reader.approximate_num_entries(unknown), "a count"), ErrorKind::Invalid);
}

/// The metadata that a reader answers is not older than a row that it read before; and rows never go back in time.
pub fn committed_is_not_older_than_a_row(harness: &dyn Harness) {
    racing(harness, &|reader, before| {
        let row = get(reader, A, b"k").map_or(0, |v| number(&v));
        let committed = reader.committed().unwrap().map_or(0, |m| number(&m));
        assert!(row >= before, "a row goes back from {before} to {row}");
        assert!(committed >= row, "`committed` is {committed}, but the row is of batch {row}");
        committed
    });
}

/// A walk that runs into batches keeps the declared isolation: of rows that each batch writes all of, a walk with
/// [`Isolation::Scan`] sees one version, one with [`Isolation::Chunk`] newer versions only behind older ones.
pub fn a_walk_keeps_the_declared_isolation(harness: &dyn Harness) {
    let isolation = {
        let rig = Rig::new(harness);
        rig.open().capabilities().isolation
    };
    racing(harness, &|reader, before| {
        let mut last = before;
        for direction in BOTH {
            let versions: Vec<u32> =
                scan(reader, B, Range::ALL, direction).iter().map(|(_, version)| number(version)).collect();
            assert!(versions.is_empty() || versions.len() == ROWS as usize, "{} rows", versions.len());
            assert!(versions.is_sorted(), "rows of a walk go back in time");
            if isolation == Isolation::Scan {
                assert_eq!(versions.first(), versions.last(), "a walk of one moment sees two");
            }
            assert!(versions.first().is_none_or(|first| *first >= last), "a walk goes back behind an earlier one");
            last = versions.last().copied().unwrap_or(last);
        }
        last
    });
}

/// How many rows of [`B`] each racing batch writes.
const ROWS: u32 = 300;

/// A writer applies batches that give `k` and all rows of [`B`] their number, while readers on two threads check; each
/// check is given the answer of the one before. Ends after 60 batches at least, and 20 checks per reader.
fn racing(harness: &dyn Harness, check: &(dyn Fn(&dyn ShardReader, u32) -> u32 + Sync)) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let stop = AtomicBool::new(false);
    /// Lets the readers end when the writer panics, too.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let keys: Vec<_> = (0..ROWS).map(u32::to_be_bytes).collect();
    std::thread::scope(|threads| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (reader, stop) = (shard.reader(), &stop);
                threads.spawn(move || {
                    let (mut checks, mut last) = (0, 0);
                    while checks < 20 || !stop.load(Ordering::Acquire) {
                        last = check(&*reader, last);
                        checks += 1;
                    }
                })
            })
            .collect();
        let enough = Stop(&stop);
        let mut batch = 0_u32;
        while batch < 60 || (batch < 100_000 && readers.iter().any(|reader| !reader.is_finished())) {
            batch += 1;
            let value = batch.to_be_bytes();
            let writes: Vec<_> =
                std::iter::once(put(A, b"k", &value)).chain(keys.iter().map(|k| put(B, k, &value))).collect();
            apply(&mut *shard, &writes, &value);
            stop.store(batch >= 60, Ordering::Release);
        }
        drop(enough);
        readers.into_iter().for_each(|reader| reader.join().expect("the readers' checks hold"));
    });
}

/// A walk of a reader goes on over a batch that is applied in the middle of it: in order, within its range, and without a
/// row that was not there before or after.
pub fn a_walk_goes_on_over_a_batch(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    for direction in BOTH {
        let mut shard = rig.open();
        let rows = numbered(3_000);
        fill(&mut *shard, A, &rows, b"1");
        let reader = shard.reader();
        let isolation = shard.capabilities().isolation;
        let mut cursor = reader.scan(A, Range::ALL, direction).unwrap();
        let model = expected(&rows, Range::ALL, direction);
        for (key, _) in &model[..100] {
            assert_eq!(next_key(&mut *cursor).as_ref(), Some(key));
        }
        let mut writes: Vec<_> = rows.iter().step_by(2).map(|(k, _)| delete(A, k)).collect();
        writes.push(put(A, b"\0\0\x05\0new", b"new"));
        apply(&mut *shard, &writes, b"2");
        let rest = drain(&mut *cursor);
        if isolation == Isolation::Scan {
            assert_rows(&rest, &model[100..], "the walk's rest, of the moment it began");
        } else {
            let after = scan(&*reader, A, Range::ALL, direction);
            let mut sorted: Vec<_> = rest.clone();
            sorted.sort();
            sorted.dedup_by(|a, b| a.0 == b.0);
            assert_rows(&expected(&sorted, Range::ALL, direction), &rest, "the walk's order");
            assert!(rest.iter().all(|row| model[100..].contains(row) || after.contains(row)), "a row out of nowhere");
            let kept = model[100..].iter().filter(|row| after.contains(row));
            assert!(kept.into_iter().all(|row| rest.contains(row)), "a row that was there all the time is missing");
        }
        drop(cursor);
        shard.destroy().unwrap();
    }
}

/// Many readers at once, made on and dropped by several threads, answer alike.
pub fn many_readers(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    let rows = numbered(200);
    fill(&mut *shard, A, &rows, b"m");
    let readers: Vec<Arc<dyn ShardReader>> = (0..6).map(|_| shard.reader()).collect();
    std::thread::scope(|threads| {
        for reader in readers {
            threads.spawn({
                let rows = &rows;
                move || assert_rows(&scan(&*reader, A, Range::ALL, Direction::Forward), rows, "one of many readers")
            });
        }
    });
    apply(&mut *shard, &[put(A, b"k", b"v")], b"n");
    assert_eq!(get(&*shard, A, b"k"), Some(b"v".to_vec()));
}

/// Every call of a reader whose shard is gone is `Retry`: the state may be open elsewhere by now.
fn refuses_everything(reader: &dyn ShardReader) {
    assert_eq!(kind(reader.get(A, b"k", &mut |_| ()), "get after the end"), ErrorKind::Retry);
    assert_eq!(kind(reader.multi_get(A, &[b"k"], &mut |_, _| ()), "multi_get after the end"), ErrorKind::Retry);
    let walk = reader.scan(A, Range::ALL, Direction::Forward).map(drop);
    assert_eq!(kind(walk, "scan after the end"), ErrorKind::Retry);
    assert_eq!(kind(reader.approximate_num_entries(A), "a count after the end"), ErrorKind::Retry);
    assert_eq!(kind(reader.committed(), "committed after the end"), ErrorKind::Retry);
}

fn ends_with(harness: &dyn Harness, end: fn(Box<dyn Shard>)) {
    let rig = Rig::new(harness);
    let mut shard = rig.open();
    apply(&mut *shard, &[put(A, b"k", b"v")], b"m");
    let reader = shard.reader();
    assert_eq!(get(&*reader, A, b"k"), Some(b"v".to_vec()));
    end(shard);
    refuses_everything(&*reader);
    let shard = rig.open();
    refuses_everything(&*reader);
    drop(shard);
}

/// A reader outlives `close`, answers `Retry` then, and keeps nobody from opening the shard again.
pub fn a_reader_after_close(harness: &dyn Harness) {
    ends_with(harness, |shard| shard.close().unwrap());
}

/// The same after `destroy`.
pub fn a_reader_after_destroy(harness: &dyn Harness) {
    ends_with(harness, |shard| shard.destroy().unwrap());
}

/// The same after the shard was dropped without `close`.
pub fn a_reader_after_drop(harness: &dyn Harness) {
    ends_with(harness, drop);
}
