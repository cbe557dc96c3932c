//! A run of a plan in the library: how it is fed, stopped and started again, and what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use millpond_runtime::Guarantee;
use millpond_store_api::Engine;
use millpond_testkit::{Driver, RawRecord};
use millpond_topology::{I64, Nullable, Utf8, Windowed};

use crate::build::topology;
use crate::known::World;
use crate::plan::{Input, Op, Plan, Shape, StepId, input_topic, output_topic, row_key, store_name};

/// What happens to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// It stops in good order.
    Restart,
    /// It dies right after a commit.
    Crash,
    /// It dies before a commit; only under exactly-once, or records would be counted twice.
    CrashBeforeCommit,
    /// It comes back without its state.
    LoseState,
}

/// How a plan is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) world: World,
    /// So many records of one topic, at most, are written before they are processed and committed.
    pub(crate) batch: usize,
    pub(crate) guarantee: Guarantee,
    /// So many milliseconds of wall-clock time pass after each batch.
    pub(crate) tick: u64,
    /// What happens with the batch that this input is in.
    pub(crate) breaks: Vec<(usize, Break)>,
    /// Topics that can be done without are.
    pub(crate) optimized: bool,
}

impl Run {
    /// One task, no caches, each record on its own.
    pub(crate) fn plain() -> Self {
        let world = World { partitions: 1, caching: None, breaks: false };
        Self { world, batch: 1, guarantee: Guarantee::AtLeastOnce, tick: 0, breaks: Vec::new(), optimized: false }
    }

    /// One task, no caches; restarts of all kinds.
    pub(crate) fn restless(rng: &mut Rng, inputs: usize) -> Self {
        let guarantee = if rng.bool() { Guarantee::ExactlyOnce } else { Guarantee::AtLeastOnce };
        let kinds: &[Break] = match guarantee {
            Guarantee::ExactlyOnce => &[Break::Restart, Break::Crash, Break::LoseState, Break::CrashBeforeCommit],
            Guarantee::AtLeastOnce => &[Break::Restart, Break::Crash, Break::LoseState],
        };
        let mut one = || (rng.usize(0..inputs), *rng.choice(kinds).unwrap_or(&Break::Restart));
        let breaks = [one(), one(), one()].to_vec();
        let world = World { breaks: true, ..Self::plain().world };
        let tick = *rng.choice(&[0, 300]).unwrap_or(&0);
        Self { world, batch: rng.usize(1..6), guarantee, tick, breaks, optimized: rng.bool() }
    }

    /// One task with caches, of any size.
    pub(crate) fn cached(rng: &mut Rng, inputs: usize) -> Self {
        let caching = Some(*rng.choice(&[300, 1_000, 1 << 20]).unwrap_or(&300));
        let mut run = Self { batch: rng.usize(2..12), ..Self::restless(rng, inputs) };
        run.world.caching = caching;
        run
    }

    /// Several partitions, with caches or without.
    pub(crate) fn wide(rng: &mut Rng, inputs: usize) -> Self {
        let mut run = if rng.bool() { Self::cached(rng, inputs) } else { Self::restless(rng, inputs) };
        run.world.partitions = rng.i32(2..4);
        run
    }
}

/// A record as it came out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Out {
    pub(crate) key: String,
    pub(crate) value: Option<i64>,
    pub(crate) time: i64,
}

/// What a run has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) shown: BTreeMap<StepId, Vec<Out>>,
    /// Value and time of each row, by step.
    pub(crate) stores: BTreeMap<StepId, StoreRows>,
}

/// Runs a plan. An error says what the library said.
pub(crate) fn run(
    plan: &Plan,
    inputs: &[Input],
    run: &Run,
    engine: Option<Arc<dyn Engine>>,
) -> Result<Outcome, String> {
    let topology = topology(plan, run.optimized).map_err(|e| format!("the topology is refused: {e:?}"))?;
    let mut builder = Driver::builder(topology)
        .partitions(run.world.partitions)
        .caching(run.world.caching.unwrap_or(0))
        .guarantee(run.guarantee)
        .manual_commit();
    if let Some(engine) = engine {
        builder = builder.engine(engine);
    }
    let driver = builder.build().map_err(|e| format!("the driver does not start: {}", e.chain()))?;
    feed(&driver, inputs, run).map_err(|e| format!("the library fails: {}", e.chain()))?;
    outcome(&driver, plan, run.optimized)
}

fn feed(driver: &Driver, inputs: &[Input], run: &Run) -> millpond_runtime::Result {
    let mut next = 0;
    while next < inputs.len() {
        let first = next;
        while next < inputs.len() && next - first < run.batch && inputs[next].step == inputs[first].step {
            send(driver, &inputs[next])?;
            next += 1;
        }
        let breaks: Vec<Break> = run.breaks.iter().filter(|(at, _)| (first..next).contains(at)).map(|b| b.1).collect();
        for _ in breaks.iter().filter(|b| **b == Break::CrashBeforeCommit) {
            driver.run()?;
            driver.crash()?;
        }
        driver.commit()?;
        if run.tick > 0 {
            driver.advance(Duration::from_millis(run.tick))?;
            driver.commit()?;
        }
        for what in breaks {
            match what {
                Break::Restart => driver.restart()?,
                Break::Crash => driver.crash()?,
                Break::LoseState => driver.restart_without_state()?,
                Break::CrashBeforeCommit => {}
            }
            // What was put off may come with the start: a crash before the next commit would have it come again.
            driver.commit()?;
        }
    }
    // What is put off by the wall clock comes now.
    driver.advance(Duration::from_secs(3))?;
    driver.commit()
}

fn send(driver: &Driver, input: &Input) -> millpond_runtime::Result {
    let bytes = |value: i64| value.to_be_bytes().to_vec();
    let key = input.key.as_ref().map(|key| key.clone().into_bytes());
    let record = RawRecord::new(key, input.value.map(bytes), input.time);
    driver.send(&input_topic(input.step), None, &record)
}

fn outcome(driver: &Driver, plan: &Plan, optimized: bool) -> Result<Outcome, String> {
    let shown = plan.shown.iter().map(|&step| {
        let records = driver.output(&output_topic(step), Utf8, Nullable(I64)).read_all();
        (step, records.into_iter().map(|r| Out { key: r.key, value: r.value, time: r.timestamp }).collect())
    });
    let mut stores = BTreeMap::new();
    for (step, op) in plan.steps.iter().enumerate() {
        match *op {
            Op::Window { windows, .. } | Op::Cogroup { windows: Some(windows), .. } => {
                drop(stores.insert(step, window_rows(driver, step, windows.shape)?))
            }
            _ if op.is_kept() => {
                // The log of a table of a topic may be the topic.
                let has_changelog = !(optimized && matches!(op, Op::Table { .. }));
                stores.insert(step, rows(driver, step, has_changelog)?);
            }
            _ => {}
        }
    }
    Ok(Outcome { shown: shown.collect(), stores })
}

/// Value and time of each row of a store.
type StoreRows = BTreeMap<String, (i64, i64)>;

/// The rows of a step's store; what its changelog amounts to must be the same, if it has one of its own.
fn rows(driver: &Driver, step: StepId, has_changelog: bool) -> Result<StoreRows, String> {
    let store = driver.store(&store_name(step), Utf8, I64);
    let (rows, logged) = (store.all(), store.changelog());
    if has_changelog && rows != logged {
        return Err(format!("step {step}: the store has {rows:?}, its changelog amounts to {logged:?}"));
    }
    Ok(store.all_with_timestamps().into_iter().map(|(key, value, time)| (key, (value, time))).collect())
}

/// The rows of a step's windows; its changelog must have all of them, and may have more that have expired.
fn window_rows(driver: &Driver, step: StepId, shape: Shape) -> Result<StoreRows, String> {
    let name = store_name(step);
    let (rows, logged): (StoreRows, BTreeMap<String, i64>) = match shape {
        Shape::Session { .. } => {
            let store = driver.session_store(&name, Utf8, I64);
            let text = |key: &Windowed<String>| row_key(&key.key, Some((key.start, key.end)));
            // A session has the time of its last record.
            let rows = store.all().into_iter().map(|(key, value)| (text(&key), (value, key.end)));
            (rows.collect(), store.changelog().iter().map(|(key, value)| (text(key), *value)).collect())
        }
        Shape::Time { size: length, .. } | Shape::Sliding { difference: length } => {
            let store = driver.window_store(&name, Utf8, I64);
            let text = |key: &str, start| row_key(key, Some((start, start + length)));
            let rows = store.all_with_timestamps().into_iter().map(|(k, start, v, time)| (text(&k, start), (v, time)));
            (rows.collect(), store.changelog().iter().map(|(key, start, v)| (text(key, *start), *v)).collect())
        }
    };
    if rows.iter().any(|(key, (value, _))| logged.get(key) != Some(value)) {
        return Err(format!("step {step}: the store has {rows:?}, its changelog amounts to {logged:?}"));
    }
    Ok(rows)
}
