//! Running cargo and reading its metadata.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::error::{Error, Result};

/// The root of the repository that `cargo xtask` was called in.
pub(crate) fn root() -> PathBuf {
    // The variable of the running process comes first: a shared target directory may hold a binary of another checkout.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&manifest).parent().expect("xtask lies in the root of the repository").to_path_buf()
}

/// A cargo command in the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// A command in the root of the repository whose nested cargo sees the environment that a cargo typed by hand sees.
pub(crate) fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(set_by_outer_cargo) {
            command.env_remove(&name);
        }
    }
    command
}

/// `cargo run` sets these for us. A build script that watches one of them would run anew at every change between xtask
/// and plain cargo; and the RocksDB variables would be the ones from before `setup` wrote `.cargo/local.toml`.
fn set_by_outer_cargo(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "ROCKSDB_"].iter().any(|prefix| name.starts_with(prefix))
}

/// All packages that we build and check together. The Docker client of the one left out costs minutes of compiling and
/// serves nobody but `MILLPOND_TEST_KAFKA=docker cargo xtask test`, which builds it alone.
pub(crate) const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", DOCKER];

/// The package that starts a Kafka broker in a container.
pub(crate) const DOCKER: &str = "millpond-kafka-docker";

/// Shows the command, runs it on our terminal and fails with its exit code.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    eprintln!("$ {}", spell(command));
    let status = command.status().map_err(|error| cannot_run(command, &error))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Error::Child(u8::try_from(code).unwrap_or(1))),
        None => Err(Error::failed(format!("`{}` was ended by a signal", spell(command)))),
    }
}

/// Runs the command and returns what it wrote to its standard output; its errors go to our terminal.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| cannot_run(command, &error))?;
    if !output.status.success() {
        return Err(Error::failed(format!("`{}` failed: {}", spell(command), output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| Error::failed(format!("`{}` did not answer in UTF-8", spell(command))))
}

fn cannot_run(command: &Command, error: &std::io::Error) -> Error {
    Error::failed(format!("cannot run `{}`: {error}", spell(command)))
}

/// The command line as one would type it.
fn spell(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut line = program.to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// One package of the workspace, as far as our checks look at it.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: PathBuf,
    pub(crate) has_library: bool,
    /// Whether plain `cargo build` takes it.
    pub(crate) is_default: bool,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One entry of a package's dependency tables.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
    pub(crate) features: Vec<String>,
}

/// The table that a dependency stands in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    text(&metadata()?, "target_directory").map(PathBuf::from)
}

/// What cargo knows of the workspace, without a look at the network or the lock file.
fn metadata() -> Result<Value> {
    parse(&output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]))?)
}

/// The packages of the workspace.
pub(crate) fn workspace() -> Result<Vec<Package>> {
    let metadata = metadata()?;
    let defaults = strings(metadata.get("workspace_default_members"));
    list(metadata.get("packages")).iter().map(|package| read_package(package, &defaults)).collect()
}

/// Parses what cargo printed as JSON.
pub(crate) fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|error| Error::failed(format!("cargo metadata is not JSON: {error}")))
}

fn read_package(package: &Value, defaults: &[String]) -> Result<Package> {
    let dependencies = list(package.get("dependencies")).iter().map(read_dependency).collect::<Result<_>>()?;
    let kinds = list(package.get("targets")).iter().flat_map(|target| strings(target.get("kind")));
    Ok(Package {
        has_library: kinds.into_iter().any(|kind| kind == "lib"),
        name: text(package, "name")?,
        manifest: text(package, "manifest_path")?.into(),
        is_default: defaults.contains(&text(package, "id")?),
        dependencies,
    })
}

fn read_dependency(dependency: &Value) -> Result<Dependency> {
    let mut features = strings(dependency.get("features"));
    if dependency.get("uses_default_features").and_then(Value::as_bool) == Some(true) {
        features.push("default".to_owned());
    }
    features.sort();
    Ok(Dependency {
        name: text(dependency, "name")?,
        kind: match dependency.get("kind").and_then(Value::as_str) {
            Some("dev") => Kind::Dev,
            Some("build") => Kind::Build,
            _ => Kind::Normal,
        },
        optional: dependency.get("optional").and_then(Value::as_bool).unwrap_or(false),
        features,
    })
}

/// The string in a field of a metadata object.
pub(crate) fn text(value: &Value, field: &str) -> Result<String> {
    let text = value.get(field).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| Error::failed(format!("cargo metadata has no string field=`{field}`")))
}

/// The array in a field of a metadata object, empty if there is none.
pub(crate) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn strings(value: Option<&Value>) -> Vec<String> {
    list(value).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_commands_do_not_inherit_what_the_outer_cargo_set() {
        assert!(set_by_outer_cargo("CARGO_MANIFEST_DIR"));
        assert!(set_by_outer_cargo("ROCKSDB_LIB_DIR"));
        assert!(!set_by_outer_cargo("CARGO_TARGET_DIR"));
        assert!(!set_by_outer_cargo("CARGO_HOME"));
    }

    #[test]
    fn the_workspace_lists_xtask_as_a_default_member() {
        let packages = workspace().unwrap();
        let xtask = packages.iter().find(|package| package.name == "xtask").unwrap();
        assert!(xtask.is_default && !xtask.has_library);
        assert!(xtask.dependencies.iter().any(|dependency| dependency.name == "serde_json"));
    }

    #[test]
    fn the_target_directory_is_an_absolute_path() {
        assert!(target_directory().unwrap().is_absolute());
    }

    #[test]
    fn a_failing_child_passes_on_its_exit_code() {
        let error = run(Command::new("sh").args(["-c", "exit 7"])).unwrap_err();
        assert_eq!(error.exit_code(), 7);
        assert!(error.message().is_none());
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.message().unwrap().contains("no-such-program-here"));
    }
}
