//! Stores as processors see them: declared once, reached by typed handles, read and written through views.

mod declare;
mod expiry;
mod kind;
mod list;
mod mode;
mod rows;
mod serdes;
mod session;
mod set;
mod spec;
mod ttl;
mod values;
mod versioned;
mod view;
mod walk;
mod window;
mod windowed;
mod with_headers;

pub(crate) use expiry::{earliest_alive, expiring};
pub use kind::{
    KeyValue, ListValue, Session, SessionWithHeaders, StoreKind, TimestampedKeyValue, TimestampedKeyValueWithHeaders,
    TimestampedWindow, TimestampedWindowWithHeaders, TtlKeyValue, Versioned, Window,
};
pub(crate) use kind::{sealed, with_access};
pub use list::Listed;
pub use mode::{Mode, ReadOnly, Readable, Writable};
pub use rows::Rows;
pub(crate) use serdes::Serdes;
pub use session::SessionView;
pub(crate) use set::{Bound, parts};
pub use set::{StoreHandle, StoreRef, StoreSet, ViewSet};
pub use spec::{Logging, Retention, StoreDef, StoreFormat, StoreSpec, StoreType};
pub(crate) use ttl::put as put_expiring;
pub use values::{Expiring, Plain, Stamped, ValueAndTimestamp, Values};
pub(crate) use versioned::put as put_version;
pub use versioned::{VersionedRecord, VersionedView};
pub use view::StoreView;
pub use window::WindowView;
pub(crate) use window::{WindowSerdes, Windows};
pub use windowed::WindowedRows;
pub use with_headers::{AggregateWithHeaders, AggregationWithHeaders, StampedWithHeaders, ValueTimestampHeaders};
pub(crate) use with_headers::{
    read_aggregate_headers, read_headers, split_aggregate, split_with_headers, write_aggregate, write_with_headers,
};
