//! Record headers inside stored values, in Kafka Streams' bytes (KIP-1271; `docs/formats/headers.md`).

use crate::varint::{put_varint, split_varint};
use crate::{Error, ErrorKind, Result};

/// One header, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name; may occur more than once.
    pub name: &'a str,
    /// The value; Kafka allows null.
    pub value: Option<&'a [u8]>,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("name_len", &self.name.len())
            .field("value_len", &self.value.map(<[u8]>::len))
            .finish()
    }
}

/// A list of headers as its bytes, known to be well-formed. Lent: it moves from a row to a record without being taken apart.
///
/// ```
/// use millpond_store_api::{Header, Headers};
///
/// let mut bytes = Vec::new();
/// let headers = Headers::encode([Header { name: "gate", value: Some(b"7") }], &mut bytes).unwrap();
/// assert_eq!(headers.iter().next(), Some(Header { name: "gate", value: Some(b"7") }));
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// No headers: no bytes.
    pub const EMPTY: Self = Self(&[]);

    /// Takes bytes that [`Headers::as_bytes`] gave, or Kafka Streams wrote. Others are [`ErrorKind::Corrupt`]; bytes are
    /// left over, too.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::EMPTY);
        }
        let (count, mut rest) = count(bytes).ok_or_else(|| corrupt(bytes))?;
        for _ in 0..count {
            rest = split_header(rest).ok_or_else(|| corrupt(bytes))?.1;
        }
        if rest.is_empty() { Ok(Self(bytes)) } else { Err(corrupt(bytes)) }
    }

    /// Replaces `out` by the bytes of a list. [`ErrorKind::Invalid`] if there is more of anything than an int32 can count.
    pub fn encode<'h>(headers: impl IntoIterator<Item = Header<'h>>, out: &'a mut Vec<u8>) -> Result<Self> {
        out.clear();
        let mut count = 0_usize;
        for Header { name, value } in headers {
            count += 1;
            put_len(name.len(), out)?;
            out.extend_from_slice(name.as_bytes());
            match value {
                Some(value) => {
                    put_len(value.len(), out)?;
                    out.extend_from_slice(value);
                }
                None => put_varint(NULL, out),
            }
        }
        if count > 0 {
            // The number stands in front, but is known at the end only.
            let list = out.len();
            put_len(count, out)?;
            out.rotate_left(list);
        }
        Ok(Self(out))
    }

    /// The list's bytes; none if it is empty.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// True if there is no header.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The number of headers.
    pub fn len(self) -> usize {
        count(self.0).map_or(0, |(count, _)| count)
    }

    /// The headers, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Header<'a>> + Clone + use<'a> {
        let (left, rest) = count(self.0).unwrap_or_default();
        Iter { left, rest }
    }
}

/// State is business data: the output shows their number only.
impl std::fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Headers").field("len", &self.len()).finish()
    }
}

/// The length of a null value.
const NULL: i32 = -1;

/// The headers that are left of a well-formed list.
#[derive(Clone)]
struct Iter<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (header, rest) = split_header(self.rest)?;
        self.rest = rest;
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// A value of a timestamped store with headers, lent: headers, time and value in one row.
///
/// Bytes: `varint size of the headers ‖ headers ‖ int64 timestamp ‖ value`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValueTimestampHeaders<'a> {
    /// The headers of the record that was written last.
    pub headers: Headers<'a>,
    /// Event time in milliseconds since 1970 (UTC); -1 if unknown.
    pub timestamp: i64,
    /// The value's bytes.
    pub value: &'a [u8],
}

impl<'a> ValueTimestampHeaders<'a> {
    /// Reads a row; what is none is [`ErrorKind::Corrupt`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let (headers, rest) = split_headers(bytes)?;
        match rest.split_first_chunk() {
            Some((timestamp, value)) => Ok(Self { headers, timestamp: i64::from_be_bytes(*timestamp), value }),
            None => Err(corrupt(bytes)),
        }
    }

    /// Appends a row. [`ErrorKind::Invalid`] if the headers are larger than an int32 can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_headers(self.headers, out)?;
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(self.value);
        Ok(())
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for ValueTimestampHeaders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueTimestampHeaders")
            .field("headers", &self.headers)
            .field("timestamp", &self.timestamp)
            .field("len", &self.value.len())
            .finish()
    }
}

/// A value of a session store with headers, lent.
///
/// Bytes: `varint size of the headers ‖ headers ‖ aggregation`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AggregationWithHeaders<'a> {
    /// The headers of the record that was written last.
    pub headers: Headers<'a>,
    /// The session's value.
    pub aggregation: &'a [u8],
}

impl<'a> AggregationWithHeaders<'a> {
    /// Reads a row; what is none is [`ErrorKind::Corrupt`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let (headers, aggregation) = split_headers(bytes)?;
        Ok(Self { headers, aggregation })
    }

    /// Appends a row. [`ErrorKind::Invalid`] if the headers are larger than an int32 can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_headers(self.headers, out)?;
        out.extend_from_slice(self.aggregation);
        Ok(())
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for AggregationWithHeaders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AggregationWithHeaders")
            .field("headers", &self.headers)
            .field("len", &self.aggregation.len())
            .finish()
    }
}

/// Appends the size of the headers and the headers.
fn put_headers(headers: Headers<'_>, out: &mut Vec<u8>) -> Result<()> {
    put_len(headers.0.len(), out)?;
    out.extend_from_slice(headers.0);
    Ok(())
}

/// The headers at the front of a row, and what stands behind them.
fn split_headers(bytes: &[u8]) -> Result<(Headers<'_>, &[u8])> {
    let (headers, rest) = split_sized(bytes).ok_or_else(|| corrupt(bytes))?;
    Ok((Headers::decode(headers)?, rest))
}

/// The number of headers in front of a list; no list has more than bytes.
fn count(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (count, rest) = split_varint(bytes)?;
    let count = usize::try_from(count).ok()?;
    (count <= rest.len()).then_some((count, rest))
}

fn split_header(bytes: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let (name, rest) = split_sized(bytes)?;
    let name = std::str::from_utf8(name).ok()?;
    match split_varint(rest)? {
        (NULL, rest) => Some((Header { name, value: None }, rest)),
        _ => split_sized(rest).map(|(value, rest)| (Header { name, value: Some(value) }, rest)),
    }
}

/// A length, that many bytes, and what stands behind them.
fn split_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = split_varint(bytes)?;
    rest.split_at_checked(usize::try_from(len).ok()?)
}

fn put_len(len: usize, out: &mut Vec<u8>) -> Result<()> {
    let len = i32::try_from(len).map_err(|_| Error::new(ErrorKind::Invalid, "write headers").with("size", len))?;
    put_varint(len, out);
    Ok(())
}

#[cold]
fn corrupt(bytes: &[u8]) -> Error {
    Error::new(ErrorKind::Corrupt, "read a value with headers").with("bytes", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [Header<'_>; 2] = [Header { name: "k", value: Some(b"v") }, Header { name: "", value: None }];
    const TWO_BYTES: &[u8] = &[4, 2, b'k', 2, b'v', 0, 1];

    #[test]
    fn lists_come_back_and_replace_what_was_there() {
        let mut out = b"left over".to_vec();
        let headers = Headers::encode(TWO, &mut out).unwrap();
        assert_eq!(headers.as_bytes(), TWO_BYTES);
        assert_eq!(Headers::decode(TWO_BYTES).unwrap(), headers);
        assert_eq!((headers.len(), headers.is_empty()), (2, false));
        assert!(headers.iter().eq(TWO));
        assert_eq!(headers.iter().len(), 2);
        assert_eq!(Headers::encode([], &mut out).unwrap(), Headers::EMPTY);
        assert_eq!(Headers::EMPTY.iter().next(), None);
    }

    #[test]
    fn an_empty_list_that_was_written_out_is_read() {
        let headers = Headers::decode(&[0]).unwrap();
        assert!(headers.is_empty());
        assert_eq!(headers.iter().next(), None);
    }

    #[test]
    fn rows_come_back() {
        let headers = Headers::decode(TWO_BYTES).unwrap();
        let row = ValueTimestampHeaders { headers, timestamp: i64::MIN, value: b"v" };
        let mut out = Vec::new();
        row.encode(&mut out).unwrap();
        assert_eq!(ValueTimestampHeaders::decode(&out).unwrap(), row);
        let row = AggregationWithHeaders { headers: Headers::EMPTY, aggregation: b"" };
        out.clear();
        row.encode(&mut out).unwrap();
        assert_eq!(out, [0]);
        assert_eq!(AggregationWithHeaders::decode(&out).unwrap(), row);
    }

    #[test]
    fn damage_is_corrupt_whatever_it_claims() {
        let most = [0xFE, 0xFF, 0xFF, 0xFF, 0x0F];
        let names_2_gib = [&[2][..], &most, b"k"].concat();
        for bytes in [&most[..], &names_2_gib, &[1], &[2, 1, 0], &[2, 0, 3], &[2, 2, 0xFF, 1], &[0, 0], &[2, 0, 1, 7]] {
            assert_eq!(Headers::decode(bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{bytes:?}");
        }
        for n in 1..TWO_BYTES.len() {
            assert!(Headers::decode(&TWO_BYTES[..n]).is_err(), "{n}");
        }
        for bytes in [&[][..], &[1], &[2], &most, &[0; 8], &[2, 1, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(ValueTimestampHeaders::decode(bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{bytes:?}");
        }
        for bytes in [&[][..], &[1], &[4, 2], &most] {
            assert_eq!(AggregationWithHeaders::decode(bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{bytes:?}");
        }
    }

    #[test]
    fn debug_shows_no_data() {
        let headers = Headers::decode(TWO_BYTES).unwrap();
        let row = ValueTimestampHeaders { headers, timestamp: 5, value: b"secret" };
        assert_eq!(format!("{row:?}"), "ValueTimestampHeaders { headers: Headers { len: 2 }, timestamp: 5, len: 6 }");
        let row = AggregationWithHeaders { headers, aggregation: b"secret" };
        assert_eq!(format!("{row:?}"), "AggregationWithHeaders { headers: Headers { len: 2 }, len: 6 }");
        assert_eq!(format!("{:?}", TWO[0]), "Header { name_len: 1, value_len: Some(1) }");
    }
}
