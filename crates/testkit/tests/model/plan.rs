//! A topology as data: steps that name the steps they come from, and the users' functions in them.

use std::fmt;

/// A step by its place in the plan.
pub(crate) type StepId = usize;

/// One operator, with the steps that it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// Reads the topic of this step as a stream.
    Stream,
    /// Reads the topic of this step as a table.
    Table {
        kept: bool,
        cached: bool,
    },
    Filter {
        of: StepId,
        pred: Pred,
    },
    MapValues {
        of: StepId,
        f: ValueFn,
    },
    /// Each value so many times, each time one more.
    FlatMapValues {
        of: StepId,
        times: i64,
    },
    SelectKey {
        of: StepId,
        key: KeyFn,
    },
    Map {
        of: StepId,
        key: KeyFn,
        f: ValueFn,
    },
    Merge {
        left: StepId,
        right: StepId,
    },
    /// The branches for these predicates, and the rest.
    Split {
        of: StepId,
        preds: Vec<Pred>,
    },
    Branch {
        of: StepId,
        nth: usize,
    },
    Repartition {
        of: StepId,
    },
    /// Through a topic; then the first record of each key and of each value but for multiples of a number, if none of the same
    /// is so near in time.
    Dedup {
        of: StepId,
        modulus: i64,
        within: i64,
    },
    ToTable {
        of: StepId,
        cached: bool,
    },
    /// Groups by the key that there is, or by another, and folds the values of each key.
    Aggregate {
        of: StepId,
        by: Option<KeyFn>,
        fold: Fold,
        cached: bool,
    },
    FilterRows {
        of: StepId,
        pred: Pred,
        kept: bool,
        cached: bool,
    },
    MapRows {
        of: StepId,
        f: ValueFn,
        kept: bool,
        cached: bool,
    },
    /// The updates of a table as a stream, deletes left out; under another key if one is given.
    ToStream {
        of: StepId,
        key: Option<KeyFn>,
    },
    /// The rows of a table by another key and with another value, folded.
    Regroup {
        of: StepId,
        by: KeyFn,
        f: ValueFn,
        fold: RowFold,
        cached: bool,
    },
    /// As [`Op::Aggregate`], in windows.
    Window {
        of: StepId,
        by: Option<KeyFn>,
        windows: Windows,
        fold: Fold,
        /// Results come when windows close, looked for once in so many milliseconds; none: with each update.
        on_close: Option<u64>,
        /// The store keeps windows for longer than it must.
        kept_longer: bool,
        cached: bool,
    },
    /// The records that came too late for the windows of a step.
    Late {
        of: StepId,
    },
    /// Several grouped streams into one aggregate, each with its own function of the values.
    Cogroup {
        inputs: Vec<(StepId, Option<KeyFn>, ValueFn)>,
        windows: Option<Windows>,
        fold: Fold,
        cached: bool,
    },
    /// Holds updates back: for so many milliseconds of event time, or until their windows close.
    Suppress {
        of: StepId,
        limit: Option<i64>,
    },
}

/// Windows of a stream's records. All is in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    pub(crate) shape: Shape,
    pub(crate) grace: i64,
}

impl Windows {
    /// For how long a store has to keep them, at least.
    pub(crate) fn needed(self) -> i64 {
        self.grace
            + match self.shape {
                Shape::Time { size, .. } => size,
                Shape::Sliding { difference } => 2 * difference,
                Shape::Session { gap } => gap,
            }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// From each whole multiple of the advance on; the end is exclusive.
    Time { size: i64, advance: i64 },
    /// Around each record; both ends are inclusive.
    Sliding { difference: i64 },
    /// Both ends are inclusive.
    Session { gap: i64 },
}

/// What a step is to the steps behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Stream,
    /// So many streams, to be taken one by one.
    Branches(usize),
    Table,
    /// A table of windows.
    Windows,
}

impl Op {
    /// The steps that it comes from.
    pub(crate) fn parents(&self) -> Vec<StepId> {
        match *self {
            Self::Stream | Self::Table { .. } => vec![],
            Self::Merge { left, right } => vec![left, right],
            Self::Filter { of, .. }
            | Self::MapValues { of, .. }
            | Self::FlatMapValues { of, .. }
            | Self::SelectKey { of, .. }
            | Self::Map { of, .. }
            | Self::Split { of, .. }
            | Self::Branch { of, .. }
            | Self::Repartition { of }
            | Self::Dedup { of, .. }
            | Self::ToTable { of, .. }
            | Self::Aggregate { of, .. }
            | Self::FilterRows { of, .. }
            | Self::MapRows { of, .. }
            | Self::ToStream { of, .. }
            | Self::Regroup { of, .. }
            | Self::Window { of, .. }
            | Self::Late { of }
            | Self::Suppress { of, .. } => vec![of],
            Self::Cogroup { ref inputs, .. } => inputs.iter().map(|(of, ..)| *of).collect(),
        }
    }

    /// What it is, if the steps before it are `kinds`.
    pub(crate) fn kind(&self, kinds: &[Kind]) -> Kind {
        match self {
            Self::Split { preds, .. } => Kind::Branches(preds.len() + 1),
            Self::FilterRows { of, .. } | Self::MapRows { of, .. } | Self::Suppress { of, .. } => kinds[*of],
            Self::Cogroup { windows: None, .. } => Kind::Table,
            Self::Cogroup { .. } => Kind::Windows,
            Self::Table { .. } | Self::ToTable { .. } | Self::Aggregate { .. } | Self::Regroup { .. } => Kind::Table,
            Self::Window { .. } => Kind::Windows,
            _ => Kind::Stream,
        }
    }

    /// Whether it reads a topic of the user's.
    pub(crate) fn is_source(&self) -> bool {
        matches!(self, Self::Stream | Self::Table { .. })
    }

    /// Whether its rows are in a store that the user has named.
    pub(crate) fn is_kept(&self) -> bool {
        match *self {
            Self::Table { kept, .. } | Self::FilterRows { kept, .. } | Self::MapRows { kept, .. } => kept,
            Self::ToTable { .. }
            | Self::Aggregate { .. }
            | Self::Regroup { .. }
            | Self::Window { .. }
            | Self::Cogroup { .. } => true,
            _ => false,
        }
    }

    /// Whether its store, if it has one, is cached if anything is.
    pub(crate) fn is_cached(&self) -> bool {
        match *self {
            Self::Table { cached, .. }
            | Self::FilterRows { cached, .. }
            | Self::MapRows { cached, .. }
            | Self::ToTable { cached, .. }
            | Self::Aggregate { cached, .. }
            | Self::Regroup { cached, .. }
            | Self::Window { cached, .. }
            | Self::Cogroup { cached, .. } => cached,
            _ => false,
        }
    }
}

/// A topology.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Op>,
    /// The steps whose records go to a topic.
    pub(crate) shown: Vec<StepId>,
}

/// What each of these steps is.
pub(crate) fn kinds(steps: &[Op]) -> Vec<Kind> {
    steps.iter().fold(Vec::new(), |kinds, op| [&kinds[..], &[op.kind(&kinds)]].concat())
}

/// The windows of a table whose updates can wait until these close: an aggregation, or one that is made of it row by row.
pub(crate) fn closing(steps: &[Op], table: StepId) -> Option<Windows> {
    match &steps[table] {
        Op::Window { windows, on_close: None, .. } | Op::Cogroup { windows: Some(windows), .. } => Some(*windows),
        Op::MapRows { of, .. } => closing(steps, *of),
        _ => None,
    }
}

impl Plan {
    /// Whether a step's rows are in a store: where they are kept, or something needs to know what they were before.
    pub(crate) fn has_store(&self, step: StepId) -> bool {
        self.steps[step].is_kept() || (self.steps[step].is_source() && self.rows_are_asked_for(step))
    }

    /// Whether it is known, of an update of a step's table, what the row was before.
    pub(crate) fn knows_old(&self, step: StepId) -> bool {
        match &self.steps[step] {
            Op::FilterRows { of, kept: false, .. } | Op::MapRows { of, kept: false, .. } => self.knows_old(*of),
            Op::Suppress { of, .. } => self.knows_old(*of),
            _ => self.has_store(step),
        }
    }

    fn rows_are_asked_for(&self, step: StepId) -> bool {
        let asks = |(at, op): (StepId, &Op)| match op {
            Op::Regroup { of, .. } | Op::Suppress { of, .. } => *of == step,
            Op::FilterRows { of, .. } | Op::MapRows { of, .. } => {
                *of == step && !op.is_kept() && self.rows_are_asked_for(at)
            }
            _ => false,
        };
        self.steps.iter().enumerate().any(asks)
    }
}

/// A record of an input topic; the topic is that of the step that reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) step: StepId,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<i64>,
    pub(crate) time: i64,
}

/// How a row's key is shown: with its window, if it has one.
pub(crate) fn row_key(key: &str, window: Option<Window>) -> String {
    match window {
        Some((start, end)) => format!("{key}@{start}-{end}"),
        None => key.to_owned(),
    }
}

/// A window's start and end.
pub(crate) type Window = (i64, i64);

/// The names of a step's topics and store.
pub(crate) fn input_topic(step: StepId) -> String {
    format!("in{step}")
}

pub(crate) fn output_topic(step: StepId) -> String {
    format!("out{step}")
}

pub(crate) fn store_name(step: StepId) -> String {
    format!("s{step}")
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, op) in self.steps.iter().enumerate() {
            let shown = if self.shown.contains(&step) { format!("  -> {}", output_topic(step)) } else { String::new() };
            writeln!(f, "  {step}: {op:?}{shown}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, key, value, time } = self;
        let key = key.as_deref().unwrap_or("null");
        match value {
            Some(value) => write!(f, "{}: {key}={value}@{time}", input_topic(*step)),
            None => write!(f, "{}: {key}=null@{time}", input_topic(*step)),
        }
    }
}

/// A predicate on keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pred {
    ValueAtLeast(i64),
    ValueIsEven,
    /// Of keys, by the sum of their bytes.
    KeyIsEven,
}

impl Pred {
    pub(crate) fn holds(self, key: &str, value: i64) -> bool {
        match self {
            Self::ValueAtLeast(least) => value >= least,
            Self::ValueIsEven => value % 2 == 0,
            Self::KeyIsEven => sum_of_bytes(key) % 2 == 0,
        }
    }
}

/// Makes a value of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueFn {
    Add(i64),
    Times(i64),
    Modulo(i64),
}

impl ValueFn {
    pub(crate) fn of(self, value: i64) -> i64 {
        match self {
            Self::Add(n) => value.wrapping_add(n),
            Self::Times(n) => value.wrapping_mul(n),
            Self::Modulo(n) => value.rem_euclid(n),
        }
    }
}

/// Makes a key of a key and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFn {
    OfKey(i64),
    OfValue(i64),
    OfBoth(i64),
    /// Of rows that have windows; the others are in one.
    OfWindow,
    /// As it was, but without its window.
    Same,
    One,
}

impl KeyFn {
    /// Whether the value does not matter.
    pub(crate) fn is_of_key(self) -> bool {
        matches!(self, Self::OfKey(_) | Self::OfWindow | Self::Same | Self::One)
    }

    pub(crate) fn of(self, key: &str, window: Option<Window>, value: i64) -> String {
        match self {
            Self::OfKey(n) => format!("k{}", sum_of_bytes(key) % n),
            Self::OfValue(n) => format!("v{}", value.rem_euclid(n)),
            Self::OfBoth(n) => format!("b{}", sum_of_bytes(key).wrapping_add(value).rem_euclid(n)),
            Self::OfWindow => window.map_or_else(|| "none".to_owned(), |(start, _)| format!("w{start}")),
            Self::Same => key.to_owned(),
            Self::One => "one".to_owned(),
        }
    }
}

fn sum_of_bytes(key: &str) -> i64 {
    key.bytes().map(i64::from).sum()
}

/// What becomes of the values of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    Count,
    Sum,
    Max,
    Last,
    /// A number that tells every order of the values from every other.
    Digest,
}

impl Fold {
    /// Whether the order of the values does not matter.
    pub(crate) fn commutes(self) -> bool {
        !matches!(self, Self::Last | Self::Digest)
    }

    /// One more value on what there is, as a program that sees one record after the other would write it.
    pub(crate) fn step(self, so_far: i64, value: i64) -> i64 {
        match self {
            Self::Count => so_far.wrapping_add(1),
            Self::Sum => so_far.wrapping_add(value),
            Self::Max => so_far.max(value),
            Self::Last => value,
            Self::Digest => so_far.wrapping_mul(31).wrapping_add(value),
        }
    }

    /// What an aggregate begins as.
    pub(crate) fn initial(self) -> i64 {
        match self {
            Self::Count | Self::Sum | Self::Last => 0,
            Self::Max => i64::MIN,
            Self::Digest => 7,
        }
    }
}

/// What becomes of the rows that count for one key: values go in and out, so order does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowFold {
    Count,
    /// As a reduction.
    Sum,
    /// As an aggregation.
    SumFromZero,
}
