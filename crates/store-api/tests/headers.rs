//! Values with headers: the bytes of Kafka Streams 4.4.0, both ways, and damage.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use millpond_store_api::{AggregationWithHeaders, ErrorKind, Header, Headers, ValueTimestampHeaders};

type Lent<'a> = &'a [(&'a str, Option<&'a [u8]>)];

/// Headers and their bytes, without the leading size.
const HEADERS: &[(Lent<'static>, &[u8])] = &[
    (&[], b""),
    (&[("a", Some(b"\x01"))], b"\x02\x02a\x02\x01"),
    (&[("a", Some(b""))], b"\x02\x02a\x00"),
    (&[("a", None)], b"\x02\x02a\x01"),
    (&[("", Some(b"x"))], b"\x02\x00\x02x"),
    (&[("k", Some(b"v1")), ("k", Some(b"v2"))], b"\x04\x02k\x04v1\x02k\x04v2"),
    (
        &[("größe", Some("日本".as_bytes())), ("z", None), ("y", Some(b"\xFF\x00"))],
        b"\x06\x0Egr\xC3\xB6\xC3\x9Fe\x0C\xE6\x97\xA5\xE6\x9C\xAC\x02z\x01\x02y\x04\xFF\x00",
    ),
    (&[("b", Some(b"1")), ("a", Some(b"2")), ("c", Some(b"3"))], b"\x06\x02b\x021\x02a\x022\x02c\x023"),
];

fn encode(list: Lent<'_>) -> Vec<u8> {
    let headers: Vec<_> = list.iter().map(|&(key, value)| Header { key, value }).collect();
    let mut bytes = Vec::new();
    Headers::encode(&headers, &mut bytes).unwrap();
    bytes
}

#[test]
fn headers_are_those_of_kafka_streams() {
    for (list, bytes) in HEADERS {
        assert_eq!(encode(list), *bytes, "{list:?}");
        let decoded = Headers::from_bytes(bytes).iter().map(Result::unwrap);
        assert_eq!(decoded.map(|header| (header.key, header.value)).collect::<Vec<_>>(), *list);
    }
    let long = encode(&[("long", Some(&[0; 70]))]);
    assert_eq!(long, [b"\x02\x08long\x8C\x01".as_slice(), &[0; 70]].concat(), "a length of two bytes");
    assert_eq!(Headers::from_bytes(&long).iter().next().unwrap().unwrap().value, Some(&[0; 70][..]));
}

#[test]
fn values_are_those_of_kafka_streams() {
    let time = 1_700_000_000_000;
    let wide = [("größe", Some("日本".as_bytes())), ("z", None), ("y", Some(b"\xFF\x00"))];
    let cases: [(Lent<'_>, i64, &[u8], &[u8]); 6] = [
        (&[], 0, b"", b"\0\0\0\0\0\0\0\0\0"),
        (&[], -1, b"\x00\xFF", b"\x00\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00\xFF"),
        (&[], time, b"v", b"\x00\0\0\x01\x8B\xCF\xE5\x68\0v"),
        (&[("a", Some(b"\x01"))], -1, b"", b"\x0A\x02\x02a\x02\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"),
        (&[("a", None)], time, b"v", b"\x08\x02\x02a\x01\0\0\x01\x8B\xCF\xE5\x68\0v"),
        (&[("k", Some(b"v1")), ("k", Some(b"v2"))], 0, b"", b"\x16\x04\x02k\x04v1\x02k\x04v2\0\0\0\0\0\0\0\0"),
    ];
    for (list, timestamp, value, bytes) in cases {
        let headers = encode(list);
        let logical = ValueTimestampHeaders { headers: Headers::from_bytes(&headers), timestamp, value };
        let mut encoded = b"before".to_vec();
        logical.encode(&mut encoded).unwrap();
        assert_eq!(encoded.strip_prefix(b"before"), Some(bytes), "{list:?} {timestamp}");
        assert_eq!(ValueTimestampHeaders::decode(bytes).unwrap(), logical);
    }
    let aggregations: [(Lent<'_>, &[u8], &[u8]); 4] = [
        (&[], b"", b"\x00"),
        (&[], b"\x00\xFF", b"\x00\x00\xFF"),
        (&[("a", Some(b""))], b"v", b"\x08\x02\x02a\x00v"),
        (&wide, b"", b"\x30\x06\x0Egr\xC3\xB6\xC3\x9Fe\x0C\xE6\x97\xA5\xE6\x9C\xAC\x02z\x01\x02y\x04\xFF\x00"),
    ];
    for (list, aggregation, bytes) in aggregations {
        let headers = encode(list);
        let logical = AggregationWithHeaders { headers: Headers::from_bytes(&headers), aggregation };
        let mut encoded = Vec::new();
        logical.encode(&mut encoded).unwrap();
        assert_eq!(encoded, bytes, "{list:?}");
        assert_eq!(AggregationWithHeaders::decode(bytes).unwrap(), logical);
    }
}

/// Every way in which bytes can end early, and lengths that cannot be.
#[test]
fn damaged_values_are_corrupt() {
    let whole = b"\x0A\x02\x02a\x02\x01\0\0\x01\x8B\xCF\xE5\x68\0";
    for len in 0..whole.len() {
        let short = &whole[..len];
        assert_eq!(ValueTimestampHeaders::decode(short).unwrap_err().kind(), ErrorKind::Corrupt, "{len} bytes");
    }
    assert_eq!(AggregationWithHeaders::decode(b"\x0A\x02\x02a\x02").unwrap_err().kind(), ErrorKind::Corrupt);
    for size in [&b"\x01"[..], b"\xFF\xFF\xFF\xFF\x1F", b"\xFF\xFF\xFF\xFF\xFF\x01"] {
        let bytes = [size, &[0; 20]].concat();
        let decoded = AggregationWithHeaders::decode(&bytes);
        let decoded = decoded.and_then(|value| value.headers.iter().try_for_each(|header| header.map(drop)));
        assert_eq!(decoded.unwrap_err().kind(), ErrorKind::Corrupt, "{size:02x?}");
    }
}

#[test]
fn damaged_headers_are_one_error_and_then_the_end() {
    let damage: [(&[u8], usize); 11] = [
        (b"\x01", 0),
        (b"\x80", 0),
        (b"\x02", 0),
        (b"\x02\x01", 0),
        (b"\x02\x04a", 0),
        (b"\x02\x02\xFF\x00", 0),
        (b"\x02\x02a", 0),
        (b"\x02\x02a\x03", 0),
        (b"\x02\x02a\x04v", 0),
        (b"\x04\x02a\x02v", 1),
        (b"\x02\x02a\x02vv", 1),
    ];
    for (bytes, sound) in damage {
        let mut headers = Headers::from_bytes(bytes).iter();
        for _ in 0..sound {
            headers.next().unwrap().unwrap();
        }
        assert_eq!(headers.next().unwrap().unwrap_err().kind(), ErrorKind::Corrupt, "{bytes:02x?}");
        assert!(headers.next().is_none() && headers.next().is_none());
    }
    assert!(Headers::from_bytes(b"\x00").iter().next().is_none(), "a count of none is none");
    assert!(Headers::NONE.iter().next().is_none() && Headers::NONE.bytes().is_empty());
}

#[test]
fn debug_output_shows_no_state() {
    let bytes = encode(&[("secret", Some(b"secret"))]);
    let headers = Headers::from_bytes(&bytes);
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        ValueTimestampHeaders { headers, timestamp: 7, value: b"secret" },
        AggregationWithHeaders { headers, aggregation: b"secret" },
        headers.iter(),
        Header { key: "secret", value: None },
    );
    assert!(!shown.contains("secret") && !shown.contains("115"), "{shown}");
}
