//! What is written is read again, whatever it is; and no bytes, whoever made them, are read with a panic.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::fmt::Debug;

use millpond_broker_api as broker;
use millpond_changelog::{Change as Row, KeyOrder, Position, RowScratch, SessionKey, ValueFormat, WindowKey};
use millpond_store_api::{
    AggregationWithHeaders, BufferValue, Header, Headers, ValueTimestampHeaders, put_varint, take_varint,
};
use millpond_topology::{
    Bool, ByteArray, Change, ChangeSerde, F32, F64, I16, I32, I64, List, LossyUtf8, Nullable, Serde, SessionWindowed,
    TimeWindowed, Utf8, UuidText, Windowed,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn blob() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

fn headers() -> impl Strategy<Value = Vec<(String, Option<Vec<u8>>)>> {
    vec((".{0,8}", proptest::option::of(blob())), 0..5)
}

fn order() -> impl Strategy<Value = KeyOrder> {
    prop_oneof![Just(KeyOrder::Plain), Just(KeyOrder::TimeFirst), Just(KeyOrder::KeyFirst)]
}

/// Behind what is in the buffer already, and back.
fn comes_back<T: PartialEq + Debug>(serde: &impl Serde<T>, value: &T) -> Result<(), TestCaseError> {
    let mut out = b"before".to_vec();
    serde.encode(value, &mut out).unwrap();
    prop_assert!(out.starts_with(b"before"));
    prop_assert_eq!(&serde.decode(&out[6..]).unwrap(), value);
    Ok(())
}

proptest! {
    #[test]
    fn varints(value: i32, behind in blob()) {
        let mut out = Vec::new();
        put_varint(value, &mut out);
        out.extend_from_slice(&behind);
        let mut left = out.as_slice();
        prop_assert_eq!(take_varint(&mut left), Some(value));
        prop_assert_eq!(left, behind);
    }

    #[test]
    fn window_keys(key in blob(), start: i64, seqnum: i32, order in order()) {
        let written = WindowKey { key: &key, start, seqnum };
        let mut out = Vec::new();
        written.encode(order, &mut out);
        prop_assert_eq!(WindowKey::decode(order, &out).unwrap(), written);
    }

    #[test]
    fn session_keys(key in blob(), a in 0..=i64::MAX, b in 0..=i64::MAX, order in order()) {
        let written = SessionKey { key: &key, start: a.min(b), end: a.max(b) };
        let mut out = Vec::new();
        written.encode(order, &mut out);
        prop_assert_eq!(SessionKey::decode(order, &out).unwrap(), written);
    }

    #[test]
    fn windowed_keys(key in blob(), start in 0..i64::MAX, size in 1..=i64::MAX, end in 0..=i64::MAX) {
        let window = Windowed { key: key.clone(), start, end: start.saturating_add(size) };
        let serde = TimeWindowed::new(ByteArray, size);
        let mut out = Vec::new();
        for serde in [serde, serde.of_changelog()] {
            out.clear();
            serde.encode(&window, &mut out).unwrap();
            prop_assert!(serde.decode(&out).unwrap() == window);
            prop_assert_eq!(serde.inner_key(&out).unwrap(), key.as_slice());
        }
        let session = Windowed { key, start: start.min(end), end: start.max(end) };
        comes_back(&SessionWindowed(ByteArray), &session)?;
    }

    #[test]
    fn rows_with_headers(headers in headers(), timestamp: i64, value in blob()) {
        let list: Vec<_> = headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        Headers::encode(&list, &mut bytes).unwrap();
        let row = ValueTimestampHeaders { headers: Headers::from_bytes(&bytes), timestamp, value: &value };
        row.encode(&mut out).unwrap();
        let read = ValueTimestampHeaders::decode(&out).unwrap();
        prop_assert_eq!(read, row);
        prop_assert_eq!(read.headers.iter().collect::<Result<Vec<_>, _>>().unwrap(), list);
        let row = AggregationWithHeaders { headers: row.headers, aggregation: &value };
        out.clear();
        row.encode(&mut out).unwrap();
        prop_assert_eq!(AggregationWithHeaders::decode(&out).unwrap(), row);
    }

    /// From the log to the store and back: nothing is lost but what the format has no place for.
    #[test]
    fn records(value in proptest::option::of(blob()), timestamp: i64, headers in headers()) {
        let mut scratch = RowScratch::default();
        for (format, keeps) in [
            (ValueFormat::Plain, false),
            (ValueFormat::Timestamped, false),
            (ValueFormat::TimestampedWithHeaders, true),
            (ValueFormat::AggregationWithHeaders, true),
        ] {
            let list = headers.iter().map(|(name, value)| broker::Header { name, value: value.as_deref() });
            let row = format.to_store(value.as_deref(), timestamp, list, &mut scratch);
            let logged = format.to_log(Row { key: b"k", value: row, timestamp }).unwrap();
            prop_assert_eq!((logged.value, logged.timestamp), (value.as_deref(), timestamp));
            let read: Vec<_> = logged.headers.iter().map(|h| h.unwrap()).collect();
            let all: Vec<_> = headers.iter().map(|(key, value)| Header { key, value: value.as_deref() }).collect();
            prop_assert_eq!(read, if keeps && value.is_some() { all } else { Vec::new() });
        }
    }

    #[test]
    fn positions(seen in vec((".{0,8}", any::<i32>(), any::<i64>()), 0..20), behind in blob()) {
        let mut position = Position::default();
        seen.iter().for_each(|(topic, partition, offset)| position.advance(topic, *partition, *offset));
        let mut out = Vec::new();
        position.encode(&mut out);
        out.extend_from_slice(&behind);
        prop_assert_eq!(&Position::decode(&out).unwrap(), &position);
        for (topic, partition, offset) in &seen {
            prop_assert!(position.get(topic, *partition) >= Some(*offset));
        }
    }

    #[test]
    fn changes(new in proptest::option::of(blob()), old in proptest::option::of(blob())) {
        prop_assume!(new.is_some() || old.is_some());
        let both = new.is_some() && old.is_some();
        let change = Change { new, old };
        let mut out = Vec::new();
        for (serde, writes) in [(ChangeSerde::new(ByteArray), true), (ChangeSerde::one_sided(ByteArray), !both)] {
            out.clear();
            prop_assert_eq!(serde.encode(&change, &mut out).is_ok(), writes);
            if writes {
                prop_assert!(serde.decode(&out).unwrap() == change);
            }
        }
    }

    #[test]
    fn lists(
        numbers in vec(proptest::option::of(any::<i32>()), 0..20),
        texts in vec(proptest::option::of(".{0,8}"), 0..20),
        nested in vec(vec(any::<bool>(), 0..4), 0..4),
    ) {
        comes_back(&List(Nullable(I32)), &numbers)?;
        comes_back(&List(Nullable(Utf8)), &texts)?;
        comes_back(&List(List(Bool)), &nested)?;
        comes_back(&List(I32), &numbers.into_iter().flatten().collect::<Vec<_>>())?;
    }

    #[test]
    fn simple_types(short: i16, int: i32, long: i64, double: f64, float: f32, text in ".{0,20}", id: u128, flag: bool) {
        comes_back(&I16, &short)?;
        comes_back(&I32, &int)?;
        comes_back(&I64, &long)?;
        comes_back(&F64, &double)?;
        comes_back(&F32, &float)?;
        comes_back(&Utf8, &text)?;
        comes_back(&LossyUtf8, &text)?;
        comes_back(&UuidText, &uuid::Uuid::from_u128(id))?;
        comes_back(&Bool, &flag)?;
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..60)) {
        let _ = Position::decode(&bytes);
        let _ = ValueTimestampHeaders::decode(&bytes).map(|row| row.headers.iter().count());
        let _ = AggregationWithHeaders::decode(&bytes).map(|row| row.headers.iter().count());
        let _ = BufferValue::decode(&bytes).map(|value| value.context.headers.iter().count());
        for order in [KeyOrder::Plain, KeyOrder::TimeFirst, KeyOrder::KeyFirst] {
            let _ = (WindowKey::decode(order, &bytes), SessionKey::decode(order, &bytes));
        }
        let _ = ChangeSerde::new(Utf8).decode(&bytes);
        let _ = (List(Nullable(I16)).decode(&bytes), List(Utf8).decode(&bytes));
        let _ = (TimeWindowed::new(Utf8, 10).decode(&bytes), SessionWindowed(Utf8).decode(&bytes));
        let _ = (UuidText.decode(&bytes), Bool.decode(&bytes), F64.decode(&bytes));
    }
}
