//! Kafka's jars: resolved once by Maven into the cache.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache::{cache, publish, remove_dir, write};
use crate::error::{Error, ErrorKind, Result};
use crate::java::{Java, missing};

/// The version of Kafka that is started here.
pub const VERSION: &str = "4.4.0";

const POM: &str = include_str!("pom.xml");

/// What of Maven copies jars.
const COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Kafka's jars and a Java that runs them.
#[derive(Clone, Debug)]
pub struct Jars {
    java: Java,
    home: PathBuf,
}

impl Jars {
    /// Those in the cache; fetched by Maven first if they are not there (some 126 MB, once). Of several processes that
    /// find them missing, one fetches and the others wait for it.
    pub fn resolve() -> Result<Self> {
        let java = Java::find()?;
        let home = home()?;
        publish(&home, fetch)?;
        Ok(Self { java, home })
    }

    /// Those in the cache, without a look at the network.
    pub fn cached() -> Result<Self> {
        let java = Java::find()?;
        let home = home()?;
        if !home.is_dir() {
            let what = format!("the jars of Kafka {VERSION} are not in the cache: `cargo xtask setup` fetches them");
            return Err(Error::new(ErrorKind::Jars, what));
        }
        Ok(Self { java, home })
    }

    /// The directory that holds them.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A command that runs one of Kafka's classes, say `org.apache.kafka.tools.TopicCommand`. It logs errors only.
    #[must_use]
    pub fn tool(&self, class: &str) -> Command {
        self.class(class, &["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"])
    }

    /// A command that runs a class under these options of the JVM.
    pub(crate) fn class(&self, class: &str, options: &[&str]) -> Command {
        let path = OsString::from(self.home.join("*"));
        let mut command = self.java.command("java");
        command.args(options).arg("-cp").arg(path).arg(class);
        command
    }

    pub(crate) fn keytool(&self) -> Command {
        self.java.command("keytool")
    }
}

/// Runs a short program to its end. What it said goes into the error.
pub(crate) fn run(command: &mut Command, kind: ErrorKind, what: &str) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| missing(&program, error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Err(Error::new(kind, format!("{what}: {}", said.trim())))
}

fn home() -> Result<PathBuf> {
    Ok(cache()?.join(format!("kafka-{VERSION}")))
}

/// Lets Maven copy the jars into the directory.
fn fetch(stage: &Path) -> Result<()> {
    let project = stage.with_extension("pom");
    remove_dir(&project)?;
    std::fs::create_dir_all(&project).map_err(|error| Error::io("cannot create", &project, error))?;
    let pom = project.join("pom.xml");
    write(&pom, &POM.replace("@VERSION@", VERSION))?;
    let mut output = OsString::from("-DoutputDirectory=");
    output.push(stage);
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-Dstyle.color=never", COPY, "-f"]).arg(&pom).arg(output);
    eprintln!("kafka: fetching the jars of Kafka {VERSION} by Maven (126 MB, once)");
    let copied = maven.stdin(Stdio::null()).output().map_err(|error| {
        let what = "cannot run `mvn`: install Maven (Debian: apt-get install maven)";
        Error::new(ErrorKind::Jars, what).caused_by(error)
    })?;
    remove_dir(&project)?;
    if copied.status.success() && stage.join(format!("kafka_2.13-{VERSION}.jar")).is_file() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&copied.stdout);
    Err(Error::new(ErrorKind::Jars, format!("Maven could not fetch Kafka {VERSION}: {}", explain(&said))))
}

/// The first error that Maven names, with the remedy for the most common one.
fn explain(said: &str) -> String {
    let mut errors = said.lines().filter_map(|line| line.split_once("[ERROR] ")).map(|(_, error)| error.trim());
    let first = errors.find(|error| !error.is_empty()).unwrap_or("it did not say why");
    let network = ["Could not transfer", "Unknown host", "Connection refused", "timed out", "could not be resolved"];
    let remedy = if network.iter().any(|sign| said.contains(sign)) {
        "see to the network, or name a mirror or proxy in ~/.m2/settings.xml"
    } else {
        "`mvn -version` must work with Java 17 or later"
    };
    format!("{first}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mavens_failure_is_told_with_its_remedy() {
        let said = "[INFO] x\n[ERROR] \n\u{1b}[m[ERROR] Failed to execute goal: Could not transfer artifact a: Unknown host b\n[ERROR] more";
        let text = explain(said);
        assert!(text.starts_with("Failed to execute goal") && text.contains("network"), "{text}");
        assert!(!text.contains("more"), "{text}");
        assert!(explain("[ERROR] No compiler").contains("mvn -version"));
    }

    #[test]
    fn the_pom_asks_for_the_version_that_we_start() {
        let pom = POM.replace("@VERSION@", VERSION);
        assert_eq!(pom.matches("<version>4.4.0</version>").count(), 2);
    }
}
