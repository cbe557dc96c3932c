//! The kinds over a map that counts its calls: what they read, what they write, which bytes.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use millpond_store_api::{
    ArrivalBuffer, Cursor, Direction, Empty, ErrorKind, Expired, KeyBuffer, KeyValue, ListValue, OldestFirst, Range,
    Result, Row, Space, SpaceMut, TimestampedKeyValue, TtlKeyValue, ValueAndTimestamp, VersionPut, Versioned,
};

/// A space that notes what is asked of it.
#[derive(Default)]
struct Noting {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    gets: usize,
    puts: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Space for Noting {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        self.gets += 1;
        Ok(self.rows.get(key).map(Vec::as_slice))
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        if range.is_empty() {
            return Ok(Box::new(Empty));
        }
        let mut rows: Vec<_> = self.rows.iter().filter(|(key, _)| range.contains(key)).collect();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        Ok(Box::new(Walk { rows, at: 0 }))
    }

    fn touch(&mut self, _: &[&[u8]]) -> Result<()> {
        Ok(())
    }
}

impl SpaceMut for Noting {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.puts.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        match value {
            Some(value) => self.rows.insert(key.to_vec(), value.to_vec()),
            None => self.rows.remove(key),
        };
        Ok(())
    }
}

struct Walk<'a> {
    rows: Vec<(&'a Vec<u8>, &'a Vec<u8>)>,
    at: usize,
}

impl Cursor for Walk<'_> {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        self.at += 1;
        Ok(self.row())
    }

    fn row(&self) -> Option<Row<'_>> {
        self.rows.get(self.at.checked_sub(1)?).map(|(key, value)| Row { key, value })
    }

    fn seek(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

fn keys(mut cursor: Box<dyn Cursor + '_>) -> String {
    let mut keys = String::new();
    while let Some(row) = cursor.next().unwrap() {
        keys.push_str(std::str::from_utf8(row.key).unwrap());
    }
    keys
}

#[test]
fn puts_and_deletes_read_nothing() {
    let mut space = Noting::default();
    let mut store = KeyValue::new(&mut space);
    store.put(b"k", b"1").unwrap();
    store.delete(b"k").unwrap();
    let mut timed = TimestampedKeyValue::new(&mut space);
    timed.put(b"t", ValueAndTimestamp { timestamp: 1, value: b"v" }).unwrap();
    timed.delete(b"t").unwrap();
    assert_eq!((space.gets, space.puts.len()), (0, 4));
}

#[test]
fn put_if_absent_writes_only_where_nothing_is() {
    let mut space = Noting::default();
    let mut store = KeyValue::new(&mut space);
    assert!(store.put_if_absent(b"k", b"1").unwrap());
    assert!(!store.put_if_absent(b"k", b"2").unwrap());
    store.delete(b"k").unwrap();
    assert!(store.put_if_absent(b"k", b"3").unwrap());
    let values: Vec<_> = space.puts.iter().map(|(_, value)| value.as_deref()).collect();
    assert_eq!(values, [Some(&b"1"[..]), None, Some(b"3")]);
}

#[test]
fn ranges_and_prefixes_of_a_key_value_store() {
    let mut space = Noting::default();
    let mut store = KeyValue::new(&mut space);
    for key in ["a", "b", "c", "d"] {
        store.put(key.as_bytes(), b"").unwrap();
    }
    use Direction::{Forward, Reverse};
    assert_eq!(keys(store.range(Included(b"b"), Included(b"c"), Forward).unwrap()), "bc");
    assert_eq!(keys(store.range(Excluded(b"a"), Excluded(b"d"), Reverse).unwrap()), "cb");
    assert_eq!(keys(store.range(Unbounded, Included(b"b"), Forward).unwrap()), "ab");
    assert_eq!(keys(store.range(Included(b"c"), Included(b"b"), Forward).unwrap()), "");
    assert_eq!(keys(store.all(Reverse).unwrap()), "dcba");
    assert_eq!(keys(store.prefix(b"c", Forward).unwrap()), "c");
    assert_eq!(keys(store.prefix(b"", Forward).unwrap()), "abcd");
}

#[test]
fn a_timestamped_value_is_eight_bytes_and_the_value() {
    for (timestamp, value, bytes) in [
        (0, &b""[..], &[0; 8][..]),
        (1, b"v", b"\0\0\0\0\0\0\0\x01v"),
        (-1, b"v", b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFv"),
        (i64::MIN, b"", b"\x80\0\0\0\0\0\0\0"),
        (1_357_034_400_000, b"{}", b"\0\0\x01\x3B\xF5\x8D\xA9\0{}"),
    ] {
        let value = ValueAndTimestamp { timestamp, value };
        let mut encoded = b"before".to_vec();
        value.encode(&mut encoded);
        assert_eq!(encoded.strip_prefix(b"before"), Some(bytes), "{timestamp}");
        assert_eq!(ValueAndTimestamp::decode(bytes).unwrap(), value);
    }
}

#[test]
fn every_short_value_is_corrupt() {
    for len in 0..ValueAndTimestamp::HEADER {
        assert_eq!(ValueAndTimestamp::decode(&vec![0; len]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn timestamped_puts_do_not_mix() {
    let mut space = Noting::default();
    let mut store = TimestampedKeyValue::new(&mut space);
    store.put(b"long", ValueAndTimestamp { timestamp: 1, value: b"a long value" }).unwrap();
    store.put(b"short", ValueAndTimestamp { timestamp: 2, value: b"s" }).unwrap();
    assert_eq!(store.get(b"long").unwrap(), Some(ValueAndTimestamp { timestamp: 1, value: b"a long value" }));
    assert_eq!(store.get(b"short").unwrap(), Some(ValueAndTimestamp { timestamp: 2, value: b"s" }));
    assert_eq!(store.get(b"none").unwrap(), None);
    let mut seen = Vec::new();
    store
        .for_each(Range::ALL, Direction::Reverse, &mut |row| {
            seen.push((row.raw.key.to_vec(), row.value.timestamp));
            Ok(true)
        })
        .unwrap();
    assert_eq!(seen, [(b"short".to_vec(), 2), (b"long".to_vec(), 1)]);
}

/// A put of a store with a time to live reads nothing and writes two rows. What has expired is deleted by writes, one for each
/// row that goes, so that a log of the writes gives the same rows again.
#[test]
fn expiry_is_a_write_for_each_row() {
    let (mut rows, mut index) = (Noting::default(), Noting::default());
    let minute = 60_000;
    let mut store = TtlKeyValue::new(&mut rows, &mut index, 1, 8 * minute, i64::MIN);
    for (key, timestamp) in [("old", minute), ("old", minute + 1), ("busy", minute), ("busy", 7 * minute)] {
        assert!(store.put(key.as_bytes(), ValueAndTimestamp { timestamp, value: b"v" }).unwrap());
    }
    assert_eq!((rows.gets, rows.puts.len(), index.gets, index.puts.len()), (0, 4, 0, 4));
    assert_eq!(index.rows.len(), 4, "the times of `old` round up to two buckets");
    let mut store = TtlKeyValue::new(&mut rows, &mut index, 1, 8 * minute, 12 * minute);
    assert_eq!(store.expire(100).unwrap(), Expired { deleted: 1, stale: 2, more: false });
    let deleted: Vec<_> =
        rows.puts.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key.as_slice()).collect();
    assert_eq!(deleted, [b"old"]);
    let mut again = BTreeMap::new();
    for (key, value) in &rows.puts {
        match value {
            Some(value) => again.insert(key.clone(), value.clone()),
            None => again.remove(key),
        };
    }
    assert_eq!(again, rows.rows);
    assert_eq!((rows.rows.len(), index.rows.len()), (1, 1));
}

/// Versions that come in order cost a read and two writes each; none of them is a walk.
#[test]
fn versions_in_order_are_cheap() {
    let (mut latest, mut history) = (Noting::default(), Noting::default());
    let mut store = Versioned::new(&mut latest, &mut history, 1, 1_000, i64::MIN);
    for timestamp in [10, 20, 30] {
        assert_eq!(store.put(b"k", Some(b"v"), timestamp).unwrap(), VersionPut::Latest);
    }
    assert_eq!((latest.gets, latest.puts.len(), history.gets, history.puts.len()), (3, 3, 0, 2));
    assert_eq!(latest.rows.get(&b"k"[..]).unwrap(), b"\0\0\0\0\0\0\0\x1Ev");
}

/// An eviction of which nothing is due reads one row and writes none.
#[test]
fn an_eviction_without_work_is_one_read() {
    let mut space = Noting::default();
    let mut buffer = ArrivalBuffer::new(&mut space);
    for time in [30, 20, 40] {
        buffer.put(time, b"k", b"v").unwrap();
    }
    assert_eq!(buffer.evict(&mut |time, _| time < 20, &mut |_| panic!("nothing is due")).unwrap(), 0);
    assert_eq!((space.gets, space.puts.len()), (4, 6));
    let mut space = Noting::default();
    let mut buffer = KeyBuffer::new(&mut space);
    buffer.put(30, b"k", b"v").unwrap();
    buffer.put(31, b"k", b"w").unwrap();
    let mut walk = OldestFirst::default();
    assert!(!buffer.take_oldest(&mut walk, &mut |time, _| time < 30, &mut |_| panic!("nothing is due")).unwrap());
    assert_eq!((space.gets, space.puts.len()), (5, 5), "a put of a waiting key leaves its order row alone");
}

#[test]
fn debug_output_shows_no_state() {
    let mut space = Noting::default();
    let value = ValueAndTimestamp { timestamp: 7, value: b"secret" };
    let mut other = Noting::default();
    let shown = [
        format!("{value:?} {:?}", KeyValue::new(&mut space)),
        format!("{:?} {:?}", ListValue::new(&mut space), TtlKeyValue::new(&mut other, &mut Noting::default(), 1, 9, 8)),
    ]
    .join(" ");
    assert!(shown.contains("len: 6") && !shown.contains("secret") && !shown.contains("115"), "{shown}");
}
