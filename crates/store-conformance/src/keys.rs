//! Adversarial keys: prefixes of each other, runs of `00` and `FF`, lengths around the sizes that engines treat specially.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};

use millpond_store_api::{Direction, Flush, Prefix, Range, Shard};

use crate::tools::{BOTH, Rows, all, apply, assert_bytes, assert_rows, delete, expected, fill, get, next_key, scan};
use crate::{A, Harness, Rig};

/// Runs of one byte, of each length up to 70, plain and with another byte at their end.
pub(crate) fn adversarial() -> Rows {
    let mut keys = BTreeSet::new();
    for byte in [0x00, 0x01, b'a', 0x7F, 0x80, 0xFE, 0xFF] {
        for len in (0..=10).chain([14, 15, 16, 17, 21, 22, 23, 24, 29, 30, 31, 32, 33, 63, 64, 65, 70]) {
            let run = vec![byte; len];
            for end in [0x00, 0x01, 0x7F, 0x80, 0xFF] {
                keys.insert([&run[..], &[end]].concat());
            }
            keys.insert(run);
        }
    }
    keys.into_iter().enumerate().map(|(i, key)| (key, i.to_string().into_bytes())).collect()
}

/// A shard with the adversarial keys: half of them flushed, all of them written out of order.
fn shard_of(rig: &Rig<'_>, rows: &Rows) -> Box<dyn Shard> {
    let mut shuffled = rows.clone();
    fastrand::Rng::with_seed(6).shuffle(&mut shuffled);
    let mut shard = rig.open();
    let (flushed, fresh) = shuffled.split_at(shuffled.len() / 2);
    fill(&mut *shard, A, flushed, b"1");
    shard.flush(Flush::Wait).expect("the shard is flushed");
    fill(&mut *shard, A, fresh, b"2");
    shard
}

/// Each adversarial key has its own value.
pub fn every_key_has_its_own_value(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let rows = adversarial();
    let shard = shard_of(&rig, &rows);
    for (key, value) in &rows {
        assert_bytes(get(&*shard, A, key).as_deref(), Some(value), "the value");
    }
    let keys: Vec<&[u8]> = rows.iter().map(|(k, _)| k.as_slice()).collect();
    let mut found = 0;
    shard
        .multi_get(A, &keys, &mut |i, value| {
            assert_eq!(value, rows[i].1);
            found += 1;
        })
        .unwrap();
    assert_eq!(found, rows.len());
}

/// They are walked in byte order, both ways.
pub fn every_key_in_its_place(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let rows = adversarial();
    let shard = shard_of(&rig, &rows);
    for direction in BOTH {
        assert_rows(&scan(&*shard, A, Range::ALL, direction), &expected(&rows, Range::ALL, direction), "all");
    }
}

/// Each of them as a bound, included and excluded, lower and upper: the first row of the walk is the right one.
pub fn every_key_as_a_bound(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let rows = adversarial();
    let shard = shard_of(&rig, &rows);
    let first = |range, direction| next_key(&mut *shard.scan(A, range, direction).unwrap());
    let key = |i: Option<usize>| i.and_then(|i| rows.get(i)).map(|(k, _)| k.clone());
    for (i, (k, _)) in rows.iter().enumerate() {
        let at = Some(i);
        assert_eq!(first(Range::new(Included(k), Unbounded), Direction::Forward), key(at));
        assert_eq!(first(Range::new(Excluded(k), Unbounded), Direction::Forward), key(at.map(|i| i + 1)));
        assert_eq!(first(Range::new(Unbounded, Included(k)), Direction::Reverse), key(at));
        if !k.is_empty() {
            assert_eq!(first(Range::new(Unbounded, Excluded(k)), Direction::Reverse), key(i.checked_sub(1)));
        }
    }
}

/// Each of them as the target of a seek.
pub fn every_key_as_a_target(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let rows = adversarial();
    let shard = shard_of(&rig, &rows);
    for direction in BOTH {
        let mut leaps = shard.scan(A, Range::ALL, direction).unwrap();
        for (key, _) in expected(&rows, Range::ALL, direction).iter().step_by(3) {
            let mut fresh = shard.scan(A, Range::ALL, direction).unwrap();
            fresh.seek(key).unwrap();
            assert_eq!(next_key(&mut *fresh).as_ref(), Some(key));
            leaps.seek(key).unwrap();
            assert_eq!(next_key(&mut *leaps).as_ref(), Some(key));
        }
    }
}

/// Each of them as a prefix: exactly the keys that begin with it.
pub fn every_key_as_a_prefix(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let rows = adversarial();
    let shard = shard_of(&rig, &rows);
    for (i, (prefix, _)) in rows.iter().enumerate() {
        let want: Rows = rows.iter().filter(|(k, _)| k.starts_with(prefix)).cloned().collect();
        let direction = BOTH[i % 2];
        let got = scan(&*shard, A, Prefix::new(prefix).range(), direction);
        assert_rows(&got, &expected(&want, Range::ALL, direction), "the keys with a prefix");
    }
}

/// Deleting every other one leaves the neighbours alone.
pub fn deleting_a_key_leaves_its_neighbours(harness: &dyn Harness) {
    let rig = Rig::new(harness);
    let rows = adversarial();
    let mut shard = shard_of(&rig, &rows);
    let deletes: Vec<_> = rows.iter().step_by(2).map(|(k, _)| delete(A, k)).collect();
    apply(&mut *shard, &deletes, b"3");
    let left: Rows = rows.iter().skip(1).step_by(2).cloned().collect();
    assert_rows(&all(&*shard, A), &left, "the keys that were left");
}
