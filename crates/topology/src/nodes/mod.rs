//! The nodes that the library itself puts into a graph.

mod aggregate;
mod dedup;
mod fixed_key;
mod merge;
mod null_key;
mod op;
mod sink;
mod source;
mod split;
mod suppress;
mod table;
mod table_aggregate;
mod table_select;
mod table_store;
mod windowed;

pub(crate) use aggregate::{Aggregate, AggregateNode, Count, Fold, Reduce};
pub(crate) use dedup::{Dedup, KeyAndId, Origin, OriginSerde};
pub(crate) use fixed_key::{FixKey, fixed_key_outs};
pub(crate) use merge::{DrainFn, MergeNode};
pub(crate) use null_key::NullKeyFilter;
pub(crate) use op::{
    Filter, FlatMap, FlatMapValues, Foreach, Map, MapValues, MapValuesWithKey, Op, OpNode, Pass, Peek, Print,
    SelectKey, TryFilter, TryMap, TryMapValues, TryPeek,
};
pub(crate) use sink::{Partitioner, SinkNode, TopicChooser};
pub(crate) use source::{Extractor, Reading, SourceNode, StreamRoot, TableRoot};
pub(crate) use split::{Predicates, SplitNode};
pub(crate) use suppress::{Room, SuppressNode, SuppressSpec, Wait, WhenFull};
pub(crate) use table::{RowFn, TableOpNode, TableSourceNode, ToStreamNode, TransformNode};
pub(crate) use table_aggregate::{RemoveWith, Subtract, TableAggregateNode, TakeOff, Uncount};
pub(crate) use table_select::{SelectFn, TableSelectNode};
pub(crate) use table_store::{RowFormat, RowKind, TableStore};
pub(crate) use windowed::{
    Emission, FoldRef, Merge, SessionAggregate, SessionRows, WindowFormat, WindowRows, WindowedAggregation,
    WindowedNode,
};
