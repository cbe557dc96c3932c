//! Plans and inputs, drawn from a seed.

use fastrand::Rng;

use crate::plan::{Fold, Input, KeyFn, Kind, Op, Plan, Pred, RowFold, Shape, StepId, ValueFn, Windows, closing, kinds};

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
    let kinds = kinds(&steps);
    let shown = (0..steps.len()).filter(|step| !matches!(kinds[*step], Kind::Branches(_)));
    let shown = shown.filter(|step| ends(step) || rng.u8(0..3) == 0).collect();
    Plan { steps, shown }
}

fn source(rng: &mut Rng) -> Op {
    if rng.u8(0..3) == 0 { Op::Table { kept: rng.bool(), cached: rng.bool() } } else { Op::Stream }
}

/// An operator behind the steps that there are; none if what was drawn does not fit any of them.
fn op(rng: &mut Rng, steps: &[Op]) -> Option<Op> {
    let kinds = kinds(steps);
    let of_kind = |kind| (0..steps.len()).filter(|step| kinds[*step] == kind).collect::<Vec<StepId>>();
    let (streams, tables, windows) = (of_kind(Kind::Stream), of_kind(Kind::Table), of_kind(Kind::Windows));
    let stream = rng.choice(&streams).copied();
    let table = rng.choice(&[tables, windows].concat()).copied();
    Some(match rng.u8(0..39) {
        0 => source(rng),
        1..4 => stateless(rng, stream?),
        4 => Op::Merge { left: stream?, right: *rng.choice(&streams)? },
        5 => Op::Split { of: stream?, preds: (0..rng.usize(1..3)).map(|_| pred(rng)).collect() },
        6..8 => branch(rng, steps, &kinds)?,
        8 => Op::Repartition { of: stream? },
        9 => Op::ToTable { of: stream?, cached: rng.bool() },
        10..14 => {
            let by = rng.bool().then(|| key_fn(rng));
            Op::Aggregate { of: stream?, by, fold: fold(rng), cached: rng.bool() }
        }
        14..16 => {
            let kept = rng.bool() && kinds[table?] == Kind::Table;
            Op::FilterRows { of: table?, pred: pred(rng), kept, cached: rng.bool() }
        }
        16..18 => {
            let kept = rng.bool() && kinds[table?] == Kind::Table;
            Op::MapRows { of: table?, f: value_fn(rng), kept, cached: rng.bool() }
        }
        18..21 => {
            let fold = *rng.choice(&[RowFold::Count, RowFold::Sum, RowFold::SumFromZero])?;
            Op::Regroup { of: table?, by: key_fn(rng), f: value_fn(rng), fold, cached: rng.bool() }
        }
        21..24 => {
            let key = (kinds[table?] == Kind::Windows || rng.bool()).then(|| key_fn(rng));
            Op::ToStream { of: table?, key }
        }
        24..31 => window(rng, stream?),
        31..33 => cogroup(rng, &streams)?,
        33..35 => Op::Suppress { of: table?, limit: Some(rng.i64(0..30)) },
        35..37 => {
            let closing: Vec<StepId> = (0..steps.len()).filter(|step| closing(steps, *step).is_some()).collect();
            Op::Suppress { of: *rng.choice(&closing)?, limit: None }
        }
        37 => Op::Dedup { of: stream?, modulus: rng.i64(1..4), within: rng.i64(1..20) },
        _ => Op::Late { of: (0..steps.len()).rev().find(|step| matches!(steps[*step], Op::Window { .. }))? },
    })
    // A stream that is merged with itself says nothing, and would be one edge twice.
    .filter(|op| !matches!(op, Op::Merge { left, right } if left == right))
}

fn branch(rng: &mut Rng, steps: &[Op], kinds: &[Kind]) -> Option<Op> {
    let splits: Vec<(StepId, usize)> = (0..steps.len())
        .filter_map(|step| match kinds[step] {
            Kind::Branches(branches) => Some((step, branches)),
            _ => None,
        })
        .collect();
    let (of, branches) = *rng.choice(&splits)?;
    let branch = Op::Branch { of, nth: rng.usize(0..branches) };
    // Each branch is one stream, that other steps may share.
    (!steps.contains(&branch)).then_some(branch)
}

fn shape(rng: &mut Rng) -> Shape {
    match rng.u8(0..4) {
        0 => {
            let size = rng.i64(1..15);
            Shape::Time { size, advance: size }
        }
        1 => {
            let size = rng.i64(2..15);
            Shape::Time { size, advance: rng.i64(1.max(size / 4)..=size) }
        }
        2 => Shape::Sliding { difference: rng.i64(0..12) },
        _ => Shape::Session { gap: rng.i64(0..10) },
    }
}

fn cogroup(rng: &mut Rng, streams: &[StepId]) -> Option<Op> {
    let mut input = || Some((*rng.choice(streams)?, rng.bool().then(|| key_fn(rng)), value_fn(rng)));
    let inputs = vec![input()?, input()?];
    // Each input has a time of its own, but the store goes by all of them: so nothing may be late.
    let windows = rng.bool().then(|| Windows { shape: shape(rng), grace: 2 * END_OF_TIME });
    let fold = match windows {
        Some(Windows { shape: Shape::Session { .. }, .. }) => Fold::Sum,
        _ => *rng.choice(&[Fold::Sum, Fold::Digest])?,
    };
    Some(Op::Cogroup { inputs, windows, fold, cached: rng.bool() })
}

fn window(rng: &mut Rng, of: StepId) -> Op {
    let shape = shape(rng);
    // So that nothing is late, or some records are.
    let grace = if rng.bool() { 2 * END_OF_TIME } else { *rng.choice(&[0, 1, 5, 20]).unwrap_or(&0) };
    // How sessions are merged says nothing of the order of their records.
    let fold = match (shape, fold(rng)) {
        (Shape::Session { .. }, Fold::Digest) => Fold::Count,
        (_, fold) => fold,
    };
    Op::Window {
        of,
        by: rng.bool().then(|| key_fn(rng)),
        windows: Windows { shape, grace },
        fold,
        on_close: (rng.u8(0..3) == 0).then(|| *rng.choice(&[0, 0, 1_000]).unwrap_or(&0)),
        kept_longer: rng.u8(0..4) == 0,
        cached: rng.bool(),
    }
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
    match rng.u8(0..10) {
        0 | 1 => KeyFn::OfKey(rng.i64(2..4)),
        2 | 3 => KeyFn::OfValue(rng.i64(2..4)),
        4 | 5 => KeyFn::OfBoth(rng.i64(2..5)),
        6 => KeyFn::OfWindow,
        7 | 8 => KeyFn::Same,
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
