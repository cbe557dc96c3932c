//! What the benches share: CPU clocks, a job that is stepped by hand, an engine that costs nothing, a port that keeps nothing,
//! a store without a job; and the program that measures memory.
//!
//! The benches measure CPU time, not the time on the wall: other programs on the machine then cost only the caches they
//! disturb. How to run them, and what they said, is in `docs/performance.md`.

pub mod args;
mod cpu;
mod engine;
pub mod error;
mod job;
pub mod memory;
mod port;
mod store;

pub use cpu::{process_time, thread_time};
pub use engine::{EngineKind, Null};
pub use job::{Cost, Job, JobSettings, Sizing};
pub use port::NullPort;
pub use store::{Access, BenchStore};
