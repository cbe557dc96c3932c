//! The store kinds: typed by meaning, not by serde; each is a view over a [`Space`](crate::Space), made per access.

mod key_value;
mod timestamped;

pub use key_value::{KeyValue, KeyValueRow};
pub use timestamped::{TimestampedKeyValue, TimestampedRow, ValueAndTimestamp};
