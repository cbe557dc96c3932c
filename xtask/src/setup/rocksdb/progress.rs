//! Shows how far a long build is: one line that moves on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use crate::clock::spell;

/// What one core needs for all files, measured on a 2.6 GHz machine.
const CORE_SECONDS: u64 = 1_840;

/// The view of one build.
pub(super) struct Progress {
    total: usize,
    moves: bool,
    /// Tenths already told, for plain lines.
    told: usize,
}

impl Progress {
    pub(super) fn start(total: usize, log: &Path) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let expected = spell(Duration::from_secs(CORE_SECONDS / cores));
        eprintln!(
            "setup: building RocksDB, once for all checkouts: {total} C++ files, about {expected} on {cores} cores"
        );
        eprintln!("setup: its output goes to {}", log.display());
        Self { total, moves: std::io::stderr().is_terminal(), told: 0 }
    }

    pub(super) fn show(&mut self, done: usize, elapsed: Duration) {
        let line = line(done, self.total, elapsed);
        if self.moves {
            eprint!("\r\x1b[K{line}");
            std::io::stderr().flush().ok();
        } else if tenths(done, self.total) > self.told {
            self.told = tenths(done, self.total);
            eprintln!("{line}");
        }
    }

    pub(super) fn end(&self) {
        if self.moves {
            eprintln!();
        }
    }
}

fn tenths(done: usize, total: usize) -> usize {
    done * 10 / total.max(1)
}

fn line(done: usize, total: usize, elapsed: Duration) -> String {
    let share = done * 100 / total.max(1);
    let so_far = format!("setup: RocksDB {share} % ({done} of {total} files), {}", spell(elapsed));
    // The first files say little about the rest.
    if share < 3 {
        return so_far;
    }
    let left = elapsed.mul_f64(total.saturating_sub(done) as f64 / done.max(1) as f64);
    format!("{so_far}, about {} to go", spell(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_the_pace() {
        assert_eq!(line(2, 343, Duration::from_secs(20)), "setup: RocksDB 0 % (2 of 343 files), 20 s");
        let half = line(50, 100, Duration::from_secs(90));
        assert_eq!(half, "setup: RocksDB 50 % (50 of 100 files), 1 min 30 s, about 1 min 30 s to go");
        assert!(line(100, 100, Duration::from_secs(90)).ends_with("about 0 s to go"));
    }

    #[test]
    fn more_files_than_expected_or_none_do_no_harm() {
        assert!(line(120, 100, Duration::from_secs(9)).ends_with("about 0 s to go"));
        assert_eq!(line(0, 0, Duration::ZERO), "setup: RocksDB 0 % (0 of 0 files), 0 s");
    }
}
