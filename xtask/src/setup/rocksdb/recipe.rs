//! Which RocksDB: the version and the features that the workspace asks for, and the project that builds just that.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::create_dir;
use super::SYS;
use crate::cargo::{command, output, root, workspace};
use crate::error::{Error, Result};

/// A build of RocksDB.
pub(super) struct Recipe {
    /// Names the build in the cache: everything that would make another library.
    pub(super) key: String,
    /// The dependency line of the throw-away project.
    pub(super) dependency: String,
    /// A lock file to start from, so that the build's own dependencies are the workspace's too.
    pub(super) lock: Option<PathBuf>,
}

impl Recipe {
    /// Reads the features from the manifest of the crate that links RocksDB, the versions from the lock file.
    pub(super) fn of_workspace() -> Result<Self> {
        let lock = root().join("Cargo.lock");
        let locked = fs::read_to_string(&lock).map_err(|error| Error::io("cannot read", &lock, &error))?;
        let host = host(&output(command("rustc").arg("-vV"))?)?;
        Self::new(&features()?, &locked, &host).map(|recipe| Self { lock: Some(lock), ..recipe })
    }

    pub(super) fn new(features: &[String], locked: &str, host: &str) -> Result<Self> {
        let version = version_of("rocksdb", locked)?;
        let sys = version_of(SYS, locked)?;
        let list = features.iter().map(|feature| format!("{feature:?}")).collect::<Vec<_>>().join(", ");
        Ok(Self {
            key: format!("{SYS}-{sys}-{}-release-{host}", features.join("-")),
            dependency: format!(
                "rocksdb = {{ version = \"={version}\", default-features = false, features = [{list}] }}"
            ),
            lock: None,
        })
    }

    /// Writes a package that depends on the crate and does nothing.
    pub(super) fn write_project(&self, directory: &Path) -> Result<()> {
        let source = directory.join("src");
        create_dir(&source)?;
        let manifest = format!(
            "[package]\nname = \"rocksdb-build\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\n{}\n",
            self.dependency
        );
        write(&directory.join("Cargo.toml"), manifest.as_bytes())?;
        write(&source.join("lib.rs"), b"")?;
        if let Some(lock) = &self.lock {
            let locked = fs::read(lock).map_err(|error| Error::io("cannot read", lock, &error))?;
            write(&directory.join("Cargo.lock"), &locked)?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    fs::write(path, text).map_err(|error| Error::io("cannot write", path, &error))
}

fn features() -> Result<Vec<String>> {
    let packages = workspace()?;
    let dependencies = packages.iter().flat_map(|package| &package.dependencies);
    let rocksdb = dependencies.into_iter().find(|dependency| dependency.name == "rocksdb");
    let features = rocksdb.map(|dependency| dependency.features.clone());
    features.ok_or_else(|| Error::failed("no crate of the workspace depends on rocksdb"))
}

/// The version of the only package of this name in a lock file.
fn version_of(name: &str, locked: &str) -> Result<String> {
    let head = format!("name = \"{name}\"");
    let versions = locked.split("[[package]]").filter(|entry| entry.lines().any(|line| line == head));
    let versions = versions.filter_map(|entry| entry.lines().find_map(|line| line.strip_prefix("version = ")));
    match versions.collect::<Vec<_>>().as_slice() {
        [version] => Ok(version.trim_matches('"').to_owned()),
        [] => Err(Error::failed(format!("Cargo.lock names no {name}: `cargo metadata` brings it up to date"))),
        _ => Err(Error::failed(format!("Cargo.lock names several versions of {name}: only one can be linked"))),
    }
}

fn host(version: &str) -> Result<String> {
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Error::failed("`rustc -vV` names no host"))
}
