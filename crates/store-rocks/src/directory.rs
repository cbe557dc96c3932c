//! A shard's directory: what makes it ours, and what is said about one that is not.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind as Os, Write};
use std::path::{Path, PathBuf};

use millpond_store_api::{Error, ErrorKind, Result};

use crate::error::files;

/// The file that says what wrote the directory. It is written when the database exists and removed last, so it stands for
/// "there is a database": one that is missing then is damage, and never made anew over what is left of it.
const MARKER: &str = "FORMAT";
const MARKER_NEW: &str = "FORMAT.new";

/// The marker's first line, and the version on its second.
const MAGIC: &str = "millpond rocks";
const VERSION: u32 = 1;

/// The directory of RocksDB's own files.
const DATABASE: &str = "db";

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing, or a shard whose making was cut short.
    Nothing,
    /// A shard of this format.
    Shard,
}

/// Where RocksDB's files are.
pub(crate) fn database(dir: &Path) -> PathBuf {
    dir.join(DATABASE)
}

/// Looks at a directory and refuses what is not ours.
pub(crate) fn inspect(dir: &Path) -> Result<Found> {
    let op = "open shard";
    match fs::metadata(dir) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(refused(op, dir, "it is not a directory")),
        Err(e) if e.kind() == Os::NotFound => return Err(refused(op, dir, "there is no such directory")),
        Err(e) => return Err(files(op, dir, e)),
    }
    let marker = dir.join(MARKER);
    match fs::read_to_string(&marker) {
        Ok(text) => check(dir, &text).map(|()| Found::Shard),
        Err(e) if e.kind() == Os::NotFound => inspect_unmarked(dir),
        Err(e) if e.kind() == Os::InvalidData => Err(damaged(op, dir, "its FORMAT file is not text")),
        Err(e) => Err(files(op, &marker, e)),
    }
}

fn check(dir: &Path, text: &str) -> Result<()> {
    let op = "open shard";
    let mut lines = text.lines();
    let magic = lines.next().unwrap_or_default();
    let version = lines.next().and_then(|l| l.strip_prefix("format ")).and_then(|v| v.parse::<u32>().ok());
    match (magic, version) {
        (MAGIC, Some(VERSION)) => Ok(()),
        (MAGIC, Some(version)) => Err(refused(op, dir, "its format is of another version of Millpond")
            .with("format", version)
            .with("known", VERSION)
            .with("remedy", "use the version that wrote it, or remove it and let the state be restored")),
        (MAGIC | "", None) => Err(damaged(op, dir, "its FORMAT file is incomplete")),
        _ => Err(refused(op, dir, "it holds files of another engine")
            .with("remedy", "give this shard an empty directory, or use the engine that wrote it")),
    }
}

fn inspect_unmarked(dir: &Path) -> Result<Found> {
    let op = "open shard";
    for entry in fs::read_dir(dir).map_err(|e| files(op, dir, e))? {
        let name = entry.map_err(|e| files(op, dir, e))?.file_name();
        if name != DATABASE && name != MARKER_NEW {
            return Err(refused(op, dir, "it holds files that are not of a shard")
                .with("file", name.display())
                .with("remedy", "give this shard an empty directory, or move the files away"));
        }
    }
    // A shard that was being made has no table yet.
    let database = database(dir);
    match fs::read_dir(&database) {
        Ok(mut entries) => {
            let tables =
                entries.any(|e| e.is_ok_and(|e| Path::new(&e.file_name()).extension().is_some_and(|x| x == "sst")));
            if tables { Err(damaged(op, dir, "its FORMAT file is missing")) } else { Ok(Found::Nothing) }
        }
        Err(e) if e.kind() == Os::NotFound => Ok(Found::Nothing),
        Err(e) => Err(files(op, &database, e)),
    }
}

/// Makes a directory that only this user can enter: state is business data.
pub(crate) fn make(op: &'static str, dir: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(|e| files(op, dir, e))
}

/// Makes the directory of RocksDB's files, unless a making that was cut short has left it.
pub(crate) fn make_database(op: &'static str, dir: &Path) -> Result<()> {
    let database = database(dir);
    if database.is_dir() { Ok(()) } else { make(op, &database) }
}

/// Marks a directory whose database exists as a shard; survives a power cut once it returns.
pub(crate) fn mark(op: &'static str, dir: &Path) -> Result<()> {
    let marked = || -> io::Result<()> {
        let new = dir.join(MARKER_NEW);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&new)?;
        file.write_all(format!("{MAGIC}\nformat {VERSION}\n").as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, dir.join(MARKER))?;
        File::open(dir)?.sync_all()
    };
    marked().map_err(|e| files(op, dir, e))
}

/// Removes what is left of a shard once RocksDB has removed its files. The directory itself is the caller's.
pub(crate) fn clear(op: &'static str, dir: &Path) -> Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(e) if e.kind() != Os::NotFound => Err(files(op, dir, e)),
        _ => Ok(()),
    };
    gone(fs::remove_dir_all(database(dir)))?;
    gone(fs::remove_file(dir.join(MARKER_NEW)))?;
    gone(fs::remove_file(dir.join(MARKER)))
}

#[cold]
pub(crate) fn refused(op: &'static str, dir: &Path, reason: &str) -> Error {
    Error::new(ErrorKind::Invalid, op).with("dir", dir.display()).with("reason", reason)
}

#[cold]
fn damaged(op: &'static str, dir: &Path, reason: &str) -> Error {
    Error::new(ErrorKind::Corrupt, op).with("dir", dir.display()).with("reason", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuses(dir: &Path, kind: ErrorKind, says: &str) {
        let error = inspect(dir).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says) && error.to_string().contains(&dir.display().to_string()), "{error}");
    }

    #[test]
    fn an_empty_directory_becomes_a_shard_by_its_marker() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        assert_eq!(inspect(dir).unwrap(), Found::Nothing);
        make_database("test", dir).unwrap();
        make_database("test", dir).unwrap();
        fs::write(dir.join(MARKER_NEW), "half").unwrap();
        assert_eq!(inspect(dir).unwrap(), Found::Nothing, "a making that was cut short");
        mark("test", dir).unwrap();
        assert_eq!(inspect(dir).unwrap(), Found::Shard);
        clear("test", dir).unwrap();
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_what_is_made() {
        use std::os::unix::fs::PermissionsExt;
        let temp = tempfile::tempdir().unwrap();
        make_database("test", temp.path()).unwrap();
        mark("test", temp.path()).unwrap();
        let mode = |p: PathBuf| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(database(temp.path())), mode(temp.path().join(MARKER))), (0o700, 0o600));
    }

    #[test]
    fn what_is_not_ours_is_refused_by_name() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        refuses(&dir.join("none"), ErrorKind::Invalid, "no such directory");
        fs::write(dir.join("file"), "x").unwrap();
        refuses(&dir.join("file"), ErrorKind::Invalid, "not a directory");
        refuses(dir, ErrorKind::Invalid, "not of a shard");
        fs::remove_file(dir.join("file")).unwrap();
        for (text, kind, says) in [
            ("millpond slate\nformat 1\n", ErrorKind::Invalid, "another engine"),
            ("millpond rocks\nformat 2\n", ErrorKind::Invalid, "format=`2`"),
            ("millpond rocks\n", ErrorKind::Corrupt, "incomplete"),
            ("", ErrorKind::Corrupt, "incomplete"),
        ] {
            fs::write(dir.join(MARKER), text).unwrap();
            refuses(dir, kind, says);
        }
    }

    #[test]
    fn tables_without_a_marker_are_damage() {
        let temp = tempfile::tempdir().unwrap();
        make_database("test", temp.path()).unwrap();
        fs::write(database(temp.path()).join("000007.sst"), "rows").unwrap();
        refuses(temp.path(), ErrorKind::Corrupt, "missing");
    }
}
