//! RocksDB: compiled once into the cache, then only linked.
//!
//! Its sources come with the crate `librocksdb-sys`, whose build script takes a finished library instead when
//! `ROCKSDB_LIB_DIR` names its place. lz4 is not in that library: `lz4-sys` compiles it as ever, in seconds.

mod progress;
mod recipe;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use self::progress::Progress;
use self::recipe::Recipe;
use super::{cache, create_dir, lock, publish, remove_dir};
use crate::cargo::{cargo, list, output, parse, root, text};
use crate::clock::{Stopwatch, pause, spell};
use crate::error::{Error, Result};

const SYS: &str = "librocksdb-sys";
const LIBRARY: &str = "librocksdb.a";

/// What a local.toml of ours begins with; one that begins otherwise belongs to the developer.
const HEADER: &str = "# Written by `cargo xtask setup`, which writes it anew as long as it begins with this line.";

/// Sees to it that the library is in the cache and that `.cargo/local.toml` names it.
pub(super) fn ensure() -> Result<()> {
    let local = root().join(".cargo/local.toml");
    if is_the_developers(&local)? {
        return Ok(());
    }
    let recipe = Recipe::of_workspace()?;
    let home = cache()?.join("rocksdb").join(&recipe.key);
    if !is_complete(&home) {
        build(&recipe, &home)?;
    }
    write_if_changed(&local, &settings(&home)?)
}

/// Whether the developer has written the file, to link a RocksDB of their own.
fn is_the_developers(local: &Path) -> Result<bool> {
    match fs::read_to_string(local) {
        Ok(text) if text.starts_with(HEADER) => Ok(false),
        Ok(text) if text.contains("ROCKSDB_LIB_DIR") => Ok(true),
        Ok(_) => Err(Error::failed(format!(
            "{} is yours but sets no ROCKSDB_LIB_DIR: remove it, or set that, ROCKSDB_INCLUDE_DIR and ROCKSDB_STATIC",
            local.display()
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("cannot read", local, &error)),
    }
}

fn settings(home: &Path) -> Result<String> {
    let quoted = |path: PathBuf| match path.to_str() {
        Some(path) if !path.contains(['\'', '\n']) => Ok(format!("'{path}'")),
        _ => Err(Error::failed(format!("cargo's configuration cannot hold the path {}", path.display()))),
    };
    // `force`, since a cargo within a cargo inherits the values that the outer one read.
    Ok(format!(
        "{HEADER}\n[env]\nROCKSDB_LIB_DIR = {{ value = {}, force = true }}\n\
         ROCKSDB_INCLUDE_DIR = {{ value = {}, force = true }}\nROCKSDB_STATIC = {{ value = '1', force = true }}\n",
        quoted(home.join("lib"))?,
        quoted(home.join("include"))?,
    ))
}

fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).map_err(|error| Error::io("cannot write", path, &error))
}

/// A build is moved to its place when it is whole, so these two stand for the rest.
fn is_complete(home: &Path) -> bool {
    home.join("lib").join(LIBRARY).is_file() && home.join("include/rocksdb/c.h").is_file()
}

/// Compiles in a directory beside the final one, which appears at the end, whole.
fn build(recipe: &Recipe, home: &Path) -> Result<()> {
    let shelf = home.parent().expect("a build lies in the shelf of builds");
    create_dir(shelf)?;
    let _lock = lock(&shelf.join("lock"))?;
    if is_complete(home) {
        return Ok(());
    }
    let work = shelf.join(format!(".{}.building", recipe.key));
    remove_dir(&work)?;
    recipe.write_project(&work)?;
    let sources = source_directory(&work)?;
    let target = work.join("target");
    compile(&work, &target, &sources, &shelf.join(format!("{}.log", recipe.key)))?;

    let stage = work.join("stage");
    harvest(&target, &sources, &stage)?;
    publish(&stage, home)?;
    remove_dir(&work)
}

/// Where cargo has unpacked the crate; downloads it if need be.
fn source_directory(work: &Path) -> Result<PathBuf> {
    let metadata = parse(&output(nested(work).args(["metadata", "--quiet", "--format-version", "1"]))?)?;
    for package in list(metadata.get("packages")) {
        if text(package, "name")? == SYS {
            let manifest = PathBuf::from(text(package, "manifest_path")?);
            return Ok(manifest.parent().expect("a manifest lies in a directory").to_path_buf());
        }
    }
    Err(Error::failed(format!("the crate rocksdb no longer depends on {SYS}: xtask/src/setup/rocksdb.rs must follow")))
}

/// A cargo in the throw-away project, free of flags that would make the library fit this machine or build only.
fn nested(work: &Path) -> Command {
    let mut command = cargo(&[]);
    command.current_dir(work).env("CARGO_TERM_COLOR", "never");
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(name);
    }
    command
}

/// Runs the build with its output in a log file, and shows how far it is by counting object files.
fn compile(work: &Path, target: &Path, sources: &Path, log: &Path) -> Result<()> {
    let unlogged = |error: std::io::Error| Error::io("cannot write", log, &error);
    let file = File::create(log).map_err(unlogged)?;
    let mut command = nested(work);
    command.args(["build", "--release", "--package", SYS]).env("CARGO_TARGET_DIR", target).stdin(Stdio::null());
    command.stdout(file.try_clone().map_err(unlogged)?).stderr(file);
    let mut child = command.spawn().map_err(|error| Error::failed(format!("cannot run cargo: {error}")))?;

    let watch = Stopwatch::start();
    let mut progress = Progress::start(count_sources(sources)?, log);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => progress.show(count_objects(target), watch.elapsed()),
            Err(error) => return Err(Error::failed(format!("cannot wait for cargo: {error}"))),
        }
        pause(Duration::from_millis(500));
    };
    progress.end();
    if !status.success() {
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines = text.lines().collect::<Vec<_>>();
        let tail = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n");
        return Err(Error::failed(format!(
            "{tail}\nRocksDB did not build ({status}); all of it is in {}",
            log.display()
        )));
    }
    eprintln!("setup: RocksDB is built, in {}", spell(watch.elapsed()));
    Ok(())
}

/// The crate lists its C++ files, one a line; one of them stands in for another, so their number is right.
fn count_sources(sources: &Path) -> Result<usize> {
    let path = sources.join("rocksdb_lib_sources.txt");
    let text = fs::read_to_string(&path).map_err(|error| Error::io("cannot read", &path, &error))?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).count())
}

fn count_objects(target: &Path) -> usize {
    let objects = |out: PathBuf| files(&out).iter().filter(|file| file.extension().is_some_and(|e| e == "o")).count();
    out_directories(target).into_iter().map(objects).sum()
}

/// `target/release/build/librocksdb-sys-<hash>/out`, of which the build script's own compilation has none.
fn out_directories(target: &Path) -> Vec<PathBuf> {
    let builds = files(&target.join("release/build"));
    let ours = builds.into_iter().filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(SYS))
    });
    ours.map(|path| path.join("out")).filter(|path| path.is_dir()).collect()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
}

/// Copies the library and its headers, so that neither the target directory nor cargo's registry is needed again.
fn harvest(target: &Path, sources: &Path, stage: &Path) -> Result<()> {
    let built = out_directories(target).into_iter().map(|out| out.join(LIBRARY)).find(|library| library.is_file());
    let Some(library) = built else {
        return Err(Error::failed(format!("{SYS} was built, but left no {LIBRARY}: its build script has changed")));
    };
    let place = stage.join("lib");
    create_dir(&place)?;
    copy_file(&library, &place.join(LIBRARY))?;
    copy_tree(&sources.join("rocksdb/include"), &stage.join("include"))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    create_dir(to)?;
    for path in files(from) {
        let Some(name) = path.file_name() else { continue };
        if path.is_dir() {
            copy_tree(&path, &to.join(name))?;
        } else {
            copy_file(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map(|_| ()).map_err(|error| Error::io("cannot copy to", to, &error))
}
