//! `size`: an estimate of the room that a store takes.

use crate::cargo::{cargo, run as run_command};
use crate::error::Result;

/// Runs the program that has the estimate: xtask itself links nothing of the library.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--quiet", "--package", "millpond-runtime", "--example", "size", "--"]);
    run_command(command.args(arguments))
}
