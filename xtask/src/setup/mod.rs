//! `setup`: what the other commands need, installed once and found again quickly.

mod rocksdb;
mod system;
pub(crate) mod tools;

use std::path::{Path, PathBuf};

use millpond_kafka_dev::Jars;

use crate::error::{Error, Result};

/// Sees to everything.
pub(crate) fn run() -> Result<()> {
    for tool in [tools::NEXTEST, tools::DENY] {
        println!("{}: {}", tool.name, tool.path()?.display());
    }
    ensure_c()?;
    match ensure_kafka() {
        Ok(()) => println!("setup: all is there"),
        Err(error) => {
            let reason = error.message().unwrap_or("see above");
            println!("setup: all is there but Kafka, so tests that need a broker will be ignored: {reason}");
        }
    }
    Ok(())
}

/// Sees to what is needed to start a Kafka broker.
pub(crate) fn ensure_kafka() -> Result<()> {
    system::ensure(&[system::Need::Java, system::Need::Maven])?;
    let jars = Jars::resolve()?;
    println!("kafka: {}", jars.home().display());
    Ok(())
}

/// Sees to what is needed to compile and link RocksDB and librdkafka.
pub(crate) fn ensure_c() -> Result<()> {
    use system::Need::{Compiler, Libclang, Make, OpenSsl, PkgConfig, Zlib};
    system::ensure(&[Libclang, Compiler, Make, PkgConfig, OpenSsl, Zlib])?;
    rocksdb::ensure()
}

/// Where we keep what is expensive to make, outside of any target directory.
fn cache() -> Result<PathBuf> {
    Ok(millpond_kafka_dev::cache()?)
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
