//! A look at the process's resident memory, again and again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use millpond_runtime::{Spawner, SystemSpawner};

const EVERY: Duration = Duration::from_millis(10);

/// A thread that remembers the most it saw.
pub(super) struct Watch {
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Watch {
    pub(super) fn start() -> io::Result<Self> {
        let (peak, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (seen, end) = (Arc::clone(&peak), Arc::clone(&stop));
        let thread = SystemSpawner.spawn(
            "watch",
            Box::new(move || {
                while !end.load(Relaxed) {
                    if let Ok(bytes) = resident() {
                        seen.fetch_max(bytes, Relaxed);
                    }
                    pause(EVERY);
                }
            }),
        )?;
        Ok(Self { peak, stop, thread })
    }

    /// The most bytes that were resident since the last call.
    pub(super) fn peak_so_far(&self) -> u64 {
        self.peak.swap(0, Relaxed)
    }

    /// The most bytes that were resident since then.
    pub(super) fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("it only reads a file");
        self.peak.load(Relaxed)
    }
}

/// The process's resident bytes.
pub(super) fn resident() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: Option<u64> = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
}

/// Lets others work before they are looked at again.
#[expect(clippy::disallowed_methods, reason = "what is measured runs in real time, on threads that tell nobody")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_given_back_was_seen() {
        let watch = Watch::start().unwrap();
        let before = resident().unwrap();
        let block = vec![7_u8; 64 << 20];
        for _ in 0..1000 {
            if watch.peak.load(Relaxed) >= before + (60 << 20) {
                break;
            }
            pause(EVERY);
        }
        drop(block);
        assert!(watch.stop() >= before + (60 << 20));
    }
}
