//! The state directory of an application on this machine: locked, versioned, with a durable identity and a directory per
//! task.
//!
//! ```text
//! <state.dir>/<application.id>/
//!     FORMAT            what this directory is, and in which version
//!     lock              locked as long as a process uses the directory; names its process number
//!     process-id        the identity that a restarted process takes up again
//!     workers           the largest number of workers that ever ran here
//!     0_3/              a task
//!         CURRENT       which directory is the shard of each engine
//!         rocks-1/      a shard, the engine's own
//!         quarantine-…  what is not used any more
//!     quarantine-…
//! ```

mod current;
mod files;
mod task;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::{File, TryLockError};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::current::Current;
use self::files::{UNFINISHED, failed, list, open_private, remove};
use self::task::{QUARANTINE, quarantine_unnamed};
use super::error::{Result, StateError, StateErrorKind};
use crate::task::TaskId;

pub(crate) use self::files::{make_dir, read_file, replace_file};
pub use self::task::TaskLock;

/// The operation that most errors here belong to.
const OPEN: &str = "open state directory";

const FORMAT: &str = "FORMAT";
const FORMAT_NAME: &str = "millpond-state";
const FORMAT_VERSION: u32 = 1;
const LOCK: &str = "lock";
const PROCESS_ID: &str = "process-id";
const WORKERS: &str = "workers";

/// The state directory of an application, locked as long as this value or a [`TaskLock`] of it lives.
///
/// # Threading
///
/// Shared by all workers of the process. Whoever wants a task's directory takes its [`TaskLock`] first.
#[derive(Debug)]
pub struct StateDir {
    shared: Arc<Shared>,
    process_id: u128,
}

/// What the directory and its tasks' locks have in common.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    held: Mutex<HashSet<TaskId>>,
    /// Locked until it is closed.
    _lock: File,
}

impl Shared {
    fn task_dir(&self, task: TaskId) -> PathBuf {
        self.path.join(task.to_string())
    }

    fn held(&self) -> MutexGuard<'_, HashSet<TaskId>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task that has a directory here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskOnDisk {
    /// The task.
    pub task: TaskId,
    /// The engines in which it has a shard; none if its `CURRENT` is damaged.
    pub engines: Vec<String>,
    /// Whether a worker of this process holds it.
    pub locked: bool,
}

impl StateDir {
    /// Opens `<root>/<application_id>/`, or makes it (mode 0700, and what is missing above it), and locks it. `random`
    /// draws the identity of a new directory.
    ///
    /// What a crash left behind is cleaned: unfinished files and what was set aside go, a shard directory that `CURRENT`
    /// does not name is set aside.
    ///
    /// # Errors
    ///
    /// * [`StateErrorKind::Locked`]: another process has it, or another instance in this one.
    /// * [`StateErrorKind::Foreign`]: something else is there; it was not touched.
    /// * [`StateErrorKind::Future`]: a later release wrote it; it was not touched.
    /// * [`StateErrorKind::Damaged`]: the identity cannot be read.
    /// * [`StateErrorKind::Invalid`]: the application id is no name for a directory.
    /// * [`StateErrorKind::Denied`], [`StateErrorKind::Full`], [`StateErrorKind::Io`]: as the file system says.
    pub fn open(root: &Path, application_id: &str, random: &mut dyn FnMut() -> u128) -> Result<Self> {
        let path = root.join(dir_name(application_id)?);
        make_dir(OPEN, &path)?;
        let known = check_format(&path)?;
        let lock = lock(&path)?;
        if !known {
            replace_file(OPEN, &path, FORMAT, &format!("{FORMAT_NAME} {FORMAT_VERSION}\n"))?;
        }
        clean(&path)?;
        let process_id = process_id(&path, random)?;
        let shared = Shared { path, held: Mutex::default(), _lock: lock };
        Ok(Self { shared: Arc::new(shared), process_id })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The durable identity: drawn when the directory was made, the same ever since. Written as 32 hexadecimal digits.
    pub fn process_id(&self) -> u128 {
        self.process_id
    }

    /// Notes how many workers run now; answers the largest number noted before, 0 at first. Durable when it returns.
    pub fn note_workers(&self, workers: u32) -> Result<u32> {
        const OP: &str = "note the number of workers";
        let path = self.shared.path.join(WORKERS);
        let former = match read_file(OP, &path)? {
            None => 0,
            Some(text) => text.strip_suffix('\n').and_then(|text| text.parse().ok()).ok_or_else(|| {
                StateError::new(StateErrorKind::Damaged, OP).with("path", path.display()).with(
                    "remedy",
                    "write the largest number of workers that ever ran here into the file, and an end of line",
                )
            })?,
        };
        if workers > former {
            replace_file(OP, &self.shared.path, WORKERS, &format!("{workers}\n"))?;
        }
        Ok(former)
    }

    /// Takes a task's directory for the caller, whether or not it exists; [`StateErrorKind::Locked`] if a worker of this
    /// process has it.
    pub fn lock(&self, task: TaskId) -> Result<TaskLock> {
        TaskLock::take(&self.shared, task)
    }

    /// The tasks that have a directory here, in order.
    pub fn tasks(&self) -> Result<Vec<TaskOnDisk>> {
        const OP: &str = "list task directories";
        let mut tasks = Vec::new();
        for (name, path) in list(OP, &self.shared.path)? {
            let Some(task) = task_of(&name) else { continue };
            let current = match Current::read(OP, &path) {
                Err(error) if error.kind() == StateErrorKind::Damaged => None,
                read => read?,
            };
            let engines = current.unwrap_or_default().shards.into_keys().collect();
            tasks.push(TaskOnDisk { task, engines, locked: self.shared.held().contains(&task) });
        }
        tasks.sort_unstable_by_key(|found| found.task);
        Ok(tasks)
    }

    /// Removes what was set aside; may be called at any time, and may take long.
    pub fn sweep(&self) -> Result<()> {
        sweep("remove what was set aside", &self.shared.path)
    }
}

/// An application id as the name of a directory: Kafka allows no others in the topics' names.
fn dir_name(application_id: &str) -> Result<&str> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if application_id.is_empty() || matches!(application_id, "." | "..") || !application_id.bytes().all(allowed) {
        return Err(StateError::new(StateErrorKind::Invalid, OPEN)
            .with("application.id", application_id)
            .with("remedy", "use letters, digits, `.`, `_` and `-`"));
    }
    Ok(application_id)
}

/// True if the directory is one of ours, false if it is new.
fn check_format(path: &Path) -> Result<bool> {
    let foreign = |entry: &str| {
        StateError::new(StateErrorKind::Foreign, OPEN)
            .with("path", path.display())
            .with("entry", entry)
            .with("remedy", "set another state.dir or application.id, or move away what is there")
    };
    let Some(format) = read_file(OPEN, &path.join(FORMAT))? else {
        // A crash may have come between the lock and the format.
        let ours = |name: &str| name == LOCK || name.ends_with(UNFINISHED);
        return match list(OPEN, path)?.iter().find(|(name, _)| !ours(name)) {
            Some((name, _)) => Err(foreign(name)),
            None => Ok(false),
        };
    };
    let version =
        format.trim_end().strip_prefix(FORMAT_NAME).and_then(|version| version.trim_start().parse::<u32>().ok());
    match version {
        Some(FORMAT_VERSION) => Ok(true),
        Some(later) if later > FORMAT_VERSION => Err(StateError::new(StateErrorKind::Future, OPEN)
            .with("path", path.display())
            .with("format", later)
            .with("understood", FORMAT_VERSION)
            .with("remedy", "run the release that wrote it, or set another state.dir and restore from the changelogs")),
        _ => Err(foreign(FORMAT)),
    }
}

/// Locks the directory for this process and says in the file who has it.
fn lock(path: &Path) -> Result<File> {
    let lock_path = path.join(LOCK);
    let mut file = open_private(OPEN, &lock_path, false)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let me = std::process::id().to_string();
            let holder = match read_file(OPEN, &lock_path)?.as_deref().map(str::trim) {
                Some(holder) if holder == me => "another instance in this process".to_owned(),
                Some(holder) if !holder.is_empty() => format!("process {holder}"),
                _ => "another process".to_owned(),
            };
            return Err(StateError::new(StateErrorKind::Locked, OPEN)
                .with("path", path.display())
                .with("holder", holder)
                .with("remedy", "stop it, or give this instance another state.dir"));
        }
        Err(TryLockError::Error(error)) => {
            return Err(failed(OPEN, &lock_path, error)
                .with("remedy", "use a file system that can lock files, such as a local disk"));
        }
    }
    let holder = format!("{}\n", std::process::id());
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(holder.as_bytes()))
        .map_err(|error| failed(OPEN, &lock_path, error))?;
    Ok(file)
}

/// Cleans up after a crash.
fn clean(path: &Path) -> Result<()> {
    sweep(OPEN, path)?;
    for (name, task_dir) in list(OPEN, path)? {
        if name.ends_with(UNFINISHED) {
            remove(OPEN, &task_dir)?;
        } else if task_of(&name).is_some() && task_dir.is_dir() {
            remove(OPEN, &task_dir.join(format!("{}{UNFINISHED}", Current::FILE)))?;
            // What a damaged file names is for whoever takes the task to decide.
            match Current::read(OPEN, &task_dir) {
                Err(error) if error.kind() == StateErrorKind::Damaged => {}
                read => quarantine_unnamed(OPEN, &task_dir, &read?.unwrap_or_default())?,
            }
        }
    }
    Ok(())
}

/// Removes what was set aside in a state directory and its task directories.
fn sweep(op: &'static str, path: &Path) -> Result<()> {
    for (name, entry) in list(op, path)? {
        if name.starts_with(QUARANTINE) {
            remove(op, &entry)?;
        } else if task_of(&name).is_some() && entry.is_dir() {
            for (_, aside) in list(op, &entry)?.into_iter().filter(|(name, _)| name.starts_with(QUARANTINE)) {
                remove(op, &aside)?;
            }
        }
    }
    Ok(())
}

/// The identity in the directory, drawn and written if there is none.
fn process_id(path: &Path, random: &mut dyn FnMut() -> u128) -> Result<u128> {
    let Some(text) = read_file(OPEN, &path.join(PROCESS_ID))? else {
        let id = random();
        replace_file(OPEN, path, PROCESS_ID, &format!("{id:032x}\n"))?;
        return Ok(id);
    };
    let digits = text.strip_suffix('\n').filter(|digits| digits.len() == 32 && !digits.starts_with('+'));
    digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()).ok_or_else(|| {
        StateError::new(StateErrorKind::Damaged, OPEN).with("path", path.join(PROCESS_ID).display()).with(
            "remedy",
            "put the file back; or remove it, then this process counts as a new one and waits out the former one's session \
             and transactions",
        )
    })
}

/// The task whose directory has this name.
fn task_of(name: &str) -> Option<TaskId> {
    let (sub_topology, partition) = name.split_once('_')?;
    let task = TaskId { sub_topology: sub_topology.parse().ok()?, partition: partition.parse().ok()? };
    (task.partition >= 0 && task.to_string() == name).then_some(task)
}

const _: () = {
    const fn send<T: Send>() {}
    const fn sync<T: Sync>() {}
    send::<StateDir>();
    sync::<StateDir>();
    send::<TaskLock>();
};
