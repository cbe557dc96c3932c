//! What waits in a suppression buffer, in Kafka Streams' bytes (`BufferValue`, version 3 of its changelog).

use crate::{AggregationWithHeaders, Error, ErrorKind, Header, Headers, Result};

/// An update of a table's row that waits, lent: what the row was when the first update of it came, what it was before the
/// last one, and what it is now.
///
/// ```text
/// i64 time ‖ i64 offset ‖ i32 length ‖ topic ‖ i32 partition ‖ headers    where the last update came from
/// i32 length ‖ prior     −1: none
/// i32 length ‖ old       −1: none; −2: the same as prior
/// i32 length ‖ new       −1: none
/// ```
///
/// All numbers are big endian.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BufferValue<'a> {
    /// Where the last update came from.
    pub context: UpdateContext<'a>,
    /// What the row was before it waited: what those behind the buffer have last heard of.
    pub prior: Option<&'a [u8]>,
    /// What the row was before the last update.
    pub old: Option<&'a [u8]>,
    /// What the row is now; `None`: it is gone.
    pub new: Option<&'a [u8]>,
}

/// The record that an update came with: Kafka Streams' `ProcessorRecordContext`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UpdateContext<'a> {
    /// Its event time in milliseconds since 1970 (UTC).
    pub timestamp: i64,
    /// Its offset; −1 if it came from no topic.
    pub offset: i64,
    /// Its topic; empty if it came from none.
    pub topic: &'a str,
    /// Its partition; −1 if it came from no topic.
    pub partition: i32,
    /// Its headers.
    pub headers: ContextHeaders<'a>,
}

/// The headers of an [`UpdateContext`]: `i32 count ‖ (i32 length ‖ name ‖ i32 length ‖ value)*`, the length of a missing
/// value −1. Known to be whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ContextHeaders<'a> {
    /// With the count.
    bytes: &'a [u8],
}

/// Stands for an old value that is the same as the prior one.
const SAME: i32 = -2;

impl<'a> BufferValue<'a> {
    /// The version of these bytes. Whoever changes them gives them another.
    pub const VERSION: u8 = 3;

    /// The headers of a changelog record with such a value: `v`, one byte, the version.
    pub const HEADERS: Headers<'static> = Headers::from_bytes(&[2, 2, b'v', 2, Self::VERSION]);

    /// Reads the value of a buffer's row, before which stand the headers of its record (as [`AggregationWithHeaders`]).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the bytes are not such a value.
    pub fn decode_row(row: &'a [u8]) -> Result<Self> {
        Self::decode(AggregationWithHeaders::decode(row)?.aggregation)
    }

    /// Appends the value of a buffer's row: the headers of its record, then the value.
    ///
    /// # Errors
    ///
    /// As of [`BufferValue::encode`].
    pub fn encode_row(&self, headers: Headers<'_>, out: &mut Vec<u8>) -> Result<()> {
        AggregationWithHeaders { headers, aggregation: &[] }.encode(out)?;
        self.encode(out)
    }

    /// Reads a value; nothing may stand behind it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if the bytes are not such a value.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let read = |mut rest: &'a [u8]| {
            let context = UpdateContext::take(&mut rest)?;
            let prior = take_bytes(&mut rest)?;
            let same = rest.strip_prefix(&SAME.to_be_bytes());
            let old = match same {
                Some(behind) => {
                    rest = behind;
                    prior
                }
                None => take_bytes(&mut rest)?,
            };
            let new = take_bytes(&mut rest)?;
            rest.is_empty().then_some(Self { context, prior, old, new })
        };
        read(bytes).ok_or_else(|| damaged(bytes))
    }

    /// Appends the bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if a part has 2 GiB or more.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.context.encode(out)?;
        put_bytes(self.prior, out)?;
        if self.old.is_some() && self.old == self.prior {
            out.extend_from_slice(&SAME.to_be_bytes());
        } else {
            put_bytes(self.old, out)?;
        }
        put_bytes(self.new, out)
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for BufferValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let len = |part: Option<&[u8]>| part.map(<[u8]>::len);
        f.debug_struct("BufferValue")
            .field("context", &self.context)
            .field("prior_len", &len(self.prior))
            .field("old_len", &len(self.old))
            .field("new_len", &len(self.new))
            .finish()
    }
}

impl<'a> UpdateContext<'a> {
    /// Takes a context off the front; `None` if it is not whole.
    pub fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let timestamp = i64::from_be_bytes(take(bytes)?);
        let offset = i64::from_be_bytes(take(bytes)?);
        let topic = std::str::from_utf8(take_bytes(bytes)??).ok()?;
        let partition = i32::from_be_bytes(take(bytes)?);
        let headers = ContextHeaders::take(bytes)?;
        Some(Self { timestamp, offset, topic, partition, headers })
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        put_bytes(Some(self.topic.as_bytes()), out)?;
        out.extend_from_slice(&self.partition.to_be_bytes());
        out.extend_from_slice(self.headers.bytes);
        Ok(())
    }
}

/// Headers are business data: the output shows where the update came from only.
impl std::fmt::Debug for UpdateContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpdateContext")
            .field("timestamp", &self.timestamp)
            .field("topic", &self.topic)
            .field("partition", &self.partition)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl<'a> ContextHeaders<'a> {
    /// No headers.
    pub const NONE: Self = Self { bytes: &[0; 4] };

    /// The bytes of some headers, in their order; `out` is replaced.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for more headers or longer ones than the format can count (2³¹ − 1).
    pub fn encode<'h>(headers: impl ExactSizeIterator<Item = Header<'h>>, out: &'a mut Vec<u8>) -> Result<Self> {
        out.clear();
        put_len(headers.len(), out)?;
        for header in headers {
            put_bytes(Some(header.key.as_bytes()), out)?;
            put_bytes(header.value, out)?;
        }
        Ok(Self { bytes: out })
    }

    /// The headers, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let mut rest = self.bytes.get(4..).unwrap_or_default();
        std::iter::from_fn(move || if rest.is_empty() { None } else { take_header(&mut rest) })
    }

    fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let whole = *bytes;
        let count = i32::from_be_bytes(take(bytes)?);
        // Early releases wrote −1 for none.
        if count == -1 {
            return Some(Self::NONE);
        }
        for _ in 0..u32::try_from(count).ok()? {
            take_header(bytes)?;
        }
        Some(Self { bytes: whole.get(..whole.len() - bytes.len())? })
    }
}

/// Headers are business data: the output shows sizes only.
impl std::fmt::Debug for ContextHeaders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextHeaders").field("bytes", &self.bytes.len()).finish()
    }
}

fn take_header<'a>(bytes: &mut &'a [u8]) -> Option<Header<'a>> {
    let key = std::str::from_utf8(take_bytes(bytes)??).ok()?;
    Some(Header { key, value: take_bytes(bytes)? })
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// Takes what has its length before it; the inner `None` is nothing, with the length −1.
fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match i32::from_be_bytes(take(bytes)?) {
        -1 => Some(None),
        len => Some(Some(bytes.split_off(..usize::try_from(len).ok()?)?)),
    }
}

fn put_bytes(part: Option<&[u8]>, out: &mut Vec<u8>) -> Result<()> {
    match part {
        Some(part) => {
            put_len(part.len(), out)?;
            out.extend_from_slice(part);
        }
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
    Ok(())
}

fn put_len(len: usize, out: &mut Vec<u8>) -> Result<()> {
    let len = i32::try_from(len)
        .map_err(|_| Error::new(ErrorKind::Invalid, "write an update that waits").with("bytes", len))?;
    out.extend_from_slice(&len.to_be_bytes());
    Ok(())
}

#[cold]
fn damaged(bytes: &[u8]) -> Error {
    Error::new(ErrorKind::Corrupt, "read an update that waits").with("bytes", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(headers: &[Header<'_>], prior: Option<&[u8]>, old: Option<&[u8]>, new: Option<&[u8]>) -> Vec<u8> {
        let (mut list, mut out) = (Vec::new(), Vec::new());
        let headers = ContextHeaders::encode(headers.iter().copied(), &mut list).unwrap();
        let context = UpdateContext { timestamp: 7, offset: 3, topic: "in", partition: 1, headers };
        BufferValue { context, prior, old, new }.encode(&mut out).unwrap();
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let headers = [Header { key: "a", value: Some(b"1") }, Header { key: "", value: None }];
        for prior in [None, Some(&b"p"[..]), Some(b"")] {
            for old in [None, Some(&b"p"[..]), Some(b"o"), Some(b"")] {
                let bytes = encoded(&headers, prior, old, Some(b"new"));
                let read = BufferValue::decode(&bytes).unwrap();
                assert_eq!((read.prior, read.old, read.new), (prior, old, Some(&b"new"[..])));
                assert_eq!((read.context.timestamp, read.context.topic), (7, "in"));
                assert_eq!(read.context.headers.iter().collect::<Vec<_>>(), headers);
            }
        }
    }

    #[test]
    fn bytes_that_end_early_or_late_are_corrupt() {
        let bytes = encoded(&[Header { key: "h", value: Some(b"x") }], Some(b"p"), None, Some(b"n"));
        for end in 0..bytes.len() {
            assert_eq!(BufferValue::decode(&bytes[..end]).unwrap_err().kind(), ErrorKind::Corrupt, "{end}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(BufferValue::decode(&longer).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_count_of_minus_one_is_no_headers() {
        let mut bytes = encoded(&[], None, None, None);
        let count = bytes.len() - 16..bytes.len() - 12;
        bytes[count].copy_from_slice(&[0xFF; 4]);
        assert_eq!(BufferValue::decode(&bytes).unwrap().context.headers, ContextHeaders::NONE);
    }

    #[test]
    fn debug_output_shows_no_state() {
        let bytes =
            encoded(&[Header { key: "secret", value: Some(b"secret") }], Some(b"secret"), None, Some(b"secret"));
        let shown = format!("{:?}", BufferValue::decode(&bytes).unwrap());
        assert!(shown.contains("new_len: Some(6)") && !shown.contains("secret"), "{shown}");
    }
}
