//! Where the rows of a store lie in its shard, and how they become keys of changelog records and back.

use millpond_store_api::schema::{Buckets, ExpiringKey, Suffix, SuffixKind, unescape};
use millpond_store_api::{self as store, KeyBuffer, SpaceId, SpaceMut};

use crate::{KeyOrder, SessionKey, WindowKey};

/// Where the rows of a store lie. What it holds of a record's value is its [`ValueFormat`](crate::ValueFormat).
///
/// All times are milliseconds; `store` is the store's number in the windowed space (`millpond_store_api::schema`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowLayout {
    /// A record is a row of the store's own space, under the same key.
    KeyValue {
        /// The store's own space.
        space: SpaceId,
    },
    /// As [`RowLayout::KeyValue`], with an index of expiry that is not logged.
    Ttl {
        /// The store's own space.
        space: SpaceId,
        /// The windowed space, for the index.
        windowed: SpaceId,
        /// The store's number there.
        store: u16,
        /// For how long rows live.
        time_to_live: i64,
    },
    /// A record is a put of [`Versioned`](store::Versioned), which may change several rows.
    Versioned {
        /// The store's own space, for the latest versions.
        space: SpaceId,
        /// The windowed space, for the earlier ones.
        windowed: SpaceId,
        /// The store's number there.
        store: u16,
        /// The history retention.
        history: i64,
    },
    /// A record is a row of a [`KeyBuffer`], whose other rows follow from these; the row is the record's headers, then its
    /// value ([`BufferValue`](store::BufferValue), and the time since which it waits).
    Buffer {
        /// The store's own space.
        space: SpaceId,
    },
    /// A record is a row of the windowed space, its key a [`WindowKey`].
    Window {
        /// The windowed space.
        windowed: SpaceId,
        /// The store's number there.
        store: u16,
        /// For how long rows are kept.
        retention: i64,
        /// Rows of one key and start are numbered.
        duplicates: bool,
    },
    /// A record is a row of the windowed space, its key a [`SessionKey`].
    Session {
        /// The windowed space.
        windowed: SpaceId,
        /// The store's number there.
        store: u16,
        /// For how long rows are kept.
        retention: i64,
    },
}

impl RowLayout {
    /// The space that the store has for itself, if it has one.
    pub const fn own_space(self) -> Option<SpaceId> {
        match self {
            Self::KeyValue { space }
            | Self::Ttl { space, .. }
            | Self::Versioned { space, .. }
            | Self::Buffer { space } => Some(space),
            Self::Window { .. } | Self::Session { .. } => None,
        }
    }

    /// The windowed space and the store's number there, if it has rows in it.
    pub const fn windowed(self) -> Option<(SpaceId, u16)> {
        match self {
            Self::KeyValue { .. } | Self::Buffer { .. } => None,
            Self::Ttl { windowed, store, .. }
            | Self::Versioned { windowed, store, .. }
            | Self::Window { windowed, store, .. }
            | Self::Session { windowed, store, .. } => Some((windowed, store)),
        }
    }

    /// Whether a row of the space is a record of the changelog; the others follow from those that are. Not asked of versioned
    /// stores, of which puts are logged.
    pub fn is_logged(self, key: &[u8]) -> bool {
        !matches!(self, Self::Buffer { .. }) || buffered_key(key).is_some()
    }

    /// Whether a record is put through the store's view when it is restored, since its rows depend on others.
    pub(crate) const fn depends_on_rows(self) -> bool {
        matches!(self, Self::Versioned { .. } | Self::Buffer { .. })
    }

    /// The key of the record for a row under `key`, which is lent or written to `scratch`, whose content is replaced. What is
    /// logged of a versioned store are its puts, whose keys are lent, not its rows.
    ///
    /// Called for each row that is logged: nothing is allocated once `scratch` has grown.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](store::ErrorKind::Corrupt) for bytes that are no key of the layout. [`Invalid`](store::ErrorKind::Invalid)
    /// for a session that begins before 1970: Kafka Streams has none, so that a [`SessionKey`] with it is not read again.
    pub fn key_to_log<'a>(self, key: &'a [u8], scratch: &'a mut Vec<u8>) -> store::Result<&'a [u8]> {
        if let Self::Buffer { .. } = self {
            return buffered_key(key).ok_or_else(|| damaged("it is no row of a buffer"));
        }
        let (Some(kind), Some((_, number))) = (self.suffix_kind(), self.windowed()) else { return Ok(key) };
        let escaped = match key.split_at_checked(ExpiringKey::HEAD) {
            Some((head, escaped)) if head.ends_with(&number.to_be_bytes()) => escaped,
            _ => return Err(damaged("it is of another store")),
        };
        let (plain, suffix) = unescape(escaped, scratch)?;
        let (plain, suffix) = (plain.len(), Suffix::decode(kind, suffix)?);
        // A key without a zero byte stands in the row's key as it is, any other in `scratch` by now.
        if scratch.is_empty() {
            scratch.extend_from_slice(escaped.get(..plain).unwrap_or_default());
        }
        put_suffix(suffix, scratch)?;
        Ok(scratch)
    }

    /// Reads the key of a record: the key of its row, if that lies in the windowed space; `None` if it is the same.
    ///
    /// # Errors
    ///
    /// [`Invalid`](store::ErrorKind::Invalid) for bytes that are no key of such a record: nothing that is read again gets
    /// better, somebody has to look at the topic.
    pub(crate) fn key_of_log(self, bytes: &[u8]) -> store::Result<Option<ExpiringKey<'_>>> {
        let refused = |error| store::Error::new(store::ErrorKind::Invalid, READ).caused_by(error);
        let (store, retention, key, suffix) = match self {
            Self::KeyValue { .. } | Self::Ttl { .. } | Self::Versioned { .. } | Self::Buffer { .. } => return Ok(None),
            Self::Window { store, retention, duplicates, .. } => {
                let WindowKey { key, start, seqnum } = WindowKey::decode(KeyOrder::Plain, bytes).map_err(refused)?;
                let suffix = match (duplicates, u32::try_from(seqnum)) {
                    (true, Ok(sequence)) => Suffix::Sequence(start, sequence),
                    (false, Ok(0)) => Suffix::Time(start),
                    _ => return Err(foreign_seqnum(seqnum, duplicates)),
                };
                (store, retention, key, suffix)
            }
            Self::Session { store, retention, .. } => {
                let SessionKey { key, start, end } = SessionKey::decode(KeyOrder::Plain, bytes).map_err(refused)?;
                (store, retention, key, Suffix::Times(end, start))
            }
        };
        let bucket = Buckets::new(retention).of(suffix.time());
        Ok(Some(ExpiringKey { bucket, store, key, suffix }))
    }

    /// The space of the row that a record is.
    pub(crate) const fn record_space(self) -> SpaceId {
        match self {
            Self::KeyValue { space }
            | Self::Ttl { space, .. }
            | Self::Versioned { space, .. }
            | Self::Buffer { space } => space,
            Self::Window { windowed, .. } | Self::Session { windowed, .. } => windowed,
        }
    }

    /// True if a window or session with this time has expired when the store has observed `now`. Rows of other stores always
    /// count: an expired one may replace an older one that is there.
    pub(crate) fn has_expired(self, time: i64, now: i64) -> bool {
        match self {
            Self::KeyValue { .. } | Self::Ttl { .. } | Self::Versioned { .. } | Self::Buffer { .. } => false,
            Self::Window { retention, .. } | Self::Session { retention, .. } => {
                Buckets::new(retention).earliest_alive(now).is_none_or(|earliest| time < earliest)
            }
        }
    }

    /// What stands behind the keys of a store all of whose rows are records.
    const fn suffix_kind(self) -> Option<SuffixKind> {
        match self {
            Self::KeyValue { .. } | Self::Ttl { .. } | Self::Versioned { .. } | Self::Buffer { .. } => None,
            Self::Window { duplicates: false, .. } => Some(SuffixKind::Time),
            Self::Window { duplicates: true, .. } => Some(SuffixKind::Sequence),
            Self::Session { .. } => Some(SuffixKind::Times),
        }
    }
}

fn buffered_key(row: &[u8]) -> Option<&[u8]> {
    KeyBuffer::<dyn SpaceMut>::key_of_row(row)
}

const LOG: &str = "log a row under its key";
const READ: &str = "read the key of a changelog record";

/// Appends a suffix as Kafka Streams writes it behind a key, which is there already.
fn put_suffix(suffix: Suffix, out: &mut Vec<u8>) -> store::Result<()> {
    let window = |start, seqnum| WindowKey { key: &[], start, seqnum };
    match suffix {
        Suffix::Time(start) => window(start, 0).encode(KeyOrder::Plain, out),
        Suffix::Sequence(start, sequence) => {
            let seqnum = i32::try_from(sequence).map_err(|_| damaged("its number is none of a duplicate"))?;
            window(start, seqnum).encode(KeyOrder::Plain, out);
        }
        Suffix::Times(end, start) if end < start => return Err(damaged("it ends before it starts")),
        Suffix::Times(_, start) if start < 0 => {
            return Err(store::Error::new(store::ErrorKind::Invalid, LOG)
                .with("reason", "a session begins before 1970")
                .with("start", start));
        }
        Suffix::Times(end, start) => SessionKey { key: &[], start, end }.encode(KeyOrder::Plain, out),
    }
    Ok(())
}

#[cold]
fn damaged(reason: &'static str) -> store::Error {
    store::Error::new(store::ErrorKind::Corrupt, LOG).with("reason", reason)
}

#[cold]
fn foreign_seqnum(seqnum: i32, duplicates: bool) -> store::Error {
    let reason = if duplicates { "the seqnum is negative" } else { "the store keeps no duplicates" };
    store::Error::new(store::ErrorKind::Invalid, READ).with("reason", reason).with("seqnum", seqnum)
}

#[cfg(test)]
mod tests;
