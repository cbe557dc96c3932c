//! One measurement of resident memory in one process, with the system's allocator. `cargo xtask bench memory` runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    millpond_bench::memory::program(std::env::args().skip(1))
}
