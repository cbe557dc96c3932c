//! The criterion benches: those of `crates/bench`, and those that stand beside an engine's own database.

use crate::cargo::{cargo, run as run_command};
use crate::error::Result;
use crate::setup;

/// What `cargo xtask bench` takes for them.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct CriterionOptions {
    pub(crate) name: Option<String>,
    pub(crate) arguments: Vec<String>,
}

/// Where the benches are. Only an engine's own crate may reach for what lies below the engine.
const PACKAGES: [&str; 3] = ["millpond-bench", "millpond-store-mem", "millpond-store-rocks"];

/// Runs one bench target, or all of them.
pub(crate) fn run(options: &CriterionOptions) -> Result<()> {
    setup::ensure_c()?;
    let mut command = cargo(&["bench"]);
    command.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    // The pattern leaves out the libraries' own harnesses, which would refuse criterion's options.
    command.args(["--bench", options.name.as_deref().unwrap_or("*")]);
    run_command(command.arg("--").args(&options.arguments))
}
