//! The metadata of a shard: round trips, golden bytes, damage.

use proptest::prelude::*;

use super::*;

/// The example of `docs/formats/shard-metadata.md`.
fn example() -> ShardMetadata {
    let mut metadata =
        ShardMetadata { timeline: 1, generation: 300, written_ms: 1_700_000_000_000, ..Default::default() };
    metadata.set_input("in", 2, 200);
    metadata.set_changelog("app-s-changelog", 7, 2, 130);
    metadata.observe("s", 5000);
    metadata
}

#[rustfmt::skip]
const EXAMPLE: &[u8] = &[
    1, 0, // version, flags
    0, 0, 0, 1, // timeline
    0xAC, 0x02, // generation
    0, 0, 0x01, 0x8B, 0xCF, 0xE5, 0x68, 0, // written
    2, // topics
    15, b'a', b'p', b'p', b'-', b's', b'-', b'c', b'h', b'a', b'n', b'g', b'e', b'l', b'o', b'g',
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, // id
    1, 2, 0x82, 0x01, // one changelog partition: 2, next 130
    0, // no input partition
    2, b'i', b'n',
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, // no changelog partition
    1, 2, 0xC8, 0x01, // one input partition: 2, next 200
    1, // stores
    1, b's', 0, 0, 0, 0, 0, 0, 0x13, 0x88,
];

#[test]
fn golden_bytes() {
    let mut out = vec![9; 3];
    example().encode(&mut out);
    assert_eq!(out, EXAMPLE);
    assert_eq!(ShardMetadata::decode(EXAMPLE).unwrap(), example());
}

#[test]
fn a_later_version_is_named_and_nothing_damaged() {
    let mut bytes = EXAMPLE.to_vec();
    bytes[0] = 2;
    let error = ShardMetadata::decode(&bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Future);
    assert!(error.to_string().contains("version=`2` known=`1`"), "{error}");
}

#[test]
fn b086_a_torn_or_damaged_blob_is_corrupt_never_half_read() {
    for len in 0..EXAMPLE.len() {
        assert_eq!(ShardMetadata::decode(&EXAMPLE[..len]).unwrap_err().kind(), ErrorKind::Corrupt, "{len}");
    }
    let longer = [EXAMPLE, &[0]].concat();
    assert_eq!(ShardMetadata::decode(&longer).unwrap_err().kind(), ErrorKind::Corrupt);
    let mut flags = EXAMPLE.to_vec();
    flags[1] = 2;
    assert_eq!(ShardMetadata::decode(&flags).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn b102_each_changelog_has_its_own_position() {
    let mut metadata = example();
    metadata.set_changelog("app-b-changelog", 8, 2, 40);
    metadata.forget_changelog("app-s-changelog", 2);
    assert_eq!(metadata.changelog("app-s-changelog", 2), None);
    assert_eq!(metadata.changelog("app-b-changelog", 2).map(|p| (p.topic_id, p.next)), Some((8, 40)));
    assert_eq!(metadata.input("in", 2), Some(200));
    metadata.forget_changelog("nosuch", 0);
    assert_eq!(metadata.changelogs().count(), 1);
}

#[test]
fn a_topic_may_be_input_and_changelog() {
    let mut metadata = ShardMetadata::default();
    metadata.set_input("t", 0, 5);
    metadata.set_changelog("t", 3, 0, 5);
    metadata.forget_changelog("t", 0);
    assert_eq!(metadata.inputs().collect::<Vec<_>>(), [("t", 0, 5)]);
}

#[test]
fn stream_times_never_go_back_and_ids_are_not_lost() {
    let mut metadata = example();
    metadata.observe("s", 4000);
    assert_eq!(metadata.stream_time("s"), Some(5000));
    metadata.observe("s", 6000);
    assert_eq!(metadata.stream_times().collect::<Vec<_>>(), [("s", 6000)]);
    metadata.set_changelog("app-s-changelog", 0, 2, 131);
    assert_eq!(metadata.changelog("app-s-changelog", 2).map(|p| (p.topic_id, p.next)), Some((7, 131)));
    metadata.forget_stream_time("s");
    assert_eq!(metadata.stream_time("s"), None);
}

#[test]
fn setting_what_is_there_and_encoding_keep_the_buffer() {
    let mut metadata = example();
    let mut out = Vec::with_capacity(EXAMPLE.len());
    let at = out.as_ptr();
    for next in 131..140 {
        metadata.set_changelog("app-s-changelog", 7, 2, next);
        metadata.encode(&mut out);
    }
    assert_eq!(out.as_ptr(), at);
}

fn any_metadata() -> impl Strategy<Value = ShardMetadata> {
    let position = || ("[a-c]{1,2}", 0..4i32, 0..=i64::MAX);
    let positions = || proptest::collection::vec(position(), 0..6);
    let times = proptest::collection::vec(("[a-c]{0,2}", any::<i64>()), 0..4);
    (any::<(u32, u64, i64, bool, u128)>(), positions(), positions(), times).prop_map(
        |((timeline, generation, written_ms, restoring, id), changelogs, inputs, times)| {
            let mut metadata =
                ShardMetadata { timeline, generation, written_ms, restoring, ..ShardMetadata::default() };
            changelogs.iter().for_each(|(topic, partition, next)| metadata.set_changelog(topic, id, *partition, *next));
            inputs.iter().for_each(|(topic, partition, next)| metadata.set_input(topic, *partition, *next));
            times.iter().for_each(|(store, time)| metadata.observe(store, *time));
            metadata
        },
    )
}

proptest! {
    #[test]
    fn comes_back_and_equal_metadata_have_equal_bytes(metadata in any_metadata()) {
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        metadata.encode(&mut bytes);
        let decoded = ShardMetadata::decode(&bytes).unwrap();
        prop_assert_eq!(&decoded, &metadata);
        decoded.encode(&mut again);
        prop_assert_eq!(bytes, again);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = ShardMetadata::decode(&bytes);
        if let Some(version) = bytes.first_mut() {
            *version = VERSION;
        }
        let _ = ShardMetadata::decode(&bytes);
    }

    #[test]
    fn a_flipped_byte_is_no_panic(metadata in any_metadata(), at: prop::sample::Index, to: u8) {
        let mut bytes = Vec::new();
        metadata.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = to;
        let _ = ShardMetadata::decode(&bytes);
    }
}
