//! The tests of the topology crate that need a task: one program, so that its parts share their support.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops where something is not as expected")]

mod support;

mod build_errors;
mod key_bytes;
mod names;
mod optimize;
mod processors;
mod rows;
mod sample;
mod sessions;
mod ttl;
mod value_kinds;
mod verbs;
mod versioned;
mod windows;
