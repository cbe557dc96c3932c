//! What a log makes of a suppression buffer, of whatever version its records are.

use millpond_changelog::Change;
use millpond_store_api::{BufferValue, Header, KeyBuffer, ShardSpace, SpaceId};

use super::*;

const SPACE: SpaceId = SpaceId(3);

fn buffer() -> Changelog {
    let rows = RowLayout::Buffer { space: SPACE };
    Changelog { rows, ..changelog("b", SPACE, ValueFormat::AggregationWithHeaders) }
}

/// What waits in a restored buffer: key, since when, prior, old and new value, the update's time, topic and headers.
type Waiting = (String, i64, [Option<String>; 3], i64, String, Vec<(String, Option<Vec<u8>>)>);

fn text(part: Option<&[u8]>) -> Option<String> {
    part.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// All that waits in a shard, in the order in which it is due, and what the totals say of it.
fn waiting(shard: &FakeShard) -> Vec<Waiting> {
    let mut space = ShardSpace::new(shard, SPACE);
    let mut rows = Vec::new();
    let order = shard.rows(SPACE).into_iter().filter(|(key, _)| key[0] == 0);
    for (key, _) in order {
        let time = i64::from_be_bytes(key[1..9].try_into().unwrap()) ^ i64::MIN;
        let mut view = KeyBuffer::new(&mut space);
        let row = view.get(&key[9..]).unwrap().unwrap();
        assert_eq!(row.timestamp, time, "its order has the row's time");
        let BufferValue { context, prior, old, new } = BufferValue::decode_row(row.value).unwrap();
        let headers = context.headers.iter().map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec)));
        let (key, parts) = (text(Some(&key[9..])).unwrap(), [text(prior), text(old), text(new)]);
        rows.push((key, time, parts, context.timestamp, context.topic.to_owned(), headers.collect()));
    }
    let mut view = KeyBuffer::new(&mut space);
    assert_eq!(view.totals().unwrap().rows, rows.len() as u64);
    assert_eq!(view.earliest().unwrap(), rows.first().map(|row| row.1));
    rows
}

fn sized(part: Option<&str>) -> Vec<u8> {
    match part {
        None => (-1_i32).to_be_bytes().to_vec(),
        Some(part) => [&(part.len() as i32).to_be_bytes(), part.as_bytes()].concat(),
    }
}

/// A context without headers of an update from `in`-0.
fn context(timestamp: i64) -> Vec<u8> {
    let (offset, partition, headers) = (5_i64.to_be_bytes(), 0_i32.to_be_bytes(), 0_i32.to_be_bytes());
    [&timestamp.to_be_bytes()[..], &offset, &sized(Some("in")), &partition, &headers].concat()
}

fn change(old: Option<&str>, new: Option<&str>) -> Vec<u8> {
    [sized(old), sized(new)].concat()
}

fn version_0(time: i64, old: Option<&str>, new: Option<&str>) -> Vec<u8> {
    [&time.to_be_bytes()[..], &change(old, new)].concat()
}

fn version_1(time: i64, at: i64, old: Option<&str>, new: Option<&str>) -> Vec<u8> {
    let change = change(old, new);
    let len = (change.len() as i32).to_be_bytes();
    [&time.to_be_bytes()[..], &context(at), &len, &change].concat()
}

fn version_2(time: i64, at: i64, prior: Option<&str>, old: Option<&str>, new: Option<&str>) -> Vec<u8> {
    let change = change(old, new);
    let len = (change.len() as i32).to_be_bytes();
    [&context(at)[..], &len, &change, &sized(prior), &time.to_be_bytes()].concat()
}

fn version_3(time: i64, at: i64, prior: Option<&str>, old: Option<&str>, new: Option<&str>) -> Vec<u8> {
    [&context(at)[..], &sized(prior), &sized(old), &sized(new), &time.to_be_bytes()].concat()
}

/// Key, version and value.
type Written<'a> = (&'a str, Option<u8>, Option<Vec<u8>>);

/// A log of these records.
fn log(records: &[Written<'_>]) -> Log {
    let mut log = Log::starting_at(0);
    for (key, version, value) in records {
        log.push(Some(key.as_bytes()), value.as_deref(), -1);
        let version = version.map(|number| ("v".to_owned(), Some(vec![number])));
        log.entries.last_mut().unwrap().headers = version.into_iter().collect();
    }
    log
}

fn restored(log: &Log, records: usize) -> FakeShard {
    let (mut shard, changelog) = (FakeShard::default(), buffer());
    let mut consumer = FakeConsumer::new(records + 1, &[]);
    consumer.logs.insert((changelog.topic.to_string(), 0), log.clone());
    let limits = ApplyLimits { records, ..ApplyLimits::default() };
    drop(Run::plan(&mut consumer, &mut shard, &[changelog]).limits(limits).complete());
    shard
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn b077_each_version_of_a_buffer_s_log_restores_what_waits() {
    let log = log(&[
        ("0", None, Some(version_0(10, Some("o"), Some("n")))),
        ("1", Some(1), Some(version_1(11, 1, None, Some("n")))),
        ("2", Some(2), Some(version_2(12, 2, Some("p"), Some("o"), None))),
        // Releases that marked version 3 as 2.
        ("23", Some(2), Some(version_3(13, 3, None, Some("o"), Some("n")))),
        ("3", Some(3), Some(version_3(14, 4, Some("p"), Some("p"), Some("n")))),
    ]);
    let own = |key: &str, time, parts, at| (key.to_owned(), time, parts, at, "in".to_owned(), Vec::new());
    for batch in [1, 2, 10] {
        assert_eq!(
            waiting(&restored(&log, batch)),
            [
                // The record itself is what is known of the update.
                ("0".to_owned(), 10, [some("o"), some("o"), some("n")], -1, "b".to_owned(), Vec::new()),
                own("1", 11, [None, None, some("n")], 1),
                own("2", 12, [some("p"), some("o"), None], 2),
                own("23", 13, [None, some("o"), some("n")], 3),
                own("3", 14, [some("p"), some("p"), some("n")], 4),
            ],
            "{batch} records a batch"
        );
    }
}

#[test]
fn versions_without_a_prior_value_keep_that_of_the_row_that_waits() {
    let log = log(&[
        ("k", Some(3), Some(version_3(10, 1, Some("first"), Some("first"), Some("a")))),
        ("k", None, Some(version_0(10, Some("a"), Some("b")))),
        ("k", Some(1), Some(version_1(10, 3, Some("b"), Some("c")))),
    ]);
    for batch in [1, 10] {
        let rows = waiting(&restored(&log, batch));
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].2, [some("first"), some("b"), some("c")]);
    }
}

#[test]
fn b073_a_restored_buffer_counts_and_orders_what_its_log_ends_with() {
    let value = |time, new: &str| Some(version_3(time, 1, None, None, Some(new)));
    let log = log(&[
        ("a", Some(3), value(10, "1")),
        ("b", Some(3), value(20, "2")),
        // It came out and came again, and the record between is compacted away.
        ("a", Some(3), value(30, "3")),
        ("c", Some(3), value(5, "4")),
        ("c", None, None),
        ("d", None, None),
    ]);
    for batch in [1, 3, 10] {
        let rows = waiting(&restored(&log, batch));
        let keys: Vec<_> = rows.iter().map(|row| (row.0.as_str(), row.1)).collect();
        assert_eq!(keys, [("b", 20), ("a", 30)], "{batch} records a batch");
    }
}

#[test]
fn what_headers_stores_add_is_kept_and_other_headers_are_not() {
    let mut log = log(&[("k", Some(3), Some(version_3(10, 1, None, Some("o"), Some("n"))))]);
    let more = [("vh.old", &[0, 9][..]), ("other", b"x")].map(|(name, value)| (name.to_owned(), Some(value.to_vec())));
    log.entries[0].headers.extend(more);
    let rows = restored(&log, 1).rows(SPACE);
    let change = Change { key: b"\x01k", value: rows.get(&b"\x01k"[..]).map(Vec::as_slice), timestamp: -1 };
    let logged = ValueFormat::AggregationWithHeaders.to_log(change).unwrap();
    let headers: Vec<_> = logged.headers.iter().map(|h| h.unwrap()).collect();
    let expected = [("v", &[3][..]), ("vh.old", &[0, 9])].map(|(key, value)| Header { key, value: Some(value) });
    assert_eq!((headers, logged.value), (expected.to_vec(), log.entries[0].value.as_deref()));
}

#[test]
fn b077_an_unknown_version_stops_the_restore_with_name_and_number() {
    let good = version_3(10, 1, None, None, Some("n"));
    let mut longer = good.clone();
    longer.push(0);
    for (version, value, said) in [
        (Some(4), good.clone(), "version=`4`"),
        (Some(0), good.clone(), "version=`0`"),
        (Some(3), longer, "not of the version that they claim"),
        (Some(2), good[..20].to_vec(), "version=`2`"),
        (None, good, "version=`0`"),
    ] {
        let (mut shard, changelog) = (FakeShard::default(), buffer());
        let mut consumer = FakeConsumer::new(9, &[]);
        let log = log(&[("j", Some(3), Some(version_3(1, 1, None, None, None))), ("k", version, Some(value))]);
        consumer.logs.insert((changelog.topic.to_string(), 0), log);
        let mut run = Run::plan(&mut consumer, &mut shard, &[changelog]);
        run.begin().unwrap();
        let failed = run.step().unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Invalid);
        let shown = failed.to_string();
        assert!(shown.contains(said) && shown.contains("offset=`1`") && shown.contains("topic=`b`"), "{shown}");
        drop(run);
        assert!(waiting(&shard).is_empty(), "nothing is guessed");
    }
}
