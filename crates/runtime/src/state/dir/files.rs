//! Small files and directories that are there whole or not at all, and for the owner only.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::state::error::{Result, StateError, StateErrorKind};

/// How a file's name ends until it is complete.
pub(super) const UNFINISHED: &str = ".tmp";

/// Adds the path, and for what is in the way a remedy.
pub(super) fn failed(op: &'static str, path: &Path, error: io::Error) -> StateError {
    let error = StateError::io(op, error).with("path", path.display());
    match error.kind() {
        StateErrorKind::Foreign => error.with("remedy", "remove what is in the way, or set another state.dir"),
        _ => error,
    }
}

/// Makes a directory (mode 0700) and those above it; one that is there stays as it is. The last name of the path is durable
/// when it returns.
pub(crate) fn make_dir(op: &'static str, dir: &Path) -> Result<()> {
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(failed(op, dir, ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(op, dir, error)),
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|error| failed(op, dir, error))?;
    dir.parent().map_or(Ok(()), |parent| sync_dir(op, parent))
}

/// Makes what was created, renamed or removed in a directory durable.
pub(super) fn sync_dir(op: &'static str, dir: &Path) -> Result<()> {
    // Only Unix opens directories as files; elsewhere names are durable when the call returns.
    if cfg!(unix) {
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(|error| failed(op, dir, error))
    } else {
        Ok(())
    }
}

/// Opens a file for writing, for the owner only, and makes it if it is not there.
pub(super) fn open_private(op: &'static str, path: &Path, truncate: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(truncate);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| failed(op, path, error))
}

/// Replaces a file: written beside it, synced, renamed over it, and the name synced.
pub(crate) fn replace_file(op: &'static str, dir: &Path, name: &str, text: &str) -> Result<()> {
    let unfinished = dir.join(format!("{name}{UNFINISHED}"));
    let mut file = open_private(op, &unfinished, true)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| failed(op, &unfinished, error))?;
    drop(file);
    fs::rename(&unfinished, dir.join(name)).map_err(|error| failed(op, &unfinished, error))?;
    sync_dir(op, dir)
}

/// A file's text, `None` if it is not there. Bytes that are no text are [`StateErrorKind::Damaged`].
pub(crate) fn read_file(op: &'static str, path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Some(String::new())),
        Err(error) => Err(failed(op, path, error)),
    }
}

/// Names and paths of what is in a directory, sorted; nothing if it is not there. Names that are no text are left out: they
/// are not ours.
pub(super) fn list(op: &'static str, dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed(op, dir, error))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(op, dir, error))?;
        if let Ok(name) = entry.file_name().into_string() {
            names.push((name, entry.path()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Renames within a directory; what is not there is no error.
pub(super) fn rename(op: &'static str, from: &Path, to: &Path) -> Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(op, from, error)),
        _ => Ok(()),
    }
}

/// Removes a file or a directory with all that is in it; what is not there is no error.
pub(super) fn remove(op: &'static str, path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(op, path, error)),
        _ => Ok(()),
    }
}
