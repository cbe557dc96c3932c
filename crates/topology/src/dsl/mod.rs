//! The DSL: streams and tables, and the operators on them.

mod at;
mod cogroup;
mod dedup;
mod emit;
mod grouped;
mod grouped_table;
mod options;
mod output;
mod repartition;
mod row_store;
mod split;
mod stream;
mod suppress;
mod table;
mod window_store;
mod windowed;
mod windows;

pub(crate) use at::{At, Shared, declare};
pub use cogroup::{CogroupedStream, SessionWindowedCogroup, WindowedCogroup};
pub use emit::EmitStrategy;
pub use grouped::GroupedStream;
pub use grouped_table::GroupedTable;
pub(crate) use options::Kept;
pub use options::{Consumed, Grouped, Materialized, Produced, Repartitioned};
pub(crate) use repartition::add_sink_to;
pub use split::Split;
pub use stream::Stream;
pub(crate) use stream::processor_spec;
pub use suppress::{BufferConfig, Eager, Strict, Suppressed, Until, UntilTimeLimit, UntilWindowCloses};
pub use table::{Deletes, Table, TableKind, Upserts};
pub(crate) use table::{UpdateNames, table_of_updates};
pub use windowed::{SessionWindowedStream, WindowedStream, Windowing};
pub(crate) use windows::{Closing, Shape, WindowSpec};
pub use windows::{SessionWindows, SlidingWindows, TimeWindows};
