//! What goes wrong in a run, drawn from its seed.

use std::time::Duration;

use fastrand::Rng;
use millpond_broker_api::ErrorKind as BrokerErrorKind;
use millpond_broker_mem::{OpKind, Verdict};
use millpond_runtime::FailPoint;
use millpond_store_api::ErrorKind as StoreErrorKind;
use millpond_store_mem::DiskOp;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// A process dies at once.
    Kill,
    /// A process dies when it next passes a fail point.
    KillAt(FailPoint),
    /// A process makes no step for a while; longer than its session, often.
    Pause(Duration),
    /// A process stops in good order and comes back.
    StopAndStart,
    /// A broker's request or reply is lost, late or refused.
    Broker(OpKind, Verdict),
    /// The disk refuses one operation.
    Disk(DiskOp, StoreErrorKind),
    /// The disk refuses several operations.
    DiskBurst(DiskOp, StoreErrorKind, usize),
    /// Flushes do not end for a while.
    SlowDisk(Duration),
    /// One worker makes no step for a while, the rest of its process does.
    Stuck(usize, Duration),
    /// Somebody asks a process for a commit.
    CommitNow,
    /// The changelogs are compacted.
    Compact,
    /// All members lose their connections.
    Disconnect,
    /// For a while so many of a hundred requests go wrong.
    Storm(Duration, u8),
}

impl Fault {
    /// Whether it strikes a process, and not the broker.
    pub(super) fn is_of_a_process(self) -> bool {
        !matches!(self, Self::Broker(..) | Self::Compact | Self::Disconnect | Self::Storm(..))
    }
}

fn ms(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

fn broker(rng: &mut Rng) -> Fault {
    let op = *rng
        .choice(&[
            OpKind::Append,
            OpKind::InitProducerId,
            OpKind::TxnOffsetCommit,
            OpKind::EndTxn,
            OpKind::EndTxn,
            OpKind::WriteMarkers,
            OpKind::WriteMarkers,
            OpKind::Fetch,
            OpKind::OffsetCommit,
            OpKind::OffsetFetch,
            OpKind::Group,
            OpKind::Admin,
        ])
        .unwrap_or(&OpKind::EndTxn);
    Fault::Broker(op, verdict(rng, op))
}

/// How a request goes wrong.
pub(super) fn verdict(rng: &mut Rng, op: OpKind) -> Verdict {
    match (op, rng.u8(0..5)) {
        (OpKind::WriteMarkers, _) => Verdict::Delay(ms(rng, 50..900)),
        (OpKind::Group, 0) => Verdict::Disconnect,
        (OpKind::OffsetFetch, 0) => Verdict::Unstable,
        (OpKind::Fetch | OpKind::Group, 1) => Verdict::Delay(ms(rng, 10..400)),
        (_, 0) => Verdict::Fail(BrokerErrorKind::Retriable),
        (OpKind::EndTxn | OpKind::TxnOffsetCommit, 1) => Verdict::Fail(BrokerErrorKind::Abortable),
        (_, 2 | 3) => Verdict::DropReply,
        _ => Verdict::DropRequest,
    }
}

fn disk(rng: &mut Rng) -> (DiskOp, StoreErrorKind) {
    let op = *rng.choice(&[DiskOp::Apply, DiskOp::Flush, DiskOp::Open]).unwrap_or(&DiskOp::Apply);
    (op, if rng.bool() { StoreErrorKind::Full } else { StoreErrorKind::Io })
}

/// What a run is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weather {
    /// Two machines with two workers each, a few faults.
    Fair,
    /// Three machines whose processes start with one to three workers, and many faults of all kinds.
    Rough,
}

/// The faults of a run with the step each strikes at, in order.
pub(super) fn draw(rng: &mut Rng, weather: Weather, steps: u64) -> Vec<(u64, Fault)> {
    let n = if weather == Weather::Fair { rng.usize(3..14) } else { rng.usize(20..41) };
    let one = if weather == Weather::Fair { fair } else { rough };
    let mut faults: Vec<(u64, Fault)> = (0..n).map(|_| (rng.u64(steps / 20..steps), one(rng))).collect();
    faults.sort_by_key(|(step, _)| *step);
    faults
}

fn kill_at(rng: &mut Rng) -> Fault {
    Fault::KillAt(*rng.choice(FailPoint::ALL).unwrap_or(&FailPoint::CommitStarted))
}

fn fair(rng: &mut Rng) -> Fault {
    match rng.u8(0..20) {
        0..2 => Fault::Kill,
        2..9 => kill_at(rng),
        9..12 => Fault::Pause(ms(rng, 200..4_000)),
        12 => Fault::StopAndStart,
        13..18 => broker(rng),
        18 => Fault::SlowDisk(ms(rng, 200..2_000)),
        _ => {
            let (op, kind) = disk(rng);
            Fault::Disk(op, kind)
        }
    }
}

fn rough(rng: &mut Rng) -> Fault {
    match rng.u8(0..31) {
        0..20 => fair(rng),
        20 => Fault::Pause(ms(rng, 2_000..8_000)),
        21 => {
            let (op, kind) = disk(rng);
            Fault::DiskBurst(op, kind, rng.usize(2..8))
        }
        22..26 => Fault::Stuck(rng.usize(0..3), ms(rng, 200..8_000)),
        26 => Fault::Compact,
        27 => Fault::CommitNow,
        28 => Fault::Disconnect,
        _ => Fault::Storm(ms(rng, 50..1_500), rng.u8(5..50)),
    }
}
