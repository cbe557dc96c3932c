//! Runs seeds: each draws a plan, its inputs and some runs of them, which must agree with the model and with each other.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fastrand::Rng;
use millpond_store_api::Engine;

use crate::compare::{Compared, compare};
use crate::draw;
use crate::naive::evaluate;
use crate::plan::{Input, Plan};
use crate::run::{Outcome, Run, run};

/// The engine of a run; none: the driver's own.
pub(crate) type MakeEngine<'a> = &'a (dyn Fn() -> Option<Arc<dyn Engine>> + Sync);

/// A seed that shows a difference.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    plan: Plan,
    inputs: Vec<Input>,
    run: Run,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, plan, inputs, run, what } = self;
        writeln!(f, "seed {seed} shows a difference; `MILLPOND_SEED={seed}` runs it alone")?;
        write!(f, "steps:\n{plan}inputs:\n")?;
        inputs.iter().try_for_each(|input| writeln!(f, "  {input}"))?;
        writeln!(f, "run: {run:?}\n{what}")
    }
}

/// All runs of a seed: what was compared, or the first difference with as little around it as was found.
pub(crate) fn check(seed: u64, engine: MakeEngine<'_>) -> Result<Compared, Box<Failure>> {
    let mut rng = Rng::with_seed(seed);
    let plan = draw::plan(&mut rng);
    let inputs = draw::inputs(&mut rng, &plan);
    let runs = [
        Run::plain(),
        Run::restless(&mut rng, inputs.len()),
        Run::cached(&mut rng, inputs.len()),
        Run::wide(&mut rng, inputs.len()),
    ];
    let mut compared = Compared::default();
    for run in runs {
        match differs(&plan, &inputs, &run, engine) {
            Ok(more) => compared.add(&more),
            Err(what) => return Err(Box::new(smallest(Failure { seed, plan, inputs, run, what }, engine))),
        }
    }
    Ok(compared)
}

/// One run beside the model. A panic of the library is a difference, too.
fn differs(plan: &Plan, inputs: &[Input], how: &Run, engine: MakeEngine<'_>) -> Result<Compared, String> {
    let attempt = || -> Result<Compared, String> {
        let (seen, own) = (evaluate(plan, inputs, &how.world), engine());
        let outcome = run(plan, inputs, how, own.clone())?;
        let compared = compare(plan, &seen, &outcome, &how.world)?;
        // Where the library is free in what it does, the engine still makes no difference.
        if own.is_some() {
            identical(&run(plan, inputs, how, None)?, &outcome)?;
        }
        Ok(compared)
    };
    catch_unwind(AssertUnwindSafe(attempt)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
    })
}

fn identical(in_memory: &Outcome, other: &Outcome) -> Result<(), String> {
    if in_memory == other {
        return Ok(());
    }
    Err(format!("in memory it is otherwise:\n  in memory: {in_memory:?}\n        got: {other:?}"))
}

/// Takes away inputs, outputs and restarts as long as there is a difference without them.
fn smallest(mut failure: Failure, engine: MakeEngine<'_>) -> Failure {
    loop {
        let smaller = candidates(&failure).into_iter().find_map(|(plan, inputs, run)| {
            let what = differs(&plan, &inputs, &run, engine).err()?;
            Some(Failure { seed: failure.seed, plan, inputs, run, what })
        });
        match smaller {
            Some(smaller) => failure = smaller,
            None => return failure,
        }
    }
}

fn candidates(failure: &Failure) -> Vec<(Plan, Vec<Input>, Run)> {
    let Failure { plan, inputs, run, .. } = failure;
    let mut candidates = Vec::new();
    for size in [inputs.len() / 2, inputs.len() / 4, 1] {
        for from in (0..inputs.len()).step_by(size.max(1)) {
            let mut fewer = inputs.clone();
            fewer.drain(from..(from + size.max(1)).min(inputs.len()));
            candidates.push((plan.clone(), fewer, run.clone()));
        }
    }
    for at in 0..plan.shown.len() {
        let mut fewer = plan.clone();
        fewer.shown.remove(at);
        candidates.push((fewer, inputs.clone(), run.clone()));
    }
    if let Some(fewer) = without_last_step(plan) {
        candidates.push((fewer, inputs.clone(), run.clone()));
    }
    if run.optimized {
        candidates.push((plan.clone(), inputs.clone(), Run { optimized: false, ..run.clone() }));
    }
    for at in 0..run.breaks.len() {
        let mut fewer = run.clone();
        fewer.breaks.remove(at);
        candidates.push((plan.clone(), inputs.clone(), fewer));
    }
    candidates
}

/// The plan without its last step, if that reads no topic and there is another.
fn without_last_step(plan: &Plan) -> Option<Plan> {
    let mut fewer = plan.clone();
    let last = fewer.steps.pop()?;
    fewer.shown.retain(|step| *step < fewer.steps.len());
    (!last.is_source() && !fewer.steps.is_empty()).then_some(fewer)
}
