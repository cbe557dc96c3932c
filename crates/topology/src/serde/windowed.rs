//! Keys with a window, as Kafka Streams writes them to topics (`docs/formats/windowed-keys.md`).

use crate::error::{Error, ErrorKind, Result};
use crate::serde::{Serde, SerdeId};

/// A key in a window of event time: from `start` until `end`, in milliseconds since 1970.
///
/// The end of a time window is exclusive, that of a session inclusive: a session of one record begins and ends with it.
///
/// Its `Debug` shows what the key's does: it is a key like any other, which only your own code prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Windowed<K> {
    /// The key.
    pub key: K,
    /// Where the window begins; not negative.
    pub start: i64,
    /// Where it ends; not before its start.
    pub end: i64,
}

/// A key in a time window, as Kafka Streams' `TimeWindowedSerializer`: `key ‖ int64 start`, big endian.
///
/// The bytes do not say where a window ends, so the reader has to know their size. Of a window's other size than this
/// serde's the end is lost.
///
/// ```
/// use millpond_topology::{Serde, TimeWindowed, Utf8, Windowed};
///
/// let serde = TimeWindowed::new(Utf8, 60_000);
/// let key = Windowed { key: "a".to_owned(), start: 120_000, end: 180_000 };
/// let mut bytes = vec![];
/// serde.encode(&key, &mut bytes).unwrap();
/// assert_eq!(bytes, b"a\0\0\0\0\0\x01\xD4\xC0");
/// assert_eq!(serde.decode(&bytes).unwrap(), key);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TimeWindowed<S> {
    inner: S,
    size: i64,
    layout: Layout,
}

/// What stands behind the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Topic,
    Changelog,
}

impl<S> TimeWindowed<S> {
    /// Windows of `size` milliseconds over the keys of `inner`; of sliding windows the time difference.
    pub const fn new(inner: S, size: i64) -> Self {
        Self { inner, size, layout: Layout::Topic }
    }

    /// Windows of unknown size: all that is read ends with the end of time, `i64::MAX`.
    pub const fn of_unknown_size(inner: S) -> Self {
        Self::new(inner, i64::MAX)
    }

    /// Keys as the changelog of a window store has them, `key ‖ int64 start ‖ int32 seqnum`. The last tells duplicates
    /// apart; it is written as 0, and not kept when read.
    #[must_use]
    pub const fn of_changelog(mut self) -> Self {
        self.layout = Layout::Changelog;
        self
    }

    /// Reads a key as Kafka Streams does: no bytes at all are a null key. [`Serde::decode`] calls that an error.
    pub fn read<K>(&self, bytes: &[u8]) -> Result<Option<Windowed<K>>>
    where
        S: Serde<K>,
    {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (key, start) = self.split(bytes).ok_or_else(|| unreadable(TIME, bytes))?;
        let window = Windowed { key: (), start, end: start.saturating_add(self.size) };
        if !self.can_be(&window) {
            return Err(unreadable(TIME, bytes));
        }
        Ok(Some(window.with_key(self.inner.decode(key)?)))
    }

    /// The bytes of the key alone: they choose the partition, so that all windows of a key are in one.
    pub fn inner_key<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        self.split(bytes).map(|(key, _)| key).ok_or_else(|| unreadable(TIME, bytes))
    }

    /// A window begins in 1970 at the earliest, and has a time in it; that of no length its start.
    fn can_be<K>(&self, window: &Windowed<K>) -> bool {
        let Windowed { start, end, .. } = *window;
        start >= 0 && (end > start || (end == start && self.size == 0))
    }

    fn split<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], i64)> {
        let bytes = match self.layout {
            Layout::Topic => bytes,
            Layout::Changelog => bytes.split_last_chunk::<4>()?.0,
        };
        split_time(bytes)
    }
}

impl<K: 'static, S: Serde<K>> Serde<Windowed<K>> for TimeWindowed<S> {
    fn encode(&self, value: &Windowed<K>, out: &mut Vec<u8>) -> Result {
        if !self.can_be(value) {
            return Err(unwritable(TIME, value));
        }
        self.inner.encode(&value.key, out)?;
        out.extend_from_slice(&value.start.to_be_bytes());
        if self.layout == Layout::Changelog {
            out.extend_from_slice(&[0; 4]);
        }
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Windowed<K>> {
        self.read(bytes)?.ok_or_else(|| unreadable(TIME, bytes))
    }

    fn partitioned_by<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.inner_key(bytes).ok()
    }

    /// The size of the windows is not in the bytes, and so does not count here.
    fn identity(&self) -> SerdeId {
        match self.layout {
            Layout::Topic => around(&self.inner, SerdeId::of::<Self>()),
            Layout::Changelog => SerdeId::UNKNOWN,
        }
    }
}

/// A key with a session, as Kafka Streams' `SessionWindowedSerializer`: `key ‖ int64 end ‖ int64 start`, big endian.
///
/// ```
/// use millpond_topology::{Serde, SessionWindowed, Utf8, Windowed};
///
/// let key = Windowed { key: "a".to_owned(), start: 1, end: 2 };
/// let mut bytes = vec![];
/// SessionWindowed(Utf8).encode(&key, &mut bytes).unwrap();
/// assert_eq!(bytes, b"a\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01");
/// assert_eq!(SessionWindowed(Utf8).decode(&bytes).unwrap(), key);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionWindowed<S>(pub S);

impl<S> SessionWindowed<S> {
    /// Reads a key as Kafka Streams does: no bytes at all are a null key. [`Serde::decode`] calls that an error.
    pub fn read<K>(&self, bytes: &[u8]) -> Result<Option<Windowed<K>>>
    where
        S: Serde<K>,
    {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (key, end, start) = Self::split(bytes).ok_or_else(|| unreadable(SESSION, bytes))?;
        if start < 0 || end < start {
            return Err(unreadable(SESSION, bytes));
        }
        Ok(Some(Windowed { key: self.0.decode(key)?, start, end }))
    }

    /// The bytes of the key alone: they choose the partition, so that all sessions of a key are in one.
    pub fn inner_key<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        Self::split(bytes).map(|(key, ..)| key).ok_or_else(|| unreadable(SESSION, bytes))
    }

    fn split(bytes: &[u8]) -> Option<(&[u8], i64, i64)> {
        let (bytes, start) = split_time(bytes)?;
        let (key, end) = split_time(bytes)?;
        Some((key, end, start))
    }
}

impl<K: 'static, S: Serde<K>> Serde<Windowed<K>> for SessionWindowed<S> {
    fn encode(&self, value: &Windowed<K>, out: &mut Vec<u8>) -> Result {
        if value.start < 0 || value.end < value.start {
            return Err(unwritable(SESSION, value));
        }
        self.0.encode(&value.key, out)?;
        out.extend_from_slice(&value.end.to_be_bytes());
        out.extend_from_slice(&value.start.to_be_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Windowed<K>> {
        self.read(bytes)?.ok_or_else(|| unreadable(SESSION, bytes))
    }

    fn partitioned_by<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.inner_key(bytes).ok()
    }

    fn identity(&self) -> SerdeId {
        around(&self.0, SerdeId::of::<Self>())
    }
}

impl Windowed<()> {
    fn with_key<K>(self, key: K) -> Windowed<K> {
        Windowed { key, start: self.start, end: self.end }
    }
}

const TIME: &str = "time";
const SESSION: &str = "session";

fn split_time(bytes: &[u8]) -> Option<(&[u8], i64)> {
    let (rest, time) = bytes.split_last_chunk()?;
    Some((rest, i64::from_be_bytes(*time)))
}

/// The identity `outer` of a serde around `inner`, whose type must be all there is to know of it: an `Arc<dyn Serde<_>>` has
/// the identity of what is in it.
fn around<K, S: Serde<K>>(inner: &S, outer: SerdeId) -> SerdeId {
    if inner.identity().is_same(SerdeId::of::<S>()) { outer } else { SerdeId::UNKNOWN }
}

#[cold]
fn unreadable(window: &'static str, bytes: &[u8]) -> Error {
    Error::new(ErrorKind::Deserialization, "read a windowed key").with("window", window).with("bytes", bytes.len())
}

#[cold]
fn unwritable<K>(window: &'static str, value: &Windowed<K>) -> Error {
    Error::new(ErrorKind::Serialization, "write a windowed key")
        .with("window", window)
        .with("start", value.start)
        .with("end", value.end)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::serde::{Json, Utf8};

    #[test]
    fn windows_that_cannot_be_are_not_written() {
        let (time, session) = (TimeWindowed::new(Utf8, 10), SessionWindowed(Utf8));
        let mut out = Vec::new();
        for (start, end) in [(-1, 5), (5, 4), (i64::MIN, i64::MAX)] {
            let key = Windowed { key: String::new(), start, end };
            assert_eq!(time.encode(&key, &mut out).unwrap_err().kind(), ErrorKind::Serialization);
            assert_eq!(session.encode(&key, &mut out).unwrap_err().kind(), ErrorKind::Serialization);
        }
        let instant = Windowed { key: String::new(), start: 5, end: 5 };
        assert!(time.encode(&instant, &mut out).is_err());
        assert!(session.encode(&instant, &mut out).is_ok());
    }

    #[test]
    fn a_window_of_no_length_and_one_near_the_end_of_time_are_written() {
        let mut out = Vec::new();
        for (size, start) in [(0, 5), (0, 0), (0, i64::MAX), (10, i64::MAX - 3)] {
            let serde = TimeWindowed::new(Utf8, size);
            let key = Windowed { key: "a".to_owned(), start, end: start.saturating_add(size) };
            out.clear();
            serde.encode(&key, &mut out).unwrap();
            assert_eq!(serde.decode(&out).unwrap(), key);
        }
    }

    #[test]
    fn keys_of_a_changelog_come_back() {
        let serde = TimeWindowed::new(Utf8, 5).of_changelog();
        let key = Windowed { key: "a".to_owned(), start: 10, end: 15 };
        let mut out = Vec::new();
        serde.encode(&key, &mut out).unwrap();
        assert_eq!(out, b"a\0\0\0\0\0\0\0\x0A\0\0\0\0");
        assert_eq!(serde.decode(&out).unwrap(), key);
        assert_eq!(serde.inner_key(&out).unwrap(), b"a");
        assert!(serde.read::<String>(&out[..11]).is_err());
    }

    #[test]
    fn no_bytes_are_null_to_kafka_and_an_error_to_a_serde() {
        assert_eq!(SessionWindowed(Utf8).read::<String>(b"").unwrap(), None);
        assert_eq!(SessionWindowed(Utf8).decode(b"").unwrap_err().kind(), ErrorKind::Deserialization);
        assert_eq!(TimeWindowed::of_unknown_size(Utf8).decode(b"").unwrap_err().kind(), ErrorKind::Deserialization);
    }

    #[test]
    fn an_identity_is_that_of_bytes_and_reaches_through_no_erased_serde() {
        let of = |size| Serde::<Windowed<String>>::identity(&TimeWindowed::new(Utf8, size));
        assert!(of(5).is_same(of(10)));
        assert!(!of(5).is_same(SessionWindowed(Utf8).identity()));
        assert!(SessionWindowed(Utf8).identity().is_same(SessionWindowed(Utf8).identity()));
        let unknown = [
            TimeWindowed::new(Utf8, 5).of_changelog().identity(),
            SessionWindowed(Json::<String>::default()).identity(),
            SessionWindowed(Arc::new(Utf8) as Arc<dyn Serde<String>>).identity(),
        ];
        assert!(unknown.iter().all(|id| !id.is_same(*id)));
    }
}
