//! Single behaviours of the overlay: borders, drain, commit, abort, cache.

use super::*;
use std::sync::Arc;

use crate::state::{Budget, Chain, Share};

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_read_fills_a_slot_and_absence_is_remembered() {
    let (mut overlay, base) = (overlay(false, false), Base::of(&[("a", "1")]));
    for _ in 0..3 {
        assert_eq!(get(&mut overlay, &base, "a"), some("1"));
        assert_eq!(get(&mut overlay, &base, "b"), None);
    }
    assert_eq!(base.reads.get(), 2);
    assert_eq!(overlay.peek(b"b"), Some(None));
    assert_eq!(overlay.peek(b"c"), None);
}

#[test]
fn a_put_reads_nothing_and_a_failed_read_leaves_the_slot_unknown() {
    let (mut overlay, base) = (overlay(true, false), Base::of(&[("a", "1"), ("b", "2")]));
    base.fail.set(true);
    write(&mut overlay, "a", Some("3"));
    assert_eq!(get(&mut overlay, &base, "a"), some("3"));
    assert!(overlay.get(&base, b"b").is_err() && overlay.touch(&base, &[b"b"]).is_err());
    base.fail.set(false);
    assert_eq!(get(&mut overlay, &base, "b"), some("2"));
    audit(&overlay);
}

#[test]
fn without_caching_each_write_of_a_record_is_logged_at_its_border() {
    let mut overlay = overlay(false, false);
    put(&mut overlay, "b", Some("1"));
    put(&mut overlay, "a", Some("2"));
    put(&mut overlay, "b", None);
    put(&mut overlay, "b", Some("3"));
    let mut logged = Vec::new();
    overlay.record_done(&mut |entry: Entry<'_>| logged.push((text(entry.key), entry.value.map(text), entry.timestamp)));
    let of_b = |value| ("b".to_owned(), value, 1);
    assert_eq!(logged, [of_b(some("1")), of_b(None), of_b(some("3")), ("a".into(), some("2"), 1)]);
    assert!(done(&mut overlay).is_empty(), "a border without writes logs nothing");
    write(&mut overlay, "b", Some("3"));
    assert_eq!((overlay.pending(), overlay.writes().len()), (0, 2));
}

#[test]
fn a_failed_record_leaves_no_trace() {
    let base = Base::of(&[("clean", "1"), ("unknown", "2")]);
    for caching in [false, true] {
        let mut overlay = overlay(caching, true);
        get(&mut overlay, &base, "clean");
        write(&mut overlay, "written", Some("3"));
        for key in ["clean", "unknown", "written", "new"] {
            put(&mut overlay, key, Some("a value that does not fit into a slot"));
            put(&mut overlay, key, None);
        }
        overlay.record_failed();
        assert!(done(&mut overlay).is_empty());
        assert_eq!(overlay.peek(b"unknown"), None);
        for (key, value) in [("clean", some("1")), ("unknown", some("2")), ("written", some("3")), ("new", None)] {
            assert_eq!(get(&mut overlay, &base, key), value, "{key}");
        }
        let changes = drain(&mut overlay, &base);
        assert_eq!(changes.len(), usize::from(caching));
        assert_eq!(overlay.writes().len(), 1);
        audit(&overlay);
    }
}

#[test]
fn deletes_of_one_interval_are_read_back() {
    for caching in [false, true] {
        let (mut overlay, mut base) = (overlay(caching, false), Base::of(&[("k", "1")]));
        let rows = |overlay: &Overlay, base: &Base| scan(overlay, base, Range::ALL, Direction::Forward).len();
        put(&mut overlay, "k", None);
        assert_eq!((get(&mut overlay, &base, "k"), rows(&overlay, &base)), (None, 0));
        put(&mut overlay, "k", Some("2"));
        assert_eq!((get(&mut overlay, &base, "k"), rows(&overlay, &base)), (some("2"), 1));
        put(&mut overlay, "k", None);
        put(&mut overlay, "only here", Some("1"));
        put(&mut overlay, "only here", None);
        done(&mut overlay);
        drain(&mut overlay, &base);
        commit(&mut overlay, &mut base);
        assert!(base.map.is_empty());
        assert_eq!(get(&mut overlay, &base, "k"), None);
    }
}

#[test]
fn changes_of_an_interval_are_folded_against_what_was_forwarded_last() {
    /// Puts of one interval, what the shard has, what is forwarded.
    type Case<'a> = (&'a [Option<&'a str>], Option<&'a str>, Option<Change>);
    let cases: [Case<'_>; 5] = [
        (&[Some("A"), None], None, None),
        (&[Some("B"), Some("C")], Some("old"), Some(("k".into(), some("C"), some("old")))),
        (&[None, Some("D")], Some("C"), Some(("k".into(), some("D"), some("C")))),
        (&[Some("E"), None], Some("D"), Some(("k".into(), None, some("D")))),
        (&[None], None, None),
    ];
    for (puts, stored, expected) in cases {
        for read_first in [false, true] {
            for keep_old in [false, true] {
                let base = Base::of(&stored.map(|value| ("k", value)).into_iter().collect::<Vec<_>>());
                let mut overlay = overlay(true, keep_old);
                if read_first {
                    get(&mut overlay, &base, "k");
                }
                puts.iter().for_each(|value| write(&mut overlay, "k", *value));
                let change = drain_one(&mut overlay, &base);
                let expected = match &expected {
                    Some((key, new, old)) => Some((key.clone(), new.clone(), old.clone().filter(|_| keep_old))),
                    // Whether anybody has heard of the key is not asked where nobody wants to know.
                    None if !keep_old => Some(("k".into(), None, None)),
                    None => None,
                };
                assert_eq!(change, expected, "{puts:?} over {stored:?}, read first {read_first}");
                assert_eq!(overlay.writes().len(), usize::from(change.is_some()));
                audit(&overlay);
            }
        }
    }
}

#[test]
fn a_key_that_was_logged_and_then_deleted_while_draining_is_deleted_in_the_shard() {
    let (mut overlay, mut base) = (overlay(true, true), Base::of(&[("k", "0")]));
    write(&mut overlay, "k", None);
    assert_eq!(drain_one(&mut overlay, &base), Some(("k".into(), None, some("0"))));
    put(&mut overlay, "k", Some("1"));
    put(&mut overlay, "k", None);
    done(&mut overlay);
    assert_eq!(drain_one(&mut overlay, &base), None, "nobody has heard of the value between");
    commit(&mut overlay, &mut base);
    assert!(base.map.is_empty());
}

#[test]
fn a_put_of_the_drained_key_goes_behind_the_others() {
    let (mut overlay, mut base) = (overlay(true, true), Base::default());
    write(&mut overlay, "k", Some("1"));
    write(&mut overlay, "j", Some("1"));
    write(&mut overlay, "k", Some("2"));
    assert_eq!(drain_one(&mut overlay, &base), Some(("k".into(), some("2"), None)));
    // Downstream of the store, back into it.
    write(&mut overlay, "x", Some("2"));
    write(&mut overlay, "k", Some("3"));
    let rest = [("j", "1", None), ("x", "2", None), ("k", "3", some("2"))];
    assert_eq!(drain(&mut overlay, &base), rest.map(|(key, new, old)| (key.into(), some(new), old)));
    assert_eq!(overlay.pending(), 0);
    commit(&mut overlay, &mut base);
    assert_eq!(base.map, Base::of(&[("j", "1"), ("k", "3"), ("x", "2")]).map);
    audit(&overlay);
}

#[test]
fn an_error_downstream_of_a_drained_entry_leaves_its_write() {
    let (mut overlay, base) = (overlay(true, true), Base::of(&[("k", "0")]));
    write(&mut overlay, "k", Some("1"));
    assert!(drain_one(&mut overlay, &base).is_some());
    put(&mut overlay, "k", Some("2"));
    put(&mut overlay, "x", Some("2"));
    overlay.record_failed();
    assert_eq!((overlay.pending(), overlay.writes().len()), (0, 1));
    assert_eq!(get(&mut overlay, &base, "k"), some("1"));
    write(&mut overlay, "k", Some("3"));
    assert_eq!(drain_one(&mut overlay, &base), Some(("k".into(), some("3"), some("1"))));
}

#[test]
fn an_entry_whose_old_value_cannot_be_read_stays_pending() {
    let (mut overlay, base) = (overlay(true, true), Base::of(&[("k", "0")]));
    write(&mut overlay, "k", Some("1"));
    base.fail.set(true);
    assert!(overlay.next_pending(&base, &mut DrainedEntry::default()).is_err());
    assert_eq!(overlay.pending(), 1);
    base.fail.set(false);
    assert_eq!(drain_one(&mut overlay, &base), Some(("k".into(), some("1"), some("0"))));
}

#[test]
fn a_drained_entry_carries_the_time_of_its_last_write() {
    let (mut overlay, base, mut out) = (overlay(true, false), Base::default(), DrainedEntry::default());
    overlay.put(b"k", Some(b"1"), 10).unwrap();
    done(&mut overlay);
    overlay.put(b"k", Some(b"2"), 30).unwrap();
    done(&mut overlay);
    overlay.put(b"k", Some(b"3"), 50).unwrap();
    overlay.record_failed();
    assert!(overlay.next_pending(&base, &mut out).unwrap());
    assert_eq!((out.entry().value, out.entry().timestamp), (Some(&b"2"[..]), 30));
}

#[test]
fn an_abort_forgets_what_was_written_and_keeps_the_cache() {
    for caching in [false, true] {
        let (mut overlay, base) = (overlay(caching, true), Base::of(&[("a", "1"), ("b", "2")]));
        get(&mut overlay, &base, "b");
        write(&mut overlay, "a", Some("9"));
        drain_one(&mut overlay, &base);
        write(&mut overlay, "c", Some("9"));
        put(&mut overlay, "d", Some("9"));
        scan(&overlay, &base, Range::ALL, Direction::Forward);
        overlay.abort();
        assert!(!overlay.is_dirty() && overlay.pending() == 0 && overlay.writes().is_empty());
        let reads = base.reads.get();
        assert_eq!(get(&mut overlay, &base, "b"), some("2"));
        assert_eq!(base.reads.get(), reads);
        assert_eq!(get(&mut overlay, &base, "a"), some("1"));
        assert_eq!((get(&mut overlay, &base, "c"), get(&mut overlay, &base, "d")), (None, None));
        assert_eq!(scan(&overlay, &base, Range::ALL, Direction::Forward).len(), 2);
        audit(&overlay);
    }
}

#[test]
fn clearing_shows_what_changed_beneath() {
    let (mut overlay, mut base) = (overlay(false, false), Base::default());
    write(&mut overlay, "k", Some("1"));
    commit(&mut overlay, &mut base);
    base.map.insert(b"k".to_vec(), b"3".to_vec());
    assert_eq!(get(&mut overlay, &base, "k"), some("1"));
    overlay.clear();
    assert_eq!(get(&mut overlay, &base, "k"), some("3"));
    audit(&overlay);
}

#[test]
fn a_chain_is_one_batch_of_several_overlays() {
    let spaces = [1, 2, 3].map(|space| OverlayOptions { space: SpaceId(space), caching: false, keep_old: false });
    let mut overlays = spaces.map(Overlay::new);
    write(&mut overlays[0], "b", Some("1"));
    write(&mut overlays[0], "a", None);
    write(&mut overlays[2], "a", Some("2"));
    let mut chain = Chain::new(&mut overlays);
    assert_eq!((chain.len(), chain.is_empty()), (3, false));
    for _ in 0..2 {
        chain.rewind();
        let mut seen = Vec::new();
        while let Some(write) = chain.next() {
            seen.push((write.space.0, text(write.key), write.value.map(text)));
        }
        assert_eq!(seen, [(1, "a".into(), None), (1, "b".into(), some("1")), (3, "a".into(), some("2"))]);
        assert!(chain.next().is_none());
    }
}

#[test]
fn eviction_takes_what_was_not_used_and_never_what_is_not_applied() {
    let (mut overlay, base) = (overlay(false, false), Base::default());
    (0..100).for_each(|i| drop(get(&mut overlay, &base, &format!("clean {i}"))));
    write(&mut overlay, "written", Some("1"));
    let slot = overlay.cache_bytes() / 100;
    assert_eq!(overlay.evict(50 * slot), 50 * slot, "one round clears the marks, the next one takes");
    let used = |overlay: &Overlay| (0..100).find(|i| overlay.peek(format!("clean {i}").as_bytes()).is_some());
    let used = used(&overlay).unwrap();
    get(&mut overlay, &base, &format!("clean {used}"));
    assert_eq!(overlay.evict(49 * slot), 49 * slot);
    assert!(overlay.peek(format!("clean {used}").as_bytes()).is_some(), "what was used is taken last");
    assert_eq!(overlay.evict(usize::MAX), slot);
    assert_eq!((overlay.cache_bytes(), overlay.evict(1)), (0, 0));
    assert_eq!(overlay.peek(b"written"), Some(Some(&b"1"[..])));
    audit(&overlay);
    let slots = overlay.slots.len();
    (0..100).for_each(|i| drop(get(&mut overlay, &base, &format!("again {i}"))));
    assert_eq!(overlay.slots.len(), slots, "freed slots are used again");
}

#[test]
fn overwrites_and_deletes_change_the_count_and_a_huge_value_can_be_evicted() {
    let (mut overlay, mut base) = (overlay(false, false), Base::default());
    let huge = "x".repeat(2 << 20);
    write(&mut overlay, "k", Some(&huge));
    assert!(overlay.uncommitted_bytes() > 2 << 20);
    write(&mut overlay, "k", Some("small"));
    assert!(overlay.uncommitted_bytes() < 1000);
    write(&mut overlay, "k", Some(&huge));
    write(&mut overlay, "k", None);
    assert!(overlay.uncommitted_bytes() < 1000);
    write(&mut overlay, "k", Some(&huge));
    commit(&mut overlay, &mut base);
    assert_eq!(overlay.uncommitted_bytes(), 0);
    assert!(overlay.evict(1) > 2 << 20);
    assert_eq!(overlay.cache_bytes(), 0);
    assert_eq!(get(&mut overlay, &base, "k"), Some(huge));
    audit(&overlay);
}

#[test]
fn an_overlay_that_was_large_gives_its_slots_back() {
    let (mut overlay, mut base) = (overlay(false, false), Base::of(&[("kept", "1")]));
    (0..20_000).for_each(|i| drop(get(&mut overlay, &base, &i.to_string())));
    let slot = overlay.cache_bytes() / 20_000;
    assert_eq!(overlay.evict(15_000 * slot), 15_000 * slot);
    get(&mut overlay, &base, "kept");
    write(&mut overlay, "written", Some("2"));
    commit(&mut overlay, &mut base);
    assert_eq!(overlay.slots.len(), 5_002);
    let reads = base.reads.get();
    assert_eq!((get(&mut overlay, &base, "kept"), get(&mut overlay, &base, "written")), (some("1"), some("2")));
    assert_eq!(base.reads.get(), reads, "what was known is known");
    assert_eq!(overlay.evict(slot), slot, "the hand went back to the first slot");
    audit(&overlay);
}

#[test]
fn a_look_ahead_asks_once_for_what_is_not_known() {
    let (mut overlay, base) = (overlay(false, false), Base::of(&[("a", "1"), ("b", "a value of more than 22 bytes")]));
    write(&mut overlay, "c", Some("9"));
    overlay.touch(&base, &[b"a", b"b", b"a", b"c", b"d"]).unwrap();
    audit(&overlay);
    let reads = base.reads.get();
    assert!(reads <= 4, "the written key is known");
    assert_eq!(get(&mut overlay, &base, "a"), some("1"));
    assert_eq!(get(&mut overlay, &base, "b"), some("a value of more than 22 bytes"));
    assert_eq!((get(&mut overlay, &base, "c"), get(&mut overlay, &base, "d")), (some("9"), None));
    assert_eq!(base.reads.get(), reads);
}

#[test]
fn debug_shows_no_data() {
    let (mut overlay, base) = (overlay(true, true), Base::default());
    write(&mut overlay, "secret", Some("secret"));
    let mut out = DrainedEntry::default();
    assert!(overlay.next_pending(&base, &mut out).unwrap());
    let writes = format!("{:?}", overlay.writes());
    let shown = format!("{overlay:?} {out:?} {:?} {writes}", out.entry());
    assert!(!shown.contains("secret") && shown.contains("key_len: 6"), "{shown}");
}

/// What a worker does between two records: evict its part, then drain the oldest; commit early; and again, since what was
/// committed is cache now.
fn keep_to(budget: &Budget, overlay: &mut Overlay, base: &mut Base) {
    let mut out = DrainedEntry::default();
    loop {
        while let part @ 1.. = budget.excess().map_or(0, |excess| excess.part(overlay.cache_bytes())) {
            if overlay.evict(part) == 0 && !overlay.next_pending(base, &mut out).unwrap() {
                break;
            }
        }
        if !budget.over_uncommitted() {
            return;
        }
        drain(overlay, base);
        commit(overlay, base);
    }
}

/// KAFKA-6023, KAFKA-12500, KAFKA-10500.
#[test]
fn bounds_hold_while_they_are_written_shrunk_and_zero() {
    let (kib, budget, mut base) = (1 << 10, Arc::new(Budget::new(1 << 20, 1 << 20)), Base::default());
    let mut overlays = [false, true].map(|caching| overlay(caching, true).with_budget(&budget));
    let slack = |rows: usize| 2 * (Share::STEP + rows * 2 * kib);
    for (limit, rows) in [(1 << 20, 4000), (64 * kib, 500), (0, 100)] {
        budget.set_limits(limit, 1 << 20);
        for i in 0..rows {
            let value = "x".repeat(if i == rows / 2 { 2 << 20 } else { kib });
            for overlay in &mut overlays {
                write(overlay, &format!("key {}", i * 7919 % 3000), Some(&value));
                keep_to(&budget, overlay, &mut base);
            }
            if i != rows / 2 {
                assert!(budget.cache() <= limit + slack(1), "{} over {limit} at {i}", budget.cache());
                assert!(budget.uncommitted() <= (1 << 20) + slack(1), "{} at {i}", budget.uncommitted());
            }
        }
    }
    overlays.iter().for_each(audit);
    drop(overlays);
    assert_eq!((budget.cache(), budget.uncommitted()), (0, 0));
}

#[test]
fn b126_few_changes_are_counted_exactly_and_undone_with_their_record() {
    let mut base = Base::of(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let count = |overlay: &Overlay, base: &Base| overlay.approximate_num_entries(base).unwrap();
    for caching in [false, true] {
        let mut overlay = overlay(caching, false);
        get(&mut overlay, &base, "a");
        get(&mut overlay, &base, "nothing");
        assert_eq!(count(&overlay, &base), 3, "what is cached only changes nothing");
        write(&mut overlay, "a", Some("replaced"));
        write(&mut overlay, "b", None);
        write(&mut overlay, "new", Some("4"));
        write(&mut overlay, "nothing", None);
        assert_eq!(count(&overlay, &base), 3);
        put(&mut overlay, "a", None);
        put(&mut overlay, "new", None);
        put(&mut overlay, "newer", Some("5"));
        put(&mut overlay, "c", Some("replaced"));
        assert_eq!(count(&overlay, &base), 2, "the record at hand counts");
        overlay.record_failed();
        assert_eq!(count(&overlay, &base), 3);
        let mut drained = DrainedEntry::default();
        while overlay.next_pending(&base, &mut drained).unwrap() {}
        write(&mut overlay, "new", None);
        assert_eq!(count(&overlay, &base), 2, "logged and pending again counts once");
        while overlay.next_pending(&base, &mut drained).unwrap() {}
        base.apply(&mut overlay.writes());
        overlay.applied();
        assert_eq!(count(&overlay, &base), 2);
        write(&mut overlay, "b", Some("back"));
        overlay.abort();
        assert_eq!(count(&overlay, &base), 2);
        base = Base::of(&[("a", "1"), ("b", "2"), ("c", "3")]);
    }
}

#[test]
fn b126_many_changes_are_counted_by_a_sample() {
    let rows: Map = (0..10_000_u32).map(|i| (i.to_be_bytes().to_vec(), vec![1])).collect();
    let base = Base { map: rows, ..Base::default() };
    for caching in [false, true] {
        let mut overlay = overlay(caching, false);
        // A third are new, a third are replaced, a third are deleted; then as many new ones.
        for i in 0..3_000_u32 {
            let (key, value) = match i % 3 {
                0 => (20_000 + i, Some(&b"new"[..])),
                1 => (i, Some(&b"replaced"[..])),
                _ => (i, None),
            };
            overlay.put(&key.to_be_bytes(), value, 1).unwrap();
            overlay.record_done(&mut |_| ());
        }
        let read = base.reads.get();
        let counted = overlay.approximate_num_entries(&base).unwrap();
        assert!((9_400..=10_600).contains(&counted), "{counted}");
        assert!(base.reads.get() - read <= 256);
        for i in 0..9_000_u32 {
            overlay.put(&(30_000 + i).to_be_bytes(), Some(b"new"), 1).unwrap();
            overlay.record_done(&mut |_| ());
        }
        let counted = overlay.approximate_num_entries(&base).unwrap();
        assert!((17_500..=20_500).contains(&counted), "{counted}");
    }
}

#[test]
fn b126_a_count_saturates() {
    /// Says what it is told to, and has no row.
    struct Says(u64);
    impl Read for Says {
        fn get(&self, _: SpaceId, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Result<bool> {
            Ok(false)
        }

        fn multi_get(&self, _: SpaceId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
            keys.iter().enumerate().filter(|(_, key)| key.starts_with(b"old")).for_each(|(i, _)| found(i, b""));
            Ok(())
        }

        fn scan(&self, _: SpaceId, _: Range<'_>, _: Direction) -> Result<Box<dyn Cursor + '_>> {
            panic!("a count walks over nothing")
        }

        fn approximate_num_entries(&self, _: SpaceId) -> Result<u64> {
            Ok(self.0)
        }
    }
    let mut more = overlay(true, false);
    write(&mut more, "new", Some("1"));
    assert_eq!(more.approximate_num_entries(&Says(u64::MAX)).unwrap(), u64::MAX);
    assert_eq!(more.approximate_num_entries(&Says(i64::MAX as u64)).unwrap(), 1 << 63);
    let mut fewer = overlay(true, false);
    write(&mut fewer, "old 1", None);
    write(&mut fewer, "old 2", None);
    assert_eq!(fewer.approximate_num_entries(&Says(1)).unwrap(), 0);
}
