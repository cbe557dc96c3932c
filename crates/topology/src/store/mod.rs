//! Stores as processors see them: declared once, reached by typed handles, read and written through views.

mod kind;
mod rows;
mod set;
mod spec;
mod values;
mod view;

pub use kind::{KeyValue, StoreKind, TimestampedKeyValue};
pub(crate) use kind::{sealed, with_access};
pub use rows::Rows;
pub(crate) use set::{Bound, parts};
pub use set::{StoreHandle, StoreRef, StoreSet, ViewSet};
pub use spec::{Logging, Retention, StoreDef, StoreSpec, StoreType};
pub(crate) use values::Serdes;
pub use values::{Plain, Stamped, ValueAndTimestamp, Values};
pub use view::StoreView;
