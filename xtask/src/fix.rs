//! `fix`: what can be put right by machine.

use crate::cargo::{WORKSPACE, cargo, run as run_command};
use crate::error::Result;
use crate::setup;

/// Formats, then applies clippy's suggestions.
pub(crate) fn run() -> Result<()> {
    setup::ensure_c()?;
    run_command(&mut cargo(&["fmt", "--all"]))?;
    let mut clippy = cargo(&["clippy", "--fix", "--allow-dirty", "--allow-staged", "--all-targets", "--all-features"]);
    run_command(clippy.args(WORKSPACE))?;
    // A fix may leave a line too long.
    run_command(&mut cargo(&["fmt", "--all"]))
}
