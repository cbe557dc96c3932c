//! A shard's directory: one file of redb, and a marker that says whose it is.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use millpond_store_api::{Error, ErrorKind, Result};

use crate::error;

/// What the marker holds: the engine and the version of its format.
const FORMAT: &str = "millpond custom engine, format 1\n";

/// The directory of a shard.
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where redb keeps everything.
    pub(crate) fn rows(&self) -> PathBuf {
        self.path.join("rows.redb")
    }

    /// Written last when a shard is made, so it says that a database was here.
    fn marker(&self) -> PathBuf {
        self.path.join("FORMAT")
    }

    /// Refuses what another engine or a later version wrote, and notices that the database is gone: it must not be made anew
    /// in silence.
    pub(crate) fn check(&self) -> Result<()> {
        let has_rows = self.rows().try_exists().map_err(|e| self.failed(e))?;
        match fs::read(self.marker()) {
            Ok(marker) if marker != FORMAT.as_bytes() => {
                let error = self.error(ErrorKind::Invalid, "the directory is of another version of this engine");
                Err(error.with("remedy", "use the version that wrote it"))
            }
            Ok(_) if !has_rows => Err(self.error(ErrorKind::Corrupt, "the file of the rows is missing")),
            Ok(_) => Ok(()),
            // A kill while the shard was made, before anybody had it: redb goes on with what is there.
            Err(e) if e.kind() == io::ErrorKind::NotFound && has_rows => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.check_empty(),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn check_empty(&self) -> Result<()> {
        let mut files = fs::read_dir(&self.path).map_err(|e| self.failed(e))?;
        match files.find(|file| !file.as_ref().is_ok_and(|file| file.path() == self.draft())) {
            None => Ok(()),
            Some(Ok(_)) => Err(self.error(ErrorKind::Invalid, "the directory holds files of something else")),
            Some(Err(e)) => Err(self.failed(e)),
        }
    }

    /// Says that the database is complete. A rename, so that the marker is there in full or not at all.
    pub(crate) fn mark(&self) -> Result<()> {
        let write = || {
            if self.marker().try_exists()? {
                return Ok(());
            }
            let mut draft = File::create(self.draft())?;
            draft.write_all(FORMAT.as_bytes())?;
            draft.sync_all()?;
            fs::rename(self.draft(), self.marker())?;
            // The names are durable when their directory is.
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|e| self.failed(e))
    }

    fn draft(&self) -> PathBuf {
        self.path.join("FORMAT.new")
    }

    /// Deletes both files. The marker goes last: between the two the shard is damaged, and does not come back.
    pub(crate) fn remove(&self) -> Result<()> {
        let gone = |path: PathBuf| match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.failed(e)),
            _ => Ok(()),
        };
        gone(self.rows())?;
        gone(self.marker())
    }

    fn error(&self, kind: ErrorKind, reason: &'static str) -> Error {
        Error::new(kind, "open shard").with("dir", self.path.display()).with("reason", reason)
    }

    fn failed(&self, cause: io::Error) -> Error {
        error::of("use shard directory", cause).with("dir", self.path.display())
    }
}
