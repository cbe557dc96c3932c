//! The store kinds: typed by meaning, not by serde; each is a view over a [`Space`](crate::Space), made per access.

mod buffer;
mod expiring;
mod headers;
mod key_value;
mod list_value;
mod session;
mod timestamped;
mod ttl;
mod versioned;
mod window;
mod with_headers;

pub use buffer::{
    ArrivalBuffer, BufferScratch, BufferTotals, BufferValue, Buffered, ContextHeaders, KeyBuffer, MakeValue,
    OldestFirst, UpdateContext,
};
pub use expiring::Keys;
pub use headers::{Header, HeaderIter, Headers};
pub use key_value::{KeyValue, KeyValueRow};
pub use list_value::{ListValue, ListValues};
pub use session::{Session, SessionRow, SessionScan, Sessions};
pub use timestamped::{TimestampedKeyValue, TimestampedRow, ValueAndTimestamp};
pub use ttl::{Expired, TtlKeyValue};
pub use versioned::{VersionPut, Versioned, VersionedRecord};
pub use window::{Window, WindowRow, WindowScan};
pub use with_headers::{AggregationWithHeaders, HeadersRow, TimestampedKeyValueWithHeaders, ValueTimestampHeaders};
