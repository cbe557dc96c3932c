//! Record headers inside a value, in Kafka Streams' bytes (KIP-1271), decoded only when they are asked for.

use crate::varint::{put_varint, take_varint};
use crate::{Error, ErrorKind, Result};

/// A record header, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name; several headers may have the same.
    pub key: &'a str,
    /// The value's bytes; Kafka knows headers without a value.
    pub value: Option<&'a [u8]>,
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Header<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("key_len", &self.key.len())
            .field("value_len", &self.value.map(<[u8]>::len))
            .finish()
    }
}

/// The headers of a stored value: bytes, read by [`Headers::iter`] alone.
///
/// `varint count ‖ (varint key length ‖ key ‖ varint value length ‖ value)*`; varints are zigzag, the length of a missing
/// value is −1, and no headers are no bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// No headers.
    pub const NONE: Self = Self { bytes: &[] };

    /// Headers that are encoded already; they are looked at when they are walked.
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The bytes, as they are stored.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Appends the bytes of some headers, in their order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for more headers or longer ones than the format can count (2³¹ − 1).
    pub fn encode(headers: &[Header<'_>], out: &mut Vec<u8>) -> Result<()> {
        if headers.is_empty() {
            return Ok(());
        }
        put_len(headers.len(), out)?;
        for header in headers {
            put_len(header.key.len(), out)?;
            out.extend_from_slice(header.key.as_bytes());
            match header.value {
                Some(value) => {
                    put_len(value.len(), out)?;
                    out.extend_from_slice(value);
                }
                None => put_varint(-1, out),
            }
        }
        Ok(())
    }

    /// Decodes one header after the other. Damaged bytes are one [`ErrorKind::Corrupt`], then the end.
    pub fn iter(&self) -> HeaderIter<'a> {
        let mut rest = self.bytes;
        match if rest.is_empty() { Some(0) } else { take_varint(&mut rest).filter(|count| *count >= 0) } {
            Some(left) => HeaderIter { rest, left, damaged: false },
            None => HeaderIter { rest, left: 0, damaged: true },
        }
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Result<Header<'a>>;
    type IntoIter = HeaderIter<'a>;

    fn into_iter(self) -> HeaderIter<'a> {
        self.iter()
    }
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Headers").field("bytes", &self.bytes.len()).finish()
    }
}

/// What [`Headers::iter`] answers.
#[derive(Clone)]
pub struct HeaderIter<'a> {
    rest: &'a [u8],
    left: i32,
    damaged: bool,
}

impl<'a> HeaderIter<'a> {
    fn header(&mut self) -> Option<Header<'a>> {
        let len = usize::try_from(take_varint(&mut self.rest)?).ok()?;
        let key = std::str::from_utf8(self.rest.split_off(..len)?).ok()?;
        let value = match take_varint(&mut self.rest)? {
            -1 => None,
            len => Some(self.rest.split_off(..usize::try_from(len).ok()?)?),
        };
        Some(Header { key, value })
    }
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = Result<Header<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        let header = (self.left > 0).then(|| self.header());
        self.left -= 1;
        match header {
            Some(Some(header)) => Some(Ok(header)),
            // The end is where the bytes end, too.
            None if !self.damaged && self.rest.is_empty() => None,
            _ => {
                *self = Self { rest: &[], left: 0, damaged: false };
                Some(Err(Error::new(ErrorKind::Corrupt, "read headers")))
            }
        }
    }
}

impl std::iter::FusedIterator for HeaderIter<'_> {}

impl std::fmt::Debug for HeaderIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeaderIter").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Appends a length as a varint.
pub(super) fn put_len(len: usize, out: &mut Vec<u8>) -> Result<()> {
    let len = i32::try_from(len).map_err(|e| Error::new(ErrorKind::Invalid, "write a length").caused_by(e))?;
    put_varint(len, out);
    Ok(())
}
