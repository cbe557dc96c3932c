//! The tests of the topology crate that need a task: one program, so that its parts share their support.

mod support;

mod behaviour;
mod build_errors;
mod key_bytes;
mod processors;
mod rows;
mod sample;
mod topics;
mod verbs;
