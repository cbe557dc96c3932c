//! The tests of the example, from its data to its program.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a panic is how a test reports")]

mod data;
mod end_to_end;
mod expected;
mod parts;
mod program;

/// What the program must print for January.
pub(crate) const JANUARY_JSON: &str = include_str!("january.json");
