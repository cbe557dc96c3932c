//! Keys to logs and back, by example and by any bytes.

use proptest::prelude::*;

use super::*;

const WINDOWED: SpaceId = SpaceId(9);

fn window(duplicates: bool) -> RowLayout {
    RowLayout::Window { windowed: WINDOWED, store: 0x0102, retention: 60_000, duplicates }
}

fn session() -> RowLayout {
    RowLayout::Session { windowed: WINDOWED, store: 0x0102, retention: 60_000 }
}

fn others() -> [RowLayout; 3] {
    let (space, windowed, store) = (SpaceId(1), WINDOWED, 1);
    [
        RowLayout::KeyValue { space },
        RowLayout::Ttl { space, windowed, store, time_to_live: 5 },
        RowLayout::Versioned { space, windowed, store, history: 5 },
    ]
}

fn row(store: u16, key: &[u8], suffix: Suffix) -> Vec<u8> {
    let mut out = Vec::new();
    ExpiringKey { bucket: 7, store, key, suffix }.encode(&mut out);
    out
}

fn logged(layout: RowLayout, row: &[u8]) -> store::Result<Vec<u8>> {
    // What was there before does not matter.
    let mut scratch = b"before".to_vec();
    layout.key_to_log(row, &mut scratch).map(<[u8]>::to_vec)
}

#[test]
fn rows_of_the_windowed_space_are_logged_in_kafka_s_bytes() {
    let (one, two) = ([0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 2]);
    for key in [&b""[..], b"k", b"\0", b"k\0", b"\0\0\x01\xFF", b"\xFF\0"] {
        let time = logged(window(false), &row(0x0102, key, Suffix::Time(1))).unwrap();
        assert_eq!(time, [key, &one, &[0; 4]].concat());
        let sequence = logged(window(true), &row(0x0102, key, Suffix::Sequence(1, 0x0102_0304))).unwrap();
        assert_eq!(sequence, [key, &one, &[1, 2, 3, 4]].concat());
        let times = logged(session(), &row(0x0102, key, Suffix::Times(2, 1))).unwrap();
        assert_eq!(times, [key, &two, &one].concat());
    }
}

#[test]
fn rows_of_other_stores_are_logged_under_their_keys() {
    for layout in others() {
        for key in [&b""[..], b"k", b"\0"] {
            let mut scratch = Vec::new();
            let logged = layout.key_to_log(key, &mut scratch).unwrap();
            assert_eq!((logged, logged.as_ptr()), (key, key.as_ptr()));
            assert_eq!(layout.key_of_log(key).unwrap(), None);
        }
    }
}

#[test]
fn of_a_buffer_the_rows_are_logged_and_what_follows_from_them_is_not() {
    let buffer = RowLayout::Buffer { space: SpaceId(1) };
    for key in [&b""[..], b"k", b"\0"] {
        let row = [b"\x01", key].concat();
        assert!(buffer.is_logged(&row));
        assert_eq!(logged(buffer, &row).unwrap(), key);
    }
    for row in [&b""[..], b"\0\x80\0\0\0\0\0\0\0k", b"\x02"] {
        assert!(!buffer.is_logged(row));
        assert_eq!(logged(buffer, row).unwrap_err().kind(), store::ErrorKind::Corrupt);
    }
    assert!(others().iter().all(|layout| layout.is_logged(b"\x02")));
}

#[test]
fn a_key_that_is_none_of_the_layout_is_not_logged() {
    let good = row(0x0102, b"k", Suffix::Time(1));
    assert!(logged(window(false), &good).is_ok());
    let mut without_end = good.clone();
    without_end.truncate(ExpiringKey::HEAD + 1);
    let damaged = [
        (window(false), Vec::new()),
        (window(false), good[..ExpiringKey::HEAD - 1].to_vec()),
        (window(false), without_end),
        (window(false), row(0x0103, b"k", Suffix::Time(1))),
        (window(false), row(0x0102, b"k", Suffix::Sequence(1, 1))),
        (window(true), good.clone()),
        (window(true), row(0x0102, b"k", Suffix::Sequence(1, 1 << 31))),
        (session(), good),
        (session(), row(0x0102, b"k", Suffix::Times(1, 2))),
    ];
    for (layout, key) in damaged {
        assert_eq!(logged(layout, &key).unwrap_err().kind(), store::ErrorKind::Corrupt, "{layout:?} {key:?}");
    }
    let before = logged(session(), &row(0x0102, b"k", Suffix::Times(5, -1))).unwrap_err();
    assert_eq!(before.kind(), store::ErrorKind::Invalid, "it could not be read again");
}

#[test]
fn what_expires_by_a_record_s_own_time_is_never_left_out() {
    for layout in others() {
        assert!(!layout.has_expired(0, i64::MAX));
    }
    for layout in [window(true), session()] {
        assert!(layout.has_expired(0, 60_000));
        assert!(!layout.has_expired(1, 60_000));
        assert!(!layout.has_expired(i64::MIN, i64::MIN));
    }
    let nothing_lives = RowLayout::Session { windowed: WINDOWED, store: 1, retention: -1 };
    assert!(nothing_lives.has_expired(5, 5) && nothing_lives.has_expired(i64::MAX, i64::MAX));
}

fn suffix(layout: RowLayout, first: i64, second: i64, sequence: u32) -> Suffix {
    match layout {
        RowLayout::Session { .. } => Suffix::Times(first.max(second) & i64::MAX, 0),
        RowLayout::Window { duplicates: true, .. } => Suffix::Sequence(first, sequence >> 1),
        _ => Suffix::Time(first),
    }
}

fn layouts() -> impl Strategy<Value = RowLayout> {
    prop_oneof![Just(window(false)), Just(window(true)), Just(session())]
}

/// Bytes with many zeros.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0), Just(1), Just(0xFF), any::<u8>()], 0..40)
}

proptest! {
    #[test]
    fn a_key_comes_back_from_its_log(layout in layouts(), key in bytes(), first: i64, second: i64, sequence: u32) {
        let suffix = suffix(layout, first, second, sequence);
        let bucket = Buckets::new(60_000).of(suffix.time());
        let written = ExpiringKey { bucket, store: 0x0102, key: &key, suffix };
        let mut row = Vec::new();
        written.encode(&mut row);
        let logged = logged(layout, &row).unwrap();
        prop_assert_eq!(layout.key_of_log(&logged).unwrap(), Some(written));
    }

    #[test]
    fn any_bytes_are_refused_or_mean_one_row(layout in layouts(), bytes in bytes()) {
        if let Ok(read) = layout.key_of_log(&bytes) {
            let mut row = Vec::new();
            read.unwrap().encode(&mut row);
            prop_assert_eq!(logged(layout, &row).unwrap(), bytes);
        }
    }

    #[test]
    fn no_bytes_are_logged_with_a_panic(layout in layouts(), bytes in bytes()) {
        let _ = logged(layout, &bytes);
    }

    #[test]
    fn logging_asks_for_no_more_memory_once_it_had_enough(layout in layouts(), key in bytes(), first: i64) {
        let row = row(0x0102, &key, suffix(layout, first, first, 1));
        let mut scratch = Vec::with_capacity(key.len() + SuffixKind::MAX_LEN);
        let before = (scratch.as_ptr(), scratch.capacity());
        layout.key_to_log(&row, &mut scratch).unwrap();
        prop_assert_eq!((scratch.as_ptr(), scratch.capacity()), before);
    }
}
