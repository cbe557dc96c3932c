//! As `memory`, with jemalloc in place of the system's allocator, for the C++ of RocksDB as well.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    millpond_bench::memory::program(std::env::args().skip(1))
}
