//! What is promised when clients, brokers and processes fail, step by step: each record counts once under exactly-once, and
//! what counts twice under at-least-once is bounded.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, also in what tests share")]

mod commit_outcome;
mod duplicates;
mod fencing;
mod markers;
mod offsets;
mod restoring;
mod state_dir;
mod support;
