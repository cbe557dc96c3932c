//! Suppression: a table whose updates wait, until a time limit or until their windows close.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::dsl::at::At;
use crate::dsl::stream::missing;
use crate::dsl::table::{Table, TableKind, TableParts, Upserts};
use crate::dsl::windows::Closing;
use crate::graph::{Graph, NodeSpec, OldValues};
use crate::millis::whole;
use crate::names::prefix;
use crate::node::{Build, Built};
use crate::nodes::{Room, SuppressNode, SuppressSpec, Wait, WhenFull};
use crate::problem::ProblemKind;
use crate::record::{Change, Record};
use crate::serde::{Coder, Windowed};
use crate::store::{Logging, StoreDef, StoreFormat, StoreType, sealed};

/// How updates of a table are held back: [`Table::suppress`].
#[derive(Clone, Debug)]
pub struct Suppressed<U> {
    until: U,
    buffer: Settings,
    name: Option<String>,
}

/// What an update of a table with keys `K` can wait for: [`UntilTimeLimit`], and [`UntilWindowCloses`] if the keys have windows.
#[diagnostic::on_unimplemented(
    message = "a table with keys of type `{K}` cannot be suppressed in this way",
    label = "this waits for the end of a window",
    note = "`Suppressed::until_window_closes` is for tables of windows or sessions, whose keys are `Windowed<..>`; any other table \
            takes `Suppressed::until_time_limit`"
)]
pub trait Until<K>: sealed::Sealed {
    /// What becomes of the table: final results are of rows that are there, so as a stream they have values.
    type Kind<D: TableKind>: TableKind;

    /// Where the window of a key ends, if it is that which is waited for.
    #[doc(hidden)]
    fn window_end(key: &K) -> Option<i64>;

    /// For how long an update waits, and for how long the input is silent until time goes on; `None` if it waits for its window.
    #[doc(hidden)]
    fn limits(&self) -> Option<(Duration, Option<Duration>)>;
}

/// Waits for some event time to pass; see [`Suppressed::until_time_limit`].
#[derive(Clone, Copy, Debug)]
pub struct UntilTimeLimit {
    limit: Duration,
    idle_after: Option<Duration>,
}

/// Waits until windows close; see [`Suppressed::until_window_closes`].
#[derive(Clone, Copy, Debug)]
pub struct UntilWindowCloses;

impl sealed::Sealed for UntilTimeLimit {}

impl<K> Until<K> for UntilTimeLimit {
    type Kind<D: TableKind> = D;

    fn window_end(_: &K) -> Option<i64> {
        None
    }

    fn limits(&self) -> Option<(Duration, Option<Duration>)> {
        Some((self.limit, self.idle_after))
    }
}

impl sealed::Sealed for UntilWindowCloses {}

impl<K> Until<Windowed<K>> for UntilWindowCloses {
    type Kind<D: TableKind> = Upserts;

    fn window_end(key: &Windowed<K>) -> Option<i64> {
        Some(key.end)
    }

    fn limits(&self) -> Option<(Duration, Option<Duration>)> {
        None
    }
}

impl Suppressed<UntilTimeLimit> {
    /// An update of a row waits until so much event time has passed since the first update of the row that it replaces: of all
    /// updates within the limit only the last one comes out. A row does not wait longer because it is updated again.
    ///
    /// Event time is what the table's updates bring: the greatest of their times so far. So the last updates wait for the
    /// next one, of whatever row, unless [`Suppressed::idle_after`] says otherwise.
    pub fn until_time_limit<W>(limit: Duration, buffer: BufferConfig<W>) -> Self {
        let until = UntilTimeLimit { limit, idle_after: None };
        Self { until, buffer: buffer.settings, name: None }
    }

    /// Lets time go on when nothing comes: once the task has had nothing to read for so long by the wall clock, its event time
    /// counts as the wall clock's less this limit. Off by default, as in Kafka Streams, which has no such option. It is meant for
    /// inputs whose event times follow the clock. Windows have an option of their own:
    /// [`TimeWindows::idle_after`](crate::TimeWindows::idle_after).
    #[must_use]
    pub fn idle_after(mut self, limit: Duration) -> Self {
        self.until.idle_after = Some(limit);
        self
    }
}

impl Suppressed<UntilWindowCloses> {
    /// Only the final result of each window comes out, once, when the window takes no more records: by the same rule by which
    /// its aggregation drops late ones. Of a window without a result (a session that was merged into another) nothing comes out.
    /// Behind an aggregation that gives [final results](crate::EmitStrategy::on_window_close) itself it is refused.
    ///
    /// For tables of windows or sessions, and tables that are made of these row by row.
    pub fn until_window_closes(buffer: BufferConfig) -> Self {
        Self { until: UntilWindowCloses, buffer: buffer.settings, name: None }
    }
}

impl<U> Suppressed<U> {
    /// Names the operator; its store is called `<name>-store`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// The mark of a buffer that lets nothing out before it is due.
#[derive(Clone, Copy, Debug)]
pub struct Strict;

/// The mark of a buffer that lets rows out early when it is full.
#[derive(Clone, Copy, Debug)]
pub struct Eager;

/// How much a suppression buffer is to hold, and what happens when it holds more.
///
/// A buffer is a store: it lies in the store's engine under the task's overlay, in the one memory budget of the application, and has a
/// changelog. So by default it needs no limit, and with one nothing happens when that is passed: rows *spill* to the engine, on disk if
/// that is persistent; the metrics `suppression-buffer-count-current` and `suppression-buffer-size-current` tell how many there are. Kafka
/// Streams holds buffers in memory only, and its limits protect it.
///
/// Where a limit shall mean something: [`BufferConfig::shut_down_when_full`], or [`BufferConfig::emit_early_when_full`], which makes no
/// sense of final results and is refused for them by its type.
#[derive(Clone, Debug)]
pub struct BufferConfig<W = Strict> {
    settings: Settings,
    mark: PhantomData<fn() -> W>,
}

#[derive(Clone, Debug)]
struct Settings {
    room: Room,
    logging: Logging,
    engine: Option<String>,
}

impl BufferConfig {
    /// As much as comes.
    pub fn unbounded() -> Self {
        let room = Room { records: None, bytes: None, when_full: WhenFull::Spill };
        Self { settings: Settings { room, logging: Logging::default(), engine: None }, mark: PhantomData }
    }

    /// At most so many rows, one or more.
    pub fn max_records(most: u64) -> Self {
        Self::unbounded().with_max_records(most)
    }

    /// At most so many bytes, one or more, of keys and values, as they are kept: with the headers of an update, the topic it
    /// came from, and the row's values before and now.
    pub fn max_bytes(most: u64) -> Self {
        Self::unbounded().with_max_bytes(most)
    }
}

impl<W> BufferConfig<W> {
    /// At most so many rows, as well as what else is limited.
    #[must_use]
    pub fn with_max_records(mut self, most: u64) -> Self {
        self.settings.room.records = Some(most);
        self
    }

    /// At most so many bytes, as well as what else is limited; see [`BufferConfig::max_bytes`].
    #[must_use]
    pub fn with_max_bytes(mut self, most: u64) -> Self {
        self.settings.room.bytes = Some(most);
        self
    }

    /// Nothing happens when there is more: it lies in the engine. The default.
    #[must_use]
    pub fn spill_when_full(self) -> BufferConfig {
        self.when_full(WhenFull::Spill)
    }

    /// The rows that wait longest come out, with their last update, until what is left is not too much.
    #[must_use]
    pub fn emit_early_when_full(self) -> BufferConfig<Eager> {
        self.when_full(WhenFull::EmitEarly)
    }

    /// The application stops with an error that names the operator, what it holds and the limit. What was done since the last
    /// commit is given up, and done again after a start with a higher limit. Behind a table with a cache the updates come out at the
    /// commit, so that only then is seen what is too much.
    #[must_use]
    pub fn shut_down_when_full(self) -> BufferConfig {
        self.when_full(WhenFull::ShutDown)
    }

    /// No changelog: after the loss of local state what waits is lost.
    #[must_use]
    pub fn logging_disabled(mut self) -> Self {
        self.settings.logging = Logging::Disabled;
        self
    }

    /// A changelog (which is the default) with these topic configs.
    #[must_use]
    pub fn logging<A: Into<String>, B: Into<String>>(mut self, configs: impl IntoIterator<Item = (A, B)>) -> Self {
        let topic_configs: BTreeMap<_, _> = configs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        self.settings.logging = Logging::Enabled { topic_configs };
        self
    }

    /// The engine, by the name it was given to the application.
    #[must_use]
    pub fn engine(mut self, name: impl Into<String>) -> Self {
        self.settings.engine = Some(name.into());
        self
    }

    fn when_full<X>(mut self, when_full: WhenFull) -> BufferConfig<X> {
        self.settings.room.when_full = when_full;
        BufferConfig { settings: self.settings, mark: PhantomData }
    }
}

impl<K: 'static, V: 'static, D: TableKind> Table<K, V, D> {
    /// Holds updates of rows back, so that of several only the last comes out (KIP-328).
    ///
    /// Until a time limit of 5, with three rows `a`, `b` and `c` (`a=1@0` is the value 1 of `a` at the event time 0):
    ///
    /// ```text
    /// comes in    a=1@0     a=2@3     b=1@5       c=1@9      c=2@14
    /// comes out     –         –       a=2@3         –        b=1@5, c=2@14
    /// waits         a         a         b          b, c         –
    /// ```
    ///
    /// Until windows of 10 close, with a grace of 5, counting by key:
    ///
    /// ```text
    /// comes in    a@1       a@9       b@14        a@5          a@15           b@40
    /// comes out     –         –         –           –          a[0,10)=3@9    a[10,20)=1@15, b[10,20)=1@14
    /// why                                       in its grace   [0,10) closes  [10,20) closes
    /// ```
    ///
    /// What comes out has its update's own time and headers, and comes in the order of the times by which it was due, then of the keys'
    /// bytes. A table that is made of it sees as old value what came out before.
    ///
    /// # Time
    ///
    /// Time is what the table's updates bring, and is kept beside the input offsets: it does not go back when the application starts
    /// again, nor is a final result said a second time. An update for a window whose final result has been forwarded is dropped and counted
    /// as late. With [`TimeWindows::idle_after`](crate::TimeWindows::idle_after), windows close by the wall clock when nothing comes.
    ///
    /// Behind a store with a cache, updates come with the commits, and what is due comes out when all of them are there.
    ///
    /// ```
    /// use std::time::Duration;
    /// use millpond_topology::*;
    ///
    /// let mut builder = Topology::builder();
    /// builder
    ///     .table("prices", Consumed::with(Utf8, I64))
    ///     .suppress(Suppressed::until_time_limit(Duration::from_secs(60), BufferConfig::unbounded()).named("calm"))
    ///     .to_stream()
    ///     .to("calm-prices", Produced::with(Utf8, Nullable(I64)));
    /// # builder.build().unwrap();
    /// ```
    #[must_use = "what is let through goes nowhere until something consumes it"]
    pub fn suppress<U: Until<K>>(self, suppressed: Suppressed<U>) -> Table<K, V, U::Kind<D>> {
        let Suppressed { until, buffer: Settings { room, logging, engine }, name } = suppressed;
        let TableParts { mut at, key, value, versioned, closing, maps_nulls } = self.into_parts();
        let given = at.name.take();
        let (name, store) = names(&mut at.graph(), name.or(given));
        let wait = wait(&at, &name, until.limits(), closing);
        check_room(&mut at.graph(), &name, &room);
        if versioned {
            // As in Kafka Streams: an update of such a table may be of the past.
            let message = format!("`{name}` suppresses a versioned table; keep its rows in another kind of store");
            at.graph().problem(ProblemKind::Shape, message);
        }
        let key = at.serde(key, || missing("key", "suppress", &name, "Materialized"));
        let value = at.serde(value, || {
            format!(
                "no serde is known for the value at `suppress` (`{name}`); name it in the operator before: \
                 `map_values_materialized(f, Materialized::with(..))`"
            )
        });
        // Without the rows before, what waits is the whole table's to tell; whoever needs to know more asks for it.
        let _ = at.graph().keep_rows(at.node);
        let def = StoreDef {
            name: store,
            kind: StoreType::SuppressionBuffer,
            retention: None,
            hold: None,
            sub: 0,
            // Of a row that is updated often, or comes and goes between two commits, that is all that is logged.
            caching: true,
            logging,
            engine,
            owner: None,
        };
        let store = at.graph().add_store(def, format!("`{name}`"));
        let (key_coder, value_coder) = (Coder::key(key.clone()), Coder::value(value.clone()));
        let with_headers = at.graph().format != StoreFormat::Plain;
        let window_end = U::window_end;
        let tells_finals = wait.is_final();
        let spec = SuppressSpec { wait, room, window_end, key: key_coder, value: value_coder, store, with_headers };
        let build: Build = Arc::new(move |b| Ok(Built::node(SuppressNode::build(&spec, b)?)));
        let mut spec = NodeSpec::processor(name, vec![at.node], build);
        spec.stores = vec![store];
        (spec.awaits_drain, spec.has_time, spec.lets_through, spec.tells_finals) = (true, true, true, tells_finals);
        spec.old = OldValues { asks: true, passes: true, gives: false };
        let node = at.graph().add::<Record<K, Change<V>>, Record<K, Change<V>>>(spec);
        Table::of_parts(TableParts {
            at: at.moved(node),
            key: Some(key),
            value: Some(value),
            versioned: false,
            closing,
            maps_nulls,
        })
    }
}

/// What an update waits for; what cannot be meant is reported.
fn wait(at: &At, name: &str, limits: Option<(Duration, Option<Duration>)>, closing: Option<Closing>) -> Wait {
    let wrong = |message: String| at.graph().problem(ProblemKind::Shape, message);
    let millis = |what: &str, duration: Duration| {
        whole(duration).unwrap_or_else(|why| {
            wrong(format!("`{name}` has {what} of {why}"));
            0
        })
    };
    match (limits, closing) {
        (Some((limit, idle_after)), _) => Wait::TimeLimit {
            limit: millis("a time limit", limit),
            idle_after: idle_after.map(|limit| millis("an idle limit", limit)),
        },
        (None, Some(closing)) => {
            let finals = at.graph().tells_closed_windows(at.node);
            if let Some(of) = finals {
                wrong(format!(
                    "`{name}` waits until windows close, but `{of}` tells of windows only when they are closed: its results are \
                     final already; leave out the one or the other"
                ));
            }
            Wait::WindowCloses(closing)
        }
        (None, None) => {
            wrong(format!(
                "`{name}` waits until windows close, but its table is not made of windows: nobody knows when they do; \
                 suppress the aggregation itself, or a table that filters or maps it"
            ));
            Wait::TimeLimit { limit: 0, idle_after: None }
        }
    }
}

/// A buffer without any room is reported.
fn check_room(graph: &mut Graph, name: &str, room: &Room) {
    for (what, most) in [("records", room.records), ("bytes", room.bytes)] {
        if most == Some(0) {
            let message = format!("`{name}` has a buffer of 0 {what}, in which nothing can wait; at least 1 is needed");
            graph.problem(ProblemKind::Shape, message);
        }
    }
}

/// The names of the operator and of its store: a given name uses up no number, as in Kafka Streams.
fn names(graph: &mut Graph, given: Option<String>) -> (String, String) {
    match given {
        Some(name) => {
            let store = format!("{name}-store");
            (name, store)
        }
        None => (graph.names.generate(prefix::SUPPRESS), graph.names.store(prefix::SUPPRESS)),
    }
}
