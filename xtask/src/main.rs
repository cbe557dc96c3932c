//! The commands of `cargo xtask`.
fn main() {}
