//! What this process has used so far.

use std::time::Duration;

pub(crate) use millpond_bench::memory::pause;
use millpond_bench::process_time;
use millpond_broker_api::{Clock, SystemClock};

use crate::error::Result;

/// A moment: time on the wall, and CPU time (user and system, all threads) since the process began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    at: Duration,
    cpu: Duration,
}

impl Usage {
    pub(crate) fn seconds_since(self, earlier: Self) -> f64 {
        self.at.saturating_sub(earlier.at).as_secs_f64()
    }

    pub(crate) fn cpu_since(self, earlier: Self) -> f64 {
        self.cpu.saturating_sub(earlier.cpu).as_secs_f64()
    }

    pub(crate) fn cpu(self) -> f64 {
        self.cpu.as_secs_f64()
    }
}

/// Tells the usage; copies share their clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter(SystemClock);

impl Meter {
    pub(crate) fn now(&self) -> Usage {
        Usage { at: self.0.now(), cpu: process_time() }
    }
}

/// A line of `/proc/self/status` in 10⁶ bytes: `VmHWM` is the peak of the resident memory, `VmRSS` what it is now.
pub(crate) fn memory_mb(line: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(megabytes(&status, line).ok_or_else(|| format!("/proc/self/status has no number for {line}"))?)
}

fn megabytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib * 1024) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_millions_of_bytes() {
        let status = "Name:\tpeer\nVmHWMx:\t9 kB\nVmHWM:\t  1953125 kB\nVmRSS:\t1 kB\n";
        assert_eq!(megabytes(status, "VmHWM"), Some(2_000.0));
        assert_eq!(megabytes(status, "VmSwap"), None);
        assert!(memory_mb("VmHWM").unwrap() > 1.0, "the test itself takes more than a megabyte");
    }
}
