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
    /// Flushes do not end for a while.
    SlowDisk(Duration),
}

impl Fault {
    /// Whether it strikes a process, and not the broker.
    pub(super) fn is_of_a_process(self) -> bool {
        !matches!(self, Self::Broker(..))
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
    let verdict = match (op, rng.u8(0..5)) {
        (OpKind::WriteMarkers, _) => Verdict::Delay(ms(rng, 50..900)),
        (OpKind::Group, 0) => Verdict::Disconnect,
        (OpKind::OffsetFetch, 0) => Verdict::Unstable,
        (OpKind::Fetch | OpKind::Group, 1) => Verdict::Delay(ms(rng, 10..400)),
        (_, 0) => Verdict::Fail(BrokerErrorKind::Retriable),
        (OpKind::EndTxn | OpKind::TxnOffsetCommit, 1) => Verdict::Fail(BrokerErrorKind::Abortable),
        (_, 2 | 3) => Verdict::DropReply,
        _ => Verdict::DropRequest,
    };
    Fault::Broker(op, verdict)
}

/// The faults of a run with the step each strikes at, in order.
pub(super) fn draw(rng: &mut Rng, steps: u64) -> Vec<(u64, Fault)> {
    let n = rng.usize(3..14);
    let mut faults: Vec<(u64, Fault)> = (0..n).map(|_| (rng.u64(steps / 20..steps), one(rng))).collect();
    faults.sort_by_key(|(step, _)| *step);
    faults
}

fn one(rng: &mut Rng) -> Fault {
    match rng.u8(0..20) {
        0..2 => Fault::Kill,
        2..9 => Fault::KillAt(*rng.choice(FailPoint::ALL).unwrap_or(&FailPoint::CommitStarted)),
        9..12 => Fault::Pause(ms(rng, 200..4_000)),
        12 => Fault::StopAndStart,
        13..18 => broker(rng),
        18 => Fault::SlowDisk(ms(rng, 200..2_000)),
        _ => {
            let op = *rng.choice(&[DiskOp::Apply, DiskOp::Flush, DiskOp::Open]).unwrap_or(&DiskOp::Apply);
            let kind = if rng.bool() { StoreErrorKind::Full } else { StoreErrorKind::Io };
            Fault::Disk(op, kind)
        }
    }
}
