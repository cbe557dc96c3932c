//! The session store: a value for each key and session, for as long as the retention.

use std::ops::Bound;

use super::expiring::{Expiring, Keys, Scan, Span, Store};
use crate::schema::{Buckets, Suffix, SuffixKind};
use crate::{Direction, Error, ErrorKind, Result, Row, Space, SpaceMut};

/// A row of a session store, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionRow<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// The session's first time, in milliseconds since 1970 (UTC).
    pub start: i64,
    /// The session's last time, which belongs to it.
    pub end: i64,
    /// The value's bytes.
    pub value: &'a [u8],
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for SessionRow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionRow")
            .field("key_len", &self.key.len())
            .field("start", &self.start)
            .field("end", &self.end)
            .field("value_len", &self.value.len())
            .finish()
    }
}

/// A session store of bytes over the windowed space, which it shares with others. Cheap to make: one per access.
///
/// Time is what it is for a [`Window`](crate::Window), by the sessions' ends: a session is there exactly while
/// `end > observed − retention`, where the greatest end that was put or removed has been observed.
///
/// Rows come in the order of their keys' bytes, those of one key in the order of their ends, then of their starts.
/// [`Direction::Reverse`] is the exact mirror.
pub struct Session<'a, S: ?Sized> {
    rows: Expiring<'a, S>,
}

impl<S: ?Sized> std::fmt::Debug for Session<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("observed", &self.rows.now()).finish_non_exhaustive()
    }
}

impl<S: ?Sized> Session<'_, S> {
    /// Lends the view a buffer for keys, so that reads and writes of single rows allocate nothing. What is in it is lost.
    #[must_use]
    pub fn with_buffer(mut self, buffer: Vec<u8>) -> Self {
        *self.rows.buffer() = buffer;
        self
    }

    /// Rows from this time on are there as well, although they have expired: for an owner that still needs them. It sees to it
    /// that nobody drops them.
    #[must_use]
    pub fn keeping(mut self, earliest: i64) -> Self {
        self.rows.keep(earliest);
        self
    }

    /// Ends the view, and gives the buffer back.
    pub fn into_buffer(mut self) -> Vec<u8> {
        std::mem::take(self.rows.buffer())
    }

    /// The greatest end that was ever put or removed.
    pub fn observed(&self) -> i64 {
        self.rows.now()
    }
}

impl<'a, S: Space + ?Sized> Session<'a, S> {
    /// A view of the store with this number in `space`.
    ///
    /// The retention is in milliseconds and stays the same for the life of the store's files: rows are found by it. `now` is
    /// the greatest end that was observed so far, [`i64::MIN`] for none.
    pub fn new(space: &'a mut S, store: u16, retention: i64, now: i64) -> Self {
        let store = Store { number: store, kind: SuffixKind::Times, buckets: Buckets::new(retention) };
        Self { rows: Expiring::new(space, store, now) }
    }

    /// The value of exactly this session.
    pub fn fetch_session(&mut self, key: &[u8], start: i64, end: i64) -> Result<Option<&[u8]>> {
        self.rows.get(key, Suffix::Times(end, start))
    }

    /// All sessions of a key.
    pub fn fetch(&self, key: &[u8], direction: Direction) -> Result<SessionScan<'_>> {
        self.find(key, i64::MIN, i64::MAX, direction)
    }

    /// All sessions between two keys.
    pub fn fetch_range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<SessionScan<'_>> {
        self.find_range(lower, upper, i64::MIN, i64::MAX, direction)
    }

    /// The sessions of a key that end at or after `earliest_end` and start at or before `latest_start`: those that overlap
    /// with the time between. One seek at most for each expiry bucket.
    pub fn find(
        &self,
        key: &[u8],
        earliest_end: i64,
        latest_start: i64,
        direction: Direction,
    ) -> Result<SessionScan<'_>> {
        self.scan(Sessions { earliest_end, latest_start, ..Sessions::of(Keys::One(key)) }, direction)
    }

    /// As [`Session::find`], between two keys.
    pub fn find_range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        earliest_end: i64,
        latest_start: i64,
        direction: Direction,
    ) -> Result<SessionScan<'_>> {
        self.scan(Sessions { earliest_end, latest_start, ..Sessions::of(Keys::Between(lower, upper)) }, direction)
    }

    /// The sessions that are asked for; inverted times are an empty scan.
    pub fn scan(&self, sessions: Sessions<'_>, direction: Direction) -> Result<SessionScan<'_>> {
        self.start(sessions, direction, None)
    }

    /// What [`Session::scan`] has behind the row at a [place](SessionScan::place) that it gave, as the store is now: how a
    /// caller writes between two parts of a scan. The other arguments are the same again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`] if it is no place.
    pub fn resume(&self, sessions: Sessions<'_>, direction: Direction, place: &[u8]) -> Result<SessionScan<'_>> {
        self.start(sessions, direction, Some(place))
    }

    fn start(&self, of: Sessions<'_>, direction: Direction, place: Option<&[u8]>) -> Result<SessionScan<'_>> {
        let span = Span { keys: of.keys, from: of.earliest_end, to: of.latest_end, second_to: of.latest_start };
        Ok(SessionScan { rows: self.rows.scan(span, direction, place)? })
    }
}

impl<S: SpaceMut + ?Sized> Session<'_, S> {
    /// Sets the value of a session, or deletes it (`None`).
    ///
    /// Answers false if it has expired: then nothing is written, and the caller counts a dropped record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it ends before it starts.
    pub fn put(&mut self, key: &[u8], start: i64, end: i64, value: Option<&[u8]>) -> Result<bool> {
        if end < start {
            return Err(Error::new(ErrorKind::Invalid, "put a session")
                .with("reason", "it ends before it starts")
                .with("start", start)
                .with("end", end));
        }
        self.rows.put(key, Suffix::Times(end, start), value)
    }

    /// Deletes a session; as [`Session::put`] without a value.
    pub fn remove(&mut self, key: &[u8], start: i64, end: i64) -> Result<bool> {
        self.put(key, start, end, None)
    }
}

/// What a scan of a session store is asked for. All times are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sessions<'a> {
    /// Of these keys.
    pub keys: Keys<'a>,
    /// No session that ended before.
    pub earliest_end: i64,
    /// No session that ended after.
    pub latest_end: i64,
    /// No session that started after.
    pub latest_start: i64,
}

impl<'a> Sessions<'a> {
    /// All sessions of some keys.
    pub const fn of(keys: Keys<'a>) -> Self {
        Self { keys, earliest_end: i64::MIN, latest_end: i64::MAX, latest_start: i64::MAX }
    }
}

/// Lends the rows of a scan of a session store, one at a time.
pub struct SessionScan<'a> {
    rows: Scan<'a>,
}

impl std::fmt::Debug for SessionScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionScan").finish_non_exhaustive()
    }
}

impl SessionScan<'_> {
    /// The next row; after the end `None` again and again.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<SessionRow<'_>>> {
        let row = self.rows.next()?;
        Ok(row.map(|(key, value)| {
            let (start, end) = (key.suffix.second(), key.suffix.time());
            SessionRow { key: key.key, start, end, value }
        }))
    }

    /// The row that was lent last, as it lies in the windowed space; none before the first row and after the end. Its
    /// [place](SessionScan::place) is its key without [bucket and store](crate::schema::ExpiringKey::HEAD).
    pub fn raw(&self) -> Option<Row<'_>> {
        self.rows.raw()
    }

    /// Where the row that was lent last stands, for [`Session::resume`]; none before the first row and after the end.
    pub fn place(&self) -> Option<&[u8]> {
        self.rows.place()
    }
}
