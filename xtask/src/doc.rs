//! `doc`: the documentation, with warnings as errors.

use std::process::Command;

use crate::cargo::{WORKSPACE, cargo, run as run_command};
use crate::error::Result;
use crate::setup;

/// What `cargo xtask doc` takes.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct DocOptions {
    pub(crate) all: bool,
    pub(crate) open: bool,
}

/// Builds the documentation of what needs no C, or of everything.
pub(crate) fn run(options: &DocOptions) -> Result<()> {
    let mut command = strict();
    if options.all {
        setup::ensure_c()?;
        command.args(WORKSPACE).arg("--all-features");
    }
    if options.open {
        command.arg("--open");
    }
    run_command(&mut command)
}

/// `cargo doc` without dependencies, where a broken link is an error.
pub(crate) fn strict() -> Command {
    let mut command = cargo(&["doc", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}
