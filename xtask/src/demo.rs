//! `demo`: builds and runs the flights example.

use crate::cargo::{cargo, run as run_command};
use crate::error::Result;
use crate::setup;

/// Runs the demo with the options of the example; RocksDB is linked only when they ask for it.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut command = cargo(&["run", "--release", "--package", "millpond-example-flights"]);
    if wants_rocks(arguments) {
        setup::ensure_c()?;
        command.args(["--features", "rocks"]);
    }
    run_command(command.args(["--", "demo"]).args(arguments))
}

fn wants_rocks(arguments: &[String]) -> bool {
    let pair =
        arguments.windows(2).any(|pair| matches!(pair, [option, value] if option == "--engine" && value == "rocks"));
    pair || arguments.iter().any(|argument| argument == "--engine=rocks")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rocks_engine_asks_for_c() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(wants_rocks(&words("--threads 2 --engine rocks")));
        assert!(wants_rocks(&words("--engine=rocks")));
        assert!(!wants_rocks(&words("--engine mem --data rocks")));
        assert!(!wants_rocks(&[]));
    }
}
