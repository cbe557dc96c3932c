//! The figures of a run, from the moments at which it was looked at.

use crate::error::Result;
use crate::event::{Fields, rounded};
use crate::usage::{Usage, memory_mb};

/// A moment, and how many records had been processed by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) usage: Usage,
    pub(crate) records: u64,
}

/// A run from its first record on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) first: Mark,
    /// Half of the records are processed.
    pub(crate) half: Mark,
    /// All of them are.
    pub(crate) last: Mark,
    /// All of it is committed.
    pub(crate) done: Usage,
}

impl Run {
    /// To be called at `done`: the memory is that of now.
    pub(crate) fn fields(&self) -> Result<Fields> {
        let Self { first, half, last, done } = self;
        let (all, later) = (last.records - first.records, last.records - half.records);
        let (seconds, cpu) = (last.usage.seconds_since(first.usage), done.cpu_since(first.usage));
        let half_seconds = last.usage.seconds_since(half.usage);
        let fields = [
            ("records", all.into()),
            ("seconds", rounded(seconds)),
            ("records_per_s", rounded(all as f64 / seconds)),
            ("cpu", rounded(cpu)),
            ("records_per_cpu_s", rounded(all as f64 / cpu)),
            ("half2_records_per_s", rounded(later as f64 / half_seconds)),
            ("half2_records_per_cpu_s", rounded(later as f64 / done.cpu_since(half.usage))),
            ("drain_s", rounded(done.seconds_since(last.usage))),
            ("cpu_whole_process", rounded(done.cpu())),
            ("peak_rss_mb", rounded(memory_mb("VmHWM")?)),
            ("rss_mb", rounded(memory_mb("VmRSS")?)),
        ];
        Ok(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
    }
}
