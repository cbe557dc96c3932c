//! Tests of what is the embedded broker's own: faults, time, its log, threads.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]

mod common;
mod faults;
mod groups;
mod log;
mod threads;
