//! Where the rows of a store lie in its shard, and how they become keys of changelog records and back.

use millpond_store_api::{self as store, SpaceId};

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
    /// A record is a row of the windowed space, its key a [`WindowKey`](crate::WindowKey).
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
    /// A record is a row of the windowed space, its key a [`SessionKey`](crate::SessionKey).
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
            Self::KeyValue { space } | Self::Ttl { space, .. } | Self::Versioned { space, .. } => Some(space),
            Self::Window { .. } | Self::Session { .. } => None,
        }
    }

    /// The windowed space and the store's number there, if it has rows in it.
    pub const fn windowed(self) -> Option<(SpaceId, u16)> {
        match self {
            Self::KeyValue { .. } => None,
            Self::Ttl { windowed, store, .. }
            | Self::Versioned { windowed, store, .. }
            | Self::Window { windowed, store, .. }
            | Self::Session { windowed, store, .. } => Some((windowed, store)),
        }
    }

    /// The key of the record for a row of the store's rows, which is lent or written to `scratch`.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](store::ErrorKind::Corrupt) for bytes that are no key of the layout.
    pub fn key_to_log<'a>(self, key: &'a [u8], _scratch: &'a mut Vec<u8>) -> store::Result<&'a [u8]> {
        Ok(key)
    }
}

/// Placeholder.
pub fn clear_store(_: &mut dyn store::Shard, _: RowLayout, _: &[u8]) -> store::Result<()> {
    Ok(())
}
