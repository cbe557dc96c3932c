//! `bench peer`: Millpond, Kafka Streams and a raw loop of Millpond's clients on one real broker, in one go, in turns.
//!
//! What is measured is defined in `xtask/peer/README.md`. The parts: [`workload`] says who runs against whom, [`runner`]
//! measures, [`table`] and [`ratio`] tell what came out.

mod broker;
mod process;
mod programs;
mod ratio;
mod report;
mod runner;
mod table;
mod workload;

use std::path::PathBuf;

use self::broker::Broker;
use self::programs::Programs;
use self::report::Report;
use self::runner::Runner;
pub(crate) use self::workload::Workload;
use self::workload::{Scale, groups};
use crate::error::Result;

/// What `cargo xtask bench peer` takes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct PeerOptions {
    /// A tenth of everything, once.
    pub(crate) quick: bool,
    pub(crate) records: Option<u64>,
    pub(crate) keys: Option<u64>,
    pub(crate) alternations: Option<u64>,
    /// Empty: all of them.
    pub(crate) only: Vec<Workload>,
    /// A broker that runs already; without one, one of our own is started.
    pub(crate) bootstrap: Option<String>,
    /// Gets a line of JSON for each measurement; without it they go to standard error.
    pub(crate) out: Option<PathBuf>,
}

impl PeerOptions {
    fn scale(&self) -> Scale {
        let (full, shrink) = (Scale { records: 3_000_000, keys: 1_000_000 }, if self.quick { 10 } else { 1 });
        Scale { records: self.records.unwrap_or(full.records / shrink), keys: self.keys.unwrap_or(full.keys / shrink) }
    }

    fn alternations(&self) -> u64 {
        self.alternations.unwrap_or(if self.quick { 1 } else { 3 })
    }
}

/// Measures all that was asked for, and prints what came out, even if it was not all.
pub(crate) fn run(options: &PeerOptions) -> Result<()> {
    let programs = Programs::build()?;
    let broker = Broker::find(options.bootstrap.as_deref())?;
    let mut report = Report::new(options.out.as_deref())?;
    let mut runner = Runner::new(programs, broker.bootstrap(), options.scale())?;
    let outcome = measure(&mut runner, options, &mut report);
    print!("{}", table::render(report.lines()));
    print!("{}", ratio::render(report.lines()));
    outcome
}

fn measure(runner: &mut Runner, options: &PeerOptions, report: &mut Report) -> Result<()> {
    for group in groups(&options.only) {
        for turn in 0..options.alternations() {
            for contender in &group.contenders {
                eprintln!("bench peer: {group}, {}, turn {}", contender.name, turn + 1);
                let figures = runner.measure(&group, contender)?;
                report.add(&group, contender, turn, figures)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_is_a_tenth_once_unless_told_otherwise() {
        let quick = PeerOptions { quick: true, ..PeerOptions::default() };
        assert_eq!((quick.scale(), quick.alternations()), (Scale { records: 300_000, keys: 100_000 }, 1));
        let told = PeerOptions { records: Some(7), alternations: Some(2), ..quick };
        assert_eq!((told.scale(), told.alternations()), (Scale { records: 7, keys: 100_000 }, 2));
        assert_eq!(PeerOptions::default().alternations(), 3);
    }
}
