//! A task's directory, held by a guard: its shards, their replacement and removal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Shared;
use super::current::{Current, is_engine, shard_dir_name};
use super::files::{list, make_dir, remove, rename, sync_dir};
use crate::state::error::{Result, StateError, StateErrorKind};
use crate::task::TaskId;

/// How the name of a directory begins that is not used any more and may be removed at any time.
pub(super) const QUARANTINE: &str = "quarantine-";

/// The right to a task's directory, from [`StateDir::lock`](super::StateDir::lock): at most one in a process, and only its
/// holder changes or removes anything. Given back when dropped. `Send`: it moves with its task.
pub struct TaskLock {
    shared: Arc<Shared>,
    task: TaskId,
}

impl TaskLock {
    /// Takes the right, or says that it is taken.
    pub(super) fn take(shared: &Arc<Shared>, task: TaskId) -> Result<Self> {
        if shared.held().insert(task) {
            return Ok(Self { shared: Arc::clone(shared), task });
        }
        Err(StateError::new(StateErrorKind::Locked, "lock task directory")
            .with("path", shared.task_dir(task).display())
            .with("holder", "another worker of this process")
            .with("remedy", "try again when it has closed the task"))
    }

    /// The task.
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// The task's directory, whether or not it exists.
    pub fn dir(&self) -> PathBuf {
        self.shared.task_dir(self.task)
    }

    /// The directory of the task's shard in an engine; the first call makes an empty one (mode 0700).
    ///
    /// # Errors
    ///
    /// [`StateErrorKind::Damaged`] if `CURRENT` cannot be read or names a directory that is gone: see
    /// [`TaskLock::replace`].
    pub fn shard_dir(&self, engine: &str) -> Result<PathBuf> {
        const OP: &str = "find shard directory";
        let dir = self.dir();
        make_dir(OP, &dir)?;
        let mut current = Current::read(OP, &dir)?.unwrap_or_default();
        let Some(number) = current.shards.get(engine) else { return new_shard(OP, &dir, &mut current, engine) };
        let shard = dir.join(format!("{engine}-{number}"));
        if shard.is_dir() {
            return Ok(shard);
        }
        Err(StateError::new(StateErrorKind::Damaged, OP)
            .with("path", shard.display())
            .with("remedy", "the directory is gone: replace the shard and restore it from its changelog"))
    }

    /// Gives the task a new, empty shard directory in an engine and sets the former one aside, in one step: whatever happens
    /// meanwhile, `CURRENT` names the former directory or the new one. The former shard must be closed.
    ///
    /// If `CURRENT` is damaged, all shards of the task are set aside, since nothing says which are whole. What was set aside
    /// goes with [`StateDir::sweep`](super::StateDir::sweep).
    pub fn replace(&self, engine: &str) -> Result<PathBuf> {
        const OP: &str = "replace shard directory";
        let dir = self.dir();
        make_dir(OP, &dir)?;
        let mut current = match Current::read(OP, &dir) {
            Err(error) if error.kind() == StateErrorKind::Damaged => Current::default(),
            read => read?.unwrap_or_default(),
        };
        let shard = new_shard(OP, &dir, &mut current, engine)?;
        quarantine_unnamed(OP, &dir, &current)?;
        Ok(shard)
    }

    /// Removes the task's directory with all its shards, which must be closed.
    pub fn remove(self) -> Result<()> {
        const OP: &str = "remove task directory";
        let dir = self.dir();
        if !dir.exists() {
            return Ok(());
        }
        // Renamed first: after a crash half a task does not look like one.
        let root = &self.shared.path;
        let aside = (1_u64..)
            .map(|n| root.join(format!("{QUARANTINE}{}-{n}", self.task)))
            .find(|path| !path.exists())
            .expect("fewer than 2^64 directories are set aside");
        rename(OP, &dir, &aside)?;
        sync_dir(OP, root)?;
        remove(OP, &aside)
    }
}

impl Drop for TaskLock {
    fn drop(&mut self) {
        self.shared.held().remove(&self.task);
    }
}

impl std::fmt::Debug for TaskLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskLock").field("task", &self.task).finish_non_exhaustive()
    }
}

/// Makes an empty shard directory with a number never used here, and names it in `CURRENT`.
fn new_shard(op: &'static str, dir: &Path, current: &mut Current, engine: &str) -> Result<PathBuf> {
    if !is_engine(engine) {
        return Err(StateError::new(StateErrorKind::Invalid, op)
            .with("engine", engine)
            .with("remedy", "an engine's name is lower-case letters, digits and `_`, a letter first"));
    }
    let used = list(op, dir)?.into_iter().filter_map(|(name, _)| {
        let (named, number) = shard_dir_name(name.strip_prefix(QUARANTINE).unwrap_or(&name))?;
        (named == engine).then_some(number)
    });
    let number = used.chain(current.shards.get(engine).copied()).max().map_or(1, |used| used.saturating_add(1));
    let shard = dir.join(format!("{engine}-{number}"));
    make_dir(op, &shard)?;
    current.shards.insert(engine.to_owned(), number);
    current.write(op, dir)?;
    Ok(shard)
}

/// Sets aside all shard directories that `CURRENT` does not name.
pub(super) fn quarantine_unnamed(op: &'static str, dir: &Path, current: &Current) -> Result<()> {
    let mut moved = false;
    for (name, path) in list(op, dir)? {
        if shard_dir_name(&name).is_some_and(|(engine, number)| !current.names(engine, number)) {
            rename(op, &path, &dir.join(format!("{QUARANTINE}{name}")))?;
            moved = true;
        }
    }
    if moved { sync_dir(op, dir) } else { Ok(()) }
}
