//! Finding a Java that runs Kafka, and what of it we call.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, ErrorKind, Result};

/// The oldest Java that runs a broker of this version.
const OLDEST: u32 = 17;

/// The line to type, in the words of the most common system; others have packages of a similar name.
const REMEDY: &str =
    "install Java 17 or later (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one";

/// A Java that runs Kafka.
#[derive(Clone, Debug)]
pub(crate) struct Java {
    /// The directory of its programs, `None` when they are on the PATH.
    bin: Option<PathBuf>,
}

impl Java {
    /// The one of `JAVA_HOME`, or the one on the PATH, if it is young enough.
    pub(crate) fn find() -> Result<Self> {
        let home = std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
        let java = Self { bin: home.map(|home| Path::new(&home).join("bin")) };
        let output = java.command("java").arg("-version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| missing("java", error))?;
        let text = String::from_utf8_lossy(&output.stderr);
        match release(&text) {
            Some(release) if release >= OLDEST => Ok(java),
            Some(release) => Err(Error::new(ErrorKind::Java, format!("Java is too old: {REMEDY}; found=`{release}`"))),
            None => {
                let first = text.lines().next().unwrap_or_default();
                Err(Error::new(ErrorKind::Java, format!("`java -version` names no version: {REMEDY}; said=`{first}`")))
            }
        }
    }

    /// One of its programs, `java` or `keytool`.
    pub(crate) fn command(&self, program: &str) -> Command {
        match &self.bin {
            Some(bin) => Command::new(bin.join(program)),
            None => Command::new(program),
        }
    }
}

/// The error for a program of Java's that cannot be run.
pub(crate) fn missing(program: &str, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Java, format!("cannot run `{program}`: {REMEDY}")).caused_by(error)
}

/// The release in a line like `openjdk version "17.0.15" 2025-04-15`; releases before 9 are called 1.8 and the like.
fn release(text: &str) -> Option<u32> {
    let quoted = text.lines().find_map(|line| line.split_once(" version \"")).map(|(_, rest)| rest)?;
    let mut numbers = quoted.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        release => Some(release),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_what_java_says() {
        assert_eq!(release("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime"), Some(17));
        assert_eq!(release("Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava version \"21\" 2023-09-19 LTS"), Some(21));
        assert_eq!(release("openjdk version \"24-ea\" 2025-03-18"), Some(24));
        assert_eq!(release("java version \"1.8.0_392\""), Some(8));
        assert_eq!(release("The operation couldn't be completed. Unable to locate a Java Runtime."), None);
    }
}
