//! The criterion benches of `crates/bench`.

use crate::cargo::{cargo, run as run_command};
use crate::error::Result;
use crate::setup;

/// What `cargo xtask bench` takes for them.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct CriterionOptions {
    pub(crate) name: Option<String>,
    pub(crate) arguments: Vec<String>,
}

/// Runs one bench target, or all of them.
pub(crate) fn run(options: &CriterionOptions) -> Result<()> {
    setup::ensure_c()?;
    let mut command = cargo(&["bench", "--package", "millpond-bench", "--bench"]);
    // The pattern leaves out the library's own (empty) harness, which would refuse criterion's options.
    command.arg(options.name.as_deref().unwrap_or("*"));
    run_command(command.arg("--").args(&options.arguments))
}
