//! CPU clocks of the thread and of the process.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

/// CPU time that this thread has used.
pub fn thread_time() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time that all threads of this process have used.
pub fn process_time() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

fn duration(time: Timespec) -> Duration {
    Duration::try_from(time).unwrap_or_default()
}
