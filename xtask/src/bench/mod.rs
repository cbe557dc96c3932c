//! `bench`: the criterion benches, the comparison with the peer, and resident memory.

mod criterion;
mod memory;
mod peer;

pub(crate) use self::criterion::CriterionOptions;
pub(crate) use self::memory::MemoryBenchOptions;
pub(crate) use self::peer::{PeerOptions, Workload};
use crate::error::Result;

/// What `cargo xtask bench` takes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum BenchOptions {
    Criterion(CriterionOptions),
    Memory(MemoryBenchOptions),
    Peer(PeerOptions),
}

pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    match options {
        BenchOptions::Criterion(options) => criterion::run(options),
        BenchOptions::Memory(options) => memory::run(options),
        BenchOptions::Peer(options) => peer::run(options),
    }
}
