//! Keys of the windowed space: their order, the way back from bytes, damaged bytes, and the edges of buckets.

use std::ops::Bound;

use millpond_store_api::schema::{
    Buckets, ExpiringKey, Suffix, SuffixKind, escape, escape_end, escape_prefix, unescape,
};
use millpond_store_api::{Direction, ErrorKind, Prefix, Range};
use proptest::prelude::*;

const MINUTE: i64 = 60_000;

/// Keys full of the bytes that the escape is about.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0xFE), Just(0xFF), any::<u8>()], 0..6)
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        -100..100_i64,
        (0..40_i64, -1..=1_i64).prop_map(|(minute, off)| minute * MINUTE + off),
        Just(i64::MIN),
        Just(i64::MAX),
    ]
}

fn retention() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        0..100_i64,
        (0..100_i64, -1..=1_i64).prop_map(|(m, off)| m * MINUTE + off),
        Just(i64::MAX)
    ]
}

fn suffix(kind: SuffixKind) -> BoxedStrategy<Suffix> {
    match kind {
        SuffixKind::Time => time().prop_map(Suffix::Time).boxed(),
        SuffixKind::Sequence => (time(), any::<u32>()).prop_map(|(t, n)| Suffix::Sequence(t, n)).boxed(),
        SuffixKind::Times => (time(), time()).prop_map(|(a, b)| Suffix::Times(a, b)).boxed(),
    }
}

fn kind() -> impl Strategy<Value = SuffixKind> {
    prop_oneof![Just(SuffixKind::Time), Just(SuffixKind::Sequence), Just(SuffixKind::Times)]
}

/// Two rows of one kind, as they sort: bucket, store, key, suffix.
type Parts = (u32, u16, Vec<u8>, Suffix);

fn parts(kind: SuffixKind) -> impl Strategy<Value = Parts> {
    (prop_oneof![0..3_u32, any::<u32>()], 0..3_u16, key(), suffix(kind))
}

fn encode((bucket, store, key, suffix): &Parts) -> Vec<u8> {
    let mut out = Vec::new();
    ExpiringKey { bucket: *bucket, store: *store, key, suffix: *suffix }.encode(&mut out);
    out
}

fn escaped(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    escape(key, &mut out);
    out
}

proptest! {
    #[test]
    fn bytes_sort_as_bucket_store_key_and_suffix_do(
        (a, b) in kind().prop_flat_map(|kind| (parts(kind), parts(kind))),
    ) {
        prop_assert_eq!(encode(&a).cmp(&encode(&b)), a.cmp(&b));
    }

    #[test]
    fn what_is_written_is_read(
        (kind, parts) in kind().prop_flat_map(|kind| (Just(kind), parts(kind))),
    ) {
        let (bytes, mut scratch) = (encode(&parts), vec![7]);
        let read = ExpiringKey::decode(kind, &bytes, &mut scratch).unwrap();
        prop_assert_eq!((read.bucket, read.store, read.key.to_vec(), read.suffix), parts);
        prop_assert_eq!(ExpiringKey::bucket_of(&bytes).unwrap(), read.bucket);
        prop_assert!(bytes.starts_with(&ExpiringKey::head(read.bucket, read.store)));
    }

    /// Whatever the bytes: a named error, or exactly the key that has them.
    #[test]
    fn damaged_bytes_are_a_named_error(
        (kind, parts) in kind().prop_flat_map(|kind| (Just(kind), parts(kind))),
        at in any::<prop::sample::Index>(),
        flip in 1..=0xFF_u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = encode(&parts);
        let mut flipped = whole.clone();
        *at.get_mut(&mut flipped) ^= flip;
        for bytes in [&flipped[..], &whole[..cut.index(whole.len())], &[&whole[..], &[0]].concat()] {
            let mut scratch = Vec::new();
            match ExpiringKey::decode(kind, bytes, &mut scratch) {
                Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
                Ok(read) => {
                    let mut again = Vec::new();
                    read.encode(&mut again);
                    prop_assert_eq!(again, bytes);
                }
            }
        }
        prop_assert!(ExpiringKey::decode(kind, &whole[..whole.len() - 1], &mut Vec::new()).is_err());
    }

    #[test]
    fn escaped_keys_have_the_prefixes_of_their_keys(prefix in key(), key in key()) {
        let mut open = Vec::new();
        escape_prefix(&prefix, &mut open);
        prop_assert_eq!(escaped(&key).starts_with(&open), key.starts_with(&prefix));
        prop_assert!(key == prefix || !escaped(&key).starts_with(&escaped(&prefix)));
        prop_assert_eq!(Prefix::new(&open).range().contains(&escaped(&key)), key.starts_with(&prefix));
    }

    /// Between a key's rows and its end lies no other key's row.
    #[test]
    fn the_end_of_a_key_lies_right_behind_its_rows(a in key(), b in key(), behind in any::<[u8; 4]>()) {
        let mut end = Vec::new();
        escape_end(&a, &mut end);
        prop_assert_eq!([escaped(&b), behind.to_vec()].concat() < end, b <= a);
    }

    #[test]
    fn a_key_comes_off_the_front(key in key(), behind in prop::collection::vec(any::<u8>(), 0..4)) {
        let bytes = [escaped(&key), behind.clone()].concat();
        let mut scratch = Vec::new();
        prop_assert_eq!(unescape(&bytes, &mut scratch).unwrap(), (&key[..], &behind[..]));
    }

    #[test]
    fn later_rows_are_in_later_buckets(retention in retention(), a in time(), b in time()) {
        let buckets = Buckets::new(retention);
        prop_assert!(buckets.of(a.min(b)) <= buckets.of(a.max(b)));
    }

    /// What is dropped has expired: against the rule in numbers that cannot overflow.
    #[test]
    fn what_is_alive_is_never_dropped(retention in retention(), row in time(), now in time()) {
        let buckets = Buckets::new(retention);
        let alive = i128::from(row) > i128::from(now) - i128::from(retention.max(0));
        prop_assert_eq!(buckets.earliest_alive(now).is_some_and(|earliest| row >= earliest), alive);
        let kept = buckets.of(row).to_be_bytes() >= Buckets::dead_below(now);
        prop_assert!(kept || !alive, "dropped alive");
    }

    /// And what has expired is dropped within a width and a minute.
    #[test]
    fn what_has_expired_is_dropped_soon(retention in retention(), row in -1_000_000..1_000_000_i64) {
        let buckets = Buckets::new(retention);
        let width = i64::from(buckets.width()) * MINUTE;
        let late = row.saturating_add(buckets.retention()).max(0).saturating_add(width).saturating_add(MINUTE);
        let kept = buckets.of(row).to_be_bytes() >= Buckets::dead_below(late);
        prop_assert_eq!(kept, buckets.of(row) == Buckets::NEVER);
    }

    #[test]
    fn rows_that_are_alive_lie_in_nine_buckets(retention in retention(), now in time()) {
        let buckets = Buckets::new(retention);
        if let Some(earliest) = buckets.earliest_alive(now).filter(|earliest| *earliest <= now) {
            let (mut bucket, last) = (buckets.of(earliest), buckets.of(now));
            let mut count = 1;
            while bucket < last {
                bucket = buckets.at_or_after(bucket + 1);
                count += 1;
            }
            prop_assert!(bucket == last && count <= Buckets::MAX_ALIVE, "{count} buckets");
        }
    }

    #[test]
    fn minutes_are_rounded_to_buckets_of_the_store(retention in retention(), minute in any::<u32>()) {
        let buckets = Buckets::new(retention);
        let (before, after) = (buckets.at_or_before(minute), buckets.at_or_after(minute));
        prop_assert!(before <= minute && minute <= after);
        prop_assert_eq!(buckets.at_or_after(before), before);
        prop_assert_eq!(buckets.at_or_before(after), after);
        prop_assert!(after == Buckets::NEVER || after - before <= buckets.width());
    }
}

/// The layout, byte by byte: files of this release have it.
#[test]
fn the_bytes_of_a_key() {
    for (suffix, bytes) in [
        (Suffix::Time(1), &b"\x80\0\0\0\0\0\0\x01"[..]),
        (Suffix::Sequence(-1, 2), b"\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\x02"),
        (Suffix::Times(i64::MAX, i64::MIN), b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\0\0\0\0\0"),
    ] {
        let want = [&b"\x01\x02\x03\x04\x05\x06k\0\xFFl\0\x01"[..], bytes].concat();
        assert_eq!(encode(&(0x0102_0304, 0x0506, b"k\0l".to_vec(), suffix)), want);
    }
}

#[test]
fn every_wrong_length_of_a_suffix_is_corrupt() {
    for kind in [SuffixKind::Time, SuffixKind::Sequence, SuffixKind::Times] {
        for len in (0..=SuffixKind::MAX_LEN + 1).filter(|len| *len != kind.len()) {
            assert_eq!(Suffix::decode(kind, &vec![0; len]).unwrap_err().kind(), ErrorKind::Corrupt, "{kind:?} {len}");
        }
        assert!(Suffix::decode(kind, &vec![0; kind.len()]).is_ok());
    }
}

#[test]
fn every_short_head_is_corrupt() {
    for len in 0..ExpiringKey::HEAD {
        let read = ExpiringKey::decode(SuffixKind::Time, &vec![0; len], &mut Vec::new()).map(drop);
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(ExpiringKey::bucket_of(&[0; 6][..len]).is_ok(), len >= 4);
    }
}

#[test]
fn the_width_is_an_eighth_of_the_retention_and_a_minute_at_least() {
    for (retention, width) in [
        (i64::MIN, 1),
        (0, 1),
        (1, 1),
        (8 * MINUTE, 1),
        (8 * MINUTE + 1, 2),
        (24 * 60 * MINUTE, 180),
        (i64::MAX, u32::MAX),
    ] {
        assert_eq!(Buckets::new(retention).width(), width, "{retention}");
    }
}

#[test]
fn buckets_at_the_edges() {
    let hour = Buckets::new(60 * MINUTE);
    assert_eq!((hour.width(), hour.of(0), hour.of(1), hour.of(4 * MINUTE)), (8, 64, 64, 64));
    assert_eq!(hour.of(4 * MINUTE + 1), 72);
    assert_eq!((hour.of(-60 * MINUTE), hour.of(-60 * MINUTE + 1), hour.of(i64::MIN)), (0, 8, 0));
    assert_eq!((hour.of(i64::MAX), hour.at_or_after(u32::MAX - 1)), (Buckets::NEVER, Buckets::NEVER));
    assert_eq!(Buckets::dead_below(i64::MIN), [0; 4]);
    assert_eq!(Buckets::dead_below(-1), [0; 4]);
    assert_eq!(Buckets::dead_below(0), [0, 0, 0, 1]);
    assert_eq!(Buckets::dead_below(MINUTE - 1), [0, 0, 0, 1]);
    assert_eq!(Buckets::dead_below(i64::MAX), [0xFF; 4]);
    let none = Buckets::new(0);
    assert_eq!((none.earliest_alive(5), none.earliest_alive(i64::MAX)), (Some(6), None));
}

/// What the head alone makes: a range of the store's rows in one bucket, at the last store and bucket too.
#[test]
fn heads_are_ranges() {
    for (bucket, store) in [(0, 0), (7, u16::MAX), (u32::MAX, u16::MAX)] {
        let prefix = Prefix::new(&ExpiringKey::head(bucket, store));
        let row = encode(&(bucket, store, vec![0xFF; 3], Suffix::Time(i64::MAX)));
        assert!(prefix.range().contains(&row));
        let after = Range::new(Bound::Included(&row), Bound::Unbounded).after(&row, Direction::Forward);
        assert!(!after.contains(&row));
    }
}

#[test]
fn debug_output_shows_no_key() {
    let key = ExpiringKey { bucket: 1, store: 2, key: b"secret", suffix: Suffix::Time(3) };
    let shown = format!("{key:?}");
    assert!(shown.contains("key_len: 6") && !shown.contains("secret") && !shown.contains("115"), "{shown}");
}
