//! The two calls of the C library that no safe crate offers: the only unsafe code of this crate.
#![expect(unsafe_code, reason = "D17: one module holds it, each block with its reason")]

/// The number of files that this process may have open.
#[cfg(unix)]
pub(crate) fn descriptor_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `getrlimit` writes one `rlimit` to the pointer, which is valid for the call, and keeps nothing.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (answer == 0).then_some(limit.rlim_cur)
}

/// The number of files that this process may have open: unknown here.
#[cfg(not(unix))]
pub(crate) fn descriptor_limit() -> Option<u64> {
    None
}

/// Gives freed memory back to the system.
///
/// RocksDB's blocks are freed by other threads than took them; glibc keeps such memory, up to twice the budget was
/// measured. Trimmed once a second it stays within it, at full speed. Other C libraries need no such call.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn trim_heap() {
    // SAFETY: `malloc_trim` takes the allocator's own locks, may be called from any thread and touches no live memory.
    unsafe { libc::malloc_trim(0) };
}

/// Gives freed memory back to the system: nothing to do with this C library.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn trim_heap() {}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn the_descriptor_limit_is_read() {
        assert!(super::descriptor_limit().unwrap() >= 20);
    }
}
