//! `setup`: what the other commands need, installed once and found again quickly.

mod rocksdb;
mod system;
pub(crate) mod tools;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Sees to everything.
pub(crate) fn run() -> Result<()> {
    for tool in [tools::NEXTEST, tools::DENY] {
        println!("{}: {}", tool.name, tool.path()?.display());
    }
    ensure_c()?;
    println!("setup: all is there");
    Ok(())
}

/// Sees to what is needed to compile and link RocksDB.
pub(crate) fn ensure_c() -> Result<()> {
    system::ensure(&[system::Need::Libclang, system::Need::Compiler])?;
    rocksdb::ensure()
}

/// Where we keep what is expensive to make, outside of any target directory.
fn cache() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| Path::new(value).is_absolute()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let base =
        base.ok_or_else(|| Error::failed("neither XDG_CACHE_HOME nor HOME is an absolute path: set one of them"))?;
    Ok(base.join("millpond"))
}

/// Creates a directory with its parents.
fn create_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Error::io("cannot create", path, &error))
}

/// Removes a directory with all that is in it; a missing one is as good.
fn remove_dir(path: &Path) -> Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("cannot remove", path, &error)),
        _ => Ok(()),
    }
}

/// Moves a finished directory to its place. Whoever looks there sees all of it or nothing.
fn publish(from: &Path, to: &Path) -> Result<()> {
    remove_dir(to)?;
    std::fs::rename(from, to).map_err(|error| Error::io("cannot move a finished build to", to, &error))
}

/// Holds a lock file in the cache until dropped; the system frees it when the process dies.
fn lock(path: &Path) -> Result<std::fs::File> {
    let failed = |error: &std::io::Error| Error::io("cannot lock", path, error);
    let file = std::fs::File::create(path).map_err(|error| failed(&error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            eprintln!("setup: another process is at it already, waiting for it ({})", path.display());
            file.lock().map_err(|error| failed(&error))?;
        }
        Err(std::fs::TryLockError::Error(error)) => return Err(failed(&error)),
    }
    Ok(file)
}
