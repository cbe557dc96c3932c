//! A whole key of the windowed space, to and from bytes.

use super::{escape, unescape};
use crate::{Cursor, Error, ErrorKind, Result};

/// Which suffix the rows of a store have; the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuffixKind {
    /// [`Suffix::Time`].
    Time,
    /// [`Suffix::Sequence`].
    Sequence,
    /// [`Suffix::Times`].
    Times,
}

impl SuffixKind {
    /// How many bytes it has at most.
    pub const MAX_LEN: usize = 16;

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Time => 8,
            Self::Sequence => 12,
            Self::Times => 16,
        }
    }
}

/// What stands behind the key and sorts its rows. The first time is the one by which a row expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suffix {
    /// Window store: start.
    Time(i64),
    /// Window store with duplicates: start, and the number among the rows of the same key and start.
    Sequence(i64, u32),
    /// Session store: end, start. Versioned store: valid to, valid from.
    Times(i64, i64),
}

impl Suffix {
    /// The time by which the row expires.
    pub const fn time(self) -> i64 {
        match self {
            Self::Time(time) | Self::Sequence(time, _) | Self::Times(time, _) => time,
        }
    }

    /// The second time; of a suffix with one time that one.
    pub const fn second(self) -> i64 {
        match self {
            Self::Time(time) | Self::Sequence(time, _) | Self::Times(_, time) => time,
        }
    }

    /// Appends the bytes.
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&time_bytes(self.time()));
        match self {
            Self::Time(_) => {}
            Self::Sequence(_, sequence) => out.extend_from_slice(&sequence.to_be_bytes()),
            Self::Times(_, second) => out.extend_from_slice(&time_bytes(second)),
        }
    }

    /// Reads bytes that are nothing but the suffix.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if they have not the length of the kind.
    pub fn decode(kind: SuffixKind, bytes: &[u8]) -> Result<Self> {
        let read = || {
            let (time, rest) = bytes.split_first_chunk()?;
            let time = time_of(*time);
            match kind {
                SuffixKind::Time => rest.is_empty().then_some(Self::Time(time)),
                SuffixKind::Sequence => Some(Self::Sequence(time, u32::from_be_bytes(rest.try_into().ok()?))),
                SuffixKind::Times => Some(Self::Times(time, time_of(rest.try_into().ok()?))),
            }
        };
        read().ok_or_else(|| damaged("the suffix has another length", bytes.len()))
    }
}

/// A key of the windowed space, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ExpiringKey<'a> {
    /// Where it expires: [`Buckets::of`](super::Buckets::of) its suffix's time.
    pub bucket: u32,
    /// The store's number in the shard.
    pub store: u16,
    /// The user's key.
    pub key: &'a [u8],
    /// What sorts the rows of the key.
    pub suffix: Suffix,
}

impl<'a> ExpiringKey<'a> {
    /// How many bytes stand before the escaped key: bucket and store.
    pub const HEAD: usize = 6;

    /// Bucket and store: what all rows of a store in one bucket begin with.
    pub fn head(bucket: u32, store: u16) -> [u8; 6] {
        let ([a, b, c, d], [e, f]) = (bucket.to_be_bytes(), store.to_be_bytes());
        [a, b, c, d, e, f]
    }

    /// The bucket that some bytes begin with.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if they are too short.
    pub fn bucket_of(bytes: &[u8]) -> Result<u32> {
        let head = bytes.first_chunk().ok_or_else(|| damaged("it is too short for a bucket", bytes.len()))?;
        Ok(u32::from_be_bytes(*head))
    }

    /// Goes on from a row of another store to where those of `store` begin: in the same bucket or in the next. False if there is
    /// no next. So a walk forward over one store's rows takes one seek at most for each bucket that has rows of whatever store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] for a row whose key is too short for bucket and store; what the cursor's seek says.
    pub fn seek_store(cursor: &mut dyn Cursor, store: u16) -> Result<bool> {
        let Some(row) = cursor.row() else { return Ok(false) };
        let (bucket, owner) = Self::bucket_and_store_of(row.key)?;
        let next = if owner < store { Some(bucket) } else { bucket.checked_add(1) };
        let Some(next) = next else { return Ok(false) };
        cursor.seek(&Self::head(next, store))?;
        Ok(true)
    }

    /// Bucket and store that some bytes begin with.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if they are too short.
    pub fn bucket_and_store_of(bytes: &[u8]) -> Result<(u32, u16)> {
        let read = || {
            let (bucket, rest) = bytes.split_first_chunk()?;
            Some((u32::from_be_bytes(*bucket), u16::from_be_bytes(*rest.first_chunk()?)))
        };
        read().ok_or_else(|| damaged("it is too short for bucket and store", bytes.len()))
    }

    /// Appends the bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&Self::head(self.bucket, self.store));
        escape(self.key, out);
        self.suffix.encode(out);
    }

    /// Reads a whole key; `scratch` holds a key that had to be unescaped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] for bytes that [`ExpiringKey::encode`] never makes.
    pub fn decode(kind: SuffixKind, bytes: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Self> {
        let short = || damaged("it is too short for bucket and store", bytes.len());
        let (bucket, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let (store, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (key, suffix) = unescape(rest, scratch)?;
        Ok(Self {
            bucket: u32::from_be_bytes(*bucket),
            store: u16::from_be_bytes(*store),
            key,
            suffix: Suffix::decode(kind, suffix)?,
        })
    }
}

/// State is business data: the output shows the key's size only.
impl std::fmt::Debug for ExpiringKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExpiringKey")
            .field("bucket", &self.bucket)
            .field("store", &self.store)
            .field("key_len", &self.key.len())
            .field("suffix", &self.suffix)
            .finish()
    }
}

/// Big endian with the sign bit flipped: in the order of the times.
const fn time_bytes(time: i64) -> [u8; 8] {
    (time ^ i64::MIN).to_be_bytes()
}

const fn time_of(bytes: [u8; 8]) -> i64 {
    i64::from_be_bytes(bytes) ^ i64::MIN
}

#[cold]
fn damaged(reason: &'static str, len: usize) -> Error {
    Error::new(ErrorKind::Corrupt, "read a key of the windowed space").with("reason", reason).with("bytes", len)
}
