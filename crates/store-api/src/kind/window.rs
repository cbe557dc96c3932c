//! The window store: a value for each key and window start, for as long as the retention.

use std::ops::Bound;

use super::expiring::{Expiring, Keys, Scan, Span, Store, next_sequence};
use crate::schema::{Buckets, Suffix, SuffixKind};
use crate::{Direction, Result, Row, Space, SpaceMut};

/// A row of a window store, lent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WindowRow<'a> {
    /// The key's bytes.
    pub key: &'a [u8],
    /// Where the window begins, in milliseconds since 1970 (UTC).
    pub start: i64,
    /// The value's bytes.
    pub value: &'a [u8],
}

/// State is business data: the output shows sizes only.
impl std::fmt::Debug for WindowRow<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowRow")
            .field("key_len", &self.key.len())
            .field("start", &self.start)
            .field("value_len", &self.value.len())
            .finish()
    }
}

/// A window store of bytes over the windowed space, which it shares with others. Cheap to make: one per access.
///
/// # Time
///
/// All times are event times in milliseconds; any `i64` is one. The store has *observed* the greatest start that was put
/// into it (in Kafka Streams as well: the store's own stream time, not the task's). A row is there exactly while
///
/// ```text
/// start > observed − retention
/// ```
///
/// Reads keep to that to the millisecond, whatever still lies on disk; so no engine and no cache can be told from another.
/// The caller keeps the observed time from one access to the next, with the offsets that it stands for: it is given to
/// [`Window::new`], and [`Window::observed`] answers it after puts. Given less than it was, rows above it are not seen.
///
/// # Order
///
/// Rows come in the order of their keys' bytes, those of one key in the order of their starts, duplicates as they were put.
/// [`Direction::Reverse`] is the exact mirror. (In Kafka Streams the order of a range over several keys depends on the engine
/// and on where its segments end.)
///
/// # Duplicates
///
/// A store with duplicates keeps every value that is put for a key and a start, as the joins of two streams need it. A value
/// has the number of its put, as in Kafka Streams, so that changelogs are alike: the first is 1, and deletes and what has expired
/// have numbers, too. The caller keeps the number of the last put from one access to the next
/// ([`Window::numbered_after`], [`Window::numbered`]) and may begin with 0 at any time, such as after a restart: a put looks for
/// the last value of its key and start, and goes behind that if its number is the greater one. So no value is ever overwritten;
/// in Kafka Streams they are after a restart. Nothing is ever deleted but by expiry.
///
/// Numbers begin anew after 2³¹ puts. Values of one key and start that were put before and after that may come in another order.
pub struct Window<'a, S: ?Sized> {
    rows: Expiring<'a, S>,
    duplicates: bool,
    numbered: u32,
}

impl<S: ?Sized> std::fmt::Debug for Window<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("observed", &self.rows.now())
            .field("duplicates", &self.duplicates)
            .finish_non_exhaustive()
    }
}

impl<S: ?Sized> Window<'_, S> {
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

    /// The number of the last put of a store with duplicates; 0, which a new view has, for none.
    #[must_use]
    pub fn numbered_after(mut self, number: u32) -> Self {
        self.numbered = number;
        self
    }

    /// The number of the last put, for the next view.
    pub fn numbered(&self) -> u32 {
        self.numbered
    }

    /// Ends the view, and gives the buffer back.
    pub fn into_buffer(mut self) -> Vec<u8> {
        std::mem::take(self.rows.buffer())
    }

    /// The greatest start that was ever put.
    pub fn observed(&self) -> i64 {
        self.rows.now()
    }
}

impl<'a, S: Space + ?Sized> Window<'a, S> {
    /// A view of the store with this number in `space`.
    ///
    /// The retention is in milliseconds and stays the same for the life of the store's files: rows are found by it. `now` is
    /// the greatest start that was put so far, [`i64::MIN`] for none.
    pub fn new(space: &'a mut S, store: u16, retention: i64, duplicates: bool, now: i64) -> Self {
        let kind = if duplicates { SuffixKind::Sequence } else { SuffixKind::Time };
        let store = Store { number: store, kind, buckets: Buckets::new(retention) };
        Self { rows: Expiring::new(space, store, now), duplicates, numbered: 0 }
    }

    /// The value of a key in the window that begins at `start`; of duplicates the one that was put last.
    pub fn get(&mut self, key: &[u8], start: i64) -> Result<Option<&[u8]>> {
        if self.duplicates { self.rows.last(key, start) } else { self.rows.get(key, Suffix::Time(start)) }
    }

    /// The rows of a key whose windows begin in `from..=to`. One seek at most for each expiry bucket.
    pub fn fetch(&self, key: &[u8], from: i64, to: i64, direction: Direction) -> Result<WindowScan<'_>> {
        self.scan(Keys::One(key), from, to, direction)
    }

    /// The rows between two keys whose windows begin in `from..=to`.
    pub fn fetch_range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        from: i64,
        to: i64,
        direction: Direction,
    ) -> Result<WindowScan<'_>> {
        self.scan(Keys::Between(lower, upper), from, to, direction)
    }

    /// The rows of all keys whose windows begin in `from..=to`.
    pub fn fetch_all(&self, from: i64, to: i64, direction: Direction) -> Result<WindowScan<'_>> {
        self.scan(Keys::ALL, from, to, direction)
    }

    /// All rows.
    pub fn all(&self, direction: Direction) -> Result<WindowScan<'_>> {
        self.scan(Keys::ALL, i64::MIN, i64::MAX, direction)
    }

    /// The rows of some keys whose windows begin in `from..=to`; inverted times are an empty scan.
    pub fn scan(&self, keys: Keys<'_>, from: i64, to: i64, direction: Direction) -> Result<WindowScan<'_>> {
        self.start(keys, from, to, direction, None)
    }

    /// What [`Window::scan`] has behind the row at a [place](WindowScan::place) that it gave, as the store is now: how a
    /// caller writes between two parts of a scan. All other arguments are the same again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt) if it is no place.
    pub fn resume(
        &self,
        keys: Keys<'_>,
        from: i64,
        to: i64,
        direction: Direction,
        place: &[u8],
    ) -> Result<WindowScan<'_>> {
        self.start(keys, from, to, direction, Some(place))
    }

    fn start(
        &self,
        keys: Keys<'_>,
        from: i64,
        to: i64,
        direction: Direction,
        place: Option<&[u8]>,
    ) -> Result<WindowScan<'_>> {
        let span = Span { keys, from, to, second_to: i64::MAX };
        Ok(WindowScan { rows: self.rows.scan(span, direction, place)? })
    }
}

impl<S: SpaceMut + ?Sized> Window<'_, S> {
    /// Sets the value of a key in the window that begins at `start`, or deletes it (`None`), or adds a value where the store
    /// keeps duplicates; deleting does nothing there but use up a number.
    ///
    /// Answers false if the row has expired: then nothing is written, and the caller counts a dropped record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if 2³¹ duplicates of one key and start are there.
    pub fn put(&mut self, key: &[u8], start: i64, value: Option<&[u8]>) -> Result<bool> {
        if !self.duplicates {
            return self.rows.put(key, Suffix::Time(start), value);
        }
        self.numbered = next_sequence(self.numbered);
        match value {
            Some(value) => self.rows.push(key, start, self.numbered, value),
            None => Ok(true),
        }
    }
}

/// Lends the rows of a scan of a window store, one at a time.
pub struct WindowScan<'a> {
    rows: Scan<'a>,
}

impl std::fmt::Debug for WindowScan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowScan").finish_non_exhaustive()
    }
}

impl WindowScan<'_> {
    /// The next row; after the end `None` again and again.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<WindowRow<'_>>> {
        let row = self.rows.next()?;
        Ok(row.map(|(key, value)| WindowRow { key: key.key, start: key.suffix.time(), value }))
    }

    /// The row that was lent last, as it lies in the windowed space; none before the first row and after the end. Its
    /// [place](WindowScan::place) is its key without [bucket and store](crate::schema::ExpiringKey::HEAD).
    pub fn raw(&self) -> Option<Row<'_>> {
        self.rows.raw()
    }

    /// Where the row that was lent last stands, for [`Window::resume`]; none before the first row and after the end.
    pub fn place(&self) -> Option<&[u8]> {
        self.rows.place()
    }
}
