//! Keys of window and session stores as Kafka Streams writes them to changelogs, and its local schemas of the same keys.

use crate::wire::Reader;
use crate::{Error, ErrorKind, Result};

/// In which order the parts of a windowed key stand (`docs/formats/windowed-keys.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyOrder {
    /// Key, then times: changelogs of window and session stores.
    Plain,
    /// `0`, then times, then key: the changelog of the buffer of a stream-table join with a grace period; else local to
    /// Kafka Streams.
    TimeFirst,
    /// `1`, then key, then times: local to Kafka Streams.
    KeyFirst,
}

impl KeyOrder {
    /// The byte in front.
    const fn prefix(self) -> Option<u8> {
        match self {
            Self::Plain => None,
            Self::TimeFirst => Some(0),
            Self::KeyFirst => Some(1),
        }
    }

    /// Reads the byte in front, if there is to be one.
    fn after_prefix(self, bytes: &[u8]) -> Option<&[u8]> {
        match (self.prefix(), bytes.split_first()) {
            (None, _) => Some(bytes),
            (Some(prefix), Some((first, rest))) if *first == prefix => Some(rest),
            _ => None,
        }
    }
}

/// The key of a window store's row, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WindowKey<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// Where the window begins, in milliseconds since 1970.
    pub start: i64,
    /// Tells the rows of a store with duplicates apart; 0 in all others.
    pub seqnum: i32,
}

impl<'a> WindowKey<'a> {
    /// Appends the bytes: key, int64 start, int32 seqnum, in this order.
    pub fn encode(&self, order: KeyOrder, out: &mut Vec<u8>) {
        out.extend(order.prefix());
        if order != KeyOrder::TimeFirst {
            out.extend_from_slice(self.key);
        }
        out.extend_from_slice(&self.start.to_be_bytes());
        if order == KeyOrder::TimeFirst {
            out.extend_from_slice(self.key);
        }
        out.extend_from_slice(&self.seqnum.to_be_bytes());
    }

    /// Reads the bytes; too few, or another byte in front than the order's, are [`ErrorKind::Corrupt`].
    pub fn decode(order: KeyOrder, bytes: &'a [u8]) -> Result<Self> {
        Self::read(order, bytes).ok_or_else(|| corrupt("read a window key", bytes))
    }

    fn read(order: KeyOrder, bytes: &'a [u8]) -> Option<Self> {
        let (rest, seqnum) = order.after_prefix(bytes)?.split_last_chunk()?;
        let (key, start) = match order {
            KeyOrder::Plain | KeyOrder::KeyFirst => {
                let (key, start) = rest.split_last_chunk()?;
                (key, i64::from_be_bytes(*start))
            }
            KeyOrder::TimeFirst => {
                let (start, key) = rest.split_first_chunk()?;
                (key, i64::from_be_bytes(*start))
            }
        };
        Some(Self { key, start, seqnum: i32::from_be_bytes(*seqnum) })
    }
}

/// State is business data: the output shows the key's size only.
impl std::fmt::Debug for WindowKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowKey")
            .field("key_len", &self.key.len())
            .field("start", &self.start)
            .field("seqnum", &self.seqnum)
            .finish()
    }
}

/// The key of a session store's row, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionKey<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// The time of the session's first record, in milliseconds since 1970; not negative.
    pub start: i64,
    /// The time of its last record; not before the first.
    pub end: i64,
}

impl<'a> SessionKey<'a> {
    /// Appends the bytes: key, int64 end, int64 start, in this order.
    pub fn encode(&self, order: KeyOrder, out: &mut Vec<u8>) {
        out.extend(order.prefix());
        if order != KeyOrder::TimeFirst {
            out.extend_from_slice(self.key);
        }
        out.extend_from_slice(&self.end.to_be_bytes());
        out.extend_from_slice(&self.start.to_be_bytes());
        if order == KeyOrder::TimeFirst {
            out.extend_from_slice(self.key);
        }
    }

    /// Reads the bytes; too few, another byte in front than the order's, or times that no session has, are
    /// [`ErrorKind::Corrupt`].
    pub fn decode(order: KeyOrder, bytes: &'a [u8]) -> Result<Self> {
        let session = Self::read(order, bytes).filter(|session| session.start >= 0 && session.end >= session.start);
        session.ok_or_else(|| corrupt("read a session key", bytes))
    }

    fn read(order: KeyOrder, bytes: &'a [u8]) -> Option<Self> {
        let bytes = order.after_prefix(bytes)?;
        let (key, times): (_, &[u8; 16]) = match order {
            KeyOrder::Plain | KeyOrder::KeyFirst => bytes.split_last_chunk()?,
            KeyOrder::TimeFirst => {
                let (times, key) = bytes.split_first_chunk()?;
                (key, times)
            }
        };
        let mut times = Reader::new(times);
        Some(Self { key, end: times.i64()?, start: times.i64()? })
    }
}

/// State is business data: the output shows the key's size only.
impl std::fmt::Debug for SessionKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKey")
            .field("key_len", &self.key.len())
            .field("start", &self.start)
            .field("end", &self.end)
            .finish()
    }
}

#[cold]
fn corrupt(op: &'static str, bytes: &[u8]) -> Error {
    Error::new(ErrorKind::Corrupt, op).with("bytes", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_no_session_has_are_corrupt() {
        for (start, end) in [(-1, 5), (5, 4), (i64::MIN, i64::MAX)] {
            let mut out = Vec::new();
            SessionKey { key: b"k", start, end }.encode(KeyOrder::Plain, &mut out);
            assert_eq!(SessionKey::decode(KeyOrder::Plain, &out).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn the_byte_in_front_tells_the_orders_apart() {
        let mut out = Vec::new();
        WindowKey { key: b"k", start: 1, seqnum: 2 }.encode(KeyOrder::TimeFirst, &mut out);
        assert!(WindowKey::decode(KeyOrder::TimeFirst, &out).is_ok());
        assert_eq!(WindowKey::decode(KeyOrder::KeyFirst, &out).unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(WindowKey::decode(KeyOrder::TimeFirst, &[]).is_err());
    }

    #[test]
    fn debug_shows_no_key() {
        let (window, session) =
            (WindowKey { key: b"secret", start: 1, seqnum: 2 }, SessionKey { key: b"secret", start: 1, end: 2 });
        assert_eq!(
            format!("{window:?} {session:?}"),
            "WindowKey { key_len: 6, start: 1, seqnum: 2 } SessionKey { key_len: 6, start: 1, end: 2 }"
        );
    }
}
