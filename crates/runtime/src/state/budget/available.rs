//! How much memory there is: the machine's, or less where a control group says so.

use std::io;
use std::path::{Path, PathBuf};

/// What is taken where nothing says how much memory there is (other systems than Linux).
const FALLBACK: u64 = 1 << 30;

/// Memory that the process may use, in bytes: of the machine, or of the tightest control group (version 1 or 2) that it is
/// in. `read` reads a file; the process's own answers come with [`std::fs::read_to_string`].
pub fn available_memory(read: &dyn Fn(&Path) -> io::Result<String>) -> u64 {
    let machine = read(Path::new("/proc/meminfo")).ok().and_then(|text| total_of_meminfo(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|file| limit_of_cgroup(&read(&file).ok()?));
    limits.chain(machine).min().unwrap_or(FALLBACK)
}

/// The machine's memory from `/proc/meminfo`, in bytes.
fn total_of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A control group's limit, in bytes. Version 2 writes `max` for none; version 1 writes a number beyond all memory, which
/// loses against the machine's.
fn limit_of_cgroup(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit > 0)
}

/// The files that may limit a process, from its `/proc/self/cgroup`: those of its groups and of all groups above them. In
/// a container the paths are often those of the host, and only the mount's root exists.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, file) = if number == "0" && controllers.is_empty() {
            ("/sys/fs/cgroup", "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let group = Path::new(path.trim_start_matches('/'));
        files.extend(group.ancestors().map(|above| Path::new(root).join(above).join(file)));
    }
    files
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn with(files: &[(&str, &str)]) -> u64 {
        let files: HashMap<_, _> = files.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect();
        available_memory(&|path| files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    const MACHINE: (&str, &str) =
        ("/proc/meminfo", "MemFree:    17 kB\nMemTotal:       16000000 kB\nSwapTotal: 0 kB\n");

    #[test]
    fn without_groups_it_is_the_machines() {
        assert_eq!(with(&[MACHINE]), 16_000_000 * 1024);
        assert_eq!(with(&[MACHINE, ("/proc/self/cgroup", "nonsense\n0:\n::\n")]), 16_000_000 * 1024);
    }

    #[test]
    fn where_nothing_is_known_it_is_a_gibibyte() {
        assert_eq!(with(&[]), FALLBACK);
        assert_eq!(with(&[("/proc/meminfo", "MemTotal: many kB")]), FALLBACK);
        assert_eq!(with(&[("/proc/meminfo", "MemTotal: 18446744073709551615 kB")]), FALLBACK);
    }

    #[test]
    fn the_tightest_group_of_version_2_counts() {
        let groups = ("/proc/self/cgroup", "0::/user.slice/app.scope\n");
        let own = ("/sys/fs/cgroup/user.slice/app.scope/memory.max", "max\n");
        let above = ("/sys/fs/cgroup/user.slice/memory.max", "536870912\n");
        assert_eq!(with(&[MACHINE, groups, own]), 16_000_000 * 1024);
        assert_eq!(with(&[MACHINE, groups, own, above]), 512 << 20);
        let own = ("/sys/fs/cgroup/user.slice/app.scope/memory.max", "1048576\n");
        assert_eq!(with(&[MACHINE, groups, own, above]), 1 << 20);
    }

    #[test]
    fn groups_of_version_1_count_and_no_limit_is_none() {
        let groups = ("/proc/self/cgroup", "9:cpu:/x\n4:hugetlb,memory:/api/abc\n0::/\n");
        let own = ("/sys/fs/cgroup/memory/api/abc/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(with(&[MACHINE, groups, own]), 16_000_000 * 1024);
        let root = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
        assert_eq!(with(&[MACHINE, groups, own, root]), 1 << 30);
    }

    #[test]
    fn inside_a_container_the_mounts_root_counts() {
        let groups = ("/proc/self/cgroup", "0::/kubepods/pod1/c1\n");
        assert_eq!(with(&[MACHINE, groups, ("/sys/fs/cgroup/memory.max", "2147483648")]), 2 << 30);
    }

    #[test]
    fn this_machine_has_some() {
        assert!(available_memory(&|path| std::fs::read_to_string(path)) > 1 << 20);
    }
}
