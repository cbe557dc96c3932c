//! Plans and inputs, drawn from a seed.

use fastrand::Rng;

use crate::plan::{Fold, Input, KeyFn, Op, Plan, Pred, RowFold, Shape, StepId, ValueFn};

/// No input is at this time or later.
pub(crate) const END_OF_TIME: i64 = 200;

/// A topology of three to ten steps.
pub(crate) fn plan(rng: &mut Rng) -> Plan {
    let mut steps = vec![source(rng)];
    let wanted = rng.usize(3..11);
    while steps.len() < wanted {
        if let Some(op) = op(rng, &steps) {
            steps.push(op);
        }
    }
    let ends = |step: &StepId| !steps.iter().any(|op| op.parents().contains(step));
    let shown = (0..steps.len()).filter(|step| !matches!(steps[*step].shape(), Shape::Branches(_)));
    let shown = shown.filter(|step| ends(step) || rng.u8(0..3) == 0).collect();
    Plan { steps, shown }
}

fn source(rng: &mut Rng) -> Op {
    if rng.u8(0..3) == 0 { Op::Table { kept: rng.bool(), cached: rng.bool() } } else { Op::Stream }
}

/// An operator behind the steps that there are; none if what was drawn does not fit any of them.
fn op(rng: &mut Rng, steps: &[Op]) -> Option<Op> {
    let streams = of_shape(steps, Shape::Stream);
    let tables = of_shape(steps, Shape::Table);
    let (stream, table) = (rng.choice(&streams).copied(), rng.choice(&tables).copied());
    Some(match rng.u8(0..26) {
        0 => source(rng),
        1..4 => stateless(rng, stream?),
        4 => Op::Merge { left: stream?, right: *rng.choice(&streams)? },
        5 => Op::Split { of: stream?, preds: (0..rng.usize(1..3)).map(|_| pred(rng)).collect() },
        6..8 => branch(rng, steps)?,
        8 => Op::Repartition { of: stream? },
        9 => Op::ToTable { of: stream?, cached: rng.bool() },
        10..15 => {
            let by = rng.bool().then(|| key_fn(rng));
            Op::Aggregate { of: stream?, by, fold: fold(rng), cached: rng.bool() }
        }
        15..17 => Op::FilterRows { of: table?, pred: pred(rng), kept: rng.bool(), cached: rng.bool() },
        17..19 => Op::MapRows { of: table?, f: value_fn(rng), kept: rng.bool(), cached: rng.bool() },
        19..22 => {
            let fold = *rng.choice(&[RowFold::Count, RowFold::Sum, RowFold::SumFromZero])?;
            Op::Regroup { of: table?, by: key_fn(rng), f: value_fn(rng), fold, cached: rng.bool() }
        }
        _ => Op::ToStream { of: table?, key: rng.bool().then(|| key_fn(rng)) },
    })
    // A stream that is merged with itself says nothing, and would be one edge twice.
    .filter(|op| !matches!(op, Op::Merge { left, right } if left == right))
}

fn of_shape(steps: &[Op], shape: Shape) -> Vec<StepId> {
    (0..steps.len()).filter(|step| steps[*step].shape() == shape).collect()
}

fn branch(rng: &mut Rng, steps: &[Op]) -> Option<Op> {
    let splits: Vec<(StepId, usize)> = (0..steps.len())
        .filter_map(|step| match steps[step].shape() {
            Shape::Branches(branches) => Some((step, branches)),
            _ => None,
        })
        .collect();
    let (of, branches) = *rng.choice(&splits)?;
    let branch = Op::Branch { of, nth: rng.usize(0..branches) };
    // Each branch is one stream, that other steps may share.
    (!steps.contains(&branch)).then_some(branch)
}

fn stateless(rng: &mut Rng, of: StepId) -> Op {
    match rng.u8(0..6) {
        0 => Op::Filter { of, pred: pred(rng) },
        1 => Op::MapValues { of, f: value_fn(rng) },
        2 => Op::FlatMapValues { of, times: rng.i64(0..3) },
        3 => Op::Map { of, key: key_fn(rng), f: value_fn(rng) },
        _ => Op::SelectKey { of, key: key_fn(rng) },
    }
}

fn pred(rng: &mut Rng) -> Pred {
    match rng.u8(0..3) {
        0 => Pred::ValueAtLeast(rng.i64(0..6)),
        1 => Pred::ValueIsEven,
        _ => Pred::KeyIsEven,
    }
}

fn value_fn(rng: &mut Rng) -> ValueFn {
    match rng.u8(0..3) {
        0 => ValueFn::Add(rng.i64(-3..4)),
        1 => ValueFn::Times(rng.i64(-2..4)),
        _ => ValueFn::Modulo(rng.i64(2..6)),
    }
}

fn key_fn(rng: &mut Rng) -> KeyFn {
    match rng.u8(0..7) {
        0 | 1 => KeyFn::OfKey(rng.i64(2..4)),
        2 | 3 => KeyFn::OfValue(rng.i64(2..4)),
        4 | 5 => KeyFn::OfBoth(rng.i64(2..5)),
        _ => KeyFn::One,
    }
}

fn fold(rng: &mut Rng) -> Fold {
    *rng.choice(&[Fold::Count, Fold::Sum, Fold::Max, Fold::Last, Fold::Digest]).unwrap_or(&Fold::Count)
}

/// Records for the plan's topics: few keys, small values, times that go on and sometimes back or far ahead.
pub(crate) fn inputs(rng: &mut Rng, plan: &Plan) -> Vec<Input> {
    let sources: Vec<StepId> = (0..plan.steps.len()).filter(|step| plan.steps[*step].is_source()).collect();
    let mut now = rng.i64(0..30);
    let mut step = sources[0];
    (0..rng.usize(5..41))
        .map(|_| {
            now = (now + rng.i64(-2..6) + if rng.u8(0..20) == 0 { 25 } else { 0 }).clamp(0, END_OF_TIME - 1);
            let late = if rng.u8(0..5) == 0 { rng.i64(0..30) } else { 0 };
            if rng.u8(0..3) == 0 {
                step = *rng.choice(&sources).unwrap_or(&step);
            }
            let key = (rng.u8(0..20) != 0).then(|| char::from(rng.u8(b'a'..b'e')).to_string());
            let value = (rng.u8(0..8) != 0).then(|| rng.i64(-3..10));
            Input { step, key, value, time: (now - late).max(0) }
        })
        .collect()
}
