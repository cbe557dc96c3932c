//! The store kinds: typed by meaning, not by serde; each is a view over a [`Space`](crate::Space), made per access.

mod expiring;
mod key_value;
mod session;
mod timestamped;
mod window;

pub use expiring::Keys;
pub use key_value::{KeyValue, KeyValueRow};
pub use session::{Session, SessionRow, SessionScan, Sessions};
pub use timestamped::{TimestampedKeyValue, TimestampedRow, ValueAndTimestamp};
pub use window::{Window, WindowRow, WindowScan};
