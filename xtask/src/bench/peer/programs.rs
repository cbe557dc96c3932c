//! The programs that are measured, and those that help: how they are built and called.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::workload::{Contender, Group, Side};
use crate::cargo::{cargo, command, root, run, target_directory};
use crate::error::{Error, Result};
use crate::setup;

/// Heap of a Java application, and of a helper.
const APPLICATION_HEAP: &str = "2g";
const HELPER_HEAP: &str = "512m";

/// A value for a program: both take `name=value`, and the same names.
pub(super) type Argument = (&'static str, String);

/// What was built.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    millpond: PathBuf,
    class_path: String,
}

impl Programs {
    /// Builds both sides; the Java classes and what they need go beside cargo's own products.
    pub(super) fn build() -> Result<Self> {
        let target = target_directory()?;
        let java = target.join("peer");
        for program in ["java", "mvn"] {
            if !answers(program) {
                return Err(Error::failed(format!(
                    "`{program}` does not answer: install a JDK (17 or later) and Maven"
                )));
            }
        }
        let mut maven = command("mvn");
        maven.args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--file"]).arg(root().join("xtask/peer/pom.xml"));
        run(maven.arg(format!("-Dpeer.target={}", java.display())).arg("package"))?;
        setup::ensure_c()?;
        run(&mut cargo(&["build", "--release", "--package", "millpond-bench", "--bin", "peer"]))?;
        Ok(Self { millpond: target.join("release/peer"), class_path: class_path(&java) })
    }

    /// One measurement of a contender.
    pub(super) fn contender(&self, group: &Group, contender: &Contender, arguments: &[Argument]) -> Command {
        let (mut command, own) = match contender.side {
            Side::Millpond => (Command::new(&self.millpond), application(group, contender)),
            Side::Peer => (self.java(APPLICATION_HEAP, "StreamsApp"), application(group, contender)),
            Side::Raw { mode } => (Command::new(&self.millpond), vec![("mode", mode.to_owned())]),
        };
        match contender.side {
            Side::Millpond => drop(command.arg("streams")),
            Side::Raw { .. } => drop(command.arg("raw")),
            Side::Peer => {}
        }
        command.args(arguments.iter().chain(&own).map(|(name, value)| format!("{name}={value}")));
        command
    }

    /// A Java program that prepares or tidies up.
    pub(super) fn helper(&self, class: &str, arguments: &[Argument]) -> Command {
        let mut command = self.java(HELPER_HEAP, class);
        command.args(arguments.iter().map(|(name, value)| format!("{name}={value}")));
        command
    }

    fn java(&self, heap: &str, class: &str) -> Command {
        let mut command = Command::new("java");
        command.args([&format!("-Xmx{heap}"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"]);
        command.arg(&self.class_path).arg(format!("dev.millpond.peer.{class}"));
        command
    }
}

fn answers(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn class_path(java: &Path) -> String {
    format!("{}:{}", java.join("peer-1.jar").display(), java.join("lib/*").display())
}

/// What an application is told of its group and of itself.
fn application(group: &Group, contender: &Contender) -> Vec<Argument> {
    let mut own = vec![("job", group.workload.job().to_owned()), ("guarantee", group.guarantee.to_owned())];
    own.extend(contender.cache.map(|bytes| ("conf.statestore.cache.max.bytes", bytes.to_string())));
    own
}

#[cfg(test)]
mod tests {
    use super::super::workload::{Workload, groups};
    use super::*;

    #[test]
    fn both_sides_get_the_same_arguments() {
        let programs = Programs { millpond: "peer".into(), class_path: "classes".to_owned() };
        let line = |group: &Group, contender: &Contender| {
            let command = programs.contender(group, contender, &[("app", "a".to_owned())]);
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let count = groups(&[Workload::Count]);
        let group = count.first().unwrap();
        let lines: Vec<String> = group.contenders.iter().map(|contender| line(group, contender)).collect();
        let java =
            "java -Xmx2g -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp classes dev.millpond.peer.StreamsApp";
        assert_eq!(
            lines,
            [
                "peer streams app=a job=count guarantee=alos".to_owned(),
                format!("{java} app=a job=count guarantee=alos"),
                "peer streams app=a job=count guarantee=alos conf.statestore.cache.max.bytes=10485760".to_owned(),
                format!("{java} app=a job=count guarantee=alos conf.statestore.cache.max.bytes=0"),
            ]
        );
        let copy = groups(&[Workload::Copy]);
        let raw = |group: &Group| line(group, group.contenders.iter().find(|c| c.name == "raw loop").unwrap());
        let spelt: Vec<String> = copy.iter().map(raw).collect();
        assert_eq!(spelt, ["peer raw app=a mode=copy", "peer raw app=a mode=copy-eos"]);
    }
}
