//! Grouped streams cut into windows, and what can be made of them.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::dsl::at::At;
use crate::dsl::cogroup::{CogroupedStream, SessionWindowedCogroup, WindowedCogroup};
use crate::dsl::emit::EmitStrategy;
use crate::dsl::grouped::{GroupedStream, Placed};
use crate::dsl::options::{Materialized, Produced};
use crate::dsl::stream::Stream;
use crate::dsl::table::{Deletes, Table, Upserts};
use crate::dsl::window_store::{declare_sessions, declare_windows};
use crate::dsl::windows::{SessionWindows, SlidingWindows, TimeWindows, WindowSpec};
use crate::error::Result;
use crate::graph::{NodeSpec, OldValues};
use crate::millis::whole;
use crate::names::prefix;
use crate::node::{Build, BuildCx, Built};
use crate::nodes::{
    Aggregate, Count, Emission, FoldRef, Merge, OpNode, Pass, Reduce, SessionAggregate, SessionRows, WindowRows,
    WindowedAggregation, WindowedNode,
};
use crate::problem::ProblemKind;
use crate::record::{Change, Record};
use crate::serde::{Coder, Windowed};
use crate::store::sealed;

/// What a grouped stream can be cut by: [`TimeWindows`], [`SlidingWindows`] or [`SessionWindows`].
pub trait Windowing: sealed::Sealed {
    /// What it makes of a grouped stream.
    type Stream<K: 'static, V: 'static>;

    /// What it makes of several.
    type Cogroup<K: 'static, A: 'static>;

    #[doc(hidden)]
    fn cut<K: 'static, V: 'static>(self, grouped: GroupedStream<K, V>) -> Self::Stream<K, V>;

    #[doc(hidden)]
    fn cut_cogroup<K: 'static, A: 'static>(self, cogroup: CogroupedStream<K, A>) -> Self::Cogroup<K, A>;
}

macro_rules! windowing {
    ($($windows:ident: $stream:ident, $cogroup:ident;)+) => {$(
        impl sealed::Sealed for $windows {}

        impl Windowing for $windows {
            type Stream<K: 'static, V: 'static> = $stream<K, V>;
            type Cogroup<K: 'static, A: 'static> = $cogroup<K, A>;

            fn cut<K: 'static, V: 'static>(self, grouped: GroupedStream<K, V>) -> $stream<K, V> {
                let (spec, mistakes) = self.spec();
                $stream(Parts::new(grouped, spec, mistakes))
            }

            fn cut_cogroup<K: 'static, A: 'static>(self, cogroup: CogroupedStream<K, A>) -> $cogroup<K, A> {
                let (spec, mistakes) = self.spec();
                cogroup.report(mistakes);
                $cogroup::new(cogroup, spec)
            }
        }
    )+};
}

windowing! {
    TimeWindows: WindowedStream, WindowedCogroup;
    SlidingWindows: WindowedStream, WindowedCogroup;
    SessionWindows: SessionWindowedStream, SessionWindowedCogroup;
}

/// A grouped stream in time windows or sliding windows; [`GroupedStream::windowed_by`] makes it.
///
/// # Semantics
///
/// Kafka Streams': each record goes into all windows that its event time lies in and that are not closed yet. A window is
/// closed when the time of this operator, which is the greatest event time that it has got, has come to the window's end and
/// the grace behind it. With windows of 10 and a grace of 5:
///
/// ```text
/// event time of the record     0    9   14    5   15    6
/// operator's time              0    9   14   14   15   15
/// [ 0, 10) is open while end > time - grace
///                              1    2    2    3    3   late: 10 > 15 - 5 does not hold
/// [10, 20)                               1    1    2
/// ```
///
/// A record that no window takes any more is *late*: it is dropped and counted (`dropped-records-by-node-total` with the reason
/// `late`), and goes [where you say](WindowedStream::split_late). One that only some of its windows take is not late.
/// Records with a null key or value are dropped and counted, and do not move time. A result carries the latest event time of
/// the records in its window.
#[must_use = "windows do nothing until something is made of them"]
pub struct WindowedStream<K, V>(Parts<K, V>);

/// A grouped stream in sessions; [`GroupedStream::windowed_by`] makes it.
///
/// # Semantics
///
/// Kafka Streams': a record goes into a session of its own, which swallows all sessions of its key that are not farther away
/// than the gap. What was swallowed is told of first, as deleted, in the order of the sessions' starts; then the new session.
/// A session is closed when the operator's time, the greatest event time that it has got, has come more than gap and grace
/// behind its last record:
///
/// ```text
/// gap 10, grace 5
/// event time of the record   100   105   119 (another key)      95                    121 (another key)   96
/// sessions of the key        [100, 100]                         [95, 105], since      closed:             late
///                                  [100, 105]                   105 >= 119 - 15       105 < 121 - 15
/// ```
///
/// A record that is in time swallows closed sessions, too, if they are not farther away than the gap; not where final results are
/// told of this table, by [`EmitStrategy::on_window_close`] or by [`Table::suppress`]: what is closed is final there.
///
/// Late records, null keys and null values are treated as in a [`WindowedStream`]. A result carries the time of its session's
/// last record.
#[must_use = "sessions do nothing until something is made of them"]
pub struct SessionWindowedStream<K, V>(Parts<K, V>);

/// What a windowed stream is made of.
struct Parts<K, V> {
    grouped: GroupedStream<K, V>,
    plan: Plan,
}

/// What is said of the node that aggregates into windows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) spec: WindowSpec,
    pub(crate) emit: EmitStrategy,
    /// The node that takes late records, once somebody wants them.
    late: Option<usize>,
}

impl<K: 'static, V: 'static> Parts<K, V> {
    fn new(grouped: GroupedStream<K, V>, spec: WindowSpec, mistakes: Vec<String>) -> Self {
        for mistake in mistakes {
            grouped.at().graph().problem(ProblemKind::Shape, mistake);
        }
        Self { grouped, plan: Plan::of(spec) }
    }

    fn split_late(&mut self) -> Stream<K, V> {
        let at = self.grouped.at();
        let node = self.plan.late.unwrap_or_else(|| {
            let build: Build = Arc::new(|b| {
                let (name, op, outs) = (b.name.clone(), Arc::new(Pass), b.outs()?);
                Ok(Built::node(OpNode::<Record<K, V>, Pass> { name, op, outs, message: PhantomData }))
            });
            let mut graph = at.graph();
            let name = graph.names.generate(prefix::LATE);
            // Its parent is not there yet.
            graph.add::<Record<K, V>, Record<K, V>>(NodeSpec::processor(name, Vec::new(), build).keeping_key())
        });
        self.plan.late = Some(node);
        let (key, value) = self.grouped.serdes();
        Stream { at: at.moved(node), rekeyed: false, key, value }
    }
}

impl Plan {
    /// Results with every update, and nobody takes late records.
    pub(crate) fn of(spec: WindowSpec) -> Self {
        Self { spec, emit: EmitStrategy::on_window_update(), late: None }
    }

    /// Adds the node that aggregates, over rows that `rows` makes of the store with this number.
    pub(crate) fn add<K: Clone + 'static, V: 'static, A: 'static, R: WindowedAggregation<K, V, A>>(
        self,
        at: &At,
        name: String,
        value: Option<Coder<V>>,
        index: usize,
        rows: impl Fn(&mut BuildCx<'_>) -> R + Send + Sync + 'static,
    ) -> At {
        let (spec, emission) = (self.spec, Emission::of(self.emit));
        let build: Build = Arc::new(move |b| {
            let rows = rows(b);
            Ok(Built::node(WindowedNode::build(b, index, rows, &spec, emission, value.clone())?))
        });
        let mut node = NodeSpec::processor(name, vec![at.node], build);
        node.stores = vec![index];
        (node.has_time, node.lets_through) = (true, self.emit.on_close.is_some());
        node.old = OldValues { gives: true, ..OldValues::default() };
        let mut graph = at.graph();
        let node = graph.add::<Record<K, V>, Record<Windowed<K>, Change<A>>>(node);
        if let Some(late) = self.late {
            graph.put_aside(node, late);
        }
        drop(graph);
        at.moved(node)
    }
}

macro_rules! common {
    ($($stream:ident),+) => {$(
        impl<K, V> std::fmt::Debug for $stream<K, V> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let Parts { grouped, plan } = &self.0;
                f.debug_struct(stringify!($stream))
                    .field("grouped", grouped)
                    .field("plan", plan)
                    .finish()
            }
        }

        impl<K: 'static, V: 'static> $stream<K, V> {
            /// Names the next operator.
            pub fn named(mut self, name: impl Into<String>) -> Self {
                self.0.grouped = self.0.grouped.named(name);
                self
            }

            /// When results come: with each update (the default), or once for each window when it is closed.
            pub fn emit_strategy(mut self, strategy: EmitStrategy) -> Self {
                if let Some(wrong) = strategy.on_close.and_then(|interval| whole(interval).err()) {
                    let message = format!("final results come at most once in {wrong}");
                    self.0.grouped.at().graph().problem(ProblemKind::Shape, message);
                }
                self.0.plan.emit = strategy;
                self
            }

            /// Late records as a stream of their own, with the key, value, time and headers that they came with: what has become
            /// of data is then never a mere number.
            ///
            /// ```
            /// # use std::time::Duration;
            /// # use millpond_topology::*;
            /// # let mut builder = Topology::builder();
            /// let hours = TimeWindows::of_size_with_no_grace(Duration::from_secs(3600));
            /// let (hourly, late) = builder
            ///     .stream("flights", Consumed::with(Utf8, Utf8))
            ///     .group_by_key()
            ///     .windowed_by(hours)
            ///     .split_late();
            /// hourly.count(Materialized::named("hourly"));
            /// late.to("late-flights", Produced::default());
            /// # builder.build().unwrap();
            /// ```
            pub fn split_late(mut self) -> (Self, Stream<K, V>) {
                let late = self.0.split_late();
                (self, late)
            }

            /// Writes late records to a topic; a short form of `split_late`.
            pub fn late_to(self, topic: &str, produced: Produced<K, V>) -> Self {
                let (windowed, late) = self.split_late();
                late.to(topic, produced);
                windowed
            }
        }
    )+};
}

common!(WindowedStream, SessionWindowedStream);

impl<K: Clone + 'static, V: 'static> WindowedStream<K, V> {
    /// Counts the records of each key and window. The value's serde is [`I64`](crate::I64) unless another is given.
    pub fn count(self, materialized: Materialized<K, i64>) -> Table<Windowed<K>, i64, Upserts> {
        let materialized = self.0.grouped.counting(materialized);
        self.aggregation(prefix::AGGREGATE, Count, materialized)
    }

    /// Combines the values of each key and window, pairwise in the order they come; the first one is taken as it is.
    pub fn reduce(
        self,
        f: impl Fn(V, V) -> V + Send + Sync + 'static,
        materialized: Materialized<K, V>,
    ) -> Table<Windowed<K>, V, Upserts>
    where
        V: Clone,
    {
        let materialized = self.0.grouped.reducing(materialized);
        self.aggregation(prefix::REDUCE, Reduce(f), materialized)
    }

    /// Puts the values of each key and window into an aggregate that begins as `initializer` makes it.
    pub fn aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(A, &K, &V) -> A + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Upserts> {
        self.try_aggregate(initializer, move |so_far, key, value| Ok(aggregator(so_far, key, value)), materialized)
    }

    /// As [`WindowedStream::aggregate`], with an aggregator that can fail.
    pub fn try_aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Upserts> {
        self.aggregation(prefix::AGGREGATE, Aggregate(initializer, aggregator), materialized)
    }

    fn aggregation<A: 'static, F: FoldRef<K, V, A>>(
        self,
        prefix: &str,
        fold: F,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Upserts> {
        let Parts { grouped, plan } = self.0;
        let Placed { at, store, name, materialized, value } = grouped.place(prefix, materialized);
        let spec = plan.spec;
        let declared = declare_windows(&at, store, &name, materialized, &spec, plan.emit);
        let (index, format, fold) = (declared.index, declared.format, Arc::new(fold));
        let rows = move |b: &mut BuildCx<'_>| WindowRows::build(b, index, format.clone(), &spec, fold.clone());
        let at = plan.add(&at, name, value.map(Coder::value), index, rows);
        Table::of_windows(at, declared.key, declared.value, declared.rows, spec.closing)
    }
}

impl<K: Clone + 'static, V: 'static> SessionWindowedStream<K, V> {
    /// Counts the records of each session. The value's serde is [`I64`](crate::I64) unless another is given.
    pub fn count(self, materialized: Materialized<K, i64>) -> Table<Windowed<K>, i64, Deletes> {
        let materialized = self.0.grouped.counting(materialized);
        self.aggregation(prefix::AGGREGATE, Count, materialized)
    }

    /// Combines the values of each session; the first one is taken as it is. It combines sessions that become one, too, the
    /// earlier one first.
    pub fn reduce(
        self,
        f: impl Fn(V, V) -> V + Send + Sync + 'static,
        materialized: Materialized<K, V>,
    ) -> Table<Windowed<K>, V, Deletes>
    where
        V: Clone,
    {
        let materialized = self.0.grouped.reducing(materialized);
        self.aggregation(prefix::REDUCE, Reduce(f), materialized)
    }

    /// Puts the values of each session into an aggregate that begins as `initializer` makes it.
    ///
    /// `merger` joins the aggregates of sessions that become one: it begins with a new aggregate and takes them in order,
    /// also if there is only one; the value at hand is put in last.
    pub fn aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(A, &K, &V) -> A + Send + Sync + 'static,
        merger: impl Fn(&K, A, A) -> A + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Deletes> {
        let aggregator = move |so_far, key: &K, value: &V| Ok(aggregator(so_far, key, value));
        self.try_aggregate(initializer, aggregator, move |key, a, b| Ok(merger(key, a, b)), materialized)
    }

    /// As [`SessionWindowedStream::aggregate`], with an aggregator and a merger that can fail.
    pub fn try_aggregate<A: 'static>(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        aggregator: impl Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
        merger: impl Fn(&K, A, A) -> Result<A> + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Deletes> {
        self.aggregation(prefix::AGGREGATE, SessionAggregate(initializer, aggregator, merger), materialized)
    }

    fn aggregation<A: 'static, F: Merge<K, V, A>>(
        self,
        prefix: &str,
        fold: F,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Deletes> {
        let Parts { grouped, plan } = self.0;
        let Placed { at, store, name, materialized, value } = grouped.place(prefix, materialized);
        let spec = plan.spec;
        let declared = declare_sessions(&at, store, &name, materialized, &spec, plan.emit);
        let (index, format, fold) = (declared.index, declared.format, Arc::new(fold));
        let rows = move |b: &mut BuildCx<'_>| SessionRows::build(b, index, format.clone(), &spec, fold.clone());
        let at = plan.add(&at, name, value.map(Coder::value), index, rows);
        Table::of_windows(at, declared.key, declared.value, declared.rows, spec.closing)
    }
}
