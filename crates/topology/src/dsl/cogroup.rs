//! Several grouped streams into one aggregate.

use std::sync::Arc;

use crate::dsl::at::At;
use crate::dsl::grouped::GroupedStream;
use crate::dsl::options::Materialized;
use crate::dsl::row_store::{DeclaredStore, declare_store};
use crate::dsl::table::{Deletes, Table, Upserts};
use crate::dsl::window_store::{DeclaredWindows, declare_sessions, declare_windows};
use crate::dsl::windowed::{Plan, Windowing};
use crate::dsl::windows::WindowSpec;
use crate::error::Result;
use crate::graph::{NodeSpec, OldValues};
use crate::names::prefix;
use crate::node::{Build, BuildCx, Built};
use crate::nodes::{
    Aggregate, AggregateNode, DrainFn, MergeNode, SessionAggregate, SessionRows, TableStore, WindowRows,
};
use crate::problem::ProblemKind;
use crate::record::{Change, Record};
use crate::serde::{AnySerde, Coder, Windowed};

/// Grouped streams whose records go into one aggregate; [`GroupedStream::cogroup`] makes it.
///
/// Each stream has an aggregator of its own, so their values may be of different types. All share one store. A stream whose key
/// may have been changed goes through a repartition topic first: name its grouping if there are several such.
///
/// # Semantics
///
/// As those of a [`GroupedStream`], of [windows](crate::WindowedStream) or [sessions](crate::SessionWindowedStream). In windows
/// each stream has a time of its own: what is late to one may be in time to another.
#[must_use = "a cogroup does nothing until something is made of it"]
pub struct CogroupedStream<K: 'static, A: 'static> {
    /// Some place in the topology.
    at: At,
    inputs: Vec<Box<dyn Input<K, A>>>,
    name: Option<String>,
}

/// A [`CogroupedStream`] in time windows or sliding windows.
#[must_use = "windows do nothing until something is made of them"]
pub struct WindowedCogroup<K: 'static, A: 'static>(CogroupedStream<K, A>, WindowSpec);

/// A [`CogroupedStream`] in sessions.
#[must_use = "sessions do nothing until something is made of them"]
pub struct SessionWindowedCogroup<K: 'static, A: 'static>(CogroupedStream<K, A>, WindowSpec);

macro_rules! opaque {
    ($($name:ident),+) => {$(
        impl<K: 'static, A: 'static> std::fmt::Debug for $name<K, A> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )+};
}

opaque!(CogroupedStream, WindowedCogroup, SessionWindowedCogroup);

impl<K: 'static, V: 'static> GroupedStream<K, V> {
    /// Begins an aggregate that the records of several grouped streams go into; `aggregator` is the one for this stream.
    ///
    /// ```
    /// # use millpond_topology::*;
    /// let mut builder = Topology::builder();
    /// let orders = builder.stream("orders", Consumed::with(Utf8, I64)).group_by_key();
    /// let complaints = builder.stream("complaints", Consumed::with(Utf8, Utf8)).group_by_key();
    /// // How content a customer may be.
    /// orders
    ///     .cogroup(|score: i64, _customer, amount| score + amount)
    ///     .cogroup(complaints, |score, _customer, text| score - 10 * text.len() as i64)
    ///     .aggregate(|| 0, Materialized::named("scores").value(I64))
    ///     .to_stream()
    ///     .to("scores", Produced::with(Utf8, I64));
    /// # builder.build().unwrap();
    /// ```
    pub fn cogroup<A: 'static>(
        self,
        aggregator: impl Fn(A, &K, &V) -> A + Send + Sync + 'static,
    ) -> CogroupedStream<K, A> {
        self.try_cogroup(move |so_far, key, value| Ok(aggregator(so_far, key, value)))
    }

    /// As [`GroupedStream::cogroup`], with an aggregator that can fail.
    pub fn try_cogroup<A: 'static>(
        self,
        aggregator: impl Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
    ) -> CogroupedStream<K, A> {
        let at = self.at().clone();
        CogroupedStream { at, inputs: vec![Box::new(Grouped { grouped: self, aggregator })], name: None }
    }
}

impl<K: 'static, A: 'static> CogroupedStream<K, A> {
    /// Adds a grouped stream and its aggregator.
    pub fn cogroup<V: 'static>(
        self,
        grouped: GroupedStream<K, V>,
        aggregator: impl Fn(A, &K, &V) -> A + Send + Sync + 'static,
    ) -> Self {
        self.try_cogroup(grouped, move |so_far, key, value| Ok(aggregator(so_far, key, value)))
    }

    /// As [`CogroupedStream::cogroup`], with an aggregator that can fail.
    pub fn try_cogroup<V: 'static>(
        mut self,
        grouped: GroupedStream<K, V>,
        aggregator: impl Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
    ) -> Self {
        self.inputs.push(Box::new(Grouped { grouped, aggregator }));
        self
    }

    /// Names the operators: `<name>-cogroup-agg-0` and so on, and `<name>-cogroup-merge`.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Cuts the groups into windows of event time: [`TimeWindows`](crate::TimeWindows),
    /// [`SlidingWindows`](crate::SlidingWindows) or [`SessionWindows`](crate::SessionWindows).
    pub fn windowed_by<W: Windowing>(self, windows: W) -> W::Cogroup<K, A> {
        windows.cut_cogroup(self)
    }

    /// Aggregates the records of each key. The aggregate begins as `initializer` makes it.
    pub fn aggregate(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<K, A, Upserts> {
        let (cogroup, materialized) = self.gather(materialized);
        let Gathered { at, inputs, store, names } = cogroup;
        let store = declare_store(&at, store, names.first(), materialized);
        let initializer: Initializer<A> = Arc::new(initializer);
        let parents =
            inputs.into_iter().zip(names.inputs).map(|(i, name)| i.rows(name, &initializer, &store)).collect();
        let (index, format) = (store.index, store.format.clone());
        let drain = move |b: &mut BuildCx<'_>| -> DrainFn<K, A> {
            let rows = TableStore::build(b, index, format.clone());
            Box::new(move |entry| Ok(rows.drained(entry)?.map(|drained| drained.record)))
        };
        Table::of(merge(&at, names.merge, parents, index, drain, true), store)
    }

    /// Sends the inputs through their repartition topics and chooses all names, in Kafka Streams' order.
    fn gather(self, mut materialized: Materialized<K, A>) -> (Gathered<K, A>, Materialized<K, A>) {
        let Self { at, inputs, name } = self;
        let known = inputs.iter().find_map(|input| input.key());
        materialized.key = materialized.key.or(known);
        let named = materialized.name.take();
        let store = named.unwrap_or_else(|| at.graph().names.store(prefix::COGROUP_AGGREGATE));
        let inputs: Vec<_> = inputs.into_iter().map(|i| i.gather(&store, materialized.key.clone())).collect();
        let choose = |suffix: String, prefix: &str| {
            at.graph().names.choose(name.as_ref().map(|name| format!("{name}{suffix}")), prefix)
        };
        let of_inputs =
            (0..inputs.len()).map(|n| choose(format!("-cogroup-agg-{n}"), prefix::COGROUP_AGGREGATE)).collect();
        let names =
            CogroupNames { inputs: of_inputs, merge: choose("-cogroup-merge".to_owned(), prefix::COGROUP_MERGE) };
        (Gathered { at, inputs, store, names }, materialized)
    }

    /// Reports what is wrong with windows.
    pub(crate) fn report(&self, mistakes: Vec<String>) {
        for mistake in mistakes {
            self.at.graph().problem(ProblemKind::Shape, mistake);
        }
    }
}

impl<K: 'static, A: 'static> WindowedCogroup<K, A> {
    pub(crate) fn new(cogroup: CogroupedStream<K, A>, spec: WindowSpec) -> Self {
        Self(cogroup, spec)
    }
}

impl<K: Clone + 'static, A: 'static> WindowedCogroup<K, A> {
    /// Aggregates the records of each key and window; see [`CogroupedStream::aggregate`].
    pub fn aggregate(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Upserts> {
        let (plan, (cogroup, materialized)) = (Plan::of(self.1), self.0.gather(materialized));
        let Gathered { at, inputs, store, names } = cogroup;
        let declared = declare_windows(&at, store, names.first(), materialized, &plan.spec, plan.emit);
        let initializer: Initializer<A> = Arc::new(initializer);
        let parents = inputs.into_iter().zip(names.inputs);
        let parents = parents.map(|(i, name)| i.windows(name, &initializer, plan, &declared)).collect();
        let (index, format) = (declared.index, declared.format.clone());
        let drain = move |b: &mut BuildCx<'_>| -> DrainFn<Windowed<K>, A> {
            let rows = WindowRows::build(b, index, format.clone(), &plan.spec, Arc::new(()));
            Box::new(move |entry| rows.drained_row(entry))
        };
        let at = merge(&at, names.merge, parents, index, drain, false);
        Table::of_windows(at, declared.key, declared.value, declared.rows, plan.spec.closing)
    }
}

impl<K: 'static, A: 'static> SessionWindowedCogroup<K, A> {
    pub(crate) fn new(cogroup: CogroupedStream<K, A>, spec: WindowSpec) -> Self {
        Self(cogroup, spec)
    }
}

impl<K: Clone + 'static, A: 'static> SessionWindowedCogroup<K, A> {
    /// Aggregates the records of each session; `merger` joins the aggregates of sessions that become one, as in
    /// [`SessionWindowedStream::aggregate`](crate::SessionWindowedStream::aggregate).
    pub fn aggregate(
        self,
        initializer: impl Fn() -> A + Send + Sync + 'static,
        merger: impl Fn(&K, A, A) -> A + Send + Sync + 'static,
        materialized: Materialized<K, A>,
    ) -> Table<Windowed<K>, A, Deletes> {
        let (plan, (cogroup, materialized)) = (Plan::of(self.1), self.0.gather(materialized));
        let Gathered { at, inputs, store, names } = cogroup;
        let declared = declare_sessions(&at, store, names.first(), materialized, &plan.spec, plan.emit);
        let folds: (Initializer<A>, Merger<K, A>) = (Arc::new(initializer), Arc::new(merger));
        let parents = inputs.into_iter().zip(names.inputs);
        let parents = parents.map(|(i, name)| i.sessions(name, &folds, plan, &declared)).collect();
        let (index, format) = (declared.index, declared.format.clone());
        let drain = move |b: &mut BuildCx<'_>| -> DrainFn<Windowed<K>, A> {
            let rows = SessionRows::build(b, index, format.clone(), &plan.spec, Arc::new(()));
            Box::new(move |entry| rows.drained_row(entry))
        };
        let at = merge(&at, names.merge, parents, index, drain, false);
        Table::of_windows(at, declared.key, declared.value, declared.rows, plan.spec.closing)
    }
}

type Initializer<A> = Arc<dyn Fn() -> A + Send + Sync>;
type Merger<K, A> = Arc<dyn Fn(&K, A, A) -> A + Send + Sync>;

/// A cogroup whose inputs have their keys in the right tasks.
struct Gathered<K: 'static, A: 'static> {
    at: At,
    inputs: Vec<Box<dyn Source<K, A>>>,
    store: String,
    names: CogroupNames,
}

struct CogroupNames {
    inputs: Vec<String>,
    merge: String,
}

impl CogroupNames {
    /// The node that is said to have defined the store.
    fn first(&self) -> &str {
        self.inputs.first().unwrap_or(&self.merge)
    }
}

/// One of the streams; the type of its values is its own affair.
trait Input<K, A> {
    fn key(&self) -> Option<AnySerde<K>>;

    /// Goes through a repartition topic if one is needed, called after the grouping or the store.
    fn gather(self: Box<Self>, store: &str, key: Option<AnySerde<K>>) -> Box<dyn Source<K, A>>;
}

/// As [`Input`], where records of equal keys are in one task. Each function adds the node that puts them into the store.
trait Source<K: 'static, A: 'static> {
    fn rows(self: Box<Self>, name: String, initializer: &Initializer<A>, store: &DeclaredStore<K, A>) -> usize;

    fn windows(
        self: Box<Self>,
        name: String,
        initializer: &Initializer<A>,
        plan: Plan,
        store: &DeclaredWindows<K, A>,
    ) -> usize
    where
        K: Clone;

    fn sessions(
        self: Box<Self>,
        name: String,
        folds: &(Initializer<A>, Merger<K, A>),
        plan: Plan,
        store: &DeclaredWindows<K, A>,
    ) -> usize
    where
        K: Clone;
}

struct Grouped<K, V, F> {
    grouped: GroupedStream<K, V>,
    aggregator: F,
}

struct InTask<V, F> {
    at: At,
    value: Option<Coder<V>>,
    aggregator: F,
}

impl<K, V, A, F> Input<K, A> for Grouped<K, V, F>
where
    K: 'static,
    V: 'static,
    A: 'static,
    F: Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
{
    fn key(&self) -> Option<AnySerde<K>> {
        self.grouped.serdes().0
    }

    fn gather(self: Box<Self>, store: &str, key: Option<AnySerde<K>>) -> Box<dyn Source<K, A>> {
        let (at, _, value) = self.grouped.gathered(store, key);
        Box::new(InTask { at, value: value.map(Coder::value), aggregator: self.aggregator })
    }
}

impl<K, V, A, F> Source<K, A> for InTask<V, F>
where
    K: 'static,
    V: 'static,
    A: 'static,
    F: Fn(A, &K, &V) -> Result<A> + Send + Sync + 'static,
{
    fn rows(self: Box<Self>, name: String, initializer: &Initializer<A>, store: &DeclaredStore<K, A>) -> usize {
        let Self { at, value, aggregator } = *self;
        let initializer = initializer.clone();
        let fold = Arc::new(Aggregate(move || initializer(), aggregator));
        let (index, format) = (store.index, store.format.clone());
        let build: Build = Arc::new(move |b| {
            let store = TableStore::build(b, index, format.clone());
            let (name, node, fold, value) = (b.name.clone(), b.node, fold.clone(), value.clone());
            Ok(Built::node(AggregateNode::<K, V, A, _> { name, node, fold, store, value, outs: b.outs()? }))
        });
        let mut spec = NodeSpec::processor(name, vec![at.node], build).keeping_key();
        spec.keep_rows(index, store.format.lookup());
        at.graph().add::<Record<K, V>, Record<K, Change<A>>>(spec)
    }

    fn windows(
        self: Box<Self>,
        name: String,
        initializer: &Initializer<A>,
        plan: Plan,
        store: &DeclaredWindows<K, A>,
    ) -> usize
    where
        K: Clone,
    {
        let Self { at, value, aggregator } = *self;
        let initializer = initializer.clone();
        let fold = Arc::new(Aggregate(move || initializer(), aggregator));
        let (index, format) = (store.index, store.format.clone());
        let rows = move |b: &mut BuildCx<'_>| WindowRows::build(b, index, format.clone(), &plan.spec, fold.clone());
        plan.add::<K, V, A, _>(&at, name, value, index, rows).node
    }

    fn sessions(
        self: Box<Self>,
        name: String,
        (initializer, merger): &(Initializer<A>, Merger<K, A>),
        plan: Plan,
        store: &DeclaredWindows<K, A>,
    ) -> usize
    where
        K: Clone,
    {
        let Self { at, value, aggregator } = *self;
        let (initializer, merger) = (initializer.clone(), merger.clone());
        let merger = move |key: &K, one: A, other: A| Ok(merger(key, one, other));
        let fold = Arc::new(SessionAggregate(move || initializer(), aggregator, merger));
        let (index, format) = (store.index, store.format.clone());
        let rows = move |b: &mut BuildCx<'_>| SessionRows::build(b, index, format.clone(), &plan.spec, fold.clone());
        plan.add::<K, V, A, _>(&at, name, value, index, rows).node
    }
}

/// Adds the node where the inputs meet: it takes what is drained of their store.
fn merge<K: 'static, A: 'static>(
    at: &At,
    name: String,
    parents: Vec<usize>,
    store: usize,
    drain: impl Fn(&mut BuildCx<'_>) -> DrainFn<K, A> + Send + Sync + 'static,
    keeps_key: bool,
) -> At {
    let build: Build = Arc::new(move |b| {
        let drained = drain(b);
        Ok(Built::node(MergeNode { name: b.name.clone(), drained, outs: b.outs()? }))
    });
    let mut spec = NodeSpec::processor(name, parents, build);
    spec.keeps_key = keeps_key;
    spec.old = OldValues { passes: true, ..OldValues::default() };
    let mut graph = at.graph();
    graph.copartitioned.push(spec.parents.clone());
    let node = graph.add::<Record<K, Change<A>>, Record<K, Change<A>>>(spec);
    if let Some(entry) = graph.stores.get_mut(store) {
        entry.owner = Some(node);
    }
    drop(graph);
    at.moved(node)
}
