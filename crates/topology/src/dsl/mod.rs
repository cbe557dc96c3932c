//! The DSL: streams and tables, and the operators on them.

mod at;
mod emit;
mod grouped;
mod options;
mod repartition;
mod split;
mod stream;
mod table;
mod window_store;
mod windowed;
mod windows;

pub(crate) use at::{At, Shared};
pub use emit::EmitStrategy;
pub use grouped::GroupedStream;
pub use options::{Consumed, Grouped, Materialized, Produced, Repartitioned};
pub(crate) use repartition::add_sink_node;
pub use split::Split;
pub use stream::Stream;
pub(crate) use stream::processor_spec;
pub(crate) use table::table_of_updates;
pub use table::{Deletes, Table, TableKind, Upserts};
pub use windowed::{SessionWindowedStream, WindowedStream, Windowing};
pub(crate) use windows::{Closing, Shape, WindowSpec};
pub use windows::{SessionWindows, SlidingWindows, TimeWindows};
