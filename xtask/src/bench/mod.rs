//! `bench`: the criterion benches, and the comparison with the peer.

mod criterion;
mod peer;

pub(crate) use self::criterion::CriterionOptions;
pub(crate) use self::peer::{PeerOptions, Workload};
use crate::error::Result;

/// What `cargo xtask bench` takes.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum BenchOptions {
    Criterion(CriterionOptions),
    Peer(PeerOptions),
}

pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    match options {
        BenchOptions::Criterion(options) => criterion::run(options),
        BenchOptions::Peer(options) => peer::run(options),
    }
}
