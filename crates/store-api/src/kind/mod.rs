//! The store kinds: typed by meaning, not by serde; each is a view over a [`Space`](crate::Space), made per access.

mod buffer;
mod headers;
mod key_value;
mod list_value;
mod timestamped;
mod with_headers;

pub use buffer::{ArrivalBuffer, BufferTotals, Buffered, KeyBuffer};
pub use headers::{Header, HeaderIter, Headers};
pub use key_value::{KeyValue, KeyValueRow};
pub use list_value::{ListValue, ListValues};
pub use timestamped::{TimestampedKeyValue, TimestampedRow, ValueAndTimestamp};
pub use with_headers::{AggregationWithHeaders, HeadersRow, TimestampedKeyValueWithHeaders, ValueTimestampHeaders};
