//! Where we keep what is expensive to make, and how it gets there whole.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// The project's cache, outside of any target directory: `$XDG_CACHE_HOME/millpond` or `~/.cache/millpond`.
pub fn cache() -> Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| Path::new(value).is_absolute()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let what = "neither XDG_CACHE_HOME nor HOME is an absolute path: set one of them";
    Ok(base.ok_or_else(|| Error::new(ErrorKind::Usage, what))?.join("millpond"))
}

/// Sees to it that the directory is there with all that `fill` puts into it. Whoever looks sees all of it or nothing,
/// and of several processes one does the work while the others wait.
pub(crate) fn publish(home: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if home.is_dir() {
        return Ok(());
    }
    let _lock = lock(&home.with_added_extension("lock"))?;
    if home.is_dir() {
        return Ok(());
    }
    // A directory of this name is what a killed process has left.
    let stage = home.with_added_extension("new");
    remove_dir(&stage)?;
    create_private_dir(&stage)?;
    fill(&stage)?;
    fs::rename(&stage, home).map_err(|error| Error::io("cannot move what was made to its place", home, error))
}

/// Holds a lock file until dropped; the system frees it when the process dies.
fn lock(path: &Path) -> Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| Error::io("cannot create", parent, error))?;
    }
    let file = File::create(path).and_then(|file| file.lock().map(|()| file));
    file.map_err(|error| Error::io("cannot lock", path, error))
}

/// Creates a directory that only its owner may look into, with its parents. It must not be there.
pub(crate) fn create_private_dir(path: &Path) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| Error::io("cannot create", parent, error))?;
    }
    let created = fs::DirBuilder::new().mode(0o700).create(path);
    created.map_err(|error| Error::io("cannot create", path, error))
}

/// Removes a directory with all that is in it; a missing one is as good.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("cannot remove", path, error)),
        _ => Ok(()),
    }
}

/// Writes a whole file.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::io("cannot write", path, error))
}

/// A number that differs from call to call and from process to process: the standard library seeds its hash tables so.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_published_whole_or_not_at_all() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().join("cache/thing-1.0");
        let failed = publish(&home, |stage| {
            write(&stage.join("half"), "")?;
            Err(Error::new(ErrorKind::Jars, "no network"))
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Jars);
        assert!(!home.exists());
        publish(&home, |stage| write(&stage.join("whole"), "")).unwrap();
        assert!(home.join("whole").is_file() && !home.join("half").exists());
        publish(&home, |_| unreachable!("it is there already")).unwrap();
    }
}
