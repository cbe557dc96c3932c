//! The flights demo.
fn main() {}
